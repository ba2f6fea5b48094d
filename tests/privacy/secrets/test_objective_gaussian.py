"""Gaussian noise inside an objective: the Renyi bound against exact divergences of real minimisers,
against mpmath, and as a whole run is charged for it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate

import quickly
import tacenda as tc
from tacenda.privacy.accounting.events import (
    DiscreteGaussian,
    Gaussian,
    ObjectiveGaussian,
    Pure,
    event_from_dict,
)
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.accounting.renyi import EXCESSES, renyi_profile


def bound(z, curvature=0.0, directions=1, gap_mu=0.0):
    event = ObjectiveGaussian(z, curvature, directions, gap_mu)
    return np.asarray(renyi_profile([(event, 1)]).divergences)


def at(order_excess):
    return int(np.argmin(np.abs(EXCESSES - order_excess)))


@pytest.mark.parametrize(
    ("z", "curvature", "directions"),
    quickly.cases(
        [
            (*noise, directions)
            for noise in ((1 / 15, 0.1), (0.7, 0.0), (4.0, 0.05), (50.0, 0.001))
            for directions in (1, 2, 5)
        ],
        lambda case: case in ((1 / 15, 0.1, 2), (0.7, 0.0, 1), (4.0, 0.05, 5), (50.0, 0.001, 1)),
    ),
)
def test_bound_equals_high_precision_quadrature(z, curvature, directions):
    found = bound(z, curvature, directions)
    tau, half = mpmath.mpf(1) / z, mpmath.mpf(directions) / 2
    constant = mpmath.mpf(2) ** (1 - half) / mpmath.gamma(half)
    for excess in (0.05, 0.7, 3.0, 20.0):
        k = at(excess)
        a = mpmath.mpf(float(EXCESSES[k]))
        if not math.isfinite(found[k]):
            continue

        def psi(x, a=a):
            return mpmath.exp(a * x) + a * (mpmath.exp(-x) - 1)

        def integrand(r, psi=psi):
            b = tau * r + tau**2 / 2 + curvature
            density = constant * r ** (directions - 1) * mpmath.exp(-(r**2) / 2)
            return max(psi(b), psi(-b)) * density

        peak = float(max(a, 1) * tau)
        value = mpmath.quad(integrand, [0, 1, 2 + peak / 2, 4 + peak, 9 + peak, 25 + peak])
        exact = float(mpmath.log(value) / a)
        assert exact <= found[k] * (1 + 1e-12)
        assert found[k] == pytest.approx(exact, rel=1e-6, abs=1e-8)


def minimiser_divergence(x, y, other, kappa, std, order):
    """D_a of argmin sum l(y w x) + kappa/2 w^2 + e w, one feature, records x against `other`: the
    density of w is that of e = -F'(w) times |F''(w)|, integrated numerically."""

    def logs(records, w):
        rows, labels = records
        p = 1 / (1 + np.exp(np.outer(w, rows * labels)))
        slope = -(p * rows * labels).sum(axis=1) + kappa * w
        curve = (p * (1 - p) * rows**2).sum(axis=1) + kappa
        return -(slope**2) / (2 * std**2) + np.log(curve) - math.log(std * math.sqrt(2 * math.pi))

    reach = (len(x) + 14 * std) / kappa
    w = np.linspace(-reach, reach, 40_001)
    one, two = logs((x, y), w), logs(other, w)
    assert integrate.trapezoid(np.exp(one), w) == pytest.approx(1, abs=1e-6)
    moment = integrate.trapezoid(np.exp(order * one - (order - 1) * two), w)
    return math.log(moment) / (order - 1)


@pytest.mark.parametrize("seed", range(12))
def test_no_exact_divergence_of_real_minimisers_exceeds_the_bound(seed):
    rng = np.random.default_rng(seed)
    m, kappa = int(rng.integers(1, 5)), float(np.exp(rng.uniform(-3, 2)))
    x, y = rng.uniform(-1, 1, m), rng.choice([-1.0, 1.0], m)
    x[0], y[0] = rng.choice([-1.0, 1.0]), 1.0
    moved, labels = x.copy(), y.copy()
    moved[0], labels[0] = rng.choice([-1.0, 1.0, 0.3]), -1.0
    std = float(np.exp(rng.uniform(-0.5, 2)))
    curvature = math.log1p(0.25 / kappa)
    found = bound(std / 2.0, curvature)  # |x| <= 1, slope at most 1: one record moves F' by 2
    for excess in (0.3, 1.0, 5.0):
        k = at(excess)
        if math.isfinite(found[k]):
            order = 1 + float(EXCESSES[k])
            for pair in (((x, y), (moved, labels)), ((moved, labels), (x, y))):
                exact = minimiser_divergence(*pair[0], pair[1], kappa, std, order)
                assert exact <= found[k] * (1 + 1e-9) + 1e-9


def test_bound_is_nearly_reached_where_the_loss_is_nearly_straight():
    """Records on the steep side of the logistic: F' hardly bends there, so that the release is
    additive noise; the bound must not be far above that of a Gaussian."""
    for z, most in ((30.0, 1.35), (300.0, 1.05)):
        k = at(12.0)
        assert 1 <= bound(z)[k] / ((1 + EXCESSES[k]) / (2 * z**2)) < most


def test_more_noise_less_curvature_and_fewer_directions_cost_less():
    for worse, better in (
        (bound(3.0), bound(4.0)),
        (bound(3.0, 0.1), bound(3.0, 0.05)),
        (bound(3.0, 0.1, 3), bound(3.0, 0.1, 2)),
        (bound(3.0, 0.1, 1, 0.1), bound(3.0, 0.1)),
    ):
        known = np.isfinite(worse)
        assert np.all(better[known] < worse[known])


