"""Rows of features from the cells of a table, column by column, dense or sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Flags, Floats, Ints
from tacenda.data.basis import products
from tacenda.data.cells import coded_numbers, column_numbers, kept_codes
from tacenda.data.columns import CategoricalColumn, NumericColumn
from tacenda.data.features import scale_rows
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.threads import in_parts


def feature_rows(schema: Schema, table: Table, keep: Flags, sparse: bool, dtype: Any) -> Any:
    """The encoded rows of the kept records."""
    return assembled(schema, [filled_rows(schema, table, keep)], sparse, dtype)


_ROWS = 1024  # made together: they stay in the processor's cache from column to column


@dataclass(frozen=True, eq=False)
class _Entry:
    """One entry in each row of some records: its place and its value, each of which is one for all
    or an array of one for each code, or for each record where there are no codes."""

    place: Any
    value: Any
    codes: Ints | None = None

    def at(self, records: slice) -> tuple[Any, Any]:
        """(place, value) of these records."""
        own = records if self.codes is None else self.codes[records]
        place, value = (
            what[own] if isinstance(what, np.ndarray) else what for what in (self.place, self.value)
        )
        return place, value


_Filled = tuple[int, list[_Entry]]  # of some records: their number, and what their rows hold


def filled_rows(schema: Schema, table: Table, keep: Flags) -> _Filled:
    """What the rows of the kept records hold, column by column."""
    filled: list[_Entry] = []
    offset = 0
    for column in schema.columns:
        if isinstance(column, NumericColumn):
            numbers, lacks, codes = coded_numbers(schema, column, table, keep)
            found = column.encoded(numbers)
            found[np.isnan(numbers)] = 0.0
            filled += [_Entry(offset + k, own, codes) for k, own in enumerate(found.T)]
            if column.missing_indicator:
                filled.append(_Entry(offset + found.shape[1], lacks, codes))
        else:
            levels = kept_codes(schema, column, table, table.columns[column.name], keep)
            filled.append(_Entry((offset + levels).astype(np.int32), 1.0))
        offset += len(column.features)
    for pair in schema.paired:
        both = (_pair_functions(schema, c, table, keep) for c in (pair.first, pair.second))
        smooth = products(*both) @ pair.smoother
        filled += [_Entry(offset + k, own) for k, own in enumerate(smooth.T)]
        offset += smooth.shape[1]
    if schema.intercept:
        filled.append(_Entry(offset, 1.0))
    return int(keep.sum()), filled


def _pair_functions(
    schema: Schema, column: NumericColumn | CategoricalColumn, table: Table, keep: Flags
) -> Floats:
    """(n, k) a column's functions in a pair; all 0 where the number is missing."""
    if isinstance(column, NumericColumn):
        numbers, _ = column_numbers(schema, column, table, keep)
        return np.nan_to_num(column.hats_at(numbers, column.pair_basis))
    levels = kept_codes(schema, column, table, table.columns[column.name], keep)
    return np.eye(len(column.features))[levels]


def assembled(schema: Schema, parts: list[_Filled], sparse: bool, dtype: Any) -> Any:
    """One matrix of all parts, scaled."""
    width, scale = len(schema.feature_names), schema.row_scale
    if sparse:
        from scipy.sparse import vstack

        blocks = [_scaled(_sparse_rows(part, width, dtype), scale) for part in parts]
        return blocks[0] if len(blocks) == 1 else vstack(blocks, format="csr")
    X, done = np.zeros((sum(n for n, _ in parts), width), dtype), 0
    for n, filled in parts:
        own = X[done : done + n]
        # Most of the time goes into fetching memory, which threads do side by side
        in_parts(_write, -(-n // _ROWS), own.size, own, filled, scale)
        done += n
    return X


def _write(first: int, last: int, X: Any, filled: list[_Entry], scale: float) -> None:
    """Fill these blocks of rows of zeros, scaled."""
    for block in range(first, last):
        records = slice(block * _ROWS, (block + 1) * _ROWS)
        rows = X[records]
        for entry in filled:
            place, value = entry.at(records)
            if isinstance(place, np.ndarray):
                rows[np.arange(len(rows)), place] = value
            else:
                rows[:, place] = value
        _scaled(rows, scale)


def _sparse_rows(part: _Filled, width: int, dtype: Any) -> Any:
    from scipy.sparse import csr_matrix

    n, filled = part
    c = len(filled)
    places, values = np.empty((n, c), np.int64), np.empty((n, c), dtype)
    for k, entry in enumerate(filled):
        places[:, k], values[:, k] = entry.at(slice(None))
    X = csr_matrix((values.ravel(), places.ravel(), np.arange(0, n * c + 1, c)), shape=(n, width))
    X.eliminate_zeros()
    return X


def _scaled(rows: Any, scale: float) -> Any:
    """Rows divided by their public scale, in place; shortened before where the schema asks for it,
    else only held to the bound against rounding."""
    rows = scale_rows(rows, scale, in_place=True)
    rows *= rows.dtype.type(1.0 / scale)
    return rows
