"""Losses and regularisers as users write them."""

from __future__ import annotations

from typing import Any

import numpy as np

import tacenda as tc


def log_cosh(**changed: Any) -> Any:
    """ln cosh of the residual, without overflow."""
    declared: dict[str, Any] = {
        "value": lambda u: np.abs(u) + np.log1p(np.exp(-2 * np.abs(u))) - np.log(2),
        "slope": np.tanh,
        "slope_bound": 1.0,
        "curvature": 1.0,
        "twice_differentiable": True,
    }
    return tc.losses.CustomLoss("log-cosh", **{**declared, **changed})


def group_lasso(size: int = 2, ridge: float = 0.0, **changed: Any) -> Any:
    """The sum of the norms of groups of `size` coordinates, and (ridge/2)|w|^2."""

    def lengths(w: Any) -> Any:
        return np.sqrt((w.reshape(len(w), -1, size) ** 2).sum(axis=2))

    def spread(row: Any) -> Any:
        return np.repeat(row, size, axis=1)

    def gradient(w: Any) -> Any:
        n = lengths(w)
        return w * spread(np.divide(1.0, n, out=np.zeros_like(n), where=n > 0)) + ridge * w

    def prox(w: Any, step: Any) -> Any:
        n = lengths(w)
        kept = np.maximum(0.0, 1.0 - np.divide(step, n, out=np.full_like(n, np.inf), where=n > 0))
        return w * spread(kept) / (1.0 + step * ridge)

    declared: dict[str, Any] = {
        "value": lambda w: lengths(w).sum(axis=1) + 0.5 * ridge * (w * w).sum(axis=1),
        "gradient": gradient,
        "prox": prox,
        "strong_convexity": ridge,
    }
    return tc.regularisers.CustomRegulariser("group-lasso", **{**declared, **changed})


def steep_margin() -> Any:
    """A loss of the margin with a bend at 0 where its slope jumps as fast as is declared, and with
    lies between the points of the grid."""

    def slope(z: Any) -> Any:
        honest = np.clip(50.0 * z, -0.3, 0.0)
        between = (np.abs(z) > 0.00401) & (np.abs(z) < 0.00402)  # no point of the grid is there
        return np.where(between, 1e9, honest)

    def value(z: Any) -> Any:
        return np.where(z > 0, 0.0, np.where(z > -0.006, 25 * z * z, -0.3 * z - 0.0009))

    return tc.losses.CustomLoss(
        "steep-margin",
        of="margin",
        value=value,
        slope=slope,
        slope_bound=0.3,
        curvature=50.0,
        kinks=[-0.006, 0.0],
    )
