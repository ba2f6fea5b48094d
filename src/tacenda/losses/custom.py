"""`CustomLoss`: a user's own convex loss of the margin or of the residual."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from tacenda import checks, plugins
from tacenda._types import Array, Floats
from tacenda.errors import InputError
from tacenda.losses import registry, table
from tacenda.losses.base import OfOneScore, kernel_numbers
from tacenda.losses.pieces import Pieces

_KINDS = {"margin": "binary", "residual": "regression"}
_SENSIBLE = (1e-9, 1e9)  # as of every declared number (`questions.constants`)


class CustomLoss(OfOneScore):
    """A convex loss of your own: a function of margin or residual, with its slope.

    The margin is y s (two classes, labels -1 and +1), the residual s - y (regression).

    Your functions are called here and never again: on a public grid of 8193 points up to a million
    times `scale`, before any record is read. What runs on records is a table of cubic pieces made
    from them, whose slope never falls, never exceeds `slope_bound`, and never rises faster than
    `curvature`. So a wrong declaration cannot weaken a guarantee; one that the grid shows to be
    wrong is refused with the point where it fails.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and hyphens; not the name of another loss.
    value : callable
        The loss as a function of the margin or residual: of an array, or of one number.
    slope : callable
        Its derivative, in the same form; at a kink any value between both sides.
    of : {"residual", "margin"}, default="residual"
        What the functions take: s - y of real labels, or y s of labels -1 and +1.
    slope_bound : float
        The slope is at most so large in absolute value; inf where nothing bounds it, and private
        runs then need `clip_norm`.
    curvature : float, default=inf
        The slope rises at most at this rate; inf for a loss with kinks.
    twice_differentiable : bool, default=False
        Whether the second derivative exists everywhere, which objective perturbation needs.
    kinks : iterable of float, default=()
        Where the slope jumps, or bends sharply. A bend that is not named is rounded off over one
        cell of the grid.
    scale : float, default=1.0
        The size of margin or residual over which the loss bends; the grid is densest there.

    Attributes
    ----------
    digest : str
        SHA-256 of the table: the same function gives the same one.

    Raises
    ------
    InputError
        If a declaration is false somewhere on the grid, or a value is not finite there.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> loss = tc.losses.CustomLoss(
    ...     "log-cosh",
    ...     value=lambda u: np.abs(u) + np.log1p(np.exp(-2 * np.abs(u))) - np.log(2),
    ...     slope=np.tanh,
    ...     slope_bound=1.0,
    ...     curvature=1.0,
    ...     twice_differentiable=True,
    ... )
    >>> loss.derivative(3.0, 1.0).round(6) == np.tanh(2.0).round(6)
    np.True_
    """

    name: str
    kind: str
    predicts: str | None
    slope: float
    curvature: float
    smooth: bool
    twice_differentiable: bool
    code: ClassVar[int] = 8
    slope_at = staticmethod(table.slope)
    curvature_at = staticmethod(table.curvature)

    def __init__(
        self,
        name: str,
        *,
        value: Callable[[Any], Any],
        slope: Callable[[Any], Any],
        of: str = "residual",
        slope_bound: float,
        curvature: float = math.inf,
        twice_differentiable: bool = False,
        kinks: Iterable[float] = (),
        scale: float = 1.0,
    ) -> None:
        self.name = registry.free_name(name)
        who = f"CustomLoss {self.name!r}"
        for word, function in (("value", value), ("slope", slope)):
            if not callable(function):
                raise InputError(f"{who}: {word} must be a function of the {of}, not {function!r}.")
        self.kind = _KINDS[checks.one_of(f"{who}: of", of, _KINDS)]
        # A residual's score may predict anything: a mean, a median, another unit
        self.predicts = "class" if self.kind == "binary" else None
        self.slope = _bound(f"{who}: slope_bound", slope_bound)
        bend = _bound(f"{who}: curvature", curvature)
        scale = checks.between(f"{who}: scale", scale, *_SENSIBLE, open_ends=False)
        corners = tuple(sorted(float(kink) for kink in kinks))
        self._pieces = Pieces.of(
            value,
            slope,
            who=who,
            argument=of,
            slope_bound=self.slope,
            curvature=bend,
            kinks=corners,
            scale=scale,
        )
        self.curvature = self._pieces.curvature
        self.smooth = math.isfinite(self.curvature) and self._pieces.continuous
        if twice_differentiable and not (self.smooth and self._pieces.once):
            raise InputError(
                f"{who}: twice_differentiable needs a finite curvature and a slope whose "
                "derivative has no jump, and this one has a jump or a kink; "
                "declare twice_differentiable=False, or a smoother loss."
            )
        self.twice_differentiable = bool(twice_differentiable)
        self.modules = plugins.modules_of(value, slope)
        self._numbers = kernel_numbers(self._pieces.numbers(self.kind == "binary"))
        self.digest = hashlib.sha256(self._numbers.tobytes()).hexdigest()

    @property
    def numbers(self) -> Floats:
        """What the compiled formula reads: the table."""
        return self._numbers

    def value(self, scores: Array, labels: Array) -> Array:
        """Loss of each record: the integral of the table's slope."""
        s, y = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
        return self._pieces.value(y * s if self.kind == "binary" else s - y)

    def __repr__(self) -> str:
        of = "margin" if self.kind == "binary" else "residual"
        return (
            f"CustomLoss({self.name!r}, of={of!r}, slope_bound={self.slope:g}, "
            f"curvature={self.curvature:g})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomLoss):
            return NotImplemented
        return (self.name, self.digest) == (other.name, other.digest)

    def __hash__(self) -> int:
        return hash((self.name, self.digest))


def _bound(name: str, value: float) -> float:
    if value == math.inf:
        return math.inf
    return checks.between(name, value, *_SENSIBLE, open_ends=False)
