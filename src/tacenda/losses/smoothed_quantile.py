"""The pinball loss with a smooth kink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.losses.base import OfOneScore, Typical, several_numbers
from tacenda.losses.formulas import clamped, formula
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class SmoothedQuantile(OfOneScore):
    """The pinball loss with its kink replaced by a parabola of half-width h = `width`.

    u = s - y, q = `level`:

        -q u                       where u <= -h
        (u + h)^2/(4h) - q u       where |u| < h
        (1 - q) u                  where u >= h

    It is the mean pinball loss of labels blurred evenly over [y - h, y + h], less a constant of at
    most h/4: so the quantile of the blurred labels is what it finds. Slope max(q, 1 - q), curvature
    1/(2h). Once differentiable with a Lipschitz gradient, but not twice.

    Parameters
    ----------
    level : float, default=0.5
        q, between 0 and 1.
    width : float, default=0.1
        h, above 0, in the labels' unit: small against the spread of the labels.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.SmoothedQuantile(level=0.75, width=0.5).value(1.0, 3.0))
    1.5
    """

    level: float = 0.5
    width: float = 0.1
    name: ClassVar[str] = "smoothed-quantile"
    kind: ClassVar[str] = "regression"
    predicts: ClassVar[str] = "quantile"
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = False
    typical: ClassVar[Typical] = Typical(0.5, 0.5)  # its slope rises by 1 over residuals of 2
    unit: ClassVar[float] = 1.0  # the kink is smoothed a little, whatever the residuals' unit
    code: ClassVar[int] = 12

    def __post_init__(self) -> None:
        checks.between("level", self.level, 0.0, 1.0)
        checks.positive("width", self.width)

    @property
    def slope(self) -> float:
        """max(level, 1 - level)."""
        return max(self.level, 1.0 - self.level)

    @property
    def curvature(self) -> float:
        """1/(2 width)."""
        return 1.0 / (2.0 * self.width)

    @property
    def parameter(self) -> float:
        """`width`."""
        return self.width

    @property
    def numbers(self) -> Floats:
        """What the compiled formula reads: the level and the width."""
        return several_numbers(self.level, self.width)

    def value(self, scores: Array, labels: Array) -> Array:
        """The three pieces above, of each record."""
        h, u = self.width, np.asarray(scores - labels)
        bent = np.clip(u + h, 0.0, 2.0 * h) ** 2 / (4.0 * h)
        return np.asarray(bent + np.maximum(u - h, 0.0) - self.level * u)

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        return clamped((s - y + numbers[1]) / (2.0 * numbers[1]), 0.0, 1.0) - numbers[0]

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        return 1.0 / (2.0 * numbers[1]) if abs(s - y) < numbers[1] else 0.0
