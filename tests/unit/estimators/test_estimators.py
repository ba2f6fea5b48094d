"""The estimators: scikit-learn's own contract, what users do with them, and what they promise."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import quickly
import tacenda as tc
from tacenda.errors import BudgetError, InputError
from tacenda.estimators import BudgetWarning, DeclarationWarning
from tacenda.privacy.lasting.ledger_store import LedgerStore

CLASSIFIERS = (tc.PrivateLogisticRegression, tc.PrivateLinearSVC)
REGRESSORS = (tc.PrivateRidge, tc.PrivateLasso, tc.PrivateElasticNet, tc.PrivateHuberRegressor)
LOW, HIGH = np.array([0.0, -10.0, 5.0, 0.0]), np.array([100.0, 10.0, 6.0, 1.0])
BOUNDS = (LOW, HIGH)


# A record of weight 2 is not two records: the number of records is public, and divides the losses
NO_EQUIVALENCE = {
    f"check_sample_weight_equivalence_on_{kind}_data": "the public number of records counts"
    for kind in ("dense", "sparse")
}


def records(n: int = 3000, classes: int = 2, seed: int = 0) -> tuple[Any, Any, Any]:
    """Features on very different scales inside BOUNDS; labels by a linear rule;
    a linear target in about 0..60."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, size=(n, 4))
    X = (LOW + HIGH) / 2 + u * (HIGH - LOW) / 2
    scores = (
        u @ rng.standard_normal((4, classes))
        if classes > 2
        else np.column_stack([0 * u[:, 0], u @ [2.0, -1.5, 1.0, 0.3] + 0.3])
    )
    y = np.array(["no", "yes", "perhaps"])[
        (scores + 0.1 * rng.gumbel(size=scores.shape)).argmax(axis=1)
    ]
    return X, y, 30 + u @ [12.0, -8.0, 4.0, 0.0] + rng.standard_normal(n)


@pytest.mark.parametrize(
    "kind",
    quickly.cases(
        CLASSIFIERS + REGRESSORS,
        lambda kind: kind in (tc.PrivateLogisticRegression, tc.PrivateRidge),
    ),
)
@pytest.mark.filterwarnings("ignore::tacenda.estimators.DeclarationWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_check_estimator(kind: Any) -> None:
    with warnings.catch_warnings():
        # The checks call fit on purpose with odd data, and warn themselves
        warnings.simplefilter("ignore")
        results = check_estimator(
            kind(
                weight_bound=10.0, **({"target_bounds": (-1e3, 1e3)} if kind in REGRESSORS else {})
            ),
            on_fail=None,
            expected_failed_checks=NO_EQUIVALENCE,
        )
    failed = {
        r["check_name"]: r["exception"]
        for r in results
        if r["status"] not in ("passed", "skipped", "xfail")
    }
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 40


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_binary_classifier_learns_and_states_its_privacy(kind: Any) -> None:
    X, y, _ = records()
    model = kind(epsilon=2.0, bounds=BOUNDS, classes=("no", "yes"), n_nodes=8, random_state=0).fit(
        X, y
    )
    assert model.score(X, y) > 0.85
    assert list(model.classes_) == ["no", "yes"]
    assert model.coef_.shape == (1, 4)
    assert model.intercept_.shape == (1,)
    assert model.node_coef_.shape == (8, 1, 4)
    np.testing.assert_allclose(model.node_coef_.mean(axis=0), model.coef_)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_[0])
    assert model.privacy_.epsilon == pytest.approx(2.0, abs=1e-6)
    assert (model.privacy_.delta, model.privacy_.adjacency) == (1e-5, "replace-one")
    assert len(model.history_) > 5
    assert model.n_iter_ == model.plan_.rounds
    nodes = X @ model.node_coef_[:, 0].T + model.node_intercept_[:, 0]
    assert np.mean((nodes > 0) == (y == "yes")[:, None], axis=0).min() > 0.85


