"""Measures of a model on labelled records, computed without noise.

Classification takes class numbers 0 .. K-1 and linear scores: (N,) for two classes, positive for
class 1, or (N, K). Regression takes labels and predictions in the label's own units. A measure that
the records do not define (one class only, constant labels) is None, and `undefined` says why.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacenda._types import Array, Floats, Ints
from tacenda.data.schema import Label


class Units(NamedTuple):
    """From encoded labels to the label's own units: label = centre + reach * encoded, and a
    prediction is kept within [low, high], where these are declared. log_scores: a score is the
    logarithm of the encoded prediction, as for counts."""

    centre: float = 0.0
    reach: float = 1.0
    low: float | None = None
    high: float | None = None
    log_scores: bool = False

    @classmethod
    def of(cls, label: Label | None) -> Units:
        """Those of a schema's label; as encoded where there is none."""
        if label is None:
            return cls()
        return cls(*label.centre_and_reach, label.low, label.high)

    def of_loss(self, loss: str | None) -> Units:
        """The same for scores of the loss with this name."""
        return self._replace(log_scores=loss in LOG_RATES)

    def labels(self, encoded: Array) -> Floats:
        """(N,) labels in their own units."""
        return np.asarray(self.centre + self.reach * np.asarray(encoded, float))

    def predictions(self, scores: Array) -> Floats:
        """(N,) predictions in the label's units, inside its bounds."""
        if self.log_scores:
            with np.errstate(over="ignore"):  # an infinite rate is cut to the bound
                scores = np.exp(np.asarray(scores, float))
        found = self.labels(scores)
        if self.low is None or self.high is None:
            return found
        return np.asarray(np.clip(found, self.low, self.high))


PROBABILITIES = ("logistic", "multinomial")  # losses whose scores are log odds
LOG_RATES = ("poisson", "negative-binomial")  # losses whose scores are logarithms of a rate
QUANTILES = ("quantile", "smoothed-quantile")


@dataclass(frozen=True)
class Measure:
    """How a measure is called and shown.

    name: its key in tables and files; with `test_` before it, on test records. digits: decimals,
    or significant digits where it has the label's unit. share: between 0 and 1, shown in per cent
    where accuracies are. why: when it is not defined.
    """

    name: str
    title: str
    digits: int
    more_is_better: bool
    share: bool = False
    has_unit: bool = False
    why: str = ""

    @property
    def heading(self) -> str:
        """The title as a heading."""
        return self.title[0].upper() + self.title[1:]

    def text(self, value: float) -> str:
        """The value with as many digits as are of use."""
        if not self.has_unit:
            return f"{value:.{self.digits}f}"
        return (
            f"{value:.0f}" if abs(value) >= 10 ** (self.digits - 1) else f"{value:.{self.digits}g}"
        )


_ONE_CLASS = "it needs records of every class"

CLASSIFICATION = (
    Measure("accuracy", "accuracy", 4, True, share=True),
    Measure(
        "balanced_accuracy",
        "balanced accuracy",
        4,
        True,
        share=True,
        why="it needs records of at least two classes",
    ),
    Measure("roc_auc", "ROC AUC", 4, True, why=_ONE_CLASS),
    Measure("average_precision", "average precision", 4, True, why=_ONE_CLASS),
    Measure("f1", "F1", 4, True, why="no record is, or is predicted as, a positive one"),
    Measure("log_loss", "log loss", 4, False),
    Measure("brier", "Brier score", 4, False),
)
REGRESSION = (
    Measure("r2", "R2", 4, True, why="it needs at least two different labels"),
    Measure("rmse", "RMSE", 4, False, has_unit=True),
    Measure("mae", "MAE", 4, False, has_unit=True),
    Measure("deviance", "Poisson deviance", 4, False, why="it needs counts of at least 0"),
    Measure("pinball", "pinball loss", 4, False, has_unit=True),
    Measure("share_below", "share of labels at or below the prediction", 4, True),
)
MEASURES = {m.name: m for m in (*CLASSIFICATION, *REGRESSION)}
# The few that a terminal has room for
HEADLINES = ("accuracy", "roc_auc", "r2", "rmse", "mae")

