"""What a graph does to noise: how much of it stays between the nodes,
and how many mixings bring them together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tacenda._types import Floats
from tacenda.graph.coalition import leverage
from tacenda.graph.topology import Topology

DENSE_LIMIT = 600  # up to here all eigenvalues are computed
PROBES = 16
LONGEST = 2000  # mixings that are followed: about what a run has


@dataclass(frozen=True, eq=False)
class Mixing:
    """The mixing matrix W of a graph, and what it leaves of noise."""

    topology: Topology
    kind: Any = "metropolis"

    @classmethod
    def of(cls, topology: Topology, kind: Any = "metropolis") -> Mixing:
        """Of a topology, with its mixing weights."""
        return cls(topology, kind)

    @cached_property
    def matrix(self) -> Any:
        """W (n, n), scipy CSR."""
        from scipy.sparse import csr_array

        indptr, indices, weights = self.topology.mixing(self.kind)
        return csr_array((weights, indices, indptr), shape=(self.topology.n, self.topology.n))

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        """(eigenvalues of W without the first, v.L v of each eigenvector v), for small graphs."""
        values, vectors = np.linalg.eigh(self.matrix.toarray())
        roughness = np.einsum("ik,ik->k", vectors, self.topology.laplacian() @ vectors)
        return values[:-1], roughness[:-1]

    @cached_property
    def second(self) -> float:
        """The second largest |eigenvalue| of W: 0 for one node and for the complete graph."""
        if self.topology.n == 1:
            return 0.0
        if self.topology.n <= DENSE_LIMIT:
            found = float(np.abs(self._spectrum[0]).max())
        else:
            found = 1.0 - self.topology.spectral_gap(self.kind)
        return 0.0 if found < 1e-9 else found

    def lingering(self, mixings: int = 1, ratio: float = 0.0) -> float:
        """Variance by which a node differs from the average, if all add fresh noise before every
        `mixings` mixings.

        The noise has covariance I + ratio^2 L: the mean over i of sum_k e_i W^(jk) (I + ratio^2 L)
        W^(jk) e_i, less the average's own part, with j = mixings. Exact up to 600 nodes, from 16
        nodes spread over the graph beyond.
        """
        n = self.topology.n
        if self.second == 0.0:
            return 0.0
        if n <= DENSE_LIMIT:
            values, roughness = self._spectrum
            kept = values ** (2 * mixings)
            return float(np.sum((1.0 + ratio**2 * roughness) * kept / (1.0 - kept)) / n)
        return self._probed(mixings, ratio)

    def _probed(self, mixings: int, ratio: float) -> float:
        n, laplacian = self.topology.n, self.topology.laplacian()
        rows: Floats = np.full((n, PROBES), -1.0 / n)
        rows[np.linspace(0, n - 1, PROBES).astype(int), np.arange(PROBES)] += 1.0
        total = 0.0
        for _ in range(LONGEST // mixings):
            for _ in range(mixings):
                rows = self.matrix @ rows
            more = (
                float(np.sum(rows * rows) + ratio**2 * np.sum(rows * (laplacian @ rows))) / PROBES
            )
            total += more
            if more < 1e-4 * total:
                break
        return total

    def rounds_to(self, ratio: float) -> int:
        """How many mixings shrink every disagreement by `ratio` (above 1)."""
        if ratio <= 1.0 or self.topology.n == 1:
            return 0
        return 1 if self.second == 0.0 else math.ceil(math.log(ratio) / -math.log(self.second))


RATIOS = (3.0, 10.0, 30.0, 100.0)
NEARLY = 1.3  # how close to the best possible leverage 1/(n - q) is close enough


def least_ratio(topology: Topology) -> float:
    """The smallest of RATIOS that can do: away from the constant vector the Laplacian is about the
    degree, and h is near 1/n once 1/(c^2 deg) is below a third of it.
    """
    least = math.sqrt(topology.n / ((NEARLY - 1) * float(topology.degrees.mean())))
    return next((c for c in RATIOS if c >= least), RATIOS[-1])


def least_leverage(topology: Topology, ratio: float) -> float:
    """[(I + ratio^2 L)^-1]_ii of a node of least degree:
    a lower bound of the largest leverage, by conjugate gradients."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import cg

    one = np.zeros(topology.n)
    one[int(np.argmin(topology.degrees))] = 1.0
    answer, _ = cg(
        eye_array(topology.n) + ratio**2 * topology.laplacian(), one, rtol=1e-3, maxiter=500
    )
    # The minimised quadratic is -x_i/2 for x from Krylov spaces, so an early stop gives too little,
    # never too much.
    return max(1.0 / topology.n, float(one @ answer))


@lru_cache(maxsize=8)
def shared_noise(topology: Topology, coalition: int) -> tuple[float, Floats] | None:
    """(ratio c, leverage h (n,)) of noise shared along edges, or None where it hides hardly better
    than independent noise.

    The smallest ratio whose leverage is near 1/(n - q), since larger edge noise takes more mixing
    to die out.
    """
    n = topology.n
    if n <= coalition + 1:
        return None
    found: tuple[float, Floats] | None = None
    for ratio in [c for c in RATIOS if c >= least_ratio(topology)]:
        h, _ = leverage(topology, ratio, coalition)
        if found is not None and h.max() > 0.8 * found[1].max():
            break  # more edge noise would hardly help
        found = (ratio, h)
        if h.max() <= NEARLY / (n - coalition):
            break
    return found if found is not None and found[1].max() < 0.8 else None
