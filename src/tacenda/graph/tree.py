"""`Tree`: a shallow spanning tree of a network, along which released rows are summed up and handed
down.

The root is a node of least eccentricity, as far as a bounded number of searches can tell; every
other node hangs at the neighbour of least position among those that are one hop nearer to the root.
Everything is a function of the graph alone, so whoever knows the graph knows the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tacenda._types import Ints
from tacenda.errors import InputError
from tacenda.graph.topology import Topology

SEARCHES = 16  # breadth-first searches for a root; each costs a pass over the edges


@dataclass(frozen=True, eq=False)
class Tree:
    """A rooted spanning tree by positions, or one in each of several groups; all arrays are int64
    and read-only.

    parent (n,): -1 at a root. level (n,): hops to the root. sizes (n,): how many nodes hang at or
    below a node. order (n,): by level, then by position; a parent stands before its children.
    """

    roots: tuple[int, ...]
    parent: Ints
    level: Ints
    order: Ints
    sizes: Ints

    @property
    def root(self) -> int:
        """The root, of a single tree."""
        (root,) = self.roots
        return root

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @property
    def depth(self) -> int:
        """The longest way to the root, in hops."""
        return int(self.level.max())

    @cached_property
    def children(self) -> tuple[Ints, Ints]:
        """CSR (indptr, indices) of every node's children, ascending."""
        # the roots, at -1, come first
        hung = np.argsort(self.parent, kind="stable")[len(self.roots) :]
        counts = np.bincount(self.parent[hung], minlength=self.n)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), hung


@lru_cache(maxsize=4)
def spanning_tree(topology: Topology) -> Tree:
    """The tree of a connected graph."""
    return _hung(topology, *_root(topology))


def tree_from(topology: Topology, root: int) -> Tree:
    """The tree of a connected graph with this root."""
    return _hung(topology, root, _hops(topology, root))


def joined_trees(trees: Sequence[Tree], members: Sequence[Ints]) -> Tree:
    """Trees of parts of a graph, in the positions of the whole; members: those of each part."""
    n = sum(map(len, members))
    parent, level, sizes = np.full(n, -1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for tree, some in zip(trees, members, strict=True):
        parent[some] = np.where(tree.parent >= 0, some[tree.parent], -1)
        level[some], sizes[some] = tree.level, tree.sizes
    order = np.argsort(level, kind="stable")
    for array in (parent, level, order, sizes):
        array.flags.writeable = False
    roots = tuple(int(some[tree.root]) for tree, some in zip(trees, members, strict=True))
    return Tree(roots, parent, level, order, sizes)


def _hung(topology: Topology, root: int, level: Ints) -> Tree:
    """Every node at its neighbour of least position among those that are one hop nearer."""
    rows = np.repeat(np.arange(topology.n), topology.degrees)
    nearer = np.flatnonzero(level[topology.indices] == level[rows] - 1)
    children, first = np.unique(rows[nearer], return_index=True)  # neighbours ascend
    parent = np.full(topology.n, -1, np.int64)
    parent[children] = topology.indices[nearer[first]]
    order = np.argsort(level, kind="stable")
    sizes = _sizes(parent, order)
    for array in (parent, level, order, sizes):
        array.flags.writeable = False
    return Tree((root,), parent, level, order, sizes)


def _root(topology: Topology) -> tuple[int, Ints]:
    """A node of (nearly) least eccentricity, and every node's hops to it.

    A search from s with eccentricity e bounds that of every v from below, by max(hops, e - hops);
    the next search begins at the least bound, until none is below the best eccentricity found.
    """
    best, least, found = 0, topology.n, np.zeros(0, np.int64)
    bound = np.zeros(topology.n, np.int64)
    start = int(np.argmax(topology.degrees))
    for _ in range(SEARCHES):
        hops = _hops(topology, start)
        furthest = int(hops.max())
        if furthest < least:
            best, least, found = start, furthest, hops
        bound = np.maximum(bound, np.maximum(hops, furthest - hops))
        bound[start] = topology.n
        start = int(np.argmin(bound))
        if bound[start] >= least:
            break
    return best, found


def _hops(topology: Topology, start: int) -> Ints:
    """(n,) hops from a position; all must be reached."""
    from tacenda.graph import kernels  # here: it loads the compiler

    hops, queue = np.full(topology.n, -1, np.int64), np.empty(topology.n, np.int64)
    reached = kernels.breadth_first(topology.indptr, topology.indices, start, hops, queue)
    if reached < topology.n:
        away = [repr(topology.labels[k]) for k in np.flatnonzero(hops < 0)[:5]]
        more = ", ..." if topology.n - reached > 5 else ""
        raise InputError(
            "graph must be connected to have a spanning tree, but there is no path from node "
            f"{topology.labels[start]!r} to {', '.join(away)}{more}; add an edge between them."
        )
    return hops


def _sizes(parent: Ints, order: Ints) -> Ints:
    """(n,) nodes at or below each node."""
    from tacenda.graph import kernels

    sizes = np.ones(len(parent), np.int64)
    kernels.add_up(order, parent, sizes)
    return sizes
