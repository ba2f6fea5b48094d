"""The convergence condition of recycled ADMM, Zhang et al. (2018), Theorem III.1, and the least
gamma for it.

With D the degrees, A the adjacency matrix, Dt = 2 eta D + gamma I, s = min_i (2 eta deg_i + gamma),
DM = diag(M_i^2) and M_i = c c1 + r the public smoothness of f_i, the symmetric parts of

    (24)  I + eta (D + A) Dt^-1  -  (L mu/(2 s eta)) DM (D - A)^+         must be positive definite,
    (25)  eta (D + A)  -  eta^2 (D + A) Dt^-1 (D - A)  -  (2/L) eta^2 (D + A) Dt^-1 (D + A)
                       -  (L mu/(2 s (mu - 1))) DM                        positive semi-definite,

for some L > 0 and mu > 1. The paper's example (26)-(27) is L = mu = 2.

With one M the best L and mu are found by a search in one dimension. (24) holds for a = L mu below
some a_0, and (25) for b = L mu/(mu - 1) up to b_0(L), proportional to the smallest eigenvalue of
the rest. Since 1/a + 1/b = 1/L, such a pair exists just where 1/L - 1/a_0 - 1/b_0(L) > 0, and that
is concave in x = 1/L: the eigenvalue is concave in x, and 1/(concave and positive) is convex.

On a bipartite graph D + A is singular, so no gamma will do. The condition is sufficient, not
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
LARGEST_SEARCH = 100  # nodes for which L and mu are searched before a run


def convergence_advice(
    penalty: float | Schedule,
    recycle_proximal: float | Schedule | PerNode,
    facts: Facts,
    topology: Topology,
) -> list[str]:
    """No sentence if Theorem III.1 applies to the first round; else one that names the remedy."""
    n = topology.n
    if n == 1:
        return []
    if n > LARGEST:
        return [
            "RADMM: the convergence condition (24)-(25) of Zhang et al. (2018) is not checked on "
            f"graphs of over {LARGEST} nodes ({n})."
        ]
    eta, gamma = at(penalty, 1), float(np.min(at(recycle_proximal, 1)))
    if topology.is_bipartite:
        return [
            "RADMM: no recycle_proximal meets the sufficient condition (25) of Zhang et al. (2018) "
            f"on a bipartite graph such as {topology.name}; "
            "R-ADMM converges there in practice, but without that proof."
        ]
    smoothness, search = facts.constants.smoothness, n <= LARGEST_SEARCH
    if satisfied(eta, gamma, smoothness, topology):
        return []
    if search and satisfied(eta, gamma, smoothness, topology, best_constants=True):
        return []
    least = smallest_recycle_proximal(eta, smoothness, topology, best_constants=search)
    which = "(24)-(25)" if search else "(26)-(27)"
    return [
        f"RADMM: recycle_proximal={gamma:g} does not meet the sufficient condition {which} "
        f"of Zhang et al. (2018) for penalty {eta:g}; the smallest admissible value is "
        f"{least:.4g}. Smaller ones often converge, but without that proof."
    ]


def satisfied(
    eta: float, gamma: float, smoothness: float, topology: Topology, *, best_constants: bool = False
) -> bool:
    """Whether (26) and (27) hold; with best_constants, (24) and (25) for some L and mu."""
    if best_constants:
        return found_constants(eta, gamma, smoothness, topology) is not None
    first, second = _margins(eta, gamma, smoothness, topology)
    return first > 0 and second >= -1e-12 * eta


def smallest_recycle_proximal(
    eta: float, smoothness: float, topology: Topology, *, best_constants: bool = False
) -> float:
    """The smallest gamma above which the condition holds, to four digits; 0 where every gamma will
    do, infinite where none does."""

    def holds(gamma: float) -> bool:
        return satisfied(eta, gamma, smoothness, topology, best_constants=best_constants)

    low, high = 0.0, max(1.0, eta)
    if holds(low):
        return low
    while not holds(high):
        low, high = high, 4 * high
        if high > 1e12:
            return math.inf
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def found_constants(
    eta: float, gamma: float, smoothness: float, topology: Topology
) -> tuple[float, float] | None:
    """(L, mu) for which (24) and (25) hold, those with the most room; None if there are none."""
    from scipy.linalg import eigh
    from scipy.optimize import minimize_scalar

    adjacency = topology.adjacency().toarray()
    degree = topology.degrees.astype(float)
    wide = 2 * eta * degree + gamma
    least, square = float(wide.min()), smoothness**2
    signless, laplacian = np.diag(degree) + adjacency, np.diag(degree) - adjacency
    spread = eta * signless / wide  # eta (D + A) Dt^-1
    first = _symmetric(np.eye(len(degree)) + spread)
    rest = _symmetric(eta * signless - eta * spread @ laplacian)
    pull = _symmetric(2 * eta * spread @ signless)
    edge = 1e-12 * eta  # rounding of a singular matrix
    if np.linalg.eigvalsh(first)[0] <= 0 or np.linalg.eigvalsh(rest)[0] <= edge:
        return None
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    least_a = float(eigh(inverse, first, eigvals_only=True)[-1]) * square / (2 * least * eta)
    far = 1 / float(eigh(pull, rest, eigvals_only=True)[-1])  # x where the rest is used up

    def least_b(x: float) -> float:
        """1/b_0 at L = 1/x."""
        left = float(np.linalg.eigvalsh(rest - x * pull)[0])
        return square / (2 * least * left) if left > edge else math.inf

    found = minimize_scalar(lambda x: least_b(x) - x, bounds=(0.0, far), method="bounded")
    x = float(found.x)
    room = x - least_a - least_b(x)
    if not room > 0:
        return None
    return 1 / x, x / (least_a + room / 2)


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


def _symmetric(matrix: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((matrix + matrix.T) / 2)


def _least_eigenvalue(matrix: NDArray[Any]) -> float:
    return float(np.linalg.eigvalsh(_symmetric(matrix))[0])
