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
from tacenda.questions.facts import Facts
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
    known: dict[str, Any] = {"penalty": eta, "smoothness": smoothness}
    for best_constants in (False, True)[: 1 + search]:
        if recycled_condition_holds(
            topology, recycle_proximal=gamma, best_constants=best_constants, **known
        ):
            return []
    least = least_recycle_proximal(topology, best_constants=search, **known)
    which = "(24)-(25)" if search else "(26)-(27)"
    return [
        f"RADMM: recycle_proximal={gamma:g} does not meet the sufficient condition {which} "
        f"of Zhang et al. (2018) for penalty {eta:g}; the smallest admissible value is "
        f"{least:.4g}. Smaller ones often converge, but without that proof."
    ]


def recycled_condition_holds(
    graph: object,
    *,
    penalty: float,
    recycle_proximal: float,
    smoothness: float,
    best_constants: bool = False,
) -> bool:
    """Return whether recycled ADMM provably converges, by Theorem III.1 of Zhang et al. (2018).

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

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.recycled_condition_holds(
    ...     tc.graph.ring(5), penalty=1.0, recycle_proximal=100.0, smoothness=0.3
    ... )
    True
    """
    if best_constants:
        known = {"recycle_proximal": recycle_proximal, "smoothness": smoothness}
        return recycled_constants(graph, penalty=penalty, **known) is not None
    first, second = _margins(penalty, recycle_proximal, smoothness, Topology.of(graph))
    return first > 0 and second >= -1e-12 * penalty


def recycled_constants(
    graph: object, *, penalty: float, recycle_proximal: float, smoothness: float
) -> tuple[float, float] | None:
    """Return constants for which Theorem III.1 of Zhang et al. (2018), (24)-(25), applies.

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
    >>> pair = tc.algorithms.recycled_constants(
    ...     graph, penalty=0.5, recycle_proximal=0.0, smoothness=0.26
    ... )
    >>> pair is not None and pair[1] > 1
    True
    """
    from scipy.linalg import eigh
    from scipy.optimize import minimize_scalar

    topology, eta = Topology.of(graph), penalty
    if topology.is_bipartite:  # D + A is singular there, which rounding would hide
        return None
    adjacency = topology.adjacency().toarray()
    degree = topology.degrees.astype(float)
    wide = 2 * eta * degree + recycle_proximal
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


def least_recycle_proximal(
    graph: object, *, penalty: float, smoothness: float, best_constants: bool = False
) -> float:
    """Return the smallest gamma to which Theorem III.1 of Zhang et al. (2018) applies.

    It is found to four digits.

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
    >>> tc.algorithms.least_recycle_proximal(tc.graph.ring(4), penalty=1.0, smoothness=0.3)
    inf
    >>> graph = tc.graph.random_regular(20, 4, seed=1)
    >>> known = {"penalty": 0.5, "smoothness": 0.26}
    >>> round(tc.algorithms.least_recycle_proximal(graph, **known), 3)
    0.251
    >>> tc.algorithms.least_recycle_proximal(graph, **known, best_constants=True)
    0.0
    """
    topology = Topology.of(graph)
    if topology.is_bipartite:
        return math.inf
    known: dict[str, Any] = {
        "penalty": penalty,
        "smoothness": smoothness,
        "best_constants": best_constants,
    }

    def holds(gamma: float) -> bool:
        return recycled_condition_holds(topology, recycle_proximal=gamma, **known)

    low, high = 0.0, max(1.0, penalty)
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
