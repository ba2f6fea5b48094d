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
    """One line or cloud of points of a `Chart`.

    Parameters
    ----------
    name : str
        Its name in the legend.
    x : ndarray
        Shape (k,).
    y : ndarray
        Shape (k,).
    colour : int
        Position in the palette. Dashes and symbols follow it, so that colour is never the only
        difference.
    low : ndarray or None, default=None
        Shape (k,): the lower end of a range, such as the least value over the seeds.
    high : ndarray or None, default=None
        Shape (k,): its upper end.
    style : {"line", "points", "mark", "level"}, default="line"
        A line, marks joined by a line, one mark that stands out, or a thin grey line.
    legend : bool, default=True
        Whether the legend and the table of numbers have it.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.report.Series("DVP", np.array([1.0, 2.0]), np.array([0.5, 0.4]), 0).style
    'line'
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
    """A figure as a plain description: drawn by plotly, or written as a table.

    Parameters
    ----------
    key : str
        A name that no other chart of the page has.
    title : str
        The title.
    x_label : str
        What x is.
    y_label : str
        What y is.
    series : list of Series
        What is drawn, in order.
    words : str
        What a reader hears who cannot see the drawing.
    note : str, default=""
        A sentence below it.
    x_log : bool, default=False
        Whether the x axis is logarithmic.
    y_log : bool, default=False
        Whether the y axis is logarithmic.
    percent : bool, default=False
        Whether y is a share, shown in percent.
    tab : str, default=""
        A shorter title for a tab.
    x_ticks : tuple of float, default=()
        The values that are written on the x axis.
    x_names : tuple of str, default=()
        What is written there in the place of the numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> rounds, risk = np.array([1.0, 2.0]), np.array([0.5, 0.4])
    >>> lines = [tc.report.Series("DVP", rounds, risk, 0)]
    >>> chart = tc.report.Chart("risk", "Risk", "round", "risk", lines, "Risk falls.")
    >>> chart.figure()["data"][0]["y"]
    [0.5, 0.4]
    >>> chart.table().rows
    [['1', '0.5000'], ['2', '0.4000']]
    """

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
    x_names: tuple[str, ...] = ()

    @property
    def tick_texts(self) -> list[str]:
        """What is written at each of `x_ticks`."""
        return list(self.x_names) or [f"{t:.3g}" for t in self.x_ticks]

    def figure(self) -> dict[str, Any]:
        """Return {"data", "layout"} for plotly.js; the page fills in the colours."""
        from tacenda.report.plotly_figures import chart_figure

        return chart_figure(self)

    def table(self) -> TextTable:
        """Return the numbers, one row per x and one column per series.

        There are at most 40 rows, evenly thinned.
        """
        xs = np.unique(np.concatenate([s.x for s in self.series]))
        rows_x = thin(xs, MOST_ROWS)
        named = [s for s in self.series if s.legend]
        columns = [Column(self.x_label, True), *(Column(s.name, True) for s in named)]
        words = dict(zip(self.x_ticks, self.x_names, strict=False))
        rows = [
            [words.get(float(x), numbers.short(x)), *(self._cell(s, float(x)) for s in named)]
            for x in rows_x
        ]
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
    """A column of a `TextTable`.

    Parameters
    ----------
    title : str
        Its heading.
    number : bool, default=False
        Whether it holds numbers, which are set right with their digits aligned.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.report.Column("epsilon", number=True).title
    'epsilon'
    """

    title: str
    number: bool = False


@dataclass(frozen=True, eq=False)
class TextTable:
    """A table of finished text.

    Parameters
    ----------
    caption : str
        What it shows.
    columns : list of Column
        The columns.
    rows : list of list of str
        The cells.
    sort : list of list, default=[]
        What each cell is sorted by, where its text would mislead.

    Examples
    --------
    >>> import tacenda as tc
    >>> columns = [tc.report.Column("method"), tc.report.Column("risk", number=True)]
    >>> tc.report.TextTable("Risk", columns, [["DVP", "0.4"]]).rows[0]
    ['DVP', '0.4']
    """

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
