"""`Table`: named columns of raw cells, between a reader and the encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.words import counted


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of raw cells, between a reader and the encoder.

    float64 arrays where the source is typed, object arrays of text (or None) elsewhere, all of
    equal length. The repr shows no cells.

    Parameters
    ----------
    columns : dict
        Each column by its name.
    first_row : int, default=1
        Number of the first record in its source (from 1), so that messages can name a place.
    source : str, default="table"
        Name of the source, for messages.

    Examples
    --------
    >>> import tacenda as tc
    >>> table = tc.data.Table.of({"age": [30.0, 40.0]})
    >>> sorted(table.columns)
    ['age']
    """

    columns: dict[str, Array]
    first_row: int = 1
    source: str = "table"

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

        Parameters
        ----------
        most : int
            About how many records at most.

        Returns
        -------
        Table
            The smaller table.
        """
        step = max(1, len(self) // most)
        return Table({k: v[::step] for k, v in self.columns.items()}, source=self.source)

    @classmethod
    def of(cls, data: Any) -> Table:
        """Make a table from a mapping of columns or from a frame.

        Parameters
        ----------
        data : Table, mapping or frame
            A mapping of columns, or a pandas, polars or pyarrow frame.

        Returns
        -------
        Table
            The table; a `Table` is returned as it is.

        Raises
        ------
        InputError
            If it is none of these, or columns differ in length.
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
        columns = {}
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