def test_multiclass_probabilities_are_the_softmax() -> None:
    X, y, _ = records(6000, classes=3)
    model = tc.PrivateLogisticRegression(epsilon=3.0, bounds=BOUNDS, n_nodes=6, random_state=1).fit(
        X, y
    )
    assert model.coef_.shape == (3, 4)
    assert model.score(X, y) > 0.75
    scores = X @ model.coef_.T + model.intercept_
    by_hand = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), by_hand, rtol=1e-9)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(by_hand), rtol=1e-6, atol=1e-9)
    machine = tc.PrivateLinearSVC(3.0, bounds=BOUNDS, n_nodes=6, random_state=1).fit(X, y)
    assert machine.coef_.shape == (3, 4)
    assert machine.score(X, y) > 0.75
    np.testing.assert_array_equal(machine.to_sklearn().predict(X), machine.predict(X))


@pytest.mark.parametrize("kind", REGRESSORS)
def test_regressions_come_near_plain_ridge_in_the_users_units(kind: Any) -> None:
    X, _, t = records()
    plain = Ridge(alpha=1e-6).fit(X, t)
    model = kind(epsilon=2.0, bounds=BOUNDS, target_bounds=(0, 60), n_nodes=8, random_state=0).fit(
        X, t
    )
    assert model.score(X, t) > plain.score(X, t) - 0.05
    np.testing.assert_allclose(model.coef_ * (HIGH - LOW), plain.coef_ * (HIGH - LOW), atol=4.0)
    np.testing.assert_allclose(model.predict(X), np.clip(X @ model.coef_ + model.intercept_, 0, 60))
    assert model.node_coef_.shape == (8, 4)
    assert isinstance(model.intercept_, float)


