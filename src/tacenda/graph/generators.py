"""Connected networks with nodes 0..n-1, each a plain `networkx.Graph` whose `graph["name"]` says
how it was made."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tacenda.checks import between, whole
from tacenda.errors import InputError

if TYPE_CHECKING:
    import networkx as nx

# Attempts to draw a connected random graph before the parameters are called hopeless.
TRIES = 100


def ring(n: int) -> nx.Graph:
    """Each node is joined to the one before and the one after it.

    Node i is joined to i - 1 and i + 1 (mod n); n = 1 is one node alone, n = 2 a single edge.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1.

    Returns
    -------
    networkx.Graph
        Connected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> sorted(tc.graph.ring(5).neighbors(0))
    [1, 4]
    """
    import networkx as nx

    n = whole("n", n, least=1)
    # networkx closes a ring of one node with a self-loop, which no algorithm here can use.
    return _plain(nx.cycle_graph(n) if n > 2 else nx.path_graph(n), f"ring({n})")


def path(n: int) -> nx.Graph:
    """Node i is joined to i + 1, with two open ends.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1.

    Returns
    -------
    networkx.Graph
        Connected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> list(tc.graph.path(3).edges)
    [(0, 1), (1, 2)]
    """
    import networkx as nx

    n = whole("n", n, least=1)
    return _plain(nx.path_graph(n), f"path({n})")


def star(n: int) -> nx.Graph:
    """Node 0 is joined to each of the others.

    Parameters
    ----------
    n : int
        Number of nodes in all, at least 1.

    Returns
    -------
    networkx.Graph
        Connected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.star(5).degree[0]
    4
    """
    import networkx as nx

    n = whole("n", n, least=1)
    return _plain(nx.star_graph(n - 1), f"star({n})")


def complete(n: int) -> nx.Graph:
    """Every pair of nodes is joined: n (n - 1) / 2 edges.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1.

    Returns
    -------
    networkx.Graph
        Connected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.complete(5).number_of_edges()
    10
    """
    import networkx as nx

    n = whole("n", n, least=1)
    return _plain(nx.complete_graph(n), f"complete({n})")


def grid(rows: int, cols: int) -> nx.Graph:
    """rows x cols lattice; node r * cols + c is the cell (r, c).

    Parameters
    ----------
    rows : int
        Number of rows, at least 1.
    cols : int
        Number of columns, at least 1.

    Returns
    -------
    networkx.Graph
        Connected, with nodes 0 .. rows * cols - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> sorted(tc.graph.grid(2, 3).neighbors(0))
    [1, 3]
    """
    import networkx as nx

    rows, cols = whole("rows", rows, least=1), whole("cols", cols, least=1)
    return _plain(nx.grid_2d_graph(rows, cols), f"grid({rows}, {cols})")


def torus(rows: int, cols: int) -> nx.Graph:
    """rows x cols lattice closed in both directions; 4-regular when both sides are at least 3.

    Parameters
    ----------
    rows : int
        Number of rows, at least 1.
    cols : int
        Number of columns, at least 1.

    Returns
    -------
    networkx.Graph
        Connected, with nodes 0 .. rows * cols - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> sorted(tc.graph.torus(3, 3).neighbors(0))
    [1, 2, 3, 6]
    """
    import networkx as nx

    rows, cols = whole("rows", rows, least=1), whole("cols", cols, least=1)
    return _plain(
        nx.grid_2d_graph(rows, cols, periodic=(rows > 2, cols > 2)), f"torus({rows}, {cols})"
    )


def hypercube(dim: int) -> nx.Graph:
    """2^dim nodes; two are joined when their binary numbers differ in one bit.

    Parameters
    ----------
    dim : int
        From 0 to 24.

    Returns
    -------
    networkx.Graph
        Connected, with nodes 0 .. 2^dim - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> sorted(tc.graph.hypercube(3).neighbors(0))
    [1, 2, 4]
    """
    import networkx as nx

    dim = whole("dim", dim)
    if dim > 24:
        raise InputError(
            f"dim must be at most 24 (16.8 million nodes), not {dim}; choose a smaller hypercube."
        )
    edges = ((i, i ^ (1 << b)) for i in range(2**dim) for b in range(dim) if i < i ^ (1 << b))
    graph = nx.empty_graph(2**dim)
    graph.add_edges_from(edges)
    return _plain(graph, f"hypercube({dim})")


def exponential(n: int) -> nx.Graph:
    """Node i is joined to i + 1, i + 2, i + 4, i + 8, ... (mod n): diameter about log2 n.

    Parameters
    ----------
    n : int
        Number of nodes, at least 1.

    Returns
    -------
    networkx.Graph
        Connected and undirected, with nodes 0 .. n - 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> sorted(tc.graph.exponential(8).neighbors(0))
    [1, 2, 4, 6, 7]
    """
    import networkx as nx

    n = whole("n", n, least=1)
    # circulant_graph would add a self-loop for a hop of n, hence hops up to n // 2 only: longer
    # ones are their mirrors.
    hops = sorted({min(2**k, n - 2**k) for k in range(max(n - 1, 1).bit_length()) if 2**k < n})
    return _plain(nx.circulant_graph(n, hops), f"exponential({n})")


def random_regular(n: int, degree: int, seed: int = 0) -> nx.Graph:
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
    networkx.Graph
        Connected, with nodes 0 .. n - 1.

    Raises
    ------
    InputError
        If no such graph exists.

    Examples
    --------
    >>> import tacenda as tc
    >>> {degree for _, degree in tc.graph.random_regular(20, 4, seed=0).degree}
    {4}
    """
    import networkx as nx

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
    return _plain(
        _connected(lambda s: nx.random_regular_graph(degree, n, seed=s), seed, name), name
    )


