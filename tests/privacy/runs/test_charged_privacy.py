"""What a run is charged, node by node, against what its noise really hides: worked out here from
the noise that was drawn.

Nothing of the planner, the leverage or the judge is used for the expected values: sensitivities by
hand, covariances written out and inverted for every coalition, sampled Gaussians by quadrature.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from privacy_checks import mu_of
from reference_curves import sampled_delta
from support import make_block, problem, shards
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.statement import Statement

A = tc.algorithms
DELTA = 1e-5
SIZES = [31, 12, 25, 18, 9, 40, 22]  # the smallest is neither first nor last
GRAPHS = {
    "lollipop": nx.lollipop_graph(4, 3),
    "star with a tail": nx.Graph([(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (4, 6)]),
    "house": nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 2), (5, 0), (5, 6), (6, 1)]),
}


@contextmanager
def drawn() -> Iterator[list[np.ndarray]]:
    """The standard deviations (n,) of all Gaussian noise that runs inside the `with` draw
    of their own."""
    found: list[np.ndarray] = []
    honest = SimulatedNoise.add_gaussian

    def spy(source: Any, nodes: Any, turn: int, call: int, parts: Any, std: Any) -> Any:
        found.append(np.broadcast_to(np.asarray(std, float), (len(nodes),)).copy())
        return honest(source, nodes, turn, call, parts, std)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedNoise, "add_gaussian", spy)
        yield found


def data(sizes: list[int], p: int = 3) -> Any:
    return tc.Problem(shards(sizes, p), classes=("no", "yes"), strength=0.1)


def run(
    sizes: list[int], graph: Any, algorithm: Any, rounds: int, privacy: Any, **more: Any
) -> tuple[np.ndarray, Statement]:
    """((releases, n) the noise's own std, the statement)."""
    with drawn() as stds:
        result = tc.simulate(
            data(sizes), graph, algorithm, rounds, privacy, seed=5, record_every=0, **more
        )
    assert result.privacy is not None
    return np.array(stds), result.privacy


def hidden_mu(
    graph: nx.Graph, c: float, q: int, std: np.ndarray, sensitivity: np.ndarray
) -> np.ndarray:
    """(n,) sqrt(D^2 [Sigma_Q^-1]_ii), the worst over all coalitions Q of at most q others, Sigma_Q
    = s^2 (I + c^2 L_Q)."""
    n, s = len(graph), float(std[0])
    assert np.all(std == s), "both ends of an edge must draw alike"
    order = sorted(graph.nodes)
    worst = np.zeros(n)
    for size in range(q + 1):
        for pooled in combinations(order, size):
            left = [i for i in order if i not in pooled]
            covariance = (
                s
                * s
                * (
                    np.eye(len(left))
                    + c * c * nx.laplacian_matrix(graph.subgraph(left), left).toarray()
                )
            )
            hidden = np.sqrt(np.diag(np.linalg.inv(covariance)))
            worst[left] = np.maximum(worst[left], hidden * sensitivity[left])
    return worst


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("c", "q"), [(0.6, 0), (0.6, 2), (1.5, 1), (3.0, 0), (3.0, 1), (3.0, 2)])
def test_shared_noise_is_charged_what_each_node_loses_to_the_worst_coalition(
    graph: str, c: float, q: int
) -> None:
    g, rounds = GRAPHS[graph], 3
    stds, said = run(
        SIZES,
        g,
        A.GossipGD(step_size=0.5, correlation=c),
        rounds,
        tc.Privacy(1.0, DELTA, coalition=q),
    )
    true = np.sqrt(sum(hidden_mu(g, c, q, std, 2.0 / np.array(SIZES)) ** 2 for std in stds))
    assert len(stds) == rounds
    charged = np.array([said.curve(i).mu for i in range(len(SIZES))])
    assert np.ptp(true) > 0.1 * true.max(), "the nodes must differ, or the wrong one would not show"
    np.testing.assert_array_less(true * (1 - 1e-9), charged)
    np.testing.assert_allclose(charged, true, rtol=2e-5)
    assert true.max() == pytest.approx(mu_of(1.0), rel=2e-5)
    assert said.worst_node == int(np.argmax(true))
    assert said.curve().coalition == q


def test_shared_noise_spread_over_rounds_is_charged_by_round() -> None:
    g, c = GRAPHS["house"], 1.2
    privacy = tc.Privacy(2.0, DELTA, coalition=1, spread=[1, 4, 2])
    stds, said = run(SIZES, g, A.DPDDA(noise="correlated", correlation=c), 3, privacy)
    rounds = np.array([hidden_mu(g, c, 1, std, 2.0 / np.array(SIZES)) for std in stds])
    np.testing.assert_allclose(
        (rounds**2)[:, 4] / (rounds**2)[:, 4].sum(), np.array([1, 4, 2]) / 7, rtol=1e-9
    )
    np.testing.assert_allclose(
        [said.curve(i).mu for i in range(7)], np.sqrt((rounds**2).sum(axis=0)), rtol=2e-5
    )
    booked = [row["mu"] for row in said.round_losses]
    np.testing.assert_allclose(booked, rounds[:, int(np.argmax(rounds[0]))], rtol=2e-5)


