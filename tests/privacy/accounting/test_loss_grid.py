"""The grid of privacy losses by hand: fine against each event's spread, at most about a million
points, and the same composition on any of them, only looser on a coarser one."""

from __future__ import annotations

import math

import pytest

from tacenda.privacy.accounting.calibration import solve_scale
from tacenda.privacy.accounting.events import (
    CorrelatedGaussian,
    Gaussian,
    L2Laplace,
    OneOfGaussian,
    PoissonGaussian,
    Pure,
)
from tacenda.privacy.accounting.pld import PldProfile, grid_step, pld_profile
from tacenda.privacy.accounting.pure import PureProfile

POINTS = 2.0**20


def sampled(z: float, rate: float) -> tuple[float, float, float]:
    """(mean, std, top) of a Gaussian's loss that is met with this chance."""

    def less(loss: float) -> float:
        return math.log(1 + rate * (math.exp(loss) - 1))

    return (
        rate * less(0.5 / z**2 + 1 / z),
        math.sqrt(rate) * less(0.5 / z**2 + 2 / z),
        less(0.5 / z**2 + 9 / z),
    )


def gaussian(z: float) -> tuple[float, float, float]:
    return 0.5 / z**2, 1 / z, 0.5 / z**2 + 9 / z


def step(coarsest: float, losses: list[tuple[tuple[float, float, float], int, int]]) -> float:
    """losses: ((mean, std, top), count, points for each std)."""
    finest = min([coarsest, *(std / points for (_, std, _), _, points in losses)])
    window = sum(n * mean + 12 * math.sqrt(n) * std for (mean, std, _), n, _ in losses)
    peak = max(top for (_, _, top), _, _ in losses)
    return max(finest, window / POINTS, 4 * peak / POINTS, 1e-9)


def pure(e: float) -> tuple[float, float, float]:
    return e * math.tanh(e / 2), e, e


def laplace(e: float, d: int) -> tuple[float, float, float]:
    return min(e * math.tanh(e / 2), e * e / d), e / math.sqrt(d), e


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_the_step_by_hand(adjacency: str) -> None:
    double = 2 if adjacency == "replace-one" else 1
    cases = [
        ([(Gaussian(2.0), 1)], 1e-4, [(gaussian(2.0), 1, 25)]),
        ([(Gaussian(2e4), 1)], 1e-4, [(gaussian(2e4), 1, 25)]),  # narrow: its own spread counts
        ([(Gaussian(1e-3), 1)], 1e-4, [(gaussian(1e-3), 1, 25)]),  # wide: the number of points
        # Gaussians of all kinds are one: mu^2 = 16/4 + 9
        (
            [(Gaussian(2.0), 16), (CorrelatedGaussian(3.0, 1), 1)],
            1e-4,
            [(gaussian(1 / math.sqrt(13)), 1, 25)],
        ),
        ([(PoissonGaussian(0.7, 0.1), 400)], 1e-4, [(sampled(0.7 * double, 0.1), 400, 25)]),
        ([(PoissonGaussian(900.0, 0.01), 3)], 1e-4, [(sampled(900.0 * double, 0.01), 3, 25)]),
        ([(OneOfGaussian(0.5, 8), 30)], 1e-4, [(sampled(0.5, 1 / 8), 30, 25)]),
        ([(Pure(0.3), 5)], 1e-3, [(pure(0.3), 5, 100)]),
        ([(Pure(3.0), 500)], 1e-3, [(pure(3.0), 500, 100)]),
        ([(Pure(1e-8), 1)], 1e-3, [(pure(1e-8), 1, 100)]),
        ([(L2Laplace(2.0, 30), 90)], 1e-3, [(laplace(2.0, 30), 90, 100)]),
        ([(L2Laplace(9.0, 2), 40)], 1e-3, [(laplace(9.0, 2), 40, 100)]),
        ([(L2Laplace(0.01, 4000), 1)], 1e-3, [(laplace(0.01, 4000), 1, 100)]),
        (
            [(Pure(40.0), 3), (Gaussian(0.1), 1), (PoissonGaussian(1.5, 0.2), 7)],
            1e-4,
            [(pure(40.0), 3, 100), (gaussian(0.1), 1, 25), (sampled(1.5 * double, 0.2), 7, 25)],
        ),
        # A record that is seen with hardly any noise loses as much as at 0.01
        ([(OneOfGaussian(0.001, 8), 2)], 1e-4, None),
    ]
    for events, coarsest, losses in cases:
        found = grid_step(events, adjacency)  # type: ignore[arg-type]
        if losses is None:
            assert found == grid_step([(OneOfGaussian(0.01, 8), 2)], adjacency)
        else:
            assert found == pytest.approx(step(coarsest, losses), rel=1e-12), events  # type: ignore[arg-type]


