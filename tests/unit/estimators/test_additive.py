"""Additive estimators: without privacy against scikit-learn on the same functions, with privacy
against the linear model, and what they take and refuse."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import check_estimator

import quickly
import tacenda as tc
from tacenda.data.basis import Hats
from tacenda.errors import InputError, UnsupportedError
from tacenda.estimators import load_model

N = 6000
KINDS: Any = (
    tc.PrivateAdditiveClassifier,
    tc.PrivateAdditiveRegressor,
    tc.PrivateAdditivePoissonRegressor,
)
DECLARED: dict[str, Any] = {
    "bounds": {"age": (20, 80), "hour": (0, 24), "gain": (0, 1000)},
    "levels": {"ward": ["n", "s", "w"]},
    "cyclic": {"hour": 24},
    "log": ["gain"],
    "atoms": {"gain": [0]},
    "random_state": 0,
}


def frame(n: int = N, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Records, and a score that no straight line can follow."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, n),
            "ward": rng.choice(["n", "s", "w"], n),
            "hour": rng.uniform(0, 24, n),
            "gain": np.where(rng.random(n) < 0.5, 0.0, rng.uniform(1, 1000, n)),
        }
    )
    score = np.abs(X.age - 50) / 6 - 2.5 + 1.5 * np.cos(2 * np.pi * (X.hour - 22) / 24)
    score += np.where(X.gain == 0, 1.0, 0.0) + X.ward.map({"n": -1.0, "s": 0.0, "w": 1.0})
    return X, score.to_numpy()


def classes(score: Any, seed: int = 1) -> Any:
    return (score + np.random.default_rng(seed).logistic(size=len(score)) > 0).astype(int)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", quickly.cases(KINDS, lambda kind: kind is KINDS[0]))
def test_check_estimator(kind: Any) -> None:
    model = kind(weight_bound=10.0, functions=4)
    if kind is tc.PrivateAdditiveRegressor:
        model.set_params(target_bounds=(-1e3, 1e3))
    # A record of weight 2 is not two records: the number of records is public
    differs = {
        f"check_sample_weight_equivalence_on_{form}_data": "the public number of records counts"
        for form in ("dense", "sparse")
    }
    results = check_estimator(model, on_fail=None, expected_failed_checks=differs)
    failed = {
        r["check_name"]: r["exception"]
        for r in results
        if r["status"] not in ("passed", "skipped", "xfail")
    }
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 40


def test_without_privacy_it_is_scikit_learn_on_the_same_functions() -> None:
    X, score = frame(2000)
    X = X[["age"]]
    y = classes(score)
    model = tc.PrivateAdditiveClassifier(
        None, bounds={"age": (20, 80)}, n_nodes=1, classes=(0, 1), strength=1e-3
    ).fit(X, y)
    hats = Hats.evenly(20, 80, 32)
    # The constant is penalised as the others are, and the missing level was never seen
    rows = np.column_stack([hats(X.age.to_numpy()) @ hats.smoother, np.ones(len(X))])
    theirs = LogisticRegression(C=1 / (1e-3 * len(X)), fit_intercept=False, tol=1e-10).fit(rows, y)
    np.testing.assert_allclose(model.coef_[0, :32], theirs.coef_[0, :32], atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(rows), atol=1e-4)


def test_curves_beat_straight_lines_at_the_same_epsilon() -> None:
    X, score = frame(20_000)
    y, test = classes(score), frame(4000, seed=5)
    truth = classes(test[1], seed=6)
    model = tc.PrivateAdditiveClassifier(1.0, classes=(0, 1), n_nodes=5, **DECLARED).fit(X, y)
    dummies = pd.get_dummies(X, dtype=float)
    linear = tc.PrivateLogisticRegression(
        1.0,
        bounds={c: DECLARED["bounds"].get(c, (0, 1)) for c in dummies},
        classes=(0, 1),
        n_nodes=5,
        random_state=0,
    ).fit(dummies, y)
    best = log_loss(truth, 1 / (1 + np.exp(-test[1])))
    curves = log_loss(truth, model.predict_proba(test[0]))
    lines = log_loss(truth, linear.predict_proba(pd.get_dummies(test[0], dtype=float)))
    assert curves < best + 0.03 < lines - 0.05
    assert model.privacy_.epsilon == pytest.approx(1.0, abs=1e-3)


def test_numbers_counts_and_several_classes() -> None:
    X, score = frame(12_000)
    rng = np.random.default_rng(2)
    y = score + rng.normal(size=len(score))
    model: Any = tc.PrivateAdditiveRegressor(4.0, target_bounds=(-8, 8), **DECLARED).fit(X, y)
    assert model.score(X, y) > 0.8 * np.var(score) / np.var(y)
    y = rng.poisson(np.exp(score / 3))
    model = tc.PrivateAdditivePoissonRegressor(4.0, count_bound=15, **DECLARED).fit(X, y)
    truth = np.corrcoef(np.log(model.predict(X)), score)[0, 1]
    assert truth > 0.95
    y = np.digitize(score + rng.logistic(size=len(score)), [-1.0, 1.5])
    model = tc.PrivateAdditiveClassifier(4.0, classes=(0, 1, 2), **DECLARED).fit(X, y)
    assert model.predict_proba(X).shape == (12_000, 3)
    assert model.score(X, y) > 0.6


def test_forms_of_data_give_the_same_model() -> None:
    X, score = frame(2000)
    y = classes(score)
    model = tc.PrivateAdditiveClassifier(1.0, classes=(0, 1), n_nodes=3, **DECLARED).fit(X, y)
    other = clone(model).fit(pl.from_pandas(X), y)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    coded = X.assign(ward=X.ward.map({"n": 0, "s": 1, "w": 2}))
    declared = {**DECLARED, "levels": {"ward": [0, 1, 2]}}
    third = tc.PrivateAdditiveClassifier(1.0, classes=(0, 1), n_nodes=3, **declared).fit(coded, y)
    np.testing.assert_array_equal(model.coef_, third.coef_)


def test_a_missing_value_is_a_level_of_its_own() -> None:
    X, score = frame(6000)
    gone = np.random.default_rng(3).random(len(X)) < 0.3
    y = classes(np.where(gone, 3.0, score))
    X.loc[gone, "age"] = np.nan
    X.loc[gone, "ward"] = None
    model = tc.PrivateAdditiveClassifier(4.0, classes=(0, 1), **DECLARED).fit(X, y)
    chances = model.predict_proba(X)[:, 1]
    assert chances[gone].mean() == pytest.approx(y[gone].mean(), abs=0.06)
    assert chances[~gone].mean() == pytest.approx(y[~gone].mean(), abs=0.06)


def test_an_exported_model_predicts_the_same(tmp_path: Path) -> None:
    X, score = frame(2000)
    more = {"breaks": {"age": [30, 50]}, "pairs": [("age", "ward")], "linear": []}
    model = tc.PrivateAdditiveClassifier(2.0, classes=(0, 1), n_nodes=3, **DECLARED, **more)
    model.fit(X, classes(score))
    again = load_model(model.export(tmp_path / "model"))
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-12)
    assert again.schema_ == model.schema_
    for mine, theirs in zip(model.shapes_, again.shapes_, strict=True):
        assert mine.to_plain() == theirs.to_plain()
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "Additive, " in card and "| age*ward |" in card


PREDICT = """
import pickle, sys
sys.modules["tacenda"] = None
model, X = pickle.load(open(sys.argv[1], "rb"))
pickle.dump(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X),
            open(sys.argv[2], "wb"))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learn_predicts_the_same_without_tacenda(kind: Any, tmp_path: Path) -> None:
    X, score = frame(1500)
    X = X.assign(dose=np.random.default_rng(4).uniform(-2, 3, len(X)))
    X.loc[:40, "age"] = np.nan
    X.loc[20:60, "ward"] = None
    X.loc[70:75, "gain"] = -5.0  # beyond the bounds
    declared = {**DECLARED, "bounds": {**DECLARED["bounds"], "dose": (-2, 3)}, "linear": ["dose"]}
    declared |= {"pairs": [("age", "ward"), ("age", "gain")], "monotone": {"age": "increasing"}}
    if kind is tc.PrivateAdditiveClassifier:
        y, more = np.digitize(score, [-1.0, 1.5]), {"classes": (0, 1, 2)}
    else:
        y = np.clip(score + 3, 0, 9).round()
        more = {"target_bounds": (0, 9)} if kind is KINDS[1] else {"count_bound": 9}
    model = kind(4.0, n_nodes=3, **declared, **more).fit(X, y)
    (tmp_path / "model").write_bytes(pickle.dumps((model.to_sklearn(), X)))
    paths = [str(tmp_path / name) for name in ("model", "found")]
    subprocess.run([sys.executable, "-c", PREDICT, *paths], check=True)
    found = pickle.loads((tmp_path / "found").read_bytes())
    if kind is KINDS[1]:
        found = np.clip(found, 0, 9)  # as the estimator does
    mine = model.predict_proba(X) if kind is KINDS[0] else model.predict(X)
    if kind is KINDS[2]:
        found, mine = np.minimum(found, 9), np.minimum(mine, 9)
    np.testing.assert_allclose(found, mine, rtol=1e-9, atol=1e-12)


