"""Leverage on random graphs against every coalition written out and inverted, and the edges' signs
against a loop."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import InputError
from tacenda.graph import coalition as module
from tacenda.graph.coalition import edge_streams, leverage
from tacenda.graph.topology import Topology


def written_out(graph: Any, c: float, q: int) -> np.ndarray:
    """The largest [(I + c^2 L_Q)^-1]_ii over all Q of at most q members without i."""
    n = graph.number_of_nodes()
    worst = np.zeros(n)
    for size in range(min(q, n - 1) + 1):
        for curious in combinations(range(n), size):
            left = [i for i in range(n) if i not in curious]
            laplacian = nx.laplacian_matrix(graph.subgraph(left), nodelist=left).toarray()
            inverse = np.linalg.inv(np.eye(len(left)) + c * c * laplacian)
            worst[left] = np.maximum(worst[left], np.diag(inverse))
    return worst


@st.composite
def graphs(draw: Any, most: int = 8) -> Any:
    n = draw(st.integers(2, most))
    tree = nx.path_graph(n)
    extra = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=2 * n))
    tree.add_edges_from((a, b) for a, b in extra if a != b)
    return tree


@given(graphs(), st.floats(0.05, 25.0), st.integers(0, 4))
def test_leverage_of_any_graph(graph: Any, c: float, q: int) -> None:
    found, how = leverage(Topology.of(graph), c, q)
    assert how == "exact"
    np.testing.assert_allclose(found, written_out(graph, c, q), rtol=1e-6)


@given(graphs(), st.floats(0.05, 25.0), st.integers(0, 2))
def test_a_bound_is_never_below_the_truth_nor_above_one(graph: Any, c: float, q: int) -> None:
    topology = Topology.of(graph)
    bound = module._bound(topology, c, q)
    assert np.all(bound >= written_out(graph, c, q) * (1 - 1e-9)) and np.all(bound <= 1.0)


def test_the_bound_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """1/k + (1 - 1/k)/(1 + c^2 gap), k = n - q members left and gap = lambda_2 (less a thousandth)
    - q."""
    graph = nx.complement(nx.path_graph(9))
    topology = Topology.of(graph)
    gap = np.sort(np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray()))[1]
    for limits in ({"DENSE": 8}, {"SEARCHED": 35}):
        for name, value in limits.items():
            monkeypatch.setattr(module, name, value)
        found, how = leverage(topology, 1.5, 2)
        assert how == "bound"
        wanted = 1 / 7 + (6 / 7) / (1 + 2.25 * (gap * 0.999 - 2))
        np.testing.assert_allclose(found, np.full(9, wanted), rtol=1e-3)
        monkeypatch.undo()
    monkeypatch.setattr(module, "SEARCHED", 36)  # all pairs of nine
    monkeypatch.setattr(module, "DENSE", 9)
    assert leverage(topology, 1.5, 2)[1] == "exact"
    monkeypatch.setattr(module, "SEARCHED", 0)
    assert leverage(topology, 1.5, 1)[1] == "exact"  # one member at a time is always tried


def test_a_ratio_beyond_the_digits_counts_as_a_smaller_one() -> None:
    topology = Topology.of(nx.cycle_graph(6))
    for q, most in ((0, 1e5), (1, 100.0), (2, 30.0), (3, 1e5)):
        assert np.array_equal(leverage(topology, 1e9, q)[0], leverage(topology, most, q)[0])
        half = leverage(topology, most / 2, q)[0]
        assert np.all(leverage(topology, most, q)[0] <= half * (1 + 1e-6))


def test_nobody_to_share_with() -> None:
    single = nx.Graph()
    single.add_node(0)
    assert leverage(Topology.of(single), 3.0, 2)[0].tolist() == [1.0]
    assert leverage(Topology.of(nx.cycle_graph(4)), 0.0, 1) == (pytest.approx(np.ones(4)), "exact")
    assert leverage(Topology.of(nx.complete_graph(4)), 2.0, 9)[0].tolist() == [1.0] * 4
    for wrong in ((-1.0, 0), (1.0, -1), (1.0, 0.5)):
        with pytest.raises(InputError):
            leverage(Topology.of(nx.cycle_graph(4)), *wrong)  # type: ignore[arg-type]


@given(graphs(), st.data())
def test_each_edge_is_added_at_its_smaller_end_and_subtracted_at_the_other(
    graph: Any, data: Any
) -> None:
    topology = Topology.of(graph)
    n = topology.n
    nodes = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True)))
    indptr, numbers, signs = edge_streams(topology, nodes)
    assert indptr[0] == 0 and indptr[-1] == len(numbers) == len(signs)
    for k, node in enumerate(nodes.tolist()):
        mine = slice(indptr[k], indptr[k + 1])
        wanted = {
            number: 1.0 if node == a else -1.0
            for number, (a, b) in enumerate(topology.edges.tolist())
            if node in (a, b)
        }
        assert dict(zip(numbers[mine].tolist(), signs[mine].tolist(), strict=True)) == wanted
        assert numbers[mine].tolist() == sorted(wanted)
