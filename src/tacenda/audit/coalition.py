"""The adversary where neighbours share noise: a coalition of curious members, who know the streams of their own edges.

What is left of the noise for the others has covariance A (I + c^2 L_Q) A, A the nodes' own standard deviations and L_Q the
Laplacian of the graph without the coalition Q (`graph.coalition`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.graph.coalition import edge_streams
from tacenda.graph.topology import Topology

Array = NDArray[Any]
TRIED = 2000  # coalitions tried one by one


@dataclass(frozen=True, eq=False)
class Coalition:
    """members: positions; precision (n, n): the inverse of I + c^2 L_Q, with zero rows and columns at the members."""

    members: tuple[int, ...]
    precision: Array

    def known_edges(self, copies: Topology, n: int) -> tuple[Array, Array, Array]:
        """The streams that the coalition knows, row by row of many copies of the network: those of its own edges."""
        indptr, numbers, signs = edge_streams(copies, np.arange(copies.n))
        row = np.repeat(np.arange(copies.n), np.diff(indptr))
        ends = copies.edges[numbers]
        other = np.where(ends[:, 0] == row, ends[:, 1], ends[:, 0])
        known = np.isin(other % n, self.members) | np.isin(row % n, self.members)
        counts = np.bincount(row[known], minlength=copies.n)
        return np.concatenate([[0], np.cumsum(counts)]), numbers[known], signs[known]


def worst_coalition(topology: Topology, ratio: float, size: int, node: int) -> Coalition:
    """Those members that see most of `node`: the best of all coalitions, or of its neighbours where there are too many."""
    size = min(size, topology.n - 1)
    others = [k for k in range(topology.n) if k != node]
    if math.comb(len(others), size) > TRIED:
        near = topology.indices[topology.indptr[node] : topology.indptr[node + 1]].tolist()
        others = (near + [k for k in others if k not in near])[: max(size, 10)]
    found = [Coalition(q, _precision(topology, ratio, q)) for q in combinations(others, size)]
    return max(found, key=lambda c: float(c.precision[node, node]))


def _precision(topology: Topology, ratio: float, members: tuple[int, ...]) -> Array:
    left = np.setdiff1d(np.arange(topology.n), members)
    adjacency = topology.adjacency().toarray()[np.ix_(left, left)]
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    precision = np.zeros((topology.n, topology.n))
    precision[np.ix_(left, left)] = np.linalg.inv(np.eye(len(left)) + ratio**2 * laplacian)
    return precision
