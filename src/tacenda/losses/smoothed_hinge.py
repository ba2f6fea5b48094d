"""The hinge loss with a smooth kink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.losses.base import OfOneScore, Typical
from tacenda.losses.formulas import clamped, formula
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class SmoothedHinge(OfOneScore):
    """The hinge with its kink replaced by a parabola of half-width h = `width`.

    Labels y in {-1, +1}, z = y s:

        0                    where z >= 1 + h
        (1 + h - z)^2/(4h)   where |1 - z| < h
        1 - z                where z <= 1 - h

    Slope 1, curvature 1/(2h). Once differentiable with a Lipschitz gradient, but not twice.

    Parameters
    ----------
    width : float, default=0.5
        h, above 0.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.SmoothedHinge(width=0.5).value(1.0, 1.0))
    0.125
    """

    width: float = 0.5
    name: ClassVar[str] = "smoothed-hinge"
    kind: ClassVar[str] = "binary"
    predicts: ClassVar[str] = "class"
    slope: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = False
    typical: ClassVar[Typical] = Typical(0.3, 1.0)  # it bends once, over scores of about 2
    code: ClassVar[int] = 2

    def __post_init__(self) -> None:
        checks.positive("width", self.width)

    @property
    def curvature(self) -> float:
        """1/(2 width)."""
        return 1.0 / (2.0 * self.width)

    @property
    def parameter(self) -> float:
        """`width`."""
        return self.width

    def value(self, scores: Array, labels: Array) -> Array:
        """The three pieces above, of each record."""
        h, z = self.width, labels * scores
        gap = np.clip(1.0 + h - z, 0.0, 2.0 * h)
        return gap**2 / (4.0 * h) + np.maximum(0.0, 1.0 - h - z)

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        return -y * clamped((numbers[1] - y * s) / (2.0 * numbers[0]), 0.0, 1.0)

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        return 1.0 / (2.0 * numbers[0]) if abs(1.0 - y * s) < numbers[0] else 0.0
