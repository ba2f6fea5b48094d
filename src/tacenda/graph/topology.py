"""`Topology`: a checked network as CSR arrays, the form in which the algorithms see it.

Position k is the k-th node in the order in which the graph lists its nodes; `labels[k]` is the
user's name for it. Everything here is vectorised: a million nodes are a few arrays, and no Python
object per node is kept but its label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tacenda._types import Flags, Floats, Ints
from tacenda.checks import one_of
from tacenda.errors import InputError, UnsupportedError
from tacenda.words import counted

if TYPE_CHECKING:
    import networkx as nx
    from scipy.sparse import csr_array

Mixing = Literal["metropolis", "uniform", "max-degree"]
# Up to here NumPy takes milliseconds; SciPy's graphs take a quarter of a second to load
FEW_EDGES = 10_000
MIXINGS: tuple[Mixing, ...] = ("metropolis", "uniform", "max-degree")


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """A connected undirected graph on n nodes, as arrays: the form in which algorithms run on it.

    The neighbours of position k are `indices[indptr[k]:indptr[k + 1]]`, ascending. Make one with
    `Topology.of(graph)`; every function that takes a graph does so itself. The generators of
    `tacenda.graph` give one.

    Attributes
    ----------
    labels : sequence of object
        The user's name of each node, in the graph's own order; a range where they are numbered.
    indptr : ndarray of int
        Shape (n + 1,), read-only.
    indices : ndarray of int
        Positions of neighbours, shape (2 E,), read-only.
    degrees : ndarray of int
        Number of neighbours of each node, shape (n,), read-only.
    edges : ndarray of int
        Positions, the smaller first, shape (E, 2), read-only.
    name : str
        How the graph was made.

    Examples
    --------
    >>> import tacenda as tc
    >>> topology = tc.graph.Topology.of(tc.graph.ring(5))
    >>> topology.n, topology.degrees.tolist(), topology.diameter
    (5, [2, 2, 2, 2, 2], 2)
    """

    labels: Sequence[Any]
    indptr: Ints
    indices: Ints
    degrees: Ints
    edges: Ints
    name: str

    @classmethod
    def of(cls, graph: nx.Graph | Topology | Any) -> Topology:
        """Check a graph and turn it into arrays.

        graph: undirected and connected, without self-loops, with any labels; a `Topology` is
        returned as it is. A sparse array (n, n) has an edge where it is not 0, and must be
        symmetric.
        """
        if isinstance(graph, Topology):
            return graph
        if hasattr(graph, "tocoo") and hasattr(graph, "nnz"):
            return _of_sparse(graph)
        if not hasattr(graph, "is_directed") or not hasattr(graph, "edges"):
            raise InputError(
                "graph must be a networkx.Graph, a SciPy sparse array or a Topology, "
                f"not {type(graph).__name__}; "
                "see tacenda.graph.ring(20)."
            )
        if graph.is_directed():
            raise InputError(
                "graph must be undirected, not a directed graph; "
                "convert it with graph.to_undirected()."
            )
        labels = tuple(graph.nodes)
        if not labels:
            raise InputError(
                "graph must have at least one node, not 0; see tacenda.graph.ring(20)."
            )
        edges = _edge_positions(graph, labels)
        name = str(
            graph.graph.get("name")
            or f"{counted(len(labels), 'node')}, {counted(len(edges), 'edge')}"
        )
        return cls.from_edges(labels, edges, name)

    @classmethod
    def from_edges(cls, labels: Sequence[Any], edges: Ints, name: str) -> Topology:
        """Make a topology from labels and positions; checked like any graph.

        labels: one per node; a range where they are numbered. edges: positions, shape (E, 2), the
        smaller first, in lexicographic order. name: how the graph was made.
        """
        _refuse_loops_and_doubles(labels, edges)
        topology = cls._joined(labels, edges, name)
        topology._refuse_disconnected()
        return topology

    @classmethod
    def if_connected(cls, n: int, edges: Ints, name: str) -> Topology | None:
        """The network of numbered nodes with these edges, if it is connected.

        edges: positions, shape (E, 2), the smaller first, each edge once, in lexicographic order.
        name: how the graph was made. Result: the network; None if it has several parts.
        """
        found = cls._joined(range(n), edges, name)
        return found if found._reached() == n else None

    @classmethod
    def in_parts(cls, labels: Sequence[Any], edges: Ints, name: str) -> Topology:
        """Make one of edges that may leave it in several parts, such as those inside of groups.

        labels: one per node. edges: as for `from_edges`. name: how the graph was made.
        """
        return cls._joined(labels, edges, name)

    @classmethod
    def _joined(cls, labels: Sequence[Any], edges: Ints, name: str) -> Topology:
        # Edges come in lexicographic order. So the larger neighbours of each node stand in order
        # already, and with the edges in the order of their larger ends the smaller ones do.
        n, count = len(labels), len(edges)
        larger, smaller = (np.bincount(edges[:, k], minlength=n) for k in (0, 1))
        ends = np.ascontiguousarray(edges[:, 1])
        degrees = smaller + larger
        up, down, indptr = map(_starts, (larger, smaller, degrees))
        indices = np.empty(2 * count, np.int64)
        place = np.arange(count)
        indices[place + np.repeat(indptr[:-1] - down[:-1], smaller)] = _smaller_ends(edges, up)
        indices[place + np.repeat(indptr[:-1] + smaller - up[:-1], larger)] = ends
        for array in (indptr, indices, degrees, edges):
            array.flags.writeable = False
        return cls(labels, indptr, indices, degrees, edges, name)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.labels)

    def neighbours(self, position: int) -> Ints:
        """Positions of a node's neighbours, ascending."""
        return self.indices[self.indptr[position] : self.indptr[position + 1]]

    def plain_labels(self) -> range | list[str]:
        """The labels as text, for files and fingerprints; numbered nodes stay a range."""
        return self.labels if isinstance(self.labels, range) else [str(x) for x in self.labels]

    def relabelled(self, labels: Sequence[Any]) -> Topology:
        """The same network under other names.

        labels: one for each node, by position.
        """
        if len(labels) != self.n:
            raise InputError(f"labels must be {self.n}, one for each node, not {len(labels)}.")
        return replace(self, labels=labels if isinstance(labels, range) else tuple(labels))

    def to_networkx(self) -> nx.Graph:
        """The network as a networkx graph, for drawing and other libraries.

        Result: with the same labels, in the same order.
        """
        import networkx as nx

        graph = nx.Graph(name=self.name)
        graph.add_nodes_from(self.labels)
        graph.add_edges_from((self.labels[u], self.labels[v]) for u, v in self.edges.tolist())
        return graph

    def __repr__(self) -> str:
        return f"Topology({self.name!r}, n={self.n}, edges={len(self.edges)})"

    def position(self, label: Any) -> int:
        """Position of the node with that label.

        label: the user's name of the node. Result: from 0 to n - 1.
        """
        try:
            return self.labels.index(label)
        except ValueError:
            raise InputError(
                f"node {label!r} is not in the graph {self.name}; its first is {self.labels[0]!r}."
            ) from None

    def adjacency(self) -> csr_array:
        """Adjacency matrix, 1 on edges."""
        from scipy.sparse import csr_array

        return csr_array(
            (np.ones(len(self.indices)), self.indices, self.indptr), shape=(self.n, self.n)
        )

    def laplacian(self) -> csr_array:
        """Laplacian D - A: degrees on the diagonal, -1 on edges."""
        from scipy.sparse import csr_array, diags_array

        return csr_array(diags_array(self.degrees.astype(np.float64)) - self.adjacency())

    def mixing(
        self, kind: Mixing = "metropolis", active: Flags | None = None
    ) -> tuple[Ints, Ints, Floats]:
        """A symmetric doubly stochastic matrix W, the weights with which neighbours average.

            metropolis  W_ij = 1 / (1 + max(deg_i, deg_j))
            max-degree  W_ij = 1 / (1 + max_k deg_k)
            uniform     W_ij = 1 / (1 + deg), regular graphs only

        and W_ii = 1 - sum_j W_ij, which is positive for each of them.

        active: the edges that are used, shape (E,); all by default. The others have weight 0, and
        do not count in the degrees of "metropolis". Result: W as CSR (indptr, indices, weights),
        diagonal included, columns sorted.
        """
        one_of("mixing", kind, MIXINGS)
        d, n = self.degrees, self.n
        if kind == "uniform" and d.min() != d.max():
            raise UnsupportedError(
                "mixing 'uniform' needs a regular graph, "
                f"but {self.name} has degrees from {d.min()} to {d.max()}; "
                "use 'metropolis'."
            )
        rows = np.repeat(np.arange(n), d)
        used, most = self._used(rows, active), d.max()
        if used is not None:
            d = np.bincount(rows[used], minlength=n)
        larger = (
            np.maximum(d[rows], d[self.indices])
            if kind == "metropolis"
            else np.full(len(rows), most)
        )
        off = 1.0 / (1.0 + larger)
        if used is not None:
            off[~used] = 0.0
        # The diagonal stands between a node's smaller and its larger neighbours
        after = self.indices > rows
        indptr = self.indptr + np.arange(n + 1)
        places = np.arange(len(rows)) + rows + after
        middle = indptr[1:] - 1 - np.bincount(rows, weights=after, minlength=n).astype(np.int64)
        columns, weights = np.empty(len(rows) + n, np.int64), np.empty(len(rows) + n)
        columns[places], weights[places] = self.indices, off
        columns[middle] = np.arange(n)
        weights[middle] = 1.0 - np.bincount(rows, weights=off, minlength=n)
        return indptr, columns, weights

    def _used(self, rows: Ints, active: Flags | None) -> Flags | None:
        """(2 E,) whether each entry of `indices`, of those rows, belongs to an active edge."""
        if active is None:
            return None
        keys = self.edges[:, 0] * self.n + self.edges[:, 1]  # ascending
        ends = np.minimum(rows, self.indices) * self.n + np.maximum(rows, self.indices)
        return np.asarray(active[np.searchsorted(keys, ends)])

    def spectral_gap(self, kind: Mixing = "metropolis") -> float:
        """1 - max(|lambda_2|, |lambda_n|) of the mixing matrix: how fast averaging converges.

        Result: from near 0 (a long ring) to 1 (the complete graph).
        """
        from scipy.sparse import csr_array

        from tacenda.graph.spectrum import mixing_gap

        indptr, indices, weights = self.mixing(kind)
        return mixing_gap(csr_array((weights, indices, indptr), shape=(self.n, self.n)))

    @property
    def algebraic_connectivity(self) -> float:
        """Second smallest eigenvalue of the Laplacian (0 for a single node)."""
        from tacenda.graph.spectrum import second_smallest

        return second_smallest(self.laplacian()) if self.n > 1 else 0.0

    @property
    def is_bipartite(self) -> bool:
        """Whether the nodes split into two sides with edges only across.

        Then each edge joins an odd and an even distance.
        """
        parity = self.distances(0) % 2
        return bool(np.all(parity[self.edges[:, 0]] != parity[self.edges[:, 1]]))

    @property
    def diameter(self) -> int:
        """Longest shortest path, exact; see `spectrum.diameter` for its cost."""
        from tacenda.graph.spectrum import diameter

        return diameter(self.distances, self.n)

    def distances(self, start: int) -> Ints:
        """Number of hops from one node, by breadth-first search."""
        from scipy.sparse.csgraph import dijkstra

        hops: Ints = dijkstra(self.adjacency(), unweighted=True, indices=start).astype(np.int64)
        return hops

    def hub(self) -> int | None:
        """First position that is adjacent to all others: the coordinator of a star algorithm."""
        found = np.flatnonzero(self.degrees == self.n - 1)
        return int(found[0]) if len(found) else None

    def _reached(self) -> int:
        """How many nodes have a path from the first."""
        if len(self.edges) <= FEW_EDGES:
            found, seen = [0], {0}
            for position in found:  # grows
                new = set(self.neighbours(position).tolist()) - seen
                seen |= new
                found += new
            return len(found)
        from scipy.sparse.csgraph import breadth_first_order

        return len(breadth_first_order(self.adjacency(), 0, return_predecessors=False))

    def _refuse_disconnected(self) -> None:
        if self._reached() == self.n:
            return
        from scipy.sparse.csgraph import connected_components

        count, part = connected_components(self.adjacency(), directed=False)
        sizes = np.sort(np.bincount(part))[::-1]
        shown = ", ".join(str(s) for s in sizes[:5]) + (", ..." if count > 5 else "")
        outside = self.labels[int(np.flatnonzero(part != part[0])[0])]
        raise InputError(
            f"graph must be connected, but it has {count} components of sizes {shown} "
            f"(no path from node {self.labels[0]!r} to {outside!r}); "
            "add an edge between them or run each by itself."
        )


