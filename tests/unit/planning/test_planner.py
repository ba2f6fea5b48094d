"""The planner: its formulas against brute force, its choices, its words."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms.whitened import Whitened
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.planning import plan, plan_facts
from tacenda.planning.after_release import shared_at_best
from tacenda.planning.candidates import Case, shared
from tacenda.planning.forecast import Landscape
from tacenda.planning.mixing import Mixing, shared_noise
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.questions.facts import Facts

MU = 0.26805  # mu(1, 1e-5), the specification's golden figure


# Its l1 part is about the model's own coordinates, so records are not whitened first.
UNPREPARED = {"regulariser": "elastic-net"}


def landscape(h: float, r: float) -> Landscape:
    return Landscape(np.array([h]), np.ones(1), np.array([4.0]), r)


@pytest.mark.parametrize(
    ("h", "r", "tau", "shrinking"),
    [(0.02, 0.05, 60.0, True), (0.02, 0.05, 60.0, False), (0.1, 0.0, 30.0, True)],
)
def test_excess_matches_the_recursion_step_by_step(
    h: float, r: float, tau: float, shrinking: bool
) -> None:
    """Distance and variance of one coordinate carried through 20,000 steps,
    against the closed form."""
    rounds, noise = 20_000, 0.3
    offset = rounds / tau
    distance = -2.0 * h / (h + r)  # from w = 0 to the regularised optimum of a signal of size 2
    variance = 0.0
    for t in range(rounds):
        step = 1.0 / (r * t + offset) if shrinking else 1.0 / offset
        distance *= 1.0 - step * (h + r)
        variance = variance * (1.0 - step * (h + r)) ** 2 + step**2 * rounds * noise**2
    undone, noisy = landscape(h, r).excess(tau, noise, shrinking)
    assert undone == pytest.approx(0.5 * (h + r) * distance**2, rel=2e-3)
    assert noisy == pytest.approx(0.5 * (h + r) * variance, rel=2e-3)


def test_best_step_is_the_minimum_over_a_fine_grid() -> None:
    problem = tc.plan(452, 104, tc.graph.ring(10), 1.0).facts.constants
    shape = Landscape.assumed(problem, 104)
    found = shape.best_step(1.65e-3)
    grid = np.exp(np.linspace(4, 9, 400))
    risks = [sum(shape.excess(t, 1.65e-3)) for t in grid]
    assert found == pytest.approx(grid[int(np.argmin(risks))], rel=0.02)


def test_assumed_landscape_has_the_stated_trace_and_signal() -> None:
    constants = tc.plan(100, 30, tc.graph.ring(5), 1.0, data_norm=2.0).facts.constants
    shape = Landscape.assumed(constants, 5000)
    assert shape.copies.sum() == 5000
    assert shape.copies @ shape.eigenvalues == pytest.approx(0.15 * 4.0)
    assert shape.copies @ (shape.eigenvalues * shape.signal) == pytest.approx(0.15 * 1.5**2)


@pytest.mark.parametrize("mixings", [1, 3])
@pytest.mark.parametrize("ratio", [0.0, 5.0])
def test_lingering_matches_the_covariance_carried_forward(mixings: int, ratio: float) -> None:
    topology = Topology.of(tc.graph.erdos_renyi(12, 0.4, seed=3))
    mixing = Mixing.of(topology)
    w = np.linalg.matrix_power(mixing.matrix.toarray(), mixings)
    fresh = np.eye(12) + ratio**2 * topology.laplacian().toarray()
    covariance = np.zeros((12, 12))
    off = np.eye(12) - 1 / 12
    for _ in range(3000):
        covariance = w @ (off @ fresh @ off + covariance) @ w.T
    # Eigenvectors of W and of L differ on an irregular graph: the closed form takes the diagonal
    # part only, which is the trace.
    assert mixing.lingering(mixings, ratio) == pytest.approx(np.trace(covariance) / 12, rel=1e-6)
    assert mixing._probed(mixings, ratio) == pytest.approx(np.trace(covariance) / 12, rel=0.2)


def test_rounds_to_shrinks_the_worst_disagreement() -> None:
    mixing = Mixing.of(Topology.of(tc.graph.ring(9)))
    w, count = mixing.matrix.toarray(), mixing.rounds_to(100.0)
    gap = np.linalg.norm(np.linalg.matrix_power(w, count) - 1 / 9, 2)
    assert gap <= 0.01 < np.linalg.norm(np.linalg.matrix_power(w, count - 1) - 1 / 9, 2)
    assert Mixing.of(Topology.of(tc.graph.complete(6))).rounds_to(1e9) == 1
    assert mixing.rounds_to(0.5) == 0


def test_noise_of_the_average_by_hand() -> None:
    graph = tc.graph.random_regular(100, 6, seed=0)
    found = tc.plan(452, 104, graph, 1.0, 1e-5, coalition=None, **UNPREPARED)
    assert found.forecast.average_noise_std == pytest.approx(2 / (452 * MU * 10), rel=1e-4)
    half = tc.plan(452, 104, graph, 1.0, 1e-5, coalition=None, adjacency="add-remove", **UNPREPARED)
    assert half.forecast.average_noise_std == pytest.approx(
        found.forecast.average_noise_std / 2, rel=1e-9
    )


def test_shared_noise_by_hand_on_a_complete_graph() -> None:
    """Without one curious node the rest is K_n-1 with Laplacian (n-1) I - J: h = 1/(n-1) + (1 -
    1/(n-1))/(1 + c^2 (n-1))."""
    n, k = 12, 11
    found = shared_noise(Topology.of(tc.graph.complete(n)), 1)
    assert found is not None
    ratio, h = found
    assert h.max() == pytest.approx(1 / k + (1 - 1 / k) / (1 + ratio**2 * k), rel=1e-9)
    plan_ = tc.plan(452, 20, tc.graph.complete(n), 1.0, **UNPREPARED)
    assert plan_.coalition == 1
    assert plan_.forecast.average_noise_std == pytest.approx(
        2 / (452 * MU) * math.sqrt(h.max() / n), rel=1e-4
    )


def test_choice_follows_the_trust() -> None:
    graph = tc.graph.random_regular(100, 6, seed=0)
    assert tc.plan(452, 104, graph, 1.0, **UNPREPARED).algorithm.name == "gossipgd"
    assert tc.plan(452, 104, graph, 1.0, coalition=None, **UNPREPARED).algorithm.name == "dpdda"
    assert tc.plan(452, 104, graph, 1.0, coalition=None, regulariser="l1").algorithm.name == "dda"
    for coalition, noise in ((1, "masked"), (3, "masked"), (None, "independent")):
        found = tc.plan(452, 104, graph, 1.0, coalition=coalition)
        assert isinstance(found.algorithm, Whitened)
        assert found.algorithm.algorithm == tc.algorithms.TreeGD(noise=noise)
        assert (found.coalition, found.method.finish_mixing) == (coalition, 0)
    # A curious hub knows every edge of a star; and of two nodes, each knows the other's.
    for options in ({}, UNPREPARED):
        assert tc.plan(452, 104, tc.graph.star(30), 1.0, **options).coalition is None
        assert tc.plan(452, 104, tc.graph.complete(2), 1.0, **options).coalition is None
        assert tc.plan(452, 104, tc.graph.complete(2), 1.0, coalition=0, **options).coalition == 0
    assert "1 member can cut this graph" in tc.plan(452, 104, tc.graph.star(30), 1.0).explain()


def test_masked_noise_by_hand() -> None:
    """All nodes' noise hides each record: a trusted server's, times sqrt(n/(n - q)); the clip and
    nine tenths of the budget known."""
    graph, n = tc.graph.random_regular(100, 6, seed=0), 100
    noises = [tc.plan(452, 104, graph, 1.0, coalition=q).forecast for q in (0, 1, 3)]
    server = 2 / (452 * n * MU) / math.sqrt(0.9)
    clip = noises[0].average_noise_std / server
    assert 0.25 <= clip <= 0.6  # over the Lipschitz constant, for rows of half the norm
    for q, found in zip((1, 3), noises[1:], strict=True):
        ratio = found.average_noise_std / noises[0].average_noise_std
        assert ratio == pytest.approx(math.sqrt(n / (n - q)), rel=1e-6)


@pytest.mark.parametrize("graph", [tc.graph.ring(9), tc.graph.complete(6), tc.graph.star(7)])
@pytest.mark.parametrize(("records", "epsilon", "coalition"), [(100, 1.0, 1), (900, 0.3, 2)])
def test_shared_noise_is_never_forecast_below_its_bound(
    graph: Any, records: int, epsilon: float, coalition: int
) -> None:
    """Whoever is not asked for its exact leverage could not have been the best."""
    topology = Topology.of(graph)
    facts = tc.plan(records, 12, graph, 1.0).facts
    noise = facts.gradient_sensitivity() / gaussian_mu(epsilon, 1e-5)
    shape = Landscape.assumed(facts.constants, 12)
    for longer in (1.0, 3.0):
        case = Case(facts, topology, Mixing.of(topology), shape, noise, 500, False, longer)
        bound = shared_at_best(case, coalition)
        for found in shared(case, coalition):
            assert found.forecast.excess_risk >= bound * (1 - 1e-6)


def test_what_is_decided_after_the_release_is_said_before() -> None:
    found = tc.plan(452, 104, tc.graph.random_regular(100, 6, seed=0), 1.0)
    for word in ("Decided after that release", "clipped", "second moment", "same model"):
        assert word in found.explain()
    assert found.rounds == 20 and found.method.output == "average"


@pytest.mark.parametrize(
    "options", [{"regulariser": "l1"}, {"loss": "hinge"}, {"loss": "absolute-deviation"}]
)
def test_what_cannot_be_whitened_is_planned_as_before(options: dict[str, Any]) -> None:
    settings = {"dim": 20, **options}
    found = tc.plan(100, settings.pop("dim"), tc.graph.ring(6), 1.0, **settings)
    assert found.algorithm.name in ("gossipgd", "dpdda", "dda")


@pytest.mark.parametrize("dim", [1000, 1001, 20_001])
def test_many_features_are_whitened_too_each_by_itself(dim: int) -> None:
    found = tc.plan(3250, dim, tc.graph.random_regular(20, 6, seed=0), 1.0)
    assert isinstance(found.algorithm, tc.algorithms.Whitened) and found.rounds == 20
    assert 0 < found.forecast.excess_risk < 0.7


def test_units_do_not_matter() -> None:
    """Features in other units are the same problem: the step on w then scales by 1/data_norm^2,
    rounds and risk not at all."""
    graph = tc.graph.ring(8)
    for name in ("none", "l1"):
        one = tc.plan(500, 10, graph, 1.0, strength=0.0, regulariser=name)
        ten = tc.plan(500, 10, graph, 1.0, strength=0.0, regulariser=name, data_norm=10.0)
        assert ten.rounds == one.rounds
        unit = 1 if one.sums else 100  # mapped rows have their own
        assert ten.forecast.step == pytest.approx(one.forecast.step / unit, rel=1e-3)
        assert ten.forecast.excess_risk == pytest.approx(one.forecast.excess_risk, rel=1e-6)


def test_more_budget_more_data_and_more_rounds_help() -> None:
    graph = tc.graph.random_regular(20, 4, seed=0)
    risks = [tc.plan(500, 30, graph, e).forecast.excess_risk for e in (0.3, 1.0, 3.0)]
    assert risks[0] > risks[1] > risks[2]
    assert tc.plan(2000, 30, graph, 1.0).forecast.excess_risk < risks[1]
    few = tc.plan(500, 30, graph, 1.0, max_rounds=5)
    assert few.rounds == 5 and "5 are allowed" in few.explain()
    short = tc.plan(50_000, 30, graph, 3.0, max_rounds=30, **UNPREPARED)
    assert short.rounds == 30
    assert short.forecast.step < short.forecast.wanted_step
    assert "30 are allowed" in short.explain()
    assert tc.plan(500, 30, graph, 1.0, rounds=7).rounds == 7


def test_forecast_matches_simulation_on_generated_data() -> None:
    """Within a factor of three of the measured excess objective, and every node within 1e-3 of the
    average model's; messages and bytes as planned."""
    data = tc.data.make_classification(8000, 15, 0.3, seed=4)
    problem = tc.Problem(tc.data.partition.even(data.X, data.y, 16), classes=(0, 1))
    graph = tc.graph.random_regular(16, 4, seed=0)
    optimum = problem.objective(problem.solve(1e-6))
    for coalition in (1, None):
        found = plan_facts(
            Facts.of(problem), Topology.of(graph), tc.Privacy(1.0, coalition=coalition)
        )
        runs = [
            tc.simulate(
                problem, graph, found.method, privacy=tc.Privacy(1.0), seed=s, record_every=0
            )
            for s in range(3)
        ]
        excess = np.mean([problem.objective(r.model) for r in runs]) - optimum
        assert 1 / 3 < excess / found.forecast.excess_risk < 3.0
        assert problem.objective(runs[0].models).max() < problem.objective(runs[0].model) + 1e-3
        assert runs[0].messages == found.messages
        assert runs[0].bytes == pytest.approx(found.bytes, rel=0.02)
        assert runs[0].privacy is not None
        assert runs[0].privacy.epsilon == pytest.approx(1.0, abs=1e-6)