def test_rounds_compose_like_a_gaussian_and_not_like_their_sum():
    one, many = ([(ObjectiveGaussian(z, 0.0, 1, 0.0), t)] for z, t in ((3.73, 1), (118, 1000)))
    assert judge(many).epsilon(1e-5) < 1.15 * judge(one).epsilon(1e-5)


def test_curve_is_judged_with_everything_that_is_not_sampled():
    event = ObjectiveGaussian(20.0, 1e-3, 1, 1e-4)
    alone = judge([(event, 30)])
    assert alone.accountant == "renyi"
    for other in (Gaussian(20.0), DiscreteGaussian(20.0), Pure(0.05)):
        both = judge([(event, 30), (other, 3)])
        assert both.epsilon(1e-5) > alone.epsilon(1e-5)
    assert alone.epsilon(1e-5) == pytest.approx(judge([(event, 10)] * 3).epsilon(1e-5))
    eps = alone.epsilon(1e-5)
    assert alone.delta(eps) == pytest.approx(1e-5, rel=1e-6)
    assert alone.epsilon(0.0) == math.inf and alone.epsilon(1.0) == 0
    assert event_from_dict(event.to_dict()) == event
    assert alone.group(2).epsilon(1e-5) > 1.9 * eps


def test_pure_rounds_are_charged_what_randomised_response_loses():
    for eps in (0.01, 0.5, 3.0):
        k = at(1.0)
        a = 1 + EXCESSES[k]
        p = math.exp(eps) / (1 + math.exp(eps))
        exact = math.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
        assert renyi_profile([(Pure(eps), 1)]).divergences[k] == pytest.approx(exact)
        assert max(renyi_profile([(Pure(eps), 1)]).divergences) <= eps


# The whole run
def run(algorithm, epsilon=2.0, rounds=8, **more):
    data = tc.data.make_classification(600, 6, difficulty=0.3, seed=0)
    shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    problem = tc.Problem(shards, strength=1e-2, classes=(0, 1))
    return tc.simulate(
        problem, tc.graph.ring(4), algorithm, rounds, tc.Privacy(epsilon, 1e-5), seed=0, **more
    )


@pytest.mark.parametrize(
    "algorithm",
    [
        tc.algorithms.DVP(noise="gaussian"),
        tc.algorithms.MADMM(noise="gaussian"),
        tc.algorithms.RADMM(noise="gaussian"),
        tc.algorithms.RADMM(noise="gaussian", perturb="output"),
        tc.algorithms.RADMM(perturb="output"),
        tc.algorithms.PVP(noise="gaussian", closing_dvp=True),
    ],
    ids=lambda a: f"{a.name}-{a.noise}-{getattr(a, 'perturb', '')}",
)
@pytest.mark.filterwarnings("ignore:RADMM")
def test_a_run_meets_its_target_and_is_charged_for_every_round(algorithm):
    result = run(algorithm)
    assert result.privacy.epsilon == pytest.approx(2.0, rel=1e-4)
    assert result.privacy.epsilon <= 2.0
    assert sum(count for _, count in result.privacy.curve().events) == 8


def test_noise_inside_is_as_large_as_charged(monkeypatch):
    """The std that the solver is given is the charged multiplier times 2Gc/m, and the curvature's
    logarithm is kept below a tenth of 1/z by extra convexity."""
    from tacenda.privacy.secrets.door import Question
    from tacenda.questions.queries import Queries

    seen = []
    ask = Queries.question

    def listening(self, *terms):
        question = ask(self, *terms)

        def solve(noise, extra):
            seen.append((noise, extra, question.terms))
            return question.solve(noise, extra)

        return Question(question.terms, question.shape, solve, question.asked)

    monkeypatch.setattr(Queries, "question", listening)
    result = run(tc.algorithms.DVP(noise="gaussian", penalty=1e-4), rounds=300, epsilon=1.0)
    ((event, _),) = result.privacy.curve().events
    draws = np.concatenate([noise for noise, _, _ in seen])
    terms = seen[0][2]
    assert terms.slope == pytest.approx(2 / 150)
    assert draws.std() == pytest.approx(event.noise_multiplier * 2 / 150, rel=0.03)
    assert event.curvature <= 0.1 / event.noise_multiplier * (1 + 1e-9)
    assert np.all(seen[0][1] > 0)
    kappa = terms.convexity + seen[0][1]
    assert event.curvature == pytest.approx(float(np.log1p(0.25 / (150 * kappa[0]))))
    assert event.gap_mu == pytest.approx(0.1 / event.noise_multiplier)


def test_noise_multiplier_may_be_given():
    data = tc.data.make_classification(200, 4, seed=0)
    problem = tc.Problem(tc.data.partition.even(data.X, data.y, 2), classes=(0, 1))
    result = tc.simulate(
        problem,
        tc.graph.complete(2),
        tc.algorithms.DVP(noise="gaussian"),
        5,
        tc.Privacy.from_noise(noise_multiplier=30),
        seed=0,
    )
    ((event, count),) = result.privacy.curve().events
    assert (event.noise_multiplier, count) == (pytest.approx(30), 5)


def test_as_published_is_the_paper_own_noise():
    for kind in (tc.algorithms.DVP, tc.algorithms.MADMM, tc.algorithms.RADMM):
        assert kind(noise="gaussian").published_form() == kind()
