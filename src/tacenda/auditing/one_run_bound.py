"""How many right guesses in one run a private algorithm can allow.

Each of m independent fair coins decides one record of the data: in or out (add-remove), or which of
two (replace-one). From the output an adversary guesses r of the coins and abstains from the rest; C
of the guesses are right. Three bounds on P[C >= v]:

1. Whatever a run that is (epsilon, delta)-private does (Steinke, Nasr, Jagielski, "Privacy Auditing
   with One (1) Training Run", NeurIPS 2023, Theorem 5.2): with B ~ Binomial(r, q),
   q = e^epsilon / (1 + e^epsilon),

       P[C >= v] <= P[B >= v] + 2 m delta max_{i = 1..v} P[v > B >= v - i] / i.

2. Whatever a run with the trade-off curve f does (Mahloujifar, Melis, Chaudhuri, "Auditing
   f-Differential Privacy in One Run", ICML 2025). Exchanging a coin's record turns a right guess of
   it into a wrong one, so with p_t = P[C = t], b(x) = 1 - f(x) and any set T of counts, averaged
   over the coins (b is concave),

       sum_{t in T} (t/m) p_t <= b( sum_{t in T} ((r - t + 1)/m) p_{t-1} ).

   With T = {i, i + 1, ...}, R_i = sum_{t >= i} (t/m) p_t and H_i = sum_{t >= i} ((r - t)/m) p_t
   this is H_{i-1} >= b^-1(R_i). If P[C >= v] = x, then R_v >= x v/m and, going down from v with no
   more mass than these inequalities ask for, R_0 + H_0 comes out as small as can be. It must be
   r/m; where more is needed, x is impossible. (Mass placed higher, or more mass than asked for,
   only raises all later R and R + H, so nothing smaller exists.)
3. Where the canaries are seen through channels with noise of their own, each of curve f whatever it
   receives (other nodes, or other coordinates of Gaussian noise): the transcript is then
   post-processing of m independent pairs of that curve (concurrent composition), the coins stay
   independent given it, and each is guessed right with probability at most (1 + delta(0))/2, the
   total variation's: C of m guesses is at most Binomial(m, (1 + delta(0))/2). This is far tighter
   than 2, which allows for one common accident that shows all coins at once.

All hold for any way of guessing that looks at the output only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import bdtr, bdtrc, expit, ndtr, ndtri

from tacenda import checks
from tacenda.errors import InputError

Inverse = Callable[[float], float]
FINE = np.concatenate([[0.0], expit(np.linspace(-40.0, 40.0, 8001)), [1.0]])


def probability_of(right: int, guesses: int, coins: int, epsilon: float, delta: float) -> float:
    """The first bound on P[at least `right` of `guesses` are right],
    for an (epsilon, delta)-private run."""
    if right <= 0:
        return 1.0
    q = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(bdtrc(right - 1, guesses, q))
    if delta == 0:
        return min(1.0, tail)
    i = np.arange(1, right + 1)
    below = bdtr(right - 1, guesses, q) - np.where(
        right - i > 0, bdtr(np.maximum(right - i - 1, 0), guesses, q), 0.0
    )
    return min(1.0, tail + 2.0 * coins * delta * float(np.max(below / i)))


def impossible(inverse: Inverse, right: int, guesses: int, coins: int, chance: float) -> bool:
    """Whether no run with that curve has `right` or more of `guesses` right with probability
    `chance`: the second bound.

    inverse: b^-1 on [0, 1], b = 1 - f; f(1 - x) where f is symmetric.
    """
    r, h = chance * right / coins, chance * (guesses - right) / coins
    for i in range(right - 1, -1, -1):
        more = inverse(min(r, 1.0)) - h
        if more <= 0:
            break  # nothing changes any more
        h, r = h + more, r + i / (guesses - i) * more
        if r + h > guesses / coins:
            return True
    return r + h > guesses / coins


def gaussian_inverse(mu: float) -> Inverse:
    """Of mu-Gaussian privacy: Phi(PhiInv(x) - mu)."""
    return lambda x: float(ndtr(ndtri(x) - mu))


def pair_inverse(epsilon: float, delta: float) -> Inverse:
    """Of (epsilon, delta)-privacy:
    b(x) = min(1, delta + e^epsilon x, 1 - e^-epsilon (1 - delta - x))."""
    up = math.exp(-epsilon)
    return lambda x: max(0.0, (x - delta) * up, 1 - delta - (1 - x) / up)


def curve_inverse(curve: Any) -> Inverse:
    """Of an accountant's curve: from a fine table, rounded down, so that nothing is called
    impossible that is not."""
    if curve.mu is not None:
        return gaussian_inverse(curve.mu)
    table = np.maximum.accumulate(curve.tradeoff(1.0 - FINE))
    return lambda x: float(table[np.searchsorted(FINE, x, side="right") - 1])


def independent_chance(curve: Any, right: int, coins: int) -> float:
    """The third bound on P[at least `right` of all `coins` are guessed right]."""
    return (
        1.0 if right <= 0 else float(bdtrc(right - 1, coins, min(1.0, (1 + curve.delta(0.0)) / 2)))
    )


def epsilon_from_guesses(
    right: int, guesses: int, coins: int, delta: float, confidence: float = 0.95
) -> float:
    """The lower bound on epsilon whatever the curve, 0 where the guesses prove nothing: by the
    first and second bound."""
    checks.between("confidence", confidence, 0.5, 1.0)
    checks.between("delta", delta, 0.0, 1.0, open_ends=False)
    _check_counts(right, guesses, coins)
    risk = 1 - confidence

    # Both bound the same probability, so the smaller one does too
    def refuted(epsilon: float) -> bool:
        if probability_of(right, guesses, coins, epsilon, delta) <= risk:
            return True
        return impossible(pair_inverse(epsilon, delta), right, guesses, coins, risk)

    return largest(refuted)


def largest(refuted: Callable[[float], bool], steps: int = 60) -> float:
    """The largest x > 0 with refuted(x), which holds below some point and fails above it; 0 where
    it never holds."""
    low, high = 0.0, 1.0
    if not refuted(0.0):
        return 0.0
    while refuted(high):
        low, high = high, 2 * high
        if high > 100:
            break
    for _ in range(steps):
        middle = (low + high) / 2
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low


def _check_counts(right: int, guesses: int, coins: int) -> None:
    if not 0 <= right <= guesses <= coins:
        raise InputError(
            "right, guesses and coins must rise: "
            f"0 <= {right} <= {guesses} <= {coins} does not hold."
        )


def best_count(coins: int, claimed: float) -> int:
    """A number of guesses r chosen before looking: about where a Gaussian attack at the claimed
    epsilon pays most."""
    if coins < 1:
        raise InputError("coins must be at least 1.")
    # Few and sure guesses for a large claim, more of them for a small one; a fixed rule, so it
    # costs no confidence.
    share = 0.1 if claimed >= 2 else 0.3
    return max(1, min(coins, round(share * coins)))
