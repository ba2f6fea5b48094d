"""Zhang et al. (2018): the bound of recycled ADMM on its privacy loss, (30).

It assumes exact minimisers, |loss'| <= 1, |x| <= 1, loss'' <= c1, and 2 c1 <
(B_i/C)(r + 2 eta deg_i). It adds up pure losses; the ledger composes better.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tacenda import checks
from tacenda.errors import InputError

CURVATURE = 0.25  # of the logistic loss


def recycled_privacy_bound(
    rounds: int,
    *,
    noise_rate: float,
    sizes: ArrayLike,
    degrees: ArrayLike,
    penalty: float,
    strength: float,
    loss_scale: float = 1.0,
    curvature: float = CURVATURE,
) -> float:
    """Claimed pure privacy loss of recycled ADMM, (30) of Zhang et al. (2018).

    P = max_i sum_k (2C/B_i)( 1.4 c1/(r + 2 eta deg_i) + a ). It adds up pure losses; the ledger
    composes better.

    Parameters
    ----------
    rounds : int
        Number of odd half-steps.
    noise_rate : float
        a.
    sizes : array_like
        B_i, a number or (n,).
    degrees : array_like
        Neighbours of each node, a number or (n,).
    penalty : float
        eta.
    strength : float
        r.
    loss_scale : float, default=1.0
        C.
    curvature : float, default=0.25
        c1, a bound on the curvature of the loss.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> facts = {"noise_rate": 1.0, "sizes": 100, "degrees": 2, "penalty": 0.5, "strength": 0.01}
    >>> one = theory.recycled_privacy_bound(1, **facts)
    >>> round(theory.recycled_privacy_bound(10, **facts) / one, 6)
    10.0
    """
    m, deg = np.broadcast_arrays(
        np.atleast_1d(np.asarray(sizes, float)), np.atleast_1d(np.asarray(degrees, float))
    )
    kappa = strength + 2 * checks.positive("penalty", penalty) * deg
    if np.any(2 * curvature >= m / loss_scale * kappa):
        raise InputError(
            "Zhang et al.'s (2018) bound needs 2 c1 < (m/c)(r + 2 eta deg) at every node; "
            "it does not hold here: use a larger penalty or more records."
        )
    one = 2 * loss_scale / m * (1.4 * curvature / kappa + checks.positive("noise_rate", noise_rate))
    return float(checks.whole("rounds", rounds, least=1) * one.max())
