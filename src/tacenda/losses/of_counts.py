"""What the losses of counts with a log link have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.losses.base import OfOneScore, Typical

COUNT_SIGNAL = 0.5  # mean square of what there is to learn of the logarithm of a rate


@dataclass(frozen=True)
class OfCounts(OfOneScore):
    """A loss of counts from 0 to `label_bound`, whose scores are logarithms of rates."""

    label_bound: float = 1.0
    kind: ClassVar[str] = "regression"
    predicts: ClassVar[str] = "log-rate"
    unit: ClassVar[float] = 1.0  # a score is in a unit of its own

    def __post_init__(self) -> None:
        checks.positive("label_bound", self.label_bound)

    @property
    def parameter(self) -> float:
        """`label_bound`."""
        return self.label_bound

    @property
    def label_range(self) -> tuple[float, float]:
        """From 0 to `label_bound`."""
        return 0.0, self.label_bound

    @property
    def typical_rate(self) -> float:
        """1, or an eighth of the label bound if that is less: there steps are planned."""
        return min(1.0, self.label_bound / 8.0)

    @property
    def counted_as_one(self) -> float:
        """By how much the logarithm of the likelihood is divided."""
        return self.label_bound

    @property
    def typical_curvature(self) -> float:
        """The curvature for which steps are planned."""
        raise NotImplementedError

    @property
    def typical(self) -> Typical:
        """What planning assumes: the curvature at the typical rate."""
        return Typical(self.typical_curvature, COUNT_SIGNAL**0.5, 1.0 / self.counted_as_one)


def y_log_y(y: Array) -> Array:
    """y ln y, 0 at 0."""
    return np.asarray(y * np.log(np.where(y > 0.0, y, 1.0)))
