"""Compiled passes over rows (b, d) of released numbers.

Each entry is computed by the same operations in the same order as NumPy would (no fused
multiply-add), so that nothing depends on which of them does it, nor on the number of threads.
"""

from __future__ import annotations

from typing import Any

from tacenda._jit import EXACT, EXACT_INNER, njit


@njit(**EXACT_INNER)
def _factor(number: float, column: Any, i: int) -> float:
    return number * column[i] if column.shape[0] > 0 else number


@njit(**EXACT)
def combined(
    first: int,
    last: int,
    numbers: tuple[float, ...],
    columns: tuple[Any, ...],
    terms: int,
    x: Any,
    y: Any,
    z: Any,
    v: Any,
    out: Any,
) -> None:
    """out[i] = the sum of up to four terms numbers[k] columns[k][i] row_k[i], first <= i < last;
    the factors are multiplied first, in the rows' type, and a column without entries is 1."""
    kind = out.dtype.type
    for i in range(first, last):
        a = kind(_factor(numbers[0], columns[0], i))
        b = kind(_factor(numbers[1], columns[1], i))
        mine, one, two = out[i], x[i], y[i]
        if terms == 2:
            for j in range(mine.shape[0]):
                mine[j] = a * one[j] + b * two[j]
            continue
        c, three = kind(_factor(numbers[2], columns[2], i)), z[i]
        if terms == 3:
            for j in range(mine.shape[0]):
                mine[j] = a * one[j] + b * two[j] + c * three[j]
            continue
        d, four = kind(_factor(numbers[3], columns[3], i)), v[i]
        for j in range(mine.shape[0]):
            mine[j] = a * one[j] + b * two[j] + c * three[j] + d * four[j]
