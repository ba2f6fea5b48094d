"""Categories are shown as contrasts to their reference level, and a question that would show
nothing is refused before it is charged."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

import quickly
import tacenda as tc
from cli_tools import answer, tacenda
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.algorithms.whitening import MOMENT, MOMENT_FLOOR
from tacenda.data.encoding import encode
from tacenda.data.schema import Schema
from tacenda.errors import InputError, PrivacyError
from tacenda.estimators import PrivateLogisticRegression
from tacenda.evaluation.declared_design import design_of
from tacenda.evaluation.of_runs import run_coefficients
from tacenda.inference import Design, Forecast, GradientMoments, forecast, intervals
from tacenda.inference import design as design_module
from tacenda.inference.known_curvature import known_curvature
from tacenda.inference.newton import Information, one_step
from tacenda.inference.scales import expected, scales_of
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.questions.facts import Facts
from tacenda.questions.moments import packed, unpacked
from tacenda.runs.inferring import question
from tacenda.runtime.history import History
from tacenda.runtime.result import RunResult

RNG = np.random.default_rng(11)
N = 1500
AGE = RNG.uniform(20, 80, N)
SITE = RNG.choice(["a", "b", "c"], N, p=[0.3, 0.4, 0.3])
SEX = RNG.choice(["f", "m"], N)
SCORE = 0.02 * (AGE - 50) + 0.7 * (SITE == "b") - 0.5 * (SITE == "c") + 0.3 * (SEX == "m")
ILL = np.where(RNG.random(N) < 1 / (1 + np.exp(-SCORE)), "yes", "no")
PAIR = tc.graph.complete(2)
ALMOST = 1.1  # two forecasts of an epsilon that say the same


def schema(reference: str | None = None, *, intercept: bool = True, number: bool = False) -> Schema:
    site: dict[str, Any] = {"kind": "categorical", "name": "site", "levels": ["a", "b", "c"]}
    if reference is not None:
        site["reference"] = reference
    label: dict[str, Any] = {"name": "ill", "classes": ["no", "yes"]}
    if number:
        label = {"name": "cost", "low": -3, "high": 3, "scale_to": "symmetric"}
    return Schema.build(
        columns=[
            {"kind": "numeric", "name": "age", "low": 20, "high": 80},
            site,
            {"kind": "categorical", "name": "sex", "levels": ["f", "m"]},
        ],
        label=label,
        intercept=intercept,
    )


COST = np.clip(SCORE + 0.4 * RNG.normal(size=N), -3, 3)
TABLE: dict[str, Any] = {"age": AGE, "site": SITE, "sex": SEX, "ill": ILL, "cost": COST}


def by_hand(base: str) -> tuple[list[str], Any]:
    """Dummies that leave the reference out, and a constant."""
    others = [level for level in "abc" if level != base]
    columns = [AGE, *(level == SITE for level in others), SEX == "m", np.ones(N)]
    names = ["age", *(f"site is {level!r}" for level in others), "sex is 'm'", "intercept"]
    return names, np.column_stack(columns).astype(float)


def problem(own: Schema, **more: Any) -> tc.Problem:
    data = encode(own, TABLE)
    shards = tc.data.partition.even(data.X, data.y, 2, seed=0)
    return tc.Problem(shards, row_scale=own.row_scale, **more)


def at(model: Any, loss: str) -> RunResult:
    models = np.asarray(model, float)[None]
    about = {"n_features": models.shape[1], "loss": loss}
    settings = {"problem": about, "algorithm": {"name": "treegd"}, "rounds": 5}
    return RunResult(models, models, History([]), None, settings)


@pytest.mark.parametrize("reference", [None, "c"])
@pytest.mark.parametrize("intercept", [True, False])
def test_full_dummies_give_the_contrasts_of_statsmodels(
    reference: str | None, intercept: bool
) -> None:
    """Whatever part of the released model lies in a redundant direction."""
    own = schema(reference, intercept=intercept)
    names, X = by_hand(reference or "a")
    fit = sm.Logit(ILL == "yes", X).fit(disp=0, cov_type="HC0", tol=1e-14)
    data = encode(own, TABLE)
    near = np.linalg.lstsq(data.X, X @ fit.params, rcond=None)[0]
    design = design_of(own, "logistic")
    assert len(design.redundant) == (2 if intercept else 1)
    np.testing.assert_allclose(data.X @ design.redundant.T, 0.0, atol=1e-12)
    near = near + 0.3 * design.redundant.sum(axis=0)
    run = at(near, "logistic")
    found = intervals(
        run, problem(own, loss="logistic", classes=(0, 1)), PAIR, level=0.9, design=design
    )
    table = run_coefficients(run, own.feature_names, own, inference=found)
    rows = {row.feature: row for row in table}
    assert sorted(rows) == sorted(names)
    for j, name in enumerate(names):
        assert rows[name].coefficient == pytest.approx(fit.params[j], abs=1e-7)
        assert rows[name].estimate == pytest.approx(fit.params[j], abs=1e-7)
        assert rows[name].standard_error == pytest.approx(fit.bse[j], rel=1e-6)
        assert rows[name].low == pytest.approx(fit.conf_int(0.1)[j][0], rel=1e-5, abs=1e-6)
    assert all("hides" not in note for note in table.notes)
    assert any(f"site is {reference or 'a'!r}, sex is 'f'" in note for note in table.notes)
    # Without the declaration nothing about a level can be told
    bare = intervals(run, problem(own, loss="logistic", classes=(0, 1)), PAIR)
    assert bare.shown.tolist() == [True] + [False] * (len(bare.shown) - 1)


def test_one_round_of_least_squares_shows_contrasts() -> None:
    own = schema(number=True)
    names, X = by_hand("a")
    fit = sm.OLS(COST, X).fit(use_t=False)
    run = tc.simulate(
        problem(own, loss="squared", strength=1e-3),
        PAIR,
        tc.algorithms.MomentRegression(),
        1,
        metrics=(),
    )
    rows = {row.feature: row for row in run_coefficients(run, own.feature_names, own)}
    for j, name in enumerate(names):
        assert rows[name].estimate == pytest.approx(fit.params[j], abs=1e-6)
        assert rows[name].standard_error == pytest.approx(fit.bse[j], rel=1e-5)


def test_noise_in_redundant_directions_changes_nothing() -> None:
    """The step with noise is that of the reduced parametrisation with the noise Q'EQ."""
    d, v = 4, np.array([[1.0, 1.0, 0.0, -1.0]])
    q = np.linalg.svd(v.T)[0][:, 1:]
    inner = np.diag([0.3, 0.2, 0.1])
    noise = RNG.normal(size=(d, d)) * 1e-3
    told = Information(
        RNG.normal(size=d),
        q @ np.array([0.01, 0.02, -0.01]) + 0.2 * v[0],
        q @ inner @ q.T + noise + noise.T + 5.0 * v.T @ v,
        q @ inner @ q.T,
        1000,
        0.001,
        0.002,
        redundant=v,
    )
    made = one_step(told)
    small = one_step(
        Information(
            q.T @ told.point,
            q.T @ told.gradient,
            q.T @ told.curvature @ q,
            inner,
            1000,
            0.001,
            0.002,
        )
    )
    np.testing.assert_allclose(q.T @ made.values, small.values, rtol=1e-9)
    np.testing.assert_allclose(made.noise, q @ small.noise @ q.T, rtol=1e-9)
    np.testing.assert_allclose(v @ made.sampling, 0.0, atol=1e-12)
    assert made.directions == 0 and not made.seen[[0, 1, 3]].any() and made.seen[2]


