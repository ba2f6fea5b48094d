"""Intervals of coefficients: without noise those of statsmodels; with noise, what the mechanism
really does; and nothing of the records that was not released."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

import tacenda as tc
from tacenda.algorithms.moments import MomentRegression
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.errors import InputError, PrivacyError, StateError, UnsupportedError
from tacenda.inference import Condition, GradientMoments, Inference, from_released, holm, intervals
from tacenda.inference.asking import check_width
from tacenda.inference.newton import Information, doubt, edge, one_step
from tacenda.questions.moments import unpacked
from tacenda.questions.statistics import ROUGHNESS
from tacenda.runtime.history import History
from tacenda.runtime.result import RunResult

RNG = np.random.default_rng(3)
N, D = 600, 4
X = RNG.normal(size=(N, D)) * 0.3
X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
TRUTH = np.array([1.5, -1.0, 0.0, 0.5])
CLASSES = (RNG.random(N) < 1 / (1 + np.exp(-X @ TRUTH))).astype(int)
VALUES = np.clip(0.3 * X @ TRUTH + 0.1 * RNG.normal(size=N), -1, 1)
PAIR, ONE = tc.graph.complete(2), tc.graph.complete(1)


def at(model: Any, loss: str) -> RunResult:
    """A run that released that model."""
    models = np.asarray(model, float)[None]
    about = {"problem": {"n_features": D, "loss": loss}, "algorithm": {"name": "treegd"}}
    return RunResult(models, models, History([]), None, {**about, "rounds": 5})


def problem(labels: Any, nodes: int = 2, **more: Any) -> tc.Problem:
    shards = tc.data.partition.even(X, labels, nodes, seed=0)
    return tc.Problem(shards, data_norm=1.0, **more)


def logistic() -> tc.Problem:
    return problem(CLASSES, loss="logistic", classes=(0, 1))


def squared(nodes: int = 2, **more: Any) -> tc.Problem:
    return problem(VALUES, nodes, loss="squared", **more)


@pytest.mark.parametrize(("covariance", "kind"), [("model", "nonrobust"), ("robust", "HC0")])
def test_without_noise_they_are_those_of_statsmodels_logit(covariance: str, kind: str) -> None:
    fit = sm.Logit(CLASSES, X).fit(disp=0, cov_type=kind, tol=1e-14)
    found = intervals(
        at(fit.params, "logistic"), logistic(), PAIR, covariance=covariance, level=0.9
    )
    np.testing.assert_allclose(found.estimate, fit.params, rtol=1e-8)
    np.testing.assert_allclose(found.standard_error, fit.bse, rtol=1e-8)
    np.testing.assert_allclose(np.array(found.interval()).T, fit.conf_int(0.1), rtol=1e-8)
    np.testing.assert_allclose(found.p_values(), fit.pvalues, rtol=1e-6)
    assert found.noise_error == pytest.approx(0) and found.privacy is None


@pytest.mark.parametrize(("covariance", "kind"), [("model", "nonrobust"), ("robust", "HC0")])
def test_without_noise_they_are_those_of_statsmodels_ols(covariance: str, kind: str) -> None:
    fit = sm.OLS(VALUES, X).fit(cov_type=kind, use_t=False)
    found = intervals(at(fit.params, "squared"), squared(), PAIR, covariance=covariance)
    np.testing.assert_allclose(found.standard_error, fit.bse, rtol=1e-8)
    # The step leaves no trace of a regulariser
    shrunk = np.linalg.solve(X.T @ X / N + 0.02 * np.eye(D), X.T @ VALUES / N)
    found = intervals(at(shrunk, "squared"), squared(), PAIR, covariance=covariance)
    np.testing.assert_allclose(found.estimate, fit.params, rtol=1e-8)
    assert np.all(found.standard_error >= fit.bse * (1 - 1e-9))


def test_one_round_of_moments_without_noise_is_least_squares() -> None:
    fit = sm.OLS(VALUES, X).fit(use_t=False)
    run = tc.simulate(squared(strength=0.01, regulariser="l2"), PAIR, MomentRegression(), 1)
    found = intervals(run, level=0.9)
    np.testing.assert_allclose(found.estimate, fit.params, rtol=1e-6)
    np.testing.assert_allclose(found.standard_error, fit.bse, rtol=1e-6)
    np.testing.assert_allclose(np.array(found.interval()).T, fit.conf_int(0.1), rtol=1e-5)


def symmetric(std: float, times: int) -> Any:
    return unpacked(std * RNG.normal(size=(times, D * (D + 1) // 2)))


def test_the_noise_part_is_what_other_noise_does() -> None:
    """Monte Carlo of the noise on gradient and curvature: covariance, and no bias."""
    H = np.diag([0.3, 0.2, 0.1, 0.15]) + 0.02
    g, w = np.array([0.05, -0.02, 0.01, 0.03]), np.ones(D)
    told = Information(w, g, H, np.zeros((D, D)), 1e9, 0.002, 0.008)
    exact = w - np.linalg.solve(H, g)
    noisy = [
        one_step(replace(told, gradient=g + 0.002 * RNG.normal(size=D), curvature=H + E)).values
        for E in symmetric(0.008, 3000)
    ]
    said = one_step(told)
    spread = np.cov(np.array(noisy).T)
    np.testing.assert_allclose(np.diag(said.noise), np.diag(spread), rtol=0.12)
    off = np.abs(np.mean(noisy, axis=0) - exact)
    assert np.all(off < 4 * np.sqrt(np.diag(spread) / 3000) + 0.05 * np.sqrt(np.diag(spread)))
    assert said.seen.all() and said.directions == 0 and said.short == 1.0


def test_hidden_directions_have_no_interval_and_stay_at_the_model() -> None:
    H, w = np.diag([1.0, 1.0, 1.0, 1e-4]), np.arange(4.0)
    found = one_step(Information(w, np.full(D, 0.1), H, H, 100, 0.001, 0.001))
    assert found.seen.tolist() == [True, True, True, False]
    assert found.directions == 1 and found.values[3] == 3.0 and found.short > 1
    nothing = one_step(Information(w, np.full(D, 0.1), 0 * H, H, 100, 0.01, 0.01))
    assert not nothing.seen.any() and np.array_equal(nothing.values, w)


def test_a_statistic_of_records_is_what_it_says_it_is() -> None:
    """Curvature, gradient, spread and cut share, computed by hand."""
    asked = GradientMoments(D, "squared", (), 1.0, 0.15)
    run = tc.simulate(squared(), PAIR, StatisticRelease(asked), 1, init=np.zeros(D))
    found = asked.means(run.released["total"], N)
    cut = np.clip(-VALUES, -0.15, 0.15)
    inside = np.abs(VALUES) <= 0.15
    np.testing.assert_allclose(found["curvature"], (X * inside[:, None]).T @ X / N, rtol=1e-9)
    np.testing.assert_allclose(found["gradient"], cut @ X / N, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["spread"], (X * cut[:, None] ** 2).T @ X / N, rtol=1e-9)
    assert float(found["cut"][0]) == pytest.approx(np.mean(~inside))
    assert sum(asked.shares.values()) == pytest.approx(1)
    made = from_released(asked, run)
    assert [c.name for c in made.failed] == ["clipping"]
    with pytest.raises(UnsupportedError, match="larger slope"):
        made.p_values()


@pytest.mark.parametrize("spread", ["full", "scalar", "none"])
@pytest.mark.parametrize("curvature", [True, False])
@pytest.mark.parametrize(("slope", "data_norm", "bend"), [(1.0, 1.0, None), (0.3, 3.0, 0.4)])
def test_a_record_at_its_bounds_has_exactly_the_norm_that_is_declared(
    spread: str, curvature: bool, slope: float, data_norm: float, bend: float | None
) -> None:
    """Each block takes its whole share: no unit is larger than it must be. And no two records are
    further apart than is said, by trying all angles between their rows."""
    asked = GradientMoments(2, "squared", (), data_norm, slope, curvature, spread, bend)
    shares = asked.shares
    own = {"curvature": data_norm**2 * min(bend or 1.0, 1.0), "gradient": slope * data_norm}
    own |= {"spread": slope**2 * (data_norm**2 if spread == "full" else 1.0), "cut": 1.0}
    for name, share in shares.items():
        assert asked.units[name] * np.sqrt(share) == pytest.approx(own[name])
    assert sum(shares.values()) == pytest.approx(1.0)
    matrices = shares.get("curvature", 0.0) + (shares.get("spread", 0.0) * (spread == "full"))
    t = np.linspace(0, 1, 100_001)
    apart = matrices * np.maximum(1, 2 - 2 * t * t) + 2 * shares["gradient"] * (1 + t)
    worst = np.sqrt(apart.max() + 1 - matrices - shares["gradient"])
    said = min(worst * (1 + ROUGHNESS), asked.loosely_replaced)
    assert asked.replaced == pytest.approx(said, rel=1e-8) and asked.replaced >= worst


def test_a_share_that_was_cut_is_told_with_its_noise() -> None:
    asked = GradientMoments(D, "squared", (), 1.0, 0.15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = tc.simulate(
            squared(), PAIR, StatisticRelease(asked), 1, tc.Privacy(20.0), 0, init=np.zeros(D)
        )
    (said,) = [c.text for c in from_released(asked, run).conditions if c.name == "clipping"]
    std = float(run.released["noise"][0]) / N * asked.units["cut"]
    assert f"cut to 0.15 (known to {std:.2g})" in said


def test_the_widest_question_is_asked_and_a_wider_one_refused() -> None:
    check_width(1000)
    with pytest.raises(UnsupportedError, match="at most 1000 features, and this one has 1001"):
        check_width(1001)


def test_nothing_that_was_not_released_is_read() -> None:
    """Other records with the same released numbers: the same intervals, to the bit."""
    asked = GradientMoments(D, "logistic")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run, other = (
            tc.simulate(p, PAIR, StatisticRelease(asked), 1, tc.Privacy(2.0), 1, init=TRUTH)
            for p in (logistic(), problem(1 - CLASSES, loss="logistic", classes=(0, 1)))
        )
    assert not np.array_equal(run.released["total"], other.released["total"])
    swapped = from_released(asked, replace(other, released=run.released))
    assert swapped.to_plain() == from_released(asked, run).to_plain()


def test_p_values_need_their_conditions_and_name_what_fails() -> None:
    start = at(TRUTH, "logistic")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noisy = intervals(start, logistic(), PAIR, privacy=tc.Privacy(0.1), seed=0, anyway=True)
    assert "noise" in [c.name for c in noisy.failed] and not noisy.shown.all()
    assert np.isnan(noisy.standard_error[~noisy.shown]).all()
    with pytest.raises(UnsupportedError, match="as many records"):
        noisy.p_values()
    far = intervals(at(np.full(D, 4.0), "logistic"), logistic(), PAIR)
    assert [c.name for c in far.failed] == ["step"] and not far.shown.any()
    few = tc.Problem([(X[:50], CLASSES[:50])], loss="logistic", classes=(0, 1), data_norm=1.0)
    assert "records" in [c.name for c in intervals(start, few, ONE).failed]


def test_what_cannot_be_told_is_refused() -> None:
    start = at(TRUTH, "logistic")
    with pytest.raises(InputError, match="released too little"):
        intervals(start)
    with pytest.raises(InputError, match="graph must be given"):
        intervals(start, logistic())
    with pytest.raises(InputError, match="slope is for losses"):
        intervals(start, logistic(), PAIR, slope=2.0)
    with pytest.raises(UnsupportedError, match="smooth"):
        intervals(start, problem(CLASSES, loss="hinge", classes=(0, 1)), PAIR)
    with pytest.raises(UnsupportedError, match="robust"):
        intervals(start, problem(VALUES, loss="huber"), PAIR, covariance="model")
    three = problem(CLASSES + (X[:, 0] > 0), loss="multinomial", classes=(0, 1, 2))
    with pytest.raises(UnsupportedError, match="one score"):
        intervals(start, three, PAIR)
    with pytest.raises(UnsupportedError, match="radius"):
        intervals(at(np.full(D, 1e9), "logistic"), logistic(), PAIR)
    with pytest.raises(InputError, match="coefficients"):
        intervals(at(np.ones(D + 1), "logistic"), logistic(), PAIR)


def test_a_linear_map_carries_covariance_and_what_is_hidden(tmp_path: Any) -> None:
    root = RNG.normal(size=(D, D))
    made = Inference(
        TRUTH,
        root @ root.T,
        np.eye(D),
        np.eye(D)[:, 3:],
        0.9,
        "By hand.",
        (Condition("records", True, "Enough."),),
    )
    L = np.array([[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    there = made.mapped(L, np.array([5.0, 0.0]))
    assert there.estimate[0] == pytest.approx(5 + TRUTH[0] + 2 * TRUTH[1])
    v = L[0] @ (root @ root.T + np.eye(D)) @ L[0]
    assert there.standard_error[0] == pytest.approx(np.sqrt(v))
    assert there.shown.tolist() == [True, False] and np.isnan(there.interval()[0][1])
    assert Inference.load(made.save(tmp_path / "found.json")).to_plain() == made.to_plain()
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(StateError, match="format"):
        Inference.load(tmp_path / "bad.json")
    with pytest.raises(StateError, match="read"):
        Inference.load(tmp_path / "absent.json")


def test_holm_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    p = RNG.random(12) ** 3
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1], rtol=1e-12)
    assert np.isnan(holm([np.nan, 0.2])[0]) and holm([np.nan, 0.2])[1] == 0.2
    assert holm([]).shape == (0,)


def test_a_question_that_noise_would_hide_is_refused_before_it_is_charged(tmp_path: Any) -> None:
    ledger, start, few = tmp_path / "ledger.db", at(TRUTH, "logistic"), tc.Privacy(0.01)
    with pytest.raises(PrivacyError, match="nothing was asked or charged"):
        intervals(start, logistic(), PAIR, privacy=few, ledger=ledger, dataset="a")
    assert not ledger.exists()


def test_two_questions_with_one_seed_share_no_noise() -> None:
    """What two releases shared could be taken off; the same question gives the same answer."""
    budget, drawn = tc.Privacy(2.0), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for asked in (
            GradientMoments(D, "logistic"),
            GradientMoments(D, "logistic", spread="none"),
        ):
            noisy, exact = (
                tc.simulate(logistic(), PAIR, StatisticRelease(asked), 1, p, seed=1, init=TRUTH)
                for p in (budget, None)
            )
            noise = noisy.released["total"] - exact.released["total"]
            drawn.append(noise[:8] / float(noisy.released["noise"][0]))
        mine, again = (
            intervals(at(TRUTH, "logistic"), logistic(), PAIR, privacy=budget, seed=1)
            for _ in range(2)
        )
    assert not np.allclose(*drawn, atol=0.05)
    assert again.to_plain() == mine.to_plain()


def test_a_person_with_several_records_widens_them() -> None:
    asked = GradientMoments(D, "logistic")
    run = tc.simulate(logistic(), PAIR, StatisticRelease(asked), 1, init=TRUTH)
    about = {**run.settings["problem"], "records_per_person": 2, "members_per_person": 2}
    people = replace(run, settings={**run.settings, "problem": about})
    one, four = from_released(asked, run), from_released(asked, people)
    np.testing.assert_allclose(four.standard_error, 2 * one.standard_error)
    assert any("at most 4" in c.text for c in four.conditions)


def test_estimators_ask_in_the_users_own_units() -> None:
    """Against statsmodels on unscaled features, with an intercept."""
    from tacenda.estimators import PrivateLogisticRegression, PrivateRidge

    own = X * np.array([10.0, 1.0, 3.0, 50.0]) + np.array([5.0, 0.0, 1.0, -20.0])
    reach = 2 * np.ptp(own, axis=0)  # so wide that no row is shortened
    low, high = own.mean(axis=0) - reach, own.mean(axis=0) + reach
    how: dict[str, Any] = {"epsilon": None, "n_nodes": 2, "bounds": (low, high), "strength": 1e-9}
    model = PrivateLogisticRegression(**how, data_norm=10.0).fit(own, CLASSES)
    assert model.coef_table_.level is None
    table = model.intervals(own, CLASSES, epsilon=None, covariance="model", level=0.9)
    fit = sm.Logit(CLASSES, np.column_stack([own, np.ones(N)])).fit(disp=0, tol=1e-14)
    found = {row.feature: row for row in table}
    for j, name in enumerate(["x0", "x1", "x2", "x3", "intercept"]):
        assert found[name].estimate == pytest.approx(fit.params[j], rel=1e-3)
        assert found[name].standard_error == pytest.approx(fit.bse[j], rel=1e-3)
        assert found[name].low == pytest.approx(fit.conf_int(0.1)[j][0], rel=1e-2)
    assert model.coef_table_.level == 0.9 and found["intercept"].p_value is None
    assert found["x0"].p_holm >= found["x0"].p_value
    y = 100 + 40 * VALUES
    ridge = PrivateRidge(**how, data_norm=10.0, target_bounds=(60, 140)).fit(own, y)
    ols = sm.OLS(y, np.column_stack([own, np.ones(N)])).fit(use_t=False)
    rows = {r.feature: r for r in ridge.intervals(own, y, epsilon=None, covariance="model")}
    assert rows["intercept"].estimate == pytest.approx(ols.params[4], rel=1e-4)
    assert rows["intercept"].standard_error == pytest.approx(ols.bse[4], rel=1e-3)
    assert rows["x3"].standard_error == pytest.approx(ols.bse[3], rel=1e-3)


def test_intervals_of_counts_are_of_the_rates_in_the_users_own_units() -> None:
    """Counts are learnt in units of a typical one, and the intercept is mapped back."""
    from tacenda.estimators import PrivatePoissonRegressor

    own = X * np.array([10.0, 1.0, 3.0, 50.0])
    counts = np.random.default_rng(3).poisson(np.exp(0.3 * VALUES + 0.5)).astype(float)
    ends = np.abs(own).max(axis=0)
    model = PrivatePoissonRegressor(
        None, n_nodes=2, bounds=(-ends, ends), strength=1e-9, count_bound=80, typical_count=3.0
    ).fit(own, counts)
    fit = sm.Poisson(counts, sm.add_constant(own, prepend=False)).fit(
        disp=0, tol=1e-14, cov_type="HC0"
    )
    rows = {row.feature: row for row in model.intervals(own, counts, epsilon=None)}
    for j, name in enumerate(["x0", "x1", "x2", "x3", "intercept"]):
        assert rows[name].estimate == pytest.approx(fit.params[j], rel=1e-3, abs=1e-4)
        assert rows[name].standard_error == pytest.approx(fit.bse[j], rel=1e-2)
    with pytest.raises(UnsupportedError, match="'poisson': it does not say how far labels vary"):
        model.intervals(own, counts, epsilon=None, covariance="model")


def test_the_study_of_coverage_draws_what_a_run_releases() -> None:
    from benchmarks.intervals import asked_sums

    asked = GradientMoments(D, "logistic")
    run = tc.simulate(logistic(), PAIR, StatisticRelease(asked), 1, init=TRUTH)
    sums = asked_sums(asked, X, 2.0 * CLASSES - 1, TRUTH)
    np.testing.assert_allclose(run.released["total"], sums, rtol=1e-9, atol=1e-9)


def test_the_edge_is_the_quantile_of_the_largest_eigenvalue_of_pure_noise() -> None:
    """Against draws; for one direction against the normal distribution."""
    from scipy.stats import norm

    rng = np.random.default_rng(5)
    assert norm.sf(edge(np.array(1))) == pytest.approx(0.0075, abs=0.001)
    for j in (2, 3, 5, 20):
        drawn = rng.normal(size=(6000, j, j))
        largest = np.linalg.eigvalsh((drawn + drawn.transpose(0, 2, 1)) / 2)[:, -1]
        assert np.mean(largest > edge(np.array(j))) == pytest.approx(0.009, abs=0.005)


def test_noise_in_empty_directions_is_not_taken_for_curvature() -> None:
    """Forty features without any curvature beside two with much: noise of forty directions alone
    has eigenvalues of nine standard deviations."""
    rng, d, std = np.random.default_rng(6), 42, 0.001
    H = np.diag([0.5, 0.3] + [0.0] * 40)
    for _ in range(50):
        drawn = rng.normal(size=(d, d)) * std
        told = Information(np.zeros(d), np.zeros(d), H + (drawn + drawn.T) / 2, H, 1e5, std, std)
        assert one_step(told).directions >= 40


@pytest.mark.parametrize("collinear", [True, False])
def test_a_column_that_nearly_follows_from_others_gives_no_false_interval(collinear: bool) -> None:
    """Columns a, b, c and a constant, c = 0.03 a + b up to 0.002: the coefficients of b and c are
    50 and -50, and the released model, which a regulariser holds, has next to nothing of them. The
    rule that showed rows of which 5 % were hidden covered the coefficient of a in none of these
    draws."""
    rng, n, std = np.random.default_rng(7), 200_000, 2e-4
    X = np.column_stack([rng.uniform(size=(n, 3)), np.ones(n)])
    if collinear:
        X[:, 2] = 0.03 * X[:, 0] + X[:, 1] + 0.002 * rng.normal(size=n)
    X /= 2
    t = np.array([3.0, 100.0, -100.0, 1.0]) if collinear else np.array([3.0, 1.0, -1.0, 1.0])
    H = X.T @ X / n
    held, shown = np.zeros(4), np.zeros(4)
    for _ in range(400):
        s = t + np.linalg.solve(H, np.linalg.cholesky(0.1 * H) @ rng.normal(size=4)) / np.sqrt(n)
        w = np.linalg.solve(H + 1e-4 * np.eye(4), H @ s)
        drawn = rng.normal(size=(4, 4)) * std
        told = Information(
            w,
            H @ (w - s) + std * rng.normal(size=4),
            H + (drawn + drawn.T) / 2,
            0.1 * H,
            n,
            std,
            std,
        )
        made = one_step(told)
        found = Inference(
            made.values, made.sampling, made.noise, made.redundant, 0.95, "", spill=made.spill
        )
        low, high = found.interval()
        shown += found.shown
        held += (low <= t) & (t <= high)
    if collinear:
        assert shown.sum() <= 0.02 * 4 * 400  # those in which noise looks like curvature
    else:
        assert np.all(shown >= 0.95 * 400) and np.all(held / shown > 0.92)


def test_rows_away_from_a_hidden_direction_are_shown_and_wider() -> None:
    """A direction without curvature, apart from the others but for the noise: their intervals hold
    what it may add, and the estimates of the others stay covered."""
    rng, n, std = np.random.default_rng(8), 20_000.0, 1e-5
    H, t = np.diag([0.2, 0.1, 1e-7]), np.array([1.0, -2.0, 15.0])
    held = told_apart = 0
    for _ in range(300):
        s = t + np.append(rng.normal(size=2) / np.sqrt(np.diag(H)[:2] * n), 0.0)
        w = np.array([s[0], s[1], 0.0])
        drawn = rng.normal(size=(3, 3)) * std
        told = Information(w, H @ (w - s), H + (drawn + drawn.T) / 2, H, n, 1e-9, std)
        made = one_step(told)
        if made.directions == 0:  # noise that looks like curvature
            continue
        told_apart += 1
        assert made.seen.tolist() == [True, True, False]
        found = Inference(
            made.values, made.sampling, made.noise, made.redundant, 0.95, "", spill=made.spill
        )
        low, high = found.interval()
        assert np.all(high[:2] - low[:2] > 2 * 1.95 * found.standard_error[:2])
        held += int(np.sum((low[:2] <= t[:2]) & (t[:2] <= high[:2])))
        np.testing.assert_allclose(found.hidden_part, np.linalg.norm(made.spill, axis=1))
    assert told_apart >= 294 and held / (2 * told_apart) > 0.93


@pytest.mark.parametrize("true", [2.1, 3.0, 4.5, 14.0])
def test_what_luck_has_shown_is_covered_where_the_point_is_far(true: float) -> None:
    """A curvature near its edge, in standard deviations of its noise, is seen where the noise
    raised it, and the step from 0 is then too short."""
    rng, shown, held, before = np.random.default_rng(0), 0, 0, 0
    for noise, pull in rng.normal(size=(4000, 2)):
        told = Information(
            np.zeros(1),
            np.array([-true - pull]),  # the coefficient is 1
            np.array([[true + noise]]),
            np.zeros((1, 1)),
            1e9,
            gradient_std=1.0,  # about as of one round
            curvature_std=1.0,
            far=True,
        )
        if (made := one_step(told)).directions:
            continue
        error, near = abs(made.values[0] - 1.0), one_step(replace(told, far=False))
        shown += 1
        held += error <= 1.96 * np.sqrt(made.noise[0, 0])
        before += error <= 1.96 * np.sqrt(near.noise[0, 0])
    assert shown > 1000 and held / shown > 0.94
    if true < 4:  # what the study found, of another point
        assert before / shown < 0.9


def test_far_from_its_edge_an_eigenvalue_is_hardly_doubted() -> None:
    np.testing.assert_allclose(doubt(np.array([0.0, 1.0, 1.5, 3.0, 30.0])), [2, 2, 2, 1, 0.1])
