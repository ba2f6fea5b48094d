"""Convex losses of one record, and what each of them promises to the algorithms.

Every loss but those of several classes is a function of the score s = x.w and the label y. A loss
declares

    slope                 bound of |d loss / d s|; times the bound on |x| it is the letter G
    curvature             bound of d^2 loss / d s^2; times the squared bound on |x| it is the letter
                          c1
    smooth                the gradient exists and is Lipschitz
    twice_differentiable  the Hessian exists everywhere; objective perturbation needs it
    kind                  "binary" (labels -1, +1), "regression" or "multiclass" (labels 0 .. K-1)

and gives `value`, `derivative` and `second` of arrays of scores and labels. The derivatives are
written once, in the compiled kernels (kernels/rows.py), where `code` and `parameter` name them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from tacenda import checks, plugins
from tacenda._types import Array, Floats
from tacenda.errors import InputError
from tacenda.problem.custom_loss import CustomLoss
from tacenda.problem.multinomial import MulticlassHinge, Multinomial, several_numbers
from tacenda.problem.of_one_score import OfOneScore

__all__ = [
    "AbsoluteDeviation",
    "CustomLoss",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "MulticlassHinge",
    "Multinomial",
    "NegativeBinomial",
    "Poisson",
    "Quantile",
    "SmoothedHinge",
    "SmoothedQuantile",
    "Squared",
    "by_name",
    "names",
    "register",
]


class Loss(Protocol):
    """What the rest of the package asks of a loss.

    The names in the Attributes are what every loss of this module has.

    Attributes
    ----------
    name : str
        The name in files and on the command line.
    kind : str
        "binary" (labels -1, +1), "regression" or "multiclass" (labels 0 .. K-1).
    slope : float
        Bound of |d loss / d s|; times the bound on |x| it is the letter G of the papers.
    curvature : float
        Bound of d^2 loss / d s^2; times the squared bound on |x| it is the letter c1.
    smooth : bool
        Whether the gradient exists and is Lipschitz.
    twice_differentiable : bool
        Whether the Hessian exists everywhere; objective perturbation needs it.
    code : int
        Number of the compiled formula.
    parameter : float
        The loss's own parameter, 0 where it has none.
    numbers : ndarray of float or None
        What the compiled formula reads: the parameter, or the table of a `CustomLoss`; None for a
        loss of one score without parameters.
    label_range : (float, float)
        Where the labels of a regression lie; infinite for a loss of the residual s - y.

    Examples
    --------
    >>> import tacenda as tc
    >>> loss = tc.losses.by_name("logistic")
    >>> loss.kind, loss.slope, loss.curvature
    ('binary', 1.0, 0.25)
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
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
    def parameter(self) -> float: ...
    @property
    def numbers(self) -> Floats | None: ...
    @property
    def label_range(self) -> tuple[float, float]: ...

    def value(self, scores: Array, labels: Array) -> Array:
        """Loss of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record; (..., K) for the multinomial loss.
        labels : ndarray
            y of each record, in the loss's own coding.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together; without the last axis for the
            multinomial loss.
        """

    def derivative(self, scores: Array, labels: Array) -> Array:
        """d loss / d s of each record; 0 at a kink.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record; (..., K) for the multinomial loss.
        labels : ndarray
            y of each record, in the loss's own coding.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """


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
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = 0.25
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 0

    def value(self, scores: Array, labels: Array) -> Array:
        """ln(1 + exp(-y s)) of each record, without overflow.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record, -1 or +1.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        return np.asarray(np.logaddexp(0.0, -labels * scores))


@dataclass(frozen=True)
class Hinge(OfOneScore):
    """max(0, 1 - y s), labels y in {-1, +1}.

    Slope 1, not smooth; the subgradient at the kink is 0.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.Hinge().value(0.25, 1.0))
    0.75
    """

    name: ClassVar[str] = "hinge"
    kind: ClassVar[str] = "binary"
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 1

    def value(self, scores: Array, labels: Array) -> Array:
        """max(0, 1 - y s) of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record, -1 or +1.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        return np.maximum(0.0, 1.0 - labels * scores)


