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


@pytest.mark.parametrize("q", [1, 2, 3])
def test_the_worst_cut_is_a_cut_with_its_smallest_part(q: int) -> None:
    alone = others = 0
    large, small = q + 4, q + 2  # two dense parts, joined by q edges at members 0, 1, ..
    joined = nx.disjoint_union(nx.complete_graph(large), nx.complete_graph(small))
    joined.add_edges_from((k, large + k) for k in range(q))
    for graph in [*irregular(60), joined]:
        topology = Topology.of(graph)
        cut = cuts.worst_cut(topology, q)
        n, kappa = topology.n, nx.node_connectivity(graph)
        assert (cut is None) == (kappa > q or n <= q + 1)
        if cut is None:
            continue
        assert 0 < len(cut.members) <= q and list(cut.members) == sorted(cut.members)
        left = graph.subgraph(set(graph) - set(cut.members))
        parts = sorted(map(sorted, nx.connected_components(left)), key=len)
        assert len(parts) > 1 and list(cut.cut_off) in parts
        assert len(cut.cut_off) == len(parts[0])
        least = min(dict(graph.degree).values())
        if least <= q:  # somebody can be left alone by its neighbours
            (lonely,) = cut.cut_off
            assert graph.degree(lonely) == least and set(graph[lonely]) == set(cut.members)
            alone += 1
        others += least > q
    assert alone > 5
    assert others > 0


@pytest.mark.parametrize("q", [1, 2])
def test_edges_are_proposed_up_to_a_number(q: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for graph in irregular(30):
        topology = Topology.of(graph)
        monkeypatch.undo()
        edges = cuts.mending_edges(topology, q)
        if not edges:
            continue
        assert edges == sorted(edges) and all(u < v for u, v in edges)
        assert len(set(edges)) == len(edges)
        monkeypatch.setattr(cuts, "MENDED", len(edges))
        assert cuts.mending_edges(topology, q) == edges
        monkeypatch.setattr(cuts, "MENDED", len(edges) - 1)
        assert cuts.mending_edges(topology, q) is None


def test_an_edge_goes_from_the_smallest_part_to_the_largest_where_neighbours_are_fewest() -> None:
    """A star with three arms of 1, 2 and 4 nodes around 0."""
    graph = nx.Graph([(0, 1), (0, 2), (2, 3), (0, 4), (4, 5), (5, 6), (6, 7), (5, 7)])
    topology = Topology.of(graph)
    cut = cuts.worst_cut(topology, 1)
    assert cut == cuts.Cut((0,), (1,))
    edges = cuts.mending_edges(topology, 1)
    assert edges is not None
    assert (1, 4) in edges, "node 4, with two neighbours, before 5 with three; 6 and 7 come later"
    after = nx.Graph(graph)
    after.add_edges_from(edges)
    assert nx.node_connectivity(after) == 2


def test_coalitions_are_tried_one_by_one_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = Topology.of(tc.graph.ring(7))
    grown = nx.Graph([*topology.edges.tolist(), (0, 2), (2, 4), (4, 6)])  # somebody has above q
    grown.add_edges_from([(0, 4)])
    topology = Topology.of(grown)
    pairs = 7 * 6 // 2
    monkeypatch.setattr(cuts, "SEARCHED", pairs)
    assert cuts.least_components(topology, 2)[1] == "exact"
    monkeypatch.setattr(cuts, "SEARCHED", pairs - 1)
    assert cuts.least_components(topology, 2)[1] == "bound"
    monkeypatch.undo()
    assert cuts.SEARCHED == 20_000 and cuts.MENDED == 40


def test_what_is_said_of_a_graph_that_can_be_cut() -> None:
    names = ["ann", "ben", "cid", "dan"]
    star = nx.Graph([("ann", "ben"), ("ann", "cid"), ("ann", "dan")])
    topology = Topology.of(star)
    assert [str(v) for v in topology.labels] == names
    (said,) = cuts.cut_advice(topology, 1, 1)
    assert "a coalition of 1 cannot" in said and "here ann cuts off ben:" in said
    assert f"all members draw {3**0.5:.3g} times the noise" in said
    assert said.endswith(": ben-cid, ben-dan.")
    assert cuts.cut_advice(topology, 1, 3) == []  # n - q are left: nobody is cut off
    assert cuts.cut_advice(topology, 0, 4) == []
    (half,) = cuts.cut_advice(topology, 1, 2)
    assert f"draw {1.5**0.5:.3g} times" in half
    assert cuts.cut_advice(Topology.of(nx.complete_graph(3)), 5, 0) == []  # all may collude

    ring = Topology.of(tc.graph.ring(12))
    (said,) = cuts.cut_advice(ring, 2, 1)
    assert "here 1, 11 together cut off 0:" in said
    wide = Topology.of(nx.star_graph(60))
    (said,) = cuts.cut_advice(wide, 1, 1)
    assert "more than 40 edges are missing" in said and "more than 1 neighbour," in said


def test_names_are_given_up_to_five() -> None:
    topology = Topology.of(tc.graph.ring(9))
    assert cuts._named(topology, tuple(range(5))) == "0, 1, 2, 3, 4"
    assert cuts._named(topology, tuple(range(6))) == "0, 1, 2, 3, 4 and 1 more"
    assert cuts._named(topology, tuple(range(1, 9)), most=2) == "1, 2 and 6 more"
