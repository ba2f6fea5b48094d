"""ZhangEtAl18: when recycled ADMM provably converges, (26)-(27), and its bound on the privacy loss,
(30).

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
    """Whether (26) and (27) hold for eta = penalty, gamma = recycle_proximal and M = smoothness (c
    c1 + r)."""
    return satisfied(penalty, recycle_proximal, smoothness, Topology.of(graph))


def least_recycle_proximal(graph: object, *, penalty: float, smoothness: float) -> float:
    """The smallest gamma that meets (26)-(27), to four digits; infinite where none does, as on
    every bipartite graph."""
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
    """P = max_i sum_k (2C/B_i)( 1.4 c1/(r + 2 eta deg_i) + a ),
    the claimed pure loss of that many odd rounds."""
    m, deg = np.broadcast_arrays(
        np.atleast_1d(np.asarray(sizes, float)), np.atleast_1d(np.asarray(degrees, float))
    )
    kappa = strength + 2 * checks.positive("penalty", penalty) * deg
    if np.any(2 * curvature >= m / loss_scale * kappa):
        raise InputError(
            "ZhangEtAl18's bound needs 2 c1 < (m/c)(r + 2 eta deg) at every node; "
            "it does not hold here: use a larger penalty or more records."
        )
    one = 2 * loss_scale / m * (1.4 * curvature / kappa + checks.positive("noise_rate", noise_rate))
    return float(checks.whole("rounds", rounds, least=1) * one.max())
