"""Noise shared by neighbours: its covariance, its accounting against every coalition, and planted
bugs that must show."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import run_spec
from tacenda.graph import coalition
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.sources import SimulatedNoise

A = tc.algorithms
GRAPHS = {
    "ring": tc.graph.ring(6),
    "star": tc.graph.star(6),
    "path": tc.graph.path(5),
    "complete": tc.graph.complete(5),
    "random": tc.graph.erdos_renyi(7, 0.5, seed=2),
}


def brute_leverage(topology: Topology, c: float, q: int) -> np.ndarray:
    """The definition itself: remove each coalition, invert, take the worst diagonal."""
    adjacency = topology.adjacency().toarray()
    worst = np.zeros(topology.n)
    for gone in combinations(range(topology.n), q):
        keep = [i for i in range(topology.n) if i not in gone]
        rest = adjacency[np.ix_(keep, keep)]
        laplacian = np.diag(rest.sum(axis=0)) - rest
        worst[keep] = np.maximum(
            worst[keep], np.diag(np.linalg.inv(np.eye(len(keep)) + c * c * laplacian))
        )
    return worst


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("q", [0, 1, 2, 3])
@pytest.mark.parametrize("c", [0.5, 10.0])
def test_leverage_is_the_worst_over_all_coalitions(name: str, q: int, c: float) -> None:
    topology = Topology.of(GRAPHS[name])
    found, how = coalition.leverage(topology, c, q)
    assert how == "exact"
    np.testing.assert_allclose(found, brute_leverage(topology, c, q), rtol=1e-9)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("q", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("c", [100.0, 1e4, 1e6])
def test_loud_edge_noise_is_never_credited_with_more_than_it_hides(
    name: str, q: int, c: float
) -> None:
    """Found in review: at c = 1e5 the inverse had lost all its digits, and the leverage was a
    thousandth of the true one."""
    topology = Topology.of(GRAPHS[name])
    found, _ = coalition.leverage(topology, c, q)
    adjacency, worst = topology.adjacency().toarray(), np.zeros(topology.n)
    # By eigenvalues, which keep their digits at any c
    for gone in combinations(range(topology.n), q):
        keep = [i for i in range(topology.n) if i not in gone]
        rest = adjacency[np.ix_(keep, keep)]
        values, vectors = np.linalg.eigh(np.diag(rest.sum(axis=0)) - rest)
        values = np.where(values < 1e-9, 0.0, values)
        worst[keep] = np.maximum(worst[keep], (vectors**2 / (1 + c * c * values)).sum(axis=1))
    assert np.all(found >= worst * (1 - 2e-6))
    assert np.all(found <= worst * 1.02)


def test_larger_coalitions_know_more() -> None:
    topology = Topology.of(tc.graph.random_regular(12, 4, seed=1))
    found = [coalition.leverage(topology, 5.0, q)[0].max() for q in range(4)]
    assert found == sorted(found)
    assert found[0] < found[-1]


@pytest.mark.parametrize("q", [0, 1, 2])
def test_the_bound_for_large_graphs_is_never_below_the_truth(q: int) -> None:
    topology = Topology.of(tc.graph.random_regular(16, 6, seed=3))
    bound = coalition._bound(topology, 3.0, q)
    assert np.all(bound >= brute_leverage(topology, 3.0, q) - 1e-12)


def test_where_the_bound_fails_nothing_is_claimed_of_the_edges() -> None:
    topology = Topology.of(tc.graph.ring(16))
    np.testing.assert_array_equal(coalition._bound(topology, 3.0, 2), 1.0)


def sampled_noise(topology: Topology, c: float, draws: int, noise: Any) -> np.ndarray:
    """(draws, n) one coordinate of each node's noise of std 1 in many rounds,
    as the door composes it."""
    nodes = np.arange(topology.n)
    edges = coalition.edge_streams(topology, nodes)
    rows = []
    for turn in range(1, draws // 500 + 1):
        own = noise.add_gaussian(
            nodes, turn, 0, (np.zeros((topology.n, 500)), 1.0, None), np.ones(topology.n)
        )
        rows.append(own + c * noise.shared(edges, turn, 0, 500))
    return np.concatenate(rows, axis=1).T


def test_empirical_covariance_is_identity_plus_laplacian() -> None:
    topology, c = Topology.of(tc.graph.erdos_renyi(6, 0.5, seed=1)), 2.0
    found = np.cov(sampled_noise(topology, c, 200_000, SimulatedNoise(7)).T)
    wanted = np.eye(topology.n) + c * c * topology.laplacian().toarray()
    spread = np.sqrt((np.outer(np.diag(wanted), np.diag(wanted)) + wanted**2) / 200_000)
    assert np.all(np.abs(found - wanted) < 6 * spread)


def test_shared_noise_cancels_in_the_average() -> None:
    topology, c = Topology.of(tc.graph.random_regular(10, 4, seed=0)), 20.0
    mean = sampled_noise(topology, c, 50_000, SimulatedNoise(3)).mean(axis=1)
    assert mean.std() == pytest.approx(1 / np.sqrt(10), rel=0.03)


def test_edge_streams_are_fresh_in_every_round_call_and_coordinate() -> None:
    topology, noise = Topology.of(tc.graph.ring(4)), SimulatedNoise(1)
    edges = coalition.edge_streams(topology, np.arange(4))
    first, again = noise.shared(edges, 1, 0, 50), noise.shared(edges, 1, 0, 50)
    np.testing.assert_array_equal(first, again)
    for turn, call in ((2, 0), (1, 1)):
        other = noise.shared(edges, turn, call, 50)
        assert np.abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 0.3
    assert len(np.unique(first)) == first.size


# ---- planted bugs: each of them breaks a check that the real code passes


class SameSign(SimulatedNoise):
    def shared(self, edges: tuple[Any, Any, Any], turn: int, call: int, dim: int) -> Any:
        return super().shared((edges[0], edges[1], np.abs(edges[2])), turn, call, dim)


class Reused(SimulatedNoise):
    def shared(self, edges: tuple[Any, Any, Any], turn: int, call: int, dim: int) -> Any:
        return super().shared(edges, 0, 0, dim)


def test_same_sign_at_both_ends_is_seen() -> None:
    topology, c = Topology.of(tc.graph.random_regular(10, 4, seed=0)), 20.0
    mean = sampled_noise(topology, c, 5_000, SameSign(3)).mean(axis=1)
    assert mean.std() > 5 / np.sqrt(10)


def test_reuse_between_rounds_is_seen() -> None:
    """Two rounds of reused edge noise differ by own noise only: their difference is far less than
    sqrt(2) of one round's."""
    topology = Topology.of(tc.graph.ring(6))

    def spread(noise: Any) -> float:
        rows = sampled_noise(topology, 20.0, 1000, noise)
        return float((rows[:500] - rows[500:]).std() / rows.std())

    assert spread(SimulatedNoise(5)) == pytest.approx(np.sqrt(2), rel=0.1)
    assert spread(Reused(5)) < 0.2


