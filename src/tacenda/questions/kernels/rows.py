"""What the compiled kernels are made of: access to one record of a dense or sparse table.

`rows` is either a C-contiguous array (N, p) or the CSR triple (data, indices, indptr); numba picks
the right body when it compiles, so that every kernel above this file is written once. The CSR
integers come as unsigned views: a signed index might be negative, and the test for that costs more
than the addition behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from tacenda._jit import FAST, FAST_BODY, njit
from tacenda._prefetch import LINE, prefetch

LONG_LINES = 4  # records of fewer lines of memory are fetched ahead by the processor itself
AT_ONCE = 256  # numbers of a record that are asked for together
IN_ORDER: Any = {**FAST_BODY, "fastmath": {"contract", "nsz"}}  # fused, but nothing reordered


class Columns(NamedTuple):
    """The records of a table: rows (see above), labels (N,), weights (`weight_at`) and the norms
    of the rows (N,), which are empty where nothing needs them."""

    rows: Any
    labels: Any
    weights: Any
    norms: Any


def dot(rows: Any, j: int, w: Any, offset: int, width: int) -> Any:
    """x_j . w[offset : offset + width]."""
    raise TypeError("dot is only for compiled code.")


def add(rows: Any, j: int, factor: float, out: Any, offset: int, width: int) -> None:
    """out[offset : offset + width] += factor x_j."""
    raise TypeError("add is only for compiled code.")


def add_records(rows: Any, at: Any, count: int, factors: Any, out: Any) -> None:
    """out += factors[e] x_j, j = at[e], for e = 0 .. count - 1 in this order; to the same bits as
    one `add` after the other."""
    raise TypeError("add_records is only for compiled code.")


@overload(dot, jit_options=FAST_BODY)
def _dot(rows: Any, j: int, w: Any, offset: int, width: int) -> Any:
    is_sparse = isinstance(rows, types.BaseTuple)
    single = w.dtype == types.float32 and (rows[0] if is_sparse else rows).dtype == types.float32
    zero = np.float32(0.0) if single else 0.0

    def dense(rows: Any, j: int, w: Any, offset: int, width: int) -> Any:
        # A slice: offset + k might be negative, which bars SIMD
        x, part = rows[j], w[offset : offset + width]
        total = zero
        for k in range(width):
            total += x[k] * part[k]
        return total

    def sparse(rows: Any, j: int, w: Any, offset: int, width: int) -> Any:
        data, indices, indptr = rows
        part = w[offset : offset + width]
        total = zero
        for t in range(indptr[j], indptr[j + 1]):
            total += data[t] * part[indices[t]]
        return total

    return sparse if is_sparse else dense


def dot_ahead(rows: Any, j: int, ahead: int, w: Any) -> Any:
    """x_j . w, while record `ahead` is fetched, AT_ONCE numbers of each at a time: asked for all at
    once, a long record makes the processor wait. For records of more than AT_ONCE numbers; for
    shorter ones `dot` and `ask_for` are quicker."""
    raise TypeError("dot_ahead is only for compiled code.")


@overload(dot_ahead, jit_options=FAST_BODY)
def _dot_ahead(rows: Any, j: int, ahead: int, w: Any) -> Any:
    is_sparse = isinstance(rows, types.BaseTuple)
    single = w.dtype == types.float32 and (rows[0] if is_sparse else rows).dtype == types.float32
    zero = np.float32(0.0) if single else 0.0

    def dense(rows: Any, j: int, ahead: int, w: Any) -> Any:
        x, p, size, total = rows[j], w.shape[0], rows.itemsize, zero
        for begin in range(0, p, AT_ONCE):
            end = min(begin + AT_ONCE, p)
            for byte in range(begin * size, end * size, LINE):
                prefetch(rows, ahead, byte)
            a, b, part = x[begin:end], w[begin:end], zero
            for k in range(a.shape[0]):
                part += a[k] * b[k]
            total += part
        return total

    def sparse(rows: Any, j: int, ahead: int, w: Any) -> Any:
        return dot(rows, j, w, 0, w.shape[0])

    return sparse if is_sparse else dense


@overload(add, jit_options=FAST_BODY)
def _add(rows: Any, j: int, factor: float, out: Any, offset: int, width: int) -> Any:
    number = np.float32 if out.dtype == types.float32 else np.float64

    def dense(rows: Any, j: int, factor: float, out: Any, offset: int, width: int) -> None:
        x, part, f = rows[j], out[offset : offset + width], number(factor)
        for k in range(width):
            part[k] += f * x[k]

    def sparse(rows: Any, j: int, factor: float, out: Any, offset: int, width: int) -> None:
        data, indices, indptr = rows
        part = out[offset : offset + width]
        for t in range(indptr[j], indptr[j + 1]):
            part[indices[t]] += factor * data[t]

    return sparse if isinstance(rows, types.BaseTuple) else dense


@overload(add_records, jit_options=IN_ORDER)
def _add_records(rows: Any, at: Any, count: int, factors: Any, out: Any) -> Any:
    number = np.float32 if out.dtype == types.float32 else np.float64

    def dense(rows: Any, at: Any, count: int, factors: Any, out: Any) -> None:
        e = 0
        while e + 3 < count:  # four records a pass: `out` is read and written a quarter as often
            a, f = rows[at[e]], number(factors[e])
            b, g = rows[at[e + 1]], number(factors[e + 1])
            c, h = rows[at[e + 2]], number(factors[e + 2])
            d, i = rows[at[e + 3]], number(factors[e + 3])
            for k in range(out.shape[0]):
                out[k] = out[k] + f * a[k] + g * b[k] + h * c[k] + i * d[k]
            e += 4
        while e < count:
            a, f = rows[at[e]], number(factors[e])
            for k in range(out.shape[0]):
                out[k] = out[k] + f * a[k]
            e += 1

    def sparse(rows: Any, at: Any, count: int, factors: Any, out: Any) -> None:
        for e in range(count):
            add(rows, at[e], factors[e], out, 0, out.shape[0])

    return sparse if isinstance(rows, types.BaseTuple) else dense


def ask_for(rows: Any, j: int) -> None:
    """Ask for all of record j, if it is long; those of a sparse table are short."""
    raise TypeError("ask_for is only for compiled code.")


@overload(ask_for, jit_options=FAST_BODY)
def _ask_for(rows: Any, j: int) -> Any:
    def dense(rows: Any, j: int) -> None:
        length = rows.shape[1] * rows.itemsize
        if length >= LONG_LINES * LINE:
            for byte in range(0, length, LINE):
                prefetch(rows, j, byte)

    def sparse(rows: Any, j: int) -> None:
        return

    return sparse if isinstance(rows, types.BaseTuple) else dense


def weight_at(weights: Any, a: int) -> float:
    """weights[a], or the one number that stands for all of them."""
    raise TypeError("weight_at is only for compiled code.")


@overload(weight_at, jit_options=FAST_BODY)
def _weight_at(weights: Any, a: int) -> Any:
    def one(weights: Any, a: int) -> float:
        return weights

    def each(weights: Any, a: int) -> float:
        return weights[a]

    return each if isinstance(weights, types.Array) else one


def accumulator(rows: Any, w: Any, classes: Any, spare: Any, total: Any) -> Any:
    """Where record gradients are added up: `spare` if that is done in float32 before they move to
    float64, else `total`. So it is done for a loss of one score (classes: None) and a dense
    float32 table at float32 points."""
    raise TypeError("accumulator is only for compiled code.")


@overload(accumulator, jit_options=FAST_BODY)
def _accumulator(rows: Any, w: Any, classes: Any, spare: Any, total: Any) -> Any:
    def other(rows: Any, w: Any, classes: Any, spare: Any, total: Any) -> Any:
        return spare

    def same(rows: Any, w: Any, classes: Any, spare: Any, total: Any) -> Any:
        return total

    single = (
        not isinstance(rows, types.BaseTuple)
        and rows.dtype == types.float32
        and w.dtype == types.float32
        and isinstance(classes, types.NoneType)
    )
    return other if single else same


def flush(part: Any, total: Any) -> None:
    """Move a float32 accumulator into the float64 total and clear it; nothing to do where they are
    one array."""
    raise TypeError("flush is only for compiled code.")


@overload(flush, jit_options=FAST_BODY)
def _flush(part: Any, total: Any) -> Any:
    def move(part: Any, total: Any) -> None:
        for k in range(part.shape[0]):
            total[k] += part[k]
            part[k] = 0.0

    def nothing(part: Any, total: Any) -> None:
        return

    return move if part.dtype == types.float32 else nothing


@njit(**FAST)
def all_within(numbers: Any, limit: float) -> bool:
    """Whether no entry of numbers (n,) is NaN or larger than `limit` in absolute value."""
    beyond = 0
    for k in range(numbers.shape[0]):
        beyond += not abs(numbers[k]) <= limit
    return beyond == 0
