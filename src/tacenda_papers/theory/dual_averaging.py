"""Liu et al. (2022): the convergence of private dual averaging, Theorem 2 and Corollaries 1 and 2.

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
from scipy.special import log_ndtr, ndtr

from tacenda import checks
from tacenda.schedules import Schedule, at


def published_noise_std(
    rounds: int, records: int, epsilon: float, delta: float, lipschitz: float = 1.0
) -> float:
    """Noise of Theorem 1 of Liu et al. (2022): L sqrt(12 T ln(1/delta)) / (q epsilon).

    It is right for full gradients only; a private run takes its noise from the accountant instead.

    Parameters
    ----------
    rounds : int
        T.
    records : int
        q, the records of a node.
    epsilon : float
        The claimed epsilon.
    delta : float
        The claimed delta.
    lipschitz : float, default=1.0
        L, a bound on each record's gradient.

    Returns
    -------
    float
        Standard deviation of the noise on each coordinate.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> round(theory.published_noise_std(60_000, 20_000, 1.0, 0.01), 6)
    0.091046
    """
    log = math.log(1 / checks.between("delta", delta, 0.0, 1.0))
    return (
        lipschitz
        * math.sqrt(12 * checks.whole("rounds", rounds, least=1) * log)
        / (records * checks.positive("epsilon", epsilon))
    )


def attained_epsilon(
    std: float, rounds: int, records: int, delta: float, lipschitz: float = 1.0
) -> float:
    """A lower bound on the epsilon of a run on one drawn record a round: what a test attains.

    All records' gradients have the full length and one direction; that of the replaced one points
    the other way. The test says "replaced" if in any round the released gradient lies beyond a
    level that way. The best level counts; a better test may see more.

    Parameters
    ----------
    std : float
        Standard deviation of the noise, above 0.
    rounds : int
        T.
    records : int
        q, the records of a node.
    delta : float
        At which delta.
    lipschitz : float, default=1.0
        L, the bound on each record's gradient.

    Returns
    -------
    float
        ln((chance that the test is right - delta) / chance that it is wrong); 0 if that is below 0.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> std = theory.published_noise_std(15_000, 5_000, 1.0, 0.01)
    >>> round(theory.attained_epsilon(std, 15_000, 5_000, 0.01), 1)
    80.7
    """
    std = checks.positive("std", std)
    rounds, records = (
        checks.whole(name, value, least=1)
        for name, value in (("rounds", rounds), ("records", records))
    )
    delta = checks.between("delta", delta, 0.0, 1.0)
    moved = 2 * checks.positive("lipschitz", lipschitz) / std
    level = np.linspace(0.0, min(moved + 8.0, 36.0), 20_001)
    wrong = -np.expm1(rounds * log_ndtr(level))
    seen = (1 - 1 / records) * ndtr(-level) + ndtr(moved - level) / records
    right = -np.expm1(rounds * np.log1p(-seen))
    return max(float(np.log(np.maximum((right - delta) / wrong, 1.0)).max()), 0.0)


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
    """Excess objective of private dual averaging, Theorem 2 of Liu et al. (2022).

    The right-hand side of (7), under the assumptions at the top of the module.

    Parameters
    ----------
    rounds : int
        t, at least 1.
    strong_convexity : float
        mu of the regulariser.
    lipschitz : float
        L, a bound on each record's gradient.
    second_singular : float
        beta < 1, the second singular value of the mixing matrix.
    dim : int
        d, the length of the model.
    noise_std : float, default=0.0
        Standard deviation of the noise on each coordinate.
    weights : {"linear", "constant"}, default="linear"
        a(t) = t, or a(t) = 1.
    offset : float or Schedule, default=0.0
        gamma, a number or a schedule.
    optimum_norm : float, default=0.0
        |x*|.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> facts = {"strong_convexity": 0.1, "lipschitz": 1.0, "second_singular": 0.5, "dim": 10}
    >>> few, many = (theory.dual_averaging_bound(t, **facts) for t in (10, 100))
    >>> bool(many < few)
    True
    """
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
    """Excess objective at the paper's own noise, Corollary 1 (10) of Liu et al. (2022).

    For a(t) = t, gamma = 0 and the noise of Theorem 1 at T = rounds; the logarithm is inside the
    root: 4M/(mu (t+1)) + 16 L^2 sqrt(3 d ln(1/delta)) / (mu (1-beta) q epsilon sqrt(t+1)) + 24 d
    L^2 ln(1/delta) / (mu q^2 epsilon^2).

    Parameters
    ----------
    rounds : int
        t, at least 1.
    strong_convexity : float
        mu of the regulariser.
    lipschitz : float
        L, a bound on each record's gradient.
    second_singular : float
        beta < 1, the second singular value of the mixing matrix.
    dim : int
        d, the length of the model.
    records : int
        q, the records of a node.
    epsilon : float
        The claimed epsilon.
    delta : float
        The claimed delta.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> facts = {"strong_convexity": 0.1, "lipschitz": 1.0, "second_singular": 0.5, "dim": 10}
    >>> theory.dual_averaging_utility_loss(100, **facts, records=1000, epsilon=1, delta=1e-5) > 0
    True
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
    """Mean squared distance of the nodes from their average, (11) of Liu et al. (2022).

    8 (L^2 + d noise_std^2)(ln t + 1) / (mu^2 t (t+1) (1-beta)^2).

    Parameters
    ----------
    rounds : int
        t, at least 1.
    strong_convexity : float
        mu of the regulariser.
    lipschitz : float
        L, a bound on each record's gradient.
    second_singular : float
        beta < 1, the second singular value of the mixing matrix.
    dim : int
        d, the length of the model.
    noise_std : float, default=0.0
        Standard deviation of the noise on each coordinate.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> facts = {"strong_convexity": 0.1, "lipschitz": 1.0, "second_singular": 0.5, "dim": 10}
    >>> theory.consensus_distance(100, **facts) < theory.consensus_distance(10, **facts)
    True
    """
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
    """Mean squared distance from the optimum, Corollary 1 (9) of Liu et al. (2022).

    mean |x~_i(t) - x*|^2 <= 2 (11) + (4/mu) (7), for a(t) = t and gamma = 0.

    Parameters
    ----------
    rounds : int
        t, at least 1.
    strong_convexity : float
        mu of the regulariser.
    lipschitz : float
        L, a bound on each record's gradient.
    second_singular : float
        beta < 1, the second singular value of the mixing matrix.
    dim : int
        d, the length of the model.
    noise_std : float, default=0.0
        Standard deviation of the noise on each coordinate.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> facts = {"strong_convexity": 0.1, "lipschitz": 1.0, "second_singular": 0.5, "dim": 10}
    >>> quiet = theory.dual_averaging_distance(100, **facts)
    >>> bool(quiet < theory.dual_averaging_distance(100, **facts, noise_std=0.1))
    True
    """
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
    """Mean squared distance from the optimum without noise, Corollary 2 (12) of Liu et al. (2022).

    mean |x~_i(t) - x*|^2 <= 16/(t+1) ( L^2 (ln t + 1)/(mu^2 (1-beta)^2 t) + M/mu^2 ).

    Parameters
    ----------
    rounds : int
        t, at least 1.
    strong_convexity : float
        mu of the regulariser.
    lipschitz : float
        L, a bound on each record's gradient.
    second_singular : float
        beta < 1, the second singular value of the mixing matrix.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> facts = {"strong_convexity": 0.1, "lipschitz": 1.0, "second_singular": 0.5}
    >>> theory.noise_free_distance(100, **facts) < theory.noise_free_distance(10, **facts)
    True
    """
    t = checks.whole("rounds", rounds, least=1)
    mu, beta = strong_convexity, _second(second_singular)
    near = lipschitz**2 * (math.log(t) + 1) / (mu**2 * (1 - beta) ** 2 * t)
    return 16 / (t + 1) * (near + _m(lipschitz, beta) / mu**2)


def _m(lipschitz: float, beta: float) -> float:
    return lipschitz**2 / 2 + 2 * lipschitz**2 / (1 - beta)


def _second(value: float) -> float:
    return checks.between("second_singular", value, 0.0, 1.0 - 1e-15, open_ends=False)
