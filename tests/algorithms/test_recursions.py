"""A few rounds without noise against the recursions of the docstrings, written out here node by
node."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize

import tacenda as tc
from support import shards

A = tc.algorithms
GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)])
SIZES, R, C = [9, 14, 7, 20, 11], 0.3, 1.4
PARTS = shards(SIZES, 3, seed=4)
NEAR = {i: sorted(GRAPH.neighbors(i)) for i in range(5)}
DEG = np.array([len(NEAR[i]) for i in range(5)])


def data() -> Any:
    return tc.Problem(PARTS, strength=R, loss_scale=C, classes=("no", "yes"))


def last(algorithm: Any, rounds: int, **more: Any) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sufficient conditions that these few rounds need not meet
        settings = {"record_every": 0, "solver_tolerance": 1e-11, "output": "last", **more}
        result = tc.simulate(data(), GRAPH, algorithm, rounds, **settings)
    return np.asarray(result.models)


def loss_gradient(i: int, w: np.ndarray) -> np.ndarray:
    x, y = PARTS[i][0], np.where(PARTS[i][1] == "yes", 1.0, -1.0)
    return -C / len(y) * (x * (y / (1 + np.exp(y * (x @ w))))[:, None]).sum(axis=0)


def argmin(i: int, slope: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Where the gradient of f_i plus `slope` vanishes."""
    w = np.zeros(3)
    for _ in range(60):  # Newton by finite differences of the gradient: small and strongly convex
        g = loss_gradient(i, w) + R * w + slope(w)
        h = np.array(
            [
                (loss_gradient(i, w + 1e-6 * e) - loss_gradient(i, w - 1e-6 * e)) / 2e-6
                for e in np.eye(3)
            ]
        )
        h += R * np.eye(3) + np.array([(slope(w + e) - slope(w)) for e in np.eye(3)])
        w = w - np.linalg.solve(h, g)
    return w


def admm(eta: Callable[[int], float], theta: Callable[[int], float], rounds: int) -> np.ndarray:
    w, dual = np.zeros((5, 3)), np.zeros((5, 3))
    for t in range(1, rounds + 1):
        new = np.empty_like(w)
        for i in range(5):
            centres, own, weight = [(w[i] + w[j]) / 2 for j in NEAR[i]], dual[i], eta(t)
            new[i] = argmin(
                i, lambda v, c=centres, d=own, e=weight: 2 * d + 2 * e * sum(v - one for one in c)
            )
        w = new
        dual = dual + theta(t) / 2 * np.array([sum(w[i] - w[j] for j in NEAR[i]) for i in range(5)])
    return w


def test_admm() -> None:
    np.testing.assert_allclose(
        last(A.ADMM(penalty=0.4), 4), admm(lambda t: 0.4, lambda t: 0.4, 4), atol=1e-8
    )


@pytest.mark.parametrize("theta", [None, 0.15])
def test_admm_with_a_growing_penalty_and_its_own_dual_step(theta: float | None) -> None:
    grows = tc.schedules.power(0.3, 0.5)
    found = last(A.MADMM(penalty=grows, dual_step=theta), 4)
    np.testing.assert_allclose(
        found, admm(lambda t: 0.3 * t**0.5, lambda t: theta or 0.3, 4), atol=1e-8
    )


