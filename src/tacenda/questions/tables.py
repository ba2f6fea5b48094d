"""`TableSums`: what a table that describes records is computed from, as one statistic.

A record is in one group and in one cell of each column. Its vector has, at its group's place,

    a column of levels      1 in the cell of its level, or in that of a missing value
    a column of numbers     1 in the bin of u, or in the cell of a missing value; u and 4u(1 - u)

where u, from 0 to 1, is the number's place between its declared bounds. The second moment follows
from u and 4u(1 - u), whose noise enters a variance divided by 4. Nothing is below 0. The parts are
multiplied by public scales whose squares add up to 1, so one noise of one size serves all.

A row holds the group and the columns, each as a number from -1 to 1, divided by the root of how
many there are, so that no row has a norm above 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from tacenda import checks
from tacenda._types import Array, Flags, Floats, Ints
from tacenda.errors import InputError
from tacenda.questions.counts import balanced
from tacenda.questions.statistics import Records, Statistic, register

GROUPS = "groups"  # the part with the size of each group
# The largest |(u, 4u(1 - u))| is 1.13409, at u = 0.573
MOMENTS_NORM = 1.1342
MOMENTS_NEED = 2.0  # places between bounds differ about half as much as shares do
MISSING = -1.0  # of a number, in a row


class ColumnCells(NamedTuple):
    """How one column is counted.

    Parameters
    ----------
    levels : int
        Number of levels; 0 for a number.
    edges : tuple of float
        Of a number's bins, rising, inside 0 and 1.
    moments : bool
        Whether u and 4u(1 - u) are added up.
    weight : float
        Which share of the budget the column asks for, beside the others.

    Examples
    --------
    >>> from tacenda.questions.tables import ColumnCells
    >>> ColumnCells(0, (0.25, 0.5, 0.75), True, 1.0).cells
    5
    """

    levels: int
    edges: tuple[float, ...]
    moments: bool
    weight: float

    @property
    def cells(self) -> int:
        """Number of cells of a group, the last one for missing values."""
        return self.levels + 1 if self.levels else len(self.edges) + 2


@register
@dataclass(frozen=True)
class TableSums(Statistic):
    """Counts and sums of every column of a table, by group.

    Parameters
    ----------
    groups : int
        Number of groups.
    columns : tuple of ColumnCells
        How each column is counted.

    Examples
    --------
    >>> from tacenda.questions.tables import ColumnCells, TableSums
    >>> asked = TableSums(2, (ColumnCells(3, (), False, 1.0), ColumnCells(0, (0.5,), True, 1.0)))
    >>> asked.length, sorted(asked.shapes)
    (20, ['0', '1', '1 moments', 'groups'])
    """

    name: ClassVar[str] = "table-sums"
    kinds: ClassVar[tuple[str, ...]] = ("regression",)

    groups: int
    columns: tuple[ColumnCells, ...]

    def __post_init__(self) -> None:
        checks.whole("groups", self.groups, least=1)
        found = tuple(ColumnCells(*column) for column in self.columns)
        if not found:
            raise InputError("columns must name at least one column.")
        for k, one in enumerate(found):
            edges = np.array([0.0, *one.edges, 1.0])
            checks.whole(f"columns[{k}].levels", one.levels)
            checks.positive(f"columns[{k}].weight", one.weight)
            if not np.all(np.diff(edges) > 0) or (one.levels and (one.edges or one.moments)):
                raise InputError(
                    f"columns[{k}] must have either levels, or rising edges inside 0 and 1, "
                    f"not {one}."
                )
        object.__setattr__(self, "columns", found)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of each part, in the order of the vector."""
        found = {GROUPS: (1, self.groups)} if self.groups > 1 else {}
        for k, one in enumerate(self.columns):
            found[str(k)] = (self.groups, one.cells)
            if one.moments:
                found[f"{k} moments"] = (self.groups, 2)
        return found

    @cached_property
    def scales(self) -> dict[str, float]:
        """Each part's public factor; their squares, for moments times MOMENTS_NORM^2, add up to 1.

        A part's share of the budget is in proportion to the noise that its numbers collect: a level
        is one cell, while half of the bins are added up for a quantile.
        """
        need = {GROUPS: 1.0} if self.groups > 1 else {}
        for k, one in enumerate(self.columns):
            need[str(k)] = one.weight * max(1.0, math.sqrt(len(one.edges)) / 2)
            if one.moments:
                need[f"{k} moments"] = one.weight * MOMENTS_NEED
        found = balanced(need)
        return {k: v / (MOMENTS_NORM if "moments" in k else 1.0) for k, v in found.items()}

    @property
    def length(self) -> int:
        return sum(rows * columns for rows, columns in self.shapes.values())

    @property
    def norm(self) -> float:
        return 1.0

    @property
    def non_negative(self) -> bool:
        return True

    def check(self, n_features: int, n_outputs: int, kind: str) -> None:
        super().check(n_features, n_outputs, kind)
        if n_features != len(self.columns) + 1:
            raise InputError(
                f"columns must hold one less than a record has numbers, {n_features - 1}, "
                f"not {len(self.columns)}."
            )

    def parts(self, total: Array) -> dict[str, Floats]:
        """Take a released sum (length,) apart, each part in its own units."""
        found, first = {}, 0
        for name, shape in self.shapes.items():
            last = first + math.prod(shape)
            values = np.asarray(total[first:last], float).reshape(shape)
            found[name] = values / self.scales[name]
            first = last
        return found

    def vectors(self, records: Records, model: Floats) -> Array:
        rows = records.dense * math.sqrt(len(self.columns) + 1)
        found = np.zeros((len(rows), self.length))
        group = self._codes(rows[:, 0], self.groups)
        everyone, first = np.arange(len(rows)), 0
        for name, (count, cells) in self.shapes.items():
            scale = self.scales[name]
            if name == GROUPS:
                found[everyone, first + group] = scale
            else:
                value = rows[:, 1 + int(name.split()[0])]
                one = self.columns[int(name.split()[0])]
                at = first + group * cells
                if "moments" in name:
                    there = value >= 0
                    u = np.where(there, np.clip(value, 0.0, 1.0), 0.0)
                    found[everyone, at] = scale * u
                    found[everyone, at + 1] = scale * 4 * u * (1 - u)
                else:
                    found[everyone, at + self._cells(one, value)] = scale
            first += count * cells
        return found

    def _cells(self, one: ColumnCells, value: Floats) -> Ints:
        if one.levels:
            return self._codes(value, one.cells)
        inside = np.searchsorted(np.array(one.edges), value, side="right")
        return np.where(value < 0, one.cells - 1, inside)

    @staticmethod
    def _codes(value: Floats, count: int) -> Ints:
        """Codes from 0 to count - 1 of what `rows_of` made of them."""
        found = np.rint(np.nan_to_num(value) * max(count - 1, 1))
        return np.clip(found, 0, count - 1).astype(np.int64)