def test_with_hardly_any_noise_logistic_regression_is_scikit_learns() -> None:
    """No intercept and rows inside the norm: the same objective,
    so the same weights as the noise goes away."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.5, 0.5, size=(4000, 4))
    y = (X @ [3.0, -2.0, 1.0, 0.0] + 0.5 * rng.logistic(size=4000) > 0).astype(int)
    model = tc.PrivateLogisticRegression(
        epsilon=1e4,
        delta=1e-3,
        bounds="norm",
        fit_intercept=False,
        strength=0.01,
        n_nodes=4,
        random_state=0,
        rounds=2000,
    ).fit(X, y)
    plain = LogisticRegression(C=1 / (0.01 * 4000), fit_intercept=False, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("form", ["pandas", "polars", "csr", "float32", "list"])
def test_forms_of_data_give_the_same_model(form: str) -> None:
    X, y, _ = records(600)

    def make() -> Any:
        return tc.PrivateLogisticRegression(
            bounds=(np.minimum(LOW, 0), HIGH), fit_intercept=False, n_nodes=4, random_state=5
        )

    if form in ("pandas", "polars"):
        frame = pytest.importorskip(form).DataFrame(
            X, **{"columns" if form == "pandas" else "schema": ["a", "b", "c", "d"]}
        )
        model = make().fit(frame, y)
        assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
        np.testing.assert_array_equal(model.predict(frame), model.predict(frame))
        np.testing.assert_allclose(model.coef_, make().fit(X, y).coef_)
    elif form == "csr":
        model = make().fit(csr_matrix(X), y)
        np.testing.assert_array_equal(model.predict(csr_matrix(X)), model.predict(X))
    elif form == "float32":
        np.testing.assert_allclose(
            make().fit(X.astype(np.float32), y).coef_, make().fit(X, y).coef_, rtol=1e-2, atol=1e-3
        )
    else:
        np.testing.assert_allclose(make().fit(X.tolist(), list(y)).coef_, make().fit(X, y).coef_)


def test_to_sklearn_predicts_the_same() -> None:
    X, y, t = records(1000)
    for kind in CLASSIFIERS:
        model = kind(bounds=BOUNDS, random_state=0).fit(X, y)
        plain = model.to_sklearn()
        assert type(plain).__module__.startswith("sklearn.")
        np.testing.assert_array_equal(plain.predict(X), model.predict(X))
        np.testing.assert_allclose(plain.decision_function(X), model.decision_function(X))
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), atol=1e-12)
    for kind in REGRESSORS:
        model = kind(bounds=BOUNDS, target_bounds=(0, 60), random_state=0).fit(X, t)
        np.testing.assert_allclose(np.clip(model.to_sklearn().predict(X), 0, 60), model.predict(X))
    X3, y3, _ = records(1000, classes=3)
    many = tc.PrivateLogisticRegression(bounds=BOUNDS, random_state=0).fit(X3, y3)
    np.testing.assert_allclose(
        many.to_sklearn().predict_proba(X3), many.predict_proba(X3), atol=1e-12
    )


def test_pipeline_clone_and_seeds() -> None:
    X, y, _ = records(600)
    pipe = make_pipeline(
        FunctionTransformer(),
        tc.PrivateLogisticRegression(bounds=BOUNDS, random_state=3, n_nodes=3),
    )
    nodes = np.repeat(["north", "south", "west"], 200)
    first = pipe.fit(X, y, privatelogisticregression__nodes=nodes).decision_function(X)
    np.testing.assert_array_equal(
        clone(pipe).fit(X, y, privatelogisticregression__nodes=nodes).decision_function(X), first
    )
    other = clone(pipe).set_params(privatelogisticregression__random_state=4)
    assert not np.allclose(
        other.fit(X, y, privatelogisticregression__nodes=nodes).decision_function(X), first
    )
    fresh = tc.PrivateLogisticRegression(bounds=BOUNDS)
    # Without random_state noise is new every time
    assert not np.allclose(fresh.fit(X, y).coef_, fresh.fit(X, y).coef_)
    generator = np.random.RandomState(1)
    fresh.set_params(random_state=generator)
    assert not np.allclose(fresh.fit(X, y).coef_, fresh.fit(X, y).coef_)


def test_a_search_warns_and_can_be_charged(tmp_path: Path) -> None:
    X, y, _ = records(400)
    book = tmp_path / "ledger.db"
    with LedgerStore(book) as store:
        store.set_budget("patients", 3.0, 1e-5)
    model = tc.PrivateLogisticRegression(
        bounds=BOUNDS, n_nodes=2, rounds=20, ledger=str(book), dataset="patients"
    )
    with pytest.warns(BudgetWarning, match="charged to the ledger"):
        search = GridSearchCV(model, {"strength": [1e-4, 1e-2]}, cv=2).fit(X, y)
    assert search.best_estimator_.privacy_.epsilon == pytest.approx(1.0, abs=1e-6)
    with LedgerStore(book) as store:
        spent = store.spent("patients").curve.epsilon(1e-5)
    # Four fits of the search and one refit compose to sqrt(5) mu(1):
    # more than one fit, less than the sum.
    assert spent == pytest.approx(2.43, abs=0.05)
    with pytest.raises(BudgetError, match="patients"):
        clone(model).set_params(epsilon=2.5).fit(X, y)
    unnamed = tc.PrivateLogisticRegression(
        bounds=BOUNDS, n_nodes=2, rounds=5, ledger=str(tmp_path / "other.db")
    )
    with pytest.warns(BudgetWarning, match="never add up"):
        cross_val_score(unnamed, X, y, cv=2)
    with pytest.warns(BudgetWarning, match="Pass ledger="):
        cross_val_score(
            tc.PrivateLogisticRegression(bounds=BOUNDS, n_nodes=2, rounds=5), X, y, cv=2
        )


def test_warnings_tell_nothing_about_the_data() -> None:
    X, y, _ = records(200)
    with pytest.warns(DeclarationWarning) as first:
        tc.PrivateLogisticRegression(n_nodes=2).fit(X, y)
    with pytest.warns(DeclarationWarning) as second:
        tc.PrivateLogisticRegression(n_nodes=2).fit(X / 1e6, y)
    assert [str(w.message) for w in first] == [str(w.message) for w in second]
    assert sum(issubclass(w.category, DeclarationWarning) for w in first) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeclarationWarning)
        tc.PrivateLogisticRegression(bounds="norm", n_nodes=2).fit(X, y)


def test_nodes_and_graphs() -> None:
    X, y, _ = records(600)
    nodes = np.array(["b", "a", "c"])[np.arange(600) % 3]
    graph = nx.Graph([("c", "b"), ("b", "a")])
    model = tc.PrivateLogisticRegression(bounds=BOUNDS, graph=graph, random_state=0).fit(
        X, y, nodes=nodes
    )
    assert model.node_labels_ == ("c", "b", "a")
    assert (
        tc.PrivateLogisticRegression(bounds=BOUNDS, graph="ring:5").fit(X, y).node_coef_.shape[0]
        == 5
    )
    assert (
        tc.PrivateLogisticRegression(bounds=BOUNDS, graph="ring", n_nodes=7)
        .fit(X, y)
        .node_coef_.shape[0]
        == 7
    )
    assert tc.PrivateLogisticRegression(bounds=BOUNDS).fit(X[:60], y[:60]).node_coef_.shape[0] == 1
    assert tc.PrivateLogisticRegression(bounds=BOUNDS).fit(X, y).node_coef_.shape[0] == 10
    with pytest.raises(InputError, match="one node for each"):
        tc.PrivateLogisticRegression(bounds=BOUNDS, graph="ring:5", n_nodes=4).fit(X, y)
    with pytest.raises(InputError, match="n_nodes"):
        tc.PrivateLogisticRegression(bounds=BOUNDS, n_nodes=4).fit(X, y, nodes=nodes)


@pytest.mark.parametrize("algorithm", ["ipadmm", "cdp-admm", tc.algorithms.DPDDA(offset=5.0)])
def test_named_algorithms(algorithm: Any) -> None:
    X, y, _ = records(600)
    model = tc.PrivateLogisticRegression(
        bounds=BOUNDS, algorithm=algorithm, rounds=10, n_nodes=5, random_state=0
    ).fit(X, y)
    assert model.plan_ is None
    assert model.n_iter_ == 10
    assert model.privacy_.epsilon == pytest.approx(1.0, abs=1e-6)
    # Closing mixings brought the nodes together
    assert np.ptp(model.node_coef_ * (HIGH - LOW), axis=0).max() < 0.1


def test_add_remove_needs_declared_sizes_and_halves_the_sensitivity() -> None:
    X, y, _ = records(600)
    nodes = np.arange(600) % 3
    with pytest.raises(InputError, match="public_sizes"):
        tc.PrivateLogisticRegression(bounds=BOUNDS, adjacency="add-remove").fit(X, y, nodes=nodes)
    model = tc.PrivateLogisticRegression(
        bounds=BOUNDS, adjacency="add-remove", n_nodes=3, public_sizes=200, coalition=None
    )
    twin = tc.PrivateLogisticRegression(bounds=BOUNDS, n_nodes=3, coalition=None)
    with pytest.raises(InputError, match="nodes must be given"):
        model.fit(X, y)  # one record more would move others from holder to holder
    model.fit(X, y, nodes=nodes)
    ratio = twin.fit(X, y).plan_.forecast.average_noise_std / model.plan_.forecast.average_noise_std
    # half the sensitivity; where there is less noise, the plan clips gradients less
    clips = [0.5, 0.6, 0.7, 0.85, 1.0, 1.2]
    assert any(pytest.approx(ratio * b / a) == 2.0 for a in clips for b in clips if b >= a)
    assert model.privacy_.adjacency == "add-remove"


def test_trust_is_stated() -> None:
    X, y, _ = records(600)
    model = tc.PrivateLogisticRegression(bounds=BOUNDS, n_nodes=10, random_state=0).fit(X, y)
    assert any("at most 1 curious data holder" in c for c in model.conditions_)
    assert any("random_state" in c for c in model.conditions_)
    alone = tc.PrivateLogisticRegression(
        bounds=BOUNDS, n_nodes=10, coalition=None, classes=("no", "yes")
    ).fit(X, y)
    assert not any("curious" in c or "random_state" in c for c in alone.conditions_)
    assert any("label set was declared" in c for c in alone.conditions_)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 2}, "delta"),
        ({"strength": -1}, "strength"),
        ({"data_norm": 0}, "data_norm"),
        ({"algorithm": "ipadm"}, "ipadmm"),
        ({"algorithm": 5}, "algorithm"),
        ({"rounds": 0}, "rounds"),
        ({"classes": ("no",)}, "two classes"),
        ({"classes": ("no", "never")}, "declared classes"),
        ({"n_nodes": 0}, "n_nodes"),
        ({"n_nodes": 10_000}, "at most"),
        ({"coalition": -1}, "coalition"),
    ],
)
def test_bad_parameters_are_one_sentence(settings: dict[str, Any], word: str) -> None:
    X, y, _ = records(100)
    with pytest.raises(InputError, match=word):
        tc.PrivateLogisticRegression(**{"bounds": BOUNDS, **settings}).fit(X, y)


@pytest.mark.parametrize("kind", [tc.PrivateLogisticRegression, tc.PrivateHuberRegressor])
def test_auto_tunes_its_step_on_a_public_sample_and_charges_nothing_for_it(kind: Any) -> None:
    X, y, target = records(900)
    if kind is tc.PrivateLogisticRegression:
        z, about = y, {"classes": ("no", "yes")}
    else:
        z, about = target, {"target_bounds": (0, 60)}
    public = (X[:200], z[:200])
    # It lies beyond its bounds, and is clipped to them
    beyond = (10 * X[:200], z[:200])
    models = [
        kind(2.0, bounds=BOUNDS, n_nodes=5, random_state=0, **about).fit(
            X[200:], z[200:], public=sample
        )
        for sample in (None, public, beyond)
    ]
    assert [m.plan_.public_records for m in models] == [None, 200, 200]
    assert (
        models[1].privacy_.epsilon
        == pytest.approx(models[0].privacy_.epsilon)
        == pytest.approx(2.0)
    )
    steps = [model.plan_.forecast.step for model in models]
    assert models[1].plan_.longer in (pytest.approx(steps[1] / steps[0]), 1)
    said = [" ".join(m.conditions_) for m in models]
    assert (
        "declared public" not in said[0]
        and "200 records declared public: these have no protection" in said[1]
    )
    assert "public" not in models[1].get_params()


def test_a_wrong_public_sample_is_named() -> None:
    X, y, _ = records(300)
    model = tc.PrivateLogisticRegression(1.0, bounds=BOUNDS, classes=("no", "yes"), n_nodes=3)
    for public, settings, words in (
        (X, {}, "pair"),
        ((X[:], np.where(y == "no", "nein", y)), {}, "not among the classes"),
        ((X[:, :2], y), {}, "features"),
        ((X[:5], y[:5]), {}, "at least 10"),
        ((X[:], y), {"algorithm": "dpdda"}, "'auto'"),
        ((X, y), {}, "private records themselves"),
    ):
        with pytest.raises(ValueError, match=words):
            clone(model).set_params(**settings).fit(X, y, public=public)


def test_a_public_sample_passes_through_a_pipeline_and_a_search() -> None:
    X, y, _ = records(400)
    model = tc.PrivateLogisticRegression(
        8.0, bounds=BOUNDS, classes=("no", "yes"), n_nodes=2, random_state=0
    )
    line = make_pipeline(FunctionTransformer(), model)
    line.fit(X, y, privatelogisticregression__public=(X[:100], y[:100]))
    assert line[-1].plan_.public_records == 100
    with pytest.warns(BudgetWarning):
        found = GridSearchCV(model, {"strength": [1e-3]}, cv=2).fit(X, y, public=(X[:100], y[:100]))
    assert found.best_estimator_.plan_.public_records == 100


def test_a_pickled_model_does_not_hold_the_seed_of_its_noise() -> None:
    X, y, _ = records(200)
    model = tc.PrivateLogisticRegression(bounds=BOUNDS).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.result_.settings["seed"] is None
    assert again.result_settings_["seed"] is None


def test_verbose_prints_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    X, y, _ = records(100)
    tc.PrivateLogisticRegression(bounds=BOUNDS, verbose=True).fit(X, y)
    assert "Why:" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(
    "TACENDA_DATA" not in os.environ,
    reason="needs the Adult files: set TACENDA_DATA to their folder",
)
@pytest.mark.parametrize(
    ("coalition", "objective", "accuracy"), [(1, 0.380, 0.825), (None, 0.415, 0.805)]
)
def test_adult_defaults_are_good(coalition: int | None, objective: float, accuracy: float) -> None:
    """100 nodes, random 6-regular, (1, 1e-5), replace-one, strength 1e-4, no intercept; mean of 5
    seeds, every node's own model."""
    data = tc.data.load("adult", encoding="papers")
    problem = tc.Problem(tc.data.partition.even(data.X, data.y, 100, seed=0), strength=1e-4)
    found = []
    for seed in range(5):
        model = tc.PrivateLogisticRegression(
            bounds="norm",
            fit_intercept=False,
            strength=1e-4,
            graph="random-regular:100,6",
            random_state=seed,
            coalition=coalition,
        ).fit(data.X, data.y)
        own = model.node_coef_[:, 0]
        found.append(
            (
                problem.objective(model.coef_[0]),
                problem.objective(own).max(),
                problem.accuracy(own).min(),
            )
        )
    average, worst, least = np.mean(found, axis=0)
    assert average <= worst + 1e-12 and worst <= objective  # by rounding, where all are one model
    assert least >= accuracy


