"""The logistic loss of two classes."""

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
class Logistic(OfOneScore):
    """ln(1 + exp(-y s)), labels y in {-1, +1}.

    Slope 1, curvature 1/4, infinitely differentiable.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.Logistic().value(0.0, 1.0).round(4))
    0.6931
    """

    name: ClassVar[str] = "logistic"
    kind: ClassVar[str] = "binary"
    predicts: ClassVar[str] = "log-odds"
    is_likelihood: ClassVar[bool] = True
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = 0.25
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    typical: ClassVar[Typical] = Typical(0.15, 1.5)  # p (1 - p) at scores around 1.5
    code: ClassVar[int] = 0

    def value(self, scores: Array, labels: Array) -> Array:
        """ln(1 + exp(-y s)) of each record, without overflow."""
        return np.asarray(np.logaddexp(0.0, -labels * scores))

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        return -y / (1.0 + math.exp(y * s))

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        small = math.exp(-abs(y * s))
        return small / ((1.0 + small) * (1.0 + small))
