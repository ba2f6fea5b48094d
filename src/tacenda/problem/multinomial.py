"""Multinomial logistic loss: one score per class instead of one per record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacenda._types import Array


@dataclass(frozen=True)
class Multinomial:
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
    slope: ClassVar[float] = math.sqrt(2.0)
    curvature: ClassVar[float] = 0.5
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 6
    parameter: ClassVar[float] = 0.0

    def value(self, scores: Array, labels: Array) -> Array:
        """Loss of each record.

        Parameters
        ----------
        scores : ndarray
            Shape (..., K).
        labels : ndarray
            Whole numbers from 0 to K - 1, shape (...).

        Returns
        -------
        ndarray
            Shape (...).
        """
        top = scores.max(axis=-1, keepdims=True)
        total = np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0]
        wanted = np.asarray(labels, dtype=np.int64)[..., None]
        return np.asarray(total - np.take_along_axis(scores, wanted, axis=-1)[..., 0])

    def derivative(self, scores: Array, labels: Array) -> Array:
        """softmax(s) - e_y of each record.

        Parameters
        ----------
        scores : ndarray
            Shape (..., K).
        labels : ndarray
            Whole numbers from 0 to K - 1, shape (...).

        Returns
        -------
        ndarray
            Shape (..., K).
        """
        from tacenda.problem.kernels.rows import softmax_minus_labels  # here: it loads the compiler

        result = np.array(scores, np.float64)
        wanted = np.broadcast_to(np.asarray(labels, np.int64), result.shape[:-1])
        softmax_minus_labels(result.reshape(-1, result.shape[-1]), wanted.ravel())
        return result