@register
@dataclass(frozen=True)
class Tables(Statistic):
    """Several tables in one vector, each with a share of the budget.

    Its rows are those of the tables side by side, over the root of their number: the records'
    own, or those `beside` them where they are trained on. A row that is not finite counts nowhere.

    Parameters
    ----------
    parts : tuple of (int, tuple of ColumnCells, float)
        Groups, columns and share of each table.

    Examples
    --------
    >>> from tacenda.questions.tables import ColumnCells, Tables
    >>> Tables(((1, (ColumnCells(3, (), False, 1.0),), 0.5),)).length
    4
    """

    name: ClassVar[str] = "tables"
    beside: ClassVar[bool] = True

    parts: tuple[tuple[int, tuple[ColumnCells, ...], float], ...]

    def __post_init__(self) -> None:
        for k, (_, _, share) in enumerate(self.parts):
            checks.positive(f"parts[{k}] share", share)
        if not self.parts or not self.sums:
            raise InputError("parts must hold at least one table.")

    @cached_property
    def sums(self) -> tuple[TableSums, ...]:
        """The tables."""
        return tuple(TableSums(groups, columns) for groups, columns, _ in self.parts)

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """By how much each table is multiplied; their squares add up to 1."""
        total = sum(share for *_, share in self.parts)
        return tuple(math.sqrt(share / total) * (1 - 1e-12) for *_, share in self.parts)

    @property
    def width(self) -> int:
        """Length of a row."""
        return sum(len(one.columns) + 1 for one in self.sums)

    @property
    def length(self) -> int:
        return sum(one.length for one in self.sums)

    @property
    def norm(self) -> float:
        return 1.0

    @property
    def non_negative(self) -> bool:
        return True

    def apart(self, total: Array, noise: float) -> list[tuple[Floats, float]]:
        """Sum and noise of each table, from those of the whole vector."""
        ends = np.cumsum([one.length for one in self.sums])
        pieces = np.split(np.asarray(total, float), ends[:-1])
        return [(p / scale, noise / scale) for p, scale in zip(pieces, self.scales, strict=True)]

    def together(self, rows: list[Floats]) -> Floats:
        """The rows (n, width) of all tables, from those of each."""
        return np.hstack(rows) / math.sqrt(len(rows)) / (1 + 1e-12)

    def vectors(self, records: Records, model: Floats) -> Array:
        rows = records.dense if records.beside is None else records.beside
        if rows.shape[1] != self.width:
            raise InputError(f"records must have {self.width} numbers, not {rows.shape[1]}.")
        blank: Flags = ~np.asarray(np.isfinite(rows).all(axis=1))
        rows = np.where(blank[:, None], 0.0, rows) * math.sqrt(len(self.sums))
        ends = np.cumsum([len(one.columns) + 1 for one in self.sums])
        found = [
            scale * one.vectors(replace(records, rows=part), model)
            for one, scale, part in zip(
                self.sums, self.scales, np.split(rows, ends[:-1], axis=1), strict=True
            )
        ]
        whole = np.hstack(found)
        whole[blank] = 0.0
        return whole


def rows_of(statistic: TableSums, group: Ints, values: list[Array]) -> Floats:
    """Make rows (n, 1 + columns) for `TableSums`.

    Parameters
    ----------
    statistic : TableSums
        What is asked.
    group : ndarray of int
        Each record's group, from 0.
    values : list of ndarray
        Of each column the level's number, or -1; or the place u from 0 to 1, or NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.questions.tables import ColumnCells, TableSums, rows_of
    >>> asked = TableSums(1, (ColumnCells(0, (), True, 1.0),))
    >>> rows_of(asked, np.zeros(2, int), [np.array([0.5, np.nan])]).shape
    (2, 2)
    """
    found = np.empty((len(group), 1 + len(values)))
    found[:, 0] = group / max(statistic.groups - 1, 1)
    for k, (one, value) in enumerate(zip(statistic.columns, values, strict=True), start=1):
        if one.levels:
            found[:, k] = np.where(value < 0, one.levels, value) / one.levels
        else:
            found[:, k] = np.where(np.isnan(value), MISSING, np.clip(value, 0.0, 1.0))
    return found / (math.sqrt(found.shape[1]) * (1 + 1e-12))