def test_uneven_nodes_one_node_and_many() -> None:
    uneven = tc.plan([10, 1000, 1000, 1000], 5, tc.graph.complete(4), 1.0)
    assert "Small members raise the noise of all" in uneven.explain()
    alone = tc.plan(1000, 5, tc.graph.complete(1), 1.0)
    assert (alone.method.finish_mixing, alone.messages, alone.coalition) == (0, 0, None)
    each = tc.plan(1000, 5, tc.graph.complete(4), [1.0, 2.0, 1.0, 1.0])
    assert "one epsilon per node" in each.explain()
    big = tc.plan(50, 20, tc.graph.ring(700), 1.0, coalition=None)
    assert 1 <= big.rounds <= 500


def test_plan_is_a_function_and_a_package() -> None:
    first = tc.plan(2000, 10, tc.graph.ring(5), 1.0)
    second = plan(2000, 10, tc.graph.ring(5), 1.0)
    assert first.to_plain() == second.to_plain()
    assert json.loads(json.dumps(first.to_plain()))["rounds"] == first.rounds
    for word in ("Why:", "over a tree", "no record was read", "curious member"):
        assert word in first.explain()
    assert "Plan(" in repr(first)


@pytest.mark.parametrize(
    "loss",
    [
        "logistic",
        "hinge",
        "smoothed-hinge",
        "huber",
        "absolute-deviation",
        "multinomial",
        "poisson",
        "smoothed-quantile",
    ],
)
def test_every_loss_has_a_plan(loss: str) -> None:
    assert (
        tc.plan(
            500, 12, tc.graph.ring(6), 1.0, loss=loss, n_outputs=3 if loss == "multinomial" else 1
        ).rounds
        >= 20
    )


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"sizes": [1, 2]}, "sizes"),
        ({"sizes": 0}, "sizes"),
        ({"dim": 0}, "dim"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": [1.0, 2.0]}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"loss": "logistc"}, "logistic"),
        ({"adjacency": "swap"}, "adjacency"),
        ({"coalition": -1}, "coalition"),
        ({"max_rounds": 0}, "max_rounds"),
    ],
)
def test_bad_input_names_the_field(wrong: dict[str, object], word: str) -> None:
    given: dict[str, object] = {
        "sizes": 100,
        "dim": 5,
        "graph": tc.graph.ring(5),
        "epsilon": 1.0,
        **wrong,
    }
    with pytest.raises(InputError, match=word):
        tc.plan(**given)