def _starts(counts: Ints) -> Ints:
    """Where each group begins in an array of them all, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _smaller_ends(edges: Ints, starts: Ints) -> Ints:
    """The smaller ends of the edges, in the order of the larger ones. starts: of each smaller."""
    if len(edges) <= FEW_EDGES:
        found: Ints = edges[np.argsort(edges[:, 1], kind="stable"), 0]
        return found
    from scipy.sparse import csr_array

    # Transposed, which is one pass: no sorting
    n, ends = len(starts) - 1, np.ascontiguousarray(edges[:, 1])
    flags = np.ones(len(edges), np.int8)
    turned: Ints = csr_array((flags, ends, starts), shape=(n, n)).T.tocsr().indices
    return turned


def sorted_edges(edges: Ints) -> Ints:
    """(E, 2) the same edges, the smaller end first, in lexicographic order."""
    if not len(edges):
        return edges
    a, b = edges[:, 0], edges[:, 1]
    low, high = np.minimum(a, b), np.maximum(a, b)
    n = int(high.max()) + 1
    keys = low * n + high
    keys.sort()  # one number for each edge: far faster than by two keys
    found = np.empty((len(keys), 2), np.int64)
    np.divmod(keys, n, out=(found[:, 0], found[:, 1]))
    return found


def _of_sparse(matrix: Any) -> Topology:
    """From a symmetric sparse array."""
    rows, cols = matrix.shape
    if rows != cols or rows == 0:
        raise InputError(
            f"graph as a sparse array must be square and not empty, not {rows} x {cols}."
        )
    found = matrix.tocoo()
    kept = found.data != 0
    ends = np.column_stack([found.row[kept], found.col[kept]]).astype(np.int64)
    one_way = np.unique(ends[:, 0] * rows + ends[:, 1])
    other_way = np.unique(ends[:, 1] * rows + ends[:, 0])
    if not np.array_equal(one_way, other_way):
        raise InputError(
            "graph as a sparse array must be symmetric, since edges have no direction; "
            "pass matrix + matrix.T."
        )
    edges = sorted_edges(ends[ends[:, 0] <= ends[:, 1]])
    return Topology.from_edges(
        range(rows), edges, f"{counted(rows, 'node')}, {counted(len(edges), 'edge')}"
    )


def _edge_positions(graph: Any, labels: Sequence[Any]) -> Ints:
    """(E, 2) positions, the smaller first, in lexicographic order."""
    number = {label: k for k, label in enumerate(labels)}
    ends = (number[end] for end in chain.from_iterable((e[0], e[1]) for e in graph.edges))
    return sorted_edges(np.fromiter(ends, dtype=np.int64).reshape(-1, 2))


def _refuse_loops_and_doubles(labels: Sequence[Any], edges: Ints) -> None:
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if len(loops):
        label = labels[edges[loops[0], 0]]
        raise InputError(
            f"graph must have no self-loops, but node {label!r} is joined to itself; "
            "remove them with graph.remove_edges_from(list(networkx.selfloop_edges(graph)))."
        )
    doubles = np.flatnonzero((edges[1:, 0] == edges[:-1, 0]) & (edges[1:, 1] == edges[:-1, 1]))
    if len(doubles):
        u, v = (labels[k] for k in edges[doubles[0]])
        raise InputError(
            f"graph must have one edge per pair, but nodes {u!r} and {v!r} are joined more than "
            "once; "
            "merge them with networkx.Graph(graph)."
        )
