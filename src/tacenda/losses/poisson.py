"""The Poisson loss of counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda._types import Array
from tacenda.losses.formulas import clamped, formula
from tacenda.losses.of_counts import OfCounts, y_log_y
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class Poisson(OfCounts):
    """Counts with a log link: the rate is exp(s), labels y from 0 to Y = `label_bound`.

    Half the deviance of Poisson regression, in units of Y:

        (exp(s) - y s - y + y ln y)/Y            where exp(s) <= Y
        the tangent at s = ln Y continued        beyond

    So it is convex, its slope (min(exp(s), Y) - y)/Y is at most 1 and its curvature at most 1.
    The straight line only concerns scores whose rate would exceed the largest count that a label
    can have; a model with such a rate is penalised less than the likelihood would, never more. Once
    differentiable with a Lipschitz gradient, but not twice (at exp(s) = Y the curvature falls to
    0). A label beyond the bounds counts as the bound.

    Parameters
    ----------
    label_bound : float, default=1.0
        Y, the largest count, declared from public knowledge. 1 is for labels that were divided by
        it before. Choose it so that few counts lie above: those are cut, which pulls rates down.

    Examples
    --------
    >>> import tacenda as tc
    >>> loss = tc.losses.Poisson(label_bound=10)
    >>> float(loss.derivative(0.0, 3.0))  # a rate of 1, a count of 3
    -0.2
    """

    name: ClassVar[str] = "poisson"
    is_likelihood: ClassVar[bool] = True
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 9

    @property
    def typical_curvature(self) -> float:
        """That at the typical rate."""
        return self.typical_rate / self.label_bound

    def value(self, scores: Array, labels: Array) -> Array:
        """The two pieces above, of each record."""
        most, knee = self.label_bound, math.log(self.label_bound)
        y = np.clip(labels, 0.0, most)
        rate = np.exp(np.minimum(scores, knee)) + most * np.maximum(scores - knee, 0.0)
        return np.asarray((rate - y * scores - y + y_log_y(y)) / most)

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        most, rate = numbers[0], math.exp(s)
        return ((most if rate > most else rate) - clamped(y, 0.0, most)) / most

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        rate = math.exp(s)
        return rate / numbers[0] if rate < numbers[0] else 0.0
