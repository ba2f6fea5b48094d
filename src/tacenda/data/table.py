"""`Table`: named columns of raw cells, between a reader and the encoder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array, Ints
from tacenda.errors import InputError
from tacenda.words import counted

# Records of a chunk of a file
CHUNK_ROWS = 100_000
# Of a chunk that should be small beside what is kept of it: as text, some tens of megabytes
CHUNK_CELLS = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of raw cells, between a reader and the encoder.

    float64 arrays where the source is typed, elsewhere object arrays of text (or None), or columns
    read from CSV, which look like them and hold equal cells once. All have one length. The repr
    shows no cells.

    Parameters
    ----------
    columns : dict
        Each column by its name.
    first_row : int, default=1
        Number of the first record in its source (from 1), so that messages can name a place.
    source : str, default="table"
        Name of the source, for messages.
    numbers : ndarray of int or None, default=None
        Number of every record in its source, where they are not consecutive.

    Examples
    --------
    >>> import tacenda as tc
    >>> table = tc.data.Table.of({"age": [30.0, 40.0]})
    >>> sorted(table.columns)
    ['age']
    """

    columns: dict[str, Any]
    first_row: int = 1
    source: str = "table"
    numbers: Ints | None = None

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) > 1:
            raise InputError(f"the columns of a table must have one length, not {sorted(lengths)}.")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __repr__(self) -> str:
        return (
            f"Table({self.source!r}, {counted(len(self), 'record')} x "
            f"{counted(len(self.columns), 'column')})"
        )

    def some(self, most: int) -> Table:
        """A part of the table, evenly over its records.

        most: about how many records at most.
        """
        step = max(1, len(self) // most)
        return self.part(records=np.arange(0, len(self), step))

    def number(self, position: int) -> int:
        """Number of a record in its source, from 1.

        position: its place in this table, from 0.
        """
        return self.first_row + position if self.numbers is None else int(self.numbers[position])

    def part(self, names: Collection[str] | None = None, records: Ints | None = None) -> Table:
        """Some columns and some records of the table.

        names: which columns; those that the table does not have are left out. None takes all.
        records: positions of the records; None takes all. Result: the smaller table, whose messages
        name the same records.
        """
        columns = {k: v for k, v in self.columns.items() if names is None or k in names}
        if records is None:
            return Table(columns, self.first_row, self.source, self.numbers)
        known = None if self.numbers is None else self.numbers[records]
        numbers = self.first_row + records if known is None else known
        return Table({k: v[records] for k, v in columns.items()}, 1, self.source, numbers)

    @classmethod
    def of(cls, data: Any) -> Table:
        """Make a table from a mapping of columns or from a frame.

        data: a mapping of columns, or a pandas, polars or pyarrow frame.
        """
        if isinstance(data, Table):
            return data
        if isinstance(data, Mapping):
            return cls(
                {str(name): _column(values) for name, values in data.items()}, source="mapping"
            )
        import narwhals.stable.v1 as nw

        try:
            frame = nw.from_native(data, eager_only=True)
        except TypeError:
            raise InputError(
                "a table must be a frame, a mapping of columns or a path, "
                f"not {type(data).__name__}; read files with tacenda.data.read_table."
            ) from None
        columns: dict[str, Any] = {}
        for name in frame.columns:
            series = frame[name]
            if series.dtype.is_numeric():
                columns[str(name)] = np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)
            else:
                # Every library has its own null (None, NaN, NA); here there is one.
                nulls = np.asarray(series.is_null().to_numpy(), bool)
                columns[str(name)] = _column(series.to_list())
                columns[str(name)][nulls] = None
        return cls(columns, source=type(data).__name__)


def cut(table: Table, rows: int | None) -> Iterator[Table]:
    """A whole table in tables of at most `rows` records; None takes as many as stay small."""
    rows = max(1, CHUNK_CELLS // len(table.columns)) if rows is None else rows
    for first in range(0, len(table), rows):
        part = slice(first, first + rows)
        columns = {name: column[part] for name, column in table.columns.items()}
        yield Table(columns, first + 1, table.source)


def _column(values: Any) -> Array:
    """float64 for numbers, an object array for anything else;
    masked cells and nulls become NaN or None."""
    if isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind in "iuf":
            return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
        masked = np.ma.getmaskarray(values)
        cells = np.array(values.data, dtype=object)
        cells[masked] = None
        return cells
    array = values if isinstance(values, np.ndarray) else None
    if array is not None and array.dtype.kind in "iuf":
        return array.astype(np.float64)
    column = np.empty(len(values), dtype=object)
    column[:] = list(values)
    return column