def test_a_reference_is_a_level_and_shapes_no_encoding() -> None:
    with pytest.raises(InputError, match="reference must be one of its levels"):
        schema("d")
    assert schema("c").hash() == schema().hash()
    again = Schema.from_toml(schema("c").to_toml())
    assert again == schema("c") and 'reference = "c"' in again.to_toml()


def indicators() -> Any:
    return np.column_stack([AGE, *(s == SITE for s in "abc"), SEX == "m"]).astype(float)


BOUNDS = ([20, 0, 0, 0, 0], [80, 1, 1, 1, 1])


@pytest.mark.parametrize("intercept", [True, False])
def test_estimators_take_declared_categories(intercept: bool) -> None:
    names, X = by_hand("b")
    own = indicators()
    model = PrivateLogisticRegression(
        epsilon=None, n_nodes=2, bounds=BOUNDS, strength=1e-9, fit_intercept=intercept
    ).fit(own, ILL)
    table = model.intervals(own, ILL, epsilon=None, categories=[[2, 1, 3]])
    fit = sm.Logit(ILL == "yes", X).fit(disp=0, cov_type="HC0")
    rows = {row.feature: row for row in table}
    wanted = dict(zip(names, zip(fit.params, fit.bse, strict=True), strict=True))
    for name, there in {"x0": "age", "x1": "site is 'a'", "x3": "site is 'c'"}.items():
        assert rows[name].coefficient == pytest.approx(wanted[there][0], abs=2e-3)
        assert rows[name].estimate == pytest.approx(wanted[there][0], abs=2e-3)
        assert rows[name].standard_error == pytest.approx(wanted[there][1], rel=1e-3)
    assert "x2" not in rows and any("reference: x2" in note for note in table.notes)
    with pytest.raises(InputError, match="twice"):
        model.intervals(own, ILL, epsilon=None, categories=[[1, 2], [2, 3]])
    with pytest.raises(InputError, match="at least two"):
        model.intervals(own, ILL, epsilon=None, categories=[[1]])


