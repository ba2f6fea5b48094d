"""Exact averages and totals over the spanning tree: against brute force, over every placement, and
what is refused on the way."""

from __future__ import annotations

import math
import threading
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import LeakError, NetworkError
from tacenda.graph.groups import grouped
from tacenda.graph.topology import Topology
from tacenda.privacy.secrets.bounded import Bounded
from tacenda.runtime.network import Network, placement
from tacenda.runtime.transport import InProcess, InProcessEnd, NoTransport

GRAPHS = {
    "one": nx.path_graph(1),
    "path": nx.path_graph(12),
    "ring": nx.cycle_graph(12),
    "star": nx.star_graph(11),
    "regular": nx.random_regular_graph(4, 12, seed=1),
    "tree": nx.balanced_tree(2, 3),
}


def alone(topology: Topology, dtype: Any = float, **more: Any) -> Network:
    return Network(topology, [np.arange(topology.n)], 0, NoTransport(), dtype, **more)


def together(
    topology: Topology, parts: list[Any], ask: Any, dtype: Any = float, groups: Any = None
) -> Any:
    """ask(network, its nodes) of every block, in threads that share one transport."""
    shared, found, networks = InProcess(), {}, {}

    def work(k: int) -> None:
        transport = InProcessEnd(shared, k) if len(parts) > 1 else NoTransport()
        networks[k] = Network(topology, parts, k, transport, dtype, groups=groups)
        with shared.lock:
            try:
                found[k] = ask(networks[k], parts[k])
            except BaseException as error:
                shared.fail(error)
                raise

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert len(found) == len(parts)
    rows = np.concatenate([found[k] for k in range(len(parts))])
    return rows, sum(n.traffic.messages for n in networks.values()), shared


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_mean_is_the_mean_and_everybody_has_it(graph: Any, dtype: Any) -> None:
    topology = Topology.of(graph)
    rows = np.random.default_rng(1).normal(size=(topology.n, 5)).astype(dtype) * [
        1,
        1e6,
        1e-6,
        3,
        0,
    ]
    rows = rows.astype(dtype)
    before, network = rows.copy(), alone(topology, dtype)
    found = network.average(rows, (1, 0))
    assert found.dtype == dtype and np.array_equal(rows, before)
    exact = [math.fsum(map(float, column)) / topology.n for column in rows.T]
    scale = np.abs(rows).max(axis=0) + 1e-300
    assert np.all(np.abs(found - exact) <= 8 * np.finfo(dtype).eps * scale)
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    sent = 2 * (topology.n - 1)
    assert (network.traffic.messages, network.traffic.bytes) == (sent, sent * rows[0].nbytes)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_totals_are_exact_modulo_two_to_the_64(graph: Any) -> None:
    topology = Topology.of(graph)
    rows = np.random.default_rng(2).integers(0, 2**64, (topology.n, 4), dtype=np.uint64)
    network = alone(topology)
    found = network.total(rows, (1, 0))
    exact = [sum(map(int, column)) % 2**64 for column in rows.T]
    assert found.dtype == np.int64
    assert [int(v) % 2**64 for v in found[0]] == exact
    assert np.array_equal(found, np.repeat(found[:1], topology.n, axis=0))
    assert network.traffic.bytes == 2 * (topology.n - 1) * 4 * 8


def test_masks_cancel_and_leave_a_signed_sum() -> None:
    topology, rng = Topology.of(GRAPHS["regular"]), np.random.default_rng(3)
    values = rng.integers(-1000, 1000, (12, 3))
    masked = values.astype(np.uint64)
    for a, b in topology.edges:
        mask = rng.integers(0, 2**64, 3, dtype=np.uint64)
        masked[a] += mask
        masked[b] -= mask
    assert np.array_equal(alone(topology).total(masked, (1, 0))[5], values.sum(axis=0))


@given(st.lists(st.integers(0, 3), min_size=12, max_size=12), st.sampled_from(sorted(GRAPHS)[1:]))
def test_any_blocks_give_the_same_bits(owners: list[int], name: str) -> None:
    topology = Topology.of(GRAPHS[name])
    owner = np.resize(np.array(owners), topology.n)
    parts = [np.flatnonzero(owner == k) for k in range(4)]
    parts = [part for part in parts if len(part)]
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(topology.n, 3))
    whole = rng.integers(0, 2**64, (topology.n, 2), dtype=np.uint64)
    one = alone(topology)
    for ask in (
        lambda network, part: network.average(rows[part], (1, 0)),
        lambda network, part: network.total(whole[part], (1, 2)),
    ):
        found, messages, shared = together(topology, parts, ask)
        expected = ask(one, np.arange(topology.n))
        assert found.tobytes() == expected[np.concatenate(parts)].tobytes()
        assert messages == 2 * (topology.n - 1) and not shared._mail


@given(st.lists(st.integers(0, 3), min_size=12, max_size=12), st.sampled_from([2, 3, 4]))
def test_any_blocks_give_the_same_sums_of_groups(owners: list[int], count: int) -> None:
    topology = Topology.of(GRAPHS["regular"])
    groups = grouped(topology, count, 1)
    parts = [np.flatnonzero(np.array(owners) == k) for k in range(4)]
    parts = [part for part in parts if len(part)]
    whole = np.random.default_rng(6).integers(0, 2**64, (12, 2), dtype=np.uint64)
    found, _, shared = together(
        topology,
        parts,
        lambda network, part: network.total(whole[part], (1, 0), count),
        groups=groups,
    )
    sums = [
        whole[members].sum(axis=0, dtype=np.uint64).view(np.int64) for members in groups.members
    ]
    np.testing.assert_array_equal(found, np.tile(np.concatenate(sums), (12, 1)))
    assert not shared._mail


