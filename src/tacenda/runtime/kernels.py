"""Compiled passes over released rows (b, d): weighted sums over neighbours, running averages.

Each entry is computed by the same operations in the same order as NumPy and SciPy would (no fused
multiply-add), so that nothing depends on which of them does it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._arrays import flat_input, read_only
from tacenda._jit import EXACT, njit
from tacenda._prefetch import LINE, prefetch
from tacenda.threads import in_parts

AHEAD = 48  # rows between the one that is asked for and the one that is added


def weighted_sums(nodes: Any, indptr: Any, columns: Any, weights: Any, rows: Any, out: Any) -> None:
    """out[i] = sum over k of weights[k] rows[columns[k]], k = indptr[i] .. indptr[i+1] - 1 in this
    order, for i in `nodes`; out (b, d). Without entries, weights are 1."""
    work = len(columns) * out.shape[1] * len(nodes) // max(1, len(out))
    in_parts(row_sums, len(nodes), work, nodes, indptr, columns, weights, read_only(rows), out)


@njit(**EXACT)
def row_sums(
    begin: int, end: int, nodes: Any, indptr: Any, columns: Any, weights: Any, rows: Any, out: Any
) -> None:
    """`weighted_sums` for nodes[begin : end]."""
    zero, one, plain = out.dtype.type(0), out.dtype.type(1), weights.shape[0] == 0
    for n in range(begin, end):
        i = nodes[n]
        mine, first, last = out[i], indptr[i], indptr[i + 1]
        for k in range(first + AHEAD, min(last + AHEAD, columns.shape[0])):
            for byte in (0, LINE):  # the processor itself goes on from there
                prefetch(rows, np.int64(columns[k]), byte)
        if (last - first) % 2 == 1:
            weight, row = one if plain else weights[first], rows[columns[first]]
            for j in range(mine.shape[0]):
                mine[j] = zero + weight * row[j]  # as if it had begun at zero, where -0 becomes 0
        else:
            for j in range(mine.shape[0]):
                mine[j] = zero
        for k in range(first + (last - first) % 2, last, 2):  # two rows a pass
            row, next_row = rows[columns[k]], rows[columns[k + 1]]
            weight, other = one if plain else weights[k], one if plain else weights[k + 1]
            for j in range(mine.shape[0]):
                mine[j] = mine[j] + weight * row[j] + other * next_row[j]


@njit(**EXACT)
def _add_weighted(begin: int, end: int, total: Any, rows: Any, weight: Any) -> None:
    mine, other = total[begin:end], rows[begin:end]  # begin might be negative, which bars SIMD
    for k in range(mine.shape[0]):
        mine[k] += weight * other[k]


def _add(begin: int, end: int, total: Any, rows: Any) -> None:
    total[begin:end] += rows[begin:end]


def add_weighted(total: Any, rows: Any, weight: float) -> None:
    """total += weight * rows, in one pass where both are plain rows of one type."""
    if (
        weight == 1
        or total.dtype != rows.dtype
        or not (total.flags.c_contiguous and rows.flags.c_contiguous)
    ):
        more = rows if weight == 1 else np.multiply(weight, rows)
        in_parts(_add, len(total), total.size, total, more)
        return
    flat, size = total.reshape(-1), total.size
    in_parts(_add_weighted, size, size, flat, flat_input(rows), total.dtype.type(weight))


@njit(**EXACT)
def branch_means(
    nodes: Any, indptr: Any, children: Any, weights: Any, sizes: Any, rows: Any, limit: float
) -> None:
    """rows[i] = (rows[i] + sum of weights[k] rows[children[k]]) / sizes[i], for i in `nodes` in
    this order, k = indptr[i] .. indptr[i+1] - 1; in float64, rounded to the rows' type and cut to
    [-limit, limit] at the end."""
    total = np.empty(rows.shape[1], np.float64)
    for i in nodes:
        if indptr[i] == indptr[i + 1]:
            continue  # a leaf: its own row
        mine = rows[i]
        for j in range(len(total)):
            total[j] = mine[j]
        for k in range(indptr[i], indptr[i + 1]):
            weight, row = weights[k], rows[children[k]]
            for j in range(len(total)):
                total[j] += weight * row[j]
        for j in range(len(total)):
            mean = total[j] / sizes[i]
            mine[j] = -limit if mean < -limit else (limit if mean > limit else mean)


@njit(**EXACT)
def branch_sums(nodes: Any, indptr: Any, children: Any, rows: Any) -> None:
    """rows[i] += sum of rows[children[k]], as above, for whole numbers modulo 2^64."""
    for i in nodes:
        mine = rows[i]
        for k in range(indptr[i], indptr[i + 1]):
            row = rows[children[k]]
            for j in range(len(mine)):
                mine[j] += row[j]
