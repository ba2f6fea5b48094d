"""ZhangZhu16 section 5.3: choose the privacy level alpha of a round by a fitted accuracy and a
stated taste for privacy, (27)-(30).

    alpha*        = argmin L_acc - U_priv,  alpha_L <= alpha <= alpha_U,  L_acc <= c3      (27)-(28)
    U_priv(alpha) = w1 ln( w2 / (w3 alpha + w4 alpha^2) )                                       (29)
                    w = (0.02, 6, 9, 1) in the paper
    L_acc(alpha)  = c4 exp(-c5 alpha) + c6, fitted to measured (alpha, loss) pairs              (30)

The printed derivative has sign errors, so the minimum is found numerically. The measured losses are
themselves data-dependent: measure them on public or generated data, or charge them. c3 = 0.135 is
read as excess over the noise-free loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacenda import checks
from tacenda.errors import InputError

TASTE = (0.02, 6.0, 9.0, 1.0)


@dataclass(frozen=True)
class AccuracyFit:
    """c4, c5, c6 of (30), all at least 0, and the root mean square of what the fit leaves over."""

    c4: float
    c5: float
    c6: float
    residual: float

    def __call__(self, alpha: Any) -> Any:
        return self.c4 * np.exp(-self.c5 * np.asarray(alpha, float)) + self.c6


@dataclass(frozen=True)
class OptimalLevel:
    """alpha*, the value L_acc - U_priv there, and which bound holds it:
    "inside", "alpha", or "accuracy"."""

    alpha: float
    value: float
    bound: str


def fit_accuracy(alphas: ArrayLike, losses: ArrayLike) -> AccuracyFit:
    """Least squares of (30): for each c5 on a fine grid c4 and c6 are linear, then c5 is polished.
    At least three levels."""
    from scipy.optimize import minimize_scalar

    x, y = np.asarray(alphas, float), np.asarray(losses, float)
    if (
        x.shape != y.shape
        or x.ndim != 1
        or len(np.unique(x)) < 3
        or not np.isfinite(x).all()
        or not np.isfinite(y).all()
    ):
        raise InputError(
            "fit_accuracy needs at least three levels alpha with one finite loss each, "
            f"not shapes {x.shape}, {y.shape}."
        )

    def left(log_c5: float) -> float:
        return _linear(x, y, math.exp(log_c5))[2]

    grid = np.linspace(math.log(1e-2 / np.ptp(x)), math.log(30.0 / x.min()), 200)
    start = int(np.argmin([left(g) for g in grid]))
    low, high = grid[max(start - 1, 0)], grid[min(start + 1, len(grid) - 1)]
    best = minimize_scalar(left, bounds=(low, high), method="bounded", options={"xatol": 1e-12})
    c5 = math.exp(float(best.x))
    c4, c6, rest = _linear(x, y, c5)
    return AccuracyFit(c4, c5, c6, math.sqrt(rest / len(x)))


def _linear(x: Any, y: Any, c5: float) -> tuple[float, float, float]:
    """(c4, c6, sum of squares) of the best non-negative c4, c6 for this c5."""
    from scipy.optimize import nnls

    (c4, c6), norm = nnls(np.column_stack([np.exp(-c5 * x), np.ones_like(x)]), y)
    return float(c4), float(c6), float(norm) ** 2


def privacy_utility(alpha: Any, taste: Sequence[float] = TASTE) -> Any:
    """U_priv (29): falls with alpha."""
    w1, w2, w3, w4 = taste
    a = np.asarray(alpha, float)
    return w1 * np.log(w2 / (w3 * a + w4 * a**2))


def optimal_alpha(
    accuracy: AccuracyFit,
    *,
    taste: Sequence[float] = TASTE,
    lowest: float = 1e-3,
    highest: float = 1.0,
    worst_loss: float = math.inf,
) -> OptimalLevel:
    """alpha* of (28); worst_loss is c3 on the scale of the fitted losses. Refused where no alpha <=
    highest is accurate enough."""
    from scipy.optimize import minimize_scalar

    low, high = checks.positive("lowest", lowest), checks.positive("highest", highest)
    if accuracy(high) > worst_loss:
        raise InputError(
            f"worst_loss {worst_loss:g} is not reached by any alpha up to {high:g}: "
            f"the fitted loss there is {float(accuracy(high)):g}."
        )
    needed = (
        low
        if accuracy(low) <= worst_loss
        else math.log(accuracy.c4 / (worst_loss - accuracy.c6)) / accuracy.c5
    )

    def cost(alpha: float) -> float:
        return float(accuracy(alpha) - privacy_utility(alpha, taste))

    grid = np.geomspace(needed, high, 400)
    k = int(np.argmin([cost(a) for a in grid]))
    found = minimize_scalar(
        cost,
        bounds=(grid[max(k - 1, 0)], grid[min(k + 1, 399)]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    candidates = [
        (cost(grid[k]), float(grid[k])),
        (float(found.fun), float(found.x)),
        (cost(needed), needed),
        (cost(high), high),
    ]
    value, alpha = min(candidates)
    if alpha <= needed * (1 + 1e-6):
        return OptimalLevel(alpha, value, "accuracy" if needed > low else "alpha")
    return OptimalLevel(alpha, value, "alpha" if alpha >= high * (1 - 1e-6) else "inside")
