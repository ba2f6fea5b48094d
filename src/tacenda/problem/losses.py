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
    """What the rest of the package asks of a loss."""

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

    def value(self, scores: Array, labels: Array) -> Array: ...
    def derivative(self, scores: Array, labels: Array) -> Array: ...


class _OfOneScore:
    """The derivatives of a loss of one score, by its compiled formula."""

    code: ClassVar[int]

    @property
    def parameter(self) -> float:
        return 0.0

    def derivative(self, scores: Array, labels: Array) -> Array:
        """d loss / d s, of the shape that scores and labels have together."""
        from tacenda.problem.kernels.rows import slopes_of  # here: it loads the compiler

        return self._each(slopes_of, scores, labels)

    def second(self, scores: Array, labels: Array) -> Array:
        """d^2 loss / d s^2, or one element of it where the loss is only once differentiable."""
        from tacenda.problem.kernels.rows import curvatures_of  # here: it loads the compiler

        return self._each(curvatures_of, scores, labels)

    def _each(self, formula: Any, scores: Array, labels: Array) -> Array:
        s, y = np.broadcast_arrays(np.asarray(scores, np.float64), np.asarray(labels, np.float64))
        found: Array = formula(self.code, self.parameter, s.ravel(), y.ravel())
        return found.reshape(s.shape)


@dataclass(frozen=True)
class Logistic(_OfOneScore):
    """ln(1 + exp(-y s)), labels y in {-1, +1};
    slope 1, curvature 1/4, infinitely differentiable."""

    name: ClassVar[str] = "logistic"
    kind: ClassVar[str] = "binary"
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = 0.25
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 0

    def value(self, scores: Array, labels: Array) -> Array:
        """ln(1 + exp(-y s)), without overflow."""
        return np.asarray(np.logaddexp(0.0, -labels * scores))


@dataclass(frozen=True)
class Hinge(_OfOneScore):
    """max(0, 1 - y s), labels y in {-1, +1}; slope 1, not smooth;
    the subgradient at the kink is 0."""

    name: ClassVar[str] = "hinge"
    kind: ClassVar[str] = "binary"
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 1

    def value(self, scores: Array, labels: Array) -> Array:
        """max(0, 1 - y s)."""
        return np.maximum(0.0, 1.0 - labels * scores)


@dataclass(frozen=True)
class SmoothedHinge(_OfOneScore):
    """The hinge with its kink replaced by a parabola of half-width h = `width`; labels y in {-1,
    +1}, z = y s:

        0                    where z >= 1 + h
        (1 + h - z)^2/(4h)   where |1 - z| < h
        1 - z                where z <= 1 - h

    Slope 1, curvature 1/(2h). Once differentiable with a Lipschitz gradient, but not twice.
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
        return 1.0 / (2.0 * self.width)

    @property
    def parameter(self) -> float:
        return self.width

    def value(self, scores: Array, labels: Array) -> Array:
        """The three pieces above."""
        h, z = self.width, labels * scores
        gap = np.clip(1.0 + h - z, 0.0, 2.0 * h)
        return gap**2 / (4.0 * h) + np.maximum(0.0, 1.0 - h - z)


@dataclass(frozen=True)
class Squared(_OfOneScore):
    """(s - y)^2 / 2, real labels; its slope is unbounded,
    so private gradients need clipping; curvature 1."""

    name: ClassVar[str] = "squared"
    kind: ClassVar[str] = "regression"
    slope: ClassVar[float] = math.inf
    curvature: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 3

    def value(self, scores: Array, labels: Array) -> Array:
        """(s - y)^2 / 2."""
        return 0.5 * (scores - labels) ** 2


@dataclass(frozen=True)
class Huber(_OfOneScore):
    """u^2/2 where |u| <= delta, else delta (|u| - delta/2), with u = s - y and real labels.

    Slope delta, curvature 1. Once differentiable with a Lipschitz gradient, but not twice.
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
        return self.delta

    @property
    def parameter(self) -> float:
        return self.delta

    def value(self, scores: Array, labels: Array) -> Array:
        """The two pieces above."""
        size = np.abs(scores - labels)
        return np.asarray(
            np.where(size <= self.delta, 0.5 * size**2, self.delta * (size - 0.5 * self.delta))
        )


@dataclass(frozen=True)
class AbsoluteDeviation(_OfOneScore):
    """|s - y|, real labels; slope 1, not smooth; the subgradient at the kink is 0."""

    name: ClassVar[str] = "absolute-deviation"
    kind: ClassVar[str] = "regression"
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 5

    def value(self, scores: Array, labels: Array) -> Array:
        """|s - y|."""
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
    """The names that `by_name` knows."""
    return tuple(_BY_NAME)


def by_name(loss: str | Loss) -> Loss:
    """The loss of that name with its default parameter; a loss object is returned as it is."""
    if isinstance(loss, tuple(_BY_NAME.values())):
        return loss  # type: ignore[return-value]
    if isinstance(loss, type):
        raise InputError(
            f"loss must be a name or an object, not the class {loss.__name__}: "
            f"write {loss.__name__}()."
        )
    word = loss.lower().replace("_", "-") if isinstance(loss, str) else loss
    return _BY_NAME[checks.one_of("loss", word, _BY_NAME)]()  # type: ignore[no-any-return]
