"""What a question will show of directions that a run's noise hid: it is forecast by what runs have
released, and a question that would show nothing is refused, with what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms.whitening import MOMENT, MOMENT_FLOOR
from tacenda.data.encoding import encode
from tacenda.data.schema import Schema
from tacenda.errors import PrivacyError
from tacenda.evaluation.declared_design import design_of
from tacenda.inference import Design, Forecast, GradientMoments, forecast, intervals
from tacenda.inference.known_curvature import broken_stick, known_curvature
from tacenda.inference.newton import MOST_SPILL, Information, one_step
from tacenda.questions.facts import Facts
from tacenda.questions.moments import packed
from tacenda.runtime.history import History
from tacenda.runtime.result import RunResult

N = 20_000


def at(model: Any, **released: Any) -> RunResult:
    models = np.asarray(model, float)[None]
    about = {"n_features": models.shape[1], "loss": "squared", "loss_scale": 1.0}
    settings = {"problem": about, "algorithm": {"name": "treegd"}, "rounds": 5}
    return RunResult(models, models, History([]), None, settings, released=released)


def facts_of(d: int) -> tuple[GradientMoments, Facts]:
    shards = [(np.zeros((N, d)), np.zeros(N))]
    problem = tc.Problem(shards, loss="squared", data_norm=1.0, clip_norm=1.0)
    return GradientMoments(d, "squared", (), 1.0, 1.0), Facts.of(problem)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_stick_is_broken_as_it_says(count: int) -> None:
    """Against sticks that are broken at count - 1 places drawn evenly."""
    rng = np.random.default_rng(count)
    places = np.sort(rng.random((200_000, count - 1)), axis=1)
    ends = np.hstack([np.zeros((len(places), 1)), places, np.ones((len(places), 1))])
    parts = np.sort(np.diff(ends, axis=1), axis=1).mean(axis=0)
    found = broken_stick(count)
    np.testing.assert_allclose(found, parts, rtol=0.02)
    assert found.sum() == pytest.approx(1.0)


def test_hidden_directions_leak_into_the_seen_ones() -> None:
    """One direction is seen and twenty are empty. Where the forecast has the seen row appear,
    draws of the noise show it half of the time: not with a third more noise, and nearly always with
    a third less."""
    d, h = 21, 20
    asked, facts = facts_of(d)
    moment = np.diag([0.3] + [0.0] * h)
    design = Design(("seen",), np.eye(d)[:1], np.zeros(1), np.zeros((0, d)), None, moment)
    found = forecast(asked, facts, tc.Privacy(1.0), at(np.zeros(d)), design)
    assert found is not None and found.visible.tolist() == [False]
    # The noise that the named epsilon buys, by what is asked at that epsilon
    problem = tc.Problem(
        [(np.zeros((N, d)), np.zeros(N))], loss="squared", data_norm=1.0, clip_norm=1.0
    )
    named = tc.Privacy(float(found.needed[0]))
    run = intervals(
        at(np.zeros(d)), problem, tc.graph.complete(1), privacy=named, seed=0, anyway=True
    )
    assert run.privacy is not None
    std = noise_of(asked, named)
    rng = np.random.default_rng(0)

    def shown(times: float) -> float:
        size, seen = times * std, 0
        ratio = asked.units["gradient"] / asked.units["curvature"]
        for _ in range(100):
            noise = rng.normal(size=(d, d)) / np.sqrt(2)
            noise = (noise + noise.T) / np.sqrt(2)  # 1 on the diagonal, 1/sqrt(2) beside it
            told = Information(
                np.zeros(d),
                np.zeros(d),
                moment + size * noise,
                0.1 * moment,
                N,
                ratio * size,
                size,
                hidden_score=asked.hidden_score,
            )
            made = one_step(told)
            error = float(np.sqrt((made.sampling + made.noise)[0, 0]))
            seen += float(np.linalg.norm(made.spill[0])) <= MOST_SPILL * error
        return seen / 100

    assert shown(4 / 3) < 0.2 and shown(3 / 4) > 0.8


def noise_of(asked: GradientMoments, privacy: tc.Privacy) -> float:
    """Of an entry of the released curvature's diagonal, by a run that asks."""
    from tacenda.algorithms.statistic import StatisticRelease

    d = asked.n_features
    problem = tc.Problem(
        [(np.zeros((N, d)), np.zeros(N))], loss="squared", data_norm=1.0, clip_norm=1.0
    )
    made = tc.simulate(
        problem, tc.graph.complete(1), StatisticRelease(asked), 1, privacy, 0, metrics=()
    )
    return float(made.released["noise"][0]) / N * asked.units["curvature"]


