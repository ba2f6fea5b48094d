"""Placements, sums over neighbours, mixings and their traffic, against dense matrices."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacenda as tc
from tacenda.errors import InputError, NetworkError
from tacenda.runtime.network import Network, placement
from tacenda.runtime.transport import InProcess, InProcessEnd, NoTransport

RNG = np.random.default_rng(0)


def dense_mixing(topology: Any, kind: str) -> Any:
    """W from its definition: Metropolis 1/(1 + max degree of the two), the rest on the diagonal."""
    n, degree = topology.n, topology.degrees
    w = np.zeros((n, n))
    for i, j in topology.edges:
        share = {"metropolis": 1 / (1 + max(degree[i], degree[j])), "max-degree": 1 / (1 + degree.max())}[kind]
        w[i, j] = w[j, i] = share
    return w + np.diag(1 - w.sum(axis=1))


@pytest.mark.parametrize("kind", ["metropolis", "max-degree"])
@pytest.mark.parametrize("graph", [tc.graph.ring(6), tc.graph.star(6), tc.graph.erdos_renyi(6, 0.5, seed=1)], ids=str)
def test_one_block_against_dense_matrices(graph: Any, kind: str) -> None:
    topology, rows = tc.graph.Topology.of(graph), RNG.normal(size=(6, 3))
    network = Network(topology, [np.arange(6)], 0, NoTransport(), float, kind)
    assert np.allclose(network.neighbour_sum(rows, (1, 0)), topology.adjacency().toarray() @ rows)
    assert np.allclose(network.mix(rows, (1, 1)), dense_mixing(topology, kind) @ rows)
    senders = np.array([[1.0], [0], [0], [1], [1], [0]])
    assert np.allclose(network.neighbour_sum(rows, (1, 2), senders), topology.adjacency().toarray() @ (senders * rows))


def test_traffic_is_counted_per_edge_and_byte() -> None:
    topology, rows = tc.graph.Topology.of(tc.graph.star(5)), np.zeros((5, 7), np.float32)
    network = Network(topology, [np.arange(5)], 0, NoTransport(), np.float32)
    network.neighbour_sum(rows, (1, 0))
    assert (network.traffic.messages, network.traffic.bytes) == (8, 8 * 7 * 4)
    hub = np.array([[1.0], [0], [0], [0], [0]])
    network.neighbour_sum(rows, (1, 1), hub)
    assert network.traffic.messages == 8 + 4
    network.neighbour_sum(rows, (1, 2), 1 - hub)
    assert network.traffic.messages == 8 + 4 + 4


@given(st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_any_blocks_give_the_same_sums(owners: list[int]) -> None:
    """Three threads that share one transport; equal to the last bit."""
    topology, rows = tc.graph.Topology.of(tc.graph.erdos_renyi(6, 0.5, seed=1)), RNG.normal(size=(6, 3))
    parts = [np.flatnonzero(np.array(owners) == k) for k in range(3)]
    parts = [part for part in parts if len(part)]
    alone = Network(topology, [np.arange(6)], 0, NoTransport(), float).mix(rows, (1, 0))
    shared, out = InProcess(), np.empty_like(rows)

    def work(k: int) -> None:
        transport = InProcessEnd(shared, k) if len(parts) > 1 else NoTransport()
        network = Network(topology, parts, k, transport, float)
        with shared.lock:
            out[parts[k]] = network.mix(rows[parts[k]], (1, 0))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert np.array_equal(out, alone)


@pytest.mark.parametrize("rows", [np.zeros((2, 3)), np.zeros((1, 3), np.float32), np.full((1, 3), np.nan)], ids=["shape", "type", "nan"])
def test_a_neighbour_block_that_sends_rubbish_is_named(rows: Any) -> None:
    class Rubbish:
        def exchange(self, tag: Any, outgoing: dict[int, Any]) -> dict[int, Any]:
            return dict.fromkeys(outgoing, rows)

    network = Network(tc.graph.Topology.of(tc.graph.path(2)), [np.array([0]), np.array([1])], 0, Rubbish(), float)
    with pytest.raises(NetworkError, match="Block 1 sent rows"):
        network.neighbour_sum(np.zeros((1, 3)), (1, 0))


def test_a_failing_block_wakes_the_others() -> None:
    shared = InProcess()
    with shared.lock:
        shared.fail(RuntimeError("gone"))
        with pytest.raises(NetworkError, match="Another block"):
            shared.exchange(0, (1, 0), {1: np.zeros((1, 1))})


def test_a_single_block_has_no_one_to_send_to() -> None:
    with pytest.raises(NetworkError, match="no one to send to"):
        NoTransport().exchange((1, 0), {1: np.zeros((1, 1))})


def test_placements() -> None:
    assert [part.tolist() for part in placement(5, 2)] == [[0, 1, 2], [3, 4]]
    assert [part.tolist() for part in placement(4, [[3, 0], [2, 1]])] == [[0, 3], [1, 2]]
    for bad in (0, 6, True, [[0, 1], [1, 2, 3, 4]], [[0, 1, 2, 3, 4], []], [[0, 1, 2, 3, 9]], "all", None, [["a"]]):
        with pytest.raises(InputError, match="blocks"):
            placement(5, bad)


def test_large_finite_values_are_not_taken_for_divergence() -> None:
    """A sum may overflow although every entry is finite."""
    network = Network(tc.graph.Topology.of(tc.graph.path(2)), [np.arange(2)], 0, NoTransport(), float)
    assert np.isfinite(network.neighbour_sum(np.full((2, 3), 1e308), (1, 0))).all()
