"""LiuEtAl22: the convergence of private dual averaging, Theorem 2 and Corollaries 1 and 2.

Assumes: losses convex and L-Lipschitz; h mu-strongly convex; W symmetric and doubly stochastic with
second singular value beta < 1; noise N(0, noise_std^2 I) on each subgradient, in dimension d (the
paper's m). With M = L^2/2 + 2 L^2/(1 - beta),

    E[F(y~(t)) - F(x*)] <= 1/A(t) ( gamma(t) |x*|^2/2 + sum_s a(s)^2/(mu A(s) + gamma(s)) N )    (7)
    N = M + d noise_std^2/2 + 2 sqrt(d) L noise_std/(1 - beta)

y~ is the a-weighted average of an auxiliary sequence that follows the network's mean; (11) tells
how far the nodes are from it. The paper's noise (Theorem 1) is right for full gradients only, see
`DPDDA.verdict`; all functions take any noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda import checks
from tacenda.schedules import Schedule, at


def published_noise_std(
    rounds: int, records: int, epsilon: float, delta: float, lipschitz: float = 1.0
) -> float:
    """Theorem 1: noise_std = L sqrt(12 T ln(1/delta)) / (q epsilon); 0.091046 at T = 60000, q =
    20000, (1, 0.01)."""
    log = math.log(1 / checks.between("delta", delta, 0.0, 1.0))
    return (
        lipschitz
        * math.sqrt(12 * checks.whole("rounds", rounds, least=1) * log)
        / (records * checks.positive("epsilon", epsilon))
    )


def dual_averaging_bound(
    rounds: int,
    *,
    strong_convexity: float,
    lipschitz: float,
    second_singular: float,
    dim: int,
    noise_std: float = 0.0,
    weights: str = "linear",
    offset: float | Schedule = 0.0,
    optimum_norm: float = 0.0,
) -> float:
    """Theorem 2, the right-hand side of (7). weights: "linear" is a(t) = t,
    "constant" a(t) = 1. offset: gamma."""
    mu, beta = checks.positive("strong_convexity", strong_convexity), _second(second_singular)
    checks.one_of("weights", weights, ("linear", "constant"))
    t = np.arange(1, checks.whole("rounds", rounds, least=1) + 1, dtype=float)
    a = t if weights == "linear" else np.ones_like(t)
    total = np.cumsum(a)
    gamma = (
        np.array([at(offset, int(s)) for s in t])
        if callable(offset)
        else np.full(len(t), float(offset))
    )
    noise = dim * noise_std**2 / 2 + 2 * math.sqrt(dim) * lipschitz * noise_std / (1 - beta)
    inner = float(np.sum(a**2 / (mu * total + gamma))) * (_m(lipschitz, beta) + noise)
    return (gamma[-1] * optimum_norm**2 / 2 + inner) / float(total[-1])


def dual_averaging_utility_loss(
    rounds: int,
    *,
    strong_convexity: float,
    lipschitz: float,
    second_singular: float,
    dim: int,
    records: int,
    epsilon: float,
    delta: float,
) -> float:
    """Corollary 1's (10), for a(t) = t, gamma = 0 and the paper's noise of Theorem 1 at T = rounds;
    the log is inside the root.

    4M/(mu (t+1)) + 16 L^2 sqrt(3 d ln(1/delta)) / (mu (1-beta) q epsilon sqrt(t+1)) + 24 d L^2
    ln(1/delta) / (mu q^2 epsilon^2)
    """
    mu = checks.positive("strong_convexity", strong_convexity)
    beta, t = _second(second_singular), rounds
    log, budget = math.log(1 / delta), records * epsilon
    rate = 4 * _m(lipschitz, beta) / (mu * (t + 1))
    cross = (
        16 * math.sqrt(3 * dim * log) * lipschitz**2 / (mu * (1 - beta) * budget * math.sqrt(t + 1))
    )
    return rate + cross + 24 * dim * lipschitz**2 * log / (mu * budget**2)


def consensus_distance(
    rounds: int,
    *,
    strong_convexity: float,
    lipschitz: float,
    second_singular: float,
    dim: int,
    noise_std: float = 0.0,
) -> float:
    """(11): mean squared distance of the nodes from y~(t), 8 (L^2 + d noise_std^2)(ln t + 1) /
    (mu^2 t (t+1) (1-beta)^2)."""
    t, mu, gap = rounds, strong_convexity, 1 - _second(second_singular)
    return (
        8 * (lipschitz**2 + dim * noise_std**2) * (math.log(t) + 1) / (mu**2 * t * (t + 1) * gap**2)
    )


def dual_averaging_distance(
    rounds: int,
    *,
    strong_convexity: float,
    lipschitz: float,
    second_singular: float,
    dim: int,
    noise_std: float = 0.0,
) -> float:
    """Corollary 1's left-hand side (9): mean |x~_i(t) - x*|^2 <= 2 (11) + (4/mu) (7), for a(t) = t
    and gamma = 0."""
    known: dict[str, Any] = {
        "strong_convexity": strong_convexity,
        "lipschitz": lipschitz,
        "second_singular": second_singular,
        "dim": dim,
        "noise_std": noise_std,
    }
    suboptimality = dual_averaging_bound(rounds, **known)
    return 2 * consensus_distance(rounds, **known) + 4 / strong_convexity * suboptimality


def noise_free_distance(
    rounds: int, *, strong_convexity: float, lipschitz: float, second_singular: float
) -> float:
    """Corollary 2 (12): mean |x~_i(t) - x*|^2 <= 16/(t+1) ( L^2 (ln t + 1)/(mu^2 (1-beta)^2 t) +
    M/mu^2 ), without noise."""
    t = checks.whole("rounds", rounds, least=1)
    mu, beta = strong_convexity, _second(second_singular)
    near = lipschitz**2 * (math.log(t) + 1) / (mu**2 * (1 - beta) ** 2 * t)
    return 16 / (t + 1) * (near + _m(lipschitz, beta) / mu**2)


def _m(lipschitz: float, beta: float) -> float:
    return lipschitz**2 / 2 + 2 * lipschitz**2 / (1 - beta)


def _second(value: float) -> float:
    return checks.between("second_singular", value, 0.0, 1.0 - 1e-15, open_ends=False)
