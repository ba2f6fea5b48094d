"""A model on labelled records, drawn: ROC, precision and recall, calibration, residuals, confusion
matrix; and the page that `tacenda evaluate --report` writes. All of it reads records without
noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacenda.evaluation import measures
from tacenda.evaluation.figures import TITLES
from tacenda.formats.files import write_text
from tacenda.report import numbers
from tacenda.report.charts import Chart, Column, Series, TextTable

NOT_PRIVATE = (
    "This page was computed from the records without noise: "
    "it is not private unless they are public."
)
# What a page without noise is for, and why it stays where it was made
OWN_USE = (
    "Use it inside your organisation: to decide whether the model is good enough for your own "
    "records, to choose a threshold, and to see whether it gets worse over the years.",
    "Do not publish it, and do not send it to the other members. The figures have no noise: "
    "somebody who knows all your records but one can find out that one, and two pages show what "
    "changed between them. No ledger counts them, so their cost is unknown.",
    "Nothing was sent and nothing was charged. For figures that others may read, release them "
    "once with noise: the command tacenda evaluate --private, or [evaluation] in the members' "
    "contract.",
    "On records that the model was trained on, the figures are a little too good.",
)
Named = list[tuple[str, dict[str, Any]]]  # (run, its figures)


def charts(found: Named) -> list[Chart]:
    """The charts of several runs' figures, each with what it has."""
    made = [_curves(found, "roc"), _curves(found, "precision_recall"), _bins(found, "calibration")]
    made += [_bins(found, "fit"), _residuals(found), _cuts(found), _calibration_at(found)]
    return [chart for chart in made if chart is not None]


def _curves(found: Named, kind: str) -> Chart | None:
    several = any(len(drawn.get(kind, [])) > 1 for _, drawn in found)
    # With many classes one run's curves are enough for a drawing
    shown = found[:1] if several else found
    series: list[Series] = []
    for name, drawn in shown:
        for curve in drawn.get(kind, []):
            title = f"class {curve['class']}" if several else name
            x, y = np.array(curve["x"]), np.array(curve["y"])
            series.append(Series(title, x, y, len(series)))
    if not series:
        return None
    roc = kind == "roc"
    if roc:
        ends = np.array([0.0, 1.0])
        series.append(Series("chance", ends, ends, len(series), style="level", legend=False))
    whose = f" of {shown[0][0]}, each class against the rest" if several else ""
    return Chart(
        f"evaluation-{kind}",
        f"{TITLES[kind]}{whose}",
        "share of other records flagged wrongly" if roc else "recall, share of the class found",
        "share of the class found" if roc else "precision, share of flagged records that are right",
        series,
        f"Line chart: {TITLES[kind].lower()}{whose} for {len(series)} lines.",
        "Closer to the upper left corner is better; the dashed line is chance."
        if roc
        else "Closer to the upper right corner is better.",
        tab=TITLES[kind],
    )


def _bins(found: Named, kind: str) -> Chart | None:
    series = [
        Series(
            name,
            np.array([b["predicted"] for b in drawn[kind]]),
            np.array([b["observed"] for b in drawn[kind]]),
            k,
            style="points",
        )
        for k, (name, drawn) in enumerate(found)
        if drawn.get(kind)
    ]
    if not series:
        return None
    every = np.concatenate([s.x for s in series])
    ends = np.array([0.0, 1.0]) if kind == "calibration" else np.array([every.min(), every.max()])
    series.append(Series("equal", ends, ends, len(series), style="level", legend=False))
    probabilities = kind == "calibration"
    return Chart(
        f"evaluation-{kind}",
        TITLES[kind],
        "mean predicted probability" if probabilities else "mean prediction",
        "observed share" if probabilities else "mean label",
        series,
        f"Chart of {TITLES[kind].lower()}: what was observed against what was predicted.",
        "Each mark is one tenth of the "
        + ("range of probabilities" if probabilities else "records, by their prediction")
        + "; on the thin line prediction and observation agree.",
        tab=TITLES[kind],
    )


def _cuts(found: Named) -> Chart | None:
    shown = [(name, drawn["cuts"]) for name, drawn in found if drawn.get("cuts")]
    if not shown:
        return None
    names = [row["cut"] for row in shown[0][1]]
    at = np.arange(1.0, len(names) + 1)
    series = [
        Series(f"{name}, predicted", at, np.array([row["predicted"] for row in rows]), k)
        for k, (name, rows) in enumerate(shown)
    ]
    seen = np.array([row["observed"] for row in shown[0][1]])
    series.append(Series("observed", at, seen, len(series), style="points"))
    return Chart(
        "evaluation-cuts",
        TITLES["cuts"],
        f"1: {names[0]}, {len(names)}: {names[-1]}",
        "share of the records",
        series,
        f"Chart of the predicted and the observed shares beyond {len(names)} cuts.",
        "Lines are mean predictions; marks are what was observed, for times by Kaplan and Meier.",
        tab=TITLES["cuts"],
    )


