"""Compiled second moments of all hosted nodes, on floats and on whole numbers, and mapped rows.

A triangle is packed row by row: (0, 0), (0, 1), .., (0, p-1), (1, 1), .., so that row a of the
matrix begins at a p - a (a - 1)/2. Every record is taken on its own and in order, so a node's
result is the same bit for bit in whichever block it is hosted.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tacenda._jit import FAST, FAST_INNER, njit
from tacenda.losses.formulas import clamped
from tacenda.questions.kernels.gradient import TOP, held, shrink, whole
from tacenda.questions.kernels.rows import Columns, add, weight_at

ROOT_TWO = math.sqrt(2.0)


class Bounds(NamedTuple):
    """What a record is cut to, z (width,): its row to `norm`, its label to `label_bound`, times
    label_scale and in label_width places."""

    norm: float
    label_scale: float
    label_bound: float
    label_width: int
    width: int


@njit(**FAST_INNER)
def bounded_record(columns: Columns, j: int, bounds: Bounds, cut: float, z: Any) -> None:
    """z = sqrt(weight_j) (x_j cut to `norm`, label_scale * y_j with y_j cut to `label_bound`), all
    of it cut to `cut`; z = 0 where |x_j| is no finite number, and a label that is none counts as 0.

    z (p + label_width,): without the label for 0; of several classes, label_scale stands in the
    place of the class y_j, and zeros in those of the others.
    """
    z[:] = 0.0
    length = columns.norms[j]
    if not length < math.inf:
        return
    labels, bound = bounds.label_width, bounds.label_bound
    p = bounds.width - labels
    factor = shrink(1.0, length, bounds.norm)
    length *= factor
    y, at = 0.0, p
    if labels > 0:
        y = columns.labels[j]
        if labels == 1:
            y = clamped(y, -bound, bound) if abs(y) <= math.inf else 0.0
        elif 0.0 <= y < labels:
            y, at = 1.0, p + int(y)
        else:
            y = 0.0
        y *= bounds.label_scale
        length = math.sqrt(length * length + y * y)
    shorter = shrink(1.0, length, cut) * math.sqrt(weight_at(columns.weights, j))
    add(columns.rows, j, factor * shorter, z, 0, p)
    if labels > 0:
        z[at] = y * shorter


@njit(**FAST)
def second_moments(
    begin: int,
    end: int,
    columns: Columns,
    first: Any,
    last: Any,
    bounds: Bounds,
    divisors: Any,
    out: Any,
) -> None:
    """out[k] = (1/divisors[k]) sum of z z' over node k's records, packed, off-diagonals times
    sqrt(2); out (b, width (width + 1)/2) float64."""
    width = bounds.width
    z = np.empty(width)
    for k in range(begin, end):
        total = out[k]
        total[:] = 0.0
        for j in range(first[k], last[k]):
            bounded_record(columns, j, bounds, math.inf, z)
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
    columns: Columns,
    first: Any,
    last: Any,
    bounds: Bounds,
    cut: Any,
    grid: Any,
    out: Any,
) -> None:
    """out[k] = sum over node k's records of (packed z z' / grid[k]) rounded toward zero, each
    record cut to norm cut[k] first; out (b, width (width + 1)/2) int64, zero at the start.

    The sum stops at +-TOP. Each stop is a projection, so a record still moves the result by no more
    than its own numbers.
    """
    width = bounds.width
    z = np.empty(width)
    for k in range(begin, end):
        total = out[k]
        most = cut[k] * cut[k] / grid[k]
        roomy = (last[k] - first[k]) * most < TOP
        for j in range(first[k], last[k]):
            bounded_record(columns, j, bounds, cut[k], z)
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
    columns: Columns,
    first: Any,
    last: Any,
    bounds: Bounds,
    divisors: Any,
    out: Any,
) -> None:
    """out[k] = (1/divisors[k]) sum of (z_a^2)_a over node k's records; out (b, width) float64."""
    width = bounds.width
    z = np.empty(width)
    for k in range(begin, end):
        total = out[k]
        total[:] = 0.0
        for j in range(first[k], last[k]):
            bounded_record(columns, j, bounds, math.inf, z)
            for a in range(width):
                total[a] += z[a] * z[a]
        for a in range(width):
            total[a] /= divisors[k]


@njit(**FAST)
def integer_diagonals(
    begin: int,
    end: int,
    columns: Columns,
    first: Any,
    last: Any,
    bounds: Bounds,
    cut: Any,
    grid: Any,
    out: Any,
) -> None:
    """out[k] = sum over node k's records of (z_a^2 / grid[k])_a rounded toward zero, each record
    cut to norm cut[k] first; out (b, width) int64, zero at the start. The sum stops at TOP, as in
    `integer_moments`."""
    width = bounds.width
    z = np.empty(width)
    for k in range(begin, end):
        total = out[k]
        most = cut[k] * cut[k] / grid[k]
        for j in range(first[k], last[k]):
            bounded_record(columns, j, bounds, cut[k], z)
            for a in range(width):
                if z[a] != 0.0:
                    total[a] = held(total[a] + whole(z[a] / grid[k] * z[a], most))
