"""Parts of near nodes: every node once, about equal, and never more traffic than as numbered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.graph.locality import crossing_edges, near_parts, rows_sent

GRAPHS = {
    "torus": lambda: tc.graph.torus(12, 12),
    "small world": lambda: tc.graph.small_world(150, 4, 0.1, seed=3),
    "regular": lambda: tc.graph.random_regular(150, 4, seed=3),
    "ring": lambda: tc.graph.ring(9),
    "star": lambda: tc.graph.star(9),
}


def shuffled(graph: Any, seed: int = 0) -> Any:
    """The same graph with its nodes numbered at random."""
    import networkx as nx

    order = np.random.default_rng(seed).permutation(graph.n)
    found = nx.Graph()
    found.add_nodes_from(order.tolist())
    found.add_edges_from(graph.edges.tolist())
    return tc.graph.Topology.of(found)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_parts_hold_every_node_once_and_save_traffic(name: str, count: int) -> None:
    topology = shuffled(GRAPHS[name]())
    parts = near_parts(topology, count)
    assert len(parts) == count
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(topology.n))
    assert all(len(part) and (np.diff(part) > 0).all() for part in parts)
    assert max(len(part) for part in parts) <= 1.1 * topology.n / count + 2
    numbered = np.array_split(np.arange(topology.n), count)
    assert crossing_edges(topology, parts) <= crossing_edges(topology, numbered)
    if name == "torus" and count == 2:  # two straight cuts
        assert rows_sent(topology, parts) <= 0.5 * rows_sent(topology, numbered)


def test_what_is_counted_by_hand() -> None:
    path = tc.graph.Topology.of(tc.graph.path(4))
    parts = [np.array([0, 2]), np.array([1, 3])]
    assert crossing_edges(path, parts) == 3
    assert rows_sent(path, parts) == 4  # 1 and 3 need 2, which goes over once; 0 and 2 need 1
    assert rows_sent(path, [np.array([0, 1]), np.array([2, 3])]) == 2
    star = tc.graph.Topology.of(tc.graph.star(4))
    halves = [np.array([0, 1]), np.array([2, 3])]
    assert crossing_edges(star, halves) == 2 and rows_sent(star, halves) == 3


def test_without_metis_nodes_are_still_near(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pymetis", None)
    topology = shuffled(tc.graph.torus(12, 12))
    numbered = np.array_split(np.arange(topology.n), 2)
    found = near_parts(topology, 2)
    assert rows_sent(topology, found) <= 0.6 * rows_sent(topology, numbered)
    assert [len(part) for part in found] == [72, 72]


def test_very_large_graphs_are_placed_without_metis(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacenda.graph import locality

    asked: list[int] = []
    monkeypatch.setattr(locality, "_by_metis", lambda topology, count: asked.append(count))
    topology = shuffled(tc.graph.torus(12, 12))
    near_parts(topology, 2)
    assert asked == [2]
    monkeypatch.setattr(locality, "MOST_FOR_METIS", len(topology.indices) - 1)
    found = near_parts(topology, 2)
    numbered = np.array_split(np.arange(topology.n), 2)
    assert asked == [2] and rows_sent(topology, found) <= 0.6 * rows_sent(topology, numbered)
