"""Privacy profiles in closed form: Gaussian, zCDP, and the generic group bound (pure rounds are in
`pure`).

A profile answers delta(epsilon) and epsilon(delta) for one composed mechanism. Everything is done
in logarithms, so that delta may be as small as 1e-300 and epsilon as large as 1e4. (scipy.optimize
is imported late: it is slow to load.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from tacenda.privacy.accounting.roots import brent, least

LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


class Profile(Protocol):
    """delta(epsilon) for epsilon >= 0, non-increasing, and its inverse;
    both may only err upwards."""

    def delta(self, epsilon: float) -> float: ...

    def epsilon(self, delta: float) -> float: ...


@dataclass(frozen=True)
class GaussianProfile:
    """mu-Gaussian-DP: delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)."""

    mu: float

    def delta(self, epsilon: float) -> float:
        return math.exp(gaussian_log_delta(self.mu, epsilon))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta; infinite for delta = 0."""
        mu = self.mu
        if mu == 0 or delta >= 1:
            return 0.0
        if math.isinf(mu) or delta <= 0:
            return math.inf
        # Phi(-a) alone, a = eps/mu - mu/2, is above delta(eps): an upper end for the bracket.
        high = max(mu * mu / 2 - mu * float(ndtri(delta)), 0.0) * (1 + 1e-12) + 1e-300
        return solve_decreasing(lambda e: gaussian_log_delta(mu, e), math.log(delta), 0.0, high)


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """ln delta(eps) of mu-Gaussian-DP; with a, b = eps/mu -+ mu/2 and Mills' ratio M, delta =
    phi(a) (M(a) - M(b))."""
    if mu == 0:
        return 0.0 if epsilon < 0 else -math.inf
    if math.isinf(mu):
        return 0.0
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a > 1e10:  # delta is 0 in double precision long before, and a * a would overflow
        return -math.inf
    log_phi = -a * a / 2 - LOG_ROOT_TWO_PI
    # M(a) would overflow; Phi(-a) is close to 1 and the second term small, so nothing cancels
    if a < -5:
        second = math.exp(log_phi) * _mills(b)
        return float(log_ndtr(-a)) + math.log1p(-second / float(ndtr(-a)))
    return log_phi + math.log(_mills_drop(a, b))


def _mills(x: float) -> float:
    """M(x) = (1 - Phi(x)) / phi(x)."""
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def _mills_drop(a: float, b: float) -> float:
    """M(a) - M(b) > 0; by quadrature of -M'(x) = 1 - x M(x) where the difference would cancel."""
    if b - a > 1e-2 * max(1.0, abs(a)):
        return _mills(a) - _mills(b)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    x = (a + b) / 2 + (b - a) / 2 * nodes
    u = 1 / np.maximum(x, 30.0) ** 2  # asymptotic series of 1 - x M(x), used beyond x = 30 only
    series = u * (1 - u * (3 - u * (15 - u * (105 - u * 945))))
    slope = np.where(x > 30, series, 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)))
    return float((b - a) / 2 * np.dot(weights, slope))


@dataclass(frozen=True)
class LeastProfile:
    """The least of several bounds on one composition: each holds, so the smallest does."""

    bounds: tuple[Profile, ...]

    def delta(self, epsilon: float) -> float:
        return min(bound.delta(epsilon) for bound in self.bounds)

    def epsilon(self, delta: float) -> float:
        return min(bound.epsilon(delta) for bound in self.bounds)


@dataclass(frozen=True)
class ZcdpProfile:
    """rho-zCDP, converted at the best Renyi order: eps = a rho + ln((a-1)/a) - (ln delta + ln
    a)/(a-1), a > 1."""

    rho: float

    def log_delta(self, epsilon: float) -> float:
        def bound(log_excess: float) -> float:
            excess = math.exp(log_excess)
            order = 1 + excess
            return (
                excess * (order * self.rho - epsilon)
                + excess * math.log(excess / order)
                - math.log(order)
            )

        return min(self._best(bound), 0.0)

    def delta(self, epsilon: float) -> float:
        return math.exp(self.log_delta(epsilon))

    def epsilon(self, delta: float) -> float:
        if delta <= 0:
            return math.inf
        if delta >= 1:
            return 0.0

        def bound(log_excess: float) -> float:
            excess = math.exp(log_excess)
            order = 1 + excess
            return (
                order * self.rho
                + math.log(excess / order)
                - (math.log(delta) + math.log(order)) / excess
            )

        return max(self._best(bound), 0.0)

    @staticmethod
    def _best(bound: Callable[[float], float]) -> float:
        """Any order is sound, so the minimum need only be near;
        a coarse grid saves it from a local one."""
        grid = np.linspace(-14, 14, 113)
        start = float(grid[int(np.argmin([bound(float(g)) for g in grid]))])
        return float(min(least(bound, start - 0.25, start + 0.25), bound(start)))


@dataclass(frozen=True)
class GroupProfile:
    """k records of any mechanism: delta_k(eps) = delta(eps/k) (e^eps - 1)/(e^{eps/k} - 1),
    by k triangle steps."""

    inner: Profile
    size: int

    def delta(self, epsilon: float) -> float:
        k, one = self.size, self.inner.delta(epsilon / self.size)
        if one == 0 or one >= 1:
            return one
        growth = math.log(k) if epsilon < 1e-12 else _log_expm1(epsilon) - _log_expm1(epsilon / k)
        return math.exp(min(math.log(one) + growth, 0.0))

    def epsilon(self, delta: float) -> float:
        """delta_k need not be monotone;
        from a safe upper end the bracket closes on a point that satisfies delta."""
        if delta >= 1:
            return 0.0
        # e^{eps(k-1)/k} bounds the growth: look for delta' = delta e^{-eps'} with eps' =
        # eps(delta') (k - 1)
        high = self._upper(delta)
        if math.isinf(high):
            return high
        return solve_decreasing(lambda e: _log(self.delta(e)), _log(delta), 0.0, high)

    def _upper(self, delta: float) -> float:
        high = max(self.size * self.inner.epsilon(delta), 1e-9)
        for _ in range(60):
            if self.delta(high) <= delta:
                return high
            high *= 1.5
        return math.inf


def solve_decreasing(
    log_delta: Callable[[float], float], target: float, low: float, high: float
) -> float:
    """The smallest x in [low, high] with log_delta(x) <= target, from above:
    the value returned satisfies it."""
    if log_delta(low) <= target:
        return low

    def gap(x: float) -> float:
        return max(log_delta(x), -1e6) - target

    if gap(high) >= 0:  # only by rounding: the caller's upper end is a proven one
        return high * (1 + 1e-12)
    root = brent(gap, low, high, xtol=1e-14 * max(high, 1e-6), rtol=1e-13)
    step = 1e-13 * max(abs(root), 1e-300)
    while log_delta(root) > target:
        root, step = root + step, 2 * step
    return min(root, high)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _log_expm1(x: float) -> float:
    return x + math.log(-math.expm1(-x))
