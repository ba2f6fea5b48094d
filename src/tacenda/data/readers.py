"""Files into tables: CSV with the standard library, Parquet, SQL and big CSV through DuckDB (extra
`data`).

No message quotes a cell: a private value must not reach a log through an error.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from tacenda._types import Ints
from tacenda.data.libsvm import existing, open_binary
from tacenda.data.table import CHUNK_CELLS, CHUNK_ROWS, Table
from tacenda.errors import InputError

# A CSV above this size goes through DuckDB when it is installed.
BIG_CSV = 200 * 2**20
_SQL = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)
_PARQUET = (".parquet", ".pq")
_SHEET = (
    "an Excel or LibreOffice workbook",
    "save the sheet as CSV (in the program: Save as, 'CSV UTF-8'), and give that file",
)
_QUERY = "give the query \"SELECT * FROM '{}'\" instead (needs tacenda[data])"
# What other files are, by their ending, and what to do with them.
_OTHERS = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), _SHEET),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), ("a JSON file", _QUERY)),
    ".zip": ("a ZIP archive", "unpack it, and give the CSV or Parquet file inside"),
    **dict.fromkeys(
        (".sav", ".dta", ".sas7bdat", ".rds", ".rdata", ".feather", ".arrow", ".pkl", ".h5"),
        ("a file of another program", "export it as CSV or Parquet"),
    ),
}
# The first bytes of the same files under other names.
_MAGIC = {
    b"PK\x03\x04": ("a workbook or ZIP archive", _SHEET[1]),
    b"\xd0\xcf\x11\xe0": _SHEET,
    b"PAR1": ("a Parquet file", "rename it so that it ends in .parquet"),
}


def read_table(
    source: str | Path, *, database: str | Path | None = None, names: Sequence[str] | None = None
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

    Returns
    -------
    Table
        The table.

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
    from tacenda.data.duck import read_csv, read_parquet, read_sql, usable

    if isinstance(source, str) and _SQL.match(source):
        return read_sql(source, database)
    if database is not None:
        raise InputError(
            "database is only used with an SQL query (SELECT ...); give the query as the source."
        )
    path = existing(source)
    if path.suffix.lower() in _PARQUET:
        return read_parquet(path)
    if names is None and path.stat().st_size > BIG_CSV and usable():
        return read_csv(path, _header(path))
    return joined(list(iter_csv(path, names=names)))


def iter_tables(
    source: str | Path,
    *,
    rows: int | None = CHUNK_ROWS,
    names: Collection[str] | None = None,
    only: Ints | None = None,
) -> Iterator[Table]:
    """The same, a bounded number of records at a time, so that a file may be larger than memory.

    rows: at most so many records in a table; None takes as many as stay small in memory. names: the
    columns that are wanted, of those that there are. only: rising positions of the records that are
    wanted; the tables hold no others, and reading ends after the last.
    """
    from tacenda.data.duck import iter_parquet, iter_rows

    if isinstance(source, str) and _SQL.match(source):
        tables = iter_rows(source, [], "query", rows)
    elif Path(source).suffix.lower() in _PARQUET:
        tables = iter_parquet(existing(source), rows, names)
    else:
        yield from iter_csv(existing(source), rows=rows, columns=names, only=only)
        return
    yield from chosen(tables, names, only)


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


def _refuse_other_kinds(path: Path) -> None:
    """One sentence for a file that is not CSV: what it is, and what to do."""
    found = _OTHERS.get(path.suffix.lower())
    if found is None:
        with path.open("rb") as stream:
            start = stream.read(4)
        found = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    if found is not None:
        what, remedy = found
        raise InputError(
            f"{path.name} must be a CSV or Parquet file, but is {what}; {remedy.format(path)}."
        )


def iter_csv(
    path: Path,
    *,
    names: Sequence[str] | None = None,
    rows: int | None = CHUNK_ROWS,
    columns: Collection[str] | None = None,
    only: Ints | None = None,
) -> Iterator[Table]:
    """Tables of at most `rows` records. Lines are UTF-8 (a byte-order mark is fine);
    blank lines are skipped. names: of the columns, where there is no header line; columns, only:
    which of them, and which records, are wanted (see `iter_tables`)."""
    _refuse_other_kinds(path)
    with _text(path) as stream:
        reader = _reader(stream)
        lines = _filled(reader, path)
        header = list(names) if names is not None else _checked_header(next(lines, None), path)
        rows = max(1, CHUNK_CELLS // len(header)) if rows is None else rows
        wanted = [k for k, name in enumerate(header) if columns is None or name in columns]
        done = 0
        for block in _blocks(reader, rows, len(header), path):
            here: Any = range(len(block))
            if only is not None:
                first, last = np.searchsorted(only, (done, done + len(block)))
                here = only[first:last] - done
            if len(here):
                cells = block if only is None else [block[k] for k in here.tolist()]
                numbers = None if only is None else done + 1 + here
                yield Table(_by_column(header, wanted, cells), done + 1, path.name, numbers)
            done += len(block)
            if only is not None and last == len(only):
                return
        if not done:
            raise InputError(
                f"{path.name} holds a header but no records; export it again with its rows."
            )


def joined(tables: list[Table]) -> Table:
    """One table from consecutive chunks, all of which have the numbers of their records or none."""
    if len(tables) == 1:
        return tables[0]
    first, names = tables[0], tables[0].columns
    columns = {n: np.concatenate([t.columns[n] for t in tables]) for n in names}
    if first.numbers is None:
        return Table(columns, first.first_row, first.source)
    numbers = np.concatenate([t.numbers for t in tables if t.numbers is not None])
    return Table(columns, 1, first.source, numbers)


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    with (
        open_binary(path) as binary,
        io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as stream,
    ):
        try:
            yield stream
        except UnicodeDecodeError:
            raise InputError(
                f"{path.name} must be UTF-8 text, but it holds bytes of another encoding; "
                "save it as UTF-8 (for instance: iconv -f latin1 -t utf-8)."
            ) from None
        except (gzip.BadGzipFile, EOFError):
            raise InputError(
                f"{path.name} is not a whole gzip file; fetch or pack it again."
            ) from None


def _reader(stream: IO[str]) -> Any:
    first = stream.readline()
    return csv.reader(
        chain([first], stream), delimiter=_delimiter(first), skipinitialspace=True, strict=True
    )


def _delimiter(header: str) -> str:
    """The most frequent of the usual separators in the header line."""
    return max(",;\t|", key=header.count)


def _filled(reader: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every line that is not blank."""
    with _well_formed(reader, path):
        for fields in reader:
            if any(fields):
                yield reader.line_num, fields