def test_a_refused_question_charges_nothing(tmp_path: Path) -> None:
    """The ledger holds the fit alone; with anyway=True it holds the question too."""
    ledger = tmp_path / "ledger.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivateLogisticRegression(
            epsilon=1.0, n_nodes=2, bounds=BOUNDS, ledger=ledger, dataset="t", random_state=0
        ).fit(indicators(), ILL)
        before = charged(ledger)
        expected = model.forecast_intervals(epsilon=0.02, categories=[[1, 2, 3]])
        assert expected is not None and expected.names == ("x0", "x2", "x3", "x4")
        assert not expected.visible.any() and np.isfinite(expected.needed).all()
        with pytest.raises(PrivacyError, match="nothing was asked or charged.*anyway"):
            model.intervals(indicators(), ILL, epsilon=0.02, categories=[[1, 2, 3]])
        assert charged(ledger) == before and len(before[0]) == 1
        model.intervals(indicators(), ILL, epsilon=0.02, categories=[[1, 2, 3]], anyway=True)
    runs, epsilon = charged(ledger)
    assert len(runs) == 2 and epsilon > before[1]


def charged(ledger: Path) -> tuple[list[Any], float]:
    with LedgerStore(ledger) as store:
        return store.runs("t"), store.spent("t").curve.epsilon(1e-5)


def forecasts(epsilon: float, moment: Any = None, n: int = N) -> Any:
    """Of three features: one wide, one narrow, one that is half in the narrow direction."""
    asked = GradientMoments(2, "squared", (), 1.0, 1.0)
    shards = [(np.zeros((n, 2)), np.zeros(n))]
    facts = Facts.of(tc.Problem(shards, loss="squared", data_norm=1.0, clip_norm=1.0))
    run = at(np.zeros(2), "squared")
    matrix = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    names = ("wide", "narrow", "both")
    design = Design(names, matrix, np.zeros(3), np.zeros((0, 2)), None, moment)
    return asked, facts, run, forecast(asked, facts, tc.Privacy(epsilon), run, design)


def test_a_forecast_below_the_floor_of_a_whitened_run_is_a_lower_bound() -> None:
    """The run says no more about directions that were raised to its floor, be it one or two."""
    asked = GradientMoments(3, "squared", (), 1.0, 1.0)
    shards = [(np.zeros((N, 3)), np.zeros(N))]
    facts = Facts.of(tc.Problem(shards, loss="squared", data_norm=1.0, clip_norm=1.0))
    run = at(np.zeros(3), "squared")
    two, one = [False, True, True], [False, False, True]
    for values, floor, unsure in (
        ((0.5, 1e-5, 1e-5), 1e-5, two),
        ((0.5, 0.04, 0.03), 0.0, None),
        ((0.5, 0.04, 0.03), 0.03, one),
        ((0.5, 0.04, 0.03), 0.1, two),
    ):
        known = {MOMENT: packed(np.diag(values)), MOMENT_FLOOR: np.array([floor])}
        released = replace(run, released=known)
        found = forecast(asked, facts, tc.Privacy(1e4), released)
        assert found is not None
        assert (None if found.least is None else found.least.tolist()) == unsure
        assert found.visible.tolist() == [not x for x in unsure or [False] * 3]
        found.require_any()
        if unsure is None:
            continue
        assert "x2: more than" in str(found)
        assert [row["needs_more"] for row in found.to_plain()["rows"]] == unsure
        small = forecast(asked, facts, tc.Privacy(1e-4), released)
        assert small is not None
        with pytest.raises(PrivacyError, match="nothing was"):
            small.require_any()


