"""Measures of a model on labelled records, computed without noise.

Classification takes class numbers 0 .. K-1 and linear scores: (N,) for two classes, positive for
class 1, or (N, K). Regression takes labels and predictions in the label's own units. A measure that
the records do not define (one class only, constant labels) is None, and `undefined` says why.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacenda import losses
from tacenda._types import Array
from tacenda.evaluation import class_measures, outcome_measures, value_measures
from tacenda.evaluation.class_measures import ClassSample
from tacenda.evaluation.measure import IN_HEADLINES
from tacenda.evaluation.outcome_measures import Outcomes
from tacenda.evaluation.value_measures import ValueSample
from tacenda.losses.registry import predicts
from tacenda.runtime import metrics

ALL = (*class_measures.MEASURES, *value_measures.MEASURES, *outcome_measures.MEASURES)
MEASURES = {m.name: m for m in ALL}
ON_RECORDS = tuple(m.name for m in MEASURES.values() if m.on_records is not None)

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


def shown(place: int = IN_HEADLINES) -> list[str]:
    """The names of the measures that are shown at a place, or at one with less room."""
    return [m.name for m in MEASURES.values() if m.place >= place]


def headline(rows: list[dict[str, Any]]) -> list[str]:
    """The keys of the measures to show first, of test records where there are any."""
    for prefix in ("test_", ""):
        found = [
            f"{prefix}{name}"
            for name in shown()
            if any(row.get(f"{prefix}{name}") is not None for row in rows)
        ]
        if found:
            return found
    return []


def as_shown(values: dict[str, Any], adjacency: str) -> dict[str, Any]:
    """Measures and metrics of private records as they may stand in a file or on a screen: where
    the number of records is private, as coarse as each says (`tacenda.runtime.metrics`)."""
    return metrics.as_shown(values, adjacency, {m.name: m.coarse for m in MEASURES.values()})


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
    truth, scores = np.asarray(labels, int), np.asarray(scores, float)
    sample = ClassSample(truth, scores, probabilities)
    return _measured("log-odds" if probabilities else "class", len(truth), sample)


def regression(
    labels: Array, predictions: Array, *, loss: str | None = None, level: float | None = None
) -> Values:
    """Compute the measures of a regression, without noise.

    R2, RMSE and MAE; for counts also the deviance, for a quantile the pinball loss and the share of
    labels at or below the prediction.

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
    y, guessed = np.asarray(labels, float), np.asarray(predictions, float)
    kind = predicts(loss) or "value"
    if kind == "quantile" and level is None:
        kind = "value"
    return _measured(kind, len(y), ValueSample(y, guessed, level))


def outcomes(cells: Array, scores: Array, loss: str) -> Values:
    """Compute the measures of ordered classes, or of the time until an event, without noise.

    cells: shape (N,), class numbers, or cells of the life table. scores: shape (N, T), of the
    questions about each record. loss: name of the loss that was learnt.
    """
    sample = Outcomes.of_records(losses.by_name(loss), scores, cells)
    return _measured(str(predicts(loss)), len(sample.cell), sample)


def _measured(kind: str, count: int, sample: ClassSample | ValueSample | Outcomes) -> Values:
    """Every measure of what a loss predicts, on a sample of so many records."""
    found: Values = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes that are absent: handled here
        for measure in MEASURES.values():
            if measure.on_records is not None and kind in measure.of:
                found[measure.name] = _plain(measure.on_records(sample)) if count else None
    return found


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


def _plain(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
