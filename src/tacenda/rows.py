"""Rows (b, d) of very many nodes: sums in one pass over the memory, and memory that is used again.

`lazy` lets the recursions of the algorithms be written as in their papers: a sum of rows is kept as
an expression, and `rows` adds it up in one pass (`combined`). NumPy makes a table for every product
and every sum, which for a million nodes costs more than the records do.

`new_rows` gives large arrays whose memory, once nobody refers to them any more, serves the next one
of their shape while a run lasts. The operating system would take it back and hand out new pages,
which it must fill with zeros first: for a million nodes that is more than half of a pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from tacenda._arrays import read_only
from tacenda._types import Array
from tacenda.errors import LeakError
from tacenda.threads import in_parts

_ONES = np.empty(0)
_MOST = 4
_SMALL = 1 << 12  # numbers; below, NumPy is as fast as a compiled call
_LARGE = 1 << 25  # bytes; below, the C library keeps memory for reuse itself
_KEPT = 8  # idle arrays of one shape, at the most: a round has about as many at once
_idle: dict[tuple[Any, ...], list[Array]] = {}
_reusing: list[bool] = []  # one entry for each run that is under way


class _Lease:
    """Stands behind an array made of kept memory; it goes when the last reference to it or to a
    view of it does."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Array) -> None:
        self._raw = raw

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._raw.__array_interface__

    def __del__(self) -> None:
        if not _reusing:
            return
        kept = _idle.setdefault((self._raw.shape, self._raw.dtype), [])
        if len(kept) < _KEPT:
            kept.append(self._raw)


def new_rows(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array with nothing certain in it, as `numpy.empty` gives."""
    kind = np.dtype(dtype)
    if math.prod(shape) * kind.itemsize < _LARGE:
        return np.empty(shape, kind)
    kept = _idle.get((shape, kind))
    try:
        raw = kept.pop() if kept else np.empty(shape, kind)
    except IndexError:  # another thread took it just now
        raw = np.empty(shape, kind)
    return np.asarray(_Lease(raw))


@contextmanager
def reused_memory() -> Iterator[None]:
    """While this lasts, memory of large rows is kept for the next ones; at its end, what nobody
    uses goes back to the system."""
    _reusing.append(True)
    try:
        yield
    finally:
        _reusing.pop()
        if not _reusing:
            _idle.clear()


class Sum:
    """a X + b Y + ... of released rows (b, d), not yet added up.

    Factors are numbers or columns (b, 1). Those of nested sums are multiplied from the outside
    inwards, and the terms added from left to right.
    """

    __slots__ = ("_terms",)
    __array_ufunc__ = None  # NumPy then leaves every operator to this class

    def __init__(self, *terms: tuple[Any, Any]) -> None:
        self._terms = terms

    def __add__(self, other: Sum | Array) -> Sum:
        return Sum(*self._terms, (1, other))

    def __sub__(self, other: Sum | Array) -> Sum:
        return Sum(*self._terms, (-1, other))

    def __mul__(self, factor: Any) -> Sum:
        return Sum((factor, self))

    __rmul__ = __mul__

    def rows(self) -> Array:
        """Add up the terms in one pass, in a new array; at most four."""
        return combined(*self._flat(1))

    def _flat(self, outer: Any) -> Iterator[Any]:
        for factor, rows in self._terms:
            both = _product(outer, factor)
            if isinstance(rows, Sum):
                yield from rows._flat(both)
            else:
                yield both
                yield rows


def _product(outer: Any, inner: Any) -> Any:
    """outer * inner, without a pass over a column where one of them is the number 1."""
    if isinstance(inner, int) and inner == 1:
        return outer
    return inner if isinstance(outer, int) and outer == 1 else outer * inner


def lazy(rows: Array) -> Sum:
    """Begin an expression with these rows."""
    return Sum((1, rows))


@cache
def _kernels() -> Any:
    """The compiled passes: the compiler is loaded when first needed."""
    from tacenda import row_kernels

    return row_kernels


def combined(*terms: Any) -> Array:
    """a X + b Y + ..., as `combined(a, X, b, Y, ...)`, of two to four terms, in a new array.

    Factors are numbers or columns (b, 1); rows (b, d) are plain arrays of one float type, in which
    the sum is made, from left to right.
    """
    factors, rows = terms[::2], terms[1::2]
    shape, kind = rows[0].shape, rows[0].dtype
    for x in rows:
        if type(x) is not np.ndarray or x.shape != shape or x.dtype != kind:
            raise LeakError(
                "combined adds up released rows, plain arrays of one shape and type: release a "
                "value first."
            )
    if rows[0].size < _SMALL:
        total = None
        for factor, x in zip(factors, rows, strict=True):
            if not isinstance(factor, np.ndarray):
                factor = float(factor)  # a number of NumPy's would turn float32 into float64
            elif factor.dtype != kind:
                factor = factor.astype(kind)
            total = factor * x if total is None else np.add(total, factor * x, out=total)
        return np.asarray(total)
    numbers, columns = [1.0] * _MOST, [_ONES] * _MOST
    for k, factor in enumerate(factors):
        if isinstance(factor, np.ndarray):
            columns[k] = np.ascontiguousarray(factor, np.float64).reshape(-1)
        else:
            numbers[k] = float(factor)
    given = [read_only(np.ascontiguousarray(x)) for x in rows]
    given += [given[0]] * (_MOST - len(given))
    out = new_rows(shape, kind)
    kernel, work = _kernels().combined, (1 + len(rows)) * out.size // 4
    in_parts(kernel, len(out), work, tuple(numbers), tuple(columns), len(rows), *given, out)
    return out
