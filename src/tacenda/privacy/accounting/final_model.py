"""What somebody learns who sees the final model and no message: a bound below that of the whole
run, where one is proved.

Two things may help. **Averages**: where the model depends on what nodes released through exact
means over the network only, the noise of all n nodes hides each record, and a member's noise
multiplier z_i becomes

    z'_i = sqrt(sum_j (z_j s_j)^2) / s_i,       s_j: the sensitivity of node j's value.

**Contraction**: a descent forgets. If Y_t = phi_t(Y_{t-1}) + N(0, sigma_t^2), phi_t has Lipschitz
constant c_t, and another record moves phi_t by at most s_t, then for any a_t with z_t = c_t z_{t-1}
+ s_t - a_t >= 0 and z_T = 0 the last Y_T alone is mu-Gaussian-DP with mu^2 = sum (a_t/sigma_t)^2
(the shifted interpolation of Bok, Su and Altschuler, 2024; Feldman et al., 2018, for Renyi
divergences). The least sum has a_t in proportion to C_t sigma_t^2, C_t = c_{t+1} .. c_T:

    mu^2 = (sum_t C_t s_t)^2 / sum_t (C_t sigma_t)^2,

which a quadratic loss attains, where Y_T is Gaussian. Where that would make some z_t negative, the
steps are cut there into two stretches, whose mu^2 add up.

Nodes that mix with symmetric weights are one descent of all their models together, on which a
mixing is no expansion; there the noise of the quietest node counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacenda._types import Array, Floats

WHOLE_RUN = (
    "For somebody who sees the final model and no message no better bound is known here than that "
    "of the whole run."
)


@dataclass(frozen=True)
class FinalModel:
    """The guarantee against somebody who sees the final model, and no message of any node.

    Attributes
    ----------
    epsilon : float
        For the node with the largest one.
    delta : float
        The delta at which epsilon is stated.
    better : bool
        Whether it is below that of the whole run.
    why : str
        On what it rests, one sentence.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(400, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem = tc.Problem(shards, classes=(0, 1))
    >>> method = tc.algorithms.TreeGD(noise="independent")
    >>> budget = tc.Privacy(epsilon=1.0, delta=1e-5)
    >>> result = tc.simulate(problem, tc.graph.ring(4), method, 5, budget, seed=0)
    >>> result.privacy.final_model().epsilon < 0.5
    True
    """

    epsilon: float
    delta: float
    better: bool
    why: str


@dataclass(frozen=True, eq=False)
class Hidden:
    """mu (n,) of each node for who sees only the final model, and on what it rests."""

    mu: Array
    why: str


@dataclass(frozen=True, eq=False)
class Descent:
    """Steps w <- prox(w - eta (g + noise)) on exact means: eta (T,), the Lipschitz constant of each
    step's map from the one before it (T,), and how many of the iterates, from the last one
    backwards, are in the output."""

    steps: Floats
    contraction: Floats
    seen: int


def hidden_mu(shifts: Array, stds: Array, contraction: Array) -> float:
    """mu of the last of T noisy steps alone; (T,) each. contraction[t] is that of the map from step
    t - 1; the first one is not used."""
    total, todo = 0.0, [(0, len(shifts))]
    while todo:
        a, b = todo.pop()
        s, sigma, c = shifts[a:b], stds[a:b], contraction[a:b]
        ahead = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)  # C_t
        taken = ahead * sigma**2 * (float(ahead @ s) / float(ahead**2 @ sigma**2))
        gap, lowest, place = 0.0, 0.0, 0
        for t in range(b - a - 1):
            gap = c[t] * gap + s[t] - taken[t]
            if gap < lowest:
                lowest, place = gap, t + 1
        if lowest < -1e-12 * float(np.max(s)):
            todo += [(a, a + place), (a + place, b)]
        else:
            total += _cost(s, sigma, c, taken)
    return math.sqrt(total * (1.0 + 1e-9))


def _cost(s: Array, sigma: Array, c: Array, wanted: Array) -> float:
    """sum (a_t/sigma_t)^2 of the a_t that are wanted, cut where z_t would be negative by rounding;
    the last one takes all that is left, so that z_T = 0 whatever was rounded."""
    gap, found = 0.0, 0.0
    for t in range(len(s)):
        gap = float(c[t]) * gap + float(s[t])
        a = gap if t == len(s) - 1 else min(float(wanted[t]), gap)
        gap, found = gap - a, found + (a / float(sigma[t])) ** 2
    return found


def descent_mu(multipliers: Array, descent: Descent, rounding: Array | float = 0.0) -> float:
    """mu of one record for who sees the output of a descent: what is before its first iterate is
    hidden behind that one, and the later steps are charged in full. multipliers: (T,); rounding:
    (T,) by how much it may part two models in a step, in units of what a record moves a gradient;
    a gradient's own is in its sensitivity."""
    first = len(multipliers) - descent.seen + 1
    eta, stds = descent.steps[:first], descent.steps[:first] * multipliers[:first]
    shifts = eta + np.broadcast_to(rounding, descent.steps.shape)[:first]
    if not np.isfinite(shifts).all():
        return math.inf
    hidden = hidden_mu(shifts, stds, descent.contraction[:first])
    return math.sqrt(hidden**2 + float(np.sum(multipliers[first:] ** -2.0)))
