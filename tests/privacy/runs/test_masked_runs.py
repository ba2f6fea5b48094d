"""Masked runs from budget to result: exactly on budget, the price of a coalition, unequal sizes,
the grid and its limits, one code path for any placement, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from masked_stage import Veiled, problem_of
from support import run_spec
from tacenda.errors import NetworkError, UnsupportedError
from tacenda.privacy.accounting import discrete_sums
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.secrets.door import Door
from tacenda.questions.facts import Facts
from tacenda.runtime import block, budget
from tacenda.runtime.network import Network
from tacenda.runtime.rehearsal import rehearse
from tacenda.runtime.simulate import GraphWarning
from tacenda.runtime.spec import RunSpec

ROUNDS = 6


def spec_of(problem: tc.Problem, graph: Any, algorithm: Any, q: int = 1, **terms: Any) -> RunSpec:
    privacy = tc.Privacy(terms.pop("epsilon", 1.0), 1e-5, coalition=q, **terms)
    facts = Facts.of(problem, privacy.adjacency)
    return run_spec(algorithm, tc.graph.Topology.of(graph), facts, ROUNDS, privacy).checked()


RING = tc.graph.ring(8)
DENSE = tc.graph.random_regular(8, 5, seed=1)


@pytest.mark.parametrize("q", [0, 1, 3])
@pytest.mark.parametrize("first", [1.0, 5.0])
def test_exactly_on_budget(q: int, first: float) -> None:
    problem = problem_of()
    result = tc.simulate(
        problem, DENSE, Veiled(first), ROUNDS, tc.Privacy(1.0, 1e-5, coalition=q), seed=1
    )
    assert result.privacy is not None
    assert result.privacy.epsilon == pytest.approx(1.0, rel=1e-8)
    assert result.privacy.epsilon <= 1.0
    assert result.privacy.curve().coalition == q
    assert result.privacy.accountant == "gaussian-exact"
    events = result.privacy.ledger(result.privacy.worst_node)
    assert {event.kind for event, _ in events} == {"masked-sum"}
    assert sum(count for _, count in events) == ROUNDS
    assert "masked-sum" in str(result.privacy.to_plain()["charges"])
    assert type(result.privacy).from_plain(result.privacy.to_plain()).epsilon == pytest.approx(
        result.privacy.epsilon
    )


@pytest.mark.parametrize("q", [0, 1, 3])
def test_the_price_of_a_coalition_is_the_members_it_takes_away(q: int) -> None:
    """With equal sizes: mu^2 = rounds/(std^2 (n - q)), std in units of the sensitivity."""
    found = spec_of(problem_of(even=True), DENSE, Veiled(), q).calibration
    assert found is not None
    scale = math.sqrt(ROUNDS / (8 - q)) / gaussian_mu(1.0, 1e-5)
    np.testing.assert_allclose(found.plan.scale, scale, rtol=2e-9)
    assert np.all(found.plan.scale >= scale * (1 + 0.5 * discrete_sums.MARGIN))


def test_only_the_smallest_member_spends_all() -> None:
    problem = problem_of()
    spec = spec_of(problem, DENSE, Veiled())
    assert spec.calibration is not None
    statement = spec.statement(spec.calibration.reserved, "")
    assert statement is not None
    assert statement.worst_node == int(np.argmin(problem.sizes))
    mu = np.array([statement.curve(k).mu for k in range(8)])
    np.testing.assert_allclose(mu * problem.sizes, mu[0] * problem.sizes[0], rtol=1e-9)


@pytest.mark.parametrize("even", [True, False])
def test_the_noise_in_the_model_is_that_of_the_plan(even: bool) -> None:
    """One round, many seeds: the mean gradient's noise has the std unit * scale / sqrt(n), whatever
    the sizes; and without privacy the exact mean comes out."""
    problem = problem_of(even=even)
    spec = spec_of(problem, DENSE, Veiled()).changed(rounds=1)
    assert spec.calibration is not None
    plain = tc.simulate(problem, DENSE, Veiled(), 1, None).models[0]
    mean = np.mean(
        [problem.store.gradient(np.array([k]), np.zeros((1, 5)), None, False) for k in range(8)],
        axis=0,
    )
    np.testing.assert_allclose(plain, -0.5 * mean[0], rtol=1e-12)
    noise = [
        tc.simulate(problem, DENSE, Veiled(), 1, tc.Privacy(1.0, 1e-5), seed=seed).models[0] - plain
        for seed in range(60)
    ]
    unit = spec.facts.worst_gradient_sensitivity
    std = 0.5 * unit * float(spec.calibration.plan.scale[0]) / math.sqrt(8)
    assert np.std(noise) == pytest.approx(std, rel=0.15)
    assert abs(np.mean(noise)) < 4 * std / math.sqrt(300)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_any_placement_gives_the_same_bits(dtype: Any) -> None:
    problem = problem_of(dtype=dtype)
    runs = [
        tc.simulate(
            problem, RING, Veiled(), ROUNDS, tc.Privacy(1.0, 1e-5), seed=3, blocks=blocks
        ).models
        for blocks in (1, 3, [[0, 5], [1, 2, 3, 7], [4, 6]])
    ]
    assert all(np.array_equal(runs[0], other) for other in runs[1:])
    assert np.ptp(runs[0], axis=0).max() == 0


def test_the_grid_is_a_power_of_two_that_the_sum_spans() -> None:
    problem = problem_of(even=True)
    for weight in (1.0, 37.0):
        spec = spec_of(problem, DENSE, Veiled(weight))
        assert spec.calibration is not None
        plan = spec.calibration.plan
        assert plan.grid is not None
        assert math.frexp(plan.grid)[0] == 0.5
        steps = math.sqrt(8) * float(plan.scale[0]) / math.sqrt(weight) / plan.grid
        assert 2.0**26 <= steps < 2.0**27


def test_what_does_not_fit_into_whole_numbers_is_refused_with_numbers() -> None:
    problem = problem_of(even=True)
    with pytest.raises(UnsupportedError, match=r"Spread the budget more evenly"):
        _ = spec_of(problem, DENSE, Veiled(1e6)).calibration
    spec = spec_of(problem, DENSE, Veiled())
    sites = rehearse(spec, np.arange(8))
    plan = spec.calibration.plan  # type: ignore[union-attr]
    step = budget.masked_grid(plan, sites, 8, np.full(8, 60.0))  # type: ignore[arg-type]
    # 8 nodes of m records, each at most (2/m)/2 ... in units of the release: m steps of 1/grid
    most = 2.0**63 * step / 8
    budget.masked_grid(plan, sites, 8, np.full(8, most * 0.99))  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"2\^63"):
        budget.masked_grid(plan, sites, 8, np.full(8, most * 1.01))  # type: ignore[arg-type]


def test_honest_values_stay_within_the_reach_that_was_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records that all push the same way, as far as they can."""
    X = np.tile([[1.0, 0.0]], (50, 1))
    problem = tc.Problem([(X, np.ones(50))] * 6, loss="logistic", classes=(-1, 1), strength=0.0)
    seen = []
    honest = Door.release_masked

    def release(self: Door, value: Any, *place: Any) -> Any:
        rows, unit = honest(self, value, *place)
        seen.append((rows.sum(axis=0).view(np.int64) * unit, value.sensitivity))
        return rows, unit

    monkeypatch.setattr(Door, "release_masked", release)
    tc.simulate(problem, tc.graph.ring(6), Veiled(), 3, tc.Privacy(50.0, 1e-5), seed=1)
    for total, sensitivity in seen:
        assert np.abs(total).max() <= (sensitivity * 50).sum() * 1.2


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("whitened", [False, True])
def test_the_reach_of_honest_sums(
    monkeypatch: pytest.MonkeyPatch, whitened: bool, adjacency: str
) -> None:
    """Records that all push the same way, as far as they can; unequal sizes. Each round's reach is
    at least the sum that was made, and at most twice what unit gradients (moments) can add up to,
    plus the tail, which is computed here from the noise that the plan states."""
    sizes = [40, 50, 90, 200]
    shards = [(np.tile([[1.0, 0.0]], (m, 1)), np.ones(m)) for m in sizes]
    problem = tc.Problem(shards, loss="logistic", classes=(-1, 1), strength=0.0, public_sizes=sizes)
    seen = []
    honest = block.honest_reach

    def noted(value: float, std: float, n: int, width: int) -> float:
        seen.append((value, std, honest(value, std, n, width)))
        return seen[-1][-1]

    monkeypatch.setattr(block, "honest_reach", noted)
    totals = []
    total_of = Network.total

    def total(self: Network, *given: Any) -> Any:
        totals.append(total_of(self, *given))
        return totals[-1]

    monkeypatch.setattr(Network, "total", total)
    privacy = tc.Privacy(50.0, 1e-5, adjacency=adjacency, coalition=1)
    prepare = tc.Whitening(share=0.1) if whitened else None
    tc.simulate(
        problem, tc.graph.complete(4), tc.algorithms.TreeGD(), 5, privacy, seed=1, prepare=prepare
    )
    assert len(seen) == 5 + whitened
    smallest, moved = min(sizes), 2.0 if adjacency == "replace-one" else 1.0
    # A release is divided by the worst sensitivity, moved * bound / smallest; each of the 4 nodes'
    # means is at most its bound. A declared size may be exceeded, by a factor of 2.
    by_hand = 4 * smallest / moved
    for k, (value, std, reach) in enumerate(seen):
        first = whitened and k < 2  # the round of the moment has its reach
        factor = math.sqrt(5 * 0.1 / 0.9) if first else 1.0
        wide = math.sqrt(2) if first and adjacency == "replace-one" else 1.0
        assert by_hand <= value <= 2 * by_hand * max(1.0, factor * wide) * (1 + 1e-9)
        assert reach - value == pytest.approx(
            math.sqrt(4) * std * math.sqrt(2 * math.log(2.0**101 * totals[k].shape[1]))
        )