def test_an_edge_known_to_a_third_node_costs_what_a_coalition_costs() -> None:
    topology = Topology.of(tc.graph.ring(6))
    safe, known = coalition.leverage(topology, 10.0, 0)[0], coalition.leverage(topology, 10.0, 1)[0]
    assert np.all(known > safe)


def test_ignoring_the_coalition_is_refused_by_the_ledger() -> None:
    """Noise calibrated for q = 0 costs more against q = 1 than was reserved for q = 1."""
    problem = small_problem()
    weak = run(problem, coalition=0).privacy
    strong = run(problem, coalition=1).privacy
    assert weak is not None
    assert strong is not None
    assert strong.curve().coalition == 1
    weak_std, strong_std = spread_of(problem, 0), spread_of(problem, 1)
    assert weak_std < strong_std


def spread_of(problem: Any, q: int) -> float:
    from tacenda.questions.facts import Facts

    topology = Topology.of(tc.graph.ring(6))
    plan = (
        run_spec(A.GossipGD(), topology, Facts.of(problem), 10, tc.Privacy(1.0, coalition=q))
        .checked()
        .calibration.plan
    )
    return float(plan.scale[0])


def small_problem() -> Any:
    rng = np.random.default_rng(0)
    shards = []
    for m in (20, 30, 25, 20, 40, 22):
        x = rng.normal(size=(m, 3))
        shards.append((x / np.linalg.norm(x, axis=1, keepdims=True), np.sign(x[:, 0])))
    return tc.Problem(shards, strength=0.1, classes=(-1, 1))


def run(problem: Any, coalition: int = 1, **settings: Any) -> Any:
    privacy = tc.Privacy(1.0, coalition=coalition)
    return tc.simulate(
        problem, tc.graph.ring(6), A.GossipGD(mixings=2), 10, privacy=privacy, seed=0, **settings
    )