def linearised(
    rho: float, eta: float, steps: int, rounds: int, by_prox: bool, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """(the last shared means, their average over the rounds)."""
    w, shared, dual, kept = np.zeros((5, 3)), np.zeros((5, 3)), np.zeros((5, 3)), []
    for _ in range(rounds):
        new, mean = w.copy(), np.zeros((5, 3))
        for i in range(5):
            pull = 2 * dual[i] + rho * sum(shared[j] + shared[i] for j in NEAR[i])
            weight = 2 * rho * DEG[i] + eta
            for _ in range(steps):
                g = loss_gradient(i, new[i]) + (0 if by_prox else R * new[i])
                new[i] = (eta * new[i] - g + pull) / weight
                if by_prox:
                    new[i] = new[i] / (1 + R / weight)
                new[i] *= min(1.0, radius / max(float(np.linalg.norm(new[i])), 1e-300))
                mean[i] += new[i] / steps
        w, shared = new, mean
        dual = dual - rho / 2 * np.array(
            [sum(shared[i] - shared[j] for j in NEAR[i]) for i in range(5)]
        )
        kept.append(shared)
    return shared, np.mean(kept, axis=0)


@pytest.mark.parametrize(
    ("step", "radius"), [("subgradient", None), ("prox", None), ("subgradient", 0.15)]
)
def test_linearised_admm(step: str, radius: float | None) -> None:
    common: Any = {"penalty": 0.2, "proximal": 0.7, "regulariser_step": step, "radius": radius}
    many, average = linearised(0.2, 0.7, 3, 4, step == "prox", radius or np.inf)
    np.testing.assert_allclose(last(A.IPADMM(inner_steps=3, **common), 4), many, atol=1e-10)
    np.testing.assert_allclose(
        last(A.IPADMM(inner_steps=3, **common), 4, output="average"), average, atol=1e-10
    )
    one, _ = linearised(0.2, 0.7, 1, 4, step == "prox", radius or np.inf)
    for algorithm in (A.CDPADMM(**common), A.DDPADMM(**common)):
        np.testing.assert_allclose(last(algorithm, 4), one, atol=1e-10)


def mixing() -> np.ndarray:
    """Metropolis: 1/(1 + the larger degree) on each edge, the rest at home."""
    w = np.zeros((5, 5))
    for i in range(5):
        for j in NEAR[i]:
            w[i, j] = 1 / (1 + max(DEG[i], DEG[j]))
        w[i, i] = 1 - w[i].sum()
    return w


@pytest.mark.parametrize("tail", [0.4, 1.0])
def test_gossip_descent(tail: float) -> None:
    """prox of step r/2 |w|^2 is division by 1 + step r; the output is the average of the last share
    of the rounds."""
    rounds, w, kept = 5, np.zeros((5, 3)), []
    for t in range(1, rounds + 1):
        eta = 0.8 / t**0.5
        g = np.array([loss_gradient(i, w[i]) for i in range(5)])
        w = mixing() @ (mixing() @ ((w - eta * g) / (1 + eta * R)))
        kept.append(w)
    algorithm = A.GossipGD(step_size=tc.schedules.power(0.8, -0.5), mixings=2, tail=tail)
    np.testing.assert_allclose(last(algorithm, rounds), w, atol=1e-9)
    wanted = np.mean(kept[-round(tail * rounds) :], axis=0)
    np.testing.assert_allclose(last(algorithm, rounds, output="average"), wanted, atol=1e-9)


@pytest.mark.parametrize("noise", ["masked", "independent"])
def test_descent_on_the_exact_mean(noise: str) -> None:
    """One model for all, steps of 1/L with L = c/4 for rows of norm 1."""
    rounds, w, kept = 4, np.zeros(3), []
    for t in range(1, rounds + 1):
        eta = 1.5 / t**0.5 / (C / 4)
        g = np.mean([loss_gradient(i, w) for i in range(5)], axis=0)
        w = (w - eta * g) / (1 + eta * R)
        kept.append(w)
    algorithm = A.TreeGD(step_size=tc.schedules.power(1.5, -0.5), noise=noise, tail=0.5)
    np.testing.assert_allclose(last(algorithm, rounds), np.tile(w, (5, 1)), atol=1e-9)
    wanted = np.tile(np.mean(kept[-2:], axis=0), (5, 1))
    np.testing.assert_allclose(last(algorithm, rounds, output="average"), wanted, atol=1e-9)


@pytest.mark.parametrize("weights", ["linear", "constant"])
def test_dual_averaging(weights: str) -> None:
    """x = -z/(A(t) r + gamma); the output weighs each x by a(t)."""
    rounds, z, total, kept = 4, np.zeros((5, 3)), 0.0, np.zeros((5, 3))
    for t in range(1, rounds + 1):
        a = float(t) if weights == "linear" else 1.0
        total += a
        x = -z / (total * R + 2.0)
        kept = kept + a * x
        z = mixing() @ (z + a * np.array([loss_gradient(i, x[i]) for i in range(5)]))
    algorithm = A.DPDDA(weights=weights, offset=2.0)
    np.testing.assert_allclose(last(algorithm, rounds), x, atol=1e-9)
    np.testing.assert_allclose(last(algorithm, rounds, output="average"), kept / total, atol=1e-9)


def test_this_files_argmin_is_one() -> None:
    def objective(w: np.ndarray) -> float:
        x, y = PARTS[1][0], np.where(PARTS[1][1] == "yes", 1.0, -1.0)
        return float(C * np.mean(np.log1p(np.exp(-y * (x @ w)))) + R / 2 * w @ w + w.sum())

    found = minimize(
        objective,
        np.zeros(3),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000},
    ).x
    np.testing.assert_allclose(argmin(1, lambda v: np.ones(3)), found, atol=1e-6)
