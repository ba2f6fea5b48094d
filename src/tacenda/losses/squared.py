"""The squared loss of a regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tacenda._types import Array
from tacenda.losses.base import RESIDUALS, OfOneScore, Typical
from tacenda.losses.formulas import formula
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class Squared(OfOneScore):
    """(s - y)^2 / 2, real labels.

    Its slope is unbounded, so that private gradients need `clip_norm`; curvature 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.Squared().value(3.0, 1.0))
    2.0
    """

    name: ClassVar[str] = "squared"
    kind: ClassVar[str] = "regression"
    predicts: ClassVar[str] = "value"
    quadratic: ClassVar[bool] = True
    slope: ClassVar[float] = math.inf
    curvature: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    typical: ClassVar[Typical] = Typical(1.0, 0.5, RESIDUALS)
    code: ClassVar[int] = 3

    def value(self, scores: Array, labels: Array) -> Array:
        """(s - y)^2 / 2 of each record."""
        return 0.5 * (scores - labels) ** 2

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        return s - y

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        return 1.0
