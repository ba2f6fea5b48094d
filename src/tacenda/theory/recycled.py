"""Zhang et al. (2018): when recycled ADMM provably converges, (26)-(27), and its bound on the
privacy loss, (30).

(26)-(27) assume convex f_i with M_i-Lipschitz gradients on a connected graph; they are sufficient,
not necessary. (30) assumes exact minimisers, |loss'| <= 1, |x| <= 1, loss'' <= c1, and 2 c1 <
(B_i/C)(r + 2 eta deg_i). It adds up pure losses; the ledger composes better.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tacenda import checks
from tacenda.algorithms.recycled_condition import satisfied, smallest_recycle_proximal
from tacenda.errors import InputError
from tacenda.graph.topology import Topology

CURVATURE = 0.25  # of the logistic loss


def recycled_condition_holds(
    graph: object, *, penalty: float, recycle_proximal: float, smoothness: float
) -> bool:
    """Whether recycled ADMM provably converges, (26)-(27) of Zhang et al. (2018).

    Sufficient, not necessary.

    Parameters
    ----------
    graph : networkx.Graph or Topology
        The network.
    penalty : float
        eta.
    recycle_proximal : float
        gamma.
    smoothness : float
        M = c c1 + r, the Lipschitz constant of the gradients of f_i.

    Returns
    -------
    bool
        Whether both conditions hold.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.theory.recycled_condition_holds(
    ...     tc.graph.ring(5), penalty=1.0, recycle_proximal=100.0, smoothness=0.3
    ... )
    True
    """
    return satisfied(penalty, recycle_proximal, smoothness, Topology.of(graph))


def least_recycle_proximal(graph: object, *, penalty: float, smoothness: float) -> float:
    """Smallest gamma that meets (26)-(27) of Zhang et al. (2018), to four digits.

    Parameters
    ----------
    graph : networkx.Graph or Topology
        The network.
    penalty : float
        eta.
    smoothness : float
        M = c c1 + r, the Lipschitz constant of the gradients of f_i.

    Returns
    -------
    float
        Infinite where none does, as on every bipartite graph.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.theory.least_recycle_proximal(tc.graph.ring(4), penalty=1.0, smoothness=0.3)
    inf
    """
    topology = Topology.of(graph)
    # D + A is singular there, which rounding would hide from the search.
    return (
        math.inf
        if topology.is_bipartite
        else smallest_recycle_proximal(penalty, smoothness, topology)
    )


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

    Returns
    -------
    float
        The claimed epsilon of the worst node.

    Examples
    --------
    >>> import tacenda as tc
    >>> facts = {"noise_rate": 1.0, "sizes": 100, "degrees": 2, "penalty": 0.5, "strength": 0.01}
    >>> one = tc.theory.recycled_privacy_bound(1, **facts)
    >>> round(tc.theory.recycled_privacy_bound(10, **facts) / one, 6)
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