@dataclass(frozen=True)
class SmoothedHinge(OfOneScore):
    """The hinge with its kink replaced by a parabola of half-width h = `width`.

    Labels y in {-1, +1}, z = y s:

        0                    where z >= 1 + h
        (1 + h - z)^2/(4h)   where |1 - z| < h
        1 - z                where z <= 1 - h

    Slope 1, curvature 1/(2h). Once differentiable with a Lipschitz gradient, but not twice.

    Parameters
    ----------
    width : float, default=0.5
        h, above 0.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.SmoothedHinge(width=0.5).value(1.0, 1.0))
    0.125
    """

    width: float = 0.5
    name: ClassVar[str] = "smoothed-hinge"
    kind: ClassVar[str] = "binary"
    slope: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 2

    def __post_init__(self) -> None:
        checks.positive("width", self.width)

    @property
    def curvature(self) -> float:
        """1/(2 width)."""
        return 1.0 / (2.0 * self.width)

    @property
    def parameter(self) -> float:
        """`width`."""
        return self.width

    def value(self, scores: Array, labels: Array) -> Array:
        """The three pieces above, of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record, -1 or +1.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        h, z = self.width, labels * scores
        gap = np.clip(1.0 + h - z, 0.0, 2.0 * h)
        return gap**2 / (4.0 * h) + np.maximum(0.0, 1.0 - h - z)


@dataclass(frozen=True)
class Squared(OfOneScore):
    """(s - y)^2 / 2, real labels.

    Its slope is unbounded, so that private gradients need `clip_norm`; curvature 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.Squared().value(3.0, 1.0))
    2.0
    """

    name: ClassVar[str] = "squared"
    kind: ClassVar[str] = "regression"
    slope: ClassVar[float] = math.inf
    curvature: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 3

    def value(self, scores: Array, labels: Array) -> Array:
        """(s - y)^2 / 2 of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        return 0.5 * (scores - labels) ** 2


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
    curvature: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = False
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
        """The two pieces above, of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        size = np.abs(scores - labels)
        return np.asarray(
            np.where(size <= self.delta, 0.5 * size**2, self.delta * (size - 0.5 * self.delta))
        )


@dataclass(frozen=True)
class AbsoluteDeviation(OfOneScore):
    """|s - y|, real labels.

    Slope 1, not smooth; the subgradient at the kink is 0.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.AbsoluteDeviation().value(3.0, 1.0))
    2.0
    """

    name: ClassVar[str] = "absolute-deviation"
    kind: ClassVar[str] = "regression"
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 5

    def value(self, scores: Array, labels: Array) -> Array:
        """|s - y| of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        return np.asarray(np.abs(scores - labels))


@dataclass(frozen=True)
class Poisson(OfOneScore):
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

    label_bound: float = 1.0
    name: ClassVar[str] = "poisson"
    kind: ClassVar[str] = "regression"
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 9

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
    def typical_curvature(self) -> float:
        """The curvature for which steps are planned.

        That at a rate of 1, or of an eighth of the label bound if that is less.
        """
        return _typical_rate(self.label_bound) / self.label_bound

    def value(self, scores: Array, labels: Array) -> Array:
        """The two pieces above, of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        most, knee = self.label_bound, math.log(self.label_bound)
        y = np.clip(labels, 0.0, most)
        rate = np.exp(np.minimum(scores, knee)) + most * np.maximum(scores - knee, 0.0)
        return np.asarray((rate - y * scores - y + _y_log_y(y)) / most)


@dataclass(frozen=True)
class NegativeBinomial(OfOneScore):
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

    label_bound: float = 1.0
    dispersion: float = 1.0
    name: ClassVar[str] = "negative-binomial"
    kind: ClassVar[str] = "regression"
    slope: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 10

    def __post_init__(self) -> None:
        checks.positive("label_bound", self.label_bound)
        checks.between("dispersion", self.dispersion, 1e-9, 1e9, open_ends=False)

    @property
    def curvature(self) -> float:
        """(Y + r)/(4 max(Y, r))."""
        r = 1.0 / self.dispersion
        return (self.label_bound + r) / (4.0 * max(self.label_bound, r))

    @property
    def parameter(self) -> float:
        """`label_bound`."""
        return self.label_bound

    @property
    def numbers(self) -> Floats:
        """What the compiled formula reads: Y, r and ln r."""
        r = 1.0 / self.dispersion
        return several_numbers(self.label_bound, r, math.log(r))

    @property
    def label_range(self) -> tuple[float, float]:
        """From 0 to `label_bound`."""
        return 0.0, self.label_bound

    @property
    def typical_curvature(self) -> float:
        """The curvature for which steps are planned.

        That at a rate, and a label, of 1, or of an eighth of the label bound if that is less.
        """
        m, r = _typical_rate(self.label_bound), 1.0 / self.dispersion
        return m * r / (m + r) / max(self.label_bound, r)

    def value(self, scores: Array, labels: Array) -> Array:
        """The formula above, of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        r = 1.0 / self.dispersion
        y = np.clip(labels, 0.0, self.label_bound)
        both = (y + r) * (np.logaddexp(math.log(r), scores) - np.log(y + r))
        return np.asarray((_y_log_y(y) - y * scores + both) / max(self.label_bound, r))


