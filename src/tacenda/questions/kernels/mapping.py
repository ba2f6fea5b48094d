"""Compiled maps of records: x -> matrix' x, each row cut to a norm; dense rows, or for a diagonal
matrix rows as sparse as they were."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from tacenda._jit import FAST, FAST_BODY, FAST_INNER, njit
from tacenda.questions.kernels.gradient import shrink


def add_mapped(rows: Any, j: int, matrix: Any, out: Any) -> None:
    """out (k,) += matrix' x_j, the features in order; matrix (p, k)."""
    raise TypeError("add_mapped is only for compiled code.")


@overload(add_mapped, jit_options=FAST_BODY)
def _add_mapped(rows: Any, j: int, matrix: Any, out: Any) -> Any:
    def dense(rows: Any, j: int, matrix: Any, out: Any) -> None:
        for a in range(matrix.shape[0]):
            x, line = np.float64(rows[j, a]), matrix[a]
            if x != 0.0:
                for c in range(out.shape[0]):
                    out[c] += x * line[c]

    def sparse(rows: Any, j: int, matrix: Any, out: Any) -> None:
        data, indices, indptr = rows
        for t in range(indptr[j], indptr[j + 1]):
            x, line = np.float64(data[t]), matrix[indices[t]]
            for c in range(out.shape[0]):
                out[c] += x * line[c]

    return sparse if isinstance(rows, types.BaseTuple) else dense


@njit(**FAST)
def mapped_rows(
    begin: int,
    end: int,
    rows: Any,
    first: Any,
    last: Any,
    place: Any,
    matrix: Any,
    norm: float,
    out: Any,
) -> None:
    """out[place[k] + e] = matrix' x of the e-th record of row k of the block, cut to `norm`, or 0
    where that has no finite norm."""
    buffer = np.empty(matrix.shape[1])
    for k in range(begin, end):
        for e in range(last[k] - first[k]):
            buffer[:] = 0.0
            add_mapped(rows, first[k] + e, matrix, buffer)
            square = 0.0
            for c in range(buffer.shape[0]):
                square += buffer[c] * buffer[c]
            line = out[place[k] + e]
            if square < math.inf:
                factor = shrink(1.0, math.sqrt(square), norm)
                for c in range(buffer.shape[0]):
                    line[c] = factor * buffer[c]
            else:
                line[:] = 0.0


@njit(**FAST_INNER)
def shortened(square: float, norm: float) -> float:
    """The factor which cuts a row of this squared norm to `norm`; 0 where that is not finite."""
    return shrink(1.0, math.sqrt(square), norm) if square < math.inf else 0.0


@njit(**FAST_INNER)
def scaled(x: float, weight: float) -> float:
    """x weight; 0 stays 0, as what a sparse row leaves out does."""
    return x * weight if x != 0.0 else 0.0


@njit(**FAST)
def scaled_rows(
    begin: int,
    end: int,
    rows: Any,
    first: Any,
    last: Any,
    place: Any,
    weights: Any,
    norm: float,
    out: Any,
) -> None:
    """out[place[k] + e] = (weights_a x_a)_a of the e-th record of row k of the block, cut to
    `norm`, or 0 where that has no finite norm; dense rows."""
    for k in range(begin, end):
        for e in range(last[k] - first[k]):
            x, line = rows[first[k] + e], out[place[k] + e]
            square = 0.0
            for a in range(weights.shape[0]):
                value = scaled(np.float64(x[a]), weights[a])
                square += value * value
            factor = shortened(square, norm)
            for a in range(weights.shape[0]):
                line[a] = factor * scaled(np.float64(x[a]), weights[a]) if factor > 0.0 else 0.0


@njit(**FAST)
def scaled_sparse_rows(
    begin: int,
    end: int,
    data: Any,
    indices: Any,
    indptr: Any,
    starts: Any,
    weights: Any,
    norm: float,
    out: Any,
) -> None:
    """The same for CSR rows from starts[k] on in `data`, the k-th of which goes to
    out[indptr[k] : indptr[k + 1]]; indices are those of `out`."""
    for k in range(begin, end):
        at, length = indptr[k], indptr[k + 1] - indptr[k]
        square = 0.0
        for t in range(length):
            value = scaled(np.float64(data[starts[k] + t]), weights[indices[at + t]])
            square += value * value
        factor = shortened(square, norm)
        for t in range(length):
            value = scaled(np.float64(data[starts[k] + t]), weights[indices[at + t]])
            out[at + t] = factor * value if factor > 0.0 else 0.0
