"""Charts as plain descriptions, drawn three times: interactive in the page, on paper, and as a
table of numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.report import numbers

MOST_POINTS, MOST_ROWS = 400, 40


@dataclass(frozen=True, eq=False)
class Series:
    """One line or cloud: x (k,), y (k,), and the range low..high over the seeds where there is one.

    colour: position in the palette; dashes and symbols follow it, so that colour is never the only
    difference. style: "line", "points" (marks joined by a line), "mark" (one mark that stands out)
    or "level" (a thin grey line).
    """

    name: str
    x: Array
    y: Array
    colour: int
    low: Array | None = None
    high: Array | None = None
    style: str = "line"
    legend: bool = True


@dataclass(frozen=True, eq=False)
class Chart:
    """Everything a drawing needs. `words` is what a reader hears who cannot see it;
    percent: y is a share."""

    key: str
    title: str
    x_label: str
    y_label: str
    series: list[Series]
    words: str
    note: str = ""
    x_log: bool = False
    y_log: bool = False
    percent: bool = False
    tab: str = ""
    x_ticks: tuple[float, ...] = ()

    def table(self) -> TextTable:
        """The numbers: one row per x, one column per series;
        at most MOST_ROWS rows, evenly thinned."""
        xs = np.unique(np.concatenate([s.x for s in self.series]))
        rows_x = thin(xs, MOST_ROWS)
        named = [s for s in self.series if s.legend]
        columns = [Column(self.x_label, True), *(Column(s.name, True) for s in named)]
        rows = [[numbers.short(x), *(self._cell(s, float(x)) for s in named)] for x in rows_x]
        caption = f"{self.title}: the numbers"
        if len(rows_x) < len(xs):
            caption += f" ({len(rows_x)} of {len(xs)} points)"
        return TextTable(caption, columns, rows)

    def _cell(self, series: Series, x: float) -> str:
        if series.style == "level":
            x = float(series.x[0])
        at = np.flatnonzero(series.x == x)
        if not len(at):
            return ""
        show = numbers.percent if self.percent else numbers.short
        text = show(series.y[at[0]])
        if series.low is None or series.high is None or series.low[at[0]] == series.high[at[0]]:
            return text
        return f"{text} ({show(series.low[at[0]])} – {show(series.high[at[0]])})"


@dataclass(frozen=True)
class Column:
    """A table column: its heading, and whether it holds numbers (set right, digits aligned)."""

    title: str
    number: bool = False


@dataclass(frozen=True, eq=False)
class TextTable:
    """Rows of finished text; `sort` holds for each cell what a column is sorted by,
    where text would mislead."""

    caption: str
    columns: list[Column]
    rows: list[list[str]]
    sort: list[list[Any]] = field(default_factory=list)


def thin(values: Array, most: int) -> Array:
    """At most `most` values, evenly spaced by position, the first and the last among them."""
    if len(values) <= most:
        return values
    return np.asarray(values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))])


def visible(values: Any) -> Any:
    """Values for a logarithmic axis:
    rounding errors around zero become gaps instead of deep spikes."""
    found = np.asarray(values, float)
    return np.where(found > 1e-12 * found.max(initial=0.0), found, np.nan)


def dash_of(colour: int) -> int:
    """Which of four dashes goes with a place in the palette of eight:
    32 pairs before one comes again."""
    return (colour + colour // 8) % 4


def over_seeds(
    histories: list[list[dict[str, Any]]], metric: str
) -> tuple[Array, Array, Array, Array] | None:
    """(rounds, mean, least, largest) of a metric over the seeds that recorded it;
    None where nobody did."""
    found: dict[int, list[float]] = {}
    for rows in histories:
        for row in rows:
            value = row.get(metric)
            if value is not None and np.isfinite(value):
                found.setdefault(int(row["round"]), []).append(float(value))
    if not found:
        return None
    rounds = thin(np.array(sorted(found)), MOST_POINTS)
    values = [found[int(r)] for r in rounds]
    mean, low, high = (np.array([f(v) for v in values]) for f in (np.mean, np.min, np.max))
    return rounds, mean, low, high
