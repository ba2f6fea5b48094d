"""From a user's features to rows of norm at most 1, and from the learnt weights back to the user's
features.

    with bounds      u = (clip(x) - centre) * scale, in [-1, 1]; no row is longer than sqrt(p)
    without          u = x, shortened to data_norm

The constant of the intercept stands beside u, and all rows are divided by one public number, the
largest norm that (u, constant) can have. Weights are mapped back exactly. The same map stands
before every prediction (`Shortening`): it clips cells to the bounds, and shortens rows without
bounds, or where data_norm is less than what the bounds allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacenda._types import Array, Floats
from tacenda.data.features import add_intercept, is_sparse, scale_rows
from tacenda.errors import InputError

# The constant beside features in [-1, 1], and beside rows with a norm only, in units of that norm
CONSTANT, CONSTANT_OF_NORM = 1.0, 0.5


@dataclass(frozen=True, eq=False)
class Shortening:
    """x -> centre + k (clip(x, low, high) - centre), k = min(1, norm / |(clip(x) - centre) *
    scale|): a feature map that stands before a linear model, in training and in prediction. An
    infinite norm clips cells to the bounds and shortens no row."""

    centre: Floats
    scale: Floats
    low: Floats | None
    high: Floats | None
    norm: float

    @property
    def shortens(self) -> bool:
        """True if a row may be shortened."""
        return math.isfinite(self.norm)

    def __call__(self, X: Any) -> Any:
        """The features, clipped and shortened, in the units of X."""
        if not self.shortens:
            return self._clipped(X)
        short = scale_rows(self.scaled(X), self.norm, in_place=False)
        back = np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale > 0)
        if is_sparse(short):
            short.data *= back[short.indices]
            return short
        return short * back + self.centre

    def scaled(self, X: Any) -> Any:
        """u (N, p): clipped to the bounds and scaled, before anything is shortened."""
        if self.low is None or self.high is None:
            return X
        u = self._clipped(X)
        if is_sparse(u):
            u.data *= self.scale[u.indices]
            return u
        return ((u - self.centre) * self.scale).astype(np.asarray(X).dtype)

    def _clipped(self, X: Any) -> Any:
        """A copy with every cell inside its bounds."""
        if is_sparse(X):
            u = X.tocsr().astype(X.dtype, copy=True)
            u.data = np.clip(u.data, self.low[u.indices], self.high[u.indices])  # type: ignore[index]
            return u
        return np.clip(X, self.low, self.high)

    def to_plain(self) -> dict[str, Any]:
        """Plain values, which `from_plain` reads."""
        names = ("centre", "scale", "low", "high")
        found = {name: getattr(self, name) for name in names}
        return {
            **{name: None if v is None else v.tolist() for name, v in found.items()},
            "norm": self.norm if self.shortens else None,
        }

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Shortening:
        """What `to_plain` wrote."""
        low, high = (
            None if values[name] is None else np.array(values[name], float)
            for name in ("low", "high")
        )
        centre, scale = np.array(values["centre"], float), np.array(values["scale"], float)
        norm = math.inf if values["norm"] is None else float(values["norm"])
        return cls(centre, scale, low, high, norm)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Features u by `map`, shortened to its norm; beside: the constant before the division (None:
    no intercept); all divided by row_scale. largest: the norm that u can have (infinite without
    bounds)."""

    map: Shortening
    beside: float | None
    largest: float

    @classmethod
    def of(
        cls, bounds: Any, n_features: int, data_norm: float | None, intercept: bool, sparse: bool
    ) -> Scaling:
        """The scaling that public declarations give: bounds None, "norm", or (low, high) with
        numbers or (p,) arrays. data_norm: the norm to which longer u are shortened; None shortens
        none with bounds, and is 1 without."""
        if bounds is None or isinstance(bounds, str):
            if isinstance(bounds, str) and bounds != "norm":
                raise InputError(
                    f"bounds must be None, 'norm' or a pair (low, high), not {bounds!r}."
                )
            norm = 1.0 if data_norm is None else data_norm
            shape = Shortening(np.zeros(n_features), np.ones(n_features), None, None, norm)
            return cls(shape, CONSTANT_OF_NORM * norm if intercept else None, math.inf)
        low, high = declared_bounds(bounds, [f"x{j}" for j in range(n_features)])
        if sparse and (np.any(low > 0) or np.any(high < 0)):
            raise InputError(
                "bounds must include 0 for a sparse X, whose empty places are 0; pass a dense X."
            )
        # Zeros must stay zeros in a sparse X,
        # and without an intercept nothing could take up a shift.
        centred = intercept and not sparse
        centre = (low + high) / 2 if centred else np.zeros(n_features)
        reach = (high - low) / 2 if centred else np.maximum(np.abs(low), np.abs(high))
        scale = np.divide(1.0, reach, out=np.zeros(n_features), where=reach > 0)
        largest = math.sqrt(max(1, int(np.count_nonzero(reach))))
        norm = largest if data_norm is None else min(data_norm, largest)
        shape = Shortening(centre, scale, low, high, norm)
        return cls(shape, CONSTANT if intercept else None, largest)

    @property
    def centre(self) -> Floats:
        return self.map.centre

    @property
    def scale(self) -> Floats:
        """(p,) what a feature is multiplied by in a row."""
        return self.map.scale / self.row_scale

    @property
    def low(self) -> Floats | None:
        return self.map.low

    @property
    def high(self) -> Floats | None:
        return self.map.high

    @property
    def constant(self) -> float | None:
        """The constant as it stands in a row."""
        return None if self.beside is None else self.beside / self.row_scale

    @property
    def row_scale(self) -> float:
        """By what all rows are divided: the largest norm of (u, constant)."""
        return math.hypot(self.map.norm, self.beside or 0.0)

    @property
    def feature_map(self) -> Shortening:
        """The map that stands before predictions too."""
        return replace(self.map, norm=math.inf) if self.map.norm >= self.largest else self.map

    @property
    def shortened_by(self) -> float:
        """The largest factor by which a row may be shortened."""
        return self.largest / self.map.norm

    def rows(self, X: Any) -> Any:
        """Rows (N, p) or (N, p + 1) of norm at most 1."""
        # Where nothing is to be shortened it only holds the bound against rounding
        u = scale_rows(self.map.scaled(X), self.map.norm)
        if self.beside is not None:
            u = add_intercept(u, self.beside)
        u *= u.dtype.type(1.0 / self.row_scale)
        return u

    def back(self, w: Array) -> tuple[Floats, Floats]:
        """(coef (..., p), intercept (...)) in the user's scale of the weights (..., p)
        or (..., p + 1)."""
        w = np.asarray(w, float)
        p = len(self.scale)
        coef = w[..., :p] * self.scale
        constant = self.constant
        intercept = np.zeros(coef.shape[:-1]) if constant is None else w[..., p] * constant
        return coef, intercept - coef @ self.centre

    def forth(self, coef: Array, intercept: Array) -> Floats:
        """The weights (K, p) or (K, p + 1) of which `back` makes coef (K, p) and intercept (K,); a
        feature whose bounds leave it no room has weight 0."""
        coef = np.asarray(coef, float)
        w = np.divide(coef, self.scale, out=np.zeros_like(coef), where=self.scale > 0)
        if self.constant is None:
            return w
        constant = (np.asarray(intercept, float) + coef @ self.centre) / self.constant
        return np.column_stack([w, constant])


