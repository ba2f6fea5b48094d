"""Charts from tidy rows: one line per method, the mean over seeds with their range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacenda.report import Chart, Series
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import NO_PRIVACY


def lines(
    rows: Rows,
    *,
    key: str,
    title: str,
    metric: str,
    y_label: str,
    x: str = "round",
    x_label: str = "iteration",
    by: str = "method",
    style: str | None = None,
    extra: Sequence[Series] = (),
    note: str = "",
    **looks: Any,
) -> Chart:
    """One chart: x against the mean of `metric`, a series for each value of `by`; `extra` series
    (bounds, references) come last."""
    kind = style or ("line" if x in ("round", "iteration") else "points")
    chosen, series = rows.where(metric=metric), []
    for k, name in enumerate(chosen.distinct(by)):
        at, mean, low, high = chosen.where(**{by: name}).curve(x)
        if len(at):
            series.append(Series(_name(by, name), at, mean, k, low, high, style=kind))
    series += [
        Series(s.name, s.x, s.y, len(series) + k, s.low, s.high, s.style)
        for k, s in enumerate(extra)
    ]
    seeds = len(rows.distinct("seed"))
    words = f"{title}: {y_label} against {x_label} for {', '.join(s.name for s in series)}."
    about = note or f"Mean and range over {seeds} seeds." if seeds > 1 else note
    return Chart(key, title, x_label, y_label, series, words, about, **looks)


def with_reference(rows: Rows, mode: str) -> Rows:
    """The rows of a mode, and those without noise beside them."""
    return rows.where(lambda r: r["mode"] in (mode, NO_PRIVACY))


def level(name: str, value: float, x: Any) -> Series:
    """A horizontal reference line over the range of x."""
    at = np.asarray(x, float)
    ends = np.array([at.min(), at.max()])
    return Series(name, ends, np.full(2, value), 0)


def bound(name: str, x: Any, y: Any) -> Series:
    """A computed curve."""
    return Series(name, np.asarray(x, float), np.asarray(y, float), 0)


def _name(by: str, value: Any) -> str:
    return (
        str(value)
        if by == "method"
        else f"{by} {value:g}"
        if isinstance(value, int | float)
        else str(value)
    )
