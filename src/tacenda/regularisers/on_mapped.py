"""What a regulariser becomes on records that were mapped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda._types import Array
from tacenda.errors import UnsupportedError
from tacenda.regularisers.base import Regulariser, Weighted
from tacenda.regularisers.custom import CustomRegulariser
from tacenda.regularisers.penalties import NoRegulariser

ORTHOGONAL = 1e-8  # of two columns' lengths: a product up to here counts as rounding


@dataclass(frozen=True, eq=False)
class WeightedL2(Weighted):
    """R(w) = (1/2) sum_a weights_a w_a^2: |matrix v|^2/2 in the coordinates of mapped records.

    Its strong convexity is declared as 0, a valid lower bound: the weights are released numbers,
    and the noise is planned before they are known.

    Parameters
    ----------
    weights : ndarray
        One weight per coordinate, shape (d,).

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> float(tc.regularisers.WeightedL2(np.array([1.0, 4.0])).value([2.0, 1.0]))
    4.0
    """

    weights: Array
    name: ClassVar[str] = "weighted-l2"
    weighted: ClassVar[bool] = True

    @property
    def l2(self) -> Array:
        """`weights`."""
        return self.weights

    @property
    def strong_convexity(self) -> float:
        """0, a valid lower bound."""
        return 0.0

    def value(self, w: Array) -> Array:
        """R of each row.

        w: shape (b, d), or (d,). Result: shape (b,), or a scalar array.
        """
        w = np.asarray(w)
        return np.asarray(0.5 * (self.weights * (w * w)).sum(axis=-1))


@dataclass(frozen=True)
class Unmapped:
    """What an l1 part becomes on mapped records: every use of it is refused.

    It acts on the coordinates of the original records, so that mapped ones can be asked for the
    gradient of the loss alone.

    Parameters
    ----------
    original : str
        Name of the regulariser before the map.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.regularisers.mapped(tc.regularisers.L1(), 0.1, np.ones(3))
    Unmapped(original='l1')
    """

    original: str
    name: ClassVar[str] = "unmapped"
    weighted: ClassVar[bool] = True
    strong_convexity: ClassVar[float] = 0.0
    smoothness: ClassVar[float] = math.inf

    @property
    def l1(self) -> float:
        """Refused."""
        raise self._refusal()

    @property
    def l2(self) -> Any:
        """Refused."""
        raise self._refusal()

    @property
    def smooth(self) -> bool:
        """Refused."""
        raise self._refusal()

    def value(self, w: Array) -> Array:
        """Refused: an l1 part is not defined on mapped records.

        Result: nothing is ever returned.
        """
        raise self._refusal()

    def gradient(self, w: Array) -> Array:
        """Refused: an l1 part is not defined on mapped records.

        Result: nothing is ever returned.
        """
        raise self._refusal()

    def prox(self, w: Array, step: float | Array) -> Array:
        """Refused: an l1 part is not defined on mapped records.

        Result: nothing is ever returned.
        """
        raise self._refusal()

    def _refusal(self) -> UnsupportedError:
        return UnsupportedError(
            f"The regulariser {self.original!r} acts on the coordinates of the original "
            "records and cannot be mapped; use 'l2' or 'none' with mapped records, or run without "
            "the map."
        )


def mapped(
    regulariser: Regulariser, strength: float, matrix: Array, n_outputs: int = 1
) -> Regulariser:
    """R(matrix v) as a function of v: the regulariser of records mapped by the transposed matrix.

    "none" stays "none"; l2 becomes sum_a |column a|^2 v_a^2/2; what has an l1 part becomes
    `Unmapped`.

    Parameters
    ----------
    regulariser : Regulariser
        R, on the original coordinates.
    strength : float
        The weight r; at 0 there is no regulariser.
    matrix : ndarray
        Orthogonal columns, shape (p, k), or the diagonal (p,) of such a matrix.
    n_outputs : int, default=1
        Each of several outputs has the same weights.

    Raises
    ------
    UnsupportedError
        If l2 meets columns that are not orthogonal, or the records are mapped already.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.regularisers.mapped(tc.regularisers.L2(), 0.1, np.array([1.0, 2.0])).weights
    array([1., 4.])
    """
    own = isinstance(regulariser, CustomRegulariser)
    if strength > 0 and own:
        return Unmapped(regulariser.name)
    if isinstance(regulariser, Unmapped) or (not own and regulariser.l1 != 0.0 and strength > 0):
        return Unmapped(regulariser.name)
    if strength == 0 or (regulariser.l1 == 0.0 and not np.any(regulariser.l2)):
        return NoRegulariser()
    if regulariser.weighted:
        raise UnsupportedError(
            "Records that are mapped already cannot be mapped again; map the original ones by the "
            "product of both matrices."
        )
    if matrix.ndim == 1:
        with np.errstate(over="ignore", invalid="ignore"):
            return WeightedL2(np.tile(float(regulariser.l2) * matrix**2, n_outputs))
    with np.errstate(over="ignore", invalid="ignore"):
        products = matrix.T @ matrix
        squares = np.diagonal(products)
        lengths = np.sqrt(squares)
        beside = np.abs(products - np.diag(squares))
        crossed = not np.all(beside <= ORTHOGONAL * np.outer(lengths, lengths))
    if crossed:
        raise UnsupportedError(
            f"The regulariser {regulariser.name!r} needs a map with orthogonal columns, in whose "
            "coordinates it is a weight for each; take them from an eigendecomposition, or use "
            "regulariser 'none'."
        )
    return WeightedL2(np.tile(float(regulariser.l2) * squares, n_outputs))