@dataclass(frozen=True)
class TargetScaling:
    """v = (clip(y) - centre)/reach in [-1, 1], from declared target bounds; without an intercept
    the centre is 0."""

    low: float
    high: float
    intercept: bool

    @property
    def centre(self) -> float:
        return (self.low + self.high) / 2 if self.intercept else 0.0

    @property
    def reach(self) -> float:
        return (self.high - self.low) / 2 if self.intercept else max(abs(self.low), abs(self.high))

    @classmethod
    def of(cls, bounds: Any, intercept: bool) -> TargetScaling:
        """From target_bounds, or (-1, 1) where none are declared."""
        try:
            low, high = (-1.0, 1.0) if bounds is None else (float(b) for b in bounds)
        except (TypeError, ValueError):
            raise InputError(
                f"target_bounds must be a pair of numbers (low, high), not {bounds!r}."
            ) from None
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise InputError(f"target_bounds must be finite with low below high, not {bounds!r}.")
        return cls(low, high, intercept)

    def scaled(self, y: Array) -> Floats:
        """Targets in [-1, 1]."""
        return (np.clip(np.asarray(y, float), self.low, self.high) - self.centre) / self.reach


def declared_bounds(bounds: Any, names: Sequence[str]) -> tuple[Floats, Floats]:
    """(low (p,), high (p,)) of what a user may write: a pair (low, high) of numbers or arrays, a
    list of p pairs, or a dict {column: (low, high)}."""
    p = len(names)
    if isinstance(bounds, Mapping):
        wrong = sorted(set(map(str, bounds)) ^ set(names))
        if wrong:
            raise InputError(
                f"bounds must name each column once, and {wrong[:3]} "
                f"{'is' if len(wrong) == 1 else 'are'} missing or not among the columns "
                f"{list(names)[:8]}; columns are x0, x1, ... where X is no data frame."
            )
        bounds = [bounds[name] for name in names]
        return _checked(_as_pairs(bounds, p), bounds, p)
    pair = _as_pair(bounds, p)
    pairs = _as_pairs(bounds, p) if isinstance(bounds, list) else None
    if pair is None or pairs is None:
        return _checked(pair or pairs, bounds, p)
    usable = [each for each in (pair, pairs) if np.all(each[0] <= each[1])]
    if len(usable) == 2 and not np.array_equal(pair, pairs):
        raise InputError(
            f"bounds {bounds!r} may be (low, high) or one pair per feature; write a tuple (low, "
            "high), or a dict {column: (low, high)}."
        )
    return _checked(usable[0] if usable else pair, bounds, p)


def _as_pair(bounds: Any, p: int) -> tuple[Floats, Floats] | None:
    """Read as (low, high), each one number or one per feature; None where it is not that."""
    try:
        low, high = bounds
        return (
            np.broadcast_to(np.asarray(low, float), (p,)),
            np.broadcast_to(np.asarray(high, float), (p,)),
        )
    except (TypeError, ValueError):
        return None


def _as_pairs(bounds: list[Any], p: int) -> tuple[Floats, Floats] | None:
    """Read as one (low, high) per feature; None where it is not that."""
    try:
        table = np.asarray(bounds, float)
    except (TypeError, ValueError):
        return None
    return (table[:, 0], table[:, 1]) if table.shape == (p, 2) else None


def _checked(pair: tuple[Floats, Floats] | None, bounds: Any, p: int) -> tuple[Floats, Floats]:
    if pair is None:
        raise InputError(
            f"bounds must be a pair (low, high), each one number or one per feature ({p}), a list "
            f"of {p} pairs, or a dict {{column: (low, high)}}, not {bounds!r:.60}; declare them "
            "from public knowledge."
        )
    if not (np.isfinite(pair).all() and np.all(pair[0] <= pair[1])):
        raise InputError(
            "bounds must be finite, with no low above its high; declare them from public knowledge."
        )
    return np.array(pair[0]), np.array(pair[1])
