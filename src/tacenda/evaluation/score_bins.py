"""Where a finished model's scores lie, and the bins of an evaluation that follow from it: the run's
released second moment says it, so no record is read again.

Fixed bins of probability suit a strong model of even classes. A weak model's scores, or those of
rare classes, all fall into two or three of them, and the area under the binned ROC curve is then
far below that of the scores.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from tacenda.algorithms.whitening import released_moment
from tacenda.questions.counts import EDGES

if TYPE_CHECKING:
    from tacenda.runtime.result import RunResult

# Places of the edges in standard deviations: twelve equal shares of normal scores, and the tails,
# which bound the log loss of records far out
PLACES = (-3.5, *(float(ndtri(k / 13)) for k in range(1, 13)), 3.5)
FURTHEST = 12.0  # log-odds of the outermost edges
LEAST_STEP = 1e-3  # between two edges, in log-odds: as rounded, they still rise


class ScoreSpread(NamedTuple):
    """Mean and standard deviation of a model's scores over the records."""

    mean: float
    std: float


def score_spread(result: RunResult) -> ScoreSpread | None:
    """Return where a linear model's scores lie, if the run released a moment whose last feature is
    the constant; None where a loss asks several questions about a record."""
    if result.settings["problem"].get("rows_each", 1) > 1:
        return None
    moment, w = released_moment(result.released), np.asarray(result.model, float)
    if moment is None or w.ndim != 1 or len(moment) != len(w):
        return None
    constant = math.sqrt(max(float(moment[-1, -1]), 1e-12))
    mean = float(moment[-1] @ w) / constant
    return ScoreSpread(mean, math.sqrt(max(float(w @ moment @ w) - mean**2, 0.0)))


def score_edges(spread: ScoreSpread | None) -> tuple[float, ...]:
    """Choose the edges of the bins of probability: where the scores are, and 0.5.

    There are as many as usual, so that a plan that was made before the model holds. Edges are
    rounded, so that all members find the same ones.
    """
    if spread is None or not math.isfinite(spread.mean) or not spread.std > 0:
        return EDGES
    odds = np.clip([spread.mean + z * spread.std for z in PLACES], -FURTHEST, FURTHEST)
    odds = np.unique(np.round([*odds, 0.0], 3))
    if len(odds) != len(EDGES) or np.diff(odds).min() < LEAST_STEP / 2:
        return EDGES
    return tuple(0.5 if x == 0 else float(f"{expit(x):.8g}") for x in odds)
