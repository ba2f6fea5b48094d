"""Regularisers R(w), acting on each row of a (b, d) array (or on one vector of length d).

Each of them is l1 |w|_1 + (l2/2) |w|^2 with its own pair of weights (l1, l2), which is all that the
kernels need to know. Rows that are divided by a public number s need a model w that is s times as
long; `divided` then gives R(w/s), so that `strength` means what it meant before the division: l1 is
divided by s, and l2 by s^2. The one exception comes with mapped records only: there l2 is a row of
weights, one for each coordinate (`WeightedL2`). A user's own (`CustomRegulariser`) has no such
weights, and serves those who take it by gradient or prox.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol

import numpy as np

from tacenda._types import Array


class Regulariser(Protocol):
    """What the rest of the package asks of a regulariser R(w) = l1 |w|_1 + (l2/2) |w|^2.

    Attributes
    ----------
    name : str
        The name in files and on the command line.
    l1 : float
        Weight of |w|_1.
    l2 : float or ndarray of float
        Weight of |w|^2/2; one per coordinate for a `WeightedL2`.
    weighted : bool
        Whether `l2` has one weight per coordinate.
    smooth : bool
        Whether R has a Lipschitz gradient.
    strong_convexity : float
        The largest s for which R - (s/2)|w|^2 is convex.
    smoothness : float
        A Lipschitz constant of R's gradient; infinite where it has none.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.regularisers.by_name("l2").strong_convexity
    1.0
    """

    @property
    def name(self) -> str: ...
    @property
    def l1(self) -> float: ...
    @property
    def l2(self) -> Any: ...  # a number, or the weights (d,) of a WeightedL2
    @property
    def weighted(self) -> bool: ...
    @property
    def smooth(self) -> bool: ...
    @property
    def strong_convexity(self) -> float: ...
    @property
    def smoothness(self) -> float: ...

    def value(self, w: Array) -> Array:
        """R of each row.

        w: shape (b, d), or (d,). Result: shape (b,), or a scalar array.
        """

    def gradient(self, w: Array) -> Array:
        """l1 sign(w) + l2 w; at w = 0 the subgradient 0.

        w: shape (b, d), or (d,).
        """

    def prox(self, w: Array, step: float | Array) -> Array:
        """argmin_v step R(v) + |v - w|^2/2.

        w: shape (b, d), or (d,). step: above 0; a number or (b, 1).
        """


class Weighted:
    """The formulas shared by all of them: R(w) = l1 |w|_1 + (l2/2) |w|^2."""

    row_scale: float = 1.0  # s of R(w/s)
    weighted: ClassVar[bool] = False  # whether l2 is a row of weights

    @property
    def l1(self) -> float:
        """Weight of |w|_1."""
        return 0.0

    @property
    def l2(self) -> Any:
        """Weight of |w|^2/2."""
        return 0.0

    @property
    def strong_convexity(self) -> float:
        """The largest s for which R - (s/2)|w|^2 is convex."""
        return float(self.l2)

    @property
    def smooth(self) -> bool:
        """Whether R has a Lipschitz gradient."""
        return self.l1 == 0.0

    @property
    def smoothness(self) -> float:
        """A Lipschitz constant of R's gradient; infinite where it has none."""
        return float(np.max(self.l2)) if self.smooth else math.inf

    def value(self, w: Array) -> Array:
        """R of each row.

        w: shape (b, d), or (d,). Result: shape (b,), or a scalar array.
        """
        w = np.asarray(w)
        return np.asarray(self.l1 * np.abs(w).sum(axis=-1) + 0.5 * self.l2 * (w * w).sum(axis=-1))

    def gradient(self, w: Array) -> Array:
        """l1 sign(w) + l2 w; at w = 0 the subgradient 0.

        w: shape (b, d), or (d,).
        """
        w = np.asarray(w)
        result = self.l2 * w
        return result + self.l1 * np.sign(w) if self.l1 else result

    def prox(self, w: Array, step: float | Array) -> Array:
        """argmin_v step R(v) + |v - w|^2/2, that is soft(w, step l1)/(1 + step l2).

        w: shape (b, d), or (d,). step: above 0; a number or (b, 1).
        """
        w = np.asarray(w)
        shrunk = np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0.0) if self.l1 else w
        return np.asarray(shrunk / (1.0 + step * self.l2))
