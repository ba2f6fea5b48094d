"""Records into feature rows, by nothing but the schema.

Numbers are clipped to their bounds and scaled to [0, 1] or [-1, 1], declared levels become one-hot
columns, the optional constant feature is added, and every row is clipped to the schema's norm.
Messages name a column and a record, never a cell.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array, Flags, Floats, Ints
from tacenda.data.dataset import Dataset
from tacenda.data.features import scale_rows
from tacenda.data.schema import CategoricalColumn, NumericColumn, Schema, UnconfirmedSchemaWarning
from tacenda.data.table import Table
from tacenda.errors import InputError


def encode(
    schema: Schema,
    table: Any,
    *,
    sparse: bool = False,
    strict: bool = False,
    dtype: Any = np.float64,
) -> Dataset:
    """Encode a table, frame, mapping, file or query: X (n, p) dense or CSR, y codes or clipped
    (scaled) numbers, node labels.

    Files are read and encoded a chunk at a time. A schema with unconfirmed values gives one
    warning, or with `strict` (as on a real node) a PrivacyError.
    """
    if strict:
        schema.require_confirmed()
    elif schema.unconfirmed:
        warnings.warn(
            f"schema {schema.name!r} has values read off the data in {list(schema.unconfirmed)}: "
            "unless they are public the guarantee does not hold; confirm them in the schema.",
            UnconfirmedSchemaWarning,
            stacklevel=2,
        )
    parts = [_encode_chunk(schema, chunk, sparse, dtype) for chunk in _chunks(table)]
    X, y, nodes = _stack(parts, sparse)
    if not len(y):
        raise InputError(
            "every record has a missing value, so none is left; "
            "declare missing = 'impute' in the schema."
        )
    notes = []
    if schema.unconfirmed:
        notes.append(
            f"bounds, levels or classes of {', '.join(map(repr, schema.unconfirmed))} "
            "were read off the data"
        )
    if schema.missing == "drop":
        notes.append(
            "records with missing values, if any, were dropped, "
            "so the number of records depends on the data"
        )
    classes, names = schema.label.classes, schema.feature_names
    return Dataset(
        X,
        y,
        names,
        classes,
        schema.name,
        notes,
        nodes=nodes,
        norm=schema.row_norm,
        schema_hash=schema.hash(),
    )


def encode_features(
    schema: Schema, table: Any, *, sparse: bool = False, dtype: Any = np.float64
) -> Any:
    """X (n, p) alone, for predicting on records without a label;
    missing values must be imputable or absent."""
    blocks = []
    for chunk in _chunks(table):
        _require(schema, chunk, label=False)
        missing = _missing_rows(schema, chunk, label=False)
        if missing.any() and schema.missing != "impute":
            raise InputError(
                f"record {_where(chunk, missing)} has a missing value; "
                "impute it or leave the record out."
            )
        blocks.append(_features(schema, chunk, np.ones(len(chunk), bool), sparse, dtype))
    return _stack_rows(blocks, sparse)


def _chunks(table: Any) -> Iterable[Table]:
    if isinstance(table, str | Path):
        from tacenda.data.readers import iter_tables

        return iter_tables(table)
    return [Table.of(table)]


def _encode_chunk(schema: Schema, table: Table, sparse: bool, dtype: Any) -> tuple[Any, Array, Any]:
    _require(schema, table, label=True)
    missing = _missing_rows(schema, table, label=True)
    if schema.missing == "error" and missing.any():
        raise InputError(
            f"record {_where(table, missing)} has a missing value; "
            "declare missing = 'drop' or 'impute'."
        )
    if schema.missing == "impute":
        # A label or an owner cannot be imputed: the record would be invented.
        for name in filter(None, (schema.label.name, schema.node_column)):
            bare = _is_missing(schema, table.columns[name])
            if bare.any():
                raise InputError(
                    f"record {_where(table, bare)} has no {name!r}; "
                    "leave such records out of the table."
                )
        missing = np.zeros(len(table), bool)
    keep = ~missing
    nodes = None
    if schema.node_column is not None:
        nodes = _words(table.columns[schema.node_column])[keep].astype(str)
    return _features(schema, table, keep, sparse, dtype), _label(schema, table, keep), nodes


def _require(schema: Schema, table: Table, *, label: bool) -> None:
    wanted = [column.name for column in schema.columns] + ([schema.label.name] if label else [])
    if label and schema.node_column is not None:
        wanted.append(schema.node_column)
    absent = [name for name in wanted if name not in table.columns]
    if absent:
        found = ", ".join(map(repr, table.columns))
        raise InputError(
            f"{table.source} lacks the schema's columns {absent}, it has {found}; rename either."
        )


def _missing_rows(schema: Schema, table: Table, *, label: bool) -> Flags:
    names = [column.name for column in schema.columns] + ([schema.label.name] if label else [])
    if label and schema.node_column is not None:
        names.append(schema.node_column)
    missing = np.zeros(len(table), bool)
    for name in names:
        missing |= _is_missing(schema, table.columns[name])
    return missing


def _is_missing(schema: Schema, cells: Array) -> Flags:
    if cells.dtype.kind == "f":
        nan: Flags = np.isnan(cells)
        marks = [float(word) for word in schema.missing_values if _is_number(word)]
        return nan | np.isin(cells, marks) if marks else nan
    # A set is far quicker here than numpy's sorting of text objects.
    gaps = {"", *schema.missing_values}
    return np.fromiter((word in gaps for word in _words(cells)), np.bool_, count=len(cells))


def _features(schema: Schema, table: Table, keep: Flags, sparse: bool, dtype: Any) -> Any:
    """Each record has one entry per schema column: its place (n, c) and value (n, c); both forms
    follow from them."""
    columns = schema.columns
    n, c = int(keep.sum()), len(columns) + int(schema.intercept)
    places, values = np.empty((n, c), np.int64), np.ones((n, c), dtype)
    offset = 0
    for k, column in enumerate(columns):
        cells = table.columns[column.name]
        if isinstance(column, NumericColumn):
            places[:, k] = offset
            values[:, k] = _scaled(schema, column, table, cells, keep)
        else:
            places[:, k] = offset + _codes(schema, column, table, cells, keep)
        offset += len(column.features)
    if schema.intercept:
        places[:, -1] = offset
    return scale_rows(
        _assemble(places, values, len(schema.feature_names), sparse), schema.row_norm, in_place=True
    )


def _assemble(places: Ints, values: Any, width: int, sparse: bool) -> Any:
    n, c = places.shape
    if not sparse:
        X = np.zeros((n, width), values.dtype)
        np.put_along_axis(X, places, values, axis=1)
        return X
    from scipy.sparse import csr_matrix

    X = csr_matrix((values.ravel(), places.ravel(), np.arange(0, n * c + 1, c)), shape=(n, width))
    X.eliminate_zeros()
    return X


def _scaled(
    schema: Schema, column: NumericColumn, table: Table, cells: Array, keep: Flags
) -> Floats:
    """u = (clip(x, low, high) - low) / (high - low), in [0, 1]; symmetric: 2 u - 1, in [-1, 1]."""
    numbers = _numbers(schema, column.name, table, cells, keep)
    if column.impute is not None:
        numbers = np.where(np.isnan(numbers), column.impute, numbers)
    scaled: Floats = (np.clip(numbers, column.low, column.high) - column.low) / (
        column.high - column.low
    )
    return scaled if column.scale_to == "unit" else 2 * scaled - 1


def _numbers(schema: Schema, name: str, table: Table, cells: Array, keep: Flags) -> Floats:
    """Kept cells as float64, missing ones as NaN."""
    if cells.dtype.kind == "f":
        found = cells[keep].astype(np.float64)
        found[_is_missing(schema, cells)[keep]] = np.nan
        return found
    words = np.where(_is_missing(schema, cells), "nan", _words(cells))
    try:
        return words[keep].astype(np.float64)
    except ValueError:
        wrong = np.array([not _is_number(word) for word in words]) & keep
        raise InputError(
            f"column {name!r} must be numeric, but record {_where(table, wrong)} holds other "
            "text; correct it, declare the column categorical, "
            "or add that text to missing_values."
        ) from None


def _codes(
    schema: Schema, column: CategoricalColumn, table: Table, cells: Array, keep: Flags
) -> Ints:
    """Position of each kept cell among the levels;
    undeclared ones take the last place or are refused."""
    words = np.where(_is_missing(schema, cells), column.impute or "", _words(cells))
    codes = _positions(words, column.levels)
    wrong = (codes < 0) & keep
    if wrong.any():
        if column.unknown == "error":
            raise InputError(
                f"column {column.name!r} of record {_where(table, wrong)} holds a level that the "
                "schema does not declare; add the level if it is public, "
                "or set unknown = 'column'."
            )
        codes[wrong] = len(column.levels)
    return codes[keep]


def _label(schema: Schema, table: Table, keep: Flags) -> Array:
    label, cells = schema.label, table.columns[schema.label.name]
    if label.classes is None:
        numbers = _numbers(schema, label.name, table, cells, keep)
        centre, reach = label.centre_and_reach
        return (np.clip(numbers, label.low, label.high) - centre) / reach
    codes = _positions(_words(cells), label.classes)
    wrong = (codes < 0) & keep
    if wrong.any():
        raise InputError(
            f"label {label.name!r} of record {_where(table, wrong)} is not one of the declared "
            f"classes {list(label.classes)}; add the class to the schema or correct the record."
        )
    return codes[keep]


def _positions(words: Array, known: tuple[str, ...]) -> Ints:
    place = {word: k for k, word in enumerate(known)}
    return np.fromiter((place.get(word, -1) for word in words), np.int64, count=len(words))


def _words(cells: Array) -> Array:
    """Cells as stripped text; None and NaN are the empty text, and a whole float loses its '.0':
    3.0 is level '3'."""
    words = np.empty(len(cells), dtype=object)
    words[:] = [_word(cell) for cell in cells]
    return words


def _word(cell: Any) -> str:
    if isinstance(cell, str):
        return cell.strip()
    if cell is None or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _where(table: Table, rows: Flags) -> int:
    """The number of the first such record in its source, from 1."""
    return table.first_row + int(np.argmax(rows))


def _stack(parts: list[tuple[Any, Array, Any]], sparse: bool) -> tuple[Any, Array, Any]:
    if len(parts) == 1:
        return parts[0]
    nodes = None if parts[0][2] is None else np.concatenate([part[2] for part in parts])
    return (
        _stack_rows([part[0] for part in parts], sparse),
        np.concatenate([part[1] for part in parts]),
        nodes,
    )


def _stack_rows(blocks: list[Any], sparse: bool) -> Any:
    if len(blocks) == 1:
        return blocks[0]
    if not sparse:
        return np.concatenate(blocks)
    from scipy.sparse import vstack

    return vstack(blocks, format="csr")
