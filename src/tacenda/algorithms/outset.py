"""Where a descent sets out, and how much the loss bends there: from a moment with the label in it.

With labels y of -1 and +1 the moment of (x, s y) tells M = E xx' and b = E xy at once, for
(1 + s^2/|x|^2) times the noise on M. Their least squares solution u = M^-1 b is close to the best
line for y, and

    explained = b'u              the share of the labels' squares: of their mean and of what varies
    1 - explained                4 p (1 - p) on average: the curvature over its most, 1/4
    r = sqrt(explained)          so long are the predictions x'u
    w = u ln((1 + r)/(1 - r))/r  scores with the log-odds that r means

Of K classes y is 1 in the place of one and 0 in the others', and b and u have K columns; r^2 is
(explained - 1/K)/(1 - 1/K). The start is 0: from scores near its share a rare class is slow to
find. The columns of b add up to E x, so that x'c with c = M^-1 sum_k b_k is nearly 1, and

    p_k = b_k'c                  the share of class k, whose scores bend by p_k (1 - p_k)

A class that bends less than the middle one gets steps that are longer by as much. All this follows
from released numbers, and costs no more privacy.

A count bends as much as its rate. A descent from the typical rate to a far smaller one therefore
needs longer steps on its way (`flatter`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacenda._types import Array, Floats
from tacenda.losses import Loss
from tacenda.losses.of_counts import COUNT_SIGNAL

CLEAR = 9.0  # squares of b count from so many times their noise's variance
FLATTEST = -12  # powers of sqrt(2): a rate of a 64th of the typical one
TINY = 1e-300
LEAST = 1e-3  # of the labels' variance stays unexplained, whatever was released
LONGEST = 10.0  # a rare class's step, over that of the middle one


class Outset(NamedTuple):
    """start (K d,): scores' weights to begin with. unexplained: 1 - r^2; 1.0 where nothing is
    known. longer (K,): by how much the step of each class is."""

    start: Array
    unexplained: float
    longer: Floats

    @classmethod
    def unknown(cls, dim: int, classes: int) -> Outset:
        """Where nothing was released."""
        return cls(np.zeros(dim), 1.0, np.ones(classes))


def takes_labels(loss: Loss) -> bool:
    """Whether the loss is that of classes whose log-odds the scores are."""
    return loss.predicts in ("log-odds", "order", "hazard")


def outset(vectors: Array, variance: Floats, b: Array, std: float) -> Outset:
    """Where to begin, from E xy = `b` (d, 1), or (d, K), whose entries have noise of that std.

    vectors (d, d), variance (d,): along which the records vary and by how much, at least, so that
    little is explained rather than too much. What stands out of the noise counts, and as far.
    """
    along = (vectors[:, :, None] * b[:, None, :]).sum(axis=0)
    squares = along * along
    clear = np.maximum(1.0 - CLEAR * std**2 / np.maximum(squares, 1e-300), 0.0)
    u = along * clear / variance[:, None]
    # The square of a noisy number is too large by the noise's variance
    explained = math.fsum(((squares - std**2) * clear / variance[:, None]).ravel())
    unsure = 2.0 * std * math.sqrt(math.fsum((u * u).ravel()))
    classes = max(b.shape[1], 2)
    chance = 1.0 / classes if b.shape[1] > 1 else 0.0
    left = (max(1.0 - explained, 0.0) + unsure) / (1.0 - chance)
    unexplained = min(max(left, LEAST), 1.0)
    if b.shape[1] > 1:
        return Outset(np.zeros(b.size), unexplained, _longer(along, variance, std))
    r = math.sqrt(1.0 - unexplained)
    odds = math.log((1.0 + r) / (1.0 - r)) / r if r > 0 else 0.0
    return Outset(odds * (vectors @ u).ravel(), unexplained, np.ones(1))


def _longer(along: Array, variance: Floats, std: float) -> Floats:
    """By how much the steps of classes are longer, from b along the records' directions. A share
    counts as no less than its noise's std; where most of the constant is hidden, classes count as
    alike."""
    rows = along.sum(axis=1)
    clear = np.maximum(1.0 - CLEAR * len(along.T) * std**2 / np.maximum(rows**2, 1e-300), 0.0)
    c = rows * clear / variance
    shares = (along * c[:, None]).sum(axis=0)
    if not math.fsum(shares) > 0.5:
        return np.ones(len(shares))
    unsure = std * math.sqrt(math.fsum(c * c))
    known = np.clip(np.maximum(shares, unsure), LEAST, 0.5)
    bends = known * (1.0 - known)
    return np.asarray(np.clip(np.median(bends) / bends, 1.0, LONGEST))


def flatter(
    typical: float, model: Floats, constant: Floats, variance: Floats, noise: Floats
) -> float:
    """By how much counts bend less at a model than at their typical rate, at most 1; no less than
    where noise is forecast to cost all that there is to learn. The rate is that of normal scores
    with the released moment. A power of sqrt(2), so that all members find the same.

    model, constant, variance, noise (k,): along the axes of the map, the model's weights, those of
    the constant feature, how much the records vary, and the std of the model's noise.
    """
    mean = float((variance * constant) @ model)
    mean /= math.sqrt(max(float((variance * constant) @ constant), TINY))
    spread = max(0.0, float((variance * model) @ model) - mean**2)
    lower = min(0.0, mean + 0.5 * spread - math.log(typical))
    loud = float(variance @ noise**2) / COUNT_SIGNAL
    lower = min(0.0, max(lower, math.log(max(loud, TINY)) - lower))
    return float(2.0 ** (0.5 * max(FLATTEST, math.floor(2.0 * lower / math.log(2.0)))))
