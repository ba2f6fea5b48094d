"""Lower bounds on epsilon from the guesses of an adversary, with a stated confidence.

An adversary guesses "world 1" when its score exceeds a threshold. A run that is (epsilon,
delta)-private obeys

    TPR <= exp(epsilon) FPR + delta,        and the same with the two worlds exchanged,

so a lower confidence limit of TPR and an upper one of FPR (Clopper-Pearson, exact for any sample
size) bound epsilon from below. The threshold and the direction are chosen on one half of the
trials, the bound is taken from the other half, so the choice costs no confidence. A
mu-Gaussian-private run obeys PhiInv(TPR) - PhiInv(FPR) <= mu, which bounds mu in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtr, ndtri

from tacenda import checks
from tacenda._types import Array
from tacenda.errors import InputError

THRESHOLDS = 500  # candidates on the choosing half: quantiles of its scores
CLEARLY = 1.05  # an attack that is better than the first by less is luck
# the choice uses a much smaller risk, so that it is not drawn to thresholds with a few lucky counts
CAUTION = 0.02


def clopper_pearson(hits: ArrayLike, count: ArrayLike, risk: float) -> tuple[Array, Array]:
    """(lower, upper) limits of a binomial probability;
    each one alone is wrong with probability at most `risk`."""
    k, n = np.asarray(hits, float), np.asarray(count, float)
    low = np.where(k > 0, betaincinv(np.maximum(k, 0.5), n - k + 1, risk), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 0.5), 1 - risk), 1.0)
    return low, high


@dataclass(frozen=True)
class Bound:
    """A lower bound and the counts it rests on: guesses right in the guessed world, and wrong in
    the other one.

    says: the world that the adversary claims when its score lies beyond `threshold`. value is -inf
    where nothing follows.
    """

    value: float
    threshold: float
    says: int
    right: int
    right_of: int
    wrong: int
    wrong_of: int

    @property
    def rates(self) -> tuple[float, float]:
        """(true positive rate, false positive rate) as measured on the bounding half."""
        return self.right / max(self.right_of, 1), self.wrong / max(self.wrong_of, 1)


def epsilon_bound(
    scores: ArrayLike, truth: ArrayLike, delta: float, confidence: float = 0.95
) -> Bound:
    """The largest epsilon that the scores (trials,)
    of known worlds `truth` (trials,) disprove at `delta`."""
    d = checks.between("delta", delta, 0.0, 1.0, open_ends=False)

    def measure(low: Array, high: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(np.maximum(low - d, 0.0)) - np.log(high)
        return np.where(np.isnan(found), -np.inf, found)

    return _bound(scores, truth, measure, confidence, smooth=False)


def mu_bound(scores: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Bound:
    """The largest mu of Gaussian differential privacy that the scores disprove."""

    def measure(low: Array, high: Array) -> Array:
        found = np.asarray(ndtri(low) - ndtri(high))
        return np.where(np.isnan(found), -np.inf, found)

    return _bound(scores, truth, measure, confidence, smooth=True)


def _bound(
    scores: ArrayLike, truth: ArrayLike, measure: Any, confidence: float, smooth: bool
) -> Bound:
    """smooth: choose the threshold by normal curves through the scores of the choosing half, as
    Gaussian runs have them."""
    s, t = np.asarray(scores, float), np.asarray(truth, int)
    # Two limits, each with half of the risk
    risk = (1 - checks.between("confidence", confidence, 0.5, 1.0)) / 2
    if s.shape != t.shape or s.ndim != 1 or len(s) < 8 or np.isnan(s).any():
        raise InputError(
            "scores and truth must be two rows of at least 8 numbers each, "
            f"not of shapes {s.shape} and {t.shape}."
        )
    half = _choosing(len(s))
    choosing, bounding = (s[half], t[half]), (s[~half], t[~half])
    candidates = np.unique(np.quantile(choosing[0], np.linspace(0, 1, THRESHOLDS), method="lower"))
    best = (-math.inf, float(candidates[0]), 1)
    for says in (0, 1):
        if smooth:
            values = measure(*_expected_limits(*choosing, candidates, says, risk))
        else:
            values = measure(*_limits(*choosing, candidates, says, CAUTION * risk)[:2])
        top = int(np.argmax(values))
        if values[top] > best[0]:
            best = (float(values[top]), float(candidates[top]), says)
    _, threshold, says = best
    low, high, right, wrong, n_right, n_wrong = _limits(
        *bounding, np.array([threshold]), says, risk
    )
    value = float(measure(low, high)[0])
    return Bound(value, threshold, says, int(right[0]), n_right, int(wrong[0]), n_wrong)


def _expected_limits(
    scores: Array, truth: Array, thresholds: Array, says: int, risk: float
) -> tuple[Array, Array]:
    """The limits that normal scores with the same means and standard deviations would have."""
    found = []
    for world in (says, 1 - says):
        mine = scores[truth == world]
        spread = max(float(mine.std()), 1e-300)
        beyond = ndtr((mine.mean() - thresholds) / spread * (1 if says == 1 else -1))
        found.append(clopper_pearson(beyond * len(mine), len(mine), risk))
    return found[0][0], found[1][1]


def _choosing(trials: int) -> Array:
    """Which trials choose; the others bound. Worlds alternate, so both halves hold both."""
    return (np.arange(trials) // 2) % 2 == 0


def choose_attack(scores: Array, truth: Array) -> tuple[int, Array]:
    """(the attack to use, the separations of all) from the choosing half of scores (trials,
    attacks).

    The first attack is kept unless another is clearly better.
    """
    half = _choosing(len(truth))
    found = separations(scores[half], truth[half])
    best = int(np.argmax(found))
    return (best if found[best] > CLEARLY * found[0] else 0), found


def separations(scores: Array, truth: Array) -> Array:
    """(attacks,) how far the two worlds' mean scores (trials, attacks) lie apart,
    in standard deviations."""
    zero, one = scores[truth == 0], scores[truth == 1]
    spread = np.sqrt(
        (zero.var(axis=0) * len(zero) + one.var(axis=0) * len(one)) / max(len(scores) - 2, 1)
    )
    apart = one.mean(axis=0) - zero.mean(axis=0)
    return np.asarray(np.divide(apart, spread, out=np.zeros(len(apart)), where=spread > 0))


def _limits(
    scores: Array, truth: Array, thresholds: Array, says: int, risk: float
) -> tuple[Any, ...]:
    """Limits and counts of "the score lies beyond the threshold"
    in the claimed world and in the other one."""
    mine, other = np.sort(scores[truth == says]), np.sort(scores[truth != says])
    if says == 1:
        right, wrong = (
            len(x) - np.searchsorted(x, thresholds, side="right") for x in (mine, other)
        )
    else:
        right, wrong = (np.searchsorted(x, thresholds, side="left") for x in (mine, other))
    low = clopper_pearson(right, len(mine), risk)[0]
    high = clopper_pearson(wrong, len(other), risk)[1]
    return low, high, right, wrong, len(mine), len(other)


@dataclass(frozen=True)
class GaussianFit:
    """mu = (mean of world 1 - mean of world 0) / standard deviation,
    with an interval of the stated confidence."""

    mu: float
    interval: tuple[float, float]


def gaussian_fit(scores: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> GaussianFit:
    """Fit a Gaussian to the log likelihood ratios: in a Gaussian run they are N(-mu^2/2, mu^2) and
    N(mu^2/2, mu^2).

    An estimate, not a bound: it believes that the scores are normal with one variance. Its error is
    that of a standardised difference, sqrt(1/n0 + 1/n1 + mu^2/(2 (n0 + n1))).
    """
    s, t = np.asarray(scores, float), np.asarray(truth, int)
    zero, one = s[t == 0], s[t == 1]
    n0, n1 = len(zero), len(one)
    spread = math.sqrt((zero.var() * n0 + one.var() * n1) / max(n0 + n1 - 2, 1))
    mu = float(one.mean() - zero.mean()) / spread if spread > 0 else 0.0
    error = math.sqrt(1 / n0 + 1 / n1 + mu**2 / (2 * (n0 + n1)))
    width = -float(ndtri((1 - confidence) / 2)) * error
    return GaussianFit(mu, (mu - width, mu + width))
