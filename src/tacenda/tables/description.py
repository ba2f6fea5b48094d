"""A private table of who is in the data ("Table 1"): everything in it follows from one released
vector and public facts, and costs no privacy.

Counts are whole, not below 0, and agree: levels add up to their group, groups to all. A count's
interval is for these records, and holds the noise alone. Intervals of shares, means, deviations,
quantiles and differences are for the population, and hold noise and sampling.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Floats
from tacenda.errors import InputError
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.private_intervals import Estimate
from tacenda.privacy.statement import Statement
from tacenda.tables.asked import EVERYONE, Asked, AskedColumn
from tacenda.tables.cells import TableCell, TableRow
from tacenda.tables.estimates import (
    Cells,
    Moments,
    Sizes,
    agreeing,
    difference,
    quantile_of,
    whole_counts,
)
from tacenda.tables.saving import require_format, save
from tacenda.tables.text import as_csv, as_markdown

FORMAT = "tacenda-description-1"


@dataclass(frozen=True, eq=False)
class Description:
    """What one release tells about the records of a network.

    Parameters
    ----------
    asked : Asked
        What was asked of every record.
    total : ndarray
        The released sum.
    noise : float
        Standard deviation of the noise of each of its numbers.
    records : int or None
        Public number of records; None where it is private.
    privacy : Statement or None
        What the release guarantees; None without noise.
    level : float, default=0.95
        Confidence level of the intervals.
    about : dict, default={}
        Plain public values: what was described.

    Examples
    --------
    >>> import tacenda as tc
    >>> table = {"age": [30.0, 50.0] * 400, "ill": ["no", "yes"] * 400}
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "numeric", "name": "age", "low": 0, "high": 100}],
    ...     label={"name": "ill", "classes": ["no", "yes"]},
    ... )
    >>> found = tc.describe(schema, table, tc.Privacy(1.0), by="ill", seed=0)
    >>> found.groups
    ('no', 'yes', 'missing', 'all')
    """

    asked: Asked
    total: Floats
    noise: float
    records: int | None
    privacy: Statement | None
    level: float = 0.95
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        intervals.quantile(self.level)
        if np.shape(self.total) != (self.asked.statistic.length,):
            raise InputError(
                f"total must hold {self.asked.statistic.length} numbers, not shape "
                f"{np.shape(self.total)}."
            )

    def at(self, level: float) -> Description:
        """The same with intervals of another level; it costs no privacy.

        level: such as 0.9.
        """
        return replace(self, level=level)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups, and "all" where there are several."""
        groups = self.asked.groups
        return groups if len(groups) == 1 else (*groups, EVERYONE)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Whole numbers of records of each group."""
        total = self._sizes.each.sum() if self.records is None else self.records
        return tuple(int(n) for n in whole_counts(self._sizes.each, round(float(total))))

    @cached_property
    def rows(self) -> tuple[TableRow, ...]:
        """Every row of the table."""
        found = [self._records()]
        for k, column in enumerate(self.asked.columns):
            counts = self._whole(k)
            if column.levels:
                found += [self._level(k, j, counts) for j in range(len(column.levels))]
            else:
                found += self._numbers(k, column)
            found.append(self._level(k, -1, counts))
        return tuple(found)

    def row(self, column: str, what: str) -> TableRow:
        """Return one row.

        column: its name, "" for the number of records. what: as in `TableRow`.
        """
        for one in self.rows:
            if (one.column, one.what) == (column, what):
                return one
        raise InputError(
            f"the table has no row {what!r} of {column!r}; it has "
            f"{[r.what for r in self.rows if r.column == column]}."
        )

    def distribution(self, column: str) -> list[tuple[Floats, list[Estimate]]]:
        """Share of the values at or below each bin's upper edge: of each group (edges, shares).

        column: name of a number. Empty where no quantiles were asked for.
        """
        k = [c.name for c in self.asked.columns].index(column)
        one = self.asked.columns[k]
        if not one.edges:
            return []
        places = np.arange(len(one.edges) + 2)
        there = (places < len(places) - 1).astype(float)
        edges = np.array(one.values(one.edges))
        return [
            (
                edges,
                [
                    cells.share((places < j).astype(float), there, self.level)
                    for j in range(1, len(places) - 1)
                ],
            )
            for cells in self._shown(self._cells[k])
        ]

    # ---- files
    @property
    def markdown(self) -> str:
        """The table in Markdown."""
        return as_markdown(self)

    @property
    def csv(self) -> str:
        """One line for each cell, with its ends."""
        return as_csv(self)

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files: what was released, and what follows from it.

        Result: what `from_plain` reads back; "rows" is for readers.
        """
        return {
            "format": FORMAT,
            "asked": asdict(self.asked),
            "total": [float(x) for x in self.total],
            "noise": float(self.noise),
            "records": self.records,
            "privacy": None if self.privacy is None else self.privacy.to_plain(),
            "level": self.level,
            "about": self.about,
            "groups": list(self.groups),
            "rows": [_plain(row) for row in self.rows],
        }

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Description:
        """Read back what `to_plain` wrote; the table is computed again."""
        require_format(values, FORMAT, "tacenda describe")
        plain, privacy = values["asked"], values["privacy"]
        columns = tuple(
            AskedColumn(**{**c, "levels": tuple(c["levels"]), "edges": tuple(c["edges"])})
            for c in plain["columns"]
        )
        asked = Asked(
            columns,
            plain["by"],
            tuple(plain["groups"]),
            tuple(plain["quantiles"]),
            tuple(plain["weights"]),
        )
        statement = None if privacy is None else Statement.from_plain(privacy)
        total, noise = np.asarray(values["total"], float), float(values["noise"])
        return cls(
            asked, total, noise, values["records"], statement, values["level"], values["about"]
        )

    def save(self, path: str | Path) -> Path:
        """Write the table as .html, .csv, .md, .json, or a picture (.svg, .pdf or
        .png, extra `plots`).

        path: its ending says which.
        """
        from tacenda.tables.pages import charts_of, table_page

        return save(self, path, table_page, charts_of)

    def __repr__(self) -> str:
        names = ", ".join(c.name for c in self.asked.columns)
        return f"Description({names}; by={self.asked.by!r}, records={self.records})"

    # ---- what the rows are made of
    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes.of(self.asked.statistic, self.total, self.noise, self.records)

    @cached_property
    def _cells(self) -> list[list[Cells]]:
        return agreeing(self.asked.statistic, self.total, self.noise, self._sizes)

    def _shown(self, cells: list[Cells]) -> list[Cells]:
        """Of each group and of all; one group is all."""
        return cells if len(self.asked.groups) > 1 else cells[:1]

    def _whole(self, k: int) -> list[np.ndarray[Any, Any]]:
        """Whole counts of a column: of each group, and of all."""
        own = [
            whole_counts(cells.counts, size)
            for cells, size in zip(self._cells[k], self.sizes, strict=False)
        ]
        return own if len(own) == 1 else [*own, np.sum(own, axis=0)]

    def _records(self) -> TableRow:
        sizes, z = self._sizes, intervals.quantile(self.level)
        total, found = float(sum(self.sizes)), []
        for value, exact in zip(self.sizes, sizes.each, strict=True):
            wide = z * math.sqrt(sizes.variance)
            noise = (sizes.variance, sizes.variance, sizes.variance_of_all)
            noise = (sizes.variance, 0.0, 0.0) if self.records is not None else noise
            share = intervals.share(exact, max(sizes.each.sum(), 1e-9), self.level, noise)
            found.append(_counted(value, exact - wide, exact + wide, share))
        if len(found) > 1:
            wide, whole = z * math.sqrt(sizes.variance_of_all), float(sizes.each.sum())
            found.append(_counted(total, whole - wide, whole + wide, None))
        return TableRow("", "records", tuple(found))

    def _level(self, k: int, j: int, whole: list[Any]) -> TableRow:
        """Counts of one level, -1 for what is missing, whose share is of all records."""
        column, found, details = self.asked.columns[k], [], []
        for cells, counts in zip(self._shown(self._cells[k]), whole, strict=True):
            part, among = np.zeros(len(counts)), np.ones(len(counts))
            part[j] = 1.0
            if j >= 0:
                among[-1] = 0.0
            share, count = cells.share(part, among, self.level), cells.count(part, self.level)
            found.append(_counted(counts[j], count.low, count.high, share))
            p = float(share.value)
            n = max(float(among @ cells.counts), 1e-9)
            error = (share.high - share.low) / (2 * intervals.quantile(self.level))
            spread = p * (1 - p)
            details.append((p, error if n > 1 else math.inf, spread, abs(1 - 2 * p) * error))
        name = "missing" if j < 0 else column.levels[j]
        return TableRow(column.name, name, tuple(found), self._differences(details))

    def _numbers(self, k: int, column: AskedColumn) -> list[TableRow]:
        sums = self.asked.statistic.parts(self.total)[f"{k} moments"]
        noise = (self.noise / self.asked.statistic.scales[f"{k} moments"]) ** 2
        edges = np.array([0.0, *column.edges, 1.0])
        middles = (edges[1:] + edges[:-1]) / 2
        shown, reach = self._shown(self._cells[k]), column.high - column.low
        rows = [*sums, sums.sum(axis=0)][: len(shown)]
        variances = [noise] * len(self.asked.groups) + [noise * len(self.asked.groups)]
        moments = [
            Moments.of(row, v, cells, middles, self.level)
            for row, v, cells in zip(rows, variances, shown, strict=False)
        ]

        def places(found: list[Estimate]) -> tuple[TableCell, ...]:
            return tuple(
                _measured(column.values(e), not (e.low <= 0 and e.high >= 1)) for e in found
            )

        details = [
            (float(m.mean.value), m.mean_error, m.variance, m.variance_error) for m in moments
        ]
        means = places([m.mean for m in moments])
        made = [TableRow(column.name, "mean", means, self._differences(details))]
        deviations = [m.deviation(self.level) for m in moments]
        cells = tuple(
            _measured([reach * float(x) for x in e], not (e.low <= 0 and e.high >= 0.5))
            for e in deviations
        )
        made.append(TableRow(column.name, "deviation", cells))
        for q in self.asked.quantiles if column.edges else ():
            found = [quantile_of(cells, edges, q, self.level) for cells in shown]
            made.append(TableRow(column.name, f"quantile {q:g}", places(found)))
        return made

    def _differences(
        self, details: list[tuple[float, float, float, float]]
    ) -> tuple[Estimate, ...]:
        """Of each further declared group from the first; the group of missing values has none."""
        count = len(self.asked.groups) - 1
        return tuple(difference(details[g], details[0], self.level) for g in range(1, count))


def _measured(ends: list[float], known: bool) -> TableCell:
    value, low, high = ends
    return TableCell(value, low, high, known=known)


def _counted(value: Any, low: float, high: float, share: Estimate | None) -> TableCell:
    """A count whose interval has whole ends around it."""
    ends = max(math.floor(low + 1e-6), 0), max(math.ceil(high - 1e-6), 0)
    plain = None if share is None else Estimate(*(float(x) for x in share))
    known = plain is None or not (plain.low <= 0 and plain.high >= 1)
    return TableCell(int(value), min(ends[0], int(value)), max(ends[1], int(value)), plain, known)


def _plain(row: TableRow) -> dict[str, Any]:
    cells = [
        {**asdict(cell), "share": None if cell.share is None else cell.share._asdict()}
        for cell in row.cells
    ]
    return {
        "column": row.column,
        "what": row.what,
        "cells": cells,
        "differences": [
            {k: v if math.isfinite(v) else None for k, v in one._asdict().items()}
            for one in row.differences
        ],
    }
