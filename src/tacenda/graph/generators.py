"""Connected networks with nodes 0..n-1, each a `Topology` whose `name` says how it was made.

Everything is arrays, so that a million nodes take a second. Random graphs with few edges are drawn
by networkx, those with many by arrays (`graph.drawing`), since networkx has a Python object for
each end of an edge; a graph of one size is always drawn in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tacenda._types import Ints
from tacenda.checks import between, whole
from tacenda.errors import InputError
from tacenda.graph import drawing
from tacenda.graph.topology import Topology, sorted_edges

# Attempts to draw a connected random graph before the parameters are called hopeless.
TRIES = 100
MANY_EDGES = 200_000  # from here on random graphs are drawn by arrays


def ring(n: int) -> Topology:
    """Each node is joined to the one before and the one after it.

    Node i is joined to i - 1 and i + 1 (mod n); n = 1 is one node alone, n = 2 a single edge.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.ring(5).neighbours(0).tolist()
    [1, 4]
    """
    n = whole("n", n, least=1)
    return _circulant(n, [1] if n > 1 else [], f"ring({n})")


def path(n: int) -> Topology:
    """Node i is joined to i + 1, with two open ends.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.path(3).edges.tolist()
    [[0, 1], [1, 2]]
    """
    n = whole("n", n, least=1)
    nodes = np.arange(n)
    return _topology(n, np.column_stack([nodes[:-1], nodes[1:]]), f"path({n})")


def star(n: int) -> Topology:
    """Node 0 is joined to each of the others.

    Parameters
    ----------
    n : int
        Number of nodes in all, at least 1.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> int(tc.graph.star(5).degrees[0])
    4
    """
    n = whole("n", n, least=1)
    others = np.arange(1, n)
    return _topology(n, np.column_stack([np.zeros_like(others), others]), f"star({n})")


def complete(n: int) -> Topology:
    """Every pair of nodes is joined: n (n - 1) / 2 edges.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> len(tc.graph.complete(5).edges)
    10
    """
    n = whole("n", n, least=1)
    return _topology(n, np.column_stack(np.triu_indices(n, 1)), f"complete({n})")


def grid(rows: int, cols: int) -> Topology:
    """rows x cols lattice; node r * cols + c is the cell (r, c).

    Parameters
    ----------
    rows : int
        Number of rows, at least 1.
    cols : int
        Number of columns, at least 1.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. rows * cols - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.grid(2, 3).neighbours(0).tolist()
    [1, 3]
    """
    rows, cols = whole("rows", rows, least=1), whole("cols", cols, least=1)
    return _lattice(rows, cols, False, f"grid({rows}, {cols})")


def torus(rows: int, cols: int) -> Topology:
    """rows x cols lattice closed in both directions; 4-regular when both sides are at least 3.

    Parameters
    ----------
    rows : int
        Number of rows, at least 1.
    cols : int
        Number of columns, at least 1.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. rows * cols - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.torus(3, 3).neighbours(0).tolist()
    [1, 2, 3, 6]
    """
    rows, cols = whole("rows", rows, least=1), whole("cols", cols, least=1)
    return _lattice(rows, cols, True, f"torus({rows}, {cols})")


def hypercube(dim: int) -> Topology:
    """2^dim nodes; two are joined when their binary numbers differ in one bit.

    Parameters
    ----------
    dim : int
        From 0 to 24.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. 2^dim - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.hypercube(3).neighbours(0).tolist()
    [1, 2, 4]
    """
    dim = whole("dim", dim)
    if dim > 24:
        raise InputError(
            f"dim must be at most 24 (16.8 million nodes), not {dim}; choose a smaller hypercube."
        )
    nodes = np.arange(2**dim)
    low = [nodes[nodes & (1 << b) == 0] for b in range(dim)]
    ends = [np.column_stack([part, part | (1 << b)]) for b, part in enumerate(low)]
    edges = np.concatenate(ends) if ends else np.empty((0, 2), np.int64)
    return _topology(2**dim, edges, f"hypercube({dim})")


def exponential(n: int) -> Topology:
    """Node i is joined to i + 1, i + 2, i + 4, i + 8, ... (mod n): diameter about log2 n.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1.

    Returns
    -------
    Topology
        Connected and undirected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.exponential(8).neighbours(0).tolist()
    [1, 2, 4, 6, 7]
    """
    n = whole("n", n, least=1)
    # Hops up to n // 2 only: longer ones are their mirrors.
    hops = sorted({min(2**k, n - 2**k) for k in range(max(n - 1, 1).bit_length()) if 2**k < n})
    return _circulant(n, hops, f"exponential({n})")


def random_regular(n: int, degree: int, seed: int = 0) -> Topology:
    """A connected random graph in which every node has exactly `degree` neighbours.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1; n * degree must be even.
    degree : int
        Neighbours of each node, below n.
    seed : int, default=0
        The same seed gives the same graph.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. n - 1.

    Raises
    ------
    InputError
        If no such graph exists.

    Examples
    --------
    >>> import tacenda as tc
    >>> set(tc.graph.random_regular(20, 4, seed=0).degrees.tolist())
    {4}
    """
    n, degree, seed = whole("n", n, least=1), whole("degree", degree), whole("seed", seed)
    if degree >= n:
        raise InputError(
            f"degree must be below n = {n}, not {degree}; complete({n}) joins every pair."
        )
    if (n * degree) % 2:
        raise InputError(
            f"n * degree must be even, not {n} * {degree}; take one node or one neighbour more."
        )
    if degree < 2 and n > degree + 1:
        raise InputError(f"degree must be at least 2 to connect n = {n} nodes, not {degree}.")
    name = f"random_regular({n}, {degree}, seed={seed})"
    if n * degree >= 2 * MANY_EDGES:
        return _connected(lambda s: drawing.regular(n, degree, s), n, seed, name)
    return _connected(lambda s: _networkx("random_regular_graph", degree, n, seed=s), n, seed, name)


def erdos_renyi(n: int, p: float, seed: int = 0) -> Topology:
    """Each pair of nodes is joined with probability p, drawn again until the graph is connected.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1.
    p : float
        From 0 to 1.
    seed : int, default=0
        The same seed gives the same graph.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. n - 1.

    Raises
    ------
    InputError
        If p is too small for a connected graph.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.erdos_renyi(20, 0.4, seed=0).n
    20
    """
    n, seed = whole("n", n, least=1), whole("seed", seed)
    p = between("p", p, 0.0, 1.0, open_ends=False)
    name = f"erdos_renyi({n}, {p:g}, seed={seed})"
    isolated = n * (1.0 - p) ** (n - 1) if n > 1 else 0.0
    if isolated > 20:
        least = min(1.0, 2 * math.log(n) / n)
        raise InputError(
            f"p = {p:g} leaves about {isolated:.0f} of n = {n} nodes without a neighbour, "
            "so no draw is connected; "
            f"use p of at least {math.ceil(least * 1e4) / 1e4:g}."
        )
    if p * n * (n - 1) >= 2 * MANY_EDGES:
        return _connected(lambda s: drawing.pairs(n, p, s), n, seed, name)
    return _connected(lambda s: _networkx("fast_gnp_random_graph", n, p, seed=s), n, seed, name)


def small_world(n: int, k: int, p: float, seed: int = 0) -> Topology:
    """Watts-Strogatz: a ring with the k nearest neighbours, each edge rewired with probability p.

    Parameters
    ----------
    n : int
        Number of nodes, at least 3.
    k : int
        Even and below n: k/2 neighbours on either side.
    p : float
        From 0 to 1.
    seed : int, default=0
        The same seed gives the same graph.

    Returns
    -------
    Topology
        Connected, with nodes 0 .. n - 1.

    Raises
    ------
    InputError
        If k is odd or too large.

    Examples
    --------
    >>> import tacenda as tc
    >>> len(tc.graph.small_world(20, 4, 0.1, seed=0).edges)
    40
    """
    n, k, seed = whole("n", n, least=3), whole("k", k, least=2), whole("seed", seed)
    p = between("p", p, 0.0, 1.0, open_ends=False)
    if k % 2 or k >= n:
        raise InputError(
            f"k must be even and below n = {n}, not {k}: "
            "k/2 neighbours are on either side of a node."
        )
    name = f"small_world({n}, {k}, {p:g}, seed={seed})"
    if n * k >= 2 * MANY_EDGES:
        return _connected(lambda s: drawing.rewired_ring(n, k, p, s), n, seed, name)
    return _connected(lambda s: _networkx("watts_strogatz_graph", n, k, p, seed=s), n, seed, name)


def _connected(draw: Callable[[int], Ints], n: int, seed: int, name: str) -> Topology:
    """The first connected graph among TRIES draws; their seeds are a fixed function of `seed`."""
    for attempt in range(TRIES):
        # Far apart, so that neighbouring user seeds never share a draw.
        edges = sorted_edges(draw(seed + attempt * 1_000_003))
        found = Topology.if_connected(n, edges, name)
        if found is not None:
            return found
    raise InputError(
        f"{name} was not connected in {TRIES} draws; raise its edge probability or degree."
    )


def _networkx(kind: str, *values: Any, seed: int) -> Ints:
    """(E, 2) the edges of a random graph of networkx."""
    import networkx as nx

    graph = getattr(nx, kind)(*values, seed=seed)
    return np.array(list(graph.edges), np.int64).reshape(-1, 2)


def _topology(n: int, edges: Ints, name: str) -> Topology:
    return Topology.from_edges(range(n), sorted_edges(edges), name)


def _circulant(n: int, hops: list[int], name: str) -> Topology:
    """Node i is joined to i + h (mod n) for each hop h, from 1 to n // 2."""
    nodes = np.arange(n)
    # A hop of n/2 goes from each end of an edge to the other
    parts = [nodes[: n // 2] if 2 * h == n else nodes for h in hops]
    ends = [np.column_stack([p, (p + h) % n]) for p, h in zip(parts, hops, strict=True)]
    return _topology(n, np.concatenate(ends) if ends else np.empty((0, 2), np.int64), name)


def _lattice(rows: int, cols: int, closed: bool, name: str) -> Topology:
    cells = np.arange(rows * cols).reshape(rows, cols)
    ends = [(cells[:, :-1], cells[:, 1:]), (cells[:-1], cells[1:])]
    if closed and cols > 2:  # two cells are joined once
        ends.append((cells[:, :1], cells[:, -1:]))
    if closed and rows > 2:
        ends.append((cells[:1], cells[-1:]))
    edges = [np.column_stack([a.ravel(), b.ravel()]) for a, b in ends]
    return _topology(rows * cols, np.concatenate(edges), name)
