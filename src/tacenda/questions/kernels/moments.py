"""Compiled second moments of all hosted nodes, on floats and on whole numbers, and mapped rows.

A triangle is packed row by row: (0, 0), (0, 1), .., (0, p-1), (1, 1), .., so that row a of the
matrix begins at a p - a (a - 1)/2. Every record is taken on its own and in order, so a node's
result is the same bit for bit in whichever block it is hosted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda._jit import FAST, FAST_INNER, njit
from tacenda.losses.formulas import clamped
from tacenda.questions.kernels.gradient import TOP, held, shrink, whole
from tacenda.questions.kernels.rows import add, weight_at

ROOT_TWO = math.sqrt(2.0)


@njit(**FAST_INNER)
def bounded_record(
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    j: int,
    norm: float,
    label_scale: float,
    label_bound: float,
    label_width: int,
    cut: float,
    z: Any,
) -> None:
    """z = sqrt(weight_j) (x_j cut to `norm`, label_scale * y_j with y_j cut to `label_bound`), all
    of it cut to `cut`; z = 0 where |x_j| is no finite number, and a label that is none counts as 0.

    z (p + label_width,): without the label for 0; of several classes, label_scale stands in the
    place of the class y_j, and zeros in those of the others.
    """
    z[:] = 0.0
    if not norms[j] < math.inf:
        return
    p = z.shape[0] - label_width
    factor = shrink(1.0, norms[j], norm)
    length = factor * norms[j]
    y, at = 0.0, p
    if label_width > 0:
        y = labels[j]
        if label_width == 1:
            y = clamped(y, -label_bound, label_bound) if abs(y) <= math.inf else 0.0
        elif 0.0 <= y < label_width:
            y, at = 1.0, p + int(y)
        else:
            y = 0.0
        y *= label_scale
        length = math.sqrt(length * length + y * y)
    shorter = shrink(1.0, length, cut) * math.sqrt(weight_at(weights, j))
    add(rows, j, factor * shorter, z, 0, p)
    if label_width > 0:
        z[at] = y * shorter


@njit(**FAST)
def second_moments(
    begin: int,
    end: int,
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    first: Any,
    last: Any,
    norm: float,
    label_scale: float,
    label_bound: float,
    label_width: int,
    width: int,
    divisors: Any,
    out: Any,
) -> None:
    """out[k] = (1/divisors[k]) sum of z z' over node k's records, packed, off-diagonals times
    sqrt(2); out (b, width (width + 1)/2) float64."""
    z = np.empty(width)
    for k in range(begin, end):
        total = out[k]
        total[:] = 0.0
        for j in range(first[k], last[k]):
            bounded_record(
                rows,
                labels,
                weights,
                norms,
                j,
                norm,
                label_scale,
                label_bound,
                label_width,
                math.inf,
                z,
            )
            at = 0
            for a in range(width):
                one, rest, line = z[a], z[a:], total[at : at + width - a]
                at += width - a
                if one != 0.0:
                    for b in range(width - a):
                        line[b] += one * rest[b]
        at = 0
        for a in range(width):
            line = total[at : at + width - a]
            at += width - a
            line[0] /= divisors[k]
            for b in range(1, width - a):
                line[b] = line[b] * ROOT_TWO / divisors[k]


@njit(**FAST)
def integer_moments(
    begin: int,
    end: int,
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    first: Any,
    last: Any,
    norm: float,
    label_scale: float,
    label_bound: float,
    label_width: int,
    width: int,
    cut: Any,
    grid: Any,
    out: Any,
) -> None:
    """out[k] = sum over node k's records of (packed z z' / grid[k]) rounded toward zero, each
    record cut to norm cut[k] first; out (b, width (width + 1)/2) int64, zero at the start.

    The sum stops at +-TOP. Each stop is a projection, so a record still moves the result by no more
    than its own numbers.
    """
    z = np.empty(width)
    for k in range(begin, end):
        total = out[k]
        most = cut[k] * cut[k] / grid[k]
        roomy = (last[k] - first[k]) * most < TOP
        for j in range(first[k], last[k]):
            bounded_record(
                rows,
                labels,
                weights,
                norms,
                j,
                norm,
                label_scale,
                label_bound,
                label_width,
                cut[k],
                z,
            )
            at = 0
            for a in range(width):
                rest, line = z[a:], total[at : at + width - a]
                at += width - a
                one = z[a] / grid[k]
                if one == 0.0:
                    continue
                line[0] = held(line[0] + whole(one * rest[0], most))
                one *= ROOT_TWO
                if roomy:
                    for b in range(1, width - a):
                        line[b] += whole(one * rest[b], most)
                else:
                    for b in range(1, width - a):
                        line[b] = held(line[b] + whole(one * rest[b], most))


@njit(**FAST)
def diagonals(
    begin: int,
    end: int,
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    first: Any,
    last: Any,
    norm: float,
    label_scale: float,
    label_bound: float,
    label_width: int,
    width: int,
    divisors: Any,
    out: Any,
) -> None:
    """out[k] = (1/divisors[k]) sum of (z_a^2)_a over node k's records; out (b, width) float64."""
    z = np.empty(width)
    for k in range(begin, end):
        total = out[k]
        total[:] = 0.0
        for j in range(first[k], last[k]):
            bounded_record(
                rows,
                labels,
                weights,
                norms,
                j,
                norm,
                label_scale,
                label_bound,
                label_width,
                math.inf,
                z,
            )
            for a in range(width):
                total[a] += z[a] * z[a]
        for a in range(width):
            total[a] /= divisors[k]


@njit(**FAST)
def integer_diagonals(
    begin: int,
    end: int,
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    first: Any,
    last: Any,
    norm: float,
    label_scale: float,
    label_bound: float,
    label_width: int,
    width: int,
    cut: Any,
    grid: Any,
    out: Any,
) -> None:
    """out[k] = sum over node k's records of (z_a^2 / grid[k])_a rounded toward zero, each record
    cut to norm cut[k] first; out (b, width) int64, zero at the start. The sum stops at TOP, as in
    `integer_moments`."""
    z = np.empty(width)
    for k in range(begin, end):
        total = out[k]
        most = cut[k] * cut[k] / grid[k]
        for j in range(first[k], last[k]):
            bounded_record(
                rows,
                labels,
                weights,
                norms,
                j,
                norm,
                label_scale,
                label_bound,
                label_width,
                cut[k],
                z,
            )
            for a in range(width):
                if z[a] != 0.0:
                    total[a] = held(total[a] + whole(z[a] / grid[k] * z[a], most))