@pytest.mark.parametrize("q", [0, 1])
def test_a_run_meets_its_target_and_the_smallest_node_decides(q: int) -> None:
    result = run(small_problem(), coalition=q)
    assert result.privacy.epsilon <= 1.0 + 1e-9
    assert result.privacy.epsilon == pytest.approx(1.0, abs=1e-4)
    assert result.privacy.worst_node in (0, 3)
    assert result.privacy.node_epsilons[4] < 0.7


def test_the_true_loss_by_brute_force_on_a_small_graph() -> None:
    """mu of two neighbouring runs, from the joint Gaussian of everything
    that a curious neighbour cannot subtract."""
    c, s, delta_i = 4.0, 1.3, 0.2
    topology = Topology.of(tc.graph.erdos_renyi(6, 0.6, seed=4))
    found, _ = coalition.leverage(topology, c, 1)
    for i in range(topology.n):
        worst = 0.0
        for q in range(topology.n):
            if q == i:
                continue
            keep = [k for k in range(topology.n) if k != q]
            rest = topology.adjacency().toarray()[np.ix_(keep, keep)]
            covariance = s * s * (np.eye(len(keep)) + c * c * (np.diag(rest.sum(axis=0)) - rest))
            shift = np.zeros(len(keep))
            shift[keep.index(i)] = delta_i
            worst = max(worst, float(np.sqrt(shift @ np.linalg.solve(covariance, shift))))
        assert worst == pytest.approx(delta_i * np.sqrt(found[i]) / s, rel=1e-9)


def test_models_do_not_depend_on_the_placement() -> None:
    problem = small_problem()
    one, three = run(problem), run(problem, blocks=[[0, 3], [1, 5], [2, 4]])
    np.testing.assert_array_equal(one.models, three.models)
    assert one.privacy.epsilon == three.privacy.epsilon


def test_batches_are_refused_with_shared_noise() -> None:
    with pytest.raises(tc.errors.InputError, match="batch_size"):
        A.GossipGD(batch_size=5)
    with pytest.raises(tc.errors.InputError, match="batch_size"):
        A.DPDDA(noise="correlated", batch_size=5)


def test_a_person_at_two_members_is_not_hidden_twice_by_the_same_noise() -> None:
    """Found in review: the mu of two nodes were added in squares,
    as if their noise were independent."""
    ring, c = tc.graph.ring(6), 10.0
    rng = np.random.default_rng(0)
    shards = [(rng.uniform(-0.5, 0.5, (30, 2)), np.resize([-1, 1], 30)) for _ in range(6)]
    privacy = tc.Privacy(1.0, 1e-5, coalition=0)
    rounds, algorithm = 4, A.GossipGD(step_size=0.1, noise="correlated", correlation=c)
    said = tc.simulate(
        tc.Problem(shards, classes=(-1, 1)),
        ring,
        algorithm,
        rounds,
        privacy,
        seed=0,
        record_every=0,
    ).privacy
    assert said is not None
    inverse = np.linalg.inv(np.eye(6) + c * c * Topology.of(ring).laplacian().toarray())
    one = said.curve(0).mu
    assert one is not None
    # The two gradients move alike
    both = one * np.sqrt(inverse[np.ix_([0, 1], [0, 1])].sum() / inverse[0, 0])
    from tacenda.privacy.accounting.curves import GaussianProfile

    true = GaussianProfile(float(both)).epsilon(1e-5)
    assert true <= said.person([0, 1]) * (1 + 1e-6)
    assert said.person([0, 1]) < 1.02 * true
    assert said.person([3]) == pytest.approx(said.epsilon, rel=1e-6)
    for wrong in ([0, 0], [], [6], [-1]):
        with pytest.raises(tc.errors.InputError, match="nodes must be different positions"):
            said.person(wrong)


def test_without_edge_streams_nothing_is_charged_or_drawn() -> None:
    from tacenda.errors import LeakError
    from tacenda.privacy.secrets.bounded import seal
    from tacenda.privacy.secrets.door import Door
    from tacenda.privacy.secrets.ledger import Ledger
    from tacenda.privacy.secrets.noise_plan import ScaledPlan

    ledger = Ledger(None)
    plan = ScaledPlan(np.ones(2), np.ones(1), np.ones(2), 1)
    door = Door(np.arange(2), 3, plan, ledger, SimulatedNoise(0))
    with pytest.raises(LeakError, match="edges' streams"):
        door.release(seal(np.zeros((2, 3)), np.ones(2)), 1, 0, "correlated", None)
    assert len(ledger.charges) == 0
