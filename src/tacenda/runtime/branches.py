"""One block's part of a tree: in which order its nodes add up, what it sends to other blocks and
what it waits for; and along which blocks the root's row comes down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacenda._types import Array
from tacenda.graph.tree import Tree


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

    At every stop, deepest level first, the rows before it are added up, then sent, then those of
    other blocks are waited for. The deepest stop of all blocks never waits in vain, so none does;
    also where there is a tree in each of several groups.
    """

    def __init__(self, tree: Tree, owner: Array, me: int) -> None:
        """owner (n,): the block of every node."""
        nodes = np.flatnonzero(owner == me)
        above = np.where(tree.parent >= 0, owner[tree.parent], -1)  # the block of a node's parent
        guests = np.flatnonzero((above == me) & (owner != me))
        self.slots = len(nodes) + len(guests)
        place = np.full(tree.n, -1, np.int64)
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
        self.roots = [int(place[root]) for root in tree.roots]  # their rows; -1 elsewhere
        self.messages = int((tree.parent[nodes] >= 0).sum())


class Handing:
    """All nodes get one and the same row from the root, so a block gets it once, from the block
    that hosts the parent of its first node in the tree's order."""

    def __init__(self, tree: Tree, owner: Array, me: int) -> None:
        """owner (n,): the block of every node."""
        self.root = tree.root
        above = np.where(tree.parent >= 0, owner[tree.parent], -1)
        _, first = np.unique(owner[tree.order], return_index=True)
        giver = above[tree.order[first]]  # by block: who hands it the row; -1 at the root's
        self.giver = None if giver[me] < 0 else int(giver[me])
        self.takers = [int(b) for b in np.flatnonzero(giver == me)]
        self.messages = int(np.diff(tree.children[0])[owner == me].sum())
