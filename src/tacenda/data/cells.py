"""What the cells of a table say under its schema: gaps, numbers, levels, and the label.

Messages name a column and a record, never a cell.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array, Flags, Floats, Ints
from tacenda.data import dates
from tacenda.data.coded import Coded, Entries, is_number
from tacenda.data.columns import CategoricalColumn, NumericColumn
from tacenda.data.label import Survival
from tacenda.data.readers import column_names, source_name
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError


def check_columns(schema: Schema, source: str | Path, *, label: bool = True) -> None:
    """Refuse a file without the schema's columns, by a look at its header; label: whether label,
    node and person are needed too."""
    require_columns(schema, column_names(source), source_name(source), label=label)


def require_columns(schema: Schema, columns: Collection[str], source: str, *, label: bool) -> None:
    wanted = [column.name for column in schema.columns] + (label_columns(schema) if label else [])
    if label and schema.node_column is not None:
        wanted.append(schema.node_column)
    if label and schema.person is not None:
        wanted.append(schema.person)
    absent = [name for name in wanted if name not in columns]
    if absent:
        found = ", ".join(map(repr, columns))
        raise InputError(
            f"{source} lacks the schema's columns {absent}, it has {found}; rename either."
        )


def missing_rows(schema: Schema, table: Table, *, label: bool, features: bool = True) -> Flags:
    """Records that lack a value which nothing in the schema stands in for."""
    missing = np.zeros(len(table), bool)
    for column in schema.columns if features else ():
        if not column.missing_indicator:
            missing |= _lacks(schema, column, table)
    if label:
        missing |= lacks_label(schema, table)
    if label and schema.node_column is not None:
        missing |= is_missing(schema, table.columns[schema.node_column])
    return missing


def gap_of(schema: Schema, table: Table, missing: Flags) -> str:
    """The column that the first of these records lacks."""
    first = table.part(records=np.flatnonzero(missing)[:1])
    for column in schema.columns:
        if not column.missing_indicator and _lacks(schema, column, first).any():
            return column.name
    return schema.label.name


def _lacks(schema: Schema, column: NumericColumn | CategoricalColumn, table: Table) -> Flags:
    return is_missing(schema, table.columns[column.name], isinstance(column, NumericColumn))


def lacks_label(schema: Schema, table: Table) -> Flags:
    label = schema.label
    if label.survival:
        return life_cells(schema.survival, schema, table) < 0
    return is_missing(schema, table.columns[label.name], label.classes is None)


def label_columns(schema: Schema) -> list[str]:
    """The columns that the label is read from."""
    if schema.label.survival and schema.survival is not None:
        return [schema.survival.event, schema.survival.time]
    return [schema.label.name]


def life_cells(asked: Survival | None, schema: Schema, table: Table) -> Ints:
    """(n,) each record's cell: the period of its event, or how many points it has reached without;
    -1 where its time or event is missing."""
    assert asked is not None
    time = readable_numbers(schema, asked.time, table)
    happened = level_places(schema, asked.event, asked.spellings, table) >= 0
    gone = missing_cells(schema, asked.event, table)
    points, count = np.array(asked.points), len(asked.points)
    period = np.searchsorted(points, time)  # in (points[k - 1], points[k]]
    reached = count + np.searchsorted(points, time, side="right")
    late = period == count  # after the last point: not seen by then
    cells = np.where(happened & ~late, period, np.where(late, 2 * count, reached))
    return np.where(np.isnan(time) | (time <= 0) | gone, -1, cells)


def is_missing(schema: Schema, cells: Any, number: bool = False) -> Flags:
    """Missing cells: gaps and nulls, and of a number also every way to write NaN."""
    if isinstance(cells, Coded):
        gaps = _gaps(schema, cells.entries, number)
        return gaps[cells.codes] if gaps.any() else np.zeros(len(cells), bool)
    if cells.dtype.kind != "f":
        return is_missing(schema, Coded.of(cells), number)
    nan: Flags = np.isnan(cells)
    marks = _marks(schema)
    return nan | np.isin(cells, marks) if marks else nan


def _gaps(schema: Schema, entries: Entries, number: bool) -> Flags:
    """(k,) entries that mean a missing cell."""
    words = {"", *schema.missing_values}
    found = np.zeros(len(entries), bool)
    look_at: Any = slice(None)
    if number:  # what reads as a number is looked at only where its value is one of the marks
        values, known = entries.numbers
        look_at = np.flatnonzero(~known | np.isnan(values) | np.isin(values, _marks(schema)))
    found[look_at] = [
        word in words or (number and word.lower() in _NOT_NUMBERS)
        for word in entries.stripped_at(look_at)
    ]
    return found


def _marks(schema: Schema) -> list[float]:
    """Numbers that mean a missing value."""
    return [float(word) for word in schema.missing_values if is_number(word)]


_NOT_NUMBERS = frozenset(("nan", "+nan", "-nan"))


def column_numbers(
    schema: Schema, column: NumericColumn, table: Table, keep: Flags
) -> tuple[Floats, Flags]:
    """(n,) kept numbers, missing ones as declared or NaN, and (n,) which were missing."""
    numbers, lacks, codes = coded_numbers(schema, column, table, keep)
    return (numbers, lacks) if codes is None else (numbers[codes], lacks[codes])


def level_places(schema: Schema, name: str, levels: tuple[str, ...], table: Table) -> Ints:
    """(n,) place of each cell among the levels, or -1 where it is missing or none of them."""
    cells = table.columns[name]
    found = places_in(Coded.of(cells), levels)
    found[is_missing(schema, cells)] = -1
    return found


def missing_cells(schema: Schema, name: str, table: Table) -> Flags:
    """(n,) which cells of a column are missing."""
    return is_missing(schema, table.columns[name])


def readable_numbers(
    schema: Schema, name: str, table: Table, order: dates.Order | None = None
) -> Floats:
    """(n,) numbers, NaN where a cell is missing or holds none; order: of dates, read as years."""
    cells = table.columns[name]
    if not isinstance(cells, Coded) and cells.dtype.kind == "f":
        return np.where(is_missing(schema, cells) | ~np.isfinite(cells), np.nan, cells)
    column = Coded.of(cells)
    values, known = read_entries(column.entries, order)
    good = known & ~_gaps(schema, column.entries, number=True)
    return np.where(good, values, np.nan)[column.codes]


def coded_numbers(
    schema: Schema, column: NumericColumn, table: Table, keep: Flags
) -> tuple[Floats, Flags, Ints | None]:
    """The same, of each code, and the kept records' codes; or of each record, and None."""
    cells = table.columns[column.name]
    numbers, codes = _numbers(schema, column.name, table, cells, keep, column.date)
    lacks: Flags = np.isnan(numbers)
    if column.impute is not None:
        numbers = np.where(lacks, column.impute, numbers)
    return numbers, lacks, codes


