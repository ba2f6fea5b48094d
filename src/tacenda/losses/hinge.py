"""The hinge loss of two classes."""

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
class Hinge(OfOneScore):
    """max(0, 1 - y s), labels y in {-1, +1}.

    Slope 1, not smooth; the subgradient at the kink is 0.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.Hinge().value(0.25, 1.0))
    0.75
    """

    name: ClassVar[str] = "hinge"
    kind: ClassVar[str] = "binary"
    predicts: ClassVar[str] = "class"
    has_two_lines: ClassVar[bool] = True
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    typical: ClassVar[Typical] = Typical(0.3, 1.0)  # it bends once, over scores of about 2
    code: ClassVar[int] = 1

    def value(self, scores: Array, labels: Array) -> Array:
        """max(0, 1 - y s) of each record."""
        return np.maximum(0.0, 1.0 - labels * scores)

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        return -y if y * s < 1.0 else 0.0

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        return 0.0
