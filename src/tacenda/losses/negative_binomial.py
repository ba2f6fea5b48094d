"""The negative binomial loss of counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.losses.base import several_numbers
from tacenda.losses.formulas import clamped, formula
from tacenda.losses.of_counts import OfCounts, y_log_y
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class NegativeBinomial(OfCounts):
    """Counts that vary more than Poisson's, with a log link and a declared dispersion.

    The rate is m = exp(s), the variance m + a m^2 with a = `dispersion`; labels y from 0 to Y =
    `label_bound`. Half the deviance, in units of max(Y, r), r = 1/a:

        (y ln(y/m) - (y + r) ln((y + r)/(m + r)))/max(Y, r)

    For a fixed dispersion it is convex in the score: its slope (y + r) m/(m + r) - y rises in s,
    from -y to r, so that it is bounded by itself and needs no straight line; its curvature is at
    most (Y + r)/4, both over max(Y, r). Infinitely differentiable. A label beyond the bounds counts
    as the bound.

    Parameters
    ----------
    label_bound : float, default=1.0
        Y, the largest count, declared from public knowledge. 1 is for labels that were divided by
        it before; the dispersion is then Y times as large.
    dispersion : float, default=1.0
        a, above 0, in the labels' unit: the variance is m + a m^2. Declared, never estimated from
        the records.

    Examples
    --------
    >>> import tacenda as tc
    >>> loss = tc.losses.NegativeBinomial(label_bound=10, dispersion=0.5)
    >>> loss.slope, loss.curvature
    (1.0, 0.3)
    """

    dispersion: float = 1.0
    name: ClassVar[str] = "negative-binomial"
    slope: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between("dispersion", self.dispersion, 1e-9, 1e9, open_ends=False)

    @property
    def counted_as_one(self) -> float:
        """max(Y, r)."""
        return max(self.label_bound, 1.0 / self.dispersion)

    @property
    def curvature(self) -> float:
        """(Y + r)/(4 max(Y, r))."""
        return (self.label_bound + 1.0 / self.dispersion) / (4.0 * self.counted_as_one)

    @property
    def numbers(self) -> Floats:
        """What the compiled formula reads: Y, r and ln r."""
        r = 1.0 / self.dispersion
        return several_numbers(self.label_bound, r, math.log(r))

    @property
    def typical_curvature(self) -> float:
        """That at the typical rate, which is also the label."""
        m, r = self.typical_rate, 1.0 / self.dispersion
        return m * r / (m + r) / self.counted_as_one

    def value(self, scores: Array, labels: Array) -> Array:
        """The formula above, of each record."""
        r = 1.0 / self.dispersion
        y = np.clip(labels, 0.0, self.label_bound)
        both = (y + r) * (np.logaddexp(math.log(r), scores) - np.log(y + r))
        return np.asarray((y_log_y(y) - y * scores + both) / self.counted_as_one)

    @staticmethod
    @formula
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """The slope in s."""
        y, r = clamped(y, 0.0, numbers[0]), numbers[1]
        found = (y + r) / (1.0 + r * math.exp(-s)) - y
        return clamped(found, -y, r) / (numbers[0] if numbers[0] > r else r)

    @staticmethod
    @formula
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """The curvature in s."""
        small, r = math.exp(-abs(s - numbers[2])), numbers[1]
        bend = small / ((1.0 + small) * (1.0 + small))
        return (clamped(y, 0.0, numbers[0]) + r) * bend / (numbers[0] if numbers[0] > r else r)
