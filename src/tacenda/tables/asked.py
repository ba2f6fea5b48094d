"""What a table asks of the records, from a schema alone, and the rows that answer it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats, Ints
from tacenda.data.cells import level_places, readable_numbers
from tacenda.data.columns import CategoricalColumn, NumericColumn
from tacenda.data.dates import Order
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError
from tacenda.questions.tables import ColumnCells, TableSums, rows_of

BINS = 20
QUANTILES = (0.25, 0.5, 0.75)
NO_GROUP = "missing"
EVERYONE = "all"


@dataclass(frozen=True)
class AskedColumn:
    """One column of a table: levels, or a number between bounds.

    Parameters
    ----------
    name : str
        Name of the column.
    levels : tuple of str, default=()
        Its levels; none for a number.
    low : float, default=0.0
        Lower bound of a number.
    high : float, default=1.0
        Upper bound.
    edges : tuple of float, default=()
        Of the bins of its place between the bounds, from which quantiles are read.
    date : {"ymd", "dmy", "mdy"} or None, default=None
        Order of dates, read as years.

    Examples
    --------
    >>> from tacenda.tables import AskedColumn
    >>> AskedColumn("age", low=0.0, high=100.0, edges=(0.5,)).values((0.25, 0.75))
    [25.0, 75.0]
    """

    name: str
    levels: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    edges: tuple[float, ...] = ()
    date: Order | None = None

    def values(self, places: Any) -> list[float]:
        """Return numbers in the column's own unit.

        places: numbers from 0 to 1.
        """
        return [self.low + (self.high - self.low) * float(u) for u in places]


@dataclass(frozen=True)
class Asked:
    """What a table asks: columns, groups, quantiles and each column's share of the budget.

    Parameters
    ----------
    columns : tuple of AskedColumn
        The columns.
    by : str or None
        The column that divides the records.
    groups : tuple of str
        Its levels, and "missing"; or "all".
    quantiles : tuple of float
        Quantiles of numbers.
    weights : tuple of float
        Each column's share of the budget, beside the others.

    Examples
    --------
    >>> import tacenda as tc
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "numeric", "name": "age", "low": 0, "high": 100}],
    ...     label={"name": "ill", "classes": ["no", "yes"]},
    ... )
    >>> tc.tables.Asked.of(schema, by="ill").groups
    ('no', 'yes', 'missing')
    """

    columns: tuple[AskedColumn, ...]
    by: str | None
    groups: tuple[str, ...]
    quantiles: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(
        cls,
        schema: Schema,
        by: str | None = None,
        columns: Sequence[str] | None = None,
        quantiles: Sequence[float] = QUANTILES,
        bins: int = BINS,
        weights: Mapping[str, float] | None = None,
    ) -> Asked:
        """Decide what is asked, from public values alone.

        schema: bounds and levels. by: a column with levels. columns: names, None for all. quantiles
        and bins: of numbers. weights: of the budget, by column; 1 where none is given.
        """
        wanted = tuple(checks.between("quantiles", q, 0.0, 1.0) for q in quantiles)
        checks.whole("bins", bins, least=2)
        parts = [*schema.columns, *([] if schema.label.survival else [schema.label])]
        known = {part.name: _column(part, bins, wanted) for part in parts}
        groups: tuple[str, ...] = (EVERYONE,)
        if by is not None:
            groups = (*levels_of(schema, by), NO_GROUP)
        names = [n for n in known if n != by] if columns is None else list(columns)
        given = dict(weights or {})
        for name in (*names, *given):
            checks.one_of("columns", name, list(known))
        if not names or len(set(names)) < len(names) or by in names:
            raise InputError(
                f"columns must name distinct columns other than by ({by!r}), not {names}."
            )
        shares = tuple(checks.positive("weights", given.get(name, 1.0)) for name in names)
        return cls(tuple(known[name] for name in names), by, groups, wanted, shares)

    @property
    def statistic(self) -> TableSums:
        """The question to each record."""
        return TableSums(
            len(self.groups),
            tuple(
                ColumnCells(len(c.levels), c.edges, not c.levels, w)
                for c, w in zip(self.columns, self.weights, strict=True)
            ),
        )

    def without(self, names: Sequence[str]) -> Asked:
        """Ask less.

        names: columns to leave out.
        """
        kept = [
            (c, w) for c, w in zip(self.columns, self.weights, strict=True) if c.name not in names
        ]
        columns, weights = (tuple(part) for part in zip(*kept, strict=True))
        return Asked(columns, self.by, self.groups, self.quantiles, weights)

    def rows(self, schema: Schema, table: Table) -> Floats:
        """Make each record's row; none is refused.

        What cannot be read, and levels that are not declared, count as missing.
        schema: what counts as missing. table: the records.
        """
        values: list[Array] = []
        for c in self.columns:
            if c.levels:
                values.append(level_places(schema, c.name, c.levels, table))
            else:
                numbers = readable_numbers(schema, c.name, table, c.date)
                values.append((np.clip(numbers, c.low, c.high) - c.low) / (c.high - c.low))
        group: Ints = np.zeros(len(table), np.int64)
        if self.by is not None:
            group = group_places(schema, self.by, table)
        return rows_of(self.statistic, group, values)


def levels_of(schema: Schema, by: str) -> tuple[str, ...]:
    """Levels of a column, classes of the label, or the two values of a two-valued number."""
    found = {
        c.name: c.levels
        if isinstance(c, CategoricalColumn)
        else tuple(f"{x:g}" for x in _two_values(schema, c.name))
        for c in schema.columns
    }
    if schema.label.classes is not None and not schema.label.survival:
        found[schema.label.name] = schema.label.classes
    found = {name: levels for name, levels in found.items() if levels}
    if not found:
        raise InputError(
            f"by must be a column of levels, and schema {schema.name!r} has none; declare {by!r} "
            "as categorical, with its levels."
        )
    return found[checks.one_of("by", by, list(found))]


def group_places(schema: Schema, by: str, table: Table) -> Ints:
    """(n,) place of each record's group, the last one for those without."""
    levels = levels_of(schema, by)
    two = _two_values(schema, by)
    if two:
        numbers = readable_numbers(schema, by, table)
        places = np.select([numbers == two[0], numbers == two[1]], [0, 1], -1)
    else:
        places = level_places(schema, by, levels, table)
    return np.where(places < 0, len(levels), places)


def _two_values(schema: Schema, name: str) -> tuple[float, ...]:
    """Of a two-valued number; nothing of other columns."""
    for c in schema.columns:
        if c.name == name and isinstance(c, NumericColumn) and c.two_valued and c.date is None:
            return (c.low, c.high)
    return ()


def _column(part: Any, bins: int, quantiles: tuple[float, ...]) -> AskedColumn:
    if isinstance(part, CategoricalColumn):
        return AskedColumn(part.name, part.levels)
    if not isinstance(part, NumericColumn):
        if part.classes is not None:
            return AskedColumn(part.name, part.classes)
        assert part.low is not None and part.high is not None
    elif part.two_valued:
        return AskedColumn(part.name, (), part.low, part.high, (), part.date)
    steps = np.arange(1, bins) / bins
    if getattr(part, "transform", "clip") == "log1p":
        a, b = math.log1p(part.low), math.log1p(part.high)
        steps = (np.expm1(a + (b - a) * steps) - part.low) / (part.high - part.low)
    edges = tuple(float(e) for e in steps) if quantiles else ()
    return AskedColumn(
        part.name, (), float(part.low), float(part.high), edges, getattr(part, "date", None)
    )