Values = dict[str, float | None]


def title(key: str) -> str:
    """A measure's title, also of test records; other names with spaces for underscores."""
    name = key.removeprefix("test_")
    known = MEASURES.get(name)
    said = name.replace("_", " ") if known is None else known.title
    return f"test {said}" if key.startswith("test_") else said


def text(key: str, value: Any) -> str:
    """A measure's value for a table; a dash where there is none."""
    if value is None:
        return "-"
    known = MEASURES.get(key.removeprefix("test_"))
    return f"{float(value):.4f}" if known is None else known.text(float(value))


def headline(rows: list[dict[str, Any]]) -> list[str]:
    """The keys of the measures to show first, of test records where there are any."""
    for prefix in ("test_", ""):
        found = [
            f"{prefix}{name}"
            for name in HEADLINES
            if any(row.get(f"{prefix}{name}") is not None for row in rows)
        ]
        if found:
            return found
    return []


def classification(labels: Array, scores: Array, *, probabilities: bool) -> Values:
    """Compute the measures of a classification, without noise.

    For several classes ROC AUC, average precision and F1 are means over the classes, each against
    the rest. F1 leaves out classes that neither occur nor are predicted.

    Parameters
    ----------
    labels : array of shape (N,)
        Class numbers 0 .. K-1.
    scores : array of shape (N,) or (N, K)
        Linear scores; for two classes one, positive for class 1.
    probabilities : bool
        Whether scores are log odds, so that log loss and Brier score exist.

    Returns
    -------
    dict
        Measure -> value, None where the records do not define it.

    Examples
    --------
    >>> from tacenda.evaluation import measures
    >>> measures.classification([0, 1, 1], [-1.0, 2.0, -0.5], probabilities=False)["roc_auc"]
    1.0
    """
    from sklearn import metrics

    truth, scores = np.asarray(labels, int), np.asarray(scores, float)
    n_classes = scores.shape[1] if scores.ndim == 2 else 2
    if not len(truth):
        return {m.name: None for m in CLASSIFICATION if probabilities or m.name not in _OF_CHANCES}
    guessed = predicted_classes(scores)
    ranked = class_probabilities(scores) if probabilities else scores
    against = ranked[:, None] if ranked.ndim == 1 else ranked
    present = np.bincount(truth, minlength=n_classes) > 0
    positives = (1,) if scores.ndim == 1 else tuple(range(n_classes))
    everyone = bool(present.all()) and n_classes > 1
    binary = [(truth == c, against[:, k]) for k, c in enumerate(positives)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes that are absent: handled here
        found: dict[str, Any] = {
            "accuracy": metrics.accuracy_score(truth, guessed),
            "balanced_accuracy": metrics.balanced_accuracy_score(truth, guessed)
            if present.sum() > 1
            else None,
            "roc_auc": np.mean([metrics.roc_auc_score(*pair) for pair in binary])
            if everyone
            else None,
            "average_precision": np.mean([metrics.average_precision_score(*p) for p in binary])
            if everyone
            else None,
            "f1": metrics.f1_score(
                truth, guessed, labels=positives, average="macro", zero_division=np.nan
            ),
        }
    if probabilities:
        found["log_loss"] = log_loss(truth, scores)
        found["brier"] = brier(truth, ranked)
    return {name: _plain(value) for name, value in found.items()}


_OF_CHANCES = ("log_loss", "brier")


def regression(
    labels: Array, predictions: Array, *, loss: str | None = None, level: float | None = None
) -> Values:
    """Compute R2, RMSE and MAE, without noise; for counts also the deviance, for a quantile the
    pinball loss and the share of labels at or below the prediction.

    Parameters
    ----------
    labels : array of shape (N,)
        Labels in their own units.
    predictions : array of shape (N,)
        Predictions in the same units.
    loss : str or None, default=None
        Name of the loss that was learnt.
    level : float or None, default=None
        Of a quantile: the share of labels that should lie below.

    Returns
    -------
    dict
        Measure -> value, None where the records do not define it.

    Examples
    --------
    >>> from tacenda.evaluation import measures
    >>> measures.regression([1.0, 2.0, 4.0], [1.0, 3.0, 2.0])["mae"]
    1.0
    """
    from sklearn import metrics

    y, guessed = np.asarray(labels, float), np.asarray(predictions, float)
    if not len(y):
        return {m.name: None for m in REGRESSION[:3]}
    varied = len(y) > 1 and float(np.ptp(y)) > 0
    found = {
        "r2": metrics.r2_score(y, guessed) if varied else None,
        "rmse": math.sqrt(float(np.mean((y - guessed) ** 2))),
        "mae": metrics.mean_absolute_error(y, guessed),
    }
    if loss in LOG_RATES:
        rates = np.maximum(guessed, np.finfo(float).tiny)
        found["deviance"] = metrics.mean_poisson_deviance(y, rates) if (y >= 0).all() else None
    if loss in QUANTILES and level is not None:
        found["pinball"] = metrics.mean_pinball_loss(y, guessed, alpha=level)
        found["share_below"] = float(np.mean(y <= guessed))
    return {name: _plain(value) for name, value in found.items()}


def concordance(times: Array, events: Array, risks: Array) -> float | None:
    """Compute Harrell's concordance, without noise.

    Of all pairs of persons of whom it is known who had the event first, the share in which that one
    has the larger risk score; equal scores count one half.

    Parameters
    ----------
    times : array of shape (N,)
        Time of the event, or until which the person was seen without it.
    events : array of shape (N,)
        Whether the event was seen.
    risks : array of shape (N,)
        Risk scores: the larger, the sooner.

    Returns
    -------
    float or None
        None where no pair can be compared.

    Examples
    --------
    >>> from tacenda.evaluation import measures
    >>> measures.concordance([1.0, 2.0, 3.0], [1, 1, 0], [0.9, 0.1, 0.4])
    0.6666666666666666
    """
    time, seen, risk = np.asarray(times, float), np.asarray(events, bool), np.asarray(risks, float)
    pairs = right = 0.0
    for k in np.flatnonzero(seen):
        # Who was seen without the event at the same time had it later
        later = (time > time[k]) | ((time == time[k]) & ~seen)
        pairs += float(later.sum())
        right += float((risk[later] < risk[k]).sum()) + 0.5 * float((risk[later] == risk[k]).sum())
    return right / pairs if pairs else None


def undefined(values: Mapping[str, Any]) -> list[str]:
    """One sentence for each measure that is None."""
    return [
        f"{title(key)} is not defined on these records: {measure.why or 'there are none'}"
        for key, value in values.items()
        if value is None and (measure := MEASURES.get(key.removeprefix("test_"))) is not None
    ]


def predicted_classes(scores: Array) -> Ints:
    """(N,) class numbers; a score of exactly 0 counts as the positive class."""
    scores = np.asarray(scores)
    return np.asarray((scores >= 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1))


def class_probabilities(scores: Array) -> Floats:
    """(N,) of class 1, or (N, K): the logistic function or the softmax of log odds."""
    from scipy.special import expit, softmax

    return np.asarray(expit(scores) if np.ndim(scores) == 1 else softmax(scores, axis=1))


def log_loss(labels: Array, scores: Array) -> float:
    """Mean of -ln(probability of the true class), from log odds and without overflow."""
    from scipy.special import log_expit, log_softmax

    if np.ndim(scores) == 1:
        return float(-np.mean(log_expit(np.where(labels == 1, scores, -scores))))
    return float(-np.mean(log_softmax(scores, axis=1)[np.arange(len(labels)), labels]))


def brier(labels: Array, probabilities: Array) -> float:
    """Mean squared difference between probability and outcome; for several classes summed over
    the classes."""
    if np.ndim(probabilities) == 1:
        return float(np.mean((probabilities - labels) ** 2))
    outcome = np.eye(probabilities.shape[1])[labels]
    return float(np.mean(((probabilities - outcome) ** 2).sum(axis=1)))


def _plain(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
