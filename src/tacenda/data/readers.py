"""Files into tables: CSV by compiled loops, Parquet and SQL through DuckDB (extra `data`).

Python's `csv` decides what a CSV file means. It reads small files, and of others whatever the
compiled loops find unusual, so that a file gives the same table either way.

No message quotes a cell: a private value must not reach a log through an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tacenda._types import Ints
from tacenda.data import csv_files
from tacenda.data.coded import Coded
from tacenda.data.csv_files import header_of, iter_csv, refuse_other_kinds, unpacked_size
from tacenda.data.duck import column_names_of, iter_parquet, iter_rows, read_parquet, read_sql
from tacenda.data.libsvm import existing
from tacenda.data.table import CHUNK_ROWS, Table, cut
from tacenda.data.table_cache import Place
from tacenda.errors import InputError

_SQL = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)
_PARQUET = (".parquet", ".pq")


def read_table(
    source: str | Path,
    *,
    database: str | Path | None = None,
    names: Sequence[str] | None = None,
    ragged: Literal["error", "blank"] = "error",
) -> Table:
    r"""Read a whole table from a CSV file (plain or .gz), a Parquet file, or an SQL query.

    Parameters
    ----------
    source : str or Path
        A file, or a text that starts with SELECT, WITH or FROM: a query, over `database` when
        given, and over files by their quoted path.
    database : str, Path or None, default=None
        A DuckDB file.
    names : sequence of str or None, default=None
        Columns of a CSV without a header line.
    ragged : {"error", "blank"}, default="error"
        What a line of a CSV with another number of fields than the header is: an error, or a
        record without any value.

    Raises
    ------
    InputError
        If the file is missing or not readable; no message quotes a cell.

    Examples
    --------
    >>> import os, tempfile
    >>> import tacenda as tc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "people.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("age,ill\n30,no\n50,yes\n")
    ...     table = tc.data.read_table(path)
    >>> sorted(table.columns), len(table)
    (['age', 'ill'], 2)
    """
    if isinstance(source, str) and _SQL.match(source):
        return read_sql(source, database)
    if database is not None:
        raise InputError(
            "database is only used with an SQL query (SELECT ...); give the query as the source."
        )
    path = existing(source)
    if path.suffix.lower() in _PARQUET:
        return read_parquet(path)
    if names is not None:
        return joined(list(iter_csv(path, names=names, ragged=ragged)))
    return joined(list(_csv_tables(path, CHUNK_ROWS, None, None, ragged)))


def _csv_tables(
    path: Path, rows: int | None, names: Collection[str] | None, only: Ints | None, ragged: str
) -> Iterator[Table]:
    """A CSV file in tables (`iter_tables`), from a private copy where one is kept; a whole reading
    leaves one."""
    size = unpacked_size(path)
    place = Place.of(path, size) if size >= csv_files.SMALL_CSV else None
    copy = None if place is None else place.load()
    if copy is not None:
        yield from chosen(cut(copy, rows), names, only)
        return
    # A copy is of a file without ragged lines, so it serves every reading
    whole = place is not None and names is None and only is None and ragged == "error"
    tables = []
    for table in iter_csv(path, rows=rows, columns=names, only=only, ragged=ragged):
        if whole:
            tables.append(table)
        yield table
    if place is not None and whole:
        place.store(joined(tables))


def source_name(source: str | Path) -> str:
    """How messages name a file or a query."""
    return "query" if isinstance(source, str) and _SQL.match(source) else Path(source).name


def column_names(source: str | Path) -> list[str]:
    """Read the names of a table's columns, and no record."""
    if isinstance(source, str) and _SQL.match(source):
        return column_names_of(source, [], "query")
    path = existing(source)
    if path.suffix.lower() in _PARQUET:
        return column_names_of("SELECT * FROM read_parquet(?)", [str(path)], path.name)
    refuse_other_kinds(path)
    return header_of(path, None)[0]


def iter_tables(
    source: str | Path,
    *,
    rows: int | None = CHUNK_ROWS,
    names: Collection[str] | None = None,
    only: Ints | None = None,
    ragged: Literal["error", "blank"] = "error",
) -> Iterator[Table]:
    """The same, a bounded number of records at a time, so that a file may be larger than memory.

    rows: at most so many records in a table; None takes as many as stay small in memory. names: the
    columns that are wanted, of those that there are. only: rising positions of the records that are
    wanted; the tables hold no others, and reading ends after the last.
    """
    if isinstance(source, str) and _SQL.match(source):
        tables = iter_rows(source, [], "query", rows)
    elif Path(source).suffix.lower() in _PARQUET:
        tables = iter_parquet(existing(source), rows, names)
    else:
        yield from _csv_tables(existing(source), rows, names, only, ragged)
        return
    yield from chosen(tables, names, only)


def pieces(
    table: Any,
    *,
    rows: int | None = CHUNK_ROWS,
    names: Collection[str] | None = None,
    only: Ints | None = None,
) -> Iterable[Table]:
    """A file, query or frame as tables, of the columns and records that are wanted
    (see `iter_tables`)."""
    if isinstance(table, str | Path):
        return iter_tables(table, rows=rows, names=names, only=only)
    return chosen([Table.of(table)], names, only)


def chosen(
    tables: Iterable[Table], names: Collection[str] | None, only: Ints | None
) -> Iterator[Table]:
    """The columns and records that are wanted of consecutive tables (see `iter_tables`)."""
    done = 0
    for table in tables:
        if only is None:
            yield table.part(names)
            continue
        first, last = np.searchsorted(only, (done, done + len(table)))
        if last > first:
            yield table.part(names, only[first:last] - done)
        done += len(table)
        if last == len(only):
            return


def joined(tables: list[Table]) -> Table:
    """One table from consecutive chunks, all of which have the numbers of their records or none."""
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    columns = {name: _end_to_end([t.columns[name] for t in tables]) for name in first.columns}
    if first.numbers is None:
        return Table(columns, first.first_row, first.source)
    numbers = np.concatenate([t.numbers for t in tables if t.numbers is not None])
    return Table(columns, 1, first.source, numbers)


def _end_to_end(columns: list[Any]) -> Any:
    if all(isinstance(column, Coded) for column in columns):
        return Coded.joined(columns)
    return np.concatenate(columns)