@dataclass(frozen=True)
class Quantile(OfOneScore):
    """The pinball loss of a quantile: max((1 - q) u, -q u) with u = s - y and q = `level`.

    A model that minimises it predicts the value below which the share q of the labels lies. Slope
    max(q, 1 - q), not smooth; the subgradient at the kink is 0. `SmoothedQuantile` is for
    algorithms that need a smooth loss.

    Parameters
    ----------
    level : float, default=0.5
        q, between 0 and 1; 1/2 is the median, and half the absolute deviation.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.Quantile(level=0.75).value(1.0, 3.0))
    1.5
    """

    level: float = 0.5
    name: ClassVar[str] = "quantile"
    kind: ClassVar[str] = "regression"
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 11

    def __post_init__(self) -> None:
        checks.between("level", self.level, 0.0, 1.0)

    @property
    def slope(self) -> float:
        """max(level, 1 - level)."""
        return max(self.level, 1.0 - self.level)

    @property
    def numbers(self) -> Floats:
        """What the compiled formula reads: the level, and no width."""
        return several_numbers(self.level, 0.0)

    def value(self, scores: Array, labels: Array) -> Array:
        """max((1 - q) (s - y), q (y - s)) of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        u = np.asarray(scores - labels)
        return np.asarray(np.maximum((1.0 - self.level) * u, -self.level * u))


@dataclass(frozen=True)
class SmoothedQuantile(OfOneScore):
    """The pinball loss with its kink replaced by a parabola of half-width h = `width`.

    u = s - y, q = `level`:

        -q u                       where u <= -h
        (u + h)^2/(4h) - q u       where |u| < h
        (1 - q) u                  where u >= h

    It is the mean pinball loss of labels blurred evenly over [y - h, y + h], less a constant of at
    most h/4: so the quantile of the blurred labels is what it finds. Slope max(q, 1 - q), curvature
    1/(2h). Once differentiable with a Lipschitz gradient, but not twice.

    Parameters
    ----------
    level : float, default=0.5
        q, between 0 and 1.
    width : float, default=0.1
        h, above 0, in the labels' unit: small against the spread of the labels.

    Examples
    --------
    >>> import tacenda as tc
    >>> float(tc.losses.SmoothedQuantile(level=0.75, width=0.5).value(1.0, 3.0))
    1.5
    """

    level: float = 0.5
    width: float = 0.1
    name: ClassVar[str] = "smoothed-quantile"
    kind: ClassVar[str] = "regression"
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 11

    def __post_init__(self) -> None:
        checks.between("level", self.level, 0.0, 1.0)
        checks.positive("width", self.width)

    @property
    def slope(self) -> float:
        """max(level, 1 - level)."""
        return max(self.level, 1.0 - self.level)

    @property
    def curvature(self) -> float:
        """1/(2 width)."""
        return 1.0 / (2.0 * self.width)

    @property
    def parameter(self) -> float:
        """`width`."""
        return self.width

    @property
    def numbers(self) -> Floats:
        """What the compiled formula reads: the level and the width."""
        return several_numbers(self.level, self.width)

    def value(self, scores: Array, labels: Array) -> Array:
        """The three pieces above, of each record.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        h, u = self.width, np.asarray(scores - labels)
        bent = np.clip(u + h, 0.0, 2.0 * h) ** 2 / (4.0 * h)
        return np.asarray(bent + np.maximum(u - h, 0.0) - self.level * u)


