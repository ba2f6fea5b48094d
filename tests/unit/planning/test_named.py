"""A named method gets settings with which it learns what its budget buys; what the user gives
wins."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.graph.topology import Topology
from tacenda.planning import plan_named
from tacenda.questions.facts import Facts

PRIVATE = [n for n, kind in ALGORITHMS.items() if kind.private and not kind.needs.squared_loss]
INSIDE = ("dvp", "madmm", "radmm")  # whose noise is inside an objective


@pytest.fixture(scope="module")
def data() -> tc.Problem:
    made = tc.data.make_classification(3000, 6, difficulty=0.3, seed=2)
    return tc.Problem(tc.data.partition.even(made.X, made.y, 10), classes=(0, 1), strength=1e-4)


def graph_for(name: str) -> Topology:
    return Topology.of(tc.graph.star(10) if name == "dpadmm" else tc.graph.complete(10))


def learnt(data: tc.Problem, name: str, method: Any, epsilon: float) -> float:
    """The share of what is to be learnt that was: 1 at the optimum, 0 at a model of zeros."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = tc.simulate(
            data,
            graph_for(name),
            method,
            privacy=tc.Privacy(epsilon, 1e-5),
            seed=3,
            record_every=0,
            progress=False,
        )
    model = np.ravel(result.model)
    nothing, best = data.objective(np.zeros(6)), data.objective(data.solve(1e-6))
    return float((nothing - data.objective(model)) / (nothing - best))


@pytest.mark.parametrize("name", PRIVATE)
def test_every_method_learns_with_planned_settings(data: tc.Problem, name: str) -> None:
    found = plan_named(name, Facts.of(data), graph_for(name), tc.Privacy(4.0))
    assert found.algorithm.name == name and found.reasons
    assert learnt(data, name, found, 4.0) > 0.8


@pytest.mark.filterwarnings("ignore:RADMM")
@pytest.mark.parametrize("name", INSIDE)
def test_gaussian_noise_inside_objectives_needs_no_extra_pull(data: tc.Problem, name: str) -> None:
    """Planned penalties are large enough; and l2-Laplace noise, which adds up, gets few rounds."""
    facts, graph = Facts.of(data), graph_for(name)
    found = plan_named(name, facts, graph, tc.Privacy(1.0))
    result = tc.simulate(data, graph, found, privacy=tc.Privacy(1.0, 1e-5), seed=0, record_every=0)
    for event, _ in result.privacy.curve().events:
        assert event.curvature < 0.1 / event.noise_multiplier
    laplace = plan_named(name, facts, graph, tc.Privacy(1.0), given={"noise": "l2-laplace"})
    assert laplace.rounds < found.rounds and laplace.algorithm.noise == "l2-laplace"


@pytest.mark.parametrize("name", ["cdpadmm", "pvp"])
def test_planned_settings_beat_the_defaults(data: tc.Problem, name: str) -> None:
    kind = ALGORITHMS[name]
    algorithm = tc.algorithms.PVP(noise="gaussian") if name == "pvp" else kind()
    given = tc.Method(algorithm, kind.default_rounds, finish_mixing="exact")
    found = plan_named(name, Facts.of(data), graph_for(name), tc.Privacy(1.0))
    assert learnt(data, name, found, 1.0) > learnt(data, name, given, 1.0)


@pytest.mark.parametrize("name", PRIVATE)
def test_what_is_given_wins(data: tc.Problem, name: str) -> None:
    facts, graph = Facts.of(data), graph_for(name)
    free = plan_named(name, facts, graph, tc.Privacy(2.0)).algorithm.to_plain()
    for key in ("penalty", "proximal", "step_size", "offset", "inner_steps"):
        if key in free:
            value = 3 if key == "inner_steps" else 0.123
            found = plan_named(name, facts, graph, tc.Privacy(2.0), given={key: value}, rounds=7)
            assert found.algorithm.to_plain()[key] == value and found.rounds == 7
            assert any(reason.startswith(f"{key} = ") for reason in found.reasons)


