"""Bounds of the audit against independent values: exact binomials,
mechanisms of known epsilon, brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from tacenda.auditing.bounds import clopper_pearson, epsilon_bound, gaussian_fit, mu_bound
from tacenda.auditing.one_run_bound import (
    curve_inverse,
    epsilon_from_guesses,
    gaussian_inverse,
    impossible,
    independent_chance,
    largest,
    pair_inverse,
    probability_of,
)
from tacenda.errors import InputError
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.accounting.events import Gaussian, Pure
from tacenda.privacy.accounting.judge import judge


@pytest.mark.parametrize(("hits", "count"), [(0, 50), (1, 50), (25, 50), (49, 50), (50, 50)])
def test_clopper_pearson_limits_are_where_the_binomial_tail_is_the_risk(
    hits: int, count: int
) -> None:
    low, high = clopper_pearson(hits, count, 0.025)
    if hits > 0:
        assert binom.sf(hits - 1, count, float(low)) == pytest.approx(0.025, rel=1e-9)
    else:
        assert low == 0
    if hits < count:
        assert binom.cdf(hits, count, float(high)) == pytest.approx(0.025, rel=1e-9)
    else:
        assert high == 1


def _randomised_response(epsilon: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.arange(trials) % 2
    honest = rng.random(trials) < 1 / (1 + math.exp(-epsilon))
    return np.where(honest, truth, 1 - truth) + 1e-9 * rng.random(trials), truth


def test_randomised_response_is_bounded_tightly_and_hardly_ever_from_above() -> None:
    found = [
        epsilon_bound(*_randomised_response(1.0, 2000, seed), 0.0).value for seed in range(100)
    ]
    # The stated confidence, which Clopper-Pearson only exceeds
    assert np.mean(np.asarray(found) > 1.0) <= 0.05
    assert np.median(found) > 0.75


def test_delta_is_subtracted() -> None:
    # World 1 says "1" with probability delta more than epsilon = 0 would allow.
    truth = np.arange(40_000) % 2
    scores = np.where(truth == 1, np.random.default_rng(0).random(40_000) < 0.2, 0.0) + 0.0
    assert epsilon_bound(scores, truth, 0.0).value > 3
    assert epsilon_bound(scores, truth, 0.25).value <= 0.0


def test_mu_of_two_normals_is_bounded_and_fitted() -> None:
    above, inside, fits = 0, 0, []
    for seed in range(100):
        truth = np.arange(4000) % 2
        scores = np.random.default_rng(seed).normal(size=4000) + 0.8 * truth
        above += mu_bound(scores, truth).value > 0.8
        fit = gaussian_fit(scores, truth)
        inside += fit.interval[0] <= 0.8 <= fit.interval[1]
        fits.append(fit.mu)
    assert above <= 5 and inside >= 88
    assert np.mean(fits) == pytest.approx(0.8, abs=0.01)


def test_a_gaussian_mechanism_never_shows_more_than_its_epsilon() -> None:
    mu, delta = 1.0, 1e-2
    eps = 2.5
    exact = norm.cdf(-eps / mu + mu / 2) - math.exp(eps) * norm.cdf(-eps / mu - mu / 2)
    assert exact < delta  # so epsilon(delta) is below 2.5
    truth = np.arange(40_000) % 2
    scores = np.random.default_rng(3).normal(size=40_000) + mu * truth
    assert 1.0 < epsilon_bound(scores, truth, delta).value < eps


@pytest.mark.parametrize("scores", [np.zeros(4), np.full(100, np.nan), np.zeros((10, 10))])
def test_useless_scores_are_refused(scores: np.ndarray) -> None:
    with pytest.raises(InputError, match="scores"):
        epsilon_bound(scores, np.zeros(scores.shape, int), 0.0)


@pytest.mark.parametrize(
    ("right", "guesses", "coins", "epsilon", "delta"),
    [(8, 10, 30, 0.7, 0.0), (8, 10, 30, 0.7, 1e-3), (40, 50, 50, 1.5, 1e-4)],
)
def test_one_run_probability_equals_the_theorem_by_brute_force(
    right: int, guesses: int, coins: int, epsilon: float, delta: float
) -> None:
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    pmf = [math.comb(guesses, k) * q**k * (1 - q) ** (guesses - k) for k in range(guesses + 1)]
    tail = sum(pmf[right:])
    worst = max(sum(pmf[right - i : right]) / i for i in range(1, right + 1))
    assert probability_of(right, guesses, coins, epsilon, delta) == pytest.approx(
        min(1, tail + 2 * coins * delta * worst), rel=1e-9
    )


def _binomial_tail(least: int, count: int, q: float) -> float:
    return math.fsum(
        math.comb(count, k) * q**k * (1 - q) ** (count - k) for k in range(max(least, 0), count + 1)
    )


@pytest.mark.parametrize(
    ("coins", "guesses", "epsilon", "delta"),
    [(12, 6, 0.5, 0.02), (40, 10, 1.0, 1e-3), (30, 30, 2.0, 1e-2)],
)
def test_one_run_probability_is_never_below_that_of_real_mechanisms(
    coins: int, guesses: int, epsilon: float, delta: float
) -> None:
    """Two (epsilon, delta)-private mechanisms, summed out exactly: randomised response which, with
    probability delta, shows

    a coin (each on its own: the adversary guesses the shown ones first), or all coins at once.
    """
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    for right in range(1, guesses + 1):
        each = math.fsum(
            math.comb(coins, k)
            * delta**k
            * (1 - delta) ** (coins - k)
            * _binomial_tail(right - min(k, guesses), guesses - min(k, guesses), q)
            for k in range(coins + 1)
        )
        at_once = delta + (1 - delta) * _binomial_tail(right, guesses, q)
        assert max(each, at_once) <= probability_of(right, guesses, coins, epsilon, delta) * (
            1 + 1e-12
        )
    # Without delta's part the bound would fail
    assert at_once > probability_of(guesses, guesses, coins, epsilon, 0.0)


@pytest.mark.parametrize(
    ("right", "guesses", "coins", "delta"),
    [(45, 50, 100, 1e-4), (97, 100, 1000, 1e-5), (20, 20, 20, 0.0)],
)
def test_one_run_epsilon_is_the_smallest_that_a_scan_of_the_theorem_allows(
    right: int, guesses: int, coins: int, delta: float
) -> None:
    from mpmath import mp, mpf

    def allowed(epsilon: float) -> float:
        q = 1 / (1 + mp.exp(-mpf(epsilon)))
        pmf = [
            mp.binomial(guesses, k) * q**k * (1 - q) ** (guesses - k) for k in range(guesses + 1)
        ]
        below = [mp.fsum(pmf[right - i : right]) / i for i in range(1, right + 1)]
        return float(mp.fsum(pmf[right:]) + 2 * coins * delta * max(below))

    found = largest(lambda epsilon: probability_of(right, guesses, coins, epsilon, delta) <= 0.05)
    assert allowed(found) == pytest.approx(0.05, rel=1e-6)
    assert all(allowed(found * k / 20) < 0.05 for k in range(20))
    assert epsilon_from_guesses(right, guesses, coins, delta, 0.95) >= found


def test_one_run_bound_is_exact_for_randomised_response() -> None:
    # Each coin answered truly with probability e/(1+e): the number of right answers is that
    # binomial, so the bound is tight.
    rng = np.random.default_rng(0)
    found = [
        epsilon_from_guesses(int(rng.binomial(1000, 1 / (1 + math.exp(-1.0)))), 1000, 1000, 0.0)
        for _ in range(300)
    ]
    assert np.mean(np.asarray(found) > 1.0) <= 0.08  # 5 % and the error of 300 repetitions
    assert np.median(found) > 0.8


def test_one_run_bound_on_a_gaussian_mechanism_of_known_epsilon() -> None:
    """m coins, each seen through N(0, 1/mu^2): mu-GDP per coin. The bound stays below its epsilon,
    and finds too little noise."""
    rng = np.random.default_rng(1)
    m, r, delta = 4000, 400, 1e-5

    def bound(mu: float) -> float:
        heads = rng.random(m) < 0.5
        scores = (heads - 0.5) + rng.normal(size=m) / mu
        sure = np.argsort(-np.abs(scores))[:r]
        return epsilon_from_guesses(int(np.sum((scores[sure] > 0) == heads[sure])), r, m, delta)

    eps_at_mu_one = 4.377  # Gaussian-DP with mu = 1 at delta 1e-5, from delta(eps) below
    assert norm.cdf(-eps_at_mu_one + 0.5) - math.exp(eps_at_mu_one) * norm.cdf(
        -eps_at_mu_one - 0.5
    ) == pytest.approx(1e-5, rel=2e-3)
    assert 0.8 < bound(1.0) < eps_at_mu_one
    # A mechanism that claims mu = 1 and has a twelfth of its noise
    assert bound(12.0) > eps_at_mu_one


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(InputError, match="right, guesses and coins"):
        epsilon_from_guesses(5, 4, 10, 0.0)


# ---- one run, trade-off curves
@pytest.mark.parametrize(
    ("right", "guesses", "coins", "epsilon", "delta"),
    [
        (9, 10, 10, 1.0, 0.0),
        (9, 10, 30, 1.0, 0.01),
        (14, 20, 20, 0.3, 0.02),
        (12, 12, 40, 2.0, 1e-3),
        (5, 8, 8, 0.0, 0.05),
    ],
)
def test_the_recursion_is_the_optimum_of_its_linear_programme(
    right: int, guesses: int, coins: int, epsilon: float, delta: float
) -> None:
    """Maximise P[C >= right] over all laws p_0..p_r of the count that obey the inequalities for
    every tail set."""
    from scipy.optimize import linprog

    count = np.arange(guesses + 1)
    rows, limits = [], []
    for i in range(1, guesses + 1):
        hit = np.where(count >= i, count / coins, 0.0)
        miss = np.where(count >= i - 1, (guesses - count) / coins, 0.0)
        rows += [hit - math.exp(epsilon) * miss, hit - math.exp(-epsilon) * miss]
        limits += [delta, 1 - math.exp(-epsilon) * (1 - delta)]
    best = linprog(
        -(count >= right).astype(float),
        A_ub=np.array(rows),
        b_ub=limits,
        A_eq=np.ones((1, guesses + 1)),
        b_eq=[1.0],
    )
    most = min(1.0, -best.fun)
    found = 1.0
    if impossible(pair_inverse(epsilon, delta), right, guesses, coins, 1.0):
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            over = impossible(pair_inverse(epsilon, delta), right, guesses, coins, middle)
            low, high = (low, middle) if over else (middle, high)
        found = low
    assert found == pytest.approx(most, abs=1e-6)


@pytest.mark.parametrize(
    ("coins", "guesses", "right", "delta", "risk", "epsilon"),
    [
        (1000, 100, 97, 1e-5, 0.05, 3.8615127848737942),
        (1000, 100, 99, 1e-5, 0.05, 4.726715076744276),
        (4000, 400, 390, 1e-5, 0.05, 4.62980680208787),
        (1000, 1000, 800, 1e-5, 0.05, 2.3332435930207667),
        (200, 200, 190, 1e-3, 0.05, 3.615705080397589),
        (100, 30, 29, 1e-5, 0.1, 3.886189865763867),
        (5000, 250, 249, 1e-6, 0.01, 5.352268312538564),
        (1000, 300, 200, 1e-5, 0.05, 0.7956719827815479),
    ],
)
def test_gaussian_curves_give_the_figures_of_jax_privacy(
    coins: int, guesses: int, right: int, delta: float, risk: float, epsilon: float
) -> None:
    """Golden values: jax_privacy 2.0.0,
    auditing._epsilon_one_run_fdp(0, coins, guesses, right, risk, delta)."""
    mu = largest(lambda mu: impossible(gaussian_inverse(mu), right, guesses, coins, risk))
    assert GaussianProfile(mu).epsilon(delta) == pytest.approx(epsilon, rel=1e-4)


@pytest.mark.parametrize("coins", [20, 200, 1000])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_the_bounds_together_are_never_looser_than_the_old_one(coins: int, delta: float) -> None:
    gained = 0.0
    for guesses in sorted({coins // 10, coins // 3, coins}):
        for right in sorted({guesses, guesses - 1, round(0.9 * guesses), round(0.6 * guesses)}):
            old = largest(
                lambda e, v=right, r=guesses: probability_of(v, r, coins, e, delta) <= 0.05
            )
            new = epsilon_from_guesses(right, guesses, coins, delta)
            assert new >= old - 1e-9
            gained = max(gained, new - old)
    assert gained > 0.05 or delta * coins < 0.02


@pytest.mark.parametrize(("chance", "accuracy"), [(0.05, 0.9), (0.2, 0.75), (0.01, 0.999)])
def test_one_common_accident_never_exceeds_the_second_bound(chance: float, accuracy: float) -> None:
    """With a small chance all coins are shown at once, each truly with `accuracy`: the mechanism
    that such bounds are about.

    Its trade-off curve is known exactly, and so is the law of its right guesses.
    """
    right_of = [0.0, chance * accuracy, chance * accuracy + 1 - chance, 1.0]
    wrong_of = [0.0, chance * (1 - accuracy), chance * (1 - accuracy) + 1 - chance, 1.0]
    coins = 60
    for guesses in (10, 60):
        for right in range(1, guesses + 1):
            law = chance * binom.sf(right - 1, guesses, accuracy) + (1 - chance) * binom.sf(
                right - 1, guesses, 0.5
            )
            assert not impossible(
                lambda x: float(np.interp(x, right_of, wrong_of)),
                right,
                guesses,
                coins,
                law * (1 - 1e-9),
            )


@pytest.mark.parametrize(("mu", "share"), [(0.5, 0.3), (1.0, 0.1), (1.7, 0.1), (1.7, 1.0)])
def test_gaussian_channels_of_known_mu_are_seldom_called_worse(mu: float, share: float) -> None:
    """2000 runs of 500 coins, each seen through its own noise: bounds at 95 % exceed the truth in
    at most 5 % of runs."""
    rng, coins = np.random.default_rng(7), 500
    guesses = round(share * coins)
    heads = rng.random((2000, coins)) < 0.5
    scores = (heads - 0.5) * mu + rng.normal(size=heads.shape)
    hit = (scores > 0) == heads
    clearest = np.take_along_axis(
        hit, np.argsort(-np.abs(scores), axis=1)[:, :guesses], axis=1
    ).sum(axis=1)
    curve = judge([(Gaussian(1 / mu), 1)])
    second = {
        v: impossible(gaussian_inverse(mu), int(v), guesses, coins, 0.05)
        for v in np.unique(clearest)
    }
    third = {
        v: independent_chance(curve, int(v), coins) <= 0.05 for v in np.unique(hit.sum(axis=1))
    }
    assert np.mean([second[v] for v in clearest]) <= 0.05
    # Exact but for whole numbers; 3 errors of 2000 runs
    assert 0.02 < np.mean([third[v] for v in hit.sum(axis=1)]) <= 0.065


def test_the_third_bound_is_the_binomial_of_the_total_variation() -> None:
    mu, pure = judge([(Gaussian(0.5), 1)]), judge([(Pure(1.0), 1)])
    assert independent_chance(mu, 60, 70) == pytest.approx(
        binom.sf(59, 70, norm.cdf(1.0)), rel=1e-9
    )
    assert independent_chance(pure, 60, 70) == pytest.approx(
        binom.sf(59, 70, math.e / (1 + math.e)), rel=1e-6
    )
    assert independent_chance(mu, 0, 70) == 1.0


def test_an_accountant_s_curve_is_inverted_and_rounded_down() -> None:
    pure = curve_inverse(judge([(Pure(1.0), 1)]))
    gaussian = curve_inverse(judge([(Gaussian(2.0), 4)]))
    exact = pair_inverse(1.0, 0.0)
    for x in (0.0, 1e-9, 1e-3, 0.2, 0.5, 0.7, 0.9, 0.999, 1.0):
        assert gaussian(x) == pytest.approx(gaussian_inverse(1.0)(x))
        assert exact(x) * 0.98 - 1e-6 <= pure(x) <= exact(x) + 1e-12