def _typical_rate(label_bound: float) -> float:
    return min(1.0, label_bound / 8.0)


def _y_log_y(y: Array) -> Array:
    """y ln y, 0 at 0."""
    return np.asarray(y * np.log(np.where(y > 0.0, y, 1.0)))


_BY_NAME: dict[str, type[Any]] = {
    kind.name: kind
    for kind in (
        Logistic,
        Hinge,
        SmoothedHinge,
        Squared,
        Huber,
        AbsoluteDeviation,
        Multinomial,
        MulticlassHinge,
        Poisson,
        NegativeBinomial,
        Quantile,
        SmoothedQuantile,
    )
}


GROUP = "tacenda.losses"
_REGISTERED: dict[str, CustomLoss] = {}


def names() -> tuple[str, ...]:
    """Names of the losses of this package.

    Returns
    -------
    tuple of str
        One name for each loss.

    Examples
    --------
    >>> import tacenda as tc
    >>> "hinge" in tc.losses.names()
    True
    """
    return tuple(_BY_NAME)


def register(loss: CustomLoss) -> CustomLoss:
    """Make a loss of your own known by its name in this process.

    A package that is installed names its loss in the entry-point group `tacenda.losses` instead,
    and it is found by name everywhere, on real nodes too.

    Parameters
    ----------
    loss : CustomLoss
        The loss.

    Returns
    -------
    CustomLoss
        The same loss.

    Raises
    ------
    InputError
        If it is no `CustomLoss`, or another loss has the name.

    Examples
    --------
    >>> import tacenda as tc
    >>> callable(tc.losses.register)
    True
    """
    if not isinstance(loss, CustomLoss):
        raise InputError(f"register takes a CustomLoss, not {loss!r}.")
    if loss.name in _BY_NAME or _REGISTERED.get(loss.name, loss) != loss:
        raise InputError(
            f"CustomLoss.name: {loss.name!r} is the name of another loss already; "
            "give yours another name."
        )
    _REGISTERED[loss.name] = loss
    return loss


def code_hash(loss: Loss) -> str | None:
    """SHA-256 of the source of the packages that a loss of somebody's own comes from; None for one
    of this package."""
    if not isinstance(loss, CustomLoss):
        return None
    return plugins.source_hash(loss.modules, f"The loss {loss.name!r}")


def by_name(loss: str | Loss, **options: Any) -> Loss:
    """Loss of that name, with its usual settings or those given.

    Parameters
    ----------
    loss : str or Loss
        A name (hyphen or underscore), those of installed plugins included; a loss object is
        returned as it is, but for the options.
    **options : float
        Settings of the loss, such as label_bound=12.0.

    Returns
    -------
    Loss
        The loss.

    Raises
    ------
    InputError
        If there is no such loss, or it has no such setting.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.losses.by_name("smoothed_hinge")
    SmoothedHinge(width=0.5)
    >>> tc.losses.by_name("poisson", label_bound=12.0)
    Poisson(label_bound=12.0)
    """
    if options:
        return checks.with_options("loss_options", by_name(loss), options)  # type: ignore[no-any-return]
    if isinstance(loss, CustomLoss) or type(loss) in _BY_NAME.values():
        return loss  # type: ignore[return-value]
    if isinstance(loss, tuple(_BY_NAME.values())):
        raise InputError(
            f"loss must be of a known class itself, not of {type(loss).__name__}, made from one: "
            "records are read by the known formula, and noise would follow from other bounds; "
            "declare a CustomLoss."
        )
    if isinstance(loss, type):
        raise InputError(
            f"loss must be a name or an object, not the class {loss.__name__}: "
            f"write {loss.__name__}()."
        )
    word = loss.lower().replace("_", "-") if isinstance(loss, str) else loss
    if word in _BY_NAME:
        return _BY_NAME[word]()  # type: ignore[no-any-return]
    if word not in _REGISTERED:
        offered = plugins.offered(GROUP, "a loss")
        checks.one_of("loss", word, [*_BY_NAME, *_REGISTERED, *offered])
        plugins.load(offered[str(word)], register)
    return _REGISTERED[str(word)]
