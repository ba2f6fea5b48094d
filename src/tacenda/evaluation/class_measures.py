"""Measures of a classification: on labelled records, and on released counts.

For several classes ROC AUC, average precision and F1 are means over the classes, each against the
rest. F1 leaves out classes that neither occur nor are predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacenda._types import Array, Floats, Ints
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.measure import IN_HEADLINES, IN_RESULTS, Measure, Told
from tacenda.evaluation.private_intervals import Estimate
from tacenda.evaluation.released import Release, cell_std, confusion, n_records, n_records_noise
from tacenda.questions.counts import ClassCounts
from tacenda.runtime.metrics import two_digits

CLASSES = ("log-odds", "class")  # what the scores of a classification may be
UNIT = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class ClassSample:
    """Records with class numbers `truth` (N,) and linear scores, (N,) for two classes or (N, K);
    probabilities: whether scores are log odds."""

    truth: Ints
    scores: Floats
    probabilities: bool

    @property
    def n_classes(self) -> int:
        return self.scores.shape[1] if self.scores.ndim == 2 else 2

    @cached_property
    def guessed(self) -> Ints:
        return predicted_classes(self.scores)

    @cached_property
    def ranked(self) -> Floats:
        """What orders the records: probabilities where there are any, else scores."""
        return class_probabilities(self.scores) if self.probabilities else self.scores

    @cached_property
    def present(self) -> Array:
        """(K,) whether a class has records."""
        return np.asarray(np.bincount(self.truth, minlength=self.n_classes) > 0)

    @property
    def positives(self) -> tuple[int, ...]:
        """The classes that are compared with the rest."""
        return (1,) if self.scores.ndim == 1 else tuple(range(self.n_classes))

    def over_classes(self, found: Callable[[Array, Array], Any]) -> float | None:
        """Return the mean of found(is it the class, what orders) over the classes; None unless all
        have records."""
        if not self.present.all() or self.n_classes < 2:
            return None
        against = self.ranked[:, None] if self.ranked.ndim == 1 else self.ranked
        pairs = [(self.truth == c, against[:, k]) for k, c in enumerate(self.positives)]
        return float(np.mean([found(*pair) for pair in pairs]))


# ---- on records
def _accuracy(s: ClassSample) -> float | None:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(s.truth, s.guessed))


def _balanced_accuracy(s: ClassSample) -> float | None:
    from sklearn.metrics import balanced_accuracy_score

    enough = s.present.sum() > 1
    return float(balanced_accuracy_score(s.truth, s.guessed)) if enough else None


def _roc_auc(s: ClassSample) -> float | None:
    from sklearn.metrics import roc_auc_score

    return s.over_classes(roc_auc_score)


def _average_precision(s: ClassSample) -> float | None:
    from sklearn.metrics import average_precision_score

    return s.over_classes(average_precision_score)


def _f1(s: ClassSample) -> float | None:
    from sklearn.metrics import f1_score

    return float(
        f1_score(s.truth, s.guessed, labels=s.positives, average="macro", zero_division=np.nan)
    )


def _log_loss(s: ClassSample) -> float | None:
    """Mean of -ln(probability of the true class), from log odds and without overflow."""
    from scipy.special import log_expit, log_softmax

    if s.scores.ndim == 1:
        return float(-np.mean(log_expit(np.where(s.truth == 1, s.scores, -s.scores))))
    return float(-np.mean(log_softmax(s.scores, axis=1)[np.arange(len(s.truth)), s.truth]))


def _brier(s: ClassSample) -> float | None:
    """Mean squared difference between probability and outcome; for several classes summed over
    the classes."""
    if s.ranked.ndim == 1:
        return float(np.mean((s.ranked - s.truth) ** 2))
    outcome = np.eye(s.n_classes)[s.truth]
    return float(np.mean(((s.ranked - outcome) ** 2).sum(axis=1)))


def predicted_classes(scores: Array) -> Ints:
    """(N,) class numbers; a score of exactly 0 counts as the positive class."""
    scores = np.asarray(scores)
    return np.asarray((scores >= 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1))


def class_probabilities(scores: Array) -> Floats:
    """(N,) of class 1, or (N, K): the logistic function or the softmax of log odds."""
    from scipy.special import expit, softmax

    return np.asarray(expit(scores) if np.ndim(scores) == 1 else softmax(scores, axis=1))


# ---- on counts
def _counted_accuracy(e: Release) -> Told | None:
    if not isinstance(e.statistic, ClassCounts):
        return None
    (n, known), (counts, cells), std = n_records(e), confusion(e), cell_std(e)
    right, number = float(np.trace(counts)), float(np.trace(cells))
    var, cov = std**2 * number, 0.0 if known else std**2 * number
    if known:
        var *= 1 - number / cells.sum()
    return Told(intervals.share(right, n, e.level, (var, cov, n_records_noise(e))), UNIT)


def _counted_balance(e: Release) -> Told | None:
    if not isinstance(e.statistic, ClassCounts):
        return None
    (counts, cells), std = confusion(e), cell_std(e)
    own, own_size = counts.sum(axis=1), cells.sum(axis=1)
    hits = std**2 * np.diag(cells)
    recalls = intervals.share(np.diag(counts), own, e.level, (hits, hits, std**2 * own_size))
    return Told(intervals.average(recalls), UNIT)


def _counted_area(e: Release) -> Told | None:
    s = e.statistic
    if not isinstance(s, ClassCounts) or s.n_classes != 2:
        return None
    counts = s.parts(e.total)["scores"]
    return Told(intervals.roc_auc(counts, e.level, cell_std(e), s.edges), UNIT)


def _counted_f1(e: Release) -> Told | None:
    """Of the records that are, or are predicted as, class 1: the share that is both."""
    if not isinstance(e.statistic, ClassCounts) or e.statistic.n_classes != 2:
        return None
    (counts, cells), std = confusion(e), cell_std(e)
    union = counts[1, 1] + counts[0, 1] + counts[1, 0]
    spread = std**2 * np.array([cells[1, 1], cells[1, 1], cells[1].sum() + cells[0, 1]])
    both = intervals.share(counts[1, 1], union, e.level, tuple(spread))
    return Told(Estimate(*(2 * j / (1 + j) for j in both)), UNIT)


def _counted_log_loss(e: Release) -> Told | None:
    if not isinstance(e.statistic, ClassCounts) or not e.statistic.probabilities:
        return None
    top = e.statistic.log_loss_bound
    return _chance(e, e.statistic, "log_loss", top)._replace(note=f"each record's cut to {top:g}")


def _counted_brier(e: Release) -> Told | None:
    if not isinstance(e.statistic, ClassCounts) or not e.statistic.probabilities:
        return None
    return _chance(e, e.statistic, "brier", 1.0 if e.statistic.n_classes == 2 else 2.0)


def _chance(e: Release, s: ClassCounts, what: str, top: float) -> Told:
    """Log loss or Brier score; how much records differ is bounded by the bins they are in."""
    n, parts = n_records(e)[0], s.parts(e.total)
    edges = np.array([0.0, *s.edges, 1.0])
    shares = np.maximum(parts["scores" if s.n_classes == 2 else "sure"], 0.0)
    shares = shares / max(float(shares.sum()), 1e-300)
    total = float(parts[what][0])
    mean = min(max(total / n, 0.0), top) if n > 0 else top / 2
    square = _second_moment(what, s.n_classes == 2, shares, edges, top, mean)
    variance = min(max(square - mean**2, 0.0), mean * (top - mean))
    noise = ((e.noise * s.factors()[what]) ** 2, n_records_noise(e))
    limits = (0.0, top)
    return Told(intervals.mean(total, n, e.level, variance, noise, limits), limits)


def _second_moment(
    what: str, binary: bool, shares: Floats, edges: Floats, top: float, mean: float
) -> float:
    """A bound on the mean square of a record's log loss or Brier score, from its bins."""
    low, high = edges[:-1], edges[1:]

    def worst(p: Floats) -> Floats:
        """At probability p of the true class; of several classes no more than 2 (1 - p)^2."""
        with np.errstate(divide="ignore"):
            score = -np.log(p) if what == "log_loss" else (1 - p) ** 2 * (1.0 if binary else 2.0)
        return np.asarray(np.minimum(score, top))

    if binary:
        return float((shares[0] * worst(1 - high) ** 2 + shares[1] * worst(low) ** 2).sum())
    # Right ones by their bin; the wrong ones' part of the mean, each of them at most `top`
    least = -np.log(high) if what == "log_loss" else (1 - high) ** 2
    right = float((shares[0] * worst(low) ** 2).sum())
    rest = mean - float((shares[0] * least).sum())
    return right + top * max(rest, 0.0)


