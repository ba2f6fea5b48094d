"""Scikit-learn's machinery round the estimators: routing, pipelines, frames, public starts; fits
without privacy, zeros and warnings."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tacenda as tc
from tacenda.errors import InputError
from tacenda.estimators import WeakPrivacyWarning

pytestmark = pytest.mark.filterwarnings("ignore::tacenda.estimators.BudgetWarning")


def records(n: int = 600) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (n, 3))
    scores = X @ [3.0, -2.0, 1.0] + 0.5
    return X, np.where(scores + rng.logistic(size=n) > 0, "b", "a"), scores + rng.normal(size=n)


def classifier(epsilon: float | None = 4.0, **settings: Any) -> Any:
    given = {"bounds": (-1, 1), "classes": ("a", "b"), "random_state": 0, **settings}
    return tc.PrivateLogisticRegression(epsilon, **given)


def test_metadata_is_routed_through_pipelines_and_searches() -> None:
    X, y, _ = records()
    nodes, public = np.arange(len(y)) % 3, (X[:60], y[:60])
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            classifier(bounds=(-2, 2)).set_fit_request(sample_weight=True),
        )
        pipe.fit(X, y, nodes=nodes, public=public, sample_weight=np.full(len(y), 0.5))
        model = pipe[-1]
        assert model.node_coef_.shape[0] == 3
        assert model.plan_.public_records == 60
        scores = cross_val_score(pipe, X, y, cv=2, params={"nodes": nodes})
        assert scores.min() > 0.6
        search = GridSearchCV(classifier(), {"strength": [1e-4, 1e-2]}, cv=2)
        search.fit(X, y, nodes=nodes)
        assert search.best_estimator_.node_coef_.shape[0] == 3
    scores = cross_val_score(classifier(), X, y, cv=2, params={"nodes": nodes})
    assert scores.min() > 0.6


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_names_of_features_pass_through_set_output(form: str) -> None:
    frames = pytest.importorskip(form)
    X, y, _ = records(300)
    frame = frames.DataFrame({name: X[:, k] for k, name in enumerate("abc")})
    pipe = make_pipeline(StandardScaler(), classifier(bounds=(-2, 2))).set_output(transform=form)
    pipe.fit(frame, y)
    assert pipe[-1].feature_names_in_.tolist() == ["a", "b", "c"]
    again = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(again.predict(frame), pipe.predict(frame))
    plain = pipe[-1].to_sklearn()
    assert plain.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("intercept", [True, False])
def test_a_fit_starts_from_a_public_model_in_the_users_units(intercept: bool) -> None:
    """With next to no step to go, the fit ends where it began."""
    X, y, target = records()
    X = X * [10.0, 1.0, 0.1] + ([5.0, 0.0, 0.0] if intercept else 0.0)
    bounds = ([-5.0, -1.0, -0.1], [15.0, 1.0, 0.1])
    still = tc.algorithms.GossipGD(step_size=1e-12)
    about = {"bounds": bounds, "algorithm": still, "rounds": 1, "fit_intercept": intercept}
    plain = LogisticRegression(fit_intercept=intercept).fit(X, y)
    for init in (plain, (plain.coef_, plain.intercept_)):
        model = tc.PrivateLogisticRegression(1.0, **about, classes=("a", "b"), n_nodes=2)
        model.fit(X, y, init=init)
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-6)
        np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-6)
        assert any("init, which must be public" in c for c in model.conditions_)
    ridge = Ridge(fit_intercept=intercept).fit(X, target)
    model = tc.PrivateRidge(1.0, **about, target_bounds=(-2, 10), n_nodes=2)
    model.fit(X, target, init=ridge)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-5)
    three = np.where(X[:, 1] > 0.3, 2, (y == "b").astype(int))
    many = LogisticRegression().fit(X, three)
    machine = tc.PrivateLinearSVC(1.0, **{**about, "fit_intercept": True}, classes=(0, 1, 2))
    machine.fit(X, three, init=many)
    np.testing.assert_allclose(machine.coef_, many.coef_, atol=1e-6)


def test_a_start_helps_where_the_budget_is_small() -> None:
    X, y, _ = records(400)
    public = LogisticRegression().fit(*records(2000)[:2])
    for seed in range(3):
        alone, helped = (
            classifier(0.05, random_state=seed, n_nodes=4).fit(X, y, init=init)
            for init in (None, public)
        )
        assert helped.score(X, y) > alone.score(X, y) - 0.02
    assert helped.score(X, y) > 0.75


@pytest.mark.parametrize(
    "init",
    [np.zeros(2), "coef", (np.zeros(3), np.zeros(4)), (1, 2, 3), np.full(3, np.nan), object()],
)
def test_a_wrong_start_is_refused(init: Any) -> None:
    X, y, _ = records(60)
    with pytest.raises(InputError, match="init must be"):
        classifier().fit(X, y, init=init)


def test_a_start_of_other_classes_or_without_use_is_refused() -> None:
    X, y, _ = records(60)
    with pytest.raises(InputError, match="start of its own"):
        classifier(algorithm="dpdda").fit(X, y, init=np.zeros(3))
    other = LogisticRegression().fit(X, np.where(y == "a", "x", "y"))
    with pytest.raises(InputError, match="same classes"):
        classifier().fit(X, y, init=other)


@pytest.mark.parametrize(
    ("kind", "plain"),
    [(tc.PrivateLogisticRegression, LogisticRegression), (tc.PrivateLasso, Lasso)],
)
def test_without_privacy_the_fit_is_the_optimum(kind: Any, plain: Any, tmp_path: Any) -> None:
    X, y, target = records()
    X, r, n = 0.5 * X, 0.01, len(y)
    if plain is Lasso:
        z, about, given = target, {"target_bounds": (-1, 1)}, {"alpha": 0.05}
        z, r = np.clip(z / 8, -1, 1), 0.05
    else:
        z, about, given = y, {"classes": ("a", "b")}, {"C": 1 / (r * n)}
    model = kind(None, bounds="norm", fit_intercept=False, strength=r, **about).fit(X, z)
    wanted = plain(fit_intercept=False, tol=1e-10, **given).fit(X, z)
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(model.coef_ == 0, wanted.coef_ == 0)
    assert model.privacy_ is None and model.plan_ is None
    assert "There is no privacy" in model.conditions_[0] and len(model.conditions_) == 1
    again = tc.estimators.load_model(model.export(tmp_path / "model"))
    assert again.privacy_ is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert "No noise was added" in (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert clone(model).epsilon is None


def test_weights_that_are_only_noise_are_zero() -> None:
    """Exact zeros where the truth has none, at the default strength, and no worse a model."""
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(size=(7000, 30)) / 3, -1, 1)
    y = X @ np.r_[3.0, 2.0, 1.5, np.zeros(27)] + 0.5 * rng.normal(size=7000)
    X, new, y, goal = X[:4000], X[4000:], y[:4000], y[4000:]
    zeros, better = [], []
    for seed in range(4):
        model = tc.PrivateLasso(
            1.0, bounds=(-1, 1), target_bounds=(-4, 4), n_nodes=5, random_state=seed
        ).fit(X, y)
        given = model.path([model.strength_])
        error = np.mean((new @ given.coef[0] + given.intercept[0] - goal) ** 2)
        better.append(error - np.mean((new @ model.coef_ + model.intercept_ - goal) ** 2))
        zeros.append(np.sum(model.coef_[3:] == 0) - np.sum(given.coef[0] == 0))
        assert (model.coef_[:3] != 0).all()
        assert model.selection_strength_ >= model.strength_
        np.testing.assert_allclose(model.node_coef_, np.tile(model.coef_, (5, 1)))
    assert np.mean(zeros) > 8
    assert np.mean(better) > -1e-3


def test_predictions_stay_within_the_declared_bounds() -> None:
    X, _, target = records()
    model = tc.PrivateRidge(1.0, bounds=(-1, 1), target_bounds=(0, 3), random_state=0)
    model.fit(X, target)
    found = model.predict(10 * X)
    assert found.min() == 0 and found.max() == 3
    assert model.to_sklearn().predict(10 * X).min() < 0


def test_noise_above_all_signal_is_said_with_a_remedy() -> None:
    X, y, target = records()
    with pytest.warns(WeakPrivacyWarning, match="2 records on 2 nodes.*Use more records"):
        classifier(1.0, n_nodes=2).fit(X[:2], ["a", "b"])
    with pytest.warns(WeakPrivacyWarning, match="Too much noise"):
        tc.PrivateRidge(0.1, bounds=(-1, 1), target_bounds=(-1, 1)).fit(X[:30], target[:30])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier(4.0).fit(X, y)


@pytest.mark.parametrize(
    ("budget", "words"),
    [((1e9, 1e-5), "epsilon=1e.09 promises next to nothing"), ((1.0, 0.01), "delta=0.01 is above")],
)
def test_budgets_that_promise_nothing_are_said(budget: Any, words: str) -> None:
    X, y, _ = records(300)
    model = classifier(budget[0], delta=budget[1], n_nodes=2, algorithm="dpdda", rounds=2)
    with pytest.warns(WeakPrivacyWarning, match=words):
        model.fit(X, y)
    assert any("Weak privacy" in w for w in model.result_.warnings)


def test_text_is_refused_by_column_and_never_shown() -> None:
    X, y, _ = records(40)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X).rename(columns=str).assign(town="Elsewhere")
    for rows in (frame, frame.to_numpy()):
        with pytest.raises(InputError, match="X must hold numbers only, not text") as refused:
            classifier(1.0).fit(rows, y)
        assert "Elsewhere" not in str(refused.value)
    with pytest.raises(InputError, match=r"text in \['town'\]; encode it by a public schema"):
        classifier(1.0).fit(frame, y)


def test_more_nodes_than_records_names_the_parameter() -> None:
    X, y, _ = records(40)
    with pytest.raises(InputError, match="n_nodes must be at most .* records 40, not 41"):
        classifier(1.0, n_nodes=41).fit(X, y)


def test_balanced_weights_are_refused_with_an_example() -> None:
    X, y, _ = records(40)
    with pytest.raises(InputError, match=r"declare what is publicly known, for instance \{0: 1"):
        classifier(1.0, class_weight="balanced").fit(X, y)
