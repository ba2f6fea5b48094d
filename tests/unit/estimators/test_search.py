"""A search inside one budget: what is charged, what is chosen, what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tacenda as tc
from tacenda.errors import InputError
from tacenda.estimators import search as searching
from tacenda.estimators import trainings as priced
from tacenda.estimators.trainings import trainings_of
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.lasting.ledger_store import LedgerStore

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(900, 2))
LINE = X @ [3.0, -2.0]
LABELS = np.where(LINE + RNG.logistic(size=900) > 0, "ill", "well")
TARGETS = LINE + RNG.normal(size=900)
NODES = np.repeat([0, 1, 2], [200, 300, 400])


def classifier(**settings: Any) -> Any:
    given = {"algorithm": "dpdda", "rounds": 4, "bounds": (-1, 1), "classes": ("ill", "well")}
    return tc.PrivateLogisticRegression(**{**given, **settings})


def ridge(**settings: Any) -> Any:
    return tc.PrivateRidge(bounds=(-1, 1), target_bounds=(-8, 8), algorithm="moments", **settings)


def charged_in_full(search: Any, ledger: Path, trainings: int) -> None:
    """The ledger holds every training: its mu^2 is their number times that of one, which follows
    from the budget alone."""
    with LedgerStore(ledger) as store:
        spent = store.spent("people").curve
        away = store.spent("people/held-out").curve
    whole = GaussianProfile(spent.mu).epsilon(1e-5)
    assert whole == pytest.approx(search.epsilon, rel=1e-6)
    assert search.training_privacy_.epsilon == pytest.approx(whole, rel=1e-6)
    runs = search.training_privacy_.charges
    assert len(runs) == trainings * 4  # rounds of each
    assert search.best_estimator_.epsilon == pytest.approx(
        GaussianProfile(spent.mu / math.sqrt(trainings)).epsilon(1e-5), rel=1e-6
    )
    assert away.epsilon(1e-5) == pytest.approx(search.epsilon, rel=1e-6)
    assert search.privacy_.epsilon <= search.epsilon * (1 + 1e-9)
    assert search.best_estimator_.privacy_.epsilon == search.privacy_.epsilon


def test_every_training_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "ledger.db"
    search = tc.PrivateSearchCV(
        classifier(),
        {"strength": [1e-4, 1e-2, 1e-2]},
        epsilon=2.0,
        random_state=1,
        ledger=ledger,
        dataset="people",
    ).fit(X, LABELS, nodes=NODES)
    charged_in_full(search, ledger, trainings=3)
    assert search.n_trainings_ == 3
    card = (search.best_estimator_.export(tmp_path / "model") / "model.json").read_text()
    assert f'"epsilon": {search.privacy_.epsilon}' in card

    # Another split would train on records that were held out, and the other way round
    with pytest.raises(InputError, match="never trained on"):
        clone(search).set_params(random_state=2).fit(X, LABELS, nodes=NODES)
    charged_in_full(search, ledger, trainings=3)  # and nothing was spent on it

    # Planted: only one of the trainings counts
    for module in (searching, priced):
        monkeypatch.setattr(module, "together", lambda statements, epsilon: statements[0])
    other = tmp_path / "other.db"
    wrong = clone(search).set_params(ledger=other).fit(X, LABELS, nodes=NODES)
    with pytest.raises(AssertionError):
        charged_in_full(wrong, other, trainings=3)


def test_the_choice_follows_from_released_scores() -> None:
    search = tc.PrivateSearchCV(
        classifier(rounds=200),  # enough that a strength makes a difference
        {"strength": [1e-4, 1e-3, 30.0]},
        epsilon=8.0,
        scoring="neg_log_loss",
        random_state=2,
    ).fit(X, LABELS, nodes=NODES)
    results = search.cv_results_
    scores, noise = results["mean_test_score"], results["noise_test_score"]
    assert search.best_index_ == int(np.argmax(scores))
    assert search.best_index_ < 2  # a huge strength leaves nothing
    assert scores[2] == pytest.approx(-math.log(2), abs=4 * noise[2] + 0.02)
    assert search.best_score_ == scores[search.best_index_]
    assert search.best_params_ == results["params"][search.best_index_]
    assert results["rank_test_score"][search.best_index_] == 1
    assert list(results["param_strength"]) == [1e-4, 1e-3, 30.0]
    # By how much one record moves the mean, over the mu of (8, 1e-5), which is below 2
    assert noise[0] > math.sqrt(3) / 180 * math.log(100) / 2
    assert search.score(X, LABELS) > 0.7
    assert set(search.predict(X[:9])) <= {"ill", "well"}
    assert search.predict_proba(X[:2]).shape == (2, 2)
    assert search.decision_function(X[:2]).shape == (2,)
    assert search.classes_.tolist() == ["ill", "well"]


def test_trainings_share_no_noise() -> None:
    # Equal noise in two of them would cancel in their difference
    search = tc.PrivateSearchCV(classifier(), {"strength": [1e-4, 1e-4]})
    search._known = search._labels(LABELS)
    part = {"X": X, "y": LABELS, "nodes": NODES}
    found = trainings_of(search, search._candidates(), part, [7, 8, 9])
    one, other = (t.models(search._candidates())[k].coef_ for k, t in enumerate(found))
    assert [t.arranged.estimator.random_state for t in found] == [7, 8]
    assert not np.allclose(one, other)


def test_all_strengths_of_a_regression_are_one_training() -> None:
    strengths = [1e-4, 1e-2, 100.0]
    search = tc.PrivateSearchCV(ridge(), {"strength": strengths}, epsilon=4.0, random_state=0).fit(
        X, TARGETS, nodes=NODES
    )
    best = search.best_estimator_
    assert search.n_trainings_ == 1
    assert best.epsilon == pytest.approx(4.0)
    assert search.best_params_["strength"] < 100.0
    path = best.path(strengths)
    assert np.allclose(best.coef_, path.coef[search.best_index_])
    assert best.intercept_ == pytest.approx(path.intercept[search.best_index_])
    assert best.get_params()["strength"] == strengths[search.best_index_]
    assert is_regressor(search) and search.score(X, TARGETS) > 0.5


def test_released_scores_are_those_of_the_records_held_out() -> None:
    # With next to no noise: the mean squared error of records that were not trained on
    search = tc.PrivateSearchCV(
        ridge(), {"strength": [1e-4, 10.0]}, epsilon=19.9, random_state=0, held_out=0.5
    ).fit(X, TARGETS, nodes=NODES)
    away = searching.held_out_records(NODES, 900, 0.5, "replace-one", np.random.default_rng(0))
    noise = search.cv_results_["noise_test_score"][0]
    error = np.mean((search.predict(X[away]) - TARGETS[away]) ** 2)
    assert noise < 0.06
    assert search.best_score_ == pytest.approx(-error, abs=4 * noise)


@pytest.mark.slow
def test_trainings_that_are_not_gaussian_add_up() -> None:
    search = tc.PrivateSearchCV(
        classifier(algorithm="dvp", rounds=1), {"strength": [1e-2, 1e-1]}, epsilon=2.0
    ).fit(X, LABELS, nodes=NODES)
    assert search.training_privacy_.epsilon <= 2.0
    assert search.best_estimator_.epsilon == pytest.approx(1.0)


def test_records_are_held_out_without_a_look_at_them() -> None:
    def drawn(nodes: Any, share: float, relation: str = "replace-one") -> np.ndarray:
        return searching.held_out_records(nodes, 900, share, relation, np.random.default_rng(5))

    away = drawn(NODES, 0.2)
    assert [int(away[k == NODES].sum()) for k in range(3)] == [40, 60, 80]
    assert int(drawn(None, 0.25).sum()) == 225
    few = drawn(np.repeat([0, 1], [2, 898]), 0.01)
    assert few[:2].sum() == 1 and few[2:].sum() == 9
    coins = drawn(NODES, 0.5, "add-remove")
    assert 380 < coins.sum() < 520
    with pytest.raises(InputError, match="at least 2"):
        drawn(np.repeat([0, 1], [1, 899]), 0.2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"param_grid": {"epsilon": [1.0, 2.0]}}, "param_grid must not vary 'epsilon'"),
        ({"param_grid": {"n_nodes": [2, 3]}}, "param_grid must not vary 'n_nodes'"),
        ({"param_grid": {"C": [1.0]}}, "param_grid names 'C'"),
        ({"held_out": 1.5}, "held_out"),
        ({"scoring": "neg_mean_squared_error"}, "scoring"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"estimator": make_pipeline(FunctionTransformer(), classifier())}, "pipeline"),
    ],
)
def test_what_a_search_refuses(settings: dict[str, Any], words: str) -> None:
    given = {"estimator": classifier(), "param_grid": {"strength": [1e-3]}, **settings}
    with pytest.raises(InputError, match=words):
        tc.PrivateSearchCV(**given).fit(X, LABELS, nodes=NODES)


def test_a_search_is_an_estimator() -> None:
    search = tc.PrivateSearchCV(classifier(), {"strength": [1e-3]}, epsilon=3.0)
    again = clone(search)
    assert again.get_params()["estimator__rounds"] == 4
    assert again.set_params(estimator__rounds=1, epsilon=5.0).estimator.rounds == 1
    assert is_classifier(again) and hasattr(again, "predict_proba")
    svc = tc.PrivateSearchCV(tc.PrivateLinearSVC(), {"strength": [1e-3]})
    assert not hasattr(svc, "predict_proba")
    whole = make_pipeline(FunctionTransformer(), again).fit(X, LABELS)
    assert whole.predict(X[:3]).shape == (3,)


def test_persons_are_on_one_side() -> None:
    ids = RNG.integers(0, 300, 900)
    model = classifier(adjacency="add-remove", n_nodes=1, public_sizes=800)
    search = tc.PrivateSearchCV(model, {"strength": [1e-3]}, epsilon=20.0, random_state=0)
    inner, outer = search._split(X, LABELS, None, ids, 3, np.random.default_rng(0))
    assert not set(inner["groups"]) & set(outer["groups"])
    assert 0.1 < len(outer["y"]) / 900 < 0.3
    search.fit(X, LABELS, groups=ids, records_per_person=3)
    for said in (search.privacy_, search.training_privacy_, search.held_out_privacy_):
        assert said.unit == "one person with at most 3 records"
        assert said.epsilon <= 20.0 * (1 + 1e-9)
    with pytest.raises(InputError, match="groups needs an estimator with adjacency='add-remove'"):
        tc.PrivateSearchCV(classifier(), {"strength": [1e-3]}).fit(X, LABELS, groups=ids)
    with pytest.raises(InputError, match="groups must be given"):
        search.fit(X, LABELS, records_per_person=3)