def test_the_step_of_a_linearised_method_is_the_forecasts(data: tc.Problem) -> None:
    """K/(2 rho deg + eta) is one and the same total step, whoever takes it."""
    facts, graph = Facts.of(data), graph_for("cdpadmm")
    gossip = plan_named(
        "gossipgd", facts, graph, tc.Privacy(2.0, coalition=None)
    ).algorithm.to_plain()
    rounds = plan_named("gossipgd", facts, graph, tc.Privacy(2.0, coalition=None)).rounds
    tau = rounds * gossip["step_size"]
    for name, inner in (("cdpadmm", 1), ("ddpadmm", 1), ("ipadmm", 2), ("ipadmm", 5)):
        given = {"inner_steps": inner} if name == "ipadmm" else {}
        found = plan_named(name, facts, graph, tc.Privacy(2.0), given=given)
        plain = found.algorithm.to_plain()
        weight = 2 * plain["penalty"] * 9 + plain["proximal"]
        assert found.rounds * inner / weight == pytest.approx(tau)


def test_with_trust_sums_are_masked_unless_it_is_given_otherwise(data: tc.Problem) -> None:
    facts, graph = Facts.of(data), graph_for("treegd")
    noise = {}
    for given in ({}, {"noise": "masked"}, {"noise": "independent"}):
        found = plan_named("treegd", facts, graph, tc.Privacy(2.0, coalition=1), given=given)
        noise[str(given.get("noise"))] = found.algorithm.noise
    assert noise == {"None": "masked", "masked": "masked", "independent": "independent"}


def test_methods_that_solve_make_few_rounds(data: tc.Problem) -> None:
    """Local minimisers take any total step in few rounds: little noise does not make them more."""
    from tacenda.planning.named import MOST_SOLVES

    facts, graph = Facts.of(data), graph_for("pvp")
    rounds = [plan_named("pvp", facts, graph, tc.Privacy(e)).rounds for e in (2.0, 500.0)]
    assert rounds[0] < rounds[1] == MOST_SOLVES


def test_without_trust_nothing_is_masked_or_shared(data: tc.Problem) -> None:
    facts, graph = Facts.of(data), graph_for("treegd")
    for name in ("treegd", "gossipgd"):
        found = plan_named(name, facts, graph, tc.Privacy(2.0, coalition=None)).algorithm
        assert found.traits.shared_noise is None and not found.traits.masks


def test_whitened_and_unknown_methods(data: tc.Problem) -> None:
    facts, graph = Facts.of(data), graph_for("treegd")
    follows = plan_named("treegd", facts, graph, tc.Privacy(2.0), prepare="whitening")
    assert follows.algorithm.name == "whitened" and follows.rounds == 20
    mapped = plan_named("dpdda", facts, graph, tc.Privacy(4.0), prepare="whitening")
    assert learnt(data, "dpdda", mapped, 4.0) > 0.8


@pytest.mark.parametrize("name", ["cdpadmm", "dpdda"])
def test_a_public_sample_tunes_the_total_step(data: tc.Problem, name: str) -> None:
    """Labels that hardly follow the features ask for a shorter way than the forecast's; what is
    tried is the method itself, on stand-in data of the sample."""
    made = tc.data.make_classification(300, 6, difficulty=0.9, seed=5)
    facts, graph = Facts.of(data), graph_for(name)
    plain = plan_named(name, facts, graph, tc.Privacy(0.3))
    tuned = plan_named(name, facts, graph, tc.Privacy(0.3), public=(made.X, made.y))
    assert "300 records" in tuned.reasons[-1] and "no protection" in tuned.reasons[-1]

    def weight(algorithm: Any) -> float:  # of one step, over the number of steps
        if name == "dpdda":
            return float(algorithm.offset)
        return float(2 * 9 * algorithm.penalty + algorithm.proximal)

    longer = plain.rounds / weight(plain.algorithm), tuned.rounds / weight(tuned.algorithm)
    factor = float(tuned.reasons[-1].split()[4])
    assert longer[1] / longer[0] == pytest.approx(factor, rel=0.3)
    assert factor <= 1
