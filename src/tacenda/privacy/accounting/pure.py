"""Optimal composition of pure-DP rounds: exact where all rounds are alike, by a dominating pair
where they differ.

Every epsilon-DP release is dominated by randomised response that tells the truth with odds
e^epsilon (Kairouz, Oh, Viswanath), so composing randomised responses bounds any adaptive
composition, and is attained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from tacenda._types import Floats
from tacenda.privacy.accounting.curves import solve_decreasing


@dataclass(frozen=True)
class PureProfile:
    """`count` rounds of pure `each`-DP, composed optimally (Kairouz, Oh, Viswanath): exact for
    randomised response.

    delta(eps) = sum_l C(T, l) [e^{l a} - e^{eps + (T - l) a}]_+ / (1 + e^a)^T, with a = each, T =
    count.
    """

    each: float
    count: int

    @cached_property
    def _law(self) -> tuple[Floats, Floats]:
        """The losses (2l - T) a and their log probabilities under the first of the pair,
        shape (T + 1,)."""
        a, t = self.each, self.count
        ell = np.arange(t + 1)
        log_choose = gammaln(t + 1) - gammaln(ell + 1) - gammaln(t - ell + 1)
        log_p = log_choose + ell * a - t * np.logaddexp(0.0, a)
        return np.asarray((2 * ell - t) * a, dtype=np.float64), np.asarray(log_p, dtype=np.float64)

    def log_delta(self, epsilon: float) -> float:
        losses, log_p = self._law
        above = losses > epsilon
        if not above.any():
            return -math.inf
        terms = log_p[above] + np.log(-np.expm1(epsilon - losses[above]))
        return min(float(np.logaddexp.reduce(terms)), 0.0)

    def delta(self, epsilon: float) -> float:
        return math.exp(self.log_delta(epsilon))

    def epsilon(self, delta: float) -> float:
        total = self.each * self.count
        if delta <= 0:
            return total
        return solve_decreasing(self.log_delta, math.log(delta), 0.0, total)


def response_pmf(epsilon: float, step: float) -> Any:
    """dp-accounting's pmf of randomised response on the loss grid `step * integers`, rounded so
    that loss only grows.

    The four grid points around -epsilon and +epsilon carry it; delta(e) = (e^eps - e^e)/(1 + e^eps)
    between them.
    """
    from dp_accounting.pld import pld_pmf

    low, high = math.floor(epsilon / step), math.ceil(epsilon / step)
    grid = np.array(sorted({-high, -low, low, high}), dtype=np.int64)
    e = grid * step
    inside = -np.expm1(np.minimum(e, epsilon) - epsilon) / (1 + math.exp(-epsilon))
    delta = np.where(e >= epsilon, 0.0, np.where(e <= -epsilon, -np.expm1(e), inside))
    return pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, delta)