_ONE_CLASS = "it needs records of every class"
MEASURES = (
    Measure(
        "accuracy",
        "accuracy",
        4,
        True,
        share=True,
        of=CLASSES,
        on_records=_accuracy,
        on_counts=_counted_accuracy,
        place=IN_HEADLINES,
    ),
    Measure(
        "balanced_accuracy",
        "balanced accuracy",
        4,
        True,
        share=True,
        why="it needs records of at least two classes",
        of=CLASSES,
        on_records=_balanced_accuracy,
        on_counts=_counted_balance,
    ),
    Measure(
        "roc_auc",
        "ROC AUC",
        4,
        True,
        why=_ONE_CLASS,
        of=CLASSES,
        on_records=_roc_auc,
        on_counts=_counted_area,
        place=IN_HEADLINES,
    ),
    Measure(
        "average_precision",
        "average precision",
        4,
        True,
        why=_ONE_CLASS,
        of=CLASSES,
        on_records=_average_precision,
    ),
    Measure(
        "f1",
        "F1",
        4,
        True,
        why="no record is, or is predicted as, a positive one",
        of=CLASSES,
        on_records=_f1,
        on_counts=_counted_f1,
        place=IN_RESULTS,
    ),
    Measure(
        "log_loss",
        "log loss",
        4,
        False,
        of=("log-odds",),
        on_records=_log_loss,
        on_counts=_counted_log_loss,
        coarse=two_digits,
    ),
    Measure(
        "brier",
        "Brier score",
        4,
        False,
        of=("log-odds",),
        on_records=_brier,
        on_counts=_counted_brier,
    ),
)
