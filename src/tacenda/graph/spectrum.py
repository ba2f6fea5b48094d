"""Eigenvalues and distances of large sparse networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Up to here a dense eigenvalue solver is exact and takes well under a second.
DENSE_LIMIT = 600
# A graph whose node 0 has someone farther away than this many times log2 n is called thin.
THIN = 6
# Restarts of Lanczos (64 vectors each) before its tolerance is loosened.
RESTARTS = 60


def mixing_gap(w: csr_array) -> float:
    """1 - max(|lambda_2|, |lambda_n|) of a symmetric doubly stochastic matrix W (n, n)."""
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.linalg import eigsh

    n = w.shape[0]
    if n == 1:
        return 1.0
    if n <= DENSE_LIMIT:
        values = np.linalg.eigvalsh(w.toarray())
        return float(1.0 - max(abs(values[0]), abs(values[-2])))
    # Gap of lambda_2, taken from I - W so that a tiny gap keeps its digits.
    gap = second_smallest(csr_array(eye_array(n) - w))
    # Gershgorin: lambda_n >= min_i 2 W_ii - 1; most graphs need no second eigenvalue problem.
    lowest = 2.0 * float(w.diagonal().min()) - 1.0
    if -lowest <= 1.0 - gap:
        return gap
    # 1 + lambda_n; loose tolerance is enough, for it only matters where it is well separated from
    # 0.
    last = eigsh(w, k=1, which="SA", return_eigenvectors=False, tol=1e-7, v0=_start(n))
    return float(1.0 - max(abs(1.0 - gap), abs(float(last[0]))))


def second_smallest(laplacian: csr_array) -> float:
    """The second smallest eigenvalue of a positive semidefinite matrix whose null space is the
    constant vector.

    Dense for small n. Long thin graphs (rings, big grids: a node far away in hops) stall Lanczos
    but have cheap sparse factors, so they take inverse iteration; all others take Lanczos with the
    constant vector lifted out of the way.
    """
    n = laplacian.shape[0]
    if n <= DENSE_LIMIT:
        return float(np.linalg.eigvalsh(laplacian.toarray())[1])
    if _hops_away(laplacian) > THIN * np.log2(n):
        return _shift_invert(laplacian)
    from scipy.sparse.linalg import ArpackNoConvergence

    try:
        return _lanczos(laplacian, tolerance=1e-7)
    except ArpackNoConvergence:
        # A crowded end of the spectrum: three digits of the gap still say all that a user needs.
        return _lanczos(laplacian, tolerance=1e-4, restarts=10_000)


def _hops_away(laplacian: csr_array) -> int:
    """The eccentricity of node 0."""
    from scipy.sparse.csgraph import dijkstra

    return int(dijkstra(abs(laplacian), unweighted=True, indices=0).max())


def _lanczos(laplacian: csr_array, *, tolerance: float, restarts: int = RESTARTS) -> float:
    from scipy.sparse.linalg import LinearOperator, eigsh

    n = laplacian.shape[0]
    top = 2.0 * float(abs(laplacian.diagonal()).max())

    def lifted(v: Floats) -> Floats:
        flat = np.asarray(v).reshape(-1)
        product: Floats = laplacian @ flat + top * flat.mean()
        return product

    operator = LinearOperator((n, n), matvec=lifted, dtype=np.float64)
    value: Any = eigsh(
        operator,
        k=1,
        which="SA",
        return_eigenvectors=False,
        tol=tolerance,
        maxiter=restarts,
        ncv=64,
        v0=_start(n),
    )
    return float(value[0])


def _shift_invert(laplacian: csr_array) -> float:
    """Eigenvalues nearest to a shift just below 0,
    by factorising the shifted matrix (positive definite)."""
    from scipy.sparse.linalg import eigsh

    n = laplacian.shape[0]
    shift = -1e-3 / n * float(laplacian.diagonal().mean())
    values: Any = eigsh(
        laplacian.tocsc(), k=2, sigma=shift, which="LM", return_eigenvectors=False, v0=_start(n)
    )
    return float(max(values))


def _start(n: int) -> Floats:
    """A fixed starting vector, so that the same graph gives the same digits."""
    start: Floats = np.sin(1.0 + 0.7 * np.arange(n)) + 0.1
    return start


def diameter(distances: Callable[[int], Ints], n: int) -> int:
    """The largest eccentricity, exact, from as few breadth-first searches as its bounds allow.

    After a search from v every node u has max(ecc(v) - dist, dist) <= ecc(u) <= ecc(v) + dist;
    nodes that cannot beat the best found are dropped. Random networks need a few searches;
    vertex-transitive ones (rings) may need all n.
    """
    lower, upper = np.zeros(n, np.int64), np.full(n, n, np.int64)
    open_nodes = np.ones(n, bool)
    best, take_high = 0, True
    while open_nodes.any():
        candidates = np.flatnonzero(open_nodes)
        # Alternate a far node (raises the best)
        # and a central one (lowers the bounds of all others).
        v = (
            candidates[np.argmax(upper[candidates])]
            if take_high
            else candidates[np.argmin(lower[candidates])]
        )
        take_high = not take_high
        hops = distances(int(v))
        eccentricity = int(hops.max())
        best = max(best, eccentricity)
        lower = np.maximum(lower, np.maximum(eccentricity - hops, hops))
        upper = np.minimum(upper, eccentricity + hops)
        open_nodes &= upper > best
        open_nodes[v] = False
    return best
