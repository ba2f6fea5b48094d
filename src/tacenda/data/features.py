"""Constant feature and row norms, for dense arrays and scipy CSR matrices,
a chunk of rows at a time."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from tacenda._types import Array, Floats
from tacenda.checks import one_of, positive
from tacenda.data.lazy_rows import LazyRows
from tacenda.errors import InputError

# Bytes that one chunk's temporary may take: small beside any data set worth chunking.
CHUNK_BYTES = 2**24


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse matrix or array.

    Parameters
    ----------
    X : object
        Anything.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.data.features.is_sparse(np.eye(2))
    False
    """
    return hasattr(X, "tocsr")


def row_norms(X: Any) -> Floats:
    """Euclidean norm of each row, summed in float64 without a copy of X.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array
        Shape (n, p).

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.data.features.row_norms(np.array([[3.0, 4.0]]))
    array([5.])
    """
    norms = np.empty(X.shape[0])
    if is_sparse(X):
        X = X.tocsr()
        # reduceat gives wrong sums for empty rows, so only the filled ones are asked for.
        norms[:] = 0.0
        filled = np.flatnonzero(np.diff(X.indptr))
        if len(filled):
            norms[filled] = np.sqrt(
                np.add.reduceat(X.data.astype(np.float64) ** 2, X.indptr[filled])
            )
        return norms
    for part in chunks(X):
        # A row on its own would be added up in another order, if it is long
        x = X[part] if part.stop - part.start > 1 else np.repeat(X[part], 2, axis=0)
        squares = np.einsum("ij,ij->i", x, x, dtype=np.float64)
        norms[part] = np.sqrt(squares[: part.stop - part.start])
    return norms


def scale_rows(
    X: Any, norm: float = 1.0, mode: Literal["clip", "scale"] = "clip", *, in_place: bool = False
) -> Any:
    """Bring rows to a public norm.

    x * min(1, norm/|x|) for "clip", x * norm/|x| for "scale"; rows of norm 0 stay. Rows end at or
    below `norm` up to one rounding of X's own precision.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array
        Shape (n, p).
    norm : float, default=1.0
        The bound, above 0.
    mode : {"clip", "scale"}, default="clip"
        "clip" changes only rows above the norm, "scale" all rows.
    in_place : bool, default=False
        A floating-point X is changed and returned, and no copy of it is ever made.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.data.scale_rows(np.array([[3.0, 4.0], [0.3, 0.4]]))
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    norm = positive("norm", norm)
    one_of("mode", mode, ("clip", "scale"))
    X = _floating(X, in_place)
    norms = row_norms(X)
    if not np.isfinite(norms).all():
        row = int(np.flatnonzero(~np.isfinite(norms))[0])
        raise InputError(
            f"X must be finite, but row {row} is not; drop such rows or declare bounds in a schema."
        )
    factors = np.ones(len(norms))
    moved = norms > norm if mode == "clip" else norms > 0
    if not moved.any():
        return X
    factors[moved] = norm / norms[moved]
    if is_sparse(X):
        X.data *= np.repeat(factors, np.diff(X.indptr)).astype(X.dtype, copy=False)
        return X
    for part in chunks(X):
        X[part] *= factors[part, None].astype(X.dtype, copy=False)
    return X


def add_intercept(X: Any, value: float = 1.0) -> Any:
    """Add a last column of a constant value.

    The constant is a feature like the others: it counts in the norm of a row and is regularised. A
    shorter one needs a larger weight for the same intercept.

    Parameters
    ----------
    X : ndarray, scipy.sparse.csr_array or LazyRows
        Shape (n, p).
    value : float, default=1.0
        The constant.

    Returns
    -------
    ndarray, scipy.sparse.csr_array or LazyRows
        Shape (n, p + 1), of the same format and precision.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.data.add_intercept(np.array([[0.3, 0.4]]))
    array([[0.3, 0.4, 1. ]])
    """
    if isinstance(X, LazyRows):
        return X.mapped(lambda rows: add_intercept(rows, value), X.shape[1] + 1)
    if is_sparse(X):
        from scipy.sparse import csr_matrix, hstack

        return hstack([X, csr_matrix(np.full((X.shape[0], 1), value, dtype=X.dtype))], format="csr")
    X = np.asarray(X)
    dtype = X.dtype if X.dtype.kind == "f" else np.float64
    wider = np.empty((X.shape[0], X.shape[1] + 1), dtype=dtype)
    wider[:, :-1] = X
    wider[:, -1] = value
    return wider


def within_unit_norm(
    X: Any, names: tuple[str, ...], norm: float, *, intercept: bool = False
) -> tuple[Any, tuple[str, ...], float]:
    """Divide all rows by one public number, so that none has a norm above 1.

    Rows longer than `norm` are shortened to it first; declare a norm that no row exceeds, and none
    is. The constant feature is 1 before the division and is never shortened.

    Parameters
    ----------
    X : ndarray, scipy.sparse.csr_array or LazyRows
        Shape (n, p).
    names : tuple of str
        One per column of X.
    norm : float
        Public bound on the norm of a row.
    intercept : bool, default=False
        Add the constant feature as the last column.

    Returns
    -------
    tuple
        The rows, the names of their columns, and the number by which they were divided.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> X = np.array([[0.3, 0.4]])
    >>> tc.data.features.within_unit_norm(X, ("a", "b"), 0.5)[0]
    array([[0.6, 0.8]])
    """
    scale = math.hypot(positive("norm", norm), 1.0) if intercept else float(norm)

    def divided(x: Any) -> Any:
        x = scale_rows(x, norm)
        x = add_intercept(x) if intercept else x
        x *= x.dtype.type(1.0 / scale)
        return x

    if isinstance(X, LazyRows):
        X = X.mapped(divided, X.shape[1] + int(intercept))
    else:
        X = divided(X)
    return X, ((*names, "intercept") if intercept else names), scale


def chunks(X: Array) -> list[slice]:
    """Slices of rows of about CHUNK_BYTES each that cover X.

    Parameters
    ----------
    X : ndarray
        Shape (n, p).

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.data.features.chunks(np.zeros((3, 2)))
    [slice(0, 3, None)]
    """
    rows = rows_of_a_chunk(X.shape[1], X.dtype.itemsize)
    return [slice(a, min(a + rows, len(X))) for a in range(0, len(X), rows)]


def rows_of_a_chunk(features: int, itemsize: int) -> int:
    """How many rows take about CHUNK_BYTES.

    Parameters
    ----------
    features : int
        Numbers in a row.
    itemsize : int
        Bytes of one.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.features.rows_of_a_chunk(2**20, 8)
    2
    """
    return max(1, CHUNK_BYTES // max(1, features * itemsize))


def _floating(X: Any, in_place: bool) -> Any:
    """X itself if it may be changed, else a float copy (CSR where sparse)."""
    if is_sparse(X):
        if in_place and (X.format != "csr" or X.dtype.kind != "f"):
            raise InputError(
                f"in_place needs a floating-point CSR matrix, not {X.format} of {X.dtype}; "
                "drop in_place."
            )
        X = X.tocsr()
        return (
            X if in_place else X.astype(X.dtype if X.dtype.kind == "f" else np.float64, copy=True)
        )
    if in_place:
        if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
            raise InputError(
                "in_place needs a floating-point NumPy array; drop in_place or convert X first."
            )
        return X
    X = np.asarray(X)
    return np.array(X, dtype=X.dtype if X.dtype.kind == "f" else np.float64)
