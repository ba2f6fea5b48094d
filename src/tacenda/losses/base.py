"""What a loss says of itself, and the derivatives that follow from its compiled formulas.

Every loss but those of several classes is a function of the score s = x.w and the label y. Its file
holds everything that the library knows about it: value, slope and curvature with their bounds, the
labels that it takes, what its scores predict, and what planning may assume. Nothing else in the
library asks for a loss by its name.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tacenda._arrays import flat_input
from tacenda._types import Array, Floats

RESIDUALS = 0.1  # typical variance of residuals of labels that lie in [-1, 1]

# What a score predicts: the log odds of a class, a class by its largest score, the label, the
# logarithm of its rate, a quantile of it, an ordered class, or the hazard of an event
PREDICTIONS = ("log-odds", "class", "value", "log-rate", "quantile", "order", "hazard")


class Typical(NamedTuple):
    """What planning assumes of the data: `curvature` of the loss at typical scores, `signal` the
    rms size of the scores to learn, `scatter` the variance of a record's slope over the curvature:
    1 for the logarithm of a likelihood, the variance of residuals for least squares."""

    curvature: float
    signal: float
    scatter: float = 1.0


class Loss(Protocol):
    """What the rest of the package asks of a loss.

    The names in the Attributes are what every loss of this module has.

    Attributes
    ----------
    name : str
        The name in files and on the command line.
    kind : str
        "binary" (labels -1, +1), "regression" or "multiclass" (labels 0 .. K-1).
    predicts : str or None
        What a score predicts: "log-odds", "class", "value", "log-rate", "quantile", "order" or
        "hazard"; None where it is not known, as for a `CustomLoss` of the residual.
    slope : float
        Bound of |d loss / d s|; times the bound on |x| it is the letter G of the papers.
    curvature : float
        Bound of d^2 loss / d s^2; times the squared bound on |x| it is the letter c1.
    smooth : bool
        Whether the gradient exists and is Lipschitz.
    twice_differentiable : bool
        Whether the Hessian exists everywhere; objective perturbation needs it.
    quadratic : bool
        Whether the second derivative is 1 everywhere.
    is_likelihood : bool
        Whether it is minus the logarithm of a likelihood whose variance is the curvature.
    has_two_lines : bool
        Whether it is two straight lines that meet in a kink, as linear programs solve.
    stacked : bool
        Whether a record is several rows of a loss of two classes (`losses.stacked`).
    code : int
        Number of the compiled formula.
    parameter : float
        The loss's own parameter, 0 where it has none.
    numbers : ndarray of float or None
        What the compiled formula reads: the parameter, or the table of a `CustomLoss`; None for a
        loss of one score without parameters.
    label_range : (float, float)
        Where the labels of a regression lie; infinite for a loss of the residual s - y.
    unit : float
        The residual at which the slope reaches its bound; 1 where it has kinks, or no bound.
    typical : Typical
        What planning assumes of the data.
    error_condition : str
        When planned standard errors hold, as the end of a sentence; empty where they always do.

    Examples
    --------
    >>> import tacenda as tc
    >>> loss = tc.losses.by_name("logistic")
    >>> loss.kind, loss.slope, loss.curvature
    ('binary', 1.0, 0.25)
    """

    quadratic: ClassVar[bool] = False
    is_likelihood: ClassVar[bool] = False
    has_two_lines: ClassVar[bool] = False
    stacked: ClassVar[bool] = False
    error_condition: ClassVar[str] = ""

    if TYPE_CHECKING:  # class variables of some losses, and properties of others

        @property
        def name(self) -> str: ...
        @property
        def kind(self) -> str: ...
        @property
        def predicts(self) -> str | None: ...
        @property
        def slope(self) -> float: ...
        @property
        def curvature(self) -> float: ...
        @property
        def smooth(self) -> bool: ...
        @property
        def twice_differentiable(self) -> bool: ...
        @property
        def code(self) -> int: ...
        @property
        def numbers(self) -> Floats | None: ...
        @property
        def typical(self) -> Typical: ...

    else:
        name: str
        kind: str
        predicts: str | None
        slope: float
        curvature: float
        smooth: bool
        twice_differentiable: bool
        code: int
        numbers: Floats | None
        typical: Typical

    @property
    def parameter(self) -> float:
        return 0.0

    @property
    def classifies(self) -> bool:
        """Whether a record's scores name one of the classes."""
        return self.kind != "regression" and not self.stacked

    @property
    def of_a_row(self) -> Loss:
        """The loss of one row, where a record is several."""
        return self

    @property
    def label_range(self) -> tuple[float, float]:
        return -math.inf, math.inf

    @property
    def unit(self) -> float:
        unit = self.slope / self.curvature
        return unit if 0.0 < unit < math.inf else 1.0

    def value(self, scores: Array, labels: Array) -> Array:
        """Loss of each record.

        scores: s = x.w of each record; (..., K) for losses of several classes. labels: y of each
        record, in the loss's own coding. Result: of the shape that scores and labels have together;
        without the last axis for losses of several classes.
        """
        ...

    def derivative(self, scores: Array, labels: Array) -> Array:
        """d loss / d s of each record; 0 at a kink.

        scores: s = x.w of each record; (..., K) for losses of several classes. labels: y of each
        record, in the loss's own coding. Result: of the shape that scores and labels have together.
        """
        ...


