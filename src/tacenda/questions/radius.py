"""The public radius: no coordinate of a point at which records are asked, or of a message, is
larger in absolute value."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tacenda._arrays import flat_input
from tacenda._types import Array


@cache
def _kernels() -> Any:
    """The compiled pass: the compiler is loaded when first needed."""
    from tacenda.questions.kernels import rows as kernels_rows

    return kernels_rows


def is_within(rows: Array, limit: float) -> bool:
    """Whether no entry is NaN or larger than `limit` in absolute value:
    one pass over the memory."""
    return bool(_kernels().all_within(flat_input(rows), largest_within(limit, rows.dtype)))


@cache
def largest_within(radius: float, dtype: Any) -> Any:
    """The largest number of this type that is not beyond the radius."""
    kind = np.dtype(dtype).type
    with np.errstate(over="ignore"):
        limit = kind(radius)
    return np.nextafter(limit, kind(0)) if float(limit) > radius else limit


def brought_within(rows: Array, radius: float) -> Array:
    """`rows` itself, the very array, if every entry lies within the radius; else a copy cut to it,
    where NaN is 0.

    Of a public array this is post-processing. Cut is toward zero, also in float32, so the result
    passes `is_within`.
    """
    if is_within(rows, radius):
        return rows
    limit = largest_within(radius, rows.dtype)
    return np.clip(np.nan_to_num(rows, nan=0.0, posinf=limit, neginf=-limit), -limit, limit)
