"""Sums of discrete Gaussians: the factors of the proof against mpmath, the proof's bound against
exact convolutions."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from tacenda.privacy.accounting import discrete_sums as ds
from tacenda.privacy.accounting.curves import GaussianProfile, gaussian_log_delta


def one(scale: float, reach: int) -> np.ndarray:
    n = np.arange(-reach, reach + 1)
    weights = np.exp(-(n**2) / (2 * scale**2))
    return weights / weights.sum()


def summed(scale: float, members: int, reach: int) -> np.ndarray:
    """Probabilities of the sum at -members * reach, ..., members * reach."""
    law = one(scale, reach)
    out = law
    for _ in range(members - 1):
        out = np.convolve(out, law)
    return out


def smoothed(scale: float, members: int, b: float, reach: int) -> np.ndarray:
    """Probabilities of the post-processed real Gaussian at -reach, ..., reach, by quadrature."""
    a = math.sqrt(members * scale**2 - b * b)
    y = np.linspace(-10 * a, 10 * a, 40_001)
    density = np.exp(-(y**2) / (2 * a * a)) / (a * math.sqrt(2 * math.pi))
    near = np.arange(-math.ceil(9 * b) - 1, math.ceil(9 * b) + 2)
    places = np.rint(y)[:, None] + near
    weights = np.exp(-((places - y[:, None]) ** 2) / (2 * b * b))
    weights *= (density / weights.sum(axis=1) * (y[1] - y[0]))[:, None]
    out = np.zeros(2 * reach + 1)
    inside = np.abs(places) <= reach
    np.add.at(out, (places[inside] + reach).astype(int), weights[inside])
    return out


@pytest.mark.parametrize("width", [0.35, 0.5, 0.8, 1.0, 2.0])
def test_the_factor_is_that_of_theta(width: float) -> None:
    with mpmath.workdps(60):
        q = mpmath.exp(-2 * (mpmath.pi * width) ** 2)
        true = float(mpmath.log(mpmath.jtheta(3, 0, q) / mpmath.jtheta(3, mpmath.pi / 2, q)))
    found = ds.log_ratio(1.0, 1, width)
    assert true * (1 - 1e-9) <= found <= true * 1.7  # e_w bounds the alternating sum too


def test_what_the_margin_promises() -> None:
    """kappa of the coarsest grid that is allowed, and the two halves of the margin."""
    assert ds.log_ratio(ds.LEAST_SCALE, 1000) < 1e-136
    with mpmath.workdps(30):
        lost = 1 / mpmath.sqrt(1 - mpmath.mpf(ds.SMOOTHING) ** 2 / ds.LEAST_TOTAL**2) - 1
    assert lost < ds.MARGIN / 2
    total = 1e12 * ds.log_ratio(ds.LEAST_SCALE, 10**4)
    for mu in (1e-30, 1e-3, 1.0, 40.0):
        assert total * (2.5 + 2.6 * math.exp(mu**2 / 8)) * 1e20 < ds.MARGIN / 2 * mu
    assert not ds.is_fine(ds.LEAST_SCALE * 0.99, 1e9)
    assert not ds.is_fine(1000.0, 4)
    assert ds.is_fine(ds.LEAST_TOTAL / 2, 4)


@pytest.mark.parametrize(
    ("scale", "members", "b"),
    [(1.0, 1, 0.6), (1.0, 2, 0.6), (0.8, 4, 0.7), (1.3, 3, 0.9), (0.6, 7, 0.5)],
)
def test_probabilities_lie_within_the_factor(scale: float, members: int, b: float) -> None:
    reach = 16
    law, made = summed(scale, members, reach), smoothed(scale, members, b, members * reach)
    seen = law > 1e-9
    ratio = np.abs(np.log(law[seen] / made[seen]))
    assert ratio.max() <= ds.log_ratio(scale, members, b) + 1e-9
    assert ratio.max() >= 1e-4 * ds.log_ratio(scale, members, b)  # the bound is about something


def delta_between(law: np.ndarray, shift: int, epsilon: float) -> float:
    moved = np.concatenate([np.zeros(shift), law])
    still = np.concatenate([law, np.zeros(shift)])
    return float(np.maximum(still - math.exp(epsilon) * moved, 0).sum())


@pytest.mark.parametrize(
    ("scale", "members", "b", "shift"),
    [(1.0, 1, 0.7, 1), (1.0, 3, 0.7, 2), (1.5, 4, 1.0, 1), (0.7, 6, 0.6, 3), (6.0, 2, 1.6, 5)],
)
def test_the_curve_lies_above_the_true_one(
    scale: float, members: int, b: float, shift: int
) -> None:
    law = summed(scale, members, math.ceil(12 * scale))
    mu, kappa = ds.sum_mu(shift, scale, members, b), ds.log_ratio(scale, members, b)
    close = []
    for epsilon in np.linspace(2 * kappa, 6 * mu, 25):
        true = delta_between(law, shift, float(epsilon))
        bound = math.exp(kappa + gaussian_log_delta(mu, float(epsilon) - 2 * kappa))
        assert true <= bound + 1e-15
        close.append(true / bound)
    assert max(close) > 0.6


def test_two_coordinates_cost_no_more_than_their_length() -> None:
    """A shift of (3, 4) is one of length 5, with two factors."""
    scale, members, b = 2.5, 2, 1.2
    law = summed(scale, members, 26)
    mu, kappa = ds.sum_mu(5.0, scale, members, b), 2 * ds.log_ratio(scale, members, b)
    (a, a_moved), (c, c_moved) = (
        (np.concatenate([law, np.zeros(k)]), np.concatenate([np.zeros(k), law])) for k in (3, 4)
    )
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        true = np.maximum(np.outer(a, c) - math.exp(epsilon) * np.outer(a_moved, c_moved), 0).sum()
        bound = math.exp(kappa + gaussian_log_delta(mu, epsilon - 2 * kappa))
        assert 0.5 * bound < true <= bound


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 1.0])
def test_on_the_coarsest_grid_the_margin_is_enough(epsilon: float) -> None:
    """2^17 steps: mu larger by MARGIN has its curve above the exact one, and hardly above."""
    scale, shift = ds.LEAST_TOTAL, 1 << 15
    law = one(scale, 12 * int(scale))
    true = delta_between(law, shift, epsilon)
    mu = shift / scale
    assert true <= GaussianProfile(mu * (1 + ds.MARGIN)).delta(epsilon) * (1 + 1e-11)
    assert true >= GaussianProfile(mu * (1 - 10 * ds.MARGIN)).delta(epsilon) * (1 - 1e-7)
