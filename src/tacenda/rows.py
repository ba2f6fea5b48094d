"""Sums of released rows in one pass over the memory: what the recursions of the algorithms are made
of. NumPy makes a table for every product and every sum, which for a million nodes costs more than
the records do."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import LeakError

_ONES = np.empty(0)
_MOST = 4
_SMALL = 1 << 12  # numbers; below, NumPy is as fast as a compiled call


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
            if isinstance(factor, np.ndarray) and factor.dtype != kind:
                factor = factor.astype(kind)
            total = factor * x if total is None else np.add(total, factor * x, out=total)
        return np.asarray(total)
    numbers, columns = [1.0] * _MOST, [_ONES] * _MOST
    for k, factor in enumerate(factors):
        if isinstance(factor, np.ndarray):
            columns[k] = np.ascontiguousarray(factor, np.float64).reshape(-1)
        else:
            numbers[k] = float(factor)
    given = [np.ascontiguousarray(x) for x in rows]
    given += [given[0]] * (_MOST - len(given))
    out = np.empty(shape, kind)
    _kernels().combined(0, len(out), tuple(numbers), tuple(columns), len(rows), *given, out)
    return out