def _numbers(
    schema: Schema,
    name: str,
    table: Table,
    cells: Any,
    keep: Flags,
    order: dates.Order | None = None,
) -> tuple[Floats, Ints | None]:
    """Cells as float64, missing ones as NaN, of each code, and the kept records' codes; or of each
    kept record, and None. order: of dates, which become years."""
    if cells.dtype.kind == "f":
        found = cells[keep].astype(np.float64)
        found[is_missing(schema, cells)[keep]] = np.nan
        return found, None
    column = Coded.of(cells)
    values, known = read_entries(column.entries, order)
    gaps = _gaps(schema, column.entries, number=True)
    wrong = ~(known | gaps)
    if wrong.any() and (wrong := wrong[column.codes] & keep).any():
        if order is not None:
            raise InputError(
                f"column {name!r} must hold dates in the order {order!r} (year, month, day), but "
                f"record {first_of(table, wrong)} holds something else; correct it, declare "
                "another date in the schema, or add that text to missing_values."
            )
        raise InputError(
            f"column {name!r} must be numeric, but record {first_of(table, wrong)} holds other "
            "text; correct it, declare the column categorical, "
            "or add that text to missing_values."
        )
    return np.where(gaps, np.nan, values), column.codes[keep]


def unreadable(schema: Schema, cells: Any, order: dates.Order | None = None) -> Flags:
    """Cells that are neither missing nor a number, or a date in this order."""
    if not isinstance(cells, Coded) and cells.dtype.kind == "f":
        return np.zeros(len(cells), bool)
    column = Coded.of(cells)
    known = read_entries(column.entries, order)[1] | _gaps(schema, column.entries, number=True)
    return ~known[column.codes]


def read_entries(entries: Entries, order: dates.Order | None) -> tuple[Floats, Flags]:
    """(k,) entries as numbers, or dates as years, and which can be read."""
    return entries.numbers if order is None else entries.years(order)


def level_codes(schema: Schema, column: CategoricalColumn, cells: Any) -> Ints:
    """Position of each cell among the levels, -1 for what is none."""
    gaps, cells = is_missing(schema, cells), Coded.of(cells)
    codes = places_in(cells, column.levels)
    if column.missing_indicator:
        codes[gaps] = len(column.features) - 1
    else:
        codes[gaps] = -1 if column.impute is None else column.levels.index(column.impute)
    return codes


def kept_codes(
    schema: Schema, column: CategoricalColumn, table: Table, cells: Any, keep: Flags
) -> Ints:
    """Position of each kept cell among the levels;
    undeclared ones take the last place or are refused."""
    codes = level_codes(schema, column, cells)
    wrong = (codes < 0) & keep
    if wrong.any():
        if column.unknown != "column":
            raise InputError(
                f"column {column.name!r} of record {first_of(table, wrong)} holds a level that the "
                "schema does not declare; correct the record, add the level to the schema if it is "
                "public, or set unknown = 'column'."
            )
        codes[wrong] = len(column.levels)
    return codes[keep]


def label_values(schema: Schema, table: Table, keep: Flags) -> Array:
    label, cells = schema.label, table.columns[schema.label.name]
    if label.classes is None:
        values, own = _numbers(schema, label.name, table, cells, keep)
        numbers = values if own is None else values[own]
        centre, reach = label.centre_and_reach
        return (np.clip(numbers, label.low, label.high) - centre) / reach
    if label.survival:
        return life_cells(schema.survival, schema, table)[keep]
    codes = places_in(Coded.of(cells), label.classes)
    wrong = (codes < 0) & keep
    if wrong.any():
        raise InputError(
            f"label {label.name!r} of record {first_of(table, wrong)} is not one of the declared "
            f"classes {list(label.classes)}; add the class to the schema or correct the record."
        )
    return codes[keep]


def places_in(cells: Coded, known: tuple[str, ...]) -> Ints:
    """(n,) place of each cell in `known`, or -1."""
    place = {word: k for k, word in enumerate(known)}
    words = cells.entries.stripped
    found = np.fromiter((place.get(word, -1) for word in words), np.int64, count=len(words))
    return found[cells.codes]


def first_of(table: Table, rows: Flags) -> int:
    """The number of the first such record in its source, from 1."""
    return table.number(int(np.argmax(rows)))
