"""The generators: sizes, degrees and edges counted by hand;
clear errors for what cannot be built."""

import networkx as nx
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
    assert list(graph.nodes) == list(range(nodes))
    assert graph.number_of_edges() == edges
    assert {d for _, d in graph.degree} == degrees
    assert type(graph) is nx.Graph
    assert nx.is_connected(graph)
    assert nx.number_of_selfloops(graph) == 0
    assert graph.graph["name"]


def test_exponential_hops_are_powers_of_two():
    assert sorted(g.exponential(10)[0]) == [1, 2, 4, 6, 8, 9]


@pytest.mark.parametrize("n", range(1, 40))
def test_exponential_against_its_definition(n):
    wanted = {frozenset((i, (i + 2**k) % n)) for i in range(n) for k in range(7) if 2**k < n}
    assert {frozenset(e) for e in g.exponential(n).edges} == wanted


def test_grid_numbers_cells_row_by_row():
    assert sorted(g.grid(3, 4)[5]) == [1, 4, 6, 9]


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
        assert nx.is_connected(make(seed))
    assert sorted(make(1).edges) == sorted(make(1).edges)
    assert sorted(make(1).edges) != sorted(make(2).edges)


def test_erdos_renyi_has_about_the_expected_number_of_edges():
    n, p = 300, 0.1
    assert g.erdos_renyi(n, p, seed=0).number_of_edges() == pytest.approx(
        p * n * (n - 1) / 2, rel=0.05
    )
    assert g.erdos_renyi(5, 1.0).number_of_edges() == 10


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
    assert nx.utils.graphs_equal(
        g.by_name("random-regular", n=20, degree=4), g.random_regular(20, 4)
    )
    assert nx.utils.graphs_equal(
        g.parse("random-regular:20,4,seed=2"), g.random_regular(20, 4, seed=2)
    )
    assert nx.utils.graphs_equal(g.parse(" erdos_renyi:40, p=0.2 "), g.erdos_renyi(40, 0.2))
    assert nx.utils.graphs_equal(g.parse("ring:7"), g.ring(7))
    assert set(g.KINDS) <= set(g.__all__)
