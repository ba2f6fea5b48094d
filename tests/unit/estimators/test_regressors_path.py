"""Least squares estimators: by moments, with true zeros, and every strength from one fit."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tacenda.errors import InputError, UnsupportedError
from tacenda.estimators import PrivateElasticNet, PrivateHuberRegressor, PrivateLasso, PrivateRidge

RNG = np.random.default_rng(1)
X = RNG.uniform(-1, 1, size=(6000, 8))
TRUTH = np.array([4.0, -3.0, 2.0, 0, 0, 0, 0, 0])
Y = 10 + X @ TRUTH + RNG.normal(size=6000)
DECLARED: dict[str, Any] = {"bounds": (-1, 1), "target_bounds": (0, 20), "random_state": 0}
KINDS = [PrivateRidge, PrivateLasso, PrivateElasticNet]


@pytest.mark.parametrize("kind", KINDS)
def test_auto_is_by_moments_and_nearly_as_good_as_no_noise(kind: Any) -> None:
    model = kind(1.0, **DECLARED).fit(X, Y)
    assert model.plan_.algorithm.name == "moments" and model.n_iter_ == 9
    assert model.result_.settings["problem"]["clip_norm"] == 0.3
    noise_free = 1 - 1 / np.var(Y)
    assert model.score(X, Y) > noise_free - 0.02
    assert model.privacy_.epsilon == pytest.approx(1.0)
    assert np.array_equal(model.node_coef_, np.repeat(model.node_coef_[:1], 10, axis=0))


def test_a_lasso_has_true_zeros_and_finds_what_matters() -> None:
    model = PrivateLasso(1.0, strength=0.01, **DECLARED).fit(X, Y)
    assert np.flatnonzero(model.coef_).tolist() == [0, 1, 2]
    assert np.array_equal(np.sign(model.coef_[:3]), np.sign(TRUTH[:3]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_path_is_what_fits_with_those_strengths_would_give(kind: Any, intercept: bool) -> None:
    """With the same noise: the regulariser enters after the last release."""
    settings = {**DECLARED, "fit_intercept": intercept}
    model = kind(1.0, **settings).fit(X, Y)
    path = model.path([0.05, model.strength_])
    for k, strength in enumerate(path.strengths):
        other = kind(1.0, strength=strength, **settings).fit(X, Y)
        coef, intercept = in_own_units(other)
        assert np.allclose(path.coef[k], coef, rtol=1e-9, atol=1e-12)
        assert path.intercept[k] == pytest.approx(intercept, rel=1e-9)
        if kind is PrivateRidge:
            assert np.allclose(coef, other.coef_)
    assert np.allclose(path.coef[1], in_own_units(model)[0])


def in_own_units(model: Any) -> tuple[Any, float]:
    """The model that the run ended with, before weights of noise are set to 0."""
    coef, intercept = model._scaling.back(model.result_.model)
    reach, centre = model._target.reach, model._target.centre
    return coef * reach, float(intercept * reach + centre)


@pytest.mark.parametrize("kind", KINDS)
def test_the_path_goes_from_nothing_to_everything_and_costs_nothing(kind: Any) -> None:
    model = kind(1.0, **DECLARED).fit(X, Y)
    path, before = model.path_, model.privacy_.to_plain()
    assert path.coef.shape == (31, 8) and path.intercept.shape == (31,)
    assert np.all(np.diff(path.strengths) < 0)
    sizes = np.abs(path.coef).sum(axis=1)
    assert sizes[0] < 0.25 * sizes[-1]
    assert kind is PrivateRidge or sizes[0] == pytest.approx(0.0, abs=1e-9)
    predicted = X @ path.coef[-1] + path.intercept[-1]
    assert 1 - np.mean((Y - predicted) ** 2) / np.var(Y) > 0.85
    model.path(np.logspace(-3, 1, 5))
    assert model.privacy_.to_plain() == before


def test_a_fitted_model_keeps_its_path_in_a_pickle() -> None:
    model = pickle.loads(pickle.dumps(PrivateRidge(1.0, **DECLARED).fit(X, Y)))
    assert np.array_equal(model.path([0.1]).coef, model.path([0.1]).coef)


@pytest.mark.parametrize(
    "model",
    [PrivateRidge(1.0, algorithm="dpdda", rounds=5, **DECLARED), PrivateHuberRegressor(**DECLARED)],
    ids=["dpdda", "huber"],
)
def test_other_fits_have_no_path_and_say_what_to_do(model: Any) -> None:
    model.fit(X[:500], Y[:500])
    assert model.path_ is None
    with pytest.raises(UnsupportedError, match="algorithm='moments'"):
        model.path([0.1])


def test_a_strength_below_zero_is_refused() -> None:
    with pytest.raises(InputError, match="strengths must be"):
        PrivateRidge(1.0, **DECLARED).fit(X, Y).path([0.1, -1.0])


def test_by_name_it_takes_its_own_rounds_and_one_round_is_one_release() -> None:
    assert PrivateRidge(1.0, algorithm="moments", **DECLARED).fit(X, Y).n_iter_ == 9
    once = PrivateRidge(1.0, algorithm="moments", rounds=1, **DECLARED).fit(X, Y)
    assert len(list(once.privacy_.charges.each())) == 1
    assert once.score(X, Y) > 0.5


def test_sparse_features_are_served() -> None:
    from scipy.sparse import csr_array

    sparse = csr_array(np.where(RNG.random(X.shape) < 0.3, X, 0.0))
    target = 10 + sparse @ TRUTH
    model = PrivateLasso(2.0, **DECLARED).fit(sparse, target)
    assert model.plan_.algorithm.name == "moments" and model.score(sparse, target) > 0.6
