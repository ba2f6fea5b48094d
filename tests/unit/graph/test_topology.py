"""`Topology` against networkx, dense linear algebra and closed forms."""

import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import graph as g
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph import Topology, topology

SMALL = [
    g.ring(7),
    g.path(6),
    g.star(5),
    g.complete(4),
    g.grid(3, 4),
    g.torus(3, 3),
    g.hypercube(3),
    g.exponential(9),
    g.random_regular(12, 3),
    g.erdos_renyi(20, 0.25),
    g.small_world(12, 4, 0.3),
    g.ring(1),
    g.ring(2),
]
NAMES = [s.name for s in SMALL]


def dense(n, csr):
    indptr, indices, values = csr
    w = np.zeros((n, n))
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            w[i, indices[k]] += values[k]
    return w


@pytest.mark.parametrize("graph", SMALL, ids=NAMES)
def test_arrays_agree_with_networkx(graph):
    graph = graph.to_networkx()
    t = Topology.of(graph)
    assert t.labels == tuple(graph.nodes) and t.n == graph.number_of_nodes()
    for k in range(t.n):
        assert t.indices[t.indptr[k] : t.indptr[k + 1]].tolist() == sorted(graph[k])
    assert t.degrees.tolist() == [d for _, d in graph.degree]
    assert sorted(map(tuple, t.edges.tolist())) == sorted(tuple(sorted(e)) for e in graph.edges)
    assert {a.dtype for a in (t.indptr, t.indices, t.degrees, t.edges)} == {np.dtype(np.int64)}
    assert t.is_bipartite == nx.is_bipartite(graph)
    assert t.diameter == nx.diameter(graph)
    np.testing.assert_array_equal(t.laplacian().toarray(), nx.laplacian_matrix(graph).toarray())
    second = (
        np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray().astype(float))[1]
        if t.n > 1
        else 0.0
    )
    assert t.algebraic_connectivity == pytest.approx(second, abs=1e-10)
    assert t.name == graph.graph["name"]


@pytest.mark.parametrize("graph", SMALL, ids=NAMES)
@pytest.mark.parametrize("kind", g.MIXINGS)
def test_mixing_is_symmetric_doubly_stochastic_and_positive(graph, kind):
    t = Topology.of(graph)
    if kind == "uniform" and len(set(t.degrees.tolist())) > 1:
        with pytest.raises(UnsupportedError, match="regular graph.*use 'metropolis'"):
            t.mixing(kind)
        return
    csr = t.mixing(kind)
    w = dense(t.n, csr)
    np.testing.assert_array_equal(w, w.T)
    np.testing.assert_allclose(w.sum(axis=0), 1.0, atol=1e-15)
    np.testing.assert_array_equal(w > 0, t.adjacency().toarray() + np.eye(t.n) > 0)
    for k in range(t.n):
        assert np.all(np.diff(csr[1][csr[0][k] : csr[0][k + 1]]) > 0)
    values = np.sort(np.abs(np.linalg.eigvalsh(w)))
    assert t.spectral_gap(kind) == pytest.approx(1 - (values[-2] if t.n > 1 else 0), abs=1e-12)


def test_weights_by_hand():
    # star of 3: hub degree 2, so every edge weighs 1/3; hub keeps 1/3, a leaf 2/3
    w = dense(3, Topology.of(g.star(3)).mixing())
    np.testing.assert_allclose(w, [[1 / 3, 1 / 3, 1 / 3], [1 / 3, 2 / 3, 0], [1 / 3, 0, 2 / 3]])
    # path of 4: Metropolis on the inner edge and the outer ones 1/3;
    # max-degree the same here, on star(4) 1/4
    assert dense(4, Topology.of(g.star(4)).mixing("max-degree"))[1, 1] == 0.75
    assert dense(4, Topology.of(g.ring(4)).mixing("uniform"))[0].tolist() == pytest.approx(
        [1 / 3, 1 / 3, 0, 1 / 3]
    )


@pytest.mark.parametrize("n", [900, 4001])
def test_large_ring_gap_is_the_closed_form(n):
    # W has eigenvalues (1 + 2 cos(2 pi k / n)) / 3; Lanczos stalls here,
    # so this is the factorising fall-back.
    gap = Topology.of(g.ring(n)).spectral_gap()
    assert gap == pytest.approx(4 / 3 * math.sin(math.pi / n) ** 2, rel=1e-6)
    assert Topology.of(g.ring(n)).algebraic_connectivity == pytest.approx(
        4 * math.sin(math.pi / n) ** 2, rel=1e-6
    )


def test_large_expander_and_large_bipartite_gap():
    t = Topology.of(g.random_regular(700, 6))
    indptr, indices, weights = t.mixing()
    values = np.sort(np.abs(np.linalg.eigvalsh(dense(t.n, (indptr, indices, weights)))))
    assert t.spectral_gap() == pytest.approx(1 - values[-2], abs=1e-7)
    # complete bipartite: lambda_n = (1 - 400) / 401 decides, not lambda_2 = 1 / 401
    t = Topology.of(nx.complete_bipartite_graph(400, 400))
    assert t.spectral_gap() == pytest.approx(1 - 399 / 401, abs=1e-7)


