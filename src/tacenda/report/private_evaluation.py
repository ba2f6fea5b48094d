"""A private evaluation as one page: every number on it follows from released counts alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda.report import numbers
from tacenda.report.charts import Chart, Column, Series, TextTable
from tacenda.report.released import records_of, released_page

if TYPE_CHECKING:
    from tacenda.evaluation.private import PrivateEvaluation


def private_evaluation_page(found: PrivateEvaluation, out: str | Path) -> Path:
    """Write one HTML page of a private evaluation.

    Parameters
    ----------
    found : PrivateEvaluation
        What `tacenda.evaluate_privately` gave.
    out : str or Path
        The file to write.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import tacenda as tc
    >>> from tacenda.questions.counts import ClassCounts
    >>> counts = ClassCounts(2)
    >>> found = tc.evaluation.PrivateEvaluation(counts, np.ones(counts.length), 0.1, 60, None)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tc.report.private_evaluation_page(found, os.path.join(folder, "page.html")).name
    'page.html'
    """
    level = f"{found.level:.0%}"
    return released_page(
        "evaluation.html.j2",
        found,
        out,
        what="counts",
        among=", of those held out",
        warnings=found.warnings,
        name=str(found.about.get("name", "Private evaluation")),
        data=str(found.about.get("data", "held-out records")),
        records=records_of(found),
        measures=_measures(found, level),
        use=(),  # what was released with noise may be used for anything
        notes=[
            f"{level} intervals, which cover privacy noise and the choice of held-out records. "
            f"The counts behind all numbers are noisy and may be negative."
        ],
        tables=[table(found) for table in _TABLES],
        charts=[draw(found) for draw in _CHARTS],
    )


def _measures(found: PrivateEvaluation, level: str) -> TextTable:
    rows = []
    for m in found.measures.values():
        text = m.measure.text
        value, ends = (text(m.value), f"{text(m.low)} to {text(m.high)}") if m.known else ("-", "-")
        rows.append([m.measure.heading, value, ends, m.note])
    columns = [Column("Measure"), Column("Value", True), Column(f"{level} interval", True)]
    return TextTable("Measures", [*columns, Column("Note")], rows)


def _confusion(found: PrivateEvaluation) -> TextTable | None:
    table = found.confusion
    if table is None:
        return None
    names = table["classes"]
    rows = [
        [name, *(_with_range(v, a, b) for v, a, b in zip(*cells, strict=True))]
        for name, *cells in zip(names, table["value"], table["low"], table["high"], strict=True)
    ]
    columns = [Column("Class"), *(Column(f"Predicted {c}", True) for c in names)]
    return TextTable("Confusion matrix: noisy counts of records, with intervals", columns, rows)


def _cuts(found: PrivateEvaluation) -> TextTable | None:
    if not found.cuts:
        return None
    rows = [
        [row["cut"], f"{row['predicted']:.3f}", _number(row["observed"]), _number(row["brier"])]
        for row in found.cuts
    ]
    columns = (Column("Predicted share", True), Column("Observed", True), Column("Brier", True))
    return TextTable("Beyond each cut", [Column("Cut"), *columns], rows)


def _number(ends: dict[str, float]) -> str:
    return f"{ends['value']:.3f}\n{ends['low']:.3f} to {ends['high']:.3f}"


def _with_range(value: float, low: float, high: float) -> str:
    return f"{value:.0f}\n{low:.0f} to {high:.0f}"


def _classes(found: PrivateEvaluation) -> TextTable | None:
    if not found.class_table:
        return None
    rows = [
        [row["class"], *(_share(row[what]) for what in ("share", "recall", "precision"))]
        for row in found.class_table
    ]
    columns = ("Share of records", "Recall", "Precision")
    said = "" if found.positive is None else f" (positive class: {found.positive})"
    return TextTable(f"Classes{said}", [Column("Class"), *(Column(c, True) for c in columns)], rows)


def _share(ends: dict[str, float]) -> str:
    value, low, high = (numbers.percent(ends[k]) for k in ("value", "low", "high"))
    return f"{value}\n{low} to {high}"


def _released(found: PrivateEvaluation) -> TextTable:
    """How much was released, and with what noise."""
    rows = [
        ["Numbers that were released", numbers.whole(found.statistic.length)],
        ["Noise of each", f"{found.noise:.4g}"],
        *([part, f"{factor * found.noise:.4g}"] for part, factor in _parts(found)),
    ]
    return TextTable("What was released", [Column("What"), Column("Value", True)], rows)


def _parts(found: PrivateEvaluation) -> list[tuple[str, float]]:
    said = {"scores": "a count of the table of scores", "sure": "a count of the table of certainty"}
    said |= {"rates": "a count of predicted rates", "labels": "a count of labels"}
    said |= {"means": "a sum of labels by rate", "below": "a count of labels below"}
    said |= {"outcomes": "a count of the table of outcomes"}
    said |= {"confusion": "a count of the confusion matrix", "residuals": "a count of residuals"}
    return [
        (f"Noise of {said.get(name, 'the sum of ' + name.replace('_', ' '))}", factor)
        for name, factor in found.statistic.factors().items()
    ]


def _drawn(points: list[tuple[float, dict[str, float]]], name: str) -> Series:
    points = sorted(points, key=lambda point: point[0])
    ends = {k: np.array([row[k] for _, row in points]) for k in ("value", "low", "high")}
    x = np.array([at for at, _ in points])
    return Series(name, x, ends["value"], 0, ends["low"], ends["high"], style="points")


def _diagonal() -> Series:
    ends = np.array([0.0, 1.0])
    return Series("chance", ends, ends, 1, style="level", legend=False)


def _roc(found: PrivateEvaluation) -> Chart | None:
    if not found.roc:
        return None
    points = [(row["false"]["value"], row["true"]) for row in found.roc]
    corners: list[tuple[float, dict[str, Any]]] = [
        (end, {"value": end, "low": end, "high": end}) for end in (0.0, 1.0)
    ]
    return Chart(
        "evaluation-roc",
        "ROC curve",
        "share of other records flagged wrongly",
        "share of the class found",
        [_drawn([*points, *corners], "declared thresholds"), _diagonal()],
        f"Chart of the ROC curve at {len(points)} declared thresholds, with intervals.",
        "At the declared thresholds; bars are the intervals of the share found. "
        "The dashed line is chance.",
        tab="ROC curve",
    )


def _calibration(found: PrivateEvaluation) -> Chart | None:
    bins = [row for row in found.calibration if row["observed"] is not None]
    if not bins:
        return None
    points = [((row["low"] + row["high"]) / 2, row["observed"]) for row in bins]
    left = len(found.calibration) - len(bins)
    missing = f" {left} bins hold too few records for this noise." if left else ""
    predicted, observed = found.calibration_words
    ends = np.array([found.calibration[0]["low"], found.calibration[-1]["high"]])
    level = getattr(found.statistic, "level", None)  # of a quantile: wanted in every bin
    wanted = ends if level is None else np.full(2, level)
    return Chart(
        "evaluation-calibration",
        "Calibration",
        f"{predicted}, middle of its bin",
        observed,
        [
            _drawn(points, "observed"),
            Series("wanted", ends, wanted, 1, style="level", legend=False),
        ],
        f"Chart of the {observed} in {len(bins)} bins of the {predicted}.",
        "Bars are intervals; on the thin line prediction and observation agree." + missing,
        tab="Calibration",
    )


def _residuals(found: PrivateEvaluation) -> Chart | None:
    if not found.residuals:
        return None
    points = [(row["size"], row["share"]) for row in found.residuals]
    return Chart(
        "evaluation-residuals",
        "Residuals",
        "size of label - prediction",
        "share of records with at most this",
        [_drawn(points, "share of records")],
        "Chart of the share of records by the size of their residual, with intervals.",
        "In the label's own units; bars are intervals.",
        x_log=True,
        tab="Residuals",
    )


def _observed(found: PrivateEvaluation) -> Chart | None:
    rows = found.cuts
    if not rows:
        return None
    at = np.arange(1.0, len(rows) + 1)
    predicted = np.array([row["predicted"] for row in rows])
    return Chart(
        "evaluation-cuts",
        "Shares beyond each cut",
        f"1: {rows[0]['cut']}, {len(rows)}: {rows[-1]['cut']}",
        "share of the records",
        [
            _drawn([(x, row["observed"]) for x, row in enumerate(rows, start=1)], "observed"),
            Series("predicted", at, predicted, 1),
        ],
        f"Chart of the predicted and the observed shares beyond {len(rows)} cuts.",
        "Bars are intervals; the line is the mean prediction.",
        tab="Shares beyond each cut",
    )


def _calibration_at(found: PrivateEvaluation) -> Chart | None:
    series: list[Series] = []
    for k, one in enumerate(found.calibration_at):
        points = [
            ((row["low"] + row["high"]) / 2, row["observed"])
            for row in one["bins"]
            if row["observed"] is not None
        ]
        if points:
            drawn = _drawn(points, one["cut"])
            series.append(replace(drawn, colour=k))
    if not series:
        return None
    ends = np.array([0.0, 1.0])
    series.append(Series("equal", ends, ends, len(series), style="level", legend=False))
    return Chart(
        "evaluation-calibration-at",
        "Calibration at the cuts",
        "predicted share beyond the cut, middle of its bin",
        "observed share",
        series,
        "Chart of the observed share beyond some cuts in bins of the prediction.",
        "Bars are intervals; on the thin line prediction and observation agree. Bins with too few "
        "records for this noise are left out.",
        tab="Calibration at the cuts",
    )


_TABLES = (_cuts, _confusion, _classes, _released)
_CHARTS = (_roc, _calibration, _residuals, _observed, _calibration_at)
