"""Private tables as pages and pictures: every number follows from one release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Flags
from tacenda.report.charts import Chart, Column, Series, TextTable
from tacenda.report.released import records_of, released_page
from tacenda.tables.text import headings, lines, share_text, shown_groups

if TYPE_CHECKING:
    from tacenda.tables.description import Description
    from tacenda.tables.effects import HazardRatios
    from tacenda.tables.sites import SiteEffects
    from tacenda.tables.survival_curves import SurvivalCurves

INTERVALS = (
    "Counts have {level} intervals for these records, which cover the privacy noise alone. "
    "Intervals of shares, means, deviations, quantiles and differences are for the population and "
    "cover noise and sampling. After the release, counts were rounded, kept at 0 or above, and "
    "made to agree with their totals."
)


def table_page(found: Description, out: str | Path) -> Path:
    """Write a private description as one HTML page."""
    by = "" if found.asked.by is None else f" by {found.asked.by}"
    notes = [INTERVALS.format(level=f"{found.level:.0%}")]
    if found.asked.by is not None:
        notes.append("Differences are of means or shares, over the pooled standard deviation.")
    return _written(found, f"Who is in the data{by}", [_table(found)], charts_of(found), notes, out)


def _written(
    found: Any,
    title: str,
    tables: list[TextTable],
    charts: list[Chart],
    notes: list[str],
    out: str | Path,
) -> Path:
    return released_page(
        "tables.html.j2",
        found,
        out,
        what="counts and sums",
        title=title,
        subtitle=f"{found.about.get('data', 'table')}, {records_of(found)} records",
        tables=tables,
        charts=charts,
        notes=notes,
    )


def _table(found: Description) -> TextTable:
    columns = [Column("", False), *(Column(h, True) for h in headings(found))]
    rows = [
        [f"{column}: {what}" if column else what, *("\n".join(t) for t in texts)]
        for column, what, texts in lines(found)
    ]
    return TextTable("Table 1", columns, rows)


def charts_of(found: Description) -> list[Chart]:
    """Of each column: shares of its levels, or the distribution of its values, by group."""
    groups, charts = shown_groups(found), []
    for k, column in enumerate(found.asked.columns):
        if column.levels:
            rows = [found.row(column.name, level) for level in column.levels]
            x = np.arange(float(len(rows)))
            ends = [[row.cells[g].share for row in rows] for g in groups]
            step = 0.36 / max(len(groups), 1)
            series = [
                _series(
                    found.groups[g], x + step * (i - (len(groups) - 1) / 2), shares, i, "points"
                )
                for i, (g, shares) in enumerate(zip(groups, ends, strict=True))
            ]
            names, ticks, label = column.levels, tuple(float(v) for v in x), column.name
        else:
            drawn = found.distribution(column.name)
            if not drawn:
                continue
            series = [_series(found.groups[g], *drawn[g], i, "line") for i, g in enumerate(groups)]
            names, ticks, label = (), (), column.name
        what = "Share of records" if column.levels else "Share at or below"
        charts.append(
            Chart(
                f"column-{k}",
                column.name,
                label,
                what.lower(),
                series,
                f"{what} of {column.name}, by group, with intervals.",
                f"{what}, with intervals for noise and sampling.",
                percent=True,
                tab=column.name,
                x_ticks=ticks,
                x_names=names,
            )
        )
    return charts


def _series(name: str, x: Any, shares: Any, colour: int, style: str) -> Series:
    value, low, high = (np.array([float(s[e]) for s in shares]) for e in range(3))
    if style == "line":  # shares at or below rising values
        value = np.maximum.accumulate(value)
    return Series(name, np.asarray(x, float), value, colour, low, high, style=style)


def survival_page(found: SurvivalCurves, out: str | Path) -> Path:
    """Write private survival curves as one HTML page."""
    head, lines = found.lines()
    columns = [Column(head[0]), *(Column(h, True) for h in head[1:])]
    summary = TextTable("Summary", columns, [["\n".join(t).rstrip() for t in row] for row in lines])
    curves = {name: found.survival(name) for name in found.names}
    rows = [
        [f"{point:g}", *("\n".join(share_text(curve, k)) for curve in curves.values())]
        for k, point in enumerate(found.points)
    ]
    named = [Column(name, True) for name in found.names]
    shares = TextTable("Survival at each point", [Column("Time", True), *named], rows)
    risks = {name: found.at_risk(name) for name in found.names}
    rows = [
        [f"{point:g}", *("–" if n[k] is None else f"{n[k]:,}" for n in risks.values())]
        for k, point in enumerate((0.0, *found.points))
    ]
    risk = TextTable("Number at risk after each point", [Column("Time", True), *named], rows)
    by = found.about.get("by")
    title = f"Survival by {by}" if by else "Survival"
    notes = [
        f"{found.level:.0%} intervals, which cover privacy noise and sampling, at each point by "
        f"itself. Numbers at risk are noisy; after the release they were rounded and made to "
        f"agree.",
        "All times are on the points: curves are Kaplan and Meier's."
        if found.times == "on points"
        else "A person last seen between two points counts as half at risk there.",
    ]
    notes = [*([found.test_text] if found.test_text else []), *notes]
    tables = [summary, shares, risk]
    return _written(found, title, tables, survival_charts(found), notes, out)


def survival_charts(found: SurvivalCurves) -> list[Chart]:
    """Survival and cumulative hazard with their bands, up to where the noise lets them be read."""
    made = []
    for key, title, start in (("survival", "Survival", 1.0), ("hazard", "Cumulative hazard", 0.0)):
        series = []
        for i, name in enumerate(found.names):
            curve = found.survival(name) if start else found.cumulative_hazard(name)
            known = found.tables[name].known
            x = np.append(0.0, found.points[:known])
            ends = [np.append(start, np.asarray(e)[:known]) for e in curve]
            if found.times == "on points":  # steps
                x, ends = np.repeat(x, 2)[1:], [np.repeat(e, 2)[:-1] for e in ends]
            series.append(Series(name, x, ends[0], i, ends[1], ends[2]))
        time = str(found.about.get("time", "time"))
        made.append(
            Chart(
                key,
                title,
                time,
                title.lower(),
                series,
                f"{title} by group over time, with bands.",
                "Bands are intervals for noise and sampling, at each point by itself. Curves end "
                "where too few are at risk for this noise.",
                percent=bool(start),
                tab=title,
            )
        )
    return made


def hazard_page(found: HazardRatios, out: str | Path) -> Path:
    """Write private hazard ratios as one HTML page."""
    columns = [Column("Effect"), Column("Hazard ratio", True), Column("p", True)]
    rows = [[name, f"{value}\n{ends}", p] for name, value, ends, p in found.lines()]
    known = [(e.name, e.ratio, e.low, e.high) for e in found.effects if e.known]
    of = "Hazard ratios", "effect", "Hazard ratios with intervals."
    charts = [_ratios("hazard-ratios", known, {"hazard ratio": found.names}, *of)] if known else []
    notes = [
        f"{found.level:.0%} intervals, which cover privacy noise and sampling if the model is "
        f"right: hazards are proportional at all times. A ratio is for one unit of its column, or "
        f"for a level compared with the reference."
    ]
    table = TextTable("Effects on the hazard", columns, rows)
    return _written(found, "Hazard ratios", [table], charts, notes, out)


def forest_page(found: SiteEffects, out: str | Path) -> Path:
    """Write an effect of several sites, and their summary, as one HTML page."""
    table = TextTable(
        f"Hazard ratio of {found.name}",
        [Column("Site"), Column("Hazard ratio", True)],
        [[name, f"{value}\n{ends}"] for name, value, ends in found.lines()],
    )
    rows = [row for row in found.rows() if all(0 < x < 1e100 for x in row[1:])]
    together = tuple(row[0] for row in rows if row[0] not in found.sites)
    chart = _ratios(
        "forest",
        rows,
        {"sites": found.sites, "together": together},
        f"Hazard ratio of {found.name} by site",
        "site",
        f"Hazard ratios of {len(found.sites)} sites, of all and of a new one, with intervals.",
    )
    notes = [
        found.words,
        "Each site's interval covers its own noise and sampling. That of all sites is for the "
        "mean of effects that may differ; the last row shows where a new site's effect lies.",
    ]
    return _written(found, f"{found.name} by site", [table], [chart], notes, out)


def _ratios(
    key: str,
    rows: Sequence[tuple[str, float, float, float]],
    marked: dict[str, tuple[str, ...]],
    title: str,
    what: str,
    words: str,
) -> Chart:
    """Ratios with their ends, beside a line at 1. marked: which rows have a colour together."""
    x = np.arange(float(len(rows)))
    names = tuple(row[0] for row in rows)
    ratio, low, high = (np.array([row[k] for row in rows]) for k in (1, 2, 3))
    places: dict[str, Flags] = {k: np.array([n in own for n in names]) for k, own in marked.items()}
    series = [
        Series(name, x[at], ratio[at], i, low[at], high[at], style="points")
        for i, (name, at) in enumerate(places.items())
        if at.any()
    ]
    none = Series("none", x[[0, -1]], np.ones(2), len(marked), style="level", legend=False)
    return Chart(
        key,
        title,
        what,
        "hazard ratio",
        [*series, none],
        words,
        "On the thin line there is no effect.",
        y_log=True,
        x_ticks=tuple(float(v) for v in x),
        x_names=names,
    )
