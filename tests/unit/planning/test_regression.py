"""The plan for least squares: by moments, and what it forecasts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.planning import plan
from tacenda.planning.candidates import Case
from tacenda.planning.forecast import Landscape
from tacenda.planning.mixing import Mixing
from tacenda.planning.regression import by_moments, excess
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts

GRAPH = tc.graph.random_regular(10, 4, seed=0)


def planned(epsilon: float = 1.0, dim: int = 20, **settings: Any) -> Any:
    return plan(500, dim, GRAPH, epsilon, **{"loss": "squared", "clip_norm": 0.25, **settings})


def case(dim: int = 20, noise: float = 1e-3, most: int = 500, fixed: bool = False) -> Case:
    constants = Constants.declared(loss="squared", clip_norm=0.25)
    facts, topology = Facts(np.full(10, 500.0), dim, constants), tc.graph.Topology.of(GRAPH)
    land = Landscape.assumed(constants, dim)
    return Case(facts, topology, Mixing.of(topology), land, np.full(10, noise), most, fixed)


@pytest.mark.parametrize("regulariser", ["l2", "l1", "elastic-net"])
def test_least_squares_is_planned_by_moments(regulariser: str) -> None:
    found = planned(regulariser=regulariser)
    assert found.algorithm == tc.algorithms.MomentRegression()
    assert (found.rounds, found.method.finish_mixing, found.coalition) == (16, 0, 1)
    assert "second moment" in found.explain() and "masks" in found.explain()
    alone = planned(regulariser=regulariser, coalition=None)
    assert alone.algorithm == tc.algorithms.MomentRegression(noise="independent")
    assert "no trust is needed" in alone.explain()
    assert alone.forecast.excess_risk > found.forecast.excess_risk


@pytest.mark.parametrize(
    "settings", [{"loss": "huber", "clip_norm": None}, {"dim": 1001}, {"rounds": 1}]
)
def test_others_are_planned_otherwise(settings: dict[str, Any]) -> None:
    assert planned(**settings).algorithm.name != "moments"


def test_where_next_to_nothing_can_be_learnt_steps_are_short() -> None:
    assert planned(0.01).algorithm.name != "moments"
    assert planned(0.3).algorithm.name == "moments"


def test_rounds_may_be_fixed() -> None:
    assert planned(rounds=4).rounds == 4
    assert planned(rounds=30).rounds == 30
    assert planned(max_rounds=5).rounds == 5


def test_a_noisy_moment_asks_for_more_steps() -> None:
    """Most rows are far shorter than the largest, and a step then goes less far."""
    rounds = [planned(epsilon).rounds for epsilon in (50.0, 4.0, 1.0)]
    assert rounds == sorted(rounds) and rounds[0] == 9 < rounds[-1]


def test_more_budget_forecasts_less_risk() -> None:
    risks = [planned(epsilon).forecast.excess_risk for epsilon in (0.1, 0.5, 1.0, 4.0)]
    assert np.all(np.diff(risks) < 0)


@pytest.mark.parametrize("noise", [1e-4, 2e-3])
@pytest.mark.parametrize("rounds", [2, 4, 9])
def test_the_forecast_is_the_recursion(noise: float, rounds: int) -> None:
    """Against the steps themselves: once without noise, and once for the noise of each step."""
    stage = case(noise=noise)
    candidate = by_moments(case(noise=noise, most=rounds, fixed=True), None)[0]
    algorithm, steps = candidate.method.algorithm, rounds - 1
    land, s0 = stage.landscape, noise / np.sqrt(10)
    assert isinstance(algorithm, tc.algorithms.MomentRegression)
    h = land.eigenvalues + land.convexity
    unit = stage.facts.worst_moment_sensitivity() / stage.facts.worst_gradient_sensitivity
    q = h + 0.5 * np.sqrt(2 * 20) * s0 * unit / np.sqrt(0.2)
    size = 0.5 / np.sqrt(np.sum(h / q))  # whitened rows of expected norm 0.5
    kept = max(1, round(0.75 * steps))

    def centre(start: Any, kicks: Any) -> Any:
        x, seen = start, []
        for kick in kicks:
            x = x - h * x / q - kick / (size * np.sqrt(q))
            seen.append(x)
        return np.mean(seen[-kept:], axis=0)

    zero = np.zeros(20)
    undone = centre(np.sqrt(land.signal) * land.eigenvalues / h, [zero] * steps)
    step_noise = 0.5 * s0 * np.sqrt(steps / 0.8)  # clipped at half the clip_norm
    variance = sum(
        centre(zero, [step_noise * np.ones(20) if j == k else zero for j in range(steps)]) ** 2
        for k in range(steps)
    )
    weight = 0.5 * land.copies * h
    found = excess(stage, algorithm, s0, rounds)
    assert found == pytest.approx((weight @ undone**2, weight @ variance), rel=1e-9)
    assert candidate.forecast.left_undone == pytest.approx(found[0])
    assert candidate.forecast.noise_risk == pytest.approx(found[1])


def test_adversaries_of_masked_runs_are_told() -> None:
    told = planned().adversaries()
    assert told[0].promised and told[1].promised and not told[-1].promised
    assert told[1].epsilon == pytest.approx(1.0, rel=1e-6)
    assert told[-1].epsilon > 3.0
