"""The convergence condition of recycled ADMM, Zhang et al. (2018), (26)-(27), and the least gamma
for it.

With D the degrees, A the adjacency matrix, Dt = 2 eta D + gamma I, s = min_i (2 eta deg_i + gamma),
DM = diag(M_i^2) and M_i = c c1 + r the public smoothness of f_i, the symmetric parts of

    (26)  I + eta (D + A) Dt^-1  -  (2/(s eta)) DM (D - A)^+              must be positive definite,
    (27)  eta (D + A)  -  2 eta^2 (D + A) Dt^-1 D  -  (2/s) DM            positive semi-definite.

On a bipartite graph D + A is singular, so no gamma meets (27). The condition is sufficient, not
necessary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.graph.topology import Topology
from tacenda.problem.facts import Facts
from tacenda.schedules import PerNode, Schedule, at

LARGEST = 600  # nodes for which the dense eigenvalue problems take well under a second


def convergence_advice(
    penalty: float | Schedule,
    recycle_proximal: float | Schedule | PerNode,
    facts: Facts,
    topology: Topology,
) -> list[str]:
    """No sentence if (26)-(27) hold in the first round; else one that names the remedy."""
    n = topology.n
    if n == 1:
        return []
    if n > LARGEST:
        return [
            "RADMM: the convergence condition (26)-(27) of Zhang et al. (2018) is not checked on "
            f"graphs of over {LARGEST} nodes ({n})."
        ]
    eta, gamma = at(penalty, 1), float(np.min(at(recycle_proximal, 1)))
    if topology.is_bipartite:
        return [
            "RADMM: no recycle_proximal meets the sufficient condition (27) of Zhang et al. (2018) "
            f"on a bipartite graph such as {topology.name}; "
            "R-ADMM converges there in practice, but without that proof."
        ]
    if satisfied(eta, gamma, facts.constants.smoothness, topology):
        return []
    least = smallest_recycle_proximal(eta, facts.constants.smoothness, topology)
    return [
        f"RADMM: recycle_proximal={gamma:g} does not meet the sufficient condition (26)-(27) "
        f"of Zhang et al. (2018) for penalty {eta:g}; the smallest admissible value is "
        f"{least:.4g}. Smaller ones often converge, but without that proof."
    ]


def satisfied(eta: float, gamma: float, smoothness: float, topology: Topology) -> bool:
    """Whether (26) and (27) hold."""
    first, second = _margins(eta, gamma, smoothness, topology)
    return first > 0 and second >= -1e-12 * eta


def smallest_recycle_proximal(eta: float, smoothness: float, topology: Topology) -> float:
    """The smallest gamma above which (26) and (27) hold, to four digits; infinite if none does."""
    low, high = 0.0, max(1.0, eta)
    while not satisfied(eta, high, smoothness, topology):
        low, high = high, 4 * high
        if high > 1e12:
            return math.inf
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        if satisfied(eta, middle, smoothness, topology):
            high = middle
        else:
            low = middle
    return high


def _margins(
    eta: float, gamma: float, smoothness: float, topology: Topology
) -> tuple[float, float]:
    """The smallest eigenvalues of the symmetric parts of (26) and (27)."""
    adjacency = topology.adjacency().toarray()
    degree = topology.degrees.astype(float)
    inverse = 1.0 / (2 * eta * degree + gamma)
    least = float((2 * eta * degree + gamma).min())
    signless = np.diag(degree) + adjacency
    square = smoothness**2
    first = np.eye(len(degree)) + eta * signless * inverse
    first -= (
        2 / (least * eta) * square * np.linalg.pinv(np.diag(degree) - adjacency, hermitian=True)
    )
    second = (
        eta * signless
        - 2 * eta**2 * signless * (inverse * degree)
        - 2 / least * square * np.eye(len(degree))
    )
    return _least_eigenvalue(first), _least_eigenvalue(second)


def _least_eigenvalue(matrix: NDArray[Any]) -> float:
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
