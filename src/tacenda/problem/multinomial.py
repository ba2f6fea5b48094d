"""Losses of several classes: one score per class instead of one per record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._arrays import flat_input
from tacenda._types import Array, Floats


def kernel_numbers(values: Any) -> Floats:
    """Numbers as the compiled formulas read them: one read-only row."""
    found = np.array(values, np.float64).reshape(-1)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=256)
def parameter_numbers(parameter: float) -> Floats:
    """The numbers of a loss with one parameter h; kept here and not in the loss, whose content is
    what tells two runs apart."""
    return kernel_numbers((parameter, 1.0 + parameter))


@lru_cache(maxsize=256)
def several_numbers(*values: float) -> Floats:
    """The numbers of a loss with several parameters, kept here as those of one are."""
    return kernel_numbers(values)


class _OfClassScores:
    """The derivatives of a loss of K scores, by its compiled formula."""

    label_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)  # class numbers: see Loss

    @property
    def parameter(self) -> float:
        """The loss's own parameter, 0 where it has none."""
        return 0.0

    @property
    def numbers(self) -> Floats:
        """What the compiled formula reads: the parameter h, and 1 + h, rounded once."""
        return parameter_numbers(self.parameter)

    def derivative(self, scores: Array, labels: Array) -> Array:
        """The softmax minus the indicator of the label, of each record.

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
        return self._softmax(scores, labels, 1.0)

    def softmax(self, scores: Array, labels: Array) -> Array:
        """The softmax q of the loss; its Hessian in the scores is 2 curvature (diag(q) - q q^T).

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
        return self._softmax(scores, labels, 0.0)

    def _softmax(self, scores: Array, labels: Array, less: float) -> Array:
        from tacenda.problem.kernels.rows import softmax_minus_labels  # here: it loads the compiler

        result = np.array(scores, np.float64, order="C")
        wanted = np.broadcast_to(np.asarray(labels, np.int64), result.shape[:-1])
        softmax_minus_labels(
            result.reshape(-1, result.shape[-1]), flat_input(wanted), self.parameter, less
        )
        return result


@dataclass(frozen=True)
class Multinomial(_OfClassScores):
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
        return _log_sum_exp(scores) - _at_label(scores, labels)


@dataclass(frozen=True)
class MulticlassHinge(_OfClassScores):
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
        others = np.arange(scores.shape[-1]) != np.asarray(labels, np.int64)[..., None]
        t = self.temperature
        return t * _log_sum_exp((scores + others) / t) - _at_label(scores, labels)


def _log_sum_exp(scores: Array) -> Array:
    """ln(sum_k exp(s_k)) of scores (..., K), without overflow."""
    top = scores.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0])


def _at_label(scores: Array, labels: Array) -> Array:
    wanted = np.asarray(labels, dtype=np.int64)[..., None]
    return np.asarray(np.take_along_axis(scores, wanted, axis=-1)[..., 0])
