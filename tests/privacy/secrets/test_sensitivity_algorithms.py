"""What each algorithm really releases moves by no more than the noise was planned for; and noise
inside an objective costs what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import TUNED, make_block, run_spec
from tacenda.privacy.secrets.mechanisms import objective_charge, objective_noise
from tacenda.questions.facts import Facts
from tacenda.runtime.rehearsal import rehearse

A = tc.algorithms
ADDITIVE = ("dpadmm", "ipadmm", "ddpadmm", "cdpadmm", "dda", "dpdda", "pvp")
N, M = 4, 6


class Spy:
    """A door that also keeps what passes through it."""

    def __init__(self, door: Any) -> None:
        self.door, self.seen = door, []

    def release(self, value: Any, *args: Any) -> Any:
        out = self.door.release(value, *args)
        self.seen.append((out, value.sensitivity))
        return out

    def release_argmin(self, *args: Any) -> Any:
        return self.door.release_argmin(*args)


def pair() -> tuple[Any, Any]:
    """Nodes of six records; the last one is (a, b) or (-a, b), and the first step starts where the
    loss is steepest along b."""
    a, b = np.sqrt(1 - 1e-4), 1e-2
    rest, y = np.zeros((M - 1, 2)), np.ones(M)
    first, second = ((np.vstack([rest, [s * a, b]]) * (1 - 1e-12), y) for s in (1, -1))
    return tuple(tc.Problem([part] * N, classes=(-1, 1), strength=0.05) for part in (first, second))


def first_release(data: Any, algorithm: Any, start: Any) -> tuple[Any, Any]:
    block, door, _ = make_block(data)
    spy = block._gate = Spy(door)
    state = algorithm.init(block, start.copy())
    if hasattr(state, "z"):  # dual averaging begins at z = 0: put its point where the loss is steep
        state = type(state)(state.x, state.z + np.array([0.0, 1e6]))
    algorithm.step(state, block)
    return spy.seen[0]


@pytest.mark.parametrize("name", ADDITIVE)
def test_released_values_move_as_far_as_was_planned(name: str) -> None:
    start = np.tile([0.0, -1e5], (N, 1))
    (one, declared), (other, same) = (first_release(data, TUNED[name], start) for data in pair())
    assert np.array_equal(declared, same)
    distance = np.linalg.norm(one - other, axis=1)
    assert np.all(distance <= declared * (1 + 1e-6))
    assert np.all(distance >= 0.9 * declared)


@pytest.mark.parametrize("name", ADDITIVE)
def test_the_rehearsal_plans_for_the_same_sensitivity(name: str) -> None:
    data = pair()[0]
    _, declared = first_release(data, TUNED[name], np.zeros((N, 2)))
    topology = tc.graph.Topology.of(tc.graph.ring(N))
    sites = rehearse(run_spec(TUNED[name], topology, Facts.of(data), 3), np.arange(N))
    assert np.allclose(sites[0][0].sensitivity, declared, rtol=1e-12)
    by_hand = {
        "dpadmm": 2 / M / (0.2 + 0.3),
        "ipadmm": 2 / M / (2 * 0.1 * 2 + 0.3),
        "ddpadmm": 2 / M / (2 * 0.1 * 2 + 0.3),
        "cdpadmm": 2 / M / (2 * 0.1 * 2 + 0.3),
        "dda": 2 / M,
        "dpdda": 2 / M,
        "pvp": (2 / M + 2e-8) / (0.05 + 2 * 0.1 * 2),
    }
    assert np.allclose(declared, by_hand[name], rtol=1e-9)


def log_density(data: Any, w: Any, linear: Any, q: float, rate: float, extra: float) -> float:
    """ln of the density at w of argmin f + (linear + e).w + q|w|^2 + extra/2 |w|^2, up to a
    constant: -rate |e(w)| + ln det H(w).

    Computed from the formula of the logistic loss, independently of the package.
    """
    x, y, m = data.store.rows, data.store.labels, len(data.store.labels)
    slope = -y / (1 + np.exp(y * (x @ w)))
    curve = np.exp(-np.logaddexp(0, x @ w) - np.logaddexp(0, -(x @ w)))
    kappa = data.strength + extra + 2 * q
    gradient = x.T @ slope / m + kappa * w + linear
    hessian = (x.T * curve) @ x / m + kappa * np.eye(len(w))
    return float(-rate * np.linalg.norm(gradient) + np.linalg.slogdet(hessian)[1])


def objective(records: Any, q: float, epsilon: float) -> tuple[Any, Any, float]:
    data = tc.Problem([records], classes=(-1, 1), strength=0.05)
    terms = Facts.of(data, tolerance=0.0 + 1e-300).objective_terms(np.array([q]))
    noise = objective_noise(np.array([epsilon]), terms)
    return data, noise, objective_charge(noise, terms, 3).event(0).epsilon


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("q", [0.0, 0.1, 5.0])
def test_objective_noise_never_costs_more_than_its_charge(q: float, epsilon: float) -> None:
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(200):
        x = rng.normal(size=(3, 2))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-12)
        new = rng.normal(size=2)
        y, flipped = rng.choice([-1, 1], 3), rng.choice([-1, 1])
        a, noise, charge = objective((x, y), q, epsilon)
        b, _, _ = objective(
            (
                np.vstack([x[:2], new / np.linalg.norm(new) * (1 - 1e-12)]),
                np.append(y[:2], flipped),
            ),
            q,
            epsilon,
        )
        w = rng.normal(size=2) * rng.choice([0.1, 1, 10])
        linear = rng.normal(size=2) * rng.choice([0, 1, 10])
        rate, extra = float(noise.amount[0]), float(noise.extra[0])
        ratio = log_density(a, w, linear, q, rate, extra) - log_density(
            b, w, linear, q, rate, extra
        )
        worst = max(worst, abs(ratio))
        assert charge == pytest.approx(epsilon, rel=1e-9)
    assert 0 < worst <= epsilon * (1 + 1e-9)


def test_objective_noise_is_nearly_as_private_as_it_must_be() -> None:
    """Zhang and Zhu's (2016) round at alpha = 1: the noise of zeta = ah/2 costs it nearly whole
    (0.9 and more); its line 5, ah, would cost 2."""
    a, b, q = np.sqrt(1 - 1e-4) * (1 - 1e-12), 1e-2, 5.0
    rest = np.zeros((2, 2))
    one, noise, _ = objective((np.vstack([rest, [a, b]]), np.ones(3)), q, 1.0)
    two, _, _ = objective((np.vstack([rest, [-a, b]]), np.ones(3)), q, 1.0)
    w = np.array([0.0, -1e4])
    kappa = 0.05 + 2 * q + float(noise.extra[0])
    # So that both noises lie along the first axis
    linear = -kappa * w + np.array([10.0, 1 / 3 * b])
    rate, extra = float(noise.amount[0]), float(noise.extra[0])
    ratio = log_density(one, w, linear, q, rate, extra) - log_density(
        two, w, linear, q, rate, extra
    )
    assert 0.9 <= abs(ratio) <= 1.0
    doubled = log_density(one, w, linear, q, 2 * rate, extra) - log_density(
        two, w, linear, q, 2 * rate, extra
    )
    assert 1.8 <= abs(doubled) <= 2.0


def test_multinomial_objective_noise_charges_the_larger_logarithm() -> None:
    """(K-1) ln(1 + data_norm^2 c/(K m kappa)) bounds the determinant ratio of any record,
    found by search."""
    rng = np.random.default_rng(0)
    classes, m, kappa = 3, 4, 0.3
    data = tc.Problem(
        [(np.eye(4) * (1 - 1e-12), [0, 1, 2, 0])],
        loss="multinomial",
        classes=(0, 1, 2),
        strength=0.3,
    )
    declared = float(data.constants.log_curvature(m, kappa))
    assert declared == pytest.approx(2 * np.log1p(1 / (3 * m * kappa)))
    worst = 0.0
    for _ in range(500):
        p = rng.dirichlet(np.full(classes, 5.0))
        h = (np.diag(p) - np.outer(p, p)) / m  # |x| = 1: the rest of the spectrum is kappa
        worst = max(
            worst, np.linalg.slogdet(h + kappa * np.eye(classes))[1] - classes * np.log(kappa)
        )
    assert 0.9 * declared < worst <= declared