def erdos_renyi(n: int, p: float, seed: int = 0) -> nx.Graph:
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
    networkx.Graph
        Connected, with nodes 0 .. n - 1.

    Raises
    ------
    InputError
        If p is too small for a connected graph.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.erdos_renyi(20, 0.4, seed=0).number_of_nodes()
    20
    """
    import networkx as nx

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
    return _plain(_connected(lambda s: nx.fast_gnp_random_graph(n, p, seed=s), seed, name), name)


def small_world(n: int, k: int, p: float, seed: int = 0) -> nx.Graph:
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
    networkx.Graph
        Connected, with nodes 0 .. n - 1.

    Raises
    ------
    InputError
        If k is odd or too large.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.small_world(20, 4, 0.1, seed=0).number_of_edges()
    40
    """
    import networkx as nx

    n, k, seed = whole("n", n, least=3), whole("k", k, least=2), whole("seed", seed)
    p = between("p", p, 0.0, 1.0, open_ends=False)
    if k % 2 or k >= n:
        raise InputError(
            f"k must be even and below n = {n}, not {k}: "
            "k/2 neighbours are on either side of a node."
        )
    name = f"small_world({n}, {k}, {p:g}, seed={seed})"
    return _plain(_connected(lambda s: nx.watts_strogatz_graph(n, k, p, seed=s), seed, name), name)


def _connected(draw: Callable[[int], Any], seed: int, name: str) -> Any:
    """The first connected graph among TRIES draws; their seeds are a fixed function of `seed`."""
    import networkx as nx

    for attempt in range(TRIES):
        # Far apart, so that neighbouring user seeds never share a draw.
        graph = draw(seed + attempt * 1_000_003)
        if nx.is_connected(graph):
            return graph
    raise InputError(
        f"{name} was not connected in {TRIES} draws; raise its edge probability or degree."
    )


def _plain(graph: nx.Graph, name: str) -> nx.Graph:
    """Labels 0..n-1 in order, edges sorted:
    the same graph gives the same arrays with any version of networkx."""
    import networkx as nx

    nodes = sorted(graph.nodes)
    number = {label: i for i, label in enumerate(nodes)}
    plain = nx.empty_graph(len(nodes))
    ends = ((number[u], number[v]) for u, v in graph.edges)
    plain.add_edges_from(sorted((min(e), max(e)) for e in ends))
    plain.graph["name"] = name
    return plain
