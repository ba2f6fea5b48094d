"""The pinball loss of a quantile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.losses.base import OfOneScore, Typical, several_numbers
from tacenda.losses.formulas import formula
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class Quantile(OfOneScore):
    """The pinball loss of a quantile: max((1 - q) u, -q u) with u = s - y and q = `level`.

    A model that minimises it predicts the value below which the share q of the labels lies. Slope
    max(q, 1 - q), not smooth; the subgradient at the kink is 0. `SmoothedQuantile` is for
    algorithms that need a smooth loss.

    Parameters
    ----------
    level : float, default=0.5
        q, between 0 and 1; 1/2 is the median, and half the absolute deviation.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.Quantile(level=0.75).value(1.0, 3.0))
    1.5
    """

    level: float = 0.5
    name: ClassVar[str] = "quantile"
    kind: ClassVar[str] = "regression"
    predicts: ClassVar[str] = "quantile"
    has_two_lines: ClassVar[bool] = True
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    typical: ClassVar[Typical] = Typical(0.5, 0.5)  # its slope rises by 1 over residuals of 2
    code: ClassVar[int] = 11

    def __post_init__(self) -> None:
        checks.between("level", self.level, 0.0, 1.0)

    @property
    def slope(self) -> float:
        """max(level, 1 - level)."""
        return max(self.level, 1.0 - self.level)

    @property
    def numbers(self) -> Floats:
        """What the compiled formula reads: the level."""
        return several_numbers(self.level)

    def value(self, scores: Array, labels: Array) -> Array:
        """max((1 - q) (s - y), q (y - s)) of each record."""
        u = np.asarray(scores - labels)
        return np.asarray(np.maximum((1.0 - self.level) * u, -self.level * u))

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        return 1.0 - numbers[0] if s > y else (-numbers[0] if s < y else 0.0)

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        return 0.0
