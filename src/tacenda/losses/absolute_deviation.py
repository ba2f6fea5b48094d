"""The absolute deviation of a regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda._types import Array
from tacenda.losses.base import OfOneScore, Typical
from tacenda.losses.formulas import formula
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class AbsoluteDeviation(OfOneScore):
    """|s - y|, real labels.

    Slope 1, not smooth; the subgradient at the kink is 0.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.AbsoluteDeviation().value(3.0, 1.0))
    2.0
    """

    name: ClassVar[str] = "absolute-deviation"
    kind: ClassVar[str] = "regression"
    predicts: ClassVar[str] = "value"
    has_two_lines: ClassVar[bool] = True
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    typical: ClassVar[Typical] = Typical(0.5, 0.5)
    code: ClassVar[int] = 5

    def value(self, scores: Array, labels: Array) -> Array:
        """|s - y| of each record."""
        return np.asarray(np.abs(scores - labels))

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        return 1.0 if s > y else (-1.0 if s < y else 0.0)

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        return 0.0
