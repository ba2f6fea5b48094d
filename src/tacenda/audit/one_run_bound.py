"""How many right guesses in one run a private algorithm can allow.

Theorem 5.2 of Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run" (NeurIPS 2023). Each of m independent
fair coins decides one record of the data: in or out (add-remove), or which of two (replace-one). From the output of an
(epsilon, delta)-private run an adversary guesses r of the coins and abstains from the rest. With B ~ Binomial(r, q),
q = e^epsilon / (1 + e^epsilon),

    P[at least v guesses right] <= P[B >= v] + 2 m delta max_{i = 1..v} P[v > B >= v - i] / i.

The smallest epsilon for which this probability reaches 1 - confidence is a lower bound on epsilon. It holds for any way of
guessing that looks at the output only.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr, bdtrc

from tacenda import checks
from tacenda.errors import InputError


def probability_of(right: int, guesses: int, coins: int, epsilon: float, delta: float) -> float:
    """The theorem's bound on P[at least `right` of `guesses` are right] for an (epsilon, delta)-private run."""
    if right <= 0:
        return 1.0
    q = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(bdtrc(right - 1, guesses, q))
    if delta == 0:
        return min(1.0, tail)
    i = np.arange(1, right + 1)
    below = bdtr(right - 1, guesses, q) - np.where(right - i > 0, bdtr(np.maximum(right - i - 1, 0), guesses, q), 0.0)
    return min(1.0, tail + 2.0 * coins * delta * float(np.max(below / i)))


def epsilon_from_guesses(right: int, guesses: int, coins: int, delta: float, confidence: float = 0.95) -> float:
    """The lower bound on epsilon, 0 where the guesses prove nothing."""
    checks.between("confidence", confidence, 0.5, 1.0)
    checks.between("delta", delta, 0.0, 1.0, open_ends=False)
    if not 0 <= right <= guesses <= coins:
        raise InputError(f"right, guesses and coins must rise: 0 <= {right} <= {guesses} <= {coins} does not hold.")
    risk = 1 - confidence
    low, high = 0.0, 1.0
    if probability_of(right, guesses, coins, 0.0, delta) > risk:
        return 0.0
    while probability_of(right, guesses, coins, high, delta) <= risk:
        low, high = high, 2 * high
        if high > 100:
            break
    for _ in range(60):  # the probability rises with epsilon, so halving finds where it passes the risk
        middle = (low + high) / 2
        if probability_of(right, guesses, coins, middle, delta) <= risk:
            low = middle
        else:
            high = middle
    return low


def best_count(coins: int, claimed: float) -> int:
    """A number of guesses r chosen before looking: about where a Gaussian attack at the claimed epsilon pays most."""
    if coins < 1:
        raise InputError("coins must be at least 1.")
    # Few and sure guesses for a large claim, more of them for a small one; a fixed rule, so it costs no confidence.
    share = 0.1 if claimed >= 1 else 0.25
    return max(1, min(coins, round(share * coins)))
