"""Who listens where neighbours share noise: somebody outside, curious members, and coalitions of
them.

All of them see every message. A member also knows the streams of its own edges, and takes them off:
what is left of the noise for the others has covariance A (I + c^2 L_Q) A, A the nodes' own standard
deviations and L_Q the Laplacian of the graph without the coalition Q (`graph.coalition`). Of masked
rows they see the sums of that graph's components.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.graph.cuts import components, neighbours
from tacenda.graph.topology import Topology

Array = NDArray[Any]
TRIED = 2000  # coalitions tried one by one,
WORK = 2e9  # as long as inverting a matrix for each of them takes no more than this
SINGLE, STREAMS = (
    12,
    200,
)  # curious members that listen alone, the attacked node's neighbours first, and edges that they hold


@dataclass(frozen=True, eq=False)
class Listener:
    """members: positions; edges (k,): the numbers of the edges whose streams they hold."""

    members: tuple[int, ...]
    edges: Array

    @property
    def title(self) -> str:
        if not self.members:
            return "an eavesdropper"
        if len(self.members) == 1:
            return f"member {self.members[0]}"
        return f"members {', '.join(map(str, self.members))} together"


def listeners(topology: Topology, ratio: float, size: int, node: int) -> list[Listener]:
    """The worst coalition of `size` members first, then an eavesdropper and, within the promise,
    single members."""
    worst = worst_coalition(topology, ratio, size, node)
    groups: list[tuple[int, ...]] = [worst, ()]
    if size > 0:
        alone = _from_near(topology, node)[:SINGLE]
        held = np.cumsum(topology.degrees[alone])
        groups += [(k,) for k, edges in zip(alone, held, strict=True) if edges <= STREAMS]
    return [_listener(topology, members) for members in dict.fromkeys(groups)]


def worst_coalition(topology: Topology, ratio: float, size: int, node: int) -> tuple[int, ...]:
    """Those members that see most of `node`: the best of all coalitions, or of its neighbours where
    there are too many."""
    size = min(size, topology.n - 1)
    others = sorted(_from_near(topology, node))
    count = math.comb(len(others), size)
    if count > TRIED or count * topology.n**3 > WORK:
        others = _from_near(topology, node)[: max(size, 10)]
    return max(
        combinations(others, size), key=lambda members: _seen(topology, ratio, members, node)
    )


def _listener(topology: Topology, members: tuple[int, ...]) -> Listener:
    return Listener(members, np.flatnonzero(np.isin(topology.edges, members).any(axis=1)))


def _from_near(topology: Topology, node: int) -> list[int]:
    """All other nodes, the neighbours of `node` first."""
    near = topology.indices[topology.indptr[node] : topology.indptr[node + 1]].tolist()
    return near + [k for k in range(topology.n) if k != node and k not in near]


def _seen(topology: Topology, ratio: float, members: tuple[int, ...], node: int) -> float:
    """[(I + c^2 L_Q)^-1]_ii: how much of `node` the members see; of masks 1/(its component)."""
    if math.isinf(ratio):
        rest = set(range(topology.n)) - set(members)
        return max(1 / len(part) for part in components(neighbours(topology), rest) if node in part)
    left = np.setdiff1d(np.arange(topology.n), members)
    adjacency = topology.adjacency().toarray()[np.ix_(left, left)]
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    at = int(np.searchsorted(left, node))
    return float(np.linalg.inv(np.eye(len(left)) + ratio**2 * laplacian)[at, at])
