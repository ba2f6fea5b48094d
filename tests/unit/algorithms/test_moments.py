"""Least squares from a released moment: its cleaned spectrum, its minimisers, its path."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.linear_model import Lasso, Ridge

from tacenda.algorithms.quadratic import Quadratic, cleaned, curvature, of_moment
from tacenda.errors import InputError
from tacenda.regularisers import L1, L2, ElasticNet, NoRegulariser

RNG = np.random.default_rng(4)
STRENGTHS = [0.3, 0.05, 0.0, 0.001, 2.0]


def records(n: int = 400, d: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.5 / 2
    truth = np.where(np.arange(d) % 3 == 0, rng.normal(size=d), 0.0)
    return x, x @ truth + 0.2 * rng.normal(size=n)


def moment_of(x: np.ndarray, y: np.ndarray, scale: float) -> np.ndarray:
    z = np.column_stack([x, scale * y])
    return np.asarray(z.T @ z / len(z))


def noise_matrix(d: int, std: float, rng: np.random.Generator) -> np.ndarray:
    """Symmetric, std on the diagonal and std/sqrt(2) beside it."""
    above = np.triu(rng.normal(size=(d, d)) * std / math.sqrt(2), 1)
    return above + above.T + np.diag(rng.normal(size=d) * std)


@pytest.mark.parametrize("scale", [0.7, 2.0])
@pytest.mark.parametrize("strength", [0.3, 0.01])
def test_without_noise_the_minimisers_are_scikit_learns(scale: float, strength: float) -> None:
    x, y = records()
    form = of_moment(moment_of(x, y, scale), 0.0, scale)
    n = len(y)
    theirs = {
        "l2": Ridge(alpha=n * strength, fit_intercept=False, tol=1e-12).fit(x, y).coef_,
        "l1": Lasso(alpha=strength, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(x, y).coef_,
        "elastic": SklearnElasticNet(
            alpha=strength, l1_ratio=0.3, fit_intercept=False, tol=1e-14, max_iter=10**6
        )
        .fit(x, y)
        .coef_,
    }
    ours = {
        "l2": form.solve(L2(), strength),
        "l1": form.solve(L1(), strength),
        "elastic": form.solve(ElasticNet(0.3), strength),
    }
    for name, found in ours.items():
        assert np.abs(found - theirs[name]).max() < 1e-7, name
        assert np.array_equal(found == 0, theirs[name] == 0), name
    assert (ours["l1"] == 0).any()


@pytest.mark.parametrize("regulariser", [NoRegulariser(), L2(), L1(), ElasticNet(0.6)])
def test_minimisers_of_a_noisy_form_are_stationary(regulariser: object) -> None:
    """0 is a subgradient of the form plus strength * R, coordinate by coordinate."""
    x, y = records(d=8)
    moment = moment_of(x, y, 0.7) + noise_matrix(9, 0.02, RNG)
    form = of_moment(moment, 0.02, 0.7)
    gram = form.vectors * form.values @ form.vectors.T
    for strength in STRENGTHS:
        w = form.solve(regulariser, strength)  # type: ignore[arg-type]
        l1, l2 = strength * regulariser.l1, strength * regulariser.l2  # type: ignore[attr-defined]
        slope = gram @ (w - form.centre) + l2 * w
        assert np.abs(slope[w != 0] + l1 * np.sign(w[w != 0])).max(initial=0.0) < 2e-6
        assert np.abs(slope[w == 0]).max(initial=0.0) <= l1 + 2e-6


@pytest.mark.parametrize("regulariser", [L2(), L1(), ElasticNet(0.5)])
def test_the_path_is_one_solve_for_each_strength(regulariser: object) -> None:
    x, y = records()
    form = of_moment(moment_of(x, y, 1.0), 0.001, 1.0)
    path = form.path(regulariser, STRENGTHS)  # type: ignore[arg-type]
    assert path.shape == (len(STRENGTHS), x.shape[1])
    for strength, found in zip(STRENGTHS, path, strict=True):
        assert np.array_equal(found, form.solve(regulariser, strength))  # type: ignore[arg-type]
    sizes = regulariser.value(path)[np.argsort(STRENGTHS)]  # type: ignore[attr-defined]
    assert np.all(np.diff(sizes) <= 1e-9), "a stronger regulariser leaves a larger R"


def test_a_strength_below_zero_is_refused() -> None:
    form = Quadratic(np.eye(2), np.ones(2), np.ones(2))
    with pytest.raises(InputError, match="strength must be"):
        form.solve(L2(), -1.0)


def test_an_exact_moment_is_taken_as_it_is() -> None:
    x, y = records()
    e = np.linalg.eigvalsh(x.T @ x / len(x))
    assert np.array_equal(cleaned(e, 0.0), e)
    assert np.allclose(curvature(e, 0.0), e, rtol=1e-9)
    form = of_moment(moment_of(x, y, 1.0), 0.0, 1.0)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    assert np.abs(form.centre - best).max() < 1e-9
    assert np.array_equal(form.solve(NoRegulariser(), 1.0), form.times(form.centre, np.ones(12)))


def test_cleaned_is_what_the_noisy_eigenvectors_see_of_the_truth() -> None:
    """Against v'Av itself, averaged over draws of the noise: large, small and no eigenvalues."""
    d, std = 60, 0.01
    truth = np.diag(np.concatenate([[1.0, 0.5, 0.2], np.linspace(0.15, 0.0, d - 3)]))
    seen, said, raw = np.zeros(d), np.zeros(d), np.zeros(d)
    for _ in range(40):
        e, v = np.linalg.eigh(truth + noise_matrix(d, std, RNG))
        seen += np.einsum("ik,ij,jk->k", v, truth, v) / 40
        said += cleaned(e, std) / 40
        raw += e / 40
    edge = math.sqrt(2 * d) * std
    assert np.abs(said - seen).max() < 0.25 * edge
    assert np.abs(said - seen).mean() < 0.35 * np.abs(raw - seen).mean()


def test_pure_noise_is_cleaned_away() -> None:
    d, std = 80, 0.3
    e = np.linalg.eigvalsh(noise_matrix(d, std, RNG))
    edge = math.sqrt(2 * d) * std
    assert e.max() > 0.8 * edge
    assert cleaned(e, std).max() < 0.35 * edge and cleaned(e, std).mean() < 0.06 * edge
    assert np.all(curvature(e, std) >= 0.5 * edge) and np.all(curvature(e, std) < 0.85 * edge)


def test_a_moment_without_any_record_has_a_form() -> None:
    form = of_moment(np.zeros((4, 4)), 0.0, 0.7)
    assert np.all(form.values > 0) and np.array_equal(form.solve(L1(), 0.1), np.zeros(3))
