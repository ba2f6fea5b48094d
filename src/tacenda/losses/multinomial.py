"""The multinomial loss of several classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tacenda._types import Array
from tacenda.losses.base import OfClassScores, at_label, log_sum_exp
from tacenda.losses.registry import built_in


@built_in
@dataclass(frozen=True)
class Multinomial(OfClassScores):
    """ln(sum_k exp(s_k)) - s_y with s = W x, W of shape (K, p), labels y in {0, .., K-1}.

    The gradient of one record is (softmax(s) - e_y) x^T, and |softmax(s) - e_y| <= sqrt(2): that is
    the slope. The Hessian is (diag(q) - q q^T) kron x x^T with q = softmax(s); its largest
    eigenvalue is at most |x|^2/2 (the curvature), its trace at most (1 - 1/K) |x|^2.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.losses.Multinomial().derivative(np.zeros((1, 4)), np.array([2]))
    array([[ 0.25,  0.25, -0.75,  0.25]])
    """

    name: ClassVar[str] = "multinomial"
    kind: ClassVar[str] = "multiclass"
    predicts: ClassVar[str] = "log-odds"
    slope: ClassVar[float] = math.sqrt(2.0)
    curvature: ClassVar[float] = 0.5
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 6

    def value(self, scores: Array, labels: Array) -> Array:
        """Loss of each record."""
        return log_sum_exp(scores) - at_label(scores, labels)
