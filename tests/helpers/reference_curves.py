"""Privacy curves worked out by sums and searches of their own, for tests to compare with."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The best Renyi order for rho-zCDP, by a fine search of the textbook's bound: a rho + ln(1 -
    1/a) - ln(a delta)/(a - 1)."""

    def bound(log_excess: float) -> float:
        a = 1 + math.exp(log_excess)
        return a * rho + math.log1p(-1 / a) - math.log(a * delta) / (a - 1)

    best = min(np.linspace(-8, 12, 4001), key=bound)
    return float(
        optimize.minimize_scalar(bound, bounds=(best - 0.01, best + 0.01), method="bounded").fun
    )


def lattice_delta(std: float, shift: int, rounds: int, epsilon: float) -> float:
    """delta(epsilon) of `rounds` discrete Gaussians on the whole numbers, one of them shifted: the
    sum itself, for 1 or 2 rounds."""
    x = np.arange(-int(14 * std) - shift, int(14 * std) + shift + 1)
    p, r = np.exp(-(x**2) / (2 * std**2)), np.exp(-((x - shift) ** 2) / (2 * std**2))
    p, r = p / p.sum(), r / np.exp(-(x**2) / (2 * std**2)).sum()
    if rounds == 2:
        p, r = np.outer(p, p).ravel(), np.outer(r, r).ravel()
    return float(np.maximum(p - math.exp(epsilon) * r, 0).sum())


def sampled_delta(std: float, moved: float, rate: float, epsilon: float) -> float:
    """delta(epsilon) of one Poisson-sampled release under replace-one: the record pulls by moved/2
    to either side, if drawn."""
    x = np.linspace(-40 * std, 40 * std, 400_001)

    def n(mean: float) -> np.ndarray:
        return np.exp(-((x - mean) ** 2) / (2 * std * std)) / (std * np.sqrt(2 * np.pi))

    p, r = (1 - rate) * n(0) + rate * n(moved / 2), (1 - rate) * n(0) + rate * n(-moved / 2)
    return float(np.maximum(p - np.exp(epsilon) * r, 0).sum() * (x[1] - x[0]))
