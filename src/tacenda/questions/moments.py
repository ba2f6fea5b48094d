"""The second moment of records as a row of numbers: a symmetric matrix, packed and unpacked.

Packed are the entries of the upper triangle, row by row, those off the diagonal times sqrt(2):

    (M_00, sqrt(2) M_01, .., sqrt(2) M_0,p-1, M_11, sqrt(2) M_12, ..)

so that the l2 norm of the row is the Frobenius norm of the matrix, and independent noise of one
size on the row is noise of one size in every direction of symmetric matrices.
"""

from __future__ import annotations

import math

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError

# Largest table, in bytes, that a second moment or mapped records may need in one block.
MOST_BYTES = 4 << 30


def packed_length(width: int) -> int:
    """p (p + 1)/2: how many numbers a symmetric matrix of p rows is packed into."""
    return width * (width + 1) // 2


def packed_width(length: int) -> int:
    """p, of a packed row of that length."""
    width = (math.isqrt(8 * length + 1) - 1) // 2
    if width < 1 or packed_length(width) != length:
        raise InputError(
            f"A packed symmetric matrix has p (p + 1)/2 numbers, and {length} is none of these; "
            "pass the rows that `second_moment` gave."
        )
    return width


def packed(matrix: Array) -> Array:
    """(.., p (p + 1)/2) of symmetric matrices (.., p, p); only the upper triangle is read."""
    width = matrix.shape[-1]
    above = np.triu_indices(width)
    factor = np.where(above[0] == above[1], 1.0, math.sqrt(2.0))
    return np.asarray(matrix[..., above[0], above[1]] * factor)


def unpacked(rows: Array) -> Array:
    """(.., p, p) the symmetric matrices of packed rows (.., p (p + 1)/2)."""
    width = packed_width(rows.shape[-1])
    above = np.triu_indices(width)
    factor = np.where(above[0] == above[1], 1.0, math.sqrt(0.5))
    matrix = np.empty((*rows.shape[:-1], width, width), rows.dtype)
    matrix[..., above[0], above[1]] = rows * factor
    matrix[..., above[1], above[0]] = matrix[..., above[0], above[1]]
    return matrix


def moment_length(width: int, diagonal: bool) -> int:
    """How many numbers the second moment of records of p numbers is: p (p + 1)/2, or the p of its
    diagonal."""
    return width if diagonal else packed_length(width)


def label_width(label_scale: float, n_outputs: int) -> int:
    """How many numbers the label adds to a record in a second moment: none for scale 0, one for
    each class where there are several, else one."""
    return 0 if label_scale == 0.0 else n_outputs


def check_matrix(matrix: Array, n_features: int) -> None:
    """Refuse a map that does not fit the records; one of shape (p,) is a diagonal matrix."""
    fits = matrix.ndim in (1, 2) and matrix.shape[0] == n_features and matrix.size > 0
    if not fits:
        raise InputError(
            f"matrix must have shape ({n_features}, k), one row per feature, or ({n_features},) "
            f"for a diagonal one, not {matrix.shape}."
        )


def check_bytes(what: str, needed: float, remedy: str) -> None:
    """Refuse, from public numbers, a table above MOST_BYTES."""
    if needed > MOST_BYTES:
        raise InputError(
            f"{what} would need {needed / 2**30:.1f} GiB in one block, and at most "
            f"{MOST_BYTES / 2**30:.0f} GiB are allowed; {remedy}"
        )
