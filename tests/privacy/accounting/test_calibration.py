"""Calibration: golden multipliers, targets never exceeded and nearly met, and clear refusals."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda.errors import InputError, PrivacyError
from tacenda.privacy.accounting.calibration import gaussian_mu, solve_scale
from tacenda.privacy.accounting.events import (
    DiscreteGaussian,
    Gaussian,
    L2Laplace,
    OneOfGaussian,
    PoissonGaussian,
    Pure,
)
from tacenda.privacy.accounting.judge import judge


@pytest.mark.parametrize(("eps", "mu"), [(1, 0.26805), (0.5, 0.14221), (2, 0.50155), (5, 1.12124)])
def test_golden_mu(eps, mu):
    assert gaussian_mu(eps, 1e-5) == pytest.approx(mu, abs=5e-6)


@pytest.mark.parametrize(("steps", "z"), [(10, 11.80), (100, 37.31), (1000, 117.97)])
def test_golden_multipliers(steps, z):
    assert solve_scale(lambda k: [(Gaussian(k), steps)], 1, 1e-5) == pytest.approx(z, abs=5e-3)


@settings(max_examples=60, deadline=None)
@given(eps=st.floats(1e-6, 1e4), log_delta=st.floats(-300, -0.05))
def test_mu_is_the_exact_inverse(eps, log_delta):
    delta = 10.0**log_delta
    mu = gaussian_mu(eps, delta)
    assert judge([(Gaussian(1 / mu), 1)]).delta(eps) <= delta
    assert judge([(Gaussian(1 / (mu * (1 + 1e-6))), 1)]).delta(eps) > delta


CASES = {
    "gaussian": (lambda k: [(Gaussian(k), 50), (Gaussian(3 * k), 7)], "replace-one"),
    "gaussian with an offset": (lambda k: [(Gaussian(k + 1), 50)], "replace-one"),
    "poisson": (lambda k: [(PoissonGaussian(k, 45 / 452), 200)], "replace-one"),
    "poisson add-remove": (lambda k: [(PoissonGaussian(k, 0.05), 100)], "add-remove"),
    "one of": (lambda k: [(OneOfGaussian(k, 200), 100)], "replace-one"),
    "pure": (lambda k: [(Pure(1 / k), 1000)], "replace-one"),
    "pure with a fixed part": (lambda k: [(Pure(0.002 + 1 / k), 100)], "replace-one"),
    "unequal pure": (lambda k: [(Pure(0.1 / k), 10), (Pure(0.2 / k), 30)], "replace-one"),
    "l2-laplace": (lambda k: [(L2Laplace(1 / k, 20), 50)], "replace-one"),
    "mixture": (lambda k: [(Pure(0.1 / k), 10), (Gaussian(5 * k), 3)], "replace-one"),
    "discrete": (lambda k: [(DiscreteGaussian(k), 40)], "replace-one"),
}


@pytest.mark.parametrize("name", CASES)
def test_evaluated_again_it_never_exceeds_and_nearly_meets(name):
    events_at, adjacency = CASES[name]
    k = solve_scale(events_at, 1.0, 1e-5, adjacency)
    assert judge(events_at(k), adjacency).delta(1.0) <= 1e-5
    assert judge(events_at(k * (1 - 1e-5)), adjacency).delta(1.0) > 1e-5
    assert judge(events_at(k), adjacency).epsilon(1e-5) <= 1.0


def test_golden_batches():
    """m 452, b 45, T 200, (1, 1e-5), replace-one:
    10.5 in dp-accounting's convention, half of it in ours."""
    z = solve_scale(lambda k: [(PoissonGaussian(k, 45 / 452), 200)], 1, 1e-5)
    assert 2 * z == pytest.approx(10.5, abs=0.05)


def test_few_evaluations_with_and_without_a_hint():
    calls = []

    def events_at(k):
        calls.append(k)
        return [(PoissonGaussian(k, 0.1), 100)]

    free = solve_scale(events_at, 1, 1e-5)
    assert len(calls) < 25
    calls.clear()
    assert solve_scale(events_at, 1, 1e-5, hint=free * 1.02) == pytest.approx(free, rel=3e-6)
    assert len(calls) < 20


def test_delta_zero_is_the_sum_for_pure_events():
    k = solve_scale(lambda k: [(Pure(1 / k), 10), (L2Laplace(2 / k, 3), 5)], 2.0, 0.0)
    assert 20 / k <= 2.0
    assert k == pytest.approx(10, rel=2e-6)


def test_refusals():
    def gaussian(k):
        return [(Gaussian(k), 1)]

    for eps in (0, -1, math.nan, math.inf):
        with pytest.raises(InputError, match="epsilon"):
            solve_scale(gaussian, eps, 1e-5)
    for delta in (-1e-5, 1, 2):
        with pytest.raises(InputError, match="delta"):
            solve_scale(gaussian, 1, delta)
    with pytest.raises(PrivacyError, match="delta must be above 0"):
        solve_scale(gaussian, 1, 0)
    with pytest.raises(PrivacyError, match="delta must be above 0"):
        gaussian_mu(1, 0)
    with pytest.raises(PrivacyError, match="does not shrink"):
        solve_scale(lambda k: [(Pure(2.0 + 1 / k), 10)], 1, 1e-5)
    with pytest.raises(InputError, match="no noise"):
        solve_scale(lambda k: [(Gaussian(k), 0)], 1, 1e-5)
    with pytest.raises(InputError, match="no noise"):
        solve_scale(lambda k: [(PoissonGaussian(k, 1e-4), 2)], 1, 0.1, "add-remove")


def test_events_that_change_their_kind_with_the_scale_are_refused():
    """The closed form holds for Gaussians at every scale; at some only, nothing is solved."""
    asked = []

    def at(k):
        asked.append(k)
        return [(Gaussian(k), 3)] if len(asked) < 2 else [(Pure(1 / k), 3)]

    with pytest.raises(InputError, match="same kinds at every scale"):
        solve_scale(at, 1.0, 1e-5)
