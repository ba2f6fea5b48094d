"""Records into feature rows, by nothing but the schema.

Numbers are clipped to their bounds, transformed and scaled as declared, declared levels become
one-hot columns, the optional constant feature is added, and every row is divided by the schema's
`row_scale`, so that its norm is at most 1. Rows are shortened only where the schema declares a
smaller `row_norm` than its columns allow. Messages name a column and a record, never a cell.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array, Flags, Ints
from tacenda.data import dates
from tacenda.data.as_read import fingerprints
from tacenda.data.cells import (
    check_columns,
    first_of,
    gap_of,
    is_missing,
    label_columns,
    label_values,
    lacks_label,
    missing_rows,
    read_entries,
    require_columns,
)
from tacenda.data.coded import Coded, words_of
from tacenda.data.dataset import Dataset
from tacenda.data.feature_rows import assembled, feature_rows, filled_rows
from tacenda.data.lazy_rows import LazyRows
from tacenda.data.persons import holder_columns, kept_of_persons, persons_of
from tacenda.data.readers import joined, pieces, read_table
from tacenda.data.schema import Schema, UnconfirmedSchemaWarning
from tacenda.data.spread import LOOK_AT, warn_squeezed
from tacenda.data.table import CHUNK_ROWS, Table
from tacenda.data.usable import kept_positions, usable
from tacenda.errors import InputError, StateError


def encode(
    schema: Schema,
    table: Any,
    *,
    sparse: bool = False,
    strict: bool = False,
    dtype: Any = np.float64,
    records_per_person: int | None = None,
    person_key: bytes | None = None,
    lazy: bool = False,
) -> Dataset:
    """Encode records by nothing but the schema.

    Files are read and encoded a chunk at a time. A schema with unconfirmed values gives one
    warning. Without `strict`, one more warning names columns that have most values in a corner
    of the declared range; it is read from the data, and meant for their holder alone.

    Parameters
    ----------
    schema : Schema
        Columns, bounds, levels and label.
    table : str, Path, Table, mapping or frame
        A file, query, frame, mapping of columns or table.
    sparse : bool, default=False
        Whether X is CSR.
    strict : bool, default=False
        Refuse unconfirmed values, as on a real node.
    dtype : data-type, default=float64
        Of X.
    records_per_person : int or None, default=None
        Of each person (the schema's `person`), at each node, at most this many records are kept,
        drawn at random from the ids alone, before anything else is read. None keeps all.
    person_key : bytes or None, default=None
        Secret key of that draw; None takes a public one, as a simulation may.
    lazy : bool, default=False
        Read labels, nodes and persons only. X is a `LazyRows`: `partition` divides it, and
        `Shards.of_nodes` then goes through the file once more and keeps the rows of some nodes.

    Returns
    -------
    Dataset
        X (n, p), y as codes or clipped (scaled) numbers, node labels, and ids of persons.

    Raises
    ------
    InputError
        If a record does not fit the schema; the message names column and record, never a cell.
    PrivacyError
        With `strict`, if there are unconfirmed values.

    Examples
    --------
    >>> import tacenda as tc
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "numeric", "name": "age", "low": 0, "high": 100}],
    ...     label={"name": "ill", "classes": ["no", "yes"]},
    ... )
    >>> data = tc.data.encode(schema, {"age": [30.0, 50.0], "ill": ["no", "yes"]})
    >>> data.X.tolist(), data.y.tolist()
    ([[0.3], [0.5]], [0, 1])
    """
    if strict:
        schema.require_confirmed()
    elif schema.unconfirmed:
        warnings.warn(
            f"schema {schema.name!r} has values read from the data in {list(schema.unconfirmed)}: "
            "unless they are public the guarantee does not hold; confirm them in the schema.",
            UnconfirmedSchemaWarning,
            stacklevel=2,
        )
    if isinstance(table, str | Path):
        check_columns(schema, table)
    kept = kept_of_persons(schema, table, records_per_person, person_key)
    read = _listed if lazy else _encoded
    X, y, nodes, persons, marks = read(schema, table, kept, sparse, dtype, quiet=strict)
    if not len(y):
        raise InputError(
            "every record has a missing value, so none is left; "
            "declare missing = 'impute' in the schema."
        )
    notes = []
    if schema.unconfirmed:
        notes.append(
            f"bounds, levels or classes of {', '.join(map(repr, schema.unconfirmed))} "
            "were read from the data"
        )
    if schema.missing == "drop":
        notes.append(
            "the schema leaves out records with missing values, "
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
        norm=1.0,
        row_scale=schema.row_scale,
        schema_hash=schema.hash(),
        persons=persons,
        fingerprints=marks,
    )


def encode_usable(schema: Schema, table: Any, *, blank: bool, **how: Any) -> Dataset:
    """Encode the records of a member of a network, whose part in it must not depend on one record:
    none is ever refused.

    A record that cannot be encoded (a missing value for which nothing stands in, text in a number,
    an undeclared level without a column of its own, a label that is none, no person's id, a line
    with a wrong number of fields) is left out. With `blank` a row of zeros takes its place, with
    the first class or a label of 0: it moves no gradient, and the number of records stays that of
    the table. So do records beyond those that are kept of a person: each record has its own place,
    whatever the others hold.

    Parameters
    ----------
    schema : Schema
        As for `encode`.
    table : str, Path, Table, mapping or frame
        As for `encode`.
    blank : bool
        Whether the number of records is public, so that it must not depend on their values.
    **how : object
        As for `encode`, which is strict here.

    Returns
    -------
    Dataset
        The records; blank ones have fingerprints of 0.

    Raises
    ------
    InputError
        If no record can be encoded, or a column is missing.
    """
    whole = read_table(table, ragged="blank") if isinstance(table, str | Path) else Table.of(table)
    good = usable(schema, whole)
    if not good.any():
        raise InputError(
            f"no record of {whole.source} fits the schema: check its delimiter and decimal point, "
            "and compare its values with the schema's columns, levels and label."
        )
    found = encode(schema, whole.part(records=np.flatnonzero(good)), strict=True, **how)
    size = len(whole)
    if not blank or found.n_records == size:
        return found
    most, key = how.get("records_per_person"), how.get("person_key")
    at = kept_positions(schema, whole, most, key)
    X: Any = np.zeros((size, found.n_features), found.X.dtype)
    if isinstance(found.X, np.ndarray):
        X[at] = found.X
    else:
        from scipy.sparse import csr_matrix

        rows = found.X.tocoo()
        X = csr_matrix((rows.data, (at[rows.row], rows.col)), shape=X.shape)

    def filled(values: Any, absent: Any) -> Any:
        if values is None:
            return None
        made = np.full((size, *values.shape[1:]), absent, values.dtype)
        made[at] = values
        return made

    persons = found.persons
    if persons is not None:
        persons = filled(persons.astype(object), "")
        gone = np.setdiff1d(np.arange(size), at)
        persons[gone] = [f"\0blank {k}" for k in gone.tolist()]
        persons = persons.astype(str)
    return replace(
        found,
        X=X,
        y=filled(found.y, 0),
        persons=persons,
        fingerprints=filled(found.fingerprints, 0),
    )


def _encoded(
    schema: Schema, table: Any, kept: Flags | None, sparse: bool, dtype: Any, *, quiet: bool
) -> tuple[Any, Array, Any, Any, Any]:
    """(X, y, nodes, persons, fingerprints) of the records that are there."""
    rows, facts, seen = [], [], 0
    for read in pieces(table):
        chosen = None if kept is None else kept[seen : seen + len(read)]
        seen += len(read)
        chunk = _typed(schema, read)
        keep, *own = _facts(schema, chunk, chosen)
        own.append(as_read(schema, read)[keep])
        rows.append(filled_rows(schema, chunk, keep))
        facts.append(own)
        if len(rows) == 1 and not quiet:
            warn_squeezed(schema, chunk, stacklevel=3)
    y, nodes, persons, marks = _stack_facts(facts)
    return assembled(schema, rows, sparse, dtype), y, nodes, persons, marks


def _listed(
    schema: Schema, table: Any, kept: Flags | None, sparse: bool, dtype: Any, *, quiet: bool
) -> tuple[Any, Array, Any, Any, Any]:
    """The same with X that is still to be read: only what says which records are there, whose they
    are, and how a ledger knows them again is kept."""
    drops = schema.missing == "drop"
    names = [
        *label_columns(schema),
        *holder_columns(schema),
        *(column.name for column in schema.columns),
    ]
    there, facts, seen = [], [], 0
    for chunk in pieces(table, rows=None, names=names):
        chosen = None if kept is None else kept[seen : seen + len(chunk)]
        seen += len(chunk)
        keep, *own = _facts(schema, _typed(schema, chunk), chosen, features=drops)
        own.append(as_read(schema, chunk)[keep])
        there.append(keep)
        facts.append(own)
    if not quiet:
        # The records that a table of the first chunk would be looked at by
        first = min(seen, CHUNK_ROWS)
        look_at = np.arange(0, first, max(1, first // LOOK_AT))
        seen_first = joined(list(pieces(table, rows=None, only=look_at)))
        warn_squeezed(schema, seen_first, stacklevel=3)
    y, nodes, persons, marks = _stack_facts(facts)
    kept_here = np.concatenate(there)
    places = None if kept_here.all() else np.flatnonzero(kept_here)
    rows = LazyRows(TableRows(schema, table, y, places, sparse, np.dtype(dtype)))
    return rows, y, nodes, persons, marks


@dataclass(frozen=True, eq=False)
class TableRows:
    """The encoded rows of a table that can be gone through again; y (n,): its labels, places (n,):
    where the records stand in it, None where none is left out."""

    schema: Schema
    table: Any
    y: Array
    places: Ints | None
    sparse: bool
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """(records, features)."""
        return len(self.y), len(self.schema.feature_names)

    def blocks(self, positions: Ints) -> Iterator[Any]:
        """The rows at these rising positions, some at a time."""
        done, schema = 0, self.schema
        only = positions if self.places is None else self.places[positions]
        for chunk in pieces(self.table, rows=None, only=only) if len(only) else ():
            chunk = _typed(schema, chunk)
            keep, y, *_ = _facts(schema, chunk, None)
            expected = self.y[positions[done : done + len(chunk)]]
            if not np.array_equal(y, expected):
                raise StateError(
                    f"{chunk.source} gave other records when it was read again; leave the file as "
                    "it is while it is used, and give a query an ORDER BY that leaves no choice."
                )
            yield feature_rows(schema, chunk, keep, self.sparse, self.dtype)
            done += len(chunk)


def as_read(schema: Schema, table: Table) -> Array:
    """(records, 4) fingerprints of the columns that the schema makes features of, and of its
    label, where the table has them, before anything is made of them; a date has many forms, and
    counts as its year."""
    cells = table.columns
    columns = {
        column.name: _undated(cells[column.name], getattr(column, "date", None))
        for column in schema.columns
        if column.name in cells
    }
    if schema.label.survival and schema.survival is not None and schema.survival.time in cells:
        columns[schema.survival.time] = cells[schema.survival.time]
    return fingerprints(columns, cells.get(schema.label.name))


def _undated(cells: Any, order: dates.Order | None) -> Any:
    if order is None or cells.dtype.kind == "f":
        return cells
    column = Coded.of(cells)
    return read_entries(column.entries, order)[0][column.codes]


def encode_features(
    schema: Schema, table: Any, *, sparse: bool = False, dtype: Any = np.float64
) -> Any:
    """X (n, p) alone, for predicting on records without a label;
    missing values must be imputable or absent."""
    if isinstance(table, str | Path):
        check_columns(schema, table, label=False)
    blocks = []
    for chunk in pieces(table):
        require_columns(schema, chunk.columns, chunk.source, label=False)
        chunk = _typed(schema, chunk)
        missing = missing_rows(schema, chunk, label=False)
        if missing.any() and schema.missing != "impute":
            raise InputError(
                f"record {first_of(chunk, missing)} has no value of "
                f"{gap_of(schema, chunk, missing)!r}; fill it in or leave the record out, or learn "
                "a model with missing_indicator = true in the columns of the schema that have gaps."
            )
        blocks.append(filled_rows(schema, chunk, np.ones(len(chunk), bool)))
    return assembled(schema, blocks, sparse, dtype)


def _facts(
    schema: Schema, table: Table, kept: Flags | None, *, features: bool = True
) -> tuple[Flags, Array, Any, Any]:
    """(whether each record is there, then of those that are: label, node, person).

    All but the `kept` records are as if they had never been in the table. features: whether missing
    values of the features count.
    """
    if features:
        require_columns(schema, table.columns, table.source, label=True)
    persons = None if schema.person is None else persons_of(schema, table)
    there = np.ones(len(table), bool) if kept is None else kept
    missing = missing_rows(schema, table, label=True, features=features) & there
    if schema.missing == "error" and missing.any():
        raise InputError(
            f"record {first_of(table, missing)} has no value of "
            f"{gap_of(schema, table, missing)!r}; "
            "fill it in, or declare missing = 'drop' or 'impute'."
        )
    if schema.missing == "impute":
        # A label or an owner cannot be imputed: the record would be invented.
        bare_of = {schema.label.name: lacks_label(schema, table) & there}
        if schema.node_column is not None:
            bare_of[schema.node_column] = (
                is_missing(schema, table.columns[schema.node_column]) & there
            )
        for name, bare in bare_of.items():
            if bare.any():
                raise InputError(
                    f"record {first_of(table, bare)} has no {name!r}; "
                    "leave such records out of the table."
                )
        missing = np.zeros(len(table), bool)
    keep = there & ~missing
    nodes = None
    if schema.node_column is not None:
        nodes = words_of(table.columns[schema.node_column])[keep].astype(str)
    ids = None if persons is None else persons[keep]
    return keep, label_values(schema, table, keep), nodes, ids


def _typed(schema: Schema, table: Table) -> Table:
    """The table with what the schema uses of it as floats or as coded text, whose cells are then
    looked at once for each entry."""
    used = {*(c.name for c in schema.columns), *label_columns(schema), *holder_columns(schema)}
    columns = {
        name: Coded.of(cells) if name in used and cells.dtype.kind != "f" else cells
        for name, cells in table.columns.items()
    }
    return replace(table, columns=columns)


def _stack_facts(parts: list[list[Any]]) -> list[Any]:
    """Each fact of all chunks: labels, nodes, persons, fingerprints."""
    if len(parts) == 1:
        return parts[0]
    return [None if own[0] is None else np.concatenate(own) for own in zip(*parts, strict=True)]
