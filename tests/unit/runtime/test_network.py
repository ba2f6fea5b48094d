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
        share = {
            "metropolis": 1 / (1 + max(degree[i], degree[j])),
            "max-degree": 1 / (1 + degree.max()),
        }[kind]
        w[i, j] = w[j, i] = share
    return w + np.diag(1 - w.sum(axis=1))


@pytest.mark.parametrize("kind", ["metropolis", "max-degree"])
@pytest.mark.parametrize(
    "graph", [tc.graph.ring(6), tc.graph.star(6), tc.graph.erdos_renyi(6, 0.5, seed=1)], ids=str
)
def test_one_block_against_dense_matrices(graph: Any, kind: str) -> None:
    topology, rows = tc.graph.Topology.of(graph), RNG.normal(size=(6, 3))
    network = Network(topology, [np.arange(6)], 0, NoTransport(), float, kind)
    assert np.allclose(network.neighbour_sum(rows, (1, 0)), topology.adjacency().toarray() @ rows)
    assert np.allclose(network.mix(rows, (1, 1)), dense_mixing(topology, kind) @ rows)
    senders = np.array([[1.0], [0], [0], [1], [1], [0]])
    assert np.allclose(
        network.neighbour_sum(rows, (1, 2), senders),
        topology.adjacency().toarray() @ (senders * rows),
    )


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
    topology = tc.graph.Topology.of(tc.graph.erdos_renyi(6, 0.5, seed=1))
    rows = RNG.normal(size=(6, 3))
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


RUBBISH = {
    "shape": np.zeros((2, 3)),
    "type": np.zeros((1, 3), np.float32),
    "nan": np.full((1, 3), np.nan),
    "huge": np.full((1, 3), -1.79e308),
    "just beyond": np.full((1, 3), np.nextafter(1e9, np.inf)),
}


@pytest.mark.parametrize("rows", RUBBISH.values(), ids=RUBBISH)
def test_a_neighbour_block_that_sends_rubbish_is_named(rows: Any) -> None:
    class Rubbish:
        def exchange(self, tag: Any, outgoing: Any, awaited: Any) -> dict[int, Any]:
            return dict.fromkeys(awaited, rows)

    network = Network(
        tc.graph.Topology.of(tc.graph.path(2)), [np.array([0]), np.array([1])], 0, Rubbish(), float
    )
    with pytest.raises(NetworkError, match="Block 1 sent rows"):
        network.neighbour_sum(np.zeros((1, 3)), (1, 0))


def test_a_failing_block_wakes_the_others() -> None:
    shared = InProcess()
    with shared.lock:
        shared.fail(RuntimeError("gone"))
        with pytest.raises(NetworkError, match="Another block"):
            shared.exchange(0, (1, 0), {1: np.zeros((1, 1))}, [1])


def test_a_single_block_has_no_one_to_send_to() -> None:
    with pytest.raises(NetworkError, match="no one to send to"):
        NoTransport().exchange((1, 0), {1: np.zeros((1, 1))}, [])
    with pytest.raises(NetworkError, match="no one to send to"):
        NoTransport().exchange((1, 0), {}, [1])


def test_placements() -> None:
    assert [part.tolist() for part in placement(5, 2)] == [[0, 1, 2], [3, 4]]
    assert [part.tolist() for part in placement(4, [[3, 0], [2, 1]])] == [[0, 3], [1, 2]]
    for bad in (
        0,
        6,
        True,
        [[0, 1], [1, 2, 3, 4]],
        [[0, 1, 2, 3, 4], []],
        [[0, 1, 2, 3, 9]],
        "all",
        None,
        [["a"]],
    ):
        with pytest.raises(InputError, match="blocks"):
            placement(5, bad)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_messages_are_cut_to_the_declared_radius_and_arrive(dtype: Any) -> None:
    """Two blocks that share a transport: whatever one holds, what it sends is accepted by the
    other, and the round is noted."""
    topology, parts = tc.graph.Topology.of(tc.graph.path(2)), [np.array([0]), np.array([1])]
    radius = 0.1  # no float32 is
    shared, heard, noted = InProcess(), {}, {}
    rows = {0: np.array([[np.nan, np.inf, -3.0, 0.05]], dtype), 1: np.zeros((1, 4), dtype)}

    def work(k: int) -> None:
        network = Network(topology, parts, k, InProcessEnd(shared, k), dtype, radius=radius)
        with shared.lock:
            heard[k] = network.neighbour_sum(rows[k], (7, 0))
        noted[k] = network.reached_radius

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert noted == {0: 7, 1: None}
    assert np.allclose(heard[1], [[0, 0.1, -0.1, 0.05]], rtol=1e-6)
