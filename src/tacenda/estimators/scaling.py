"""From a user's features to rows inside data_norm, and from the learnt weights back to the user's
features.

A row is taken in homogeneous coordinates (u, b): u the features, b a constant for the intercept. A
whole row that is too long is multiplied by a factor k <= 1, and with it, in a regression, its
target; that changes the weight of the record and nothing else: sign(w.(u, b)) and the relation y =
w.(u, b) stay. So the model is linear in the user's own features, however long the rows are.

    with bounds      u = (clip(x) - centre) * scale,   centre and scale from the declared bounds
    without          u = x, and rows are shortened as far as they must be
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array, Floats
from tacenda.data.features import INTERCEPT_OF_ESTIMATORS, add_intercept, is_sparse, row_norms
from tacenda.errors import InputError

# Declared bounds are rarely all reached at once:
# a row of features at half of them has norm data_norm
FILL = 0.5
# Where a row that is shortened would mean another record: with its constant none is too long
NEVER_SHORTENED = 1.0 / math.sqrt(1.0 - INTERCEPT_OF_ESTIMATORS**2)


@dataclass(frozen=True, eq=False)
class Scaling:
    """u = (clip(x, low, high) - centre) * scale (p,), then the constant b (None: no intercept),
    then at most data_norm."""

    centre: Floats
    scale: Floats
    low: Floats | None
    high: Floats | None
    constant: float | None
    data_norm: float

    @classmethod
    def of(
        cls,
        bounds: Any,
        n_features: int,
        data_norm: float,
        intercept: bool,
        sparse: bool,
        fill: float = FILL,
    ) -> Scaling:
        """The scaling that public declarations give: bounds None, "norm", or (low, high) with
        numbers or (p,) arrays. fill: a row at this share of all bounds has norm data_norm."""
        constant = INTERCEPT_OF_ESTIMATORS * data_norm if intercept else None
        if bounds is None or isinstance(bounds, str):
            if isinstance(bounds, str) and bounds != "norm":
                raise InputError(
                    f"bounds must be None, 'norm' or a pair (low, high), not {bounds!r}."
                )
            return cls(np.zeros(n_features), np.ones(n_features), None, None, constant, data_norm)
        low, high = _pair(bounds, n_features)
        if sparse and (np.any(low > 0) or np.any(high < 0)):
            raise InputError(
                "bounds must include 0 for a sparse X, whose empty places are 0; pass a dense X."
            )
        # Zeros must stay zeros in a sparse X,
        # and without an intercept nothing could take up a shift.
        centred = intercept and not sparse
        centre = (low + high) / 2 if centred else np.zeros(n_features)
        reach = (high - low) / 2 if centred else np.maximum(np.abs(low), np.abs(high))
        full = 1.0 if sparse else fill * math.sqrt(max(1, int(np.count_nonzero(reach))))
        scale = np.divide(data_norm / full, reach, out=np.zeros(n_features), where=reach > 0)
        return cls(centre, scale, low, high, constant, data_norm)

    def rows(self, X: Any) -> tuple[Any, Floats]:
        """(rows (N, p) or (N, p + 1) of norm at most data_norm, factors k (N,))."""
        u = self._scaled(X)
        if self.constant is not None:
            u = add_intercept(u, self.constant)
        norms = row_norms(u)
        # One part in ten million short of the bound, so that rounding cannot lift a row above it.
        k = np.minimum(1.0, (1 - 1e-7) * self.data_norm / np.maximum(norms, 1e-300))
        if is_sparse(u):
            from scipy.sparse import diags_array

            return (diags_array(k) @ u).tocsr().astype(u.dtype), k
        return u * k[:, None].astype(u.dtype), k

    def _scaled(self, X: Any) -> Any:
        if self.low is None or self.high is None:
            return X
        if is_sparse(X):
            u = X.tocsr().astype(X.dtype, copy=True)
            u.data = (
                np.clip(u.data, self.low[u.indices], self.high[u.indices]) * self.scale[u.indices]
            )
            return u
        dtype = np.asarray(X).dtype
        return ((np.clip(X, self.low, self.high) - self.centre) * self.scale).astype(dtype)

    def back(self, w: Array) -> tuple[Floats, Floats]:
        """(coef (..., p), intercept (...)) in the user's scale of the weights (..., p)
        or (..., p + 1)."""
        w = np.asarray(w, float)
        p = len(self.scale)
        coef = w[..., :p] * self.scale
        intercept = (
            np.zeros(coef.shape[:-1]) if self.constant is None else w[..., p] * self.constant
        )
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


def _pair(bounds: Any, p: int) -> tuple[Floats, Floats]:
    try:
        low, high = bounds
        pair = (
            np.broadcast_to(np.asarray(low, float), (p,)),
            np.broadcast_to(np.asarray(high, float), (p,)),
        )
    except (TypeError, ValueError):
        raise InputError(
            f"bounds must be a pair (low, high), each one number or one per feature ({p}), not "
            f"{bounds!r:.60}; declare them from public knowledge."
        ) from None
    if not (np.isfinite(pair).all() and np.all(pair[0] <= pair[1])):
        raise InputError(
            "bounds must be finite, with no low above its high; declare them from public knowledge."
        )
    return np.array(pair[0]), np.array(pair[1])
