"""Edges that vary from round to round: matrices by hand, runs against dense recursions, blocks."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from support import problem
from tacenda import graph as g
from tacenda.errors import InputError, UnsupportedError

A = tc.algorithms
N = 6
GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)])
TOPOLOGY = g.Topology.of(GRAPH)
PERIOD = g.PeriodicEdges([[(0, 1), (3, 2), (4, 5)], [], [(1, 2), (3, 4), (5, 3)]])


def dense(csr: Any) -> np.ndarray:
    indptr, columns, weights = csr
    w = np.zeros((N, N))
    for i in range(N):
        w[i, columns[indptr[i] : indptr[i + 1]]] = weights[indptr[i] : indptr[i + 1]]
    return w


def matrix(mixing: Any, turn: int) -> np.ndarray:
    """W_t from networkx alone: Metropolis weights of the active edges."""
    pairs = TOPOLOGY.edges[mixing.active_edges(TOPOLOGY, turn)]
    there = nx.Graph([(int(a), int(b)) for a, b in pairs])
    w = np.zeros((N, N))
    for a, b in there.edges:
        if mixing.weights == "metropolis":
            w[a, b] = w[b, a] = 1 / (1 + max(there.degree[a], there.degree[b]))
        else:
            w[a, b] = w[b, a] = 1 / (1 + max(d for _, d in GRAPH.degree))
    return w + np.diag(1 - w.sum(axis=1))


@pytest.mark.parametrize(
    "mixing", [PERIOD, g.RandomEdges(0.4, seed=3), g.RandomEdges(0.7, weights="max-degree")]
)
def test_every_round_is_doubly_stochastic_on_its_active_edges(mixing: Any) -> None:
    for turn in range(1, 12):
        active = mixing.active_edges(TOPOLOGY, turn)
        w = dense(TOPOLOGY.mixing(mixing.weights, active))
        np.testing.assert_allclose(w, matrix(mixing, turn), atol=1e-15)
        np.testing.assert_array_equal(w, w.T)
        np.testing.assert_allclose(w.sum(axis=0), 1.0, atol=1e-14)
        assert (np.diag(w) > 0).all() and (w >= 0).all()


def test_random_edges_follow_their_seed_and_probability() -> None:
    wide = g.Topology.of(g.complete(60))
    mixing = g.RandomEdges(0.3, seed=5)
    shares = np.array([mixing.active_edges(wide, t) for t in range(1, 101)])
    spread = np.sqrt(0.3 * 0.7 / shares.size)
    assert abs(shares.mean() - 0.3) < 5 * spread
    # Rounds and edges are as good as independent
    assert abs(np.corrcoef(shares[:-1].ravel(), shares[1:].ravel())[0, 1]) < 5 / shares.size**0.5
    assert abs(np.corrcoef(shares[:, :-1].ravel(), shares[:, 1:].ravel())[0, 1]) < 0.02
    assert np.array_equal(shares[7], g.RandomEdges(0.3, seed=5).active_edges(wide, 8))
    assert not np.array_equal(shares[7], g.RandomEdges(0.3, seed=6).active_edges(wide, 8))
    assert g.RandomEdges(1.0).active_edges(wide, 1).all()
    # The same on every machine: whole numbers worked out with Python's own
    key = 0x9E3779B97F4A7C15

    def step(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    start = step((step((5 + key) % 2**64) ^ 8) + key & (2**64 - 1))
    by_hand = [(step((start + k * key) % 2**64) >> 11) / 2**53 < 0.3 for k in range(1, 40)]
    assert shares[7][:39].tolist() == by_hand


@pytest.mark.parametrize("mixing", [PERIOD, g.RandomEdges(0.6, seed=2)])
@pytest.mark.parametrize("mixings", [1, 3])
def test_gossip_by_its_matrices(mixing: Any, mixings: int) -> None:
    """All mixings of a round use its matrix; closing rounds use all edges; only active edges carry
    messages."""
    data, rounds = problem(N), 7
    algorithm = A.GossipGD(0.5, mixings=mixings, noise="independent")
    result = tc.simulate(
        data, GRAPH, algorithm, rounds, mixing=mixing, output="last", finish_mixing=2
    )
    x, parts = np.zeros((N, data.dim)), data.store
    for t in range(1, rounds + 1):
        x = x - 0.5 * parts.gradient(np.arange(N), x, None, False)
        x = data.regulariser.prox(x, 0.5 * data.strength)
        x = np.linalg.matrix_power(matrix(mixing, t), mixings) @ x
    x = np.linalg.matrix_power(dense(TOPOLOGY.mixing()), 2) @ x
    np.testing.assert_allclose(result.models, x, atol=1e-12)
    used = sum(int(mixing.active_edges(TOPOLOGY, t).sum()) for t in range(1, rounds + 1))
    assert result.messages == 2 * mixings * used + 2 * 2 * len(TOPOLOGY.edges)


@pytest.mark.parametrize(
    "algorithm",
    [
        A.DDA(),
        A.DPDDA(noise="correlated", correlation=3.0),
        A.GossipGD(0.3, mixings=2),
        A.GossipGD(0.3, noise="independent"),
    ],
)
@pytest.mark.parametrize("mixing", [PERIOD, g.RandomEdges(0.5, seed=9)])
def test_blocks_give_the_same_bits(algorithm: Any, mixing: Any) -> None:
    """Noise shared by neighbours is drawn on all edges of the graph, whichever are active, so it
    costs the same and cancels in the average."""
    runs = [
        tc.simulate(
            problem(N),
            GRAPH,
            algorithm,
            6,
            tc.Privacy(2.0),
            seed=4,
            mixing=mixing,
            blocks=blocks,
            record_every=0,
        )
        for blocks in (1, 3, [[5, 0], [1, 3], [2, 4]])
    ]
    fixed = tc.simulate(problem(N), GRAPH, algorithm, 6, tc.Privacy(2.0), seed=4, record_every=0)
    for other in runs[1:]:
        assert np.array_equal(runs[0].models, other.models)
        assert runs[0].messages == other.messages < fixed.messages
    first = runs[0].privacy
    assert first is not None and fixed.privacy is not None
    assert first.epsilon == fixed.privacy.epsilon
    assert not np.array_equal(runs[0].models, fixed.models)


def test_dual_averaging_converges_on_edges_that_vary() -> None:
    data = problem(N, strength=0.5)
    algorithm = A.DPDDA(offset=0.0)
    least = data.objective(data.solve())
    gaps = [
        tc.simulate(data, GRAPH, algorithm, rounds, mixing=PERIOD, record_every=0, finish_mixing=30)
        for rounds in (30, 600)
    ]
    first, last = (data.objective(result.model) - least for result in gaps)
    assert last < 1e-3 and last < 0.2 * first


def test_a_file_holds_it() -> None:
    for mixing in (PERIOD, g.RandomEdges(0.3, 7, "max-degree"), "uniform"):
        assert g.mixing_from_plain(g.mixing_to_plain(mixing)) == mixing


def test_refusals() -> None:
    def run(mixing: Any, algorithm: Any = None, rounds: int = 4) -> Any:
        algorithm = A.GossipGD(noise="independent") if algorithm is None else algorithm
        return tc.simulate(problem(N), GRAPH, algorithm, rounds, mixing=mixing)

    apart = g.PeriodicEdges([[(0, 1), (1, 2)], [(3, 4), (4, 5)]])
    with pytest.raises(InputError, match="never join node 0 to 3; use more rounds"):
        run(apart)
    whole = g.PeriodicEdges([*apart.period, [(2, 3)]])
    run(whole, rounds=3)
    with pytest.raises(InputError, match=r"within the run's rounds \(2\)"):
        run(whole, rounds=2)
    with pytest.raises(InputError, match="round 1 must hold edges of the graph, and 0 and 5"):
        run(g.PeriodicEdges([[(0, 5)]]))
    with pytest.raises(InputError, match="node 9 is not in the graph"):
        run(g.PeriodicEdges([[(0, 9)]]))
    for algorithm in (A.CDPADMM(), A.TreeGD(noise="independent")):
        with pytest.raises(UnsupportedError, match="does not mix models by a matrix"):
            run(g.RandomEdges(0.9), algorithm)
    with pytest.raises(InputError, match="RandomEdges.active must be above 0 and at most 1"):
        g.RandomEdges(1.2)
    with pytest.raises(InputError, match="pairs of nodes"):
        g.PeriodicEdges([[(0, 1, 2)]])
    with pytest.raises(InputError, match="holds none"):
        g.PeriodicEdges([])
    with pytest.raises(InputError, match="mixing must be one of 'metropolis'"):
        run("metropolitan")
    with pytest.raises(InputError, match="mixing of random edges is not made so"):
        g.mixing_from_plain({"edges": "random", "share": 0.5})
    with pytest.raises(InputError, match="mixing.edges must be one of 'random', 'periodic'"):
        g.mixing_from_plain({"active": 0.5})
