"""Zhang et al. (2018): when recycled ADMM provably converges, (24)-(27), and its bound on the
privacy loss, (30).

(24)-(27) assume convex f_i with M_i-Lipschitz gradients on a connected graph; they are sufficient,
not necessary. (30) assumes exact minimisers, |loss'| <= 1, |x| <= 1, loss'' <= c1, and 2 c1 <
(B_i/C)(r + 2 eta deg_i). It adds up pure losses; the ledger composes better.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tacenda import checks
from tacenda.algorithms.recycled_condition import (
    found_constants,
    satisfied,
    smallest_recycle_proximal,
)
from tacenda.errors import InputError
from tacenda.graph.topology import Topology

CURVATURE = 0.25  # of the logistic loss


def recycled_condition_holds(
    graph: object,
    *,
    penalty: float,
    recycle_proximal: float,
    smoothness: float,
    best_constants: bool = False,
) -> bool:
    """Whether recycled ADMM provably converges, by Theorem III.1 of Zhang et al. (2018).

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
    best_constants : bool, default=False
        Whether (24)-(25) may hold for any L and mu, as the theorem says; by default they are 2,
        the paper's example (26)-(27).

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
    topology = Topology.of(graph)
    return satisfied(penalty, recycle_proximal, smoothness, topology, best_constants=best_constants)


def recycled_constants(
    graph: object, *, penalty: float, recycle_proximal: float, smoothness: float
) -> tuple[float, float] | None:
    """Constants for which Theorem III.1 of Zhang et al. (2018), (24)-(25), applies.

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
    tuple of float or None
        (L, mu) with the most room in both conditions; None if no pair meets them.

    Examples
    --------
    >>> import tacenda as tc
    >>> graph = tc.graph.random_regular(20, 4, seed=1)
    >>> pair = tc.theory.recycled_constants(
    ...     graph, penalty=0.5, recycle_proximal=0.0, smoothness=0.26
    ... )
    >>> pair is not None and pair[1] > 1
    True
    """
    topology = Topology.of(graph)
    if topology.is_bipartite:
        return None
    return found_constants(penalty, recycle_proximal, smoothness, topology)


def least_recycle_proximal(
    graph: object, *, penalty: float, smoothness: float, best_constants: bool = False
) -> float:
    """Smallest gamma to which Theorem III.1 of Zhang et al. (2018) applies, to four digits.

    Parameters
    ----------
    graph : networkx.Graph or Topology
        The network.
    penalty : float
        eta.
    smoothness : float
        M = c c1 + r, the Lipschitz constant of the gradients of f_i.
    best_constants : bool, default=False
        Whether (24)-(25) may hold for any L and mu; by default they are 2, the paper's example
        (26)-(27).

    Returns
    -------
    float
        0 where every gamma will do; infinite where none does, as on every bipartite graph.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.theory.least_recycle_proximal(tc.graph.ring(4), penalty=1.0, smoothness=0.3)
    inf
    >>> graph = tc.graph.random_regular(20, 4, seed=1)
    >>> known = {"penalty": 0.5, "smoothness": 0.26}
    >>> round(tc.theory.least_recycle_proximal(graph, **known), 3)
    0.251
    >>> tc.theory.least_recycle_proximal(graph, **known, best_constants=True)
    0.0
    """
    topology = Topology.of(graph)
    # D + A is singular there, which rounding would hide from the search.
    if topology.is_bipartite:
        return math.inf
    return smallest_recycle_proximal(penalty, smoothness, topology, best_constants=best_constants)


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
