"""`CustomRegulariser`: a user's own convex regulariser of the model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tacenda import checks, plugins
from tacenda._types import Array, Floats
from tacenda.errors import InputError, UnsupportedError

_POINTS = 48
_SIZES = (1e-6, 1e-2, 1.0, 30.0, 1e4)
_STEPS = (1e-4, 0.1, 1.0, 20.0)
_ROUNDING = 1e-8


class CustomRegulariser:
    """A convex regulariser R(w) of your own, by its value, a subgradient and its prox.

    It acts on models, which are public: no noise is planned from it. So it serves the algorithms
    that take it by gradient or prox (IPADMM, DDPADMM, CDPADMM, DPADMM, DPDDA, GossipGD, TreeGD).
    Those that release a minimiser plan their noise from its strong convexity, which no check of a
    function can prove: they refuse it. What is declared is compared with the functions on some
    hundred points of the model's length before a run, and refused with the point where it fails.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and hyphens; not the name of another regulariser.
    value : callable
        R of each row: of models (b, d), the values (b,).
    gradient : callable
        The gradient of each row, or one subgradient: of (b, d), (b, d).
    prox : callable or None, default=None
        prox(w, step) = argmin_v step R(v) + |v - w|^2/2 of each row; step is a number or (b, 1).
        Without it, algorithms that need it refuse.
    strong_convexity : float, default=0.0
        R - (s/2)|w|^2 is convex for this s.
    smoothness : float, default=inf
        The gradient changes by at most so much times the change of w; inf where it jumps.

    Raises
    ------
    InputError
        If a declaration has no sense.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> weights = np.array([1.0, 4.0])
    >>> ridge = tc.regularisers.CustomRegulariser(
    ...     "weighted-ridge",
    ...     value=lambda w: 0.5 * (w * w) @ weights,
    ...     gradient=lambda w: w * weights,
    ...     prox=lambda w, step: w / (1.0 + step * weights),
    ...     strong_convexity=1.0,
    ...     smoothness=4.0,
    ... )
    >>> ridge.checked(2).value([[2.0, 1.0]])
    array([4.])
    """

    weighted: ClassVar[bool] = True  # the compiled gradients leave it out, and it is added behind

    def __init__(
        self,
        name: str,
        *,
        value: Callable[[Any], Any],
        gradient: Callable[[Any], Any],
        prox: Callable[[Any, Any], Any] | None = None,
        strong_convexity: float = 0.0,
        smoothness: float = math.inf,
    ) -> None:
        self.name = plugins.checked_name("CustomRegulariser.name", name)
        who = f"CustomRegulariser {self.name!r}"
        needed = [("value", value), ("gradient", gradient)]
        for word, function in [*needed, ("prox", prox)]:
            if not callable(function) and not (word == "prox" and function is None):
                raise InputError(f"{who}: {word} must be a function, not {function!r}.")
        self._value, self._gradient, self._prox = value, gradient, prox
        self.strong_convexity = checks.positive(
            f"{who}: strong_convexity", strong_convexity, zero=True
        )
        self.smoothness = checks.positive(f"{who}: smoothness", smoothness, infinite=True)
        if self.strong_convexity > self.smoothness:
            raise InputError(
                f"{who}: strong_convexity must be at most smoothness, "
                f"not {self.strong_convexity:g} above {self.smoothness:g}."
            )
        self.modules = plugins.modules_of(*(f for f in (value, gradient, prox) if f is not None))
        self._checked: dict[int, str] = {}

    @property
    def smooth(self) -> bool:
        """Whether R has a Lipschitz gradient."""
        return math.isfinite(self.smoothness)

    @property
    def l1(self) -> float:
        """Refused: it is not l1 |w|_1 + (l2/2)|w|^2."""
        raise self._refusal()

    @property
    def l2(self) -> Any:
        """Refused: it is not l1 |w|_1 + (l2/2)|w|^2."""
        raise self._refusal()

    def value(self, w: Array) -> Array:
        """R of each row.

        w: shape (b, d), or (d,). Result: shape (b,), or a scalar array.
        """
        w = np.asarray(w)
        found = np.asarray(self._value(np.atleast_2d(w)), np.float64)
        return found if w.ndim > 1 else np.asarray(found[0])

    def gradient(self, w: Array) -> Array:
        """A subgradient of R at each row.

        w: shape (b, d), or (d,).
        """
        w = np.asarray(w)
        return np.asarray(self._gradient(np.atleast_2d(w))).reshape(w.shape)

    def prox(self, w: Array, step: float | Array) -> Array:
        """argmin_v step R(v) + |v - w|^2/2.

        w: shape (b, d), or (d,). step: above 0; a number or (b, 1).
        """
        if self._prox is None:
            raise UnsupportedError(
                f"The regulariser {self.name!r} was declared without prox, which this algorithm "
                "takes it by; give one, or use an algorithm that takes the gradient "
                "(GossipGD, TreeGD, or regulariser_step='subgradient')."
            )
        w = np.asarray(w)
        return np.asarray(self._prox(np.atleast_2d(w), step)).reshape(w.shape)

    def checked(self, dim: int) -> CustomRegulariser:
        """Compare what is declared with the functions, on public points of the model's length."""
        if dim not in self._checked:
            self._checked[dim] = self._compare(dim)
        return self

    def digest(self, dim: int) -> str:
        """SHA-256 of what the functions give on the points of a model's length."""
        return self.checked(dim)._checked[dim]

    def _compare(self, dim: int) -> str:
        w = _points(dim)
        values, slopes = self._asked("value", w, (len(w),)), self._asked("gradient", w, w.shape)
        moves = w[None, :, :] - w[:, None, :]
        squares = (moves * moves).sum(axis=2)
        along = np.einsum("ijk,ik->ij", moves, slopes)
        below = values[:, None] + along + 0.5 * self.strong_convexity * squares
        size = 1.0 + np.abs(values)[None] + np.abs(values)[:, None] + np.abs(along)
        self._holds(
            below - values[None],
            size + 0.5 * self.strong_convexity * squares,
            w,
            "lies below the tangent that gradient gives elsewhere, or rises less than "
            "strong_convexity says",
            "use a convex R with its own gradient, or a smaller strong_convexity",
        )
        if self.smooth:
            gaps = np.linalg.norm(slopes[None] - slopes[:, None], axis=2)
            allowed = self.smoothness * np.sqrt(squares)
            self._holds(
                gaps - allowed,
                1.0 + allowed,
                w,
                f"has a gradient that changes faster than smoothness={self.smoothness:g} says",
                "declare a larger smoothness, or inf",
            )
        parts = [values.tobytes(), slopes.tobytes()]
        for step in _STEPS if self._prox is not None else ():
            parts.append(self._compare_prox(w, values, step).tobytes())
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def _compare_prox(self, w: Floats, values: Floats, step: float) -> Floats:
        """The prox is a minimiser: step R(v) + |v - w|^2/2 is at least its minimum + |v - p|^2/2 at
        every v, among them points near p."""
        found = self._asked("prox", w, w.shape, step)
        least = step * self._asked("value", found, (len(w),)) + 0.5 * ((found - w) ** 2).sum(1)
        for spread in (0.0, 1e-3, 1.0):
            others = w if spread == 0.0 else found + spread * w[::-1]
            at = values if spread == 0.0 else self._asked("value", others, (len(w),))
            if spread == 0.0:
                gap = others[None] - w[:, None]
                away = others[None] - found[:, None]
                there = step * at[None] + 0.5 * (gap * gap).sum(2)
                short = least[:, None] + 0.5 * (away * away).sum(2) - there
                size = 1.0 + there + np.abs(least)[:, None]
            else:
                there = step * at + 0.5 * ((others - w) ** 2).sum(1)
                short = np.diag(least + 0.5 * ((others - found) ** 2).sum(1) - there)
                size = 1.0 + np.diag(there + np.abs(least))
            self._holds(
                short,
                size,
                w,
                f"has a better point than prox gives at step {step:g}",
                "make prox(w, step) the argmin over v of step R(v) + |v - w|^2/2",
            )
        return found

    def _holds(self, excess: Floats, size: Floats, w: Floats, found: str, remedy: str) -> None:
        relative = excess / size
        worst = np.unravel_index(int(np.argmax(relative)), relative.shape)
        if relative[worst] > _ROUNDING:
            point = np.array2string(w[worst[0]][:6], precision=3, separator=", ")
            more = "" if w.shape[1] <= 6 else " (its first 6 of " + str(w.shape[1]) + ")"
            raise InputError(
                f"CustomRegulariser {self.name!r} {found}, at the model {point}{more}; {remedy}."
            )

    def _asked(self, word: str, w: Floats, shape: tuple[int, ...], *more: Any) -> Floats:
        function = getattr(self, f"_{word}")
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(function(w.copy(), *more), np.float64)
        except (TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"CustomRegulariser {self.name!r}: {word} cannot take models of shape {w.shape}: "
                f"{error}; write it for rows of the problem's length."
            ) from error
        if found.shape != shape or not np.isfinite(found).all():
            raise InputError(
                f"CustomRegulariser {self.name!r}: {word} of models of shape {w.shape} must be "
                f"finite and of shape {shape}, not of shape {found.shape} with "
                f"{int((~np.isfinite(found)).sum())} values that are not finite."
            )
        return found

    def _refusal(self) -> UnsupportedError:
        return UnsupportedError(
            f"The regulariser {self.name!r} is one of your own, and this needs one of "
            "'none', 'l2', 'l1' and 'elastic-net'; use an algorithm that takes it by gradient or "
            "prox (IPADMM, DDPADMM, CDPADMM, DPADMM, DPDDA, GossipGD, TreeGD) without whitening."
        )

    def __getstate__(self) -> dict[str, Any]:
        """What it is made of, without what was checked so far: its content tells runs apart."""
        return {**vars(self), "_checked": {}}

    def __repr__(self) -> str:
        return (
            f"CustomRegulariser({self.name!r}, strong_convexity={self.strong_convexity:g}, "
            f"smoothness={self.smoothness:g})"
        )


