"""The generators: sizes, degrees and edges counted by hand;
clear errors for what cannot be built."""

import networkx as nx
import numpy as np
import pytest

from tacenda import graph as g
from tacenda.errors import InputError

# (graph, nodes, edges, sorted degrees as a set)
BY_HAND = [
    (g.ring(5), 5, 5, {2}),
    (g.ring(1), 1, 0, {0}),
    (g.ring(2), 2, 1, {1}),
    (g.path(4), 4, 3, {1, 2}),
    (g.star(6), 6, 5, {1, 5}),
    (g.star(1), 1, 0, {0}),
    (g.complete(5), 5, 10, {4}),
    (g.grid(3, 4), 12, 17, {2, 3, 4}),
    (g.torus(3, 4), 12, 24, {4}),
    (g.torus(2, 3), 6, 9, {3}),
    (g.hypercube(3), 8, 12, {3}),
    (g.hypercube(0), 1, 0, {0}),
    (g.exponential(8), 8, 20, {5}),  # hops 1, 2, 4: two, two and one neighbours
    (g.exponential(1), 1, 0, {0}),
    (g.exponential(2), 2, 1, {1}),
    (g.random_regular(20, 4, seed=3), 20, 40, {4}),
]


@pytest.mark.parametrize(
    ("graph", "nodes", "edges", "degrees"), BY_HAND, ids=lambda v: getattr(v, "name", None)
)
def test_sizes_and_degrees(graph, nodes, edges, degrees):
    assert graph.labels == range(nodes) and graph.n == nodes and graph.name
    plain = graph.to_networkx()
    assert list(plain.nodes) == list(range(nodes)) and plain.graph["name"] == graph.name
    assert plain.number_of_edges() == len(graph.edges) == edges
    assert {d for _, d in plain.degree} == set(graph.degrees.tolist()) == degrees
    assert nx.is_connected(plain)
    assert nx.number_of_selfloops(plain) == 0


def test_exponential_hops_are_powers_of_two():
    assert g.exponential(10).neighbours(0).tolist() == [1, 2, 4, 6, 8, 9]


@pytest.mark.parametrize("n", range(1, 40))
def test_exponential_against_its_definition(n):
    wanted = {frozenset((i, (i + 2**k) % n)) for i in range(n) for k in range(7) if 2**k < n}
    assert {frozenset(e) for e in g.exponential(n).edges.tolist()} == wanted


def test_grid_numbers_cells_row_by_row():
    assert g.grid(3, 4).neighbours(5).tolist() == [1, 4, 6, 9]


@pytest.mark.parametrize(
    "make",
    [
        lambda s: g.erdos_renyi(60, 0.08, seed=s),
        lambda s: g.small_world(40, 4, 0.2, seed=s),
        lambda s: g.random_regular(30, 3, seed=s),
    ],
)
def test_random_graphs_are_connected_repeatable_and_follow_the_seed(make):
    for seed in range(8):
        assert nx.is_connected(make(seed).to_networkx())
    assert np.array_equal(make(1).edges, make(1).edges)
    assert not np.array_equal(make(1).edges, make(2).edges)


def test_erdos_renyi_has_about_the_expected_number_of_edges():
    n, p = 300, 0.1
    assert len(g.erdos_renyi(n, p, seed=0).edges) == pytest.approx(p * n * (n - 1) / 2, rel=0.05)
    assert len(g.erdos_renyi(5, 1.0).edges) == 10


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: g.ring(0), "n must be at least 1"),
        (lambda: g.ring(2.5), "whole number"),
        (lambda: g.erdos_renyi(1000, 0.001), "use p of at least"),
        (lambda: g.erdos_renyi(60, 0.03), "not connected in 100 draws"),
        (lambda: g.erdos_renyi(10, 1.5), "between 0 and 1"),
        (lambda: g.random_regular(5, 3), "must be even"),
        (lambda: g.random_regular(5, 5), "below n = 5"),
        (lambda: g.random_regular(6, 1), "at least 2"),
        (lambda: g.small_world(10, 3, 0.1), "k must be even"),
        (lambda: g.small_world(10, 10, 0.1), "below n = 10"),
        (lambda: g.hypercube(40), "at most 24"),
        (lambda: g.by_name("rign", n=5), "Did you mean 'ring'"),
        (lambda: g.by_name("ring", size=5), "takes the parameters"),
        (lambda: g.parse("ring:five"), "needs numbers"),
        (lambda: g.parse("random-regular:n=100,6"), "unnamed value after a named one"),
        (lambda: g.parse("grid:3"), "takes the parameters \\(rows, cols\\)"),
    ],
)
def test_errors_name_the_remedy(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_names_for_files():
    for named, made in [
        (g.by_name("random-regular", n=20, degree=4), g.random_regular(20, 4)),
        (g.parse("random-regular:20,4,seed=2"), g.random_regular(20, 4, seed=2)),
        (g.parse(" erdos_renyi:40, p=0.2 "), g.erdos_renyi(40, 0.2)),
        (g.parse("ring:7"), g.ring(7)),
    ]:
        assert np.array_equal(named.edges, made.edges) and named.n == made.n
    assert set(g.KINDS) <= set(g.__all__)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 12])