def test_hub_and_any_labels():
    named = g.star(4).relabelled(["hq", ("a", 1), 7, None.__class__]).to_networkx()
    t = Topology.of(named)
    assert t.labels[t.hub()] == "hq" and t.position(7) == 2
    assert Topology.of(t) is t
    assert Topology.of(g.ring(5)).hub() is None
    assert Topology.of(g.ring(1)).hub() == 0
    with pytest.raises(InputError, match="'nowhere' is not in the graph"):
        t.position("nowhere")


def test_arrays_are_read_only_and_the_object_frozen():
    t = Topology.of(g.ring(5))
    with pytest.raises(ValueError):
        t.indices[0] = 3
    with pytest.raises(AttributeError):
        t.name = "other"


def test_label_order_is_the_graphs_own():
    graph = nx.Graph([("c", "a"), ("a", "b")])
    t = Topology.of(graph)
    assert t.labels == ("c", "a", "b")
    assert t.edges.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (nx.Graph(), "at least one node"),
        (nx.DiGraph([(0, 1)]), "undirected.*to_undirected"),
        (nx.Graph([(0, 1), ("x", "x"), ("x", 1)]), "node 'x' is joined to itself.*selfloop_edges"),
        (
            nx.MultiGraph([(0, 1), ("p", 1), (1, "p")]),
            "nodes 1 and 'p' are joined more than once.*networkx.Graph",
        ),
        (
            nx.Graph([(0, 1), (2, 3), (3, 4)]),
            r"2 components of sizes 3, 2 \(no path from node 0 to 2\)",
        ),
        (nx.empty_graph(9), r"9 components of sizes 1, 1, 1, 1, 1, \.\.\."),
        ([[0, 1], [1, 0]], "networkx.Graph, a SciPy sparse array or a Topology, not list"),
    ],
)
def test_bad_graphs_are_named(graph, words):
    with pytest.raises(InputError, match=words):
        Topology.of(graph)


def test_a_multigraph_without_parallel_edges_is_fine():
    assert Topology.of(nx.MultiGraph([(0, 1), (1, 2)])).degrees.tolist() == [1, 2, 1]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 25), st.integers(0, 60), st.integers(0, 10_000))
def test_small_graphs_are_joined_as_large_ones(n, count, seed):
    """Also where they fall into parts."""
    ends = np.random.default_rng(seed).integers(n, size=(count, 2))
    edges = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    small = Topology.in_parts(range(n), edges.copy(), "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topology, "FEW_EDGES", -1)
        large = Topology.in_parts(range(n), edges, "")
        reached = large._reached()
    assert (small.indices == large.indices).all() and (small.indptr == large.indptr).all()
    assert small._reached() == reached


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 25), st.integers(0, 10_000))
def test_random_trees_plus_edges(n, seed):
    rng = np.random.default_rng(seed)
    graph = nx.Graph([(int(rng.integers(k)), k) for k in range(1, n)])
    graph.add_edges_from((u, v) for u, v in rng.integers(n, size=(n // 2, 2)).tolist() if u != v)
    t = Topology.of(graph)
    assert t.diameter == nx.diameter(graph)
    assert t.is_bipartite == nx.is_bipartite(graph)
    w = dense(t.n, t.mixing())
    assert np.abs(w.sum(axis=1) - 1).max() < 1e-15 and (w == w.T).all() and w.diagonal().min() > 0


def test_a_hundred_thousand_nodes_are_quick():
    t = Topology.of(g.ring(100_000))
    weights = t.mixing()[2]
    assert len(weights) == 300_000 and weights.min() > 0.3
    assert t.is_bipartite


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_a_sparse_array_is_a_graph(form):
    wanted = g.small_world(30, 4, 0.3, seed=1)
    found = Topology.of(form(wanted.adjacency()))
    assert np.array_equal(found.edges, wanted.edges) and found.labels == range(30)
    assert found.name == "30 nodes, 60 edges"


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.ones((2, 3)), "square and not empty, not 2 x 3"),
        ([[0, 1], [0, 0]], "must be symmetric.*matrix.T"),
        ([[1, 1], [1, 0]], "node 0 is joined to itself"),
        (np.zeros((3, 3)), "3 components"),
    ],
)
def test_sparse_arrays_that_are_no_graph(matrix, words):
    with pytest.raises(InputError, match=words):
        Topology.of(scipy.sparse.csr_array(matrix))


def test_entries_of_zero_are_no_edges():
    stored = scipy.sparse.coo_array(([1.0, 1.0, 0.0], ([0, 1, 0], [1, 0, 0])), shape=(2, 2))
    assert Topology.of(stored).edges.tolist() == [[0, 1]]


def test_other_labels():
    named = g.path(3).relabelled(["a", "b", "c"])
    assert named.labels == ("a", "b", "c") and list(named.to_networkx().edges) == [
        ("a", "b"),
        ("b", "c"),
    ]
    with pytest.raises(InputError, match="labels must be 3"):
        named.relabelled(["a"])