def _calibration_at(found: Named) -> Chart | None:
    shown = next(((name, d) for name, d in found if d.get("calibration_at")), None)
    if shown is None:
        return None
    series = [
        Series(
            one["cut"],
            np.array([b["predicted"] for b in one["bins"]]),
            np.array([b["observed"] for b in one["bins"]]),
            k,
            style="points",
        )
        for k, one in enumerate(shown[1]["calibration_at"])
    ]
    ends = np.array([0.0, 1.0])
    series.append(Series("equal", ends, ends, len(series), style="level", legend=False))
    return Chart(
        "evaluation-calibration-at",
        f"{TITLES['calibration_at']} of {shown[0]}",
        "mean predicted share beyond the cut",
        "observed share",
        series,
        "Chart of calibration at some cuts: what was observed against what was predicted.",
        "Each mark is one tenth of the range of predictions; on the thin line prediction and "
        "observation agree.",
        tab=TITLES["calibration_at"],
    )


def cuts_table(name: str, drawn: dict[str, Any]) -> TextTable | None:
    """Predicted and observed shares beyond each cut, and the Brier score at it."""
    if not drawn.get("cuts"):
        return None
    rows = [
        [row["cut"], *(f"{row[w]:.4f}" for w in ("predicted", "observed", "brier"))]
        for row in drawn["cuts"]
    ]
    columns = [Column("Cut"), *(Column(w, True) for w in ("Predicted", "Observed", "Brier score"))]
    return TextTable(f"Shares of {name} beyond each cut", columns, rows)


def _residuals(found: Named) -> Chart | None:
    series = [
        Series(
            name,
            np.array([r["share"] for r in drawn["residuals"]]),
            np.array([r["value"] for r in drawn["residuals"]]),
            k,
            style="points",
        )
        for k, (name, drawn) in enumerate(found)
        if drawn.get("residuals")
    ]
    if not series:
        return None
    ends = np.array([0.0, 1.0])
    series.append(Series("zero", ends, np.zeros(2), len(series), style="level", legend=False))
    return Chart(
        "evaluation-residuals",
        "Residuals",
        "share of the records below",
        "label - prediction",
        series,
        "Chart of the quantiles of label minus prediction.",
        "In the label's own units; the middle of the line is the median.",
        tab="Residuals",
    )


def confusion(name: str, drawn: dict[str, Any]) -> TextTable | None:
    """Records of each class by prediction; shares where the number of records is private."""
    found = drawn.get("confusion")
    if not found:
        return None
    classes = found["classes"]
    columns = [Column("Class"), *(Column(f"Predicted {c}", True) for c in classes)]
    counted = "counts" in found
    rows = [
        [c, *((numbers.whole(int(v)) if counted else numbers.percent(v, 0)) for v in values)]
        for c, values in zip(classes, found["counts" if counted else "shares"], strict=True)
    ]
    what = "records of each class" if counted else "share of all records, to a hundredth"
    return TextTable(f"Confusion matrix of {name}: {what}, by prediction", columns, rows)


def by_class(name: str, drawn: dict[str, Any]) -> TextTable | None:
    """Recall and precision of each class; names the positive one of two."""
    if not drawn.get("classes"):
        return None
    rows = [
        [row["class"], *("-" if row[w] is None else numbers.percent(row[w]) for w in _OF_CLASS)]
        for row in drawn["classes"]
    ]
    positive = drawn.get("positive")
    said = "" if positive is None else f" (positive class: {positive})"
    columns = [Column("Class"), *(Column(w.capitalize(), True) for w in _OF_CLASS)]
    return TextTable(f"Classes of {name}{said}", columns, rows)


_OF_CLASS = ("recall", "precision")


def evaluation_page(found: dict[str, Any], out: str | Path) -> Path:
    """Write one HTML page of what `tacenda evaluate` found.

    Parameters
    ----------
    found : dict
        What ``tacenda evaluate --json`` prints: run, data, records, public, measures, figures.
    out : str or Path
        The file to write.

    Examples
    --------
    >>> import os, tempfile
    >>> import tacenda as tc
    >>> from tacenda.evaluation import figures, measures
    >>> y, guessed = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    >>> found = {"run": "ridge", "data": "new.csv", "records": 3, "public": True}
    >>> found |= {"measures": measures.regression(y, guessed)}
    >>> found |= {"figures": figures.regression(y, guessed)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tc.report.evaluation_page(found, os.path.join(folder, "evaluation.html")).name
    'evaluation.html'
    """
    from tacenda.report.html_page import asset, panels_of, render_page

    name, drawn = str(found["run"]), found["figures"]
    values = found["measures"]
    shown = [
        [measures.MEASURES[key].heading, measures.text(key, value)] for key, value in values.items()
    ]
    table = TextTable("Measures", [Column("Measure"), Column("Value", True)], shown)
    page = render_page(
        asset("evaluation.html.j2"),
        name=name,
        data=str(found["data"]),
        records=numbers.whole(int(found["records"])),
        verdict="none" if found["public"] else "caution",
        word="Public records" if found["public"] else "Not private",
        headline="These records were declared public." if found["public"] else NOT_PRIVATE,
        measures=table,
        use=() if found["public"] else OWN_USE,
        notes=[f"{text[0].upper()}{text[1:]}." for text in measures.undefined(values)],
        tables=[
            made
            for table in (cuts_table, confusion, by_class)
            if (made := table(name, drawn)) is not None
        ],
        charts=panels_of(charts([(name, drawn)])),
    )
    return write_text(Path(out), page)
