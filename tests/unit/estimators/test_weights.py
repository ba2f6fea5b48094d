"""Weights of records and classes: what they mean, what is refused, and scikit-learn's machinery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score

import tacenda as tc
from tacenda.errors import InputError
from tacenda.estimators import BudgetWarning

SETTINGS: dict[str, Any] = {"bounds": "norm", "fit_intercept": False, "n_nodes": 1}


def records(n: int = 400) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    y = (X @ [3.0, -2.0, 1.0] + 0.5 * rng.logistic(size=n) > 0.2).astype(int)
    return X, y, X @ [1.0, -0.5, 0.2] + 0.1 * rng.normal(size=n), rng.uniform(0, 2, n)


@pytest.mark.parametrize(
    "layout",
    [np.asarray, pytest.param(sparse.csr_matrix, marks=pytest.mark.slow), sparse.csr_array],
)
def test_without_privacy_weights_are_those_of_scikit_learn(layout: Any) -> None:
    X, y, target, weights = records()
    strength, n = 0.01, len(y)
    model = tc.PrivateLogisticRegression(
        None, weight_bound=2.0, class_weight={1: 3.0}, strength=strength, **SETTINGS
    ).fit(layout(X), y, sample_weight=weights)
    plain = LogisticRegression(
        C=1 / (strength * n), fit_intercept=False, tol=1e-10, class_weight={0: 1.0, 1: 3.0}
    ).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-3, atol=1e-4)
    ridge = tc.PrivateRidge(
        None, target_bounds=(-1, 1), weight_bound=2.0, strength=strength, **SETTINGS
    ).fit(layout(X), target, sample_weight=weights)
    plain = Ridge(alpha=strength * n, fit_intercept=False).fit(X, target, sample_weight=weights)
    np.testing.assert_allclose(ridge.coef_, plain.coef_, rtol=1e-3, atol=1e-5)


def test_weights_go_with_their_records_to_the_nodes() -> None:
    X, y, _, weights = records()
    nodes = np.array(["b", "a", "c"])[np.arange(len(y)) % 3]
    order = np.random.default_rng(0).permutation(len(y))

    def fitted(k: Any) -> Any:
        model = tc.PrivateLogisticRegression(None, bounds="norm", weight_bound=2.0)
        return model.fit(X[k], y[k], nodes=nodes[k], sample_weight=weights[k]).coef_

    np.testing.assert_allclose(fitted(order), fitted(np.arange(len(y))), rtol=1e-4)


def test_a_bound_is_paid_for_and_classes_count() -> None:
    """Weights of 1 under a bound of 4 are the same objective, with four times the noise."""
    X, y, _, _ = records(2000)
    settings = {"bounds": "norm", "n_nodes": 1, "random_state": 0, "algorithm": "dpdda"}
    plain = tc.PrivateLogisticRegression(1.0, rounds=5, **settings).fit(X, y)
    paid = tc.PrivateLogisticRegression(1.0, rounds=5, weight_bound=4.0, **settings)
    paid.fit(X, y, sample_weight=np.ones(len(y)))
    exact = tc.PrivateLogisticRegression(None, rounds=5, **settings).fit(X, y)
    assert any("weights from 0 to 4" in c for c in paid.conditions_)
    assert not any("weights" in c for c in plain.conditions_)
    noise = [m.coef_ - exact.coef_ for m in (plain, paid)]
    np.testing.assert_allclose(noise[1], 4 * noise[0], rtol=0.35)
    more = tc.PrivateLogisticRegression(
        2.0, bounds="norm", n_nodes=1, random_state=0, class_weight={0: 0.1}
    ).fit(X, y)
    assert np.mean(more.predict(X) == 1) > np.mean(plain.predict(X) == 1) + 0.1


@pytest.mark.parametrize(
    ("settings", "weights", "word"),
    [
        ({}, 3.0, "weight_bound=1"),
        ({}, -1.0, "from 0"),
        ({}, np.nan, "from 0"),
        ({}, 0.0, "zero for all"),
        ({"weight_bound": 0.0}, None, "weight_bound"),
        ({"class_weight": "balanced"}, None, "read from the private labels"),
        ({"class_weight": {7: 1.0}}, None, "not among the classes"),
        ({"class_weight": {0: -1.0}}, None, "class_weight"),
        ({"class_weight": {0: 0.0, 1: 0.0}}, None, "some class"),
    ],
)
def test_wrong_weights_are_refused(settings: Any, weights: Any, word: str) -> None:
    X, y, _, _ = records(60)
    given = None if weights is None else np.full(60, weights)
    with pytest.raises(InputError, match=word):
        tc.PrivateLogisticRegression(bounds="norm", classes=(0, 1), **settings).fit(
            X, y, sample_weight=given
        )


def test_cross_validation_passes_weights_and_nodes() -> None:
    X, y, _, weights = records()
    model = tc.PrivateLogisticRegression(
        8.0, bounds="norm", weight_bound=2.0, classes=(0, 1), random_state=0
    )
    with pytest.warns(BudgetWarning):
        scores = cross_val_score(
            model, X, y, cv=2, params={"nodes": np.arange(len(y)) % 2, "sample_weight": weights}
        )
    assert scores.min() > 0.5