def test_the_forecast_is_what_noise_of_that_size_leaves_visible() -> None:
    """Against one_step itself, at the epsilon that it names and just below it."""
    moment = np.diag([0.5, 1e-4])
    found = forecasts(1.0, moment)[3]
    assert found.needed[1] == pytest.approx(found.needed[2]) and found.needed[0] < found.needed[1]
    for times, seen in ((1.02, True), (0.98, False)):
        epsilon = float(found.needed[1]) * times
        asked, _, _, again = forecasts(epsilon, moment)
        assert again.visible.tolist() == [True, seen, seen]
        spec = tc.simulate(
            tc.Problem(
                [(np.zeros((N, 2)), np.zeros(N))], loss="squared", data_norm=1.0, clip_norm=1.0
            ),
            tc.graph.complete(1),
            StatisticRelease(asked, first=scales_of(asked)),
            2,
            tc.Privacy(epsilon),
            0,
            metrics=(),
        )
        sizes = float(spec.released["noise"][0]) / N, expected(asked).units
        slope, std = (sizes[0] * sizes[1][name] for name in ("gradient", "curvature"))
        spread = 0.1 * moment  # residuals, where labels lie in [-1, 1]
        told = Information(
            np.zeros(2), np.zeros(2), moment, spread, N, slope, std, hidden_score=10.0
        )
        assert one_step(told).seen.tolist() == [True, seen]
        text = str(again)
        assert ("all 3 rows" in text) == seen and ("narrow:" in text) != seen
    plain = again.to_plain()
    assert json.loads(json.dumps(plain))["rows"][0]["visible"] is True


def test_a_released_moment_and_the_scores_tell_the_curvature() -> None:
    """Of logistic regression, against the mean of p (1 - p) over normal scores."""
    asked = GradientMoments(2, "logistic")
    shards = [(np.zeros((N, 2)), np.zeros(N, int))]
    facts = Facts.of(tc.Problem(shards, loss="logistic", classes=(0, 1), data_norm=1.0))
    moment, w = np.array([[0.2, 0.05], [0.05, 0.25]]), np.array([2.0, -1.0])
    run = at(w, "logistic")
    run.released.update({MOMENT: packed(moment), MOMENT_FLOOR: np.zeros(1)})
    constant = np.array([0.0, 2.0])  # the second feature is always one half
    moment[1, 1] = 0.25
    design = Design(("a", "b"), np.eye(2), np.zeros(2), np.zeros((0, 2)), constant)
    mean = float(w @ moment @ constant)
    draws = mean + np.sqrt(w @ moment @ w - mean**2) * RNG.normal(size=400_000)
    p = 1 / (1 + np.exp(-draws))
    known = known_curvature(asked, facts, run, design.redundant, constant, None)
    np.testing.assert_allclose(known.guess, np.mean(p * (1 - p)) * moment, rtol=5e-3)
    assert "released" in known.assumed and known.sure is None


def test_a_whitened_run_leaves_its_moment() -> None:
    own = schema()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = tc.simulate(
            problem(own, loss="logistic", classes=(0, 1)),
            PAIR,
            "treegd",
            5,
            tc.Privacy(50.0),
            0,
            prepare="whitening",
            metrics=(),
        )
    X = encode(own, TABLE).X
    found = unpacked(run.released["second_moment"])
    np.testing.assert_allclose(found, X.T @ X / N, atol=0.02)
    # Two directions are redundant, and so raised; nothing that was raised lies above the floor
    e, floor = np.linalg.eigvalsh(found), float(run.released[MOMENT_FLOOR][0])
    assert e[0] > 0 and e[1] == pytest.approx(e[0]) and e[1] <= floor < e[2]


def test_the_command_line_forecasts_refuses_and_shows_contrasts(tmp_path: Path) -> None:
    own, data = tmp_path / "own.toml", tmp_path / "own.csv"
    schema("c").write(own)
    lines = [",".join(map(str, row)) for row in zip(AGE, SITE, SEX, ILL, strict=True)]
    data.write_text("\n".join(["age,site,sex,ill", *lines]))
    out, ledger = tmp_path / "run", tmp_path / "ledger.db"
    how = ("--set", f"run.ledger={ledger}", "--set", "run.ledger_dataset=t", "--nodes", "2")
    how = (*how, "--delta", "2e-6")  # the question's too, unless it states another
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tacenda(
            "fit", "--data", data, "--schema", own, "--epsilon", "40", "--folder", out, *how
        )
        assert made.exit_code == 0, made.output
        before = charged(ledger)
        refused = tacenda("coefficients", out, "--epsilon", "0.02")
        assert refused.exit_code == 3 and "--anyway" in refused.output
        assert "nothing was asked or charged" in " ".join(refused.output.split())
        assert charged(ledger) == before
        shown = tacenda("coefficients", out, "--epsilon", "8")
        assert shown.exit_code == 0, shown.output
        assert "Forecast: At epsilon 8" in shown.output
        assert "delta 2e-06, on top of" in " ".join(shown.output.split())
        assert charged(ledger)[1] > before[1]
        found = answer("coefficients", out)
        again = answer("coefficients", out, "--epsilon", "1", "--again", "--anyway")["forecast"]
    assert again["epsilon"] == 1.0 and again["assumed"]
    for row in again["rows"]:
        needed = row["needed_epsilon"]
        sure = needed is not None and not row["needs_more"]
        assert row["visible"] == (sure and needed <= 1.0)
    named = {row["feature"] for row in again["rows"]}
    assert named | {"intercept"} == {row["feature"] for row in found["coefficients"]}
    rows = {row["feature"]: row for row in found["coefficients"]}
    assert set(rows) == {"age", "site is 'a'", "site is 'b'", "sex is 'm'", "intercept"}
    assert all(row["low"] is not None for row in rows.values())
    assert any("site is 'c'" in note for note in found["notes"])


