"""Arrays as compiled kernels take what they only read: one compiled version serves them all."""

from __future__ import annotations

import numpy as np

from tacenda._types import Array


def read_only(array: Array) -> Array:
    """The same numbers, not to be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def flat_input(array: Array) -> Array:
    """The same numbers in one contiguous row, not to be written to; a copy only where need be."""
    return read_only(np.ascontiguousarray(array).reshape(-1))