class DividedRegulariser(CustomRegulariser):
    """R(w/s) of somebody's own R, for rows that were divided by s."""

    def __init__(self, original: CustomRegulariser, row_scale: float) -> None:
        self.original, self.row_scale = original, row_scale
        super().__init__(
            original.name,
            value=self._value_of,
            gradient=self._gradient_of,
            prox=None if original._prox is None else self._prox_of,
            strong_convexity=original.strong_convexity / row_scale**2,
            smoothness=original.smoothness / row_scale**2,
        )
        self.modules = original.modules

    def _value_of(self, w: Any) -> Any:
        return self.original._value(w / self.row_scale)

    def _gradient_of(self, w: Any) -> Any:
        return self.original._gradient(w / self.row_scale) / self.row_scale

    def _prox_of(self, w: Any, step: Any) -> Any:
        # v = s u: step R(u) + s^2 |u - w/s|^2/2
        s = self.row_scale
        assert self.original._prox is not None
        return s * self.original._prox(w / s, step / s**2)


def _points(dim: int) -> Floats:
    """Public points of several sizes, dense and sparse; always the same ones."""
    k = np.arange(1, _POINTS * dim + 1, dtype=np.float64).reshape(_POINTS, dim)
    directions = np.sin(k * k * 0.7390851) + 0.3 * np.cos(k * 1.3247)  # scattered, not random
    sizes = np.resize(_SIZES, _POINTS)[:, None]
    directions[::4, ::2] = 0.0
    directions[0] = 0.0
    return directions * sizes
