"""Spanning trees: every edge is the graph's, every node hangs one hop below its parent, and the
depth is the graph's radius wherever that can be checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.graph.tree import spanning_tree

GRAPHS = {
    "one": nx.path_graph(1),
    "two": nx.path_graph(2),
    "path": nx.path_graph(31),
    "ring": nx.cycle_graph(20),
    "star, its hub last": nx.relabel_nodes(nx.star_graph(9), lambda k: -k),
    "grid": nx.grid_2d_graph(7, 9),
    "regular": nx.random_regular_graph(6, 100, seed=1),
    "sparse": nx.random_regular_graph(3, 60, seed=2),
    "lollipop": nx.lollipop_graph(9, 12),
}


def check(graph: Any) -> None:
    topology = Topology.of(graph)
    tree = spanning_tree(topology)
    edges = {frozenset(edge) for edge in topology.edges.tolist()}
    assert tree.parent[tree.root] == -1 and tree.level[tree.root] == 0
    for node in range(topology.n):
        if node != tree.root:
            above = int(tree.parent[node])
            assert frozenset((node, above)) in edges
            assert tree.level[node] == tree.level[above] + 1
    assert tree.level.tolist() == topology.distances(tree.root).tolist()
    place = np.argsort(tree.order)
    assert all(place[tree.parent[k]] < place[k] for k in range(topology.n) if k != tree.root)
    starts, below = tree.children
    for node in range(topology.n):
        mine = below[starts[node] : starts[node + 1]].tolist()
        assert mine == np.flatnonzero(tree.parent == node).tolist()
        assert tree.sizes[node] == 1 + sum(tree.sizes[k] for k in mine)
    assert tree.sizes[tree.root] == topology.n


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_a_tree_of_the_graph_from_its_middle(graph: Any) -> None:
    check(graph)
    tree = spanning_tree(Topology.of(graph))
    assert tree.depth == nx.radius(graph)


@given(st.integers(2, 40), st.integers(0, 10**6))
def test_random_graphs_have_nearly_the_least_depth(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((k, int(rng.integers(k))) for k in range(1, n))
    graph.add_edges_from((int(a), int(b)) for a, b in rng.integers(n, size=(n // 2, 2)) if a != b)
    check(graph)
    assert spanning_tree(Topology.of(graph)).depth <= nx.radius(graph) + 1


def test_the_tree_depends_on_the_graph_alone() -> None:
    first, second = (Topology.of(nx.random_regular_graph(4, 50, seed=3)) for _ in range(2))
    one, other = spanning_tree(first), spanning_tree(second)
    assert one is not other and np.array_equal(one.parent, other.parent)
    with pytest.raises(ValueError, match="read-only"):
        one.parent[0] = 3


def test_a_broken_graph_is_refused_by_name() -> None:
    whole = Topology.from_edges(("a", "b", "c", "d"), np.array([[0, 1], [1, 2], [2, 3]]), "path")
    broken = replace(
        whole,
        indptr=np.array([0, 1, 2, 3, 4]),
        indices=np.array([1, 0, 3, 2]),
        degrees=np.ones(4, np.int64),
        edges=np.array([[0, 1], [2, 3]]),
    )
    with pytest.raises(InputError, match="no path from node 'a' to 'c', 'd'"):
        spanning_tree(broken)
