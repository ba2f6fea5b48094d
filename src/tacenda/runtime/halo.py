"""The halo of a block: the rows of nodes in other blocks that its own nodes add up, where they are
kept, and which rows go the other way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._arrays import read_only
from tacenda._types import Array
from tacenda.graph.topology import Topology

Matrix = tuple[Array, Array, Array]  # CSR rows (indptr, columns, weights)


@dataclass(frozen=True, eq=False)
class Buffers:
    """The table that nodes with neighbours in other blocks add up from.

    own       the first rows of the table: copies of local rows that they need (`Halo.beside`)
    arriving  for each other block, the rows of the table that it sends
    outgoing  for each other block, a packed copy of the local rows that it needs
    """

    table: Array
    own: Array
    arriving: dict[int, Array]
    outgoing: dict[int, Array]


class Halo:
    """nodes    positions of the block's own nodes
    alone    True if all nodes are here, in the graph's order
    owner    (n,) the block of every node
    links    for each other block that we border: which of our rows it needs, and which positions it
             sends to us
    inner    rows of our nodes whose neighbours are all here
    border   rows of our other nodes
    beside   indices, in ascending order, of local rows that nodes on the border add up
    """

    def __init__(self, topology: Topology, parts: Sequence[Array], me: int) -> None:
        self.nodes = parts[me]
        self.alone = bool(np.array_equal(self.nodes, np.arange(topology.n)))
        self.owner = np.zeros(topology.n, np.int64)  # block 0 where nothing else is said
        for block, part in enumerate(parts[1:], 1):
            self.owner[part] = block
        self._me = me
        self.links = self._find_links(topology)
        self.inner, self.border = self._find_sides(topology)
        self.beside = self._find_beside(topology)
        coming = [len(arriving) for _, arriving in self.links.values()]
        starts = np.cumsum([len(self.beside), *coming])
        self._rows_of = {
            other: slice(int(a), int(b))
            for other, a, b in zip(self.links, starts[:-1], starts[1:], strict=True)
        }
        self._table_rows = int(starts[-1])
        self._lasting: dict[Any, Buffers] = {}

    def _find_links(self, topology: Topology) -> dict[int, tuple[Array, Array]]:
        if self.alone:
            return {}
        position = np.full(topology.n, -1, np.int64)
        position[self.nodes] = np.arange(len(self.nodes))
        found = {}
        owner, ends = self.owner, np.concatenate([topology.edges, topology.edges[:, ::-1]])
        ends = ends[(owner[ends[:, 0]] == self._me) & (owner[ends[:, 1]] != self._me)]
        for other in np.unique(owner[ends[:, 1]]):
            border = ends[owner[ends[:, 1]] == other]
            found[int(other)] = (position[np.unique(border[:, 0])], np.unique(border[:, 1]))
        return found

    def _find_sides(self, topology: Topology) -> tuple[Array, Array]:
        """The rows of `inner` and `border`."""
        if self.alone:
            return self.nodes, np.empty(0, np.int64)
        owner = np.repeat(self.owner, topology.degrees)
        away = np.zeros(topology.n, bool)
        ends = np.repeat(np.arange(topology.n), topology.degrees)
        away[ends[self.owner[topology.indices] != owner]] = True
        away = away[self.nodes]
        return np.flatnonzero(~away), np.flatnonzero(away)

    def _find_beside(self, topology: Topology) -> Array:
        if self.alone:
            return self.border
        wanted = np.zeros(topology.n, bool)
        border = np.zeros(topology.n, bool)
        border[self.nodes[self.border]] = True
        wanted[topology.indices[np.repeat(border, topology.degrees)]] = True
        return np.flatnonzero((wanted | border)[self.nodes])

    def local(
        self, indptr: Array, indices: Array, weights: Array | None, dtype: np.dtype[Any]
    ) -> Matrix:
        """CSR rows (indptr, columns, weights) of our nodes, in the graph's order. Columns are
        renumbered to our rows, and on the border to the rows of the table (`Buffers`)."""
        none = np.empty(0, dtype)
        if self.alone:
            narrow = indices.astype(np.int32 if len(indptr) < 1 << 31 else np.int64)
            chosen_weights = none if weights is None else weights.astype(dtype)
            return read_only(indptr), read_only(narrow), read_only(chosen_weights)
        here, there = np.full((2, len(indptr) - 1), -1, np.int64)
        here[self.nodes] = np.arange(len(self.nodes))
        there[self.nodes[self.beside]] = np.arange(len(self.beside))
        for other, (_, arriving) in self.links.items():
            there[arriving] = np.arange(self._rows_of[other].start, self._rows_of[other].stop)
        border = np.zeros(len(self.nodes), bool)
        border[self.border] = True
        counts = np.diff(indptr)[self.nodes]
        starts = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.arange(starts[-1]) + np.repeat(indptr[self.nodes] - starts[:-1], counts)
        at = indices[chosen]
        column = np.where(np.repeat(border, counts), there[at], here[at])
        narrow = column.astype(np.int32 if len(indptr) < 1 << 31 else np.int64)
        chosen_weights = none if weights is None else weights[chosen].astype(dtype)
        return read_only(starts), read_only(narrow), read_only(chosen_weights)

    def new_buffers(self, rows: Array) -> Buffers:
        """Buffers for rows of this width and type, without any for what is sent."""
        table = np.empty((self._table_rows, rows.shape[1]), rows.dtype)
        arriving = {other: table[at] for other, at in self._rows_of.items()}
        return Buffers(table, table[: len(self.beside)], arriving, {})

    def lasting_buffers(self, rows: Array) -> Buffers:
        """The same buffers in every round, for rows of this width and type: a transport that works
        in the background may have set itself up for them."""
        key = (rows.shape[1], rows.dtype)
        if key not in self._lasting:
            found = self.new_buffers(rows)
            for other, (own, _) in self.links.items():
                found.outgoing[other] = np.empty((len(own), rows.shape[1]), rows.dtype)
            self._lasting[key] = found
        return self._lasting[key]
