"""The neighbours of a block of nodes: sums and mixings of released rows,
wherever the neighbours are hosted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError, LeakError, NetworkError
from tacenda.graph.topology import Topology
from tacenda.problem.constants import RADIUS
from tacenda.problem.radius import brought_within, is_within
from tacenda.runtime.transport import Tag, Transport


def placement(n: int, blocks: int | Any) -> list[Array]:
    """Which nodes each block hosts: a number of equal blocks, or a list of lists of positions that
    covers every node once."""
    if isinstance(blocks, (int, np.integer)) and not isinstance(blocks, bool):
        if not 1 <= blocks <= n:
            raise InputError(
                f"blocks must be between 1 and the number of nodes ({n}), not {blocks}."
            )
        return [np.asarray(part, np.int64) for part in np.array_split(np.arange(n), int(blocks))]
    try:
        parts = [np.sort(np.asarray(part, np.int64)) for part in blocks]
    except (TypeError, ValueError):
        raise InputError(
            f"blocks must be a whole number or lists of node positions, not {blocks!r}."
        ) from None
    if (
        not parts
        or any(len(p) == 0 for p in parts)
        or not np.array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    ):
        raise InputError(
            f"blocks must place each of the {n} nodes exactly once, and no block may be empty."
        )
    return parts


@dataclass
class Traffic:
    """What this block has sent: messages between nodes, and bytes of released values in them."""

    messages: int = 0
    bytes: int = 0


class Network:
    """One block's view of the graph.

    Rows of neighbours in other blocks arrive as a halo; each node adds its neighbours in the order
    of their positions in the whole graph, so the sums do not depend on the placement, to the last
    bit.

    No entry of a message is larger than the run's public `radius` in absolute value. What we send
    is cut to it, and NaN is sent as 0: a function of released values only. `reached_radius` is then
    the first round in which that was needed: the run diverges, or a neighbour pushes it. A block
    that sends more than the radius is named, and refused.
    """

    def __init__(
        self,
        topology: Topology,
        parts: list[Array],
        me: int,
        transport: Transport,
        dtype: Any,
        mixing: str = "metropolis",
        radius: float = RADIUS,
    ) -> None:
        self._me = me
        self._transport = transport
        self._dtype = np.dtype(dtype)
        self._radius = radius
        self.reached_radius: int | None = None
        self.nodes = parts[me]
        self._owner = np.empty(topology.n, np.int64)
        for block, part in enumerate(parts):
            self._owner[part] = block
        self.traffic = Traffic()
        self._degree = topology.degrees[self.nodes]
        self._links = int(self._degree.sum())
        self._halo = self._plan_halo(topology)
        self._adjacency = self._local(
            topology.indptr, topology.indices, np.ones(len(topology.indices))
        )
        self._mixing = self._local(*topology.mixing(mixing))  # type: ignore[arg-type]
        from tacenda.runtime import kernels  # here: it loads the compiler

        self._kernels = kernels

    def neighbour_sum(self, shared: Array, tag: Tag, senders: Array | None = None) -> Array:
        """(b, d) sum over neighbours; where `senders` (b, 1) is 0 a node sends nothing,
        and counts as zero."""
        shared = self._sendable(shared, tag)
        if senders is not None:
            shared = shared * senders.astype(shared.dtype)
        self._count(shared, senders)
        return self._weighted_sums(self._adjacency, self._with_halo(shared, tag))

    def mix(self, shared: Array, tag: Tag) -> Array:
        """(b, d) sum_j W_ij shared_j."""
        shared = self._sendable(shared, tag)
        self._count(shared, None)
        return self._weighted_sums(self._mixing, self._with_halo(shared, tag))

    def _plan_halo(self, topology: Topology) -> dict[int, tuple[Array, Array]]:
        """For every other block that we border: which of our rows it needs, and which positions it
        sends to us."""
        position = np.full(topology.n, -1, np.int64)
        position[self.nodes] = np.arange(len(self.nodes))
        halo = {}
        ends = np.concatenate([topology.edges, topology.edges[:, ::-1]])
        ends = ends[(self._owner[ends[:, 0]] == self._me) & (self._owner[ends[:, 1]] != self._me)]
        for other in np.unique(self._owner[ends[:, 1]]):
            border = ends[self._owner[ends[:, 1]] == other]
            halo[int(other)] = (position[np.unique(border[:, 0])], np.unique(border[:, 1]))
        return halo

    def _local(self, indptr: Array, indices: Array, weights: Array) -> tuple[Array, Array, Array]:
        """CSR rows (indptr, columns, weights) of our nodes, columns renumbered to [our rows, halo
        rows], in the graph's order."""
        column = np.full(len(indptr) - 1, -1, np.int64)
        column[self.nodes] = np.arange(len(self.nodes))
        start = len(self.nodes)
        for _, arriving in self._halo.values():
            column[arriving] = np.arange(start, start + len(arriving))
            start += len(arriving)
        counts = np.diff(indptr)[self.nodes]
        starts = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.arange(starts[-1]) + np.repeat(indptr[self.nodes] - starts[:-1], counts)
        return starts, column[indices[chosen]], weights[chosen].astype(self._dtype)

    def _with_halo(self, shared: Array, tag: Tag) -> Array:
        if not self._halo:
            return shared
        received = self._transport.exchange(
            tag, {other: shared[rows] for other, (rows, _) in self._halo.items()}
        )
        parts = [shared]
        for other, (_, arriving) in self._halo.items():
            rows = received[other]
            if rows.shape != (len(arriving), shared.shape[1]) or rows.dtype != shared.dtype:
                raise NetworkError(f"Block {other} sent rows of the wrong shape or type.")
            if not is_within(rows, self._radius):
                beyond = f"with values that are not finite or beyond the radius {self._radius:g}"
                raise NetworkError(f"Block {other} sent rows {beyond}.")
            parts.append(rows)
        return np.concatenate(parts)

    def _sendable(self, shared: Any, tag: Tag) -> Array:
        """The released rows, within the radius."""
        if type(shared) is not np.ndarray or shared.dtype != self._dtype:
            what = (
                f"an array of type {shared.dtype}"
                if isinstance(shared, np.ndarray)
                else f"a {type(shared).__name__}"
            )
            raise LeakError(
                f"Only released arrays of type {self._dtype} are sent, not {what}: "
                "release it first."
            )
        if shared.ndim != 2 or len(shared) != len(self.nodes):
            raise NetworkError(
                f"A message holds one row per node ({len(self.nodes)}), "
                f"not the shape {shared.shape}."
            )
        sent = brought_within(shared, self._radius)
        if sent is not shared and self.reached_radius is None:
            self.reached_radius = tag[0]
        return sent

    def _count(self, shared: Array, senders: Array | None) -> None:
        messages = self._links if senders is None else int(self._degree[senders[:, 0] > 0].sum())
        self.traffic.messages += messages
        self.traffic.bytes += messages * shared.shape[1] * shared.itemsize

    def _weighted_sums(self, matrix: tuple[Array, Array, Array], rows: Array) -> Array:
        """matrix @ rows, for a matrix as CSR arrays."""
        out = np.empty((len(matrix[0]) - 1, rows.shape[1]), rows.dtype)
        self._kernels.weighted_sums(*matrix, np.ascontiguousarray(rows), out)
        return out
