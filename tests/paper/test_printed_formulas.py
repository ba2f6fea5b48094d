"""The papers' own noise, through a whole run, against their formulas worked out by hand: small
nodes, where every term counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import shards

A = tc.algorithms
M, N, R = 12, 5, 0.2
DEGREE = N - 1


def run(algorithm: Any, rounds: int, privacy: tc.Privacy) -> Any:
    problem = tc.Problem(shards([M] * N, 3), classes=("no", "yes"), strength=R)
    said = tc.simulate(
        problem, tc.graph.complete(N), algorithm, rounds, privacy, seed=0, record_every=0
    ).privacy
    assert said is not None and said.mode == "as-published"
    return said


def as_published(epsilon: float, delta: float = 1e-4) -> tc.Privacy:
    return tc.Privacy(epsilon, delta, mode="as-published")


def test_recycled_noise_is_what_its_bound_leaves() -> None:
    """ZhangEtAl18 (30): each odd round costs (2/m)(a + 1.4 c1/kappa) of the claim; its true loss is
    (2/m) a + ln(1 + c1/(m kappa))."""
    eta, epsilon, rounds = 0.3, 3.0, 5
    kappa = R + 2 * eta * DEGREE
    a = epsilon / rounds * M / 2 - 1.4 * 0.25 / kappa
    events = run(A.RADMM(penalty=eta, recycle_proximal=1.0), rounds, as_published(epsilon)).ledger(
        2
    )
    assert sum(count for _, count in events) == rounds
    for event, _ in events:
        assert event.epsilon == pytest.approx(2 / M * a + math.log1p(0.25 / (M * kappa)), rel=1e-9)


def test_ipadmm_noise_by_its_constant() -> None:
    said = run(A.IPADMM(inner_steps=3), 4, tc.Privacy.from_paper(epsilon=2.0, delta=1e-4, c0=1.7))
    ((event, count),) = said.ledger(1)
    assert count == 12
    assert event.noise_multiplier == pytest.approx(
        1.7 * math.sqrt(2 * 12 * math.log(1.25e4)) / 2.0, rel=1e-12
    )
    assert said.claimed == (2.0, 1e-4)


def test_dual_averaging_noise_by_its_theorem() -> None:
    """LiuEtAl22: std = L sqrt(12 T ln(1/delta)) / (m epsilon) on gradients of sensitivity 2L/m."""
    ((event, count),) = run(A.DPDDA(), 6, as_published(0.5)).ledger(3)
    assert count == 6
    std = math.sqrt(12 * 6 * math.log(1e4)) / (M * 0.5)
    assert event.noise_multiplier == pytest.approx(std / (2 / M), rel=1e-12)


@pytest.mark.parametrize("given", ["epsilon", "phi"])
def test_concentrated_noise_by_its_corollary(given: str) -> None:
    """GauthierEtAl20: phi = (sqrt(ln(1/delta) + eps) - sqrt(ln(1/delta)))^2 of zCDP in all, and phi
    + 2 sqrt(phi ln(1/delta)) claimed."""
    log = math.log(1e4)
    phi = (math.sqrt(log + 1.5) - math.sqrt(log)) ** 2
    privacy = (
        as_published(1.5) if given == "epsilon" else tc.Privacy.from_paper(phi=phi, delta=1e-4)
    )
    said = run(A.CDPADMM(penalty=0.2, proximal=0.7, variance_decay=0.8), 4, privacy)
    for node in range(N):
        rho = sum(count / (2 * event.noise_multiplier**2) for event, count in said.ledger(node))
        assert rho == pytest.approx(phi, rel=1e-9)
    z = [event.noise_multiplier for event, _ in said.ledger(0)]
    np.testing.assert_allclose(np.array(z[1:]) ** 2 / np.array(z[:-1]) ** 2, 0.8, rtol=1e-9)
    assert said.claimed == pytest.approx((phi + 2 * math.sqrt(phi * log), 1e-4), rel=1e-12)