def test_two_classes_in_scikit_learn() -> None:
    X, score = frame(1500)
    coded = X.assign(ward=X.ward.map({"n": 0, "s": 1, "w": 2}))
    declared = {**DECLARED, "levels": {"ward": [0, 1, 2]}}
    model = tc.PrivateAdditiveClassifier(2.0, classes=(0, 1), n_nodes=3, **declared)
    model.fit(coded, classes(score))
    np.testing.assert_allclose(
        model.to_sklearn().predict_proba(coded), model.predict_proba(coded), atol=1e-12
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"atoms": {"size": [0]}}, "atoms names 'size'"),
        ({"log": ["ward"]}, "log names 'ward'"),
        ({"pairs": [("age", "age")]}, "pairs"),
        ({"breaks": {"age": [90]}}, "breaks must rise"),
        ({"bounds": {"age": (20, 80)}}, "bounds"),
    ],
)
def test_wrong_declarations_are_named(wrong: dict[str, Any], said: str) -> None:
    X, score = frame(200)
    model = tc.PrivateAdditiveClassifier(1.0, classes=(0, 1), **{**DECLARED, **wrong})
    with pytest.raises(InputError, match=said):
        model.fit(X, classes(score))


def test_infinity_and_undeclared_levels_are_refused_by_column() -> None:
    X, score = frame(200)
    y, model = classes(score), tc.PrivateAdditiveClassifier(1.0, classes=(0, 1), **DECLARED)
    with pytest.raises(InputError, match="'age' contains infinity"):
        model.fit(X.assign(age=np.inf), y)
    with pytest.raises(InputError, match="'ward'"):
        model.fit(X.assign(ward="e"), y)


