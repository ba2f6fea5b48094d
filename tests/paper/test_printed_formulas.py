"""The papers' own noise, through a whole run, against their formulas worked out by hand: small
nodes, where every term counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import shards
from tacenda.algorithms.published import PublishedPlan
from tacenda.errors import InputError, UnsupportedError
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts

A = tc.algorithms
M, N, R = 12, 5, 0.2
DEGREE = N - 1


def run(algorithm: Any, rounds: int, privacy: tc.Privacy, scale: float = 1.0) -> Any:
    problem = tc.Problem(shards([M] * N, 3), classes=("no", "yes"), strength=R, loss_scale=scale)
    said = tc.simulate(
        problem, tc.graph.complete(N), algorithm, rounds, privacy, seed=0, record_every=0
    ).privacy
    assert said is not None and said.mode == "as-published"
    return said


def as_published(epsilon: float, delta: float = 1e-4) -> tc.Privacy:
    return tc.Privacy(epsilon, delta, mode="as-published")


def test_recycled_noise_is_what_its_bound_leaves() -> None:
    """Zhang et al. (2018), (30): each odd round costs (2/m)(a + 1.4 c1/kappa) of the claim; its
    true loss is (2/m) a + ln(1 + c1/(m kappa))."""
    eta, epsilon, rounds = 0.3, 3.0, 5
    kappa = R + 2 * eta * DEGREE
    a = epsilon / rounds * M / 2 - 1.4 * 0.25 / kappa
    events = run(A.RADMM(penalty=eta, recycle_proximal=1.0), rounds, as_published(epsilon)).ledger(
        2
    )
    assert sum(count for _, count in events) == rounds
    for event, _ in events:
        assert event.epsilon == pytest.approx(2 / M * a + math.log1p(0.25 / (M * kappa)), rel=1e-9)


def test_recycled_noise_outside_its_condition_says_so() -> None:
    """Algorithm 2 asks for 2 c1 < (m/c)(r + 2 eta deg), c1 = 1/4 here."""
    edge = M * (R + 2 * 0.3 * DEGREE) / 0.5
    for scale, outside in ((1.1 * edge, True), (0.9 * edge, False)):
        said = run(A.RADMM(0.3, 1e3), 2, tc.Privacy.from_paper(a=20.0), scale)
        assert ("outside its condition" in said.why) is outside


def test_recycled_noise_from_its_own_input_claims_the_sum_over_rounds() -> None:
    """With a penalty that grows every round has its own kappa, and its own part of the claim."""
    a, rounds = 20.0, 4
    privacy = tc.Privacy.from_paper(a=a)
    penalty = tc.schedules.geometric(0.3, 1.5)
    said = run(A.RADMM(penalty, 5.0), rounds, privacy)
    kappas = [R + 2 * penalty(2 * k - 1) * DEGREE for k in range(1, rounds + 1)]  # odd iterations
    parts = [2 / M * (a + 1.4 * 0.25 / kappa) for kappa in kappas]
    assert len(set(parts)) == rounds
    assert said.claimed == pytest.approx((sum(parts), 0.0), rel=1e-9)


def test_ipadmm_noise_by_its_constant() -> None:
    said = run(A.IPADMM(inner_steps=3), 4, tc.Privacy.from_paper(epsilon=2.0, delta=1e-4, c0=1.7))
    ((event, count),) = said.ledger(1)
    assert count == 12
    assert event.noise_multiplier == pytest.approx(
        1.7 * math.sqrt(2 * 12 * math.log(1.25e4)) / 2.0, rel=1e-12
    )
    assert said.claimed == (2.0, 1e-4)


def test_dual_averaging_noise_by_its_theorem() -> None:
    """Liu et al. (2022): std = L sqrt(12 T ln(1/delta)) / (m epsilon) on gradients of sensitivity
    2L/m."""
    ((event, count),) = run(A.DPDDA(), 6, as_published(0.5)).ledger(3)
    assert count == 6
    std = math.sqrt(12 * 6 * math.log(1e4)) / (M * 0.5)
    assert event.noise_multiplier == pytest.approx(std / (2 / M), rel=1e-12)


@pytest.mark.parametrize("given", ["epsilon", "phi"])
def test_concentrated_noise_by_its_corollary(given: str) -> None:
    """Gauthier et al. (2020): phi = (sqrt(ln(1/delta) + eps) - sqrt(ln(1/delta)))^2 of zCDP in all,
    and phi + 2 sqrt(phi ln(1/delta)) claimed."""
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


@pytest.mark.parametrize("given", ["epsilon", "alpha"])
@pytest.mark.parametrize(("alpha", "eta"), [(1.2, 0.3), (0.002, 0.01)])
def test_dual_perturbation_by_its_algorithm(alpha: float, eta: float, given: str) -> None:
    """Zhang and Zhu (2016), Algorithm 2: ah = alpha - 2 ln(1 + c1/(m kappa)); zeta = ah if that is
    above 0, else alpha/2 with the Phi at which the logarithm is alpha/4. A round truly costs (2/m)
    m zeta + ln(1 + c1/(m (kappa + Phi)))."""
    privacy = as_published(alpha) if given == "epsilon" else tc.Privacy.from_paper(alpha=alpha)
    said = run(A.DVP(penalty=eta), 3, privacy)
    kappa = R + 2 * eta * DEGREE
    ah = alpha - 2 * math.log1p(0.25 / (M * kappa))
    zeta, wider = (ah, kappa) if ah > 0 else (alpha / 2, 0.25 / M / math.expm1(alpha / 4))
    true = 2 * zeta + math.log1p(0.25 / (M * max(wider, kappa)))
    assert (ah > 0) == (alpha > 1)
    for event, _ in said.ledger(0):
        assert event.epsilon == pytest.approx(true, rel=1e-9)
    assert said.claimed == (alpha, 0.0)


@pytest.mark.parametrize("given", ["epsilon", "alpha"])
def test_primal_perturbation_by_its_theorem(given: str) -> None:
    """Zhang and Zhu (2016), Theorem 2: rate r m alpha / 2 on the node's own hidden minimiser. What
    that costs follows the sensitivity of the hidden centre, which grows towards 2/(m r)."""
    privacy = as_published(0.8) if given == "epsilon" else tc.Privacy.from_paper(alpha=0.8)
    said = run(A.PVP(penalty=0.3), 3, privacy)
    kappa, rate, tolerance = R + 2 * 0.3 * DEGREE, R * M * 0.8 / 2, 1e-8
    moved, wanted = 0.0, []
    for _ in range(3):
        moved = (2 / M + 2 * 0.3 * DEGREE * moved + 2 * tolerance) / kappa
        wanted.append(rate * moved)
    found = [event.epsilon for event, count in said.ledger(1) for _ in range(count)]
    assert found == pytest.approx(wanted, rel=1e-9)
    assert said.claimed == (0.8, 0.0)


@pytest.mark.parametrize("kind", ["radmm", "madmm"])
def test_noise_by_its_rate(kind: str) -> None:
    """Zhang et al. (2018): a given, epsilon = sum of (2/m)(a + 1.4 c1/kappa) claimed; M-ADMM's e
    stands in the penalty, where it is multiplied by 2 eta deg."""
    eta, a, rounds = 0.3, 2.0, 4
    algorithm = A.RADMM(penalty=eta, recycle_proximal=1.0) if kind == "radmm" else A.MADMM(eta)
    said = run(algorithm, rounds, tc.Privacy.from_paper(a=a))
    kappa = R + 2 * eta * DEGREE
    rate = a if kind == "radmm" else a / (2 * eta * DEGREE)
    for event, _ in said.ledger(2):
        assert event.epsilon == pytest.approx(
            2 / M * rate + math.log1p(0.25 / (M * kappa)), rel=1e-9
        )
    claimed = rounds * 2 / M * (rate + 1.4 * 0.25 / kappa)
    assert said.claimed == pytest.approx((claimed, 0.0), rel=1e-9)


def test_a_print_that_leaves_nothing_to_draw_is_refused() -> None:
    with pytest.raises(InputError, match="leaves no room for noise"):
        run(A.RADMM(penalty=0.3, recycle_proximal=1.0), 5, as_published(0.05))
    with pytest.raises(InputError, match="needs epsilon or phi"):
        run(A.CDPADMM(), 2, tc.Privacy.from_paper(a=2.0))
    with pytest.raises(InputError, match="needs epsilon or alpha"):
        run(A.DVP(), 2, tc.Privacy.from_paper(phi=2.0))
    with pytest.raises(InputError, match="needs epsilon;"):
        run(A.DPDDA(), 2, tc.Privacy.from_paper(phi=2.0))
    problem = tc.Problem(shards([M] * N, 3), classes=("no", "yes"), regulariser="none")
    with pytest.raises(UnsupportedError, match="divides by the regulariser's strength"):
        tc.simulate(problem, tc.graph.complete(N), A.PVP(), 2, as_published(1.0), seed=0)


def test_a_published_plan_draws_only_what_its_paper_prints() -> None:
    plan = PublishedPlan(
        Facts(np.array([4.0, 5.0]), 2, Constants.declared(loss="logistic")),
        np.array([0.5, 1.5]),
        1.0,
    )
    assert (plan.weight(1), plan.weight(2)) == (0.5, 1.5)
    assert plan.scale.tolist() == [1.0, 1.0]
    assert plan.rows(np.array([1])).facts.sizes.tolist() == [5.0]
    assert plan.leverage is None and plan.coalition == 0
    for draw, words in (
        (plan.noise_std, "not Gaussian"),
        (plan.laplace_rate, "inside its objective"),
        (plan.objective, "on a released value"),
    ):
        with pytest.raises(UnsupportedError, match=words):
            draw(None)  # type: ignore[arg-type]