def test_the_edges_are_as_loud_as_was_charged() -> None:
    """The covariance of all that was sent, less the secret,
    is s^2 (I + c^2 L) with the c of the account."""
    from privacy_checks import Watch

    g, c, dim = GRAPHS["lollipop"], 1.5, 4000
    with drawn() as stds, Watch() as watch:
        tc.simulate(
            data(SIZES, dim),
            g,
            A.GossipGD(correlation=c),
            2,
            tc.Privacy(1.0, DELTA),
            seed=2,
            record_every=0,
        )
    for std, (_, rows) in zip(stds, watch.noise, strict=True):
        wanted = std[0] ** 2 * (
            np.eye(7) + c * c * nx.laplacian_matrix(g, sorted(g.nodes)).toarray()
        )
        spread = np.sqrt((np.outer(np.diag(wanted), np.diag(wanted)) + wanted**2) / dim)
        assert np.all(np.abs(rows @ rows.T / dim - wanted) < 5.5 * spread)


# ---- each node's own noise
TARGETS = [0.7, 3.0, 1.0, 2.0, 4.0, 0.5, 1.5]


def test_independent_noise_is_charged_what_each_node_loses() -> None:
    stds, said = run(SIZES, GRAPHS["house"], A.DPDDA(), 4, tc.Privacy(TARGETS, DELTA))
    true = np.sqrt(((2.0 / np.array(SIZES) / stds) ** 2).sum(axis=0))
    np.testing.assert_allclose(true, [mu_of(e) for e in TARGETS], rtol=1e-6)
    np.testing.assert_allclose([said.curve(i).mu for i in range(7)], true, rtol=1e-9)
    np.testing.assert_allclose(said.node_epsilons, TARGETS, rtol=1e-6)


def test_the_smallest_nodes_noise_for_all_hides_every_node() -> None:
    stds, said = run(
        SIZES, GRAPHS["house"], A.DPDDA(), 2, tc.Privacy(1.0, DELTA, node_noise="worst")
    )
    np.testing.assert_allclose(stds, stds[0, 0], rtol=1e-12)
    assert np.sqrt(((2.0 / 9 / stds) ** 2).sum(axis=0)).max() == pytest.approx(mu_of(1.0), rel=1e-6)
    assert said.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("turn", [0, 2, 5])
def test_a_statement_speaks_of_its_worst_node(turn: int) -> None:
    """Wherever that node stands, every figure without a node's number is its own."""
    targets = list(np.roll(TARGETS, turn))
    worst = int(np.argmax(targets))
    _, said = run(SIZES, GRAPHS["lollipop"], A.DPDDA(), 2, tc.Privacy(targets, DELTA))
    for statement in (said, Statement.from_plain(said.to_plain())):
        assert statement.worst_node == worst
        assert statement.epsilon == pytest.approx(4.0, rel=1e-6)
        assert statement.curve().epsilon(DELTA) == pytest.approx(4.0, rel=1e-6)
        assert statement.curve().mu == pytest.approx(mu_of(4.0), rel=1e-6)
        assert statement.to_plain()["worst_node"] == worst
        assert statement.to_plain()["epsilon"] == pytest.approx(4.0, rel=1e-6)
        assert "epsilon=4," in repr(statement)
        z = [row["noise_multiplier"] for row in statement.round_losses for _ in range(row["count"])]
        assert np.sqrt(sum(1 / one**2 for one in z)) == pytest.approx(mu_of(4.0), rel=1e-6)
        assert [round(statement.curve(i).epsilon(DELTA), 5) for i in range(7)] == pytest.approx(
            targets, rel=1e-5
        )


def test_a_statement_without_words_about_the_spread_means_an_even_one() -> None:
    """As a member's own statement is made."""
    _, said = run(SIZES, GRAPHS["house"], A.DPDDA(), 2, tc.Privacy(1.0, DELTA))
    short = Statement(said.charges, 7, DELTA, "replace-one", "sound", 1.0, "none")
    assert short.to_plain()["spread"] == said.to_plain()["spread"] == "uniform"
    assert short.to_plain()["claimed"] is None
    assert short.to_plain()["why"] is None
    assert short.epsilon == said.epsilon
    for statement in (short, said):
        assert Statement.from_plain(statement.to_plain()).to_plain() == statement.to_plain()
    nothing = Statement(type(said.charges)(), 3, DELTA, "replace-one", "sound", 1.0, "none")
    np.testing.assert_array_equal(nothing.node_epsilons, [0.0, 0.0, 0.0])
    assert nothing.curve(2).mu == 0


# ---- samples


def test_samples_at_nodes_of_many_sizes_keep_every_nodes_promise() -> None:
    """Nodes of like rates share a plan: none gets too little noise by it, and the one that decides
    no more than it needs."""
    sizes, batch, epsilon, delta = [43, 78, 40, 75], 8, 0.8, 1e-3
    graph = nx.Graph([(0, 1), (1, 2), (2, 3)])
    stds, said = run(sizes, graph, A.DPDDA(batch_size=batch), 1, tc.Privacy(epsilon, delta))
    true = np.array(
        [
            sampled_delta(float(s), 2.0 / batch, batch / m, epsilon)
            for s, m in zip(stds[0], sizes, strict=True)
        ]
    )
    assert np.all(true <= delta * (1 + 1e-4))
    assert np.all(true[[2, 3]] > 0.995 * delta)  # the largest rate of each group
    assert np.all(true > 0.5 * delta)  # rates within a tenth share the noise of the largest
    np.testing.assert_allclose([said.curve(i).delta(epsilon) for i in range(4)], true, rtol=2e-4)


def test_a_charge_cannot_be_changed_once_it_is_priced() -> None:
    """The door books one Charge object for many equal releases:
    writing to it would change what was charged before."""
    block, _, ledger = make_block(problem(3), scale=2.0)
    block.release(block.gradient(np.zeros((3, 4))))
    charge, _ = next(iter(ledger.charges))
    for values in charge.parameters.values():
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1e9
