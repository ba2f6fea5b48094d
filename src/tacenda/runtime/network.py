"""The neighbours of a block of nodes: sums and mixings of released rows,
wherever the neighbours are hosted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.robust import joined
from tacenda.errors import InputError, LeakError, NetworkError
from tacenda.graph.groups import Groups
from tacenda.graph.topology import Topology
from tacenda.graph.tree import spanning_tree
from tacenda.graph.varying import Varying
from tacenda.questions.radius import brought_within, is_within, largest_within
from tacenda.rows import new_rows
from tacenda.runtime.branches import Branches, Handing
from tacenda.runtime.halo import Buffers, Halo, Matrix
from tacenda.runtime.transport import Overlapping, Signing, Tag, Transport
from tacenda.terms.problem import RADIUS


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


def average_of(means: Array, groups: Groups, dtype: Any) -> Array:
    """(1, d) what the public rule makes of the means of groups (1, G d)."""
    rows = means.reshape(groups.count, -1).astype(float)
    found = joined(rows, groups.sizes / groups.topology.n)
    return np.asarray(found[None], dtype)


@dataclass
class Traffic:
    """What this block has sent: messages between nodes, and bytes of released values in them."""

    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True, eq=False)
class _Round:
    """Mixing in one round, where it varies: our rows of W, the messages that we send, and the
    blocks to which no edge is active."""

    turn: int
    mixing: Matrix
    links: int
    silent: frozenset[int]


class Network:
    """One block's view of the graph.

    Rows of neighbours in other blocks arrive as a halo; each node adds its neighbours in the order
    of their positions in the whole graph, so the sums do not depend on the placement, to the last
    bit.

    No entry of a message is larger than the run's public `radius` in absolute value. What we send
    is cut to it, and NaN is sent as 0: a function of released values only. `reached_radius` is then
    the first round in which that was needed: the run diverges, or a neighbour pushes it. A block
    that sends more than the radius is named, and refused.

    Averages go up and down a spanning tree (`graph.tree`). What goes up is the *mean* of the
    branch, and the receiver weighs it by the branch's public size; so the radius bounds these
    messages as any other, and who lies moves the result no further than its own branch's share.

    With `groups` there is a tree in each. Its root hands the group's row down to all, and the root
    of the whole tree then hands down all groups' rows as one, from which a round can be made again;
    every block holds it to what the groups' roots have given. An average is joined from those of
    the groups by the public rule (`algorithms.robust`).
    """

    def __init__(
        self,
        topology: Topology,
        parts: list[Array],
        me: int,
        transport: Transport,
        dtype: Any,
        mixing: str | Varying = "metropolis",
        radius: float = RADIUS,
        groups: Groups | None = None,
    ) -> None:
        self._me = me
        self._topology, self._groups = topology, groups
        self._transport = transport
        self._overlapping = transport if isinstance(transport, Overlapping) else None
        self._dtype = np.dtype(dtype)
        self._radius = radius
        self.reached_radius: int | None = None
        self.nodes = parts[me]
        self.traffic = Traffic()
        self._halo = Halo(topology, parts, me)
        self._degree = topology.degrees if self._halo.alone else topology.degrees[self.nodes]
        self._links = int(self._degree.sum())
        self._varying = None if isinstance(mixing, str) else mixing
        self._kind: Any = mixing if isinstance(mixing, str) else mixing.weights
        self._round: _Round | None = None
        from tacenda.runtime import kernels  # here: it loads the compiler

        self._kernels = kernels

    @cached_property
    def _adjacency(self) -> Matrix:
        """Ones on the edges, which are not written out."""
        return self._local(self._topology.indptr, self._topology.indices, None)

    @cached_property
    def _mixing(self) -> Matrix:
        """Our rows of W, where all edges are active."""
        return self._local(*self._topology.mixing(self._kind))

    def _local(self, indptr: Array, indices: Array, weights: Array | None) -> Matrix:
        return self._halo.local(indptr, indices, weights, self._dtype)

    def neighbour_sum(self, shared: Array, tag: Tag, senders: Array | None = None) -> Array:
        """(b, d) sum over neighbours; where `senders` (b, 1) is 0 a node sends nothing,
        and counts as zero."""
        shared = self._sendable(shared, tag)
        if senders is not None:
            shared = shared * senders.astype(shared.dtype)
        sent = self._links if senders is None else int(self._degree[senders[:, 0] > 0].sum())
        self._count(shared, sent)
        return self._sums(self._adjacency, shared, tag)

    def mix(self, shared: Array, tag: Tag, *, closing: bool = False) -> Array:
        """(b, d) sum_j W_ij shared_j; closing mixings use all edges in every round."""
        shared = self._sendable(shared, tag)
        if self._varying is None or closing:
            self._count(shared, self._links)
            return self._sums(self._mixing, shared, tag)
        now = self._now(self._varying, tag[0])
        self._count(shared, now.links)
        return self._sums(now.mixing, shared, tag, now.silent)

    def _now(self, varying: Varying, turn: int) -> _Round:
        """The matrix of a round, and who is not heard in it."""
        if self._round is None or self._round.turn != turn:
            topology = self._topology
            active = varying.active_edges(topology, turn)
            ends = topology.edges[active]
            ends = np.concatenate([ends, ends[:, ::-1]])
            owner = self._halo.owner
            ends = ends[owner[ends[:, 0]] == self._me]
            heard = set(owner[ends[:, 1]].tolist())
            self._round = _Round(
                turn,
                self._local(*topology.mixing(self._kind, active)),
                len(ends),
                frozenset(self._halo.links) - heard,
            )
        return self._round

    def average(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        """(b, d) the mean over all nodes of the graph, the same bits at every node; of several
        groups, what the public rule makes of their means.

        Up the tree: m_i = (x_i + sum over children k of s_k m_k) / s_i, children ascending, with s
        the sizes of branches. Down: the root's m. Takes the places `tag` and the next; of groups
        one more for each.
        """
        shared, tree = self._sendable(shared, tag), self._branches
        limit = float(largest_within(self._radius, self._dtype))

        def add_up(nodes: Array, rows: Array) -> None:
            self._kernels.branch_means(
                nodes, tree.indptr, tree.children, tree.weights, tree.sizes, rows, limit
            )

        found = self._up_and_down(shared, tag, add_up)
        if self._groups is not None:
            found = average_of(found, self._groups, self._dtype)
        return np.repeat(found, len(shared), axis=0)

    def total(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        """(b, d) the sum over all nodes of whole numbers (uint64) modulo 2^64, as int64, the same
        at every node; of G groups (b, G d), one sum after the other. Takes the places of
        `average`."""
        tree = self._branches
        if type(shared) is not np.ndarray or shared.dtype != np.uint64:
            raise LeakError(
                "Only masked whole numbers, released as uint64, are added up modulo 2^64, not "
                f"{_kind_of(shared)}: release it first."
            )
        self._check_shape(shared)

        def add_up(nodes: Array, rows: Array) -> None:
            self._kernels.branch_sums(nodes, tree.indptr, tree.children, rows)

        found = self._up_and_down(shared, tag, add_up).view(np.int64)
        return np.repeat(found, len(shared), axis=0)

    @cached_property
    def _branches(self) -> Branches:
        tree = spanning_tree(self._topology) if self._groups is None else self._groups.trees
        return Branches(tree, self._halo.owner, self._me)

    @cached_property
    def _handing(self) -> tuple[Handing, list[Handing]]:
        """How the root's row comes down, and how those of the groups' roots do."""
        trees = [] if self._groups is None else self._groups.handing
        whole = Handing(spanning_tree(self._topology), self._halo.owner, self._me)
        return whole, [Handing(tree, self._halo.owner, self._me) for tree in trees]

    def _up_and_down(
        self, shared: Array, tag: Tag, add_up: Callable[[Array, Array], None]
    ) -> Array:
        """(1, d) the root's row, or of G groups (1, G d) all of theirs; add_up(nodes, rows) adds
        the children's rows to those of nodes."""
        tree = self._branches
        self._count(shared, tree.messages)
        rows = np.empty((tree.slots, shared.shape[1]), shared.dtype)
        rows[: len(shared)] = shared
        for stop in tree.stops:
            add_up(stop.nodes, rows)
            leaving = {other: rows[which] for other, which in stop.leaving.items()}
            awaited = {
                other: np.empty((len(which), shared.shape[1]), shared.dtype)
                for other, which in stop.entering.items()
            }
            got = self._exchanged(tag, leaving, awaited)
            for other, which in stop.entering.items():
                rows[which] = got[other]
        add_up(tree.rest, rows)
        whole, each = self._handing
        if not each:
            return self._handed(whole, (tag[0], tag[1] + 1), rows[tree.roots[0]][None])
        found = [
            self._handed(way, (tag[0], tag[1] + 1 + g), rows[root][None], of_group=True)
            for g, (way, root) in enumerate(zip(each, tree.roots, strict=True))
        ]
        mine = np.concatenate(found, axis=1)
        place = (tag[0], tag[1] + 1 + len(each))
        if self._handed(whole, place, mine).tobytes() != mine.tobytes():
            if isinstance(self._transport, Signing):
                self._transport.false_sums(place)
            raise NetworkError(
                f"Round {tag[0]}: {self._topology.labels[whole.root]}, the root of the tree, has "
                "handed down other sums of the groups than their own roots have made and signed. "
                "Nothing was computed from them. Begin again without that member."
            )
        return mine

    def _handed(self, way: Handing, tag: Tag, row: Array, *, of_group: bool = False) -> Array:
        """(1, d) the row of a root, which comes down its tree; `row` is it where the root is here,
        and else only tells its form. of_group: it is one of several that follow at once."""
        if isinstance(self._transport, Signing):
            self._transport.from_root(tag, way.root, of_group=of_group)
        if way.giver is not None:
            awaited = {way.giver: np.empty(row.shape, row.dtype)}
            row = self._exchanged(tag, {}, awaited)[way.giver]
        if way.takers:
            self._exchanged(tag, dict.fromkeys(way.takers, row), {})
        self._count(row, way.messages)
        return row

    def _sums(
        self, matrix: Matrix, shared: Array, tag: Tag, silent: frozenset[int] = frozenset()
    ) -> Array:
        """matrix @ [our rows, rows of the other blocks]; nothing is sent to silent ones, whose
        rows, all of weight 0, are zeros. Nodes whose neighbours are all here are summed up while
        the rows of the others are on their way."""
        rows, add_up, halo = np.ascontiguousarray(shared), self._kernels.weighted_sums, self._halo
        out = new_rows(rows.shape, rows.dtype)
        if not halo.links:
            add_up(halo.inner, *matrix, rows, out)
            return out
        if self._overlapping is not None and not silent:
            buffers = halo.lasting_buffers(rows)
            for other, packed in buffers.outgoing.items():
                np.take(rows, halo.links[other][0], axis=0, out=packed, mode="clip")
            arrived = self._overlapping.begin(tag, buffers.outgoing, buffers.arriving)
            add_up(halo.inner, *matrix, rows, out)
            self._accepted(arrived(), buffers.arriving)
            self._add_border(matrix, rows, buffers, out)
            return out
        buffers = halo.new_buffers(rows)
        awaited = {other: part for other, part in buffers.arriving.items() if other not in silent}
        outgoing = {other: rows[halo.links[other][0]] for other in awaited}
        received = self._exchanged(tag, outgoing, awaited)
        for other, buffer in buffers.arriving.items():
            if other in silent:
                buffer[:] = 0
            elif received[other] is not buffer:
                buffer[:] = received[other]
        add_up(halo.inner, *matrix, rows, out)
        self._add_border(matrix, rows, buffers, out)
        return out

    def _add_border(self, matrix: Matrix, rows: Array, buffers: Buffers, out: Array) -> None:
        """Add up the rows of our nodes with neighbours in other blocks, whose rows have arrived."""
        np.take(rows, self._halo.beside, axis=0, out=buffers.own, mode="clip")
        self._kernels.weighted_sums(self._halo.border, *matrix, buffers.table, out)

    def _exchanged(
        self, tag: Tag, outgoing: dict[int, Array], awaited: dict[int, Array]
    ) -> dict[int, Array]:
        """Send to some blocks, and wait for rows of others, of the shape and type of their
        buffers."""
        return self._accepted(self._transport.exchange(tag, outgoing, awaited), awaited)

    def _accepted(self, received: dict[int, Array], awaited: dict[int, Array]) -> dict[int, Array]:
        """What has arrived; what no honest block sends is refused."""
        for other, buffer in awaited.items():
            rows = received[other]
            if rows.shape != buffer.shape or rows.dtype != buffer.dtype:
                raise NetworkError(f"Block {other} sent rows of the wrong shape or type.")
            if rows.dtype.kind == "f" and not is_within(rows, self._radius):
                beyond = f"with values that are not finite or beyond the radius {self._radius:g}"
                raise NetworkError(f"Block {other} sent rows {beyond}.")
        return received

    def _sendable(self, shared: Any, tag: Tag) -> Array:
        """The released rows, within the radius."""
        if type(shared) is not np.ndarray or shared.dtype != self._dtype:
            raise LeakError(
                f"Only released arrays of type {self._dtype} are sent, not {_kind_of(shared)}: "
                "release it first."
            )
        self._check_shape(shared)
        sent = brought_within(shared, self._radius)
        if sent is not shared and self.reached_radius is None:
            self.reached_radius = tag[0]
        return sent

    def _check_shape(self, shared: Array) -> None:
        if shared.ndim != 2 or len(shared) != len(self.nodes):
            raise NetworkError(
                f"A message holds one row per node ({len(self.nodes)}), "
                f"not the shape {shared.shape}."
            )

    def _count(self, shared: Array, messages: int) -> None:
        self.traffic.messages += messages
        self.traffic.bytes += messages * shared.shape[1] * shared.itemsize


def _kind_of(shared: Any) -> str:
    if isinstance(shared, np.ndarray):
        return f"an array of type {shared.dtype}"
    return f"a {type(shared).__name__}"
