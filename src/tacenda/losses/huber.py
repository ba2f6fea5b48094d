"""Huber's loss of a regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.losses.base import RESIDUALS, OfOneScore, Typical
from tacenda.losses.formulas import clamped, formula
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class Huber(OfOneScore):
    """u^2/2 where |u| <= delta, else delta (|u| - delta/2), with u = s - y and real labels.

    Slope delta, curvature 1. Once differentiable with a Lipschitz gradient, but not twice.

    Parameters
    ----------
    delta : float, default=1.0
        Where the parabola becomes a line, above 0. This is not the delta of privacy.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.Huber(delta=1.0).value(3.0, 1.0))
    1.5
    """

    delta: float = 1.0
    name: ClassVar[str] = "huber"
    kind: ClassVar[str] = "regression"
    predicts: ClassVar[str] = "value"
    error_condition: ClassVar[str] = "which holds where most residuals are below the threshold"
    curvature: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = False
    typical: ClassVar[Typical] = Typical(1.0, 0.5, RESIDUALS)
    code: ClassVar[int] = 4

    def __post_init__(self) -> None:
        checks.positive("delta", self.delta)

    @property
    def slope(self) -> float:
        """`delta`."""
        return self.delta

    @property
    def parameter(self) -> float:
        """`delta`."""
        return self.delta

    def value(self, scores: Array, labels: Array) -> Array:
        """The two pieces above, of each record."""
        size = np.abs(scores - labels)
        return np.asarray(
            np.where(size <= self.delta, 0.5 * size**2, self.delta * (size - 0.5 * self.delta))
        )

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        return clamped(s - y, -numbers[0], numbers[0])

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        return 1.0 if abs(s - y) < numbers[0] else 0.0