def test_each_network_is_that_of_networkx(n):
    """As edges of positions, whatever networkx calls its nodes."""
    rows, cols = 3, n
    cells = {(r, c): r * cols + c for r in range(rows) for c in range(cols)}
    closed = nx.grid_2d_graph(rows, cols, periodic=(True, cols > 2))
    for mine, theirs in [
        (g.path(n), nx.path_graph(n)),
        (g.ring(n), nx.cycle_graph(n) if n > 2 else nx.path_graph(n)),
        (g.star(n), nx.star_graph(n - 1)),
        (g.complete(n), nx.complete_graph(n)),
        (g.grid(rows, cols), nx.relabel_nodes(nx.grid_2d_graph(rows, cols), cells)),
        (g.torus(rows, cols), nx.relabel_nodes(closed, cells)),
        (g.random_regular(2 * n + 4, 3, seed=n), nx.random_regular_graph(3, 2 * n + 4, seed=n)),
    ]:
        wanted = {tuple(sorted(e)) for e in theirs.edges}
        if nx.is_connected(theirs):
            assert [tuple(e) for e in mine.edges.tolist()] == sorted(wanted)


def test_a_hypercube_joins_numbers_that_differ_in_one_bit():
    found = g.hypercube(6).edges
    assert len(found) == 6 * 2**5
    assert all((u ^ v).bit_count() == 1 for u, v in found.tolist())


@pytest.mark.parametrize("seed", [0, 1])
def test_graphs_of_many_edges_are_drawn_by_arrays(seed, monkeypatch):
    """The same promises as small ones; what is drawn is near what chance would give."""
    monkeypatch.setattr(g.generators, "MANY_EDGES", 1)
    regular = g.random_regular(3000, 6, seed=seed)
    assert set(regular.degrees.tolist()) == {6} and len(np.unique(regular.edges, axis=0)) == 9000
    triangles = sum(nx.triangles(regular.to_networkx()).values()) / 3
    assert triangles == pytest.approx((6 - 1) ** 3 / 6, abs=20)  # as of a random 6-regular graph
    n, p = 2000, 0.01
    drawn = g.erdos_renyi(n, p, seed=seed)
    mean, std = p * n * (n - 1) / 2, (p * n * (n - 1) / 2) ** 0.5
    assert abs(len(drawn.edges) - mean) < 5 * std
    assert np.all(drawn.edges[:, 0] < drawn.edges[:, 1]) and drawn.edges.max() == n - 1
    # degrees are binomial: their variance is near n p (1 - p)
    assert drawn.degrees.var() == pytest.approx(n * p * (1 - p), rel=0.15)
    assert len(g.erdos_renyi(40, 1.0).edges) == 780
    world = g.small_world(3000, 6, 0.2, seed=seed)
    assert len(world.edges) == 9000
    kept = np.minimum(np.diff(world.edges).ravel(), 3000 - np.diff(world.edges).ravel()) <= 3
    assert kept.mean() == pytest.approx(0.8, abs=0.03)
    assert np.array_equal(world.edges, g.small_world(3000, 6, 0.2, seed=seed).edges)
    for size, degree in [(12, 9), (12, 11), (60, 29), (61, 30)]:  # up to complete
        assert set(g.random_regular(size, degree, seed=seed).degrees.tolist()) == {degree}


def test_every_pair_has_its_number():
    """The pairs of a random graph with probability 1 by chance are all pairs, each once."""
    from tacenda.graph import drawing

    assert sorted(map(tuple, drawing.pairs(50, 1.0, 0).tolist())) == [
        (a, b) for a in range(50) for b in range(a + 1, 50)
    ]