@pytest.mark.parametrize("seed", quickly.cases(range(4), lambda seed: seed == 0))
def test_a_named_epsilon_is_enough_when_it_is_asked_for(tmp_path: Path, seed: int) -> None:
    """One direction is narrow, `c` nearly follows from `a`: of it a run says little. As a user
    would: the number that is named is given to the question, and then to a run of its own."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(size=(2, 4000))
    c = np.clip(a + 0.1 * rng.normal(size=4000), 0, 1)
    ill = np.where(rng.random(4000) < 1 / (1 + np.exp(1.5 - 2 * a - b)), "yes", "no")
    data, own = tmp_path / "own.csv", tmp_path / "own.toml"
    lines = [",".join(map(str, row)) for row in zip(a, b, c, ill, strict=True)]
    data.write_text("\n".join(["a,b,c,ill", *lines]))
    columns = [{"kind": "numeric", "name": name, "low": 0, "high": 1} for name in "abc"]
    Schema.build(columns=columns, label={"name": "ill", "classes": ["no", "yes"]}).write(own)

    def rows_of(folder: Path, epsilon: float) -> dict[str, dict[str, Any]]:
        expected = question(folder, None, epsilon, None).forecast()
        assert expected is not None
        return {row["feature"]: row for row in expected.to_plain()["rows"]}

    epsilon, promised = 0.5, dict[str, float]()
    for turn in range(4):
        epsilon = epsilon if turn < 3 else 1000.0  # hides nothing: all rows are promised
        folder = tmp_path / f"run{turn}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = ("fit", "--data", data, "--schema", own, "--nodes", "4", "--no-references")
            how = ("--epsilon", epsilon, "--folder", folder, "--seed", seed)
            made = tacenda(*fit, *how, "--quiet")
            assert made.exit_code == 0, made.output
        rows = rows_of(folder, 0.1)
        for name, row in rows.items():
            if row["needs_more"]:
                continue
            assert row["needed_epsilon"] <= ALMOST * promised.get(name, math.inf)
            promised[name] = float(design_module._epsilon(row["needed_epsilon"]))
            assert rows_of(folder, promised[name])[name]["visible"]
        epsilon = float(design_module._epsilon(rows["c"]["needed_epsilon"]))
    assert set(promised) == set("abc")


def test_an_epsilon_is_named_rounded_up() -> None:
    found = [design_module._epsilon(x) for x in (2.61, 2.6, 0.0321, 13.2, 9.99, 100.0, np.inf)]
    assert found == ["2.7", "2.6", "0.033", "14", "10", "1e+02", "none would do"]


def test_a_forecast_names_rows_that_may_show_though_nothing_public_says_so() -> None:
    """Such a question is asked, so its forecast must be readable too."""
    needed, least = np.array([2.0, 0.5, 9.0]), np.array([True, False, True])
    asked = Forecast(("age", "dose", "sex"), 4.0, needed, "by hand", least)
    assert asked.worth_asking and asked.visible.tolist() == [False, True, False]
    assert "probably 1 of 3 rows will be visible, and 1 may be (by hand)" in str(asked)
    assert "age: more than 2" in str(asked)
    assert not Forecast(("age",), 1.0, np.array([2.0]), "", np.array([True])).worth_asking


def test_noise_alone_tells_no_error_of_a_difference_between_levels() -> None:
    own = schema()
    run = replace(at(np.ones(7), "logistic"), noise_std=np.full(7, 0.1))
    rows = {row.feature: row for row in run_coefficients(run, own.feature_names, own)}
    assert rows["age"].standard_error == pytest.approx(0.1 * own.rules[0].slope)
    assert rows["site is 'b'"].standard_error is None and rows["intercept"].standard_error is None
