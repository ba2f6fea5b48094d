"""`SurvivalCurves`: survival by group, from one released table of counts."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Floats, Ints
from tacenda.errors import InputError
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.private_intervals import Estimate
from tacenda.privacy.statement import Statement
from tacenda.questions.tables import ColumnCells, TableSums
from tacenda.tables.asked import EVERYONE
from tacenda.tables.estimates import Cells, Sizes, agreeing, whole_counts
from tacenda.tables.life_table import LifeTable, LogRank, cells_of, counting, log_rank
from tacenda.tables.saving import require_format, save
from tacenda.tables.text import bracketed, number, share_text
from tacenda.words import counted

FORMAT = "tacenda-survival-1"
TIMES = ("between points", "on points")


@dataclass(frozen=True, eq=False)
class SurvivalCurves:
    """What one release tells about survival; nothing here costs further privacy.

    Parameters
    ----------
    groups : tuple of str
        Names of the groups; the last is of records without one, where there are several.
    points : tuple of float
        The declared time points.
    total : ndarray
        The released sum.
    noise : float
        Standard deviation of the noise of each of its numbers.
    records : int or None
        Public number of records; None where it is private.
    privacy : Statement or None
        What the release guarantees; None without noise.
    times : {"between points", "on points"}, default="between points"
        Where the times of the records are. Between points, who was last seen during a period is
        half at risk in it, and curves are straight between points.
    level : float, default=0.95
        Confidence level of the intervals.
    about : dict, default={}
        Plain public values: what was asked.

    Examples
    --------
    >>> import tacenda as tc
    >>> table = {"t": [1.0, 2.0, 3.0, 4.0] * 500, "e": ["1", "1", "0", "1"] * 500}
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "numeric", "name": "t", "low": 0, "high": 4}],
    ...     label={"name": "e", "classes": ["0", "1"]},
    ...     survival={"time": "t", "event": "e", "points": [1, 2, 3, 4]},
    ... )
    >>> found = tc.survival(schema, table, tc.Privacy(1.0), times="on points", seed=0)
    >>> found.median("all").value
    2.0
    """

    groups: tuple[str, ...]
    points: tuple[float, ...]
    total: Floats
    noise: float
    records: int | None
    privacy: Statement | None
    times: str = TIMES[0]
    level: float = 0.95
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        intervals.quantile(self.level)
        checks.one_of("times", self.times, TIMES)
        if np.shape(self.total) != (self.statistic.length,):
            raise InputError(
                f"total must hold {self.statistic.length} numbers, not shape "
                f"{np.shape(self.total)}."
            )

    def at(self, level: float) -> SurvivalCurves:
        """The same with intervals of another level.

        level: such as 0.9.
        """
        return replace(self, level=level)

    @property
    def statistic(self) -> TableSums:
        """What was asked of every record."""
        return statistic_of(len(self.groups), len(self.points))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the curves: of the groups, and "all"."""
        return self.groups if len(self.groups) == 1 else (*self.groups[:-1], EVERYONE)

    @cached_property
    def tables(self) -> dict[str, LifeTable]:
        """Events, numbers at risk and hazards of each curve, before they are rounded."""
        points, on = np.array(self.points), self.times == TIMES[1]
        return {name: LifeTable.of(c, points, on) for name, c in self._named.items()}

    def survival(self, name: str = EVERYONE) -> Estimate:
        """Kaplan-Meier curve at each point, with a band of pointwise intervals.

        name: of the curve. Result: three arrays, NaN where the noise leaves nothing to know.
        """
        return self._table(name).survival(self.level)

    def cumulative_hazard(self, name: str = EVERYONE) -> Estimate:
        """Nelson-Aalen curve at each point; between points -log of the survival.

        name: of the curve.
        """
        on = self.times == TIMES[1]
        return self._table(name).cumulative_hazard(self.level, sums=on)

    def median(self, name: str = EVERYONE, share: float = 0.5) -> Estimate:
        """When survival falls to a half; infinite where it does not.

        name: of the curve. share: another share than a half.
        """
        return self._table(name).time_at(checks.between("share", share, 0.0, 1.0), self.level)

    def restricted_mean(self, name: str = EVERYONE, until: float | None = None) -> Estimate:
        """Mean time without the event up to a point.

        name: of the curve. until: one of the points, None for the last that every curve reaches.
        """
        table, most = self._table(name), min(t.known for t in self.tables.values())
        last = most
        if until is not None:
            if until not in self.points:
                raise InputError(f"until must be one of the points {self.points}, not {until!r}.")
            last = self.points.index(until) + 1
        if last == 0 or last > table.known:
            return Estimate(math.nan, 0.0, math.inf)
        return table.restricted_mean(last, self.level)

    def at_risk(self, name: str = EVERYONE) -> list[int | None]:
        """Whole numbers at risk at 0 and after each point, never rising; None beyond what is known.

        name: of the curve.
        """
        return self._counts(name)[0]

    def events(self, name: str = EVERYONE) -> list[int | None]:
        """Whole numbers of events in each period.

        name: of the curve.
        """
        return self._counts(name)[1]

    @cached_property
    def log_rank(self) -> LogRank | None:
        """Whether the groups that can be read have one curve; None where fewer than two can."""
        own = [self._named[name] for name in self.names[:-1] if self.tables[name].known]
        if len(own) < 2:
            return None
        on = self.times == TIMES[1]
        return log_rank(own, self._sizes, np.array(self.points), on, self.records is not None)

    # ---- files
    def lines(self) -> tuple[list[str], list[list[tuple[str, str]]]]:
        """Headings, and for each curve texts of size, events, median and restricted mean."""
        last = min(t.known for t in self.tables.values())
        until = f"{self.points[last - 1]:g}" if last else "–"
        head = ["", "records", "events", "median", f"mean up to {until}"]
        rows = []
        for name in self.names:
            counts = [n for n in self.events(name) if n is not None]
            texts = [(name, ""), (f"{self.at_risk(name)[0] or 0:,}", ""), (f"{sum(counts):,}", "")]
            for found in (self.median(name), self.restricted_mean(name)):
                ends = f"{_time(found.low)} to {_time(found.high)}"
                texts.append((_time(found.value), ends))
            rows.append(texts)
        return head, rows

    @property
    def test_text(self) -> str:
        """The log-rank test in a sentence; empty where there is none."""
        found = self.log_rank
        if found is None:
            return ""
        p = "below 0.0001" if found.p_value < 1e-4 else f"{found.p_value:.4f}"
        return (
            f"Log-rank test up to {found.last_point:g}: chi-squared {found.statistic:.2f} with "
            f"{counted(found.degrees, 'degree')} of freedom, p {p}."
        )

    @property
    def markdown(self) -> str:
        """Summary, test and curves in Markdown."""
        head, rows = self.lines()
        out = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
        for texts in rows:
            out.append("| " + " | ".join(bracketed(t) for t in texts) + " |")
        out += ["", self.test_text, "", "| time | " + " | ".join(self.names) + " |"]
        out.append("| ---: |" + " ---: |" * len(self.names))
        curves = [self.survival(name) for name in self.names]
        for k, point in enumerate(self.points):
            cells = [bracketed(share_text(curve, k)) for curve in curves]
            out.append(f"| {point:g} | " + " | ".join(cells) + " |")
        return "\n".join(out) + "\n"

    @property
    def csv(self) -> str:
        """One line for each curve and point."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            ["group", "time", "at_risk", "events", "survival", "low", "high", "cumulative_hazard"]
        )
        for name in self.names:
            curve, hazard = self.survival(name), self.cumulative_hazard(name)
            for k, point in enumerate(self.points):
                ends = ["" if math.isnan(x[k]) else f"{x[k]:.6g}" for x in (*curve, hazard.value)]
                writer.writerow(
                    [name, f"{point:g}", self.at_risk(name)[k], self.events(name)[k], *ends]
                )
        return out.getvalue()

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files: what was released, and what follows from it.

        Result: what `from_plain` reads back; "curves" and "log_rank" are for readers.
        """
        curves = {
            name: {
                "survival": _lists(self.survival(name)),
                "cumulative_hazard": _lists(self.cumulative_hazard(name)),
                "at_risk": self.at_risk(name),
                "events": self.events(name),
                "median": _lists(self.median(name)),
                "restricted_mean": _lists(self.restricted_mean(name)),
            }
            for name in self.names
        }
        return {
            "format": FORMAT,
            "groups": list(self.groups),
            "points": list(self.points),
            "total": [float(x) for x in self.total],
            "noise": float(self.noise),
            "records": self.records,
            "privacy": None if self.privacy is None else self.privacy.to_plain(),
            "times": self.times,
            "level": self.level,
            "about": self.about,
            "curves": curves,
            "log_rank": None if self.log_rank is None else asdict(self.log_rank),
        }

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> SurvivalCurves:
        """Read back what `to_plain` wrote; the curves are computed again."""
        require_format(values, FORMAT, "tacenda survival")
        privacy = values["privacy"]
        return cls(
            tuple(values["groups"]),
            tuple(values["points"]),
            np.asarray(values["total"], float),
            float(values["noise"]),
            values["records"],
            None if privacy is None else Statement.from_plain(privacy),
            values["times"],
            values["level"],
            values["about"],
        )

    def save(self, path: str | Path) -> Path:
        """Write the curves as .html, .csv, .md, .json, or a picture (.svg, .pdf or
        .png, extra `plots`).

        path: its ending says which.
        """
        from tacenda.tables.pages import survival_charts, survival_page

        return save(self, path, survival_page, survival_charts)

    def __repr__(self) -> str:
        return f"SurvivalCurves({', '.join(self.names)}; {len(self.points)} points)"

    # ---- what the curves are made of
    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes.of(self.statistic, self.total, self.noise, self.records)

    @cached_property
    def _named(self) -> dict[str, Cells]:
        cells = agreeing(self.statistic, self.total, self.noise, self._sizes)[0]
        kept = cells[:1] if len(self.groups) == 1 else [*cells[:-2], cells[-1]]
        return dict(zip(self.names, kept, strict=True))

    @cached_property
    def _whole(self) -> dict[str, Ints]:
        """Whole counts of each curve; those of all are the sum of the groups', without one too."""
        cells = agreeing(self.statistic, self.total, self.noise, self._sizes)[0]
        total = self._sizes.each.sum() if self.records is None else self.records
        sizes = whole_counts(self._sizes.each, round(float(total)))
        own = [whole_counts(c.counts, int(n)) for c, n in zip(cells, sizes, strict=False)]
        kept = own if len(own) == 1 else [*own[:-1], np.sum(own, axis=0)]
        return dict(zip(self.names, kept, strict=True))

    def _table(self, name: str) -> LifeTable:
        return self.tables[checks.one_of("name", name, self.names)]

    def _counts(self, name: str) -> tuple[list[int | None], list[int | None]]:
        """Of counts that are whole, not below 0, and add up to the group."""
        known, counts = self._table(name).known, self._whole[name]
        events, _ = counting(len(self.points), on_points=True)
        # After a point: all but those with the event by then, and those last seen before it
        later = [int(counts[:-1].sum())]
        t = len(self.points)
        for k in range(t):
            later.append(int(counts[k + 1 : t].sum() + counts[t + k + 1 : 2 * t + 1].sum()))
        return (
            [n if k <= known else None for k, n in enumerate(later)],
            [int(n) if k < known else None for k, n in enumerate(events @ counts)],
        )


def statistic_of(groups: int, points: int) -> TableSums:
    """One column whose levels are the cells of a life table."""
    return TableSums(groups, (ColumnCells(cells_of(points) - 1, (), False, 1.0),))


def _time(value: float) -> str:
    return "not reached" if math.isinf(value) else "–" if math.isnan(value) else number(value)


def _lists(found: Estimate) -> dict[str, Any]:
    def plain(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return [plain(float(one)) for one in x]
        return float(x) if math.isfinite(x) else None

    return {name: plain(x) for name, x in found._asdict().items()}
