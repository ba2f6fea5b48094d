"""Convex losses of one record, and what each of them promises to the algorithms.

Every loss but the multinomial one is a function of the score s = x.w and the label y. A loss
declares

    slope                 bound of |d loss / d s|; times the bound on |x| it is the letter G
    curvature             bound of d^2 loss / d s^2; times the squared bound on |x| it is the letter
                          c1
    smooth                the gradient exists and is Lipschitz
    twice_differentiable  the Hessian exists everywhere; objective perturbation needs it
    kind                  "binary" (labels -1, +1), "regression" or "multiclass" (labels 0 .. K-1)

and gives `value`, `derivative` and `second` as NumPy functions of arrays of scores and labels.
`code` and `parameter` name the same functions inside the compiled kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.problem.multinomial import Multinomial

__all__ = [
    "AbsoluteDeviation",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
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


@dataclass(frozen=True)
class Logistic:
    """ln(1 + exp(-y s)), labels y in {-1, +1};
    slope 1, curvature 1/4, infinitely differentiable."""

    name: ClassVar[str] = "logistic"
    kind: ClassVar[str] = "binary"
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = 0.25
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 0
    parameter: ClassVar[float] = 0.0

    def value(self, scores: Array, labels: Array) -> Array:
        """ln(1 + exp(-y s)), without overflow."""
        return np.asarray(np.logaddexp(0.0, -labels * scores))

    def derivative(self, scores: Array, labels: Array) -> Array:
        """-y / (1 + exp(y s))."""
        z = labels * scores
        small = np.exp(-np.abs(z))
        return np.asarray(-labels * np.where(z > 0, small, 1.0) / (1.0 + small))

    def second(self, scores: Array, labels: Array) -> Array:
        """p (1 - p) with p = 1 / (1 + exp(y s))."""
        small = np.exp(-np.abs(labels * scores))
        return np.asarray(small / (1.0 + small) ** 2)


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - y s), labels y in {-1, +1}; slope 1, not smooth;
    the subgradient at the kink is 0."""

    name: ClassVar[str] = "hinge"
    kind: ClassVar[str] = "binary"
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 1
    parameter: ClassVar[float] = 0.0

    def value(self, scores: Array, labels: Array) -> Array:
        """max(0, 1 - y s)."""
        return np.maximum(0.0, 1.0 - labels * scores)

    def derivative(self, scores: Array, labels: Array) -> Array:
        """-y where y s < 1, else 0."""
        return np.where(labels * scores < 1.0, -labels, 0.0)


@dataclass(frozen=True)
class SmoothedHinge:
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

    def derivative(self, scores: Array, labels: Array) -> Array:
        """-y clip((1 + h - z)/(2h), 0, 1)."""
        h = self.width
        return -labels * np.clip((1.0 + h - labels * scores) / (2.0 * h), 0.0, 1.0)

    def second(self, scores: Array, labels: Array) -> Array:
        """1/(2h) where |1 - z| < h, else 0 (one element of the generalised second derivative)."""
        return np.where(np.abs(1.0 - labels * scores) < self.width, self.curvature, 0.0)


@dataclass(frozen=True)
class Squared:
    """(s - y)^2 / 2, real labels; its slope is unbounded,
    so private gradients need clipping; curvature 1."""

    name: ClassVar[str] = "squared"
    kind: ClassVar[str] = "regression"
    slope: ClassVar[float] = math.inf
    curvature: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True
    twice_differentiable: ClassVar[bool] = True
    code: ClassVar[int] = 3
    parameter: ClassVar[float] = 0.0

    def value(self, scores: Array, labels: Array) -> Array:
        """(s - y)^2 / 2."""
        return 0.5 * (scores - labels) ** 2

    def derivative(self, scores: Array, labels: Array) -> Array:
        """s - y."""
        return np.asarray(scores - labels)

    def second(self, scores: Array, labels: Array) -> Array:
        """1."""
        return np.ones(np.broadcast(scores, labels).shape)


@dataclass(frozen=True)
class Huber:
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

    def derivative(self, scores: Array, labels: Array) -> Array:
        """clip(s - y, -delta, delta)."""
        return np.asarray(np.clip(scores - labels, -self.delta, self.delta))

    def second(self, scores: Array, labels: Array) -> Array:
        """1 where |s - y| < delta, else 0 (one element of the generalised second derivative)."""
        return np.where(np.abs(scores - labels) < self.delta, 1.0, 0.0)


@dataclass(frozen=True)
class AbsoluteDeviation:
    """|s - y|, real labels; slope 1, not smooth; the subgradient at the kink is 0."""

    name: ClassVar[str] = "absolute-deviation"
    kind: ClassVar[str] = "regression"
    slope: ClassVar[float] = 1.0
    curvature: ClassVar[float] = math.inf
    smooth: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = False
    code: ClassVar[int] = 5
    parameter: ClassVar[float] = 0.0

    def value(self, scores: Array, labels: Array) -> Array:
        """|s - y|."""
        return np.asarray(np.abs(scores - labels))

    def derivative(self, scores: Array, labels: Array) -> Array:
        """sign(s - y)."""
        return np.asarray(np.sign(scores - labels))


_BY_NAME: dict[str, type[Any]] = {
    kind.name: kind
    for kind in (Logistic, Hinge, SmoothedHinge, Squared, Huber, AbsoluteDeviation, Multinomial)
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
