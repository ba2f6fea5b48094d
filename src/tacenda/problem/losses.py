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

from tacenda import checks
from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.problem.multinomial import MulticlassHinge, Multinomial

__all__ = [
    "AbsoluteDeviation",
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


class _OfOneScore:
    """The derivatives of a loss of one score, by its compiled formula."""

    code: ClassVar[int]

    @property
    def parameter(self) -> float:
        """The loss's own parameter, 0 where it has none."""
        return 0.0

    def derivative(self, scores: Array, labels: Array) -> Array:
        """d loss / d s of each record; 0 at a kink.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record, in the loss's own coding.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        from tacenda.problem.kernels.rows import slopes_of  # here: it loads the compiler

        return self._each(slopes_of, scores, labels)

    def second(self, scores: Array, labels: Array) -> Array:
        """d^2 loss / d s^2 of each record.

        One element of it where the loss is only once differentiable.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record, in the loss's own coding.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        from tacenda.problem.kernels.rows import curvatures_of  # here: it loads the compiler

        return self._each(curvatures_of, scores, labels)

    def _each(self, formula: Any, scores: Array, labels: Array) -> Array:
        s, y = np.broadcast_arrays(np.asarray(scores, np.float64), np.asarray(labels, np.float64))
        found: Array = formula(self.code, self.parameter, s.ravel(), y.ravel())
        return found.reshape(s.shape)


@dataclass(frozen=True)
class Logistic(_OfOneScore):
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
class Hinge(_OfOneScore):
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
class SmoothedHinge(_OfOneScore):
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
class Squared(_OfOneScore):
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
class Huber(_OfOneScore):
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
class AbsoluteDeviation(_OfOneScore):
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


def names() -> tuple[str, ...]:
    """Names that `by_name` knows.

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


def by_name(loss: str | Loss) -> Loss:
    """Loss of that name, with its default parameter.

    Parameters
    ----------
    loss : str or Loss
        A name (hyphen or underscore); a loss object is returned as it is.

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
    if isinstance(loss, tuple(_BY_NAME.values())):
        return loss  # type: ignore[return-value]
    if isinstance(loss, type):
        raise InputError(
            f"loss must be a name or an object, not the class {loss.__name__}: "
            f"write {loss.__name__}()."
        )
    word = loss.lower().replace("_", "-") if isinstance(loss, str) else loss
    return _BY_NAME[checks.one_of("loss", word, _BY_NAME)]()  # type: ignore[no-any-return]
