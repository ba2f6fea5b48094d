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
from tacenda.problem.multinomial import MulticlassHinge, Multinomial
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
    "SmoothedHinge",
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
    numbers : ndarray of float
        What the compiled formula reads: the parameter, or the table of a `CustomLoss`.

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
    def numbers(self) -> Floats: ...

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


def by_name(loss: str | Loss) -> Loss:
    """Loss of that name, with its default parameter.

    Parameters
    ----------
    loss : str or Loss
        A name (hyphen or underscore), those of installed plugins included; a loss object is
        returned as it is.

    Returns
    -------
    Loss
        The loss.

    Raises
    ------
    InputError
        If there is no such loss.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.losses.by_name("smoothed_hinge")
    SmoothedHinge(width=0.5)
    """
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
