"""The best of a random number of repetitions: what it costs to train many candidates and to show
only the one with the best score.

K is drawn, then K times a candidate is drawn from a public list, trained and scored by one
mu-Gaussian-DP release (Q; its output is the pair of model and score); the pair with the best score
is shown, and neither K nor any other pair. Write q(y) for the density of Q, r(y) for the chance
that Q beats y, f for the generating function of K. Then the shown pair has the density

    A(y) = q(y) f'(1 - r(y)),        f'(z) <= f'(1) = E K = m

and with neighbouring records (primes) r' <= t r + d(t) for every t >= 1, where d(t) is delta of Q
at epsilon = ln t. What follows holds for every base with Q's privacy profile.

Truncated negative binomial of shape s >= 0 (0: logarithmic, 1: geometric; Papernot and Steinke
2022): f'(1 - r) is proportional to (g + (1 - g) r)^-(s+1), so f'(1 - r) / f'(1 - r') is at most
max(t, 1 + d(t) (1 - g)/g)^(s+1), a fraction of two linear functions of r being largest at an end.
With the t where both are equal,

    delta_A(eps) <= m delta_Q(eps - (s + 1) ln t)

Poisson given K >= 1: f'(1 - r) = m' e^(-m r) with m' = m/(1 - e^-m), so

    A - e^eps A' <= m' (q e^(-m r) - C q' e^(-m t r)),        C = exp(eps - m d(t)), t > 1.

The right side is largest over r >= 0 at q' F(q/q') m' with F(x) = (1 - 1/t) x (x/(C t))^(1/(t-1))
below C t, and x - C from there on. F is convex and F(0) = F'(0) = 0, a mixture of the functions
max(x - c, 0); so the mean of F under Q' is at most that of the Gaussian pair which dominates Q, and
that is a closed form. Every t gives a bound; the smallest counts. (Koskela, Redberg and Wang 2024
bound profiles likewise; Liu and Talwar 2019 began it.)

Who sees the messages of the other trainings sees more than this, and the bound is not for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, ndtr

from tacenda import checks
from tacenda._types import Floats
from tacenda.privacy.accounting.curves import GaussianProfile, gaussian_log_delta, solve_decreasing
from tacenda.privacy.accounting.roots import brent

POISSON = math.inf  # the shape that stands for it
ROUNDING = 1e-9  # relative, on every delta: floats err far less
TILTS: Floats = 1 + np.exp(np.linspace(math.log(1e-4), math.log(50.0), 301))  # t of the Poisson's
MOST_EPSILON = 700.0


@dataclass(frozen=True)
class Repetitions:
    """How often a candidate is drawn, trained and scored.

    shape: of the truncated negative binomial, or `POISSON`; mean: of the number, above 1 (of the
    Poisson before it is made to be at least 1: above 0).
    """

    shape: float
    mean: float

    def __post_init__(self) -> None:
        checks.positive("shape", self.shape, zero=True, infinite=True)
        if self.shape == POISSON:
            checks.positive("mean", self.mean)
        else:
            checks.between("mean", self.mean, 1.0, math.inf)

    @cached_property
    def stop(self) -> float:
        """g of the truncated negative binomial, from its mean; the mean falls as g grows."""
        s = self.shape

        def log_mean(log_g: float) -> float:
            g = math.exp(log_g)
            if s == 0:
                return math.log(-math.expm1(log_g) / g / -log_g)
            return math.log(s * -math.expm1(log_g) / g / -math.expm1(s * log_g))

        target = math.log(self.mean)
        return math.exp(brent(lambda x: log_mean(x) - target, -300.0, -1e-9, xtol=1e-12))

    def none_of(self, share: float) -> float:
        """The chance that no draw falls into that share of the candidates: f(1 - share)."""
        z = 1 - checks.between("share", share, 0.0, 1.0, open_ends=False)
        if self.shape == POISSON:
            return math.expm1(self.mean * z) / math.expm1(self.mean)
        g = self.stop
        if self.shape == 0:
            return math.log1p(-(1 - g) * z) / math.log(g)
        s = self.shape
        return math.expm1(-s * math.log1p(-(1 - g) * z)) / math.expm1(-s * math.log(g))

    @property
    def runs(self) -> float:
        """Mean number of trainings."""
        if self.shape == POISSON:
            return self.mean / -math.expm1(-self.mean)
        return self.mean


@dataclass(frozen=True)
class RepetitionProfile:
    """Privacy profile of the best of `repetitions` of a mu-Gaussian-DP base."""

    mu: float
    repetitions: Repetitions

    def delta(self, epsilon: float) -> float:
        if self.mu == 0:
            return 0.0
        if math.isinf(self.mu):
            return 1.0
        bound = self._poisson if self.repetitions.shape == POISSON else self._negative_binomial
        return min(bound(epsilon) * (1 + ROUNDING), 1.0)

    def epsilon(self, delta: float) -> float:
        if self.mu == 0 or delta >= 1:
            return 0.0
        if delta <= 0:
            return math.inf
        low = GaussianProfile(self.mu).epsilon(delta)
        high = max(2 * low, 1e-6)
        while self.delta(high) > delta:
            high *= 2
            if high > MOST_EPSILON:
                return math.inf

        def log_delta(eps: float) -> float:
            found = self.delta(eps)
            return math.log(found) if found > 0 else -math.inf

        return solve_decreasing(log_delta, math.log(delta), 0.0, high)

    @cached_property
    def _shift(self) -> float:
        """(s + 1) ln t, rounded up."""
        g = self.repetitions.stop

        def other(log_t: float) -> float:
            return math.log1p((1 - g) / g * math.exp(gaussian_log_delta(self.mu, log_t)))

        top = other(0.0)
        # The first falls and the second grows with t, so that either is sound near the root
        root = brent(lambda x: other(x) - x, 0.0, top + 1e-12, xtol=1e-14) if top else 0.0
        return (self.repetitions.shape + 1) * max(root, other(root)) * (1 + ROUNDING)

    def _negative_binomial(self, epsilon: float) -> float:
        left = epsilon - self._shift
        if left < 0:
            return 1.0
        return self.repetitions.mean * math.exp(gaussian_log_delta(self.mu, left))

    @cached_property
    def _base_deltas(self) -> Floats:
        return np.array([math.exp(gaussian_log_delta(self.mu, math.log(t))) for t in TILTS])

    def _poisson(self, epsilon: float) -> float:
        """m' E F(x)/x of the Gaussian pair, whose ln x is normal with mean and half the variance
        mu^2/2 under Q."""
        mean, mu, half = self.repetitions.mean, self.mu, self.mu**2 / 2
        log_c = epsilon - mean * self._base_deltas
        power, corner = 1 / (TILTS - 1), log_c + np.log(TILTS)
        below = (
            np.log1p(-1 / TILTS)
            - power * corner
            + (power + power**2) * half
            + log_ndtr((corner - half) / mu - power * mu)
        )
        above = ndtr((half - corner) / mu) - np.exp(np.minimum(log_c, MOST_EPSILON)) * ndtr(
            (-half - corner) / mu
        )
        # What rounding may take from the difference: it is added
        slack = 1e-15 * ndtr((half - corner) / mu)
        with np.errstate(over="ignore"):
            found = np.exp(below) + np.maximum(above, 0.0) + slack
        return self.repetitions.runs * float(found.min())


def mean_for(shape: float, candidates: int, found: float) -> Repetitions:
    """The repetitions with the least mean that draw any one of so many candidates at least once
    with that chance."""
    count = checks.whole("candidates", candidates, least=2)
    chance = checks.between("found", found, 0.0, 1.0)

    def missed(log_mean: float) -> float:
        return math.log(Repetitions(shape, math.exp(log_mean)).none_of(1 / count) / (1 - chance))

    low = -6.0 if shape == POISSON else 1e-6
    if missed(low) <= 0:
        return Repetitions(shape, math.exp(low))
    high = 1.0
    while missed(high) > 0:
        high += 1.0
        if high > 500:
            return Repetitions(shape, math.inf if shape == POISSON else math.exp(500))
    return Repetitions(shape, math.exp(brent(missed, low, high, xtol=1e-9)))


def base_mu(repetitions: Repetitions, epsilon: float, delta: float) -> float:
    """The largest mu, to a relative 1e-6 from below, of a base whose best keeps (epsilon,
    delta)."""
    from tacenda.privacy.accounting.calibration import gaussian_mu

    high = gaussian_mu(epsilon, delta)  # one training costs at least this
    low = high / 2
    while RepetitionProfile(low, repetitions).delta(epsilon) > delta:
        high, low = low, low / 2
        if low < 1e-12:
            return 0.0
    while high - low > 1e-6 * low:
        middle = (low + high) / 2
        if RepetitionProfile(middle, repetitions).delta(epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low