def test_the_tail_is_exceeded_once_in_two_to_the_hundred() -> None:
    from mpmath import erfc, log, mp, sqrt

    mp.dps = 60
    for n, std, width in ((1, 1.0, 1), (5, 3.0, 7), (400, 0.1, 500_500)):
        tail = block.honest_reach(0.0, std, n, width)
        chance = width * erfc(tail / (std * sqrt(2 * n)))
        assert -110 < log(chance, 2) <= -100
        assert block.honest_reach(2.5, std, n, width) == pytest.approx(tail + 2.5)


@pytest.mark.parametrize("lie", ["a shift", "random"])
def test_a_row_that_makes_the_sum_impossible_stops_the_round(
    monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    honest = Door.release_masked

    def release(self: Door, value: Any, turn: int, *place: Any) -> Any:
        rows, unit = honest(self, value, turn, *place)
        if turn == 4:
            rows = rows.copy()
            random = np.random.default_rng(1).integers(0, 2**64, rows.shape[1], np.uint64)
            rows[2] += np.uint64(2**40) if lie == "a shift" else random
        return rows, unit

    monkeypatch.setattr(Door, "release_masked", release)
    with pytest.raises(NetworkError, match="Round 4: .* a row or a mask of this sum is wrong"):
        tc.simulate(problem_of(), DENSE, Veiled(), ROUNDS, tc.Privacy(1.0, 1e-5), seed=1)


def test_a_graph_that_can_be_cut_says_so_and_pays() -> None:
    problem = problem_of(even=True)
    with pytest.warns(GraphWarning, match=r"1, 7 together cut off 0.*2\.45 times the noise"):
        result = tc.simulate(
            problem, RING, Veiled(), ROUNDS, tc.Privacy(1.0, 1e-5, coalition=2), seed=1
        )
    assert any("would fix it: 0-2" in words for words in result.warnings)
    assert result.privacy is not None
    assert result.privacy.epsilon == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize(
    ("algorithm", "terms", "match"),
    [
        (Veiled(says=False), {}, "says that its shared_noise is None and masks=False"),
        (Veiled(kind="correlated"), {}, "masks=True"),
        (Veiled(), {"q": None}, "coalition=None"),
    ],
)
def test_an_algorithm_that_does_not_say_what_it_does_is_refused(
    algorithm: Any, terms: Any, match: str
) -> None:
    with pytest.raises(UnsupportedError, match=match):
        _ = spec_of(problem_of(), DENSE, algorithm, **terms).calibration


def test_given_noise_and_add_remove() -> None:
    problem = problem_of(even=True)
    privacy = tc.Privacy.from_noise(noise_multiplier=2.0, coalition=1)
    result = tc.simulate(problem, DENSE, Veiled(), ROUNDS, privacy, seed=1)
    assert result.privacy is not None
    assert result.privacy.curve().mu == pytest.approx(math.sqrt(ROUNDS / 7) / 2, rel=1e-8)
    sizes = [float(s) + 3 for s in problem.sizes]
    other = tc.Problem(
        [(np.eye(5)[:4], np.array([1, -1, 1, 1]))] * 8,
        loss="logistic",
        classes=(-1, 1),
        public_sizes=sizes,
    )
    result = tc.simulate(
        other, DENSE, Veiled(), ROUNDS, tc.Privacy(1.0, 1e-5, adjacency="add-remove"), seed=1
    )
    assert result.privacy is not None
    assert result.privacy.epsilon == pytest.approx(1.0, rel=1e-8)


def test_one_member_alone_has_its_own_noise() -> None:
    problem = problem_of(1)
    graph = tc.graph.path(1)
    result = tc.simulate(problem, graph, Veiled(), ROUNDS, tc.Privacy(1.0, 1e-5), seed=1)
    assert result.privacy is not None
    assert result.privacy.epsilon == pytest.approx(1.0, rel=1e-8)


def test_a_resumed_run_draws_the_same(tmp_path: Any) -> None:
    problem, terms = problem_of(), tc.Privacy(1.0, 1e-5)
    whole = tc.simulate(problem, RING, Veiled(), ROUNDS, terms, seed=3)
    path = tmp_path / "run.safetensors"
    tc.simulate(
        problem,
        RING,
        Veiled(),
        ROUNDS,
        terms,
        seed=3,
        checkpoint=path,
        record_every=1,
        callback=lambda k, _: k >= 2,
    )
    again = tc.simulate(
        problem, RING, Veiled(), ROUNDS, terms, seed=3, checkpoint=path, resume=True
    )
    assert np.array_equal(whole.models, again.models)
