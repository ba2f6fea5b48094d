"""The smoothed hinge loss of several classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.losses.base import OfClassScores, at_label, log_sum_exp
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class MulticlassHinge(OfClassScores):
    """The hinge of Crammer and Singer for several classes, smoothed.

    Instead of max_k (s_k + [k != y]) - s_y it is

        t ln(sum_k exp((s_k + [k != y])/t)) - s_y,      t = `temperature`

    which lies above the hinge by at most t ln K. Labels y in {0, .., K-1}, W of shape (K, p). With
    q the softmax of the scores in the exponent, the gradient of one record is (q - e_y) x^T, whose
    slope is at most sqrt(2) for any number of classes; the Hessian is (diag(q) - q q^T)/t kron x
    x^T, of curvature at most 1/(2t) and trace at most (1 - 1/K) |x|^2/t. (A sum of K hinges, one
    class against the rest, would have a slope of sqrt(K).)

    Parameters
    ----------
    temperature : float, default=0.5
        t, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.losses.MulticlassHinge().slope == tc.losses.Multinomial().slope
    True
    """

    temperature: float = 0.5
    name: ClassVar[str] = "multiclass-hinge"
    kind: ClassVar[str] = "multiclass"
    predicts: ClassVar[str] = "class"
    slope: ClassVar[float] = math.sqrt(2.0)
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 7

    def __post_init__(self) -> None:
        checks.positive("temperature", self.temperature)

    @property
    def curvature(self) -> float:
        """Bound of the second derivative in the scores, 1/(2 temperature)."""
        return 1.0 / (2.0 * self.temperature)

    @property
    def parameter(self) -> float:
        """`temperature`."""
        return self.temperature

    def value(self, scores: Array, labels: Array) -> Array:
        """Loss of each record."""
        others = np.arange(scores.shape[-1]) != np.asarray(labels, np.int64)[..., None]
        t = self.temperature
        return t * log_sum_exp((scores + others) / t) - at_label(scores, labels)
