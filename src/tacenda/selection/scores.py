"""The statistic by which a candidate is chosen: each record's score of every candidate.

A score is 1 minus a loss in [0, 1], and a record's vector holds the scores of all K candidates
less 1/2: entries in [-1/2, 1/2], norm at most sqrt(K)/2. Replacing a record moves the sum by at
most sqrt(K), adding one by at most sqrt(K)/2. (A vector of numbers from 0 to 1 would have norm
sqrt(K); differences from the candidates' mean have no smaller norm in the worst case, half of the
candidates right and half wrong.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit, logsumexp, softmax

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.errors import InputError
from tacenda.questions.statistics import Records, Statistic, register

LARGEST_LOG_LOSS = math.log(100.0)  # larger ones count as this: a class given one chance in 100
CLASSIFIERS = ("accuracy", "neg_log_loss", "neg_brier_score")
REGRESSORS = ("neg_mean_squared_error", "neg_mean_absolute_error")
SCORINGS = (*CLASSIFIERS, *REGRESSORS)
LARGEST_ERROR = (
    0.5  # likewise, in units of half the target range: a worst case of all of it is noise
)
# Loss of one record at score 0; at score 1 it is 0
LARGEST = {
    "accuracy": 1.0,
    "neg_log_loss": LARGEST_LOG_LOSS,
    "neg_brier_score": 1.0,
    "neg_mean_squared_error": LARGEST_ERROR**2,
    "neg_mean_absolute_error": LARGEST_ERROR,
}


@register
@dataclass(frozen=True)
class CandidateScores(Statistic):
    """Scores of released models on each record, less 1/2.

    Parameters
    ----------
    models : tuple of tuple of float
        The candidates: weights of the problem's rows, each of length d. They are public.
    scoring : str
        "accuracy", "neg_log_loss" (of at most ln 100 a record) or "neg_brier_score" for classes;
        "neg_mean_squared_error" or "neg_mean_absolute_error" (of errors up to a quarter of the
        target range) for numbers.

    Examples
    --------
    >>> from tacenda.selection import CandidateScores
    >>> found = CandidateScores(((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (2.0, 0.0)), "accuracy")
    >>> found.length, found.norm
    (4, 1.0)
    """

    name: ClassVar[str] = "candidate-scores"

    models: tuple[tuple[float, ...], ...]
    scoring: str

    def __post_init__(self) -> None:
        checks.one_of("scoring", self.scoring, SCORINGS)
        rows = tuple(tuple(float(number) for number in row) for row in self.models)
        if not rows or len({len(row) for row in rows}) != 1:
            raise InputError("models must be at least one candidate, all of the same length.")
        if not np.isfinite(rows).all():
            raise InputError("models must hold finite numbers; leave a candidate with others out.")
        object.__setattr__(self, "models", rows)

    @property
    def length(self) -> int:
        """One number for each candidate."""
        return len(self.models)

    @property
    def norm(self) -> float:
        """sqrt(K)/2."""
        return math.sqrt(self.length) / 2

    @property
    def non_negative(self) -> bool:
        """Scores less 1/2 may be below 0."""
        return False

    def check(self, n_features: int, n_outputs: int, kind: str) -> None:
        """Refuse models of another length, and a scoring of another kind.

        n_outputs: number of scores of a record. kind: "binary", "multiclass" or "regression".
        """
        if len(self.models[0]) != n_features * n_outputs:
            raise InputError(
                f"models must have {n_features * n_outputs} weights for these records, "
                f"not {len(self.models[0])}."
            )
        checks.one_of("scoring", self.scoring, REGRESSORS if kind == "regression" else CLASSIFIERS)

    def vectors(self, records: Records, model: Floats) -> Array:
        """Scores less 1/2 of a block of records, shape (M, K).

        model: not used: the candidates are the statistic's own.
        """
        found = np.empty((len(records), self.length))
        with np.errstate(all="ignore"):  # whatever the records hold, a score is in [0, 1]
            for k, weights in enumerate(self.models):
                loss = self._losses(records, records.scores(np.asarray(weights)), records.labels)
                # NaN is the worst score: a record must not count for some candidates only
                loss = np.nan_to_num(loss / self.largest, nan=1.0, posinf=1.0)
                found[:, k] = 0.5 - np.clip(loss, 0.0, 1.0)
        return found

    @property
    def largest(self) -> float:
        """Loss of a record that scores 0."""
        return LARGEST[self.scoring]

    def _losses(self, records: Records, scores: Floats, labels: Floats) -> Floats:
        """(M,) from scores (M, n_outputs) and, of a regression, targets (M,)."""
        if records.kind == "regression":
            # In units of half the target range, where predictions are clipped as `predict` does
            error = np.clip(scores[:, 0], -1.0, 1.0) - np.clip(labels, -1.0, 1.0)
            return error**2 if self.scoring == "neg_mean_squared_error" else np.abs(error)
        known = records.classes
        if scores.shape[1] == 1:
            s = scores[:, 0]
            if self.scoring == "accuracy":
                return np.asarray((s > 0) != (known == 1), float)
            if self.scoring == "neg_log_loss":
                return np.asarray(-log_expit(np.where(known == 1, s, -s)))
            return np.asarray((expit(s) - known) ** 2)
        if self.scoring == "accuracy":
            return np.asarray(scores.argmax(axis=1) != known, float)
        own = np.take_along_axis(scores, known[:, None], axis=1)[:, 0]
        if self.scoring == "neg_log_loss":
            return np.asarray(logsumexp(scores, axis=1) - own)
        chances = softmax(scores, axis=1)
        chances[np.arange(len(known)), known] -= 1.0
        return np.asarray((chances**2).sum(axis=1) / 2)
