"""`GeneralisedLasso`: R(w) = |D w|_1 for a public matrix D."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda._types import Array, Floats
from tacenda.errors import InputError
from tacenda.regularisers.custom import CustomRegulariser

MOST_ROWS = 200  # of a matrix whose prox is solved by active sets, row by row of models


class GeneralisedLasso(CustomRegulariser):
    """R(w) = |D w|_1: sparse in the directions of a matrix D (Roth 2004).

    Differences of neighbouring coordinates (D w)_a = w_(a+1) - w_a give the fused Lasso: models
    that are constant on stretches. Like every `CustomRegulariser` it serves the algorithms that
    take a subgradient, D' sign(D w), or the prox: v = w - D'u with the u in [-step, step] that
    makes |w - D'u| smallest. Where the rows of D are orthogonal that is one line; else it is
    solved by active sets, for matrices of up to 200 rows. Larger ones have no prox.

    Parameters
    ----------
    matrix : array_like
        D, shape (k, d), finite; d is the length of a model. It is public.

    Raises
    ------
    InputError
        If it is no such matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> fused = tc.regularisers.GeneralisedLasso(np.diff(np.eye(3), axis=0))
    >>> float(fused.value([1.0, 1.0, 4.0]))
    3.0
    >>> fused.prox([0.0, 1.0, 5.0], 1.0).round(6)
    array([1., 1., 4.])
    """

    def __init__(self, matrix: Any) -> None:
        d = np.array(matrix, dtype=np.float64, ndmin=1)
        if d.ndim != 2 or not d.size or not np.isfinite(d).all():
            raise InputError(
                "GeneralisedLasso.matrix must be a finite matrix with one column for each "
                f"coordinate of a model, not of shape {d.shape}."
            )
        d.flags.writeable = False
        self.matrix = d
        products = d @ d.T
        squares = np.diagonal(products)
        beside = np.abs(products - np.diag(squares)).max(initial=0.0)
        self._squares = squares.copy() if beside <= 1e-12 * float(squares.max()) else None
        has_prox = self._squares is not None or len(d) <= MOST_ROWS
        super().__init__(
            "generalised-lasso",
            value=self._absolute,
            gradient=self._slope,
            prox=self._nearest if has_prox else None,
            smoothness=math.inf,
        )

    def _absolute(self, w: Array) -> Floats:
        return np.asarray(np.abs(np.asarray(w, np.float64) @ self.matrix.T).sum(axis=1))

    def _slope(self, w: Array) -> Array:
        return np.asarray(np.sign(w @ self.matrix.T.astype(w.dtype)) @ self.matrix.astype(w.dtype))

    def _nearest(self, w: Array, step: Any) -> Floats:
        rows = np.asarray(w, np.float64)
        limits = np.broadcast_to(np.asarray(step, np.float64), (len(rows), 1))
        if self._squares is not None:
            there = rows @ self.matrix.T
            pull = np.divide(
                there, self._squares, out=np.zeros_like(there), where=self._squares > 0
            )
            return np.asarray(rows - np.clip(pull, -limits, limits) @ self.matrix)
        from scipy.optimize import lsq_linear

        found = np.empty_like(rows)
        for k, (row, (limit,)) in enumerate(zip(rows, limits, strict=True)):
            if not limit > 0:
                found[k] = row
                continue
            box = (-limit, limit)
            u = lsq_linear(self.matrix.T, row, bounds=box, method="bvls", tol=1e-14).x
            found[k] = row - u @ self.matrix
        return found