def _blocks(reader: Any, rows: int, width: int, path: Path) -> Iterator[list[list[str]]]:
    """The fields of the records that are left, in blocks of at most `rows`."""
    while True:
        with _well_formed(reader, path):
            block = list(islice(reader, rows))
        if not block:
            return
        found = [fields for fields in block if any(fields)]
        if found and set(map(len, found)) != {width}:
            _refuse_ragged(width, path)
        if found:
            yield found


@contextmanager
def _well_formed(reader: Any, path: Path) -> Iterator[None]:
    try:
        yield
    except csv.Error:
        raise InputError(
            f"{path.name} is not well-formed CSV near line {reader.line_num}: "
            "look for a stray or unclosed quote there."
        ) from None


def _header(path: Path) -> list[str]:
    with _text(path) as stream:
        first = stream.readline()
        return _checked_header(
            (1, next(csv.reader([first], delimiter=_delimiter(first), skipinitialspace=True))), path
        )


def _checked_header(line: tuple[int, list[str]] | None, path: Path) -> list[str]:
    if line is None:
        raise InputError(f"{path.name} holds no header line; its first line must name the columns.")
    names = [name.strip() for name in line[1]]
    if not all(names):
        raise InputError(
            f"column {names.index('') + 1} of {path.name} has no name in the header line; name it."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"the header of {path.name} names {twice!r} twice; column names must be distinct."
        )
    return names


def _refuse_ragged(width: int, path: Path) -> None:
    """Reads the file again, to name the first line with another number of fields."""
    with _text(path) as stream:
        for line, fields in _filled(_reader(stream), path):
            if len(fields) != width:
                raise InputError(
                    f"line {line} of {path.name} has {len(fields)} fields where the header has "
                    f"{width}; look for a missing or unquoted separator."
                )


def _by_column(header: list[str], wanted: list[int], block: list[list[str]]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for k in wanted:
        columns[header[k]] = np.empty(len(block), dtype=object)
        columns[header[k]][:] = [fields[k] for fields in block]
    return columns
