"""Zhang and Zhu (2016), section 5.3: choose the privacy level alpha of a round by a fitted accuracy
and a stated taste for privacy, (27)-(30).

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
    """Fitted loss of accuracy L_acc(alpha) = c4 exp(-c5 alpha) + c6, (30) of Zhang and Zhu (2016).

    Parameters
    ----------
    c4 : float
        At least 0.
    c5 : float
        At least 0.
    c6 : float
        At least 0.
    residual : float
        Root mean square of what the fit leaves over.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> fit = theory.fit_accuracy([0.1, 0.2, 0.4, 0.8], [0.5, 0.35, 0.2, 0.12])
    >>> fit.c5 > 0
    True
    """

    c4: float
    c5: float
    c6: float
    residual: float

    def __call__(self, alpha: Any) -> Any:
        return self.c4 * np.exp(-self.c5 * np.asarray(alpha, float)) + self.c6


@dataclass(frozen=True)
class OptimalLevel:
    """Optimal privacy level of a round, (28) of Zhang and Zhu (2016).

    Parameters
    ----------
    alpha : float
        alpha*.
    value : float
        L_acc - U_priv there.
    bound : str
        What limits it: "inside" (nothing), "alpha" or "accuracy".

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> theory.optimal_alpha(theory.AccuracyFit(0.5, 8.0, 0.1, 0.0)).bound
    'inside'
    """

    alpha: float
    value: float
    bound: str


def fit_accuracy(alphas: ArrayLike, losses: ArrayLike) -> AccuracyFit:
    """Fit the loss of accuracy to measured values, (30) of Zhang and Zhu (2016).

    Least squares: for each c5 on a fine grid c4 and c6 are linear, then c5 is refined. The measured
    losses depend on the data: measure them on public or generated data, or charge them.

    Parameters
    ----------
    alphas : array_like
        Privacy levels of a round, at least three.
    losses : array_like
        The loss measured at each.

    Raises
    ------
    InputError
        If there are fewer than three levels.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> fit = theory.fit_accuracy([0.1, 0.2, 0.4, 0.8], [0.5, 0.35, 0.2, 0.12])
    >>> fit.residual < 0.01
    True
    """
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
    """Utility of privacy U_priv, (29) of Zhang and Zhu (2016); it falls with alpha.

    Parameters
    ----------
    alpha : float or array_like
        Privacy level of a round, above 0.
    taste : sequence of float, default=(0.02, 6.0, 9.0, 1.0)
        w1 .. w4, the paper's (0.02, 6, 9, 1) by default.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> bool(theory.privacy_utility(0.1) > theory.privacy_utility(0.5))
    True
    """
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
    """Privacy level that balances accuracy and privacy, (28) of Zhang and Zhu (2016).

    Parameters
    ----------
    accuracy : AccuracyFit
        The fitted loss of accuracy.
    taste : sequence of float, default=(0.02, 6.0, 9.0, 1.0)
        w1 .. w4 of the utility of privacy.
    lowest : float, default=0.001
        alpha_L.
    highest : float, default=1.0
        alpha_U.
    worst_loss : float, default=inf
        c3, on the scale of the fitted losses.

    Raises
    ------
    InputError
        If no alpha up to `highest` is accurate enough.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> found = theory.optimal_alpha(theory.AccuracyFit(0.5, 8.0, 0.1, 0.0))
    >>> 0.001 < found.alpha < 1.0
    True
    """
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
