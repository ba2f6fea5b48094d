"""One block's part of the spanning tree: in which order its nodes add up, what it sends to other
blocks and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacenda._types import Array
from tacenda.graph.topology import Topology
from tacenda.graph.tree import spanning_tree


@dataclass(frozen=True)
class Stop:
    """A level of the tree at which branches leave this block or enter it.

    nodes: own rows that are ready before. leaving: for each block, own rows whose parents it hosts.
    entering: for each block, where to put the rows of its nodes whose parents are here.
    """

    nodes: Array
    leaving: dict[int, Array]
    entering: dict[int, Array]


class Branches:
    """Rows are numbered [own nodes by position, nodes of other blocks whose parents are here].

    Up: at every stop, deepest level first, the rows before it are added up, then sent, then those
    of other blocks are waited for. The deepest stop of all blocks never waits in vain, so none
    does. Down: all nodes get one and the same row, so a block gets it once, from the block that
    hosts the parent of its first node in the tree's order.
    """

    def __init__(self, topology: Topology, owner: Array, me: int) -> None:
        """owner (n,): the block of every node."""
        tree = spanning_tree(topology)
        nodes = np.flatnonzero(owner == me)
        above = np.where(tree.parent >= 0, owner[tree.parent], -1)  # the block of a node's parent
        guests = np.flatnonzero((above == me) & (owner != me))
        self.slots = len(nodes) + len(guests)
        place = np.full(topology.n, -1, np.int64)
        place[nodes], place[guests] = np.arange(len(nodes)), np.arange(len(nodes), self.slots)
        starts, below = tree.children
        counts = np.diff(starts)[nodes]
        self.indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        chosen = np.arange(self.indptr[-1]) + np.repeat(starts[nodes] - self.indptr[:-1], counts)
        self.children = place[below[chosen]]  # (links,) rows, each node's ascending by position
        self.weights = tree.sizes[below[chosen]].astype(np.float64)
        self.sizes = tree.sizes[nodes].astype(np.float64)

        upward = tree.order[::-1]
        upward = upward[owner[upward] == me]
        level = tree.level[upward]
        leaving = nodes[(above[nodes] != me) & (above[nodes] >= 0)]
        border = np.concatenate([leaving, guests])
        self.stops, done = [], 0
        for at in np.unique(tree.level[border])[::-1]:
            ready = int(np.searchsorted(-level, -at, "right"))
            sent, got = (some[tree.level[some] == at] for some in (leaving, guests))
            self.stops.append(
                Stop(
                    place[upward[done:ready]],
                    {int(b): place[sent[above[sent] == b]] for b in np.unique(above[sent])},
                    {int(b): place[got[owner[got] == b]] for b in np.unique(owner[got])},
                )
            )
            done = ready
        self.rest = place[upward[done:]]

        _, first = np.unique(owner[tree.order], return_index=True)
        giver = above[tree.order[first]]  # by block: who hands it the result; -1 at the root's
        self.giver = None if giver[me] < 0 else int(giver[me])
        self.takers = [int(b) for b in np.flatnonzero(giver == me)]
        self.root = int(place[tree.root])  # its row, where it is here
        self.messages = int((tree.parent[nodes] >= 0).sum()) + int(counts.sum())