def test_unbounded_loss_is_refused_with_both_remedies() -> None:
    with pytest.raises(UnsupportedError, match=r"clip_norm.*huber"):
        tc.plan(100, 5, tc.graph.ring(5), 1.0, loss="squared")


def test_a_slow_graph_ends_with_one_exact_average() -> None:
    """A ring of 32 would need hundreds of closing mixings; the tree's way up and down is 32."""
    found = tc.plan(100, 5, tc.graph.ring(32), 1.0, regulariser="elastic-net")
    assert found.method.finish_mixing == "exact"
    mixings = found.rounds * found.algorithm.traits.exchanges_per_round
    assert found.exchanges == mixings + 2 * 16
    assert found.messages == 2 * 32 * mixings + 2 * 31
    assert "one exact average" in found.explain()


@pytest.mark.parametrize("records", [400, 3000, 45_000])
@pytest.mark.parametrize("dim", [6, 40])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_one_node_is_planned_like_twenty_and_forecast_no_worse(
    records: int, dim: int, epsilon: float
) -> None:
    """A trusted server has all records and less noise; the way to learn is the same."""
    one = tc.plan(records, dim, tc.graph.complete(1), epsilon)
    many = tc.plan(records / 20, dim, tc.graph.random_regular(20, 6, seed=0), epsilon)
    assert isinstance(one.algorithm, Whitened) == isinstance(many.algorithm, Whitened)
    assert one.forecast.average_noise_std < many.forecast.average_noise_std
    # clip and step are those of a grid, which the forecast notices
    assert one.forecast.excess_risk <= 1.1 * many.forecast.excess_risk