def test_unequal_shares_decide_whether_a_question_is_worth_asking() -> None:
    """Of ten hidden directions as many may vary a tenth as much as they would if alike."""
    d = 11
    asked, facts = facts_of(d)
    moment = np.diag([0.3] + [1e-3] * (d - 1))
    run = at(np.zeros(d), **{MOMENT: packed(moment), MOMENT_FLOOR: np.array([1e-3])})
    known = known_curvature(asked, facts, run, np.zeros((0, d)), None, None)
    assert known.sure is not None and known.hidden.shape == (d, d - 1)
    assert np.trace(known.uneven - known.sure) == pytest.approx(0.5 * 1e-3 * (d - 1))
    e = np.linalg.eigvalsh(known.uneven)
    np.testing.assert_allclose(e[:-1], e[0] * broken_stick(10) / broken_stick(10)[0])
    design = Design.plain([f"x{j}" for j in range(d)])
    first = forecast(asked, facts, tc.Privacy(1.0), run, design)
    assert first is not None and first.likely is not None
    assert (first.likely >= first.needed).all() and first.likely[1] > 3 * first.needed[1]
    assert set(first.hiding) == {f"x{j}" for j in range(1, d)}
    between = float(np.sqrt(first.needed.min() * first.likely.min()))
    found = forecast(asked, facts, tc.Privacy(between), run, design)
    assert found is not None and not found.worth_asking
    with pytest.raises(PrivacyError, match="perhaps .* Join rare levels"):
        found.require_any()
    found = forecast(asked, facts, tc.Privacy(1.1 * float(first.likely.min())), run, design)
    assert found is not None and found.worth_asking and "may be" in str(found)


def test_rare_levels_are_named_before_anything_is_charged() -> None:
    """As a user meets them: seven levels, of which four have one record in a thousand."""
    rng = np.random.default_rng(3)
    levels = list("abcdefg")
    site = rng.choice(levels, N, p=[0.4, 0.35, 0.246, 0.001, 0.001, 0.001, 0.001])
    age = rng.uniform(20, 80, N)
    ill = np.where(rng.random(N) < 1 / (1 + np.exp(-0.04 * (age - 50))), "yes", "no")
    schema = Schema.build(
        columns=[
            {"kind": "numeric", "name": "age", "low": 20, "high": 80},
            {"kind": "categorical", "name": "site", "levels": levels},
        ],
        label={"name": "ill", "classes": ["no", "yes"]},
        intercept=True,
    )
    data = encode(schema, {"age": age, "site": site.astype(object), "ill": ill.astype(object)})
    shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    problem = tc.Problem(shards, row_scale=schema.row_scale, classes=(0, 1), strength=1e-6)
    graph, design = tc.graph.complete(4), design_of(schema)
    run = tc.simulate(
        problem, graph, "treegd", 20, tc.Privacy(1.0), 0, prepare="whitening", metrics=()
    )
    with pytest.raises(PrivacyError) as refused:
        intervals(run, problem, graph, privacy=tc.Privacy(1.0), seed=0, design=design)
    text = str(refused.value)
    named = text.split("Hidden in the run's noise: ")[1].split(". Join")[0]
    assert set(named.split(", ")) == {f"site is {level!r}" for level in "defg"}


def test_least_squares_by_moments_is_forecast_from_its_own_release() -> None:
    """The run has released the second moment: columns that hardly vary are known to be hidden, and
    nothing is promised because ranges were declared."""
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.uniform(-0.5, 0.5, N), 0.01 * rng.uniform(-0.5, 0.5, N)])
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=N), -1, 1)
    shards = tc.data.partition.even(X, y, 2, seed=0)
    problem = tc.Problem(shards, loss="squared", data_norm=1.0, clip_norm=1.0)
    graph = tc.graph.complete(2)

    def forecast_of(rounds: int, epsilon: float) -> Forecast:
        budget = tc.Privacy(epsilon)
        run = tc.simulate(problem, graph, "moments", rounds, budget, 0, metrics=())
        asked = GradientMoments(2, "squared", (), 1.0, 1.0)
        facts = Facts.of(problem)
        known = known_curvature(asked, facts, run, np.zeros((0, 2)), None, None)
        assert "released" in known.assumed
        assert known.guess[0, 0] == pytest.approx(1 / 12, rel=0.05)
        found = forecast(asked, facts, budget, run, Design.plain(["wide", "narrow"]))
        assert found is not None
        return found

    for rounds in (1, 9):
        found = forecast_of(rounds, 1.0)
        assert not found.visible[1] and found.hiding == ("narrow",)
