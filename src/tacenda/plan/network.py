"""What a graph does to noise: how much of it stays between the nodes, and how many mixings bring them together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.graph.topology import Topology

DENSE_LIMIT = 600  # up to here all eigenvalues are computed
PROBES = 16
LONGEST = 2000


@dataclass(frozen=True)
class Mixing:
    """second: the second largest |eigenvalue| of W. lingering: mean over nodes of sum_k>=1 ((W^2k)_ii - 1/n).

    A node that adds fresh unit noise before every mixing differs from the average by a variance of `lingering`.
    """

    second: float
    lingering: float

    @classmethod
    def of(cls, topology: Topology, kind: Any = "metropolis") -> Mixing:
        """From the mixing matrix: exact up to 600 nodes, from 16 nodes spread over the graph beyond."""
        from scipy.sparse import csr_array

        n = topology.n
        if n == 1:
            return cls(0.0, 0.0)
        indptr, indices, weights = topology.mixing(kind)
        w = csr_array((weights, indices, indptr), shape=(n, n))
        if n <= DENSE_LIMIT:
            values = np.linalg.eigvalsh(w.toarray())[:-1]
            second = float(np.abs(values).max())
            if second < 1e-9:  # the complete graph: one mixing is the average, up to rounding
                return cls(0.0, 0.0)
            return cls(second, float(np.sum(values**2 / (1.0 - values**2)) / n))
        return cls(1.0 - topology.spectral_gap(kind), _lingering(w, n))

    def rounds_to(self, ratio: float) -> int:
        """How many mixings shrink every disagreement by `ratio` (above 1)."""
        if ratio <= 1.0:
            return 0
        return 1 if self.second < 1e-9 else math.ceil(math.log(ratio) / -math.log(self.second))


def _lingering(w: Any, n: int) -> float:
    """sum_k |W^k e_i - 1/n|^2 over a few nodes i, until it no longer grows."""
    chosen = np.linspace(0, n - 1, PROBES).astype(int)
    rows: NDArray[np.float64] = np.zeros((n, PROBES))
    rows[chosen, np.arange(PROBES)] = 1.0
    rows -= 1.0 / n
    total = 0.0
    for _ in range(LONGEST):
        rows = w @ rows
        more = float(np.mean(np.sum(rows * rows, axis=0)))
        total += more
        if more < 1e-4 * total:
            break
    return total