@pytest.mark.parametrize("prepare", [None, "whitening", tc.Whitening(share=0.3)])
def test_treegd_by_name_and_whitening_before_it(prepare: Any) -> None:
    X, y, _ = records()
    model = tc.PrivateLogisticRegression(
        8.0,
        bounds=BOUNDS,
        classes=("no", "yes"),
        n_nodes=6,
        algorithm="treegd",
        prepare=prepare,
        rounds=20,
        random_state=0,
    ).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.privacy_.epsilon <= 8.0
    assert np.array_equal(model.node_coef_[0], model.node_coef_[5])  # one model, no closing rounds
    assert any("at most 1 curious data holder" in said for said in model.conditions_)
    name = model.result_.settings["algorithm"]["name"]
    assert name == ("treegd" if prepare is None else "whitened")
    assert clone(model).prepare == prepare


def test_auto_decides_by_itself_how_records_are_prepared() -> None:
    X, y, _ = records(300)
    model = tc.PrivateLogisticRegression(
        8.0, bounds=BOUNDS, classes=("no", "yes"), prepare="whitening"
    )
    with pytest.raises(InputError, match="prepare must be left out"):
        model.fit(X, y)


def test_names_of_scikit_learn_are_answered_with_ours() -> None:
    with pytest.raises(TypeError, match=r"has no 'C': use strength"):
        tc.PrivateLogisticRegression(C=1.0)
    with pytest.raises(TypeError, match=r"has no 'alpha': use strength"):
        tc.PrivateRidge(1.0, alpha=0.1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        tc.PrivateRidge(nonsense=1)


def test_missing_values_are_named_by_column_and_point_to_the_schema() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": [30.0, 40.0], "pay": [1.0, np.nan]})
    model = tc.PrivateLogisticRegression(bounds={"age": (18, 90), "pay": (0, 9)}, classes=(0, 1))
    with pytest.raises(InputError, match=r"NaN or infinity in \['pay'\].*schema"):
        model.fit(table, [0, 1])


def test_a_regression_without_target_bounds_is_refused() -> None:
    with pytest.raises(InputError, match=r"target_bounds must be declared"):
        tc.PrivateRidge(epsilon=1.0, bounds=(0, 1)).fit(np.zeros((9, 1)), np.arange(9.0))


def test_bounds_by_column_are_those_of_a_pair() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"b": rng.uniform(0, 2, 300), "a": rng.uniform(-1, 1, 300)})
    y = (table["a"] + table["b"] > 1).to_numpy().astype(int)
    how = {"epsilon": None, "classes": (0, 1), "n_nodes": 3, "random_state": 0}
    named = tc.PrivateLogisticRegression(bounds={"a": (-1, 1), "b": (0, 2)}, **how).fit(table, y)
    paired = tc.PrivateLogisticRegression(bounds=([0, -1], [2, 1]), **how).fit(table, y)
    np.testing.assert_array_equal(named.coef_, paired.coef_)
    assert named.coef_table_.to_plain() == paired.coef_table_.to_plain()
