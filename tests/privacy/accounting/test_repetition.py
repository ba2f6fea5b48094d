"""The best of a random number of repetitions: its privacy profile is above the exact one of every
selection tried, and below what Renyi bounds of the literature give."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import logser, nbinom, norm, poisson

from tacenda.errors import InputError
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.accounting.repetition import (
    POISSON,
    RepetitionProfile,
    Repetitions,
    base_mu,
    mean_for,
)

SHAPES = (0.0, 0.5, 1.0, 3.0, POISSON)


def generated(law: Repetitions, z: np.ndarray) -> np.ndarray:
    """The generating function of the number, E z^K."""
    if law.shape == POISSON:
        return np.expm1(law.mean * z) / math.expm1(law.mean)
    g, s = law.stop, law.shape
    if s == 0:
        return np.log1p(-(1 - g) * z) / math.log(g)
    return ((1 - (1 - g) * z) ** -s - 1) / (g**-s - 1)


def chances(law: Repetitions, most: int = 400) -> np.ndarray:
    """P(K = 0), P(K = 1), ..., from the definitions."""
    k = np.arange(most)
    if law.shape == POISSON:
        found = poisson.pmf(k, law.mean)
    elif law.shape == 0:
        found = logser.pmf(k, 1 - law.stop)
    else:
        found = nbinom.pmf(k, law.shape, law.stop)
    found[0] = 0.0
    return found / found.sum()


def exact_delta(
    law: Repetitions, p: np.ndarray, q: np.ndarray, order: np.ndarray, epsilon: float
) -> float:
    """Hockey-stick divergence of the best of K draws from p, and from q, on finitely many outcomes
    with distinct scores."""

    def best(x: np.ndarray) -> np.ndarray:
        # P(best is among the j worst) = f(P(one is))
        below = np.concatenate([[0.0], np.minimum(np.cumsum(x[order]), 1.0)])
        return np.diff(generated(law, below))

    return float(np.maximum(best(p) - math.exp(epsilon) * best(q), 0).sum())


def gaussian_pair(mu: float, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Two laws on finitely many outcomes: a mu-Gaussian pair, made coarse (post-processing)."""
    edges = np.concatenate([[-np.inf], np.linspace(-4, 4 + mu, cells - 1), [np.inf]])
    return np.diff(norm.cdf(edges - mu)), np.diff(norm.cdf(edges))


@pytest.mark.parametrize("shape", SHAPES)
def test_no_selection_exceeds_the_profile(shape: float) -> None:
    rng = np.random.default_rng(int(min(shape, 9) * 10))
    for mu, mean in ((0.3, 3.0), (1.0, 6.0), (0.15, 25.0)):
        law = Repetitions(shape, mean)
        profile = RepetitionProfile(mu, law)
        p, q = gaussian_pair(mu, 60)
        orders = [np.arange(60), np.arange(60)[::-1], *(rng.permutation(60) for _ in range(6))]
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            bound = profile.delta(epsilon)
            for order in orders:
                for one, other in ((p, q), (q, p)):
                    assert exact_delta(law, one, other, order, epsilon) <= bound + 1e-12


@pytest.mark.parametrize("shape", [1.0, POISSON])
def test_the_profile_is_not_far_above_a_real_selection(shape: float) -> None:
    # Scores that follow the privacy loss itself: what the bound must allow for
    mu, law = 0.5, Repetitions(shape, 10.0)
    p, q = gaussian_pair(mu, 400)
    profile = RepetitionProfile(mu, law)
    real = exact_delta(law, p, q, np.arange(400), 1.0)
    assert real < profile.delta(1.0) < 60 * real
    assert GaussianProfile(mu).delta(1.0) < real  # and more than one training costs


@pytest.mark.parametrize("shape", SHAPES)
def test_the_law_of_the_number(shape: float) -> None:
    law = Repetitions(shape, 4.0)
    found = chances(law)
    k = np.arange(len(found))
    assert found.sum() == pytest.approx(1, abs=1e-6)
    assert (k * found).sum() == pytest.approx(law.runs, rel=1e-4)
    assert law.none_of(0.25) == pytest.approx((found * 0.75**k).sum(), rel=1e-5)
    assert float(generated(law, np.array(0.75))) == pytest.approx(law.none_of(0.25), rel=1e-9)
    assert law.none_of(0.0) == pytest.approx(1)
    assert law.none_of(1.0) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("shape", [0.0, 1.0, POISSON])
def test_below_the_renyi_bounds_of_papernot_and_steinke(shape: float) -> None:
    from dp_accounting import dp_event, rdp

    for mu, mean in ((0.1, 20.0), (0.5, 10.0)):
        accountant = rdp.RdpAccountant(orders=1 + np.exp(np.linspace(-3, 7, 80)))
        base = dp_event.GaussianDpEvent(1 / mu)
        accountant.compose(dp_event.RepeatAndSelectDpEvent(base, mean, shape))
        ours = RepetitionProfile(mu, Repetitions(shape, mean)).epsilon(1e-5)
        assert GaussianProfile(mu).epsilon(1e-5) < ours < accountant.get_epsilon(1e-5)


def test_poisson_bound_against_high_precision_quadrature() -> None:
    mu, mean, epsilon, t = mpmath.mpf("0.4"), mpmath.mpf(7), mpmath.mpf(1), mpmath.mpf("1.3")

    def base(e: mpmath.mpf) -> mpmath.mpf:
        return mpmath.ncdf(-e / mu + mu / 2) - mpmath.exp(e) * mpmath.ncdf(-e / mu - mu / 2)

    c = mpmath.exp(epsilon - mean * base(mpmath.log(t)))

    def worst(z: mpmath.mpf) -> mpmath.mpf:
        """Largest over r of the difference of densities, at the base's outcome z."""
        p, q = mpmath.npdf(z - mu), mpmath.npdf(z)
        # e^{-m r (t - 1)} at the largest value, where r may not be below 0
        power = min(mpmath.mpf(1), p / (c * t * q)) ** (1 / (t - 1))
        return p * power - c * q * power**t

    whole = mpmath.quad(worst, [-9, -3, 0, 1, 2, 3, 4, 6, 10])
    slow = float(mean / (1 - mpmath.exp(-mean)) * whole)
    quick = RepetitionProfile(0.4, Repetitions(POISSON, 7.0)).delta(1.0)
    assert quick <= slow * (1 + 1e-6)  # the best t is at least as good as this one


def test_calibration_keeps_its_promise_and_wastes_little() -> None:
    for shape in (1.0, POISSON):
        law = mean_for(shape, 8, 0.9)
        assert law.none_of(1 / 8) == pytest.approx(0.1, rel=1e-6)
        mu = base_mu(law, 1.0, 1e-5)
        assert RepetitionProfile(mu, law).epsilon(1e-5) <= 1.0
        assert RepetitionProfile(mu * 1.00001, law).delta(1.0) > 1e-5
        assert mu < gaussian_mu(1.0, 1e-5)


def test_ends() -> None:
    law = Repetitions(1.0, 5.0)
    assert RepetitionProfile(0.0, law).delta(0.0) == 0
    assert RepetitionProfile(math.inf, law).delta(5.0) == 1
    assert RepetitionProfile(0.5, law).epsilon(0.0) == math.inf
    assert RepetitionProfile(0.5, law).epsilon(1.0) == 0
    for wrong in (-1.0, math.nan):
        with pytest.raises(InputError, match="shape"):
            Repetitions(wrong, 5.0)
    with pytest.raises(InputError, match="mean"):
        Repetitions(1.0, 0.5)
