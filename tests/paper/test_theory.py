"""The papers' bounds against hand computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from tacenda import algorithms, graph
from tacenda.errors import InputError
from tacenda.schedules import SquareRoot
from tacenda_papers import theory


def test_theorem_7_of_000_by_hand() -> None:
    # n = 2, t = 4, l = 9, D = 3, c1 = 1, c2/n = 1/2, d = 4, m = 10, z = 5, rho = 0.5, deg = 1,
    # beta = 2:
    # sqrt(2) 3 / 6 * sqrt(1/4 + 4 (2*5/10)^2) + (0.5*9 + 4/0.5)/4 = 0.7071067812 * sqrt(4.25) +
    # 3.125, twice.
    by_hand = 2 * (0.7071067811865476 * 2.0615528128088303 + 3.125)
    found = theory.ipadmm_bound(
        4,
        9,
        dim=4,
        sizes=[10, 10],
        degrees=1,
        penalty=0.5,
        noise_multiplier=5.0,
        diameter=3.0,
        dual_bound=2.0,
        objective_slope=0.5,
    )
    assert found == pytest.approx(by_hand, rel=1e-12)


def test_published_multiplier_is_the_golden_figure() -> None:
    assert theory.published_multiplier(100, 10, 1.0, 1e-5) == pytest.approx(153.21, abs=0.01)
    assert theory.published_multiplier(1, 10, 1.0, 1e-5) == pytest.approx(15.32, abs=0.005)


def test_the_limit_of_theorem_7_is_what_many_rounds_leave() -> None:
    known = {"dim": 104, "sizes": np.full(100, 452.0), "diameter": 20.0}
    t = 10**9
    z = theory.published_multiplier(t, 10, 1.0, 1e-5)
    many = theory.ipadmm_bound(
        t, 10, degrees=99, penalty=1e-3, noise_multiplier=z, objective_slope=0.0, **known
    )
    assert theory.ipadmm_bound_limit(epsilon=1.0, delta=1e-5, **known) == pytest.approx(
        many, rel=1e-4
    )


def test_theorem_2_of_002_by_hand() -> None:
    # a = t, gamma = 0, mu = 2, L = 1, beta = 1/2: M = 1/2 + 4 = 4.5; t = 2: A = 1, 3; sum a^2/(mu
    # A) = 1/2 + 4/6; over A(2) = 3. noise 0.1, d = 4: 4 * 0.01/2 + 2*2*0.1/0.5 = 0.02 + 0.8.
    by_hand = (0.5 + 4 / 6) * (4.5 + 0.82) / 3
    found = theory.dual_averaging_bound(
        2, strong_convexity=2.0, lipschitz=1.0, second_singular=0.5, dim=4, noise_std=0.1
    )
    assert found == pytest.approx(by_hand, rel=1e-12)


def test_what_one_drawn_record_is_seen_to_lose() -> None:
    """In one round the test by a level is the best there is: its epsilon is the exact one of two
    normal mixtures, from their densities. In many it is what it attains in 200,000 runs."""
    std, q, delta = 0.4, 5, 0.01
    y = np.linspace(-12, 25, 400_001)
    plain = norm.pdf(y)
    mixed = (1 - 1 / q) * plain + norm.pdf(y - 2 / std) / q

    def exact(epsilon: float) -> float:
        return float(np.maximum(mixed - np.exp(epsilon) * plain, 0).sum() * (y[1] - y[0]))

    found = theory.attained_epsilon(std, 1, q, delta)
    assert exact(found) == pytest.approx(delta, rel=1e-3)
    rng, rounds, times, delta = np.random.default_rng(0), 6, 200_000, 0.2
    noise = rng.normal(size=(2, times, rounds))
    noise[1] += 2 / 0.8 * (rng.random((times, rounds)) < 1 / q)
    most = noise.max(axis=2)
    by_runs = []
    for level in np.arange(1.0, 3.6, 0.1):
        wrong, right = (most > level).mean(axis=1)
        by_runs.append(math.log(max(right - delta, 1e-9) / wrong))
    assert theory.attained_epsilon(0.8, rounds, q, delta) == pytest.approx(max(by_runs), abs=0.05)


def test_theorem_2_with_an_offset_and_constant_weights() -> None:
    # a = 1, gamma(t) = 1 + sqrt(4 t): 3, 1 + sqrt(8); mu = 1, A = 1, 2;
    # |x*| = 2 gives d(x*) = 2; M = 4.5.
    g2 = 1 + math.sqrt(8)
    by_hand = (g2 * 2 + (1 / (1 + 3) + 1 / (2 + g2)) * 4.5) / 2
    found = theory.dual_averaging_bound(
        2,
        strong_convexity=1.0,
        lipschitz=1.0,
        second_singular=0.5,
        dim=3,
        weights="constant",
        offset=SquareRoot(1.0, 4.0),
        optimum_norm=2.0,
    )
    assert found == pytest.approx(by_hand, rel=1e-12)


def test_corollary_1_is_theorem_2_with_the_papers_noise_rounded_up() -> None:
    known = {"strong_convexity": 0.01, "lipschitz": 1.0, "second_singular": 0.9, "dim": 50}
    rounds, q = 5000, 4000
    std = theory.published_noise_std(rounds, q, 0.5, 0.01)
    exact = theory.dual_averaging_bound(rounds, noise_std=std, **known)
    printed = theory.dual_averaging_utility_loss(
        rounds, records=q, epsilon=0.5, delta=0.01, **known
    )
    assert exact <= printed <= 1.01 * exact


def test_corollary_2_follows_from_11_and_10_without_noise() -> None:
    known = {"strong_convexity": 0.1, "lipschitz": 1.0, "second_singular": 0.8}
    t = 200
    by_parts = 2 * theory.consensus_distance(t, dim=7, **known) + 4 / 0.1 * 4 * (0.5 + 2 / 0.2) / (
        0.1 * (t + 1)
    )
    assert theory.noise_free_distance(t, **known) == pytest.approx(by_parts, rel=1e-12)
    assert theory.dual_averaging_distance(t, dim=7, **known) <= theory.noise_free_distance(
        t, **known
    )


def test_the_noise_of_002_as_printed() -> None:
    assert theory.published_noise_std(60000, 20000, 1.0, 0.01) == pytest.approx(0.091046, abs=5e-7)


def test_no_gamma_is_enough_on_a_ring_of_even_length_but_one_is_on_a_complete_graph() -> None:
    assert (
        algorithms.least_recycle_proximal(graph.ring(6), penalty=1.0, smoothness=0.25) == math.inf
    )
    least = algorithms.least_recycle_proximal(graph.complete(5), penalty=1.0, smoothness=0.25)
    assert algorithms.recycled_condition_holds(
        graph.complete(5), penalty=1.0, recycle_proximal=1.01 * least, smoothness=0.25
    )
    assert not algorithms.recycled_condition_holds(
        graph.complete(5), penalty=1.0, recycle_proximal=0.98 * least, smoothness=0.25
    )


def test_the_loss_of_001_by_hand() -> None:
    # 2*3/100 * (1.4*0.25/(0.2 + 2*0.5*4) + 1.5) = 0.06 * (0.35/4.2 + 1.5) a round,
    # at the smaller node.
    by_hand = 7 * 0.06 * (0.35 / 4.2 + 1.5)
    found = theory.recycled_privacy_bound(
        7, noise_rate=1.5, sizes=[100, 200], degrees=4, penalty=0.5, strength=0.2, loss_scale=3.0
    )
    assert found == pytest.approx(by_hand, rel=1e-12)
    with pytest.raises(InputError, match="larger penalty"):
        theory.recycled_privacy_bound(
            1, noise_rate=1.0, sizes=2, degrees=1, penalty=0.01, strength=0.0, loss_scale=3.0
        )


def test_sample_sizes_of_003_by_hand() -> None:
    e = math.exp(1)
    known = {"accuracy": 0.5, "reference_norm": 2.0, "failure": 1 / e}
    assert theory.sample_size("non-private", loss_scale=3.0, **known) == pytest.approx(3 * 4 / 0.25)
    # d = 1, ln(d/delta) = 1: 2/(0.5*0.1) = 40; 3*0.25*4/(0.05) = 60; 48.
    assert theory.sample_size("dual", alpha=0.1, loss_scale=3.0, **known) == pytest.approx(60.0)
    # C f^3 eta N d ln / (acc^2 alpha) = 3*8*0.5*2/(0.25*0.1)
    centre = theory.sample_size(
        "primal-centre", alpha=0.1, loss_scale=3.0, penalty=0.5, degree=2, **known
    )
    assert centre == pytest.approx(960.0)
    # the five terms: 960; 48; 4*3*2/0.05 = 480; 4*320 = 1280; 4*3^1.5*4/(0.5^1.5*0.1) = 2351.5
    primal = theory.sample_size(
        "primal", alpha=0.1, loss_scale=3.0, penalty=0.5, degree=2, constant=2.0, **known
    )
    assert primal == pytest.approx(2 * 4 * 3**1.5 * 4 / (0.5**1.5 * 0.1))
    # Corollary 6.2 needs both: PVP's here, and DVP's where little noise is left of PVP's terms
    both = {"loss_scale": 3.0, "degree": 2, **known}
    final = theory.sample_size("primal-final", alpha=0.1, penalty=0.5, constant=2.0, **both)
    assert final == pytest.approx(primal)
    curved = {"alpha": 0.1, "penalty": 1e-9, "curvature": 1e3, **both}
    assert theory.sample_size("primal-final", **curved) == theory.sample_size("dual", **curved)
    with pytest.raises(InputError, match="kind"):
        theory.sample_size("tertiary", **known)


def test_the_fit_finds_the_curve_that_made_the_points() -> None:
    alphas = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
    fit = theory.fit_accuracy(alphas, 0.2 * np.exp(-25 * alphas) + 0.35)
    assert (fit.c4, fit.c5, fit.c6) == pytest.approx((0.2, 25.0, 0.35), rel=1e-5)
    assert fit.residual < 1e-7


def test_optimal_alpha_against_a_brute_search() -> None:
    fit = theory.AccuracyFit(0.2, 25.0, 0.35, 0.0)
    grid = np.linspace(0.01, 1, 400001)
    best = grid[np.argmin(fit(grid) - theory.privacy_utility(grid))]
    found = theory.optimal_alpha(fit, lowest=0.01)
    assert found.alpha == pytest.approx(best, abs=1e-5)
    assert theory.privacy_utility(0.5) == pytest.approx(0.02 * math.log(6 / (4.5 + 0.25)))


def test_optimal_alpha_keeps_the_accuracy_that_is_asked_for() -> None:
    fit = theory.AccuracyFit(0.2, 5.0, 0.35, 0.0)
    found = theory.optimal_alpha(fit, lowest=0.01, worst_loss=0.36)
    assert found.bound in ("accuracy", "inside")
    assert fit(found.alpha) <= 0.36 + 1e-12
    with pytest.raises(InputError, match="worst_loss"):
        theory.optimal_alpha(fit, worst_loss=0.34)