def test_there_are_no_coefficients_with_units() -> None:
    X, score = frame(500)
    y = classes(score)
    model = tc.PrivateAdditiveClassifier(1.0, classes=(0, 1), **DECLARED).fit(X, y)
    assert not hasattr(model, "coef_table_")
    with pytest.raises(UnsupportedError, match="shapes_"):
        model.intervals(X, y, epsilon=1.0)


def test_shapes_are_the_truth_in_original_units() -> None:
    X, score = frame(20_000)
    y = classes(score)
    model = tc.PrivateAdditiveClassifier(4.0, classes=(0, 1), n_nodes=5, **DECLARED).fit(X, y)
    found = {shape.column: shape for shape in model.shapes_}
    order = [shape.importance for shape in model.shapes_]
    assert order == sorted(order, reverse=True)
    age = found["age"]
    truth = np.abs(np.array(age.x) - 50) / 6
    assert np.abs(age.y[0] - (truth - truth.mean())).max() < 0.6
    assert age.importance == pytest.approx(np.std(np.abs(X.age - 50) / 6), rel=0.2)
    ward = found["ward"]
    assert ward.steps == ["n", "s", "w", "missing"]
    assert ward.step_y[0, 2] - ward.step_y[0, 0] == pytest.approx(2.0, abs=0.4)
    gain = found["gain"]
    assert gain.steps == ["0", "missing"]
    assert gain.step_y[0, 0] - gain.y[0, 60] == pytest.approx(1.0, abs=0.4)
    hour = found["hour"]
    assert hour.y[0, 0] == pytest.approx(hour.y[0, -1])