class OfOneScore(Loss):
    """A loss of one score: its derivatives, by its compiled formulas."""

    @property
    def numbers(self) -> Floats | None:
        """What the compiled formula reads: the parameter h, and 1 + h, rounded once.

        None where there is none, so that only what such a loss needs is compiled.
        """
        return several_numbers(self.parameter, 1.0 + self.parameter) if self.parameter else None

    @staticmethod
    def slope_at(numbers: Any, s: float, y: float) -> float:
        """Return d loss / d s of one record; compiled.

        Result: the slope; 0 at a kink.
        """
        raise NotImplementedError

    @staticmethod
    def curvature_at(numbers: Any, s: float, y: float) -> float:
        """Return d^2 loss / d s^2 of one record; compiled.

        Result: the curvature; one element of it where the loss is only once differentiable.
        """
        raise NotImplementedError

    def derivative(self, scores: Array, labels: Array) -> Array:
        """d loss / d s of each record; 0 at a kink."""
        from tacenda.losses.compiled import slopes_of  # here: it loads the compiler

        return self._each(slopes_of, scores, labels)

    def second(self, scores: Array, labels: Array) -> Array:
        """d^2 loss / d s^2 of each record.

        One element of it where the loss is only once differentiable.

        scores: s = x.w of each record. labels: y of each record, in the loss's own coding. Result:
        of the shape that scores and labels have together.
        """
        from tacenda.losses.compiled import curvatures_of  # here: it loads the compiler

        return self._each(curvatures_of, scores, labels)

    @property
    def typical(self) -> Typical:
        """What planning assumes: the mean curvature at scores, or residuals, of the typical size.

        By Stein's lemma E[loss''(s z)] = E[z loss'(s z)]/s for a standard normal z, kinks included.
        """
        signal = 0.5 if self.kind == "regression" else 1.5
        spread = signal * (self.unit if self.kind == "regression" else 1.0)
        z, step = np.linspace(-8.0, 8.0, 4001, retstep=True)
        slopes = self.derivative(spread * z, np.full(len(z), 1.0 if self.kind == "binary" else 0.0))
        mean = float(np.sum(z * slopes * np.exp(-0.5 * z * z)) * step / math.sqrt(2 * math.pi))
        return Typical(mean / spread, signal)

    def _each(self, compiled: Any, scores: Array, labels: Array) -> Array:
        s, y = np.broadcast_arrays(np.asarray(scores, np.float64), np.asarray(labels, np.float64))
        found = np.empty(s.shape)
        compiled(self.code, self.numbers, flat_input(s), flat_input(y), found.reshape(-1))
        return found


class OfClassScores(Loss):
    """A loss of K scores, one for each class: the softmax of its scores, compiled."""

    @property
    def numbers(self) -> Floats:
        """What the compiled formula reads: the parameter h, and 1 + h, rounded once."""
        return several_numbers(self.parameter, 1.0 + self.parameter)

    @property
    def typical(self) -> Typical:
        """What planning assumes: of several classes, sum p (1 - p) is about 0.5."""
        return Typical(0.5, 1.5)

    def derivative(self, scores: Array, labels: Array) -> Array:
        """The softmax minus the indicator of the label, of each record."""
        return self._softmax(scores, labels, 1.0)

    def softmax(self, scores: Array, labels: Array) -> Array:
        """The softmax q of the loss; its Hessian in the scores is 2 curvature (diag(q) - q q^T).

        scores: shape (..., K). labels: whole numbers from 0 to K - 1, shape (...).
        """
        return self._softmax(scores, labels, 0.0)

    def _softmax(self, scores: Array, labels: Array, less: float) -> Array:
        from tacenda.losses.compiled import softmax_minus_labels  # here: it loads the compiler

        result = np.array(scores, np.float64, order="C")
        wanted = np.broadcast_to(np.asarray(labels, np.int64), result.shape[:-1])
        softmax_minus_labels(
            result.reshape(-1, result.shape[-1]), flat_input(wanted), self.parameter, less
        )
        return result


def kernel_numbers(values: Any) -> Floats:
    """Numbers as the compiled formulas read them: one read-only row."""
    found = np.array(values, np.float64).reshape(-1)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=256)
def several_numbers(*values: float) -> Floats:
    """The numbers of a loss with parameters; kept here and not in the loss, whose content is what
    tells two runs apart."""
    return kernel_numbers(values)


def log_sum_exp(scores: Array) -> Array:
    """ln(sum_k exp(s_k)) of scores (..., K), without overflow."""
    top = scores.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0])


def at_label(scores: Array, labels: Array) -> Array:
    """The score of each record's own class."""
    wanted = np.asarray(labels, dtype=np.int64)[..., None]
    return np.asarray(np.take_along_axis(scores, wanted, axis=-1)[..., 0])