@pytest.mark.parametrize("blocks", [1, 2, 5, 12])
def test_two_averages_and_a_mixing_in_one_round_do_not_meet(blocks: int) -> None:
    topology = Topology.of(GRAPHS["ring"])
    rows = np.random.default_rng(5).normal(size=(12, 2))

    def ask(network: Network, part: Any) -> Any:
        first = network.average(rows[part], (1, 0))
        mixed = network.mix(rows[part] - first, (1, 2))
        return network.average(mixed, (1, 3)) + first

    found, _, shared = together(topology, placement(12, blocks), ask)
    assert np.array_equal(found, ask(alone(topology), np.arange(12))) and not shared._mail


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_mean_of_rows_at_the_radius_stays_within_it(dtype: Any) -> None:
    topology, radius = Topology.of(nx.balanced_tree(3, 3)), 0.1  # no float is 0.1
    network = alone(topology, dtype, radius=radius)
    rows = np.tile(np.array([np.inf, -7.0, np.nan], dtype), (topology.n, 1))
    found = network.average(rows, (4, 0))
    assert network.reached_radius == 4
    assert np.allclose(found[0], [0.1, -0.1, 0]) and np.all(np.abs(found.astype(float)) <= radius)


RUBBISH = {
    "shape": np.zeros((2, 3)),
    "width": np.zeros((1, 4)),
    "type": np.zeros((1, 3), np.float32),
    "nan": np.full((1, 3), np.nan),
    "just beyond": np.full((1, 3), np.nextafter(1e9, np.inf)),
}


class Says:
    """A transport on which the others say what they like."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.sent = rows, []

    def exchange(self, tag: Any, outgoing: Any, awaited: Any) -> dict[int, Any]:
        self.sent.extend((tag, other, rows.copy()) for other, rows in outgoing.items())
        return dict.fromkeys(awaited, self.rows)


@pytest.mark.parametrize("me", [0, 1], ids=["from below", "from above"])
@pytest.mark.parametrize("rows", RUBBISH.values(), ids=RUBBISH)
def test_who_sends_rubbish_up_or_down_is_named(me: int, rows: Any) -> None:
    """Block 0 hosts the root of the path, block 1 its child."""
    parts = [np.array([0]), np.array([1])]
    network = Network(Topology.of(nx.path_graph(2)), parts, me, Says(rows), float)
    with pytest.raises(NetworkError, match=f"Block {1 - me} sent rows"):
        network.average(np.zeros((1, 3)), (1, 0))


def test_totals_take_whole_numbers_only() -> None:
    parts = [np.array([0]), np.array([1])]
    network = Network(Topology.of(nx.path_graph(2)), parts, 0, Says(np.zeros((1, 3))), float)
    with pytest.raises(NetworkError, match="Block 1 sent rows of the wrong shape or type"):
        network.total(np.zeros((1, 3), np.uint64), (1, 0))


def test_a_liar_moves_the_mean_by_its_branch_share_only() -> None:
    """Three blocks of a path with its root in the middle; the lie is as large as may be."""
    parts = [np.array([k]) for k in range(3)]
    lie = np.full((1, 1), 1e9)
    network = Network(Topology.of(nx.path_graph(3)), parts, 1, Says(lie), float)
    found = network.average(np.zeros((1, 1)), (1, 0))
    assert found[0, 0] == pytest.approx(2e9 / 3)


def test_what_goes_up_is_the_mean_of_the_branch() -> None:
    """Block 1 of a path of five, whose middle is the root: up its branch's mean, down the
    result."""
    parts = [np.array([k]) for k in range(5)]
    transport = Says(np.array([[4.0]]))
    network = Network(Topology.of(nx.path_graph(5)), parts, 1, transport, float)
    found = network.average(np.array([[1.0]]), (1, 6))
    up, down = transport.sent
    assert up[:2] == ((1, 6), 2) and up[2] == 2.5  # (1 + 4) / 2
    assert down[:2] == ((1, 7), 0) and down[2] == found == 4.0


def test_nothing_unreleased_is_averaged() -> None:
    topology = Topology.of(nx.path_graph(2))
    network = alone(topology)
    secret = object.__new__(Bounded)
    for value in (
        secret,
        np.zeros((2, 3), np.float32),
        [[0.0], [0.0]],
        np.zeros((2, 3), np.uint64),
    ):
        with pytest.raises(LeakError, match="release it first"):
            network.average(value, (1, 0))
    for value in (secret, np.zeros((2, 3)), np.zeros((2, 3), np.int64)):
        with pytest.raises(LeakError, match="release it first"):
            network.total(value, (1, 0))
    for ask in (network.average, network.total):
        kind = np.uint64 if ask == network.total else float
        with pytest.raises(NetworkError, match="one row per node"):
            ask(np.zeros((3, 2), kind), (1, 0))
    assert network.traffic.messages == 0