def test_shapes_add_up_to_the_score() -> None:
    X, score = frame(3000)
    pairs = {"pairs": [("age", "ward")], "linear": ["age"]}
    model = tc.PrivateAdditiveClassifier(2.0, classes=(0, 1), **DECLARED, **pairs)
    model.fit(X, classes(score))
    parts = {shape.column: shape for shape in model.shapes_}
    record = pd.DataFrame({"age": [65.0], "ward": ["s"], "hour": [12.0], "gain": [0.0]})
    other = record.assign(age=35.0, ward="w", hour=6.0)

    def told(one: pd.DataFrame) -> float:
        row = one.iloc[0]
        total = parts["gain"].step_y[0, 0]
        for name in ("age", "hour"):
            total += np.interp(row[name], parts[name].x, parts[name].y[0])
        level = parts["ward"].steps.index(row["ward"])
        total += parts["ward"].step_y[0, level]
        both = parts["age*ward"]
        ages, levels = both.x
        grid = both.y[0].reshape(len(ages), len(levels))
        return float(total + np.interp(row["age"], ages, grid[:, levels.index(row["ward"])]))

    difference = model.decision_function(record)[0] - model.decision_function(other)[0]
    assert told(record) - told(other) == pytest.approx(difference, abs=0.02)


def test_the_band_of_noise_is_the_spread_over_seeds() -> None:
    X, score = frame(8000)
    y, declared = classes(score), {k: v for k, v in DECLARED.items() if k != "random_state"}
    fits = [
        tc.PrivateAdditiveClassifier(
            1.0, classes=(0, 1), n_nodes=3, functions=8, strength=1e-5, random_state=s, **declared
        ).fit(X, y)
        for s in range(12)
    ]
    shapes = [{shape.column: shape for shape in model.shapes_} for model in fits]
    for name in ("age", "hour"):
        curves = np.array([own[name].y[0] for own in shapes])
        band = np.mean([own[name].noise[0] for own in shapes], axis=0)
        ratio = curves.std(axis=0, ddof=1).mean() / band.mean()
        assert 0.2 < ratio < 1.2  # the forecast of the noise errs to the safe side


def test_monotone_curves_rise_and_stay_near() -> None:
    X = frame(8000)[0]
    y = classes((X.age.to_numpy() - 50) / 10)
    declared = {**DECLARED, "monotone": {"age": "increasing", "gain": "decreasing"}}
    model = tc.PrivateAdditiveClassifier(1.0, classes=(0, 1), **declared).fit(X, y)
    found = {shape.column: shape for shape in model.shapes_}
    assert np.diff(found["age"].y[0]).min() >= -1e-9
    assert np.diff(found["gain"].y[0]).max() <= 1e-9
    free = tc.PrivateAdditiveClassifier(1.0, classes=(0, 1), **DECLARED).fit(X, y)
    assert model.score(X, y) > free.score(X, y) - 0.01
    ages = pd.concat([X.iloc[:1]] * 200, ignore_index=True).assign(age=np.linspace(20, 80, 200))
    assert np.diff(model.decision_function(ages)).min() >= -1e-9


def test_the_forecast_decides_between_curves_and_lines(tmp_path: Path) -> None:
    X, score = frame(6000)
    declared = {**DECLARED, "classes": (0, 1)}
    model: Any = tc.PrivateClassifier(1.0, **declared).fit(X, classes(score))
    assert model.form_ == "additive" and model.schema_.additive
    curved = tc.PrivateAdditiveClassifier(1.0, **declared).fit(X, classes(score))
    np.testing.assert_array_equal(model.coef_, curved.coef_)
    few: Any = tc.PrivateClassifier(0.2, **declared).fit(X[:400], classes(score)[:400])
    assert few.form_ == "linear" and not few.schema_.additive
    assert few.plan_.forecast.excess_risk < 0.2
    lines = tc.PrivateAdditiveClassifier(0.2, linear=["age", "hour", "gain"], **declared)
    np.testing.assert_array_equal(few.coef_, lines.fit(X[:400], classes(score)[:400]).coef_)
    assert "straight lines: noise is forecast" in few.conditions_[-1]
    for one in (model, few):
        again = load_model(one.export(tmp_path / one.form_))
        assert again.form_ == one.form_
        np.testing.assert_allclose(again.predict_proba(X), one.predict_proba(X), atol=1e-12)


def test_the_forecast_decides_for_numbers_and_is_not_asked_where_nothing_is_planned() -> None:
    X, score = frame(3000)
    declared = {**DECLARED, "target_bounds": (-8, 8)}
    assert tc.PrivateRegressor(4.0, **declared).fit(X, score).form_ == "additive"
    assert tc.PrivateRegressor(0.1, **declared).fit(X[:300], score[:300]).form_ == "linear"
    assert tc.PrivateRegressor(None, **declared).fit(X[:300], score[:300]).form_ == "additive"
    named = tc.PrivateRegressor(0.1, algorithm="moments", **declared)
    assert named.fit(X[:300], score[:300]).form_ == "additive"
