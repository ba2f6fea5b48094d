"""The loss of one of q records, and of a sample without noise, against the formulas in mpmath."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest

from tacenda.privacy.accounting.events import OneOfGaussian, PoissonGaussian
from tacenda.privacy.accounting.subsampled import (
    amplified,
    one_of_loss,
    poisson_gaussian_loss,
    revealed_loss,
    their_multiplier,
)


def profile(z: float, q: int, epsilon: float) -> float:
    """g delta_G(ln(1 + (e^eps - 1)/g)) for eps >= 0, its mirror image below."""
    with mpmath.workdps(60):
        if epsilon < 0:
            e = -mpmath.mpf(epsilon)
            return float(-mpmath.expm1(-e) + mpmath.exp(-e) * profile(z, q, -epsilon))
        mu, inner = 1 / mpmath.mpf(z), mpmath.log1p(mpmath.expm1(epsilon) * q)
        a, b = inner / mu - mu / 2, inner / mu + mu / 2
        return float((mpmath.ncdf(-a) - mpmath.exp(inner) * mpmath.ncdf(-b)) / q)


@pytest.mark.parametrize(
    ("z", "q", "step", "places"),
    [
        (1.0, 3, 2**-10, [0, 1, 5, 400, 1500, -1, -300]),
        (0.3, 10, 2**-7, [0, 3, 64, 900, -64]),
        (4.0, 1, 2**-10, [0, 10, 500, 1200, -700]),  # one record: the plain Gaussian
        (0.028, 4, 0.5, [0, 1000, 1199, 1200, 1201, 1202, 1300, 1600, -900]),  # about 600 nats
        (0.0101, 2, 1.0, [0, 599, 600, 601, 4000, 5000]),
    ],
)
def test_at_the_places_of_its_grid_it_is_the_bound(
    z: float, q: int, step: float, places: list[int]
) -> None:
    loss: Any = one_of_loss(OneOfGaussian(z, q), step)
    for place in places:
        found = float(loss.get_delta_for_epsilon(place * step))
        assert found == pytest.approx(profile(z, q, place * step), rel=1e-7, abs=1e-15), place


def test_between_them_it_is_never_less() -> None:
    loss: Any = one_of_loss(OneOfGaussian(0.8, 5), 2**-4)
    for epsilon in (0.01, 0.1, 0.7, 1.23, 3.3):
        found, true = float(loss.get_delta_for_epsilon(epsilon)), profile(0.8, 5, epsilon)
        assert true <= found * (1 + 1e-12) and found <= true + 0.02


@pytest.mark.parametrize("rate", [0.01, 0.5, 0.9])
def test_without_noise_a_sampled_record_is_seen_or_not(rate: float) -> None:
    step = 1e-3
    quiet = -math.log1p(-rate)
    found: Any = revealed_loss(rate, step)
    sampled: Any = poisson_gaussian_loss(PoissonGaussian(0.0099, rate), "replace-one", step)
    one: Any = one_of_loss(OneOfGaussian(0.0099, 4), step)
    for loss, share in ((found, rate), (sampled, rate), (one, 0.25)):
        assert float(loss.get_delta_for_epsilon(50.0)) == pytest.approx(share)
    # Below the loss of not being seen there is that too
    lower = float(found.get_delta_for_epsilon(quiet / 2))
    assert lower == pytest.approx(rate + (1 - rate) * -math.expm1(-quiet / 2), abs=2 * step)


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1.0, 599.999, 600.0, 650.0, 5000.0])
def test_what_sampling_leaves_of_a_loss(epsilon: float) -> None:
    for rate in (1e-6, 0.3, 1.0):
        with mpmath.workdps(40):
            true = float(mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(mpmath.mpf(epsilon))))
        assert amplified(epsilon, rate) == pytest.approx(true, rel=1e-13)


def test_their_multiplier_counts_a_replaced_record_twice() -> None:
    assert (
        their_multiplier(3.0, "replace-one") == 6.0 and their_multiplier(3.0, "add-remove") == 3.0
    )
