"""Compiled maps of records: x -> matrix' x, each row cut to a norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

from tacenda.problem.kernels.gradient import shrink
from tacenda.problem.kernels.rows import INNER, PARALLEL


def add_mapped(rows: Any, j: int, matrix: Any, out: Any) -> None:
    """out (k,) += matrix' x_j, the features in order; matrix (p, k)."""
    raise TypeError("add_mapped is only for compiled code.")


@overload(add_mapped, jit_options=INNER)
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


@njit(**PARALLEL)
def mapped_rows(
    rows: Any, first: Any, last: Any, place: Any, matrix: Any, norm: float, out: Any
) -> None:
    """out[place[k] + e] = matrix' x of the e-th record of row k of the block, cut to `norm`, or 0
    where that has no finite norm."""
    for k in prange(first.shape[0]):
        buffer = np.empty(matrix.shape[1])
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
