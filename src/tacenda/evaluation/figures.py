"""What a model does on labelled records, beyond single measures: plain values for tables, files and
drawings. Computed without noise.

    classification   confusion  {classes, counts}: counts[i][j] records of class i predicted as j
                     roc, precision_recall   [{class, x, y}]: one curve for two classes, else one
                                             for each class against the rest
                     classes    [{class, recall, precision}], None where no record decides it
                     positive   the class that the measures of two classes are about
                     calibration [{low, high, records, predicted, observed}], with probabilities
    regression       residuals  [{share, value}]: quantiles of label - prediction
                     fit        [{records, predicted, observed}]: means over tenths of the records,
                                in the order of their prediction
    outcomes         cuts       [{cut, predicted, observed, brier}]: of ordered classes the shares
                                above each step, of times those without the event by each point
                     calibration_at [{cut, bins}], bins as in calibration, at three of the cuts
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacenda import losses
from tacenda._types import Array
from tacenda.evaluation.class_measures import class_probabilities, predicted_classes
from tacenda.evaluation.outcome_measures import Outcomes, horizons

POINTS = 61  # of a curve
MOST_CURVES = 10  # classes beyond these have no curve of their own
BINS = 10
SHARES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
TITLES = {
    "roc": "ROC curve",
    "precision_recall": "Precision and recall",
    "calibration": "Calibration",
    "residuals": "Residuals",
    "fit": "Predicted and observed",
    "confusion": "Confusion matrix",
    "calibration_at": "Calibration at the cuts",
    "cuts": "Shares beyond each cut",
}


def classification(
    labels: Array, scores: Array, classes: Sequence[Any], *, probabilities: bool
) -> dict[str, Any]:
    """Figures of class numbers `labels` (N,) against scores (N,) or (N, K)."""
    from sklearn import metrics

    truth, scores = np.asarray(labels, int), np.asarray(scores, float)
    k = len(classes)
    counts = np.zeros((k, k), int)
    guessed = predicted_classes(scores)
    np.add.at(counts, (truth, guessed), 1)
    found: dict[str, Any] = {
        "confusion": {"classes": [str(c) for c in classes], "counts": counts.tolist()},
        "classes": _per_class(counts, classes),
        "positive": str(classes[1]) if k == 2 else None,
        "roc": [],
        "precision_recall": [],
    }
    ranked = class_probabilities(scores) if probabilities else scores
    asked = [(1, ranked)] if ranked.ndim == 1 else [(c, ranked[:, c]) for c in range(k)]
    for c, values in asked[:MOST_CURVES]:
        positive = truth == c
        if positive.any() and not positive.all():
            fpr, tpr, _ = metrics.roc_curve(positive, values)
            precision, recall, _ = metrics.precision_recall_curve(positive, values)
            name = str(classes[c])
            found["roc"].append({"class": name, **_curve(fpr, tpr)})
            found["precision_recall"].append(
                {"class": name, **_curve(recall[::-1], precision[::-1])}
            )
    if probabilities:
        sure = ranked if ranked.ndim == 1 else ranked.max(axis=1)
        right = truth == 1 if ranked.ndim == 1 else truth == guessed
        found["calibration"] = _calibration(sure, right)
    return found


def regression(labels: Array, predictions: Array) -> dict[str, Any]:
    """Figures of labels and predictions (N,) in the same units."""
    y, guessed = np.asarray(labels, float), np.asarray(predictions, float)
    if not len(y):
        return {"residuals": [], "fit": []}
    values = np.quantile(y - guessed, SHARES)
    order = np.argsort(guessed, kind="stable")
    tenths = [part for part in np.array_split(order, BINS) if len(part)]
    return {
        "residuals": [
            {"share": share, "value": float(v)} for share, v in zip(SHARES, values, strict=True)
        ],
        "fit": [
            {
                "records": len(part),
                "predicted": float(guessed[part].mean()),
                "observed": float(y[part].mean()),
            }
            for part in tenths
        ],
    }


def outcomes(cells: Array, scores: Array, loss: str, classes: Any) -> dict[str, Any]:
    """Figures of ordered classes, or of the time until an event: outcomes (N,) against scores
    (N, T). classes: names of the outcomes, or True."""
    learnt = losses.by_name(loss)
    o = Outcomes.of_records(learnt, scores, np.asarray(cells, np.int64))
    cuts = cut_names(loss, classes, o.cuts)
    found: dict[str, Any] = {
        "cuts": [
            {"cut": name, "predicted": float(p), "observed": float(x), "brier": float(b)}
            for name, p, x, b in zip(cuts, o.predicted, o.observed, o.brier, strict=True)
        ],
        "calibration_at": [
            {"cut": cuts[k], "bins": _calibration_at(o, k)} for k in horizons(o.cuts)
        ],
    }
    if not o.survival:
        names = list(range(o.cuts + 1)) if classes is True else list(classes)
        counts = np.zeros((len(names), len(names)), int)
        np.add.at(counts, (o.cell, o.classes), 1)
        found["confusion"] = {"classes": [str(c) for c in names], "counts": counts.tolist()}
        found["classes"] = _per_class(counts, names)
    return found


def cut_names(loss: str, classes: Any, t: int) -> list[str]:
    """What it means to lie beyond each of T cuts."""
    if losses.by_name(loss).predicts == "hazard":
        return [
            f"no event by point {k + 1}" if classes is True else f"no {classes[k]}"
            for k in range(t)
        ]
    return [f"above {k if classes is True else classes[k]}" for k in range(t)]


def _calibration_at(o: Outcomes, k: int) -> list[dict[str, Any]]:
    """Mean chance and observed share beyond a cut, in equal bins of the chance."""
    known = o.cell != o.cuts if o.survival else np.ones(len(o.cell), bool)
    edges = np.linspace(0, 1, BINS + 1)
    bins = np.where(known, np.clip(np.digitize(o.beyond[:, k], edges[1:-1]), 0, BINS - 1), -1)
    found = []
    for b in np.unique(bins[known]).tolist():
        part = bins == b
        mine = replace(
            o, beyond=o.beyond[part], rank=o.rank[part], cell=o.cell[part], count=o.count[part]
        )
        found.append(
            {
                "low": round(float(edges[b]), 2),
                "high": round(float(edges[b + 1]), 2),
                "records": int(part.sum()),
                "predicted": float(mine.beyond[:, k].mean()),
                "observed": float(mine.observed[k]),
            }
        )
    return found


def _coarse_outcomes(found: dict[str, Any]) -> dict[str, Any]:
    def rounded(row: dict[str, Any]) -> dict[str, Any]:
        plain = {k: v for k, v in row.items() if k != "records"}
        return {k: round(v, 2) if isinstance(v, float) else v for k, v in plain.items()}

    return {
        "cuts": [rounded(row) for row in found["cuts"]],
        "calibration_at": [
            {"cut": one["cut"], "bins": [rounded(row) for row in one["bins"]]}
            for one in found["calibration_at"]
        ],
    }


def coarse(found: dict[str, Any]) -> dict[str, Any]:
    """The same for records whose number is private: shares in place of counts, and nothing finer
    than 0.01 or two digits (`tacenda.evaluation.measures.as_shown`)."""
    if "cuts" in found:
        return _coarse_outcomes(found)
    if "residuals" in found:
        # The extremes of residuals are single records
        kept = [r for r in found["residuals"] if 0.0 < r["share"] < 1.0]
        return {
            "residuals": [{**r, "value": _two_digits(r["value"])} for r in kept],
            "fit": [
                {k: _two_digits(part[k]) for k in ("predicted", "observed")}
                for part in found["fit"]
            ],
        }
    counts = np.asarray(found["confusion"]["counts"], float)
    shares = np.round(counts / max(counts.sum(), 1.0), 2)
    plain = {
        "confusion": {"classes": found["confusion"]["classes"], "shares": shares.tolist()},
        "classes": [
            {k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()}
            for row in found["classes"]
        ],
        "positive": found["positive"],
        **{
            name: [
                {"class": c["class"], **{a: [round(v, 2) for v in c[a]] for a in ("x", "y")}}
                for c in found[name]
            ]
            for name in ("roc", "precision_recall")
        },
    }
    if "calibration" in found:
        plain["calibration"] = [
            {k: round(v, 2) for k, v in part.items() if k != "records"}
            for part in found["calibration"]
        ]
    return plain


def _per_class(counts: Array, classes: Sequence[Any]) -> list[dict[str, Any]]:
    """Recall and precision of each class, from counts[true][predicted]."""
    right, own, guessed = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    return [
        {
            "class": str(name),
            "recall": float(right[k] / own[k]) if own[k] else None,
            "precision": float(right[k] / guessed[k]) if guessed[k] else None,
        }
        for k, name in enumerate(classes)
    ]


def _curve(x: Array, y: Array) -> dict[str, list[float]]:
    """At most POINTS points, the ends among them."""
    if len(x) > POINTS:
        # Evenly along the curve, not along the records
        length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
        at = np.unique(np.searchsorted(length, np.linspace(0, length[-1], POINTS)))
        at = np.unique(np.concatenate([[0], np.minimum(at, len(x) - 1), [len(x) - 1]]))
        x, y = x[at], y[at]
    return {"x": [round(float(v), 6) for v in x], "y": [round(float(v), 6) for v in y]}


def _calibration(sure: Array, right: Array) -> list[dict[str, Any]]:
    """Mean probability and share of the outcome in equal bins of the probability."""
    edges = np.linspace(0, 1, BINS + 1)
    bins = np.clip(np.digitize(sure, edges[1:-1]), 0, BINS - 1)
    found = []
    for k in range(BINS):
        there = bins == k
        if there.any():
            found.append(
                {
                    "low": round(float(edges[k]), 2),
                    "high": round(float(edges[k + 1]), 2),
                    "records": int(there.sum()),
                    "predicted": float(sure[there].mean()),
                    "observed": float(right[there].mean()),
                }
            )
    return found


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")
