"""Parquet files and SQL through DuckDB, imported only here (extra `data`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Ints
from tacenda.data.coded import Coded, Entries
from tacenda.data.table import CHUNK_CELLS, Table, cut
from tacenda.errors import InputError

LARGEST_WHOLE = 2.0**53  # up to here a float holds every whole number
WHOLE_CELLS = 2**26  # of a Parquet file that is read at once, some hundred megabytes
# Types whose cells are the same whether a file is read at once or piece by piece
_NUMBERS = frozenset(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"))
_PLAIN = _NUMBERS | {"BOOLEAN", "VARCHAR", "TIMESTAMP"}


def usable() -> bool:
    """Whether DuckDB is installed."""
    return find_spec("duckdb") is not None


def read_parquet(path: Path) -> Table:
    """A Parquet file as a table with its own types."""
    return _run("SELECT * FROM read_parquet(?)", [str(path)], None, path.name)


def read_sql(query: str, database: str | Path | None) -> Table:
    """The result of a query, over a DuckDB database file (opened read-only)
    or over files that it names."""
    if database is not None and not Path(database).is_file():
        raise InputError(f"database must be a DuckDB file, but {str(database)!r} is not there.")
    return _run(query, [], database, "query")


def column_names_of(query: str, parameters: list[Any], source: str) -> list[str]:
    """The columns of a query's result, without running it."""
    return list(_types(query, parameters, source))


def _types(query: str, parameters: list[Any], source: str) -> dict[str, str]:
    """The type of each column."""
    with _connected(None, source) as connection:
        rows = connection.execute(f"DESCRIBE {query}", parameters).fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def iter_rows(query: str, parameters: list[Any], source: str, rows: int | None) -> Iterator[Table]:
    """The result of a query in tables of at most `rows` records, for results larger than memory;
    None takes as many as stay small."""
    with _connected(None, source) as connection:
        cursor = connection.execute(query, parameters)
        names = [column[0] for column in cursor.description]
        most = max(1, CHUNK_CELLS // len(names)) if rows is None else rows
        done = 0
        while block := cursor.fetchmany(most):
            cells = [_numeric(column) for column in zip(*block, strict=True)]
            columns = dict(zip(names, cells, strict=True))
            yield Table(Table.of(columns).columns, first_row=done + 1, source=source)
            done += len(block)
    if not done:
        raise InputError(f"{source} gives no records; check the file or the query's conditions.")


def iter_parquet(path: Path, rows: int | None, names: Collection[str] | None) -> Iterator[Table]:
    """A Parquet file in such tables, with the columns that are wanted of those that it has. Large
    ones, and unusual types, are read piece by piece, which takes several times as long."""
    query = "SELECT {} FROM read_parquet(?)"
    types, wanted = _types(query.format("*"), [str(path)], path.name), "*"
    if names is not None and (known := {k: v for k, v in types.items() if k in names}):
        types = known
        wanted = ", ".join(map(_quoted, known))
    with _connected(None, path.name) as connection:
        (count,) = connection.execute(query.format("count(*)"), [str(path)]).fetchone()
    if count * len(types) > WHOLE_CELLS or not _PLAIN.issuperset(types.values()):
        yield from iter_rows(query.format(wanted), [str(path)], path.name, rows)
    else:
        yield from cut(_whole(path, types), rows)


def _whole(path: Path, types: dict[str, str]) -> Table:
    """These columns of a Parquet file, texts as codes that DuckDB gives them: an object for each
    cell would take several times as long."""
    with _connected(None, path.name) as connection:
        connection.read_parquet(str(path)).create_view("source")
        shown, texts = [], dict[str, list[str]]()
        for k, (name, kind) in enumerate(types.items()):
            column = _quoted(name)
            if kind == "VARCHAR":
                words = f"SELECT DISTINCT {column} AS w FROM source WHERE {column} IS NOT NULL"
                texts[name] = list(connection.execute(f"{words} ORDER BY w").fetchnumpy()["w"])
                if texts[name]:
                    connection.execute(f"CREATE TYPE text{k} AS ENUM ({words} ORDER BY w)")
                    column = f"enum_code({column}::text{k}) AS {column}"
            shown.append(column)
        columns = connection.execute(f"SELECT {', '.join(shown)} FROM source").fetchnumpy()
    count = len(next(iter(columns.values())))
    if not count:
        raise InputError(f"{path.name} gives no records; check the file.")
    made = Table.of({k: _exact(v) for k, v in columns.items() if k not in texts}).columns
    for name, found in texts.items():
        none = len(found)  # the code of an empty cell
        codes: Ints = np.full(count, none, np.int32)
        if none:
            known = ~np.ma.getmaskarray(columns[name])
            codes[known] = np.asarray(columns[name])[known]
        made[name] = Coded(codes, Entries.of([*found, ""]))
    return Table({name: made[name] for name in types}, source=path.name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _numeric(cells: tuple[Any, ...]) -> Any:
    """A column of numbers as an array of floats, where these hold every one of them exactly: a text
    for each cell would take a hundred times as long. Nulls are NaN."""
    kinds = set(map(type, cells)) - {type(None)}
    if not kinds or not kinds <= {int, float}:
        return cells
    floats = np.array(cells, dtype=np.float64)
    whole = int in kinds and bool((np.abs(floats) >= LARGEST_WHOLE).any())
    return cells if whole else floats


def _exact(column: Any) -> Any:
    """Whole numbers that no float holds, and times, as objects with a text of their own."""
    kind = column.dtype.kind
    if kind == "M" or (kind in "iu" and bool((np.ma.abs(column) >= LARGEST_WHOLE).any())):
        return column.astype(object)
    return column


def _run(query: str, parameters: list[Any], database: str | Path | None, source: str) -> Table:
    with _connected(database, source) as connection:
        columns = connection.execute(query, parameters).fetchnumpy()
    table = Table.of({name: _exact(column) for name, column in columns.items()})
    if not len(table):
        raise InputError(f"{source} gives no records; check the file or the query's conditions.")
    return Table(table.columns, source=source)


@contextmanager
def _connected(database: str | Path | None, source: str) -> Iterator[Any]:
    """A connection whose errors are ours, in one sentence and without cells."""
    if not usable():
        raise InputError(
            f"reading {source} needs DuckDB, which is not installed; run: "
            "pip install 'tacenda[data]', or export the data as CSV."
        )
    import duckdb

    try:
        with duckdb.connect(
            str(database or ":memory:"), read_only=database is not None
        ) as connection:
            yield connection
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        # These speak about the query and the names in it, never about cells.
        raise InputError(f"the query could not be run: {str(error).splitlines()[0]}.") from None
    except duckdb.Error as error:
        # Conversion errors quote cells, so only their kind is passed on.
        kind = type(error).__name__
        raise InputError(
            f"DuckDB could not read {source} ({kind}); check that the file is whole."
        ) from None