def test_on_a_coarser_grid_the_same_composition_is_looser() -> None:
    events = [(PoissonGaussian(1.0, 0.1), 20), (Gaussian(3.0), 2)]
    found = [pld_profile(events, "add-remove", c).delta(1.0) for c in (16.0, 32.0, 64.0)]  # type: ignore[arg-type]
    assert found[0] <= found[1] <= found[2] < 1.02 * found[0]


def test_losses_of_a_million_nats_are_no_promise() -> None:
    assert pld_profile([(Pure(1e9), 1)], "replace-one").delta(1.0) == 1.0


class Rounded:
    """A loss whose inverse is a hair too small, as a running sum may leave it."""

    def get_delta_for_epsilon(self, epsilon: float) -> float:
        return math.exp(-epsilon)

    def get_epsilon_for_delta(self, delta: float) -> float:
        return -math.log(delta) * (1 - 1e-9)


def test_an_inverse_that_is_a_hair_too_small_is_made_larger() -> None:
    profile = PldProfile(Rounded(), slack=1e-12)
    for delta in (0.9, 0.3, 1e-5):
        epsilon = profile.epsilon(delta)
        assert profile.delta(epsilon) <= delta
        assert epsilon == pytest.approx(-math.log(delta - 1e-12), rel=1e-7)
    assert profile.epsilon(1.0) == 0.0 and profile.epsilon(1e-12) == math.inf
    bounded = PldProfile(Rounded(), slack=1e-12, pure_epsilon=2.0)
    assert bounded.epsilon(1e-12) == 2.0 == bounded.epsilon(1e-5)
    assert bounded.delta(2.0) == 0.0 and bounded.delta(1.999) > 0.1
    assert profile.delta(0.0) == 1.0


@pytest.mark.parametrize("beyond", [math.inf, 1e200])
def test_noise_that_grows_without_limit_has_a_scale_too(beyond: float) -> None:
    """From 10 on there is nothing left to lose; where more than 10 is needed, that is the scale."""

    def events_at(k: float) -> list[tuple[Gaussian, int]]:
        return [(Gaussian(k if k < 10 else beyond), 1)]

    plain = solve_scale(lambda k: [(Gaussian(k), 1)], 0.1, 1e-5)
    assert plain > 20
    assert solve_scale(events_at, 0.1, 1e-5) == pytest.approx(10.0, rel=1e-5)
    assert solve_scale(events_at, 2.0, 1e-5) == pytest.approx(
        solve_scale(lambda k: [(Gaussian(k), 1)], 2.0, 1e-5), rel=1e-6
    )


def test_pure_rounds_at_the_ends_of_delta() -> None:
    profile = PureProfile(0.3, 5)
    assert profile.epsilon(0.0) == pytest.approx(1.5) and profile.epsilon(1.0) == 0.0
    assert profile.epsilon(profile.delta(0.0)) == 0.0
    assert 0 < profile.epsilon(0.9 * profile.delta(0.0)) < 0.3
