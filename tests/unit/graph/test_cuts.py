"""Which coalitions cut a graph: against every coalition one by one, and against networkx."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from tacenda.graph import coalition, cuts
from tacenda.graph.topology import Topology


def irregular(count: int) -> list[nx.Graph]:
    """Small connected graphs of all densities."""
    made = (
        nx.gnp_random_graph(2 + seed % 8, 0.15 + 0.17 * (seed % 5), seed=seed)
        for seed in range(10 * count)
    )
    return [graph for graph in made if nx.is_connected(graph)][:count]


def brute(topology: Topology, q: int) -> np.ndarray:
    """The definition: the smallest component of each node, over all coalitions of at most q."""
    graph = nx.Graph(topology.edges.tolist())
    graph.add_nodes_from(range(topology.n))
    least = np.full(topology.n, topology.n)
    for size in range(min(q, topology.n - 1) + 1):
        for gone in combinations(range(topology.n), size):
            for part in nx.connected_components(graph.subgraph(set(graph) - set(gone))):
                for v in part:
                    least[v] = min(least[v], len(part))
    return least


@pytest.mark.parametrize("q", [0, 1, 2, 3, 4])
def test_components_are_the_least_over_all_coalitions(q: int) -> None:
    for graph in irregular(40):
        topology = Topology.of(graph)
        found, how = cuts.least_components(topology, q)
        assert how == "exact"
        np.testing.assert_array_equal(found, brute(topology, q))
        masks, _ = coalition.leverage(topology, float("inf"), q)
        np.testing.assert_array_equal(masks, 1 / found)


@pytest.mark.parametrize("q", [2, 3, 4])
def test_where_not_all_are_tried_nobody_is_credited_with_more(
    q: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts, "SEARCHED", 0)
    ways, close = set(), []
    for graph in irregular(60):
        topology = Topology.of(graph)
        found, how = cuts.least_components(topology, q)
        true = brute(topology, q)
        assert np.all(found <= true)
        ways.add(how)
        close += (found / true).tolist()
        if how == "exact":
            np.testing.assert_array_equal(found, true)
    assert ways == {"exact", "bound"}
    assert np.mean(close) > 0.8


@pytest.mark.parametrize("q", [1, 2, 3, 4])
def test_a_separator_is_found_exactly_where_there_is_one(q: int) -> None:
    for graph in irregular(60):
        n = len(graph)
        if n < q + 2:
            continue
        found = cuts.separator(cuts.neighbours(Topology.of(graph)), q)
        kappa = nx.node_connectivity(graph)
        assert (found is None) == (kappa > q or kappa == n - 1)
        if found is not None:
            assert len(found[0]) <= q
            assert not nx.is_connected(graph.subgraph(set(graph) - found[0]))


@pytest.mark.parametrize("q", [1, 2, 3])
def test_mending_edges_mend(q: int) -> None:
    mended = 0
    for graph in irregular(40):
        topology = Topology.of(graph)
        edges = cuts.mending_edges(topology, q)
        if edges is None:
            assert topology.n <= q + 1
            continue
        assert all(not graph.has_edge(u, v) and u != v for u, v in edges)
        after = nx.Graph(graph)
        after.add_edges_from(edges)
        assert nx.node_connectivity(after) > q or nx.density(after) == 1
        assert bool(edges) == (cuts.worst_cut(topology, q) is not None)
        mended += bool(edges)
    assert mended > 5


@pytest.mark.parametrize(
    ("graph", "q", "least", "most", "how"),
    [
        (tc.graph.random_regular(100, 6, seed=0), 3, 97, 97, "exact"),
        (tc.graph.random_regular(1000, 10, seed=0), 3, 997, 997, "exact"),
        (tc.graph.ring(1000), 1, 999, 999, "exact"),
        (tc.graph.ring(1000), 2, 1, 1, "exact"),
        (tc.graph.star(1000), 1, 1, 999, "exact"),
        (tc.graph.path(1000), 1, 1, 500, "exact"),
        (tc.graph.complete(50), 5, 45, 45, "exact"),
        (tc.graph.complete(4), 9, 1, 1, "exact"),
        (tc.graph.grid(30, 30), 2, 1, 894, "bound"),
    ],
    ids=str,
)
def test_large_graphs(graph: nx.Graph, q: int, least: int, most: int, how: str) -> None:
    found, way = cuts.least_components(Topology.of(graph), q)
    assert (found.min(), found.max(), way) == (least, most, how)


def test_two_clusters_hide_each_node_in_its_own() -> None:
    """Two dense halves joined by two bridges: two members cut them apart."""
    graph = nx.disjoint_union(nx.random_regular_graph(8, 60, seed=1), nx.complete_graph(40))
    graph.add_edges_from([(0, 60), (1, 61)])
    topology = Topology.of(graph)
    found, how = cuts.least_components(topology, 2)
    assert how == "exact"
    assert set(found[2:60]) == {60 - 2}  # both heads of the bridges are in the coalition
    assert set(found[:2]) == {60 - 1}
    assert set(found[62:]) == {40 - 2}
    found, how = cuts.least_components(topology, 3)
    assert how == "bound"
    assert found[5] == 60 - 3
    assert found[70] == 40 - 3
    cut = cuts.worst_cut(topology, 2)
    assert cut is not None
    assert len(cut.members) <= 2
    edges = cuts.mending_edges(topology, 2)
    assert edges is not None
    assert len(edges) == 1
