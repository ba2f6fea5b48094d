"""Records into feature rows, by nothing but the schema.

Numbers are clipped to their bounds, transformed and scaled as declared, declared levels become
one-hot columns, the optional constant feature is added, and every row is divided by the schema's
`row_scale`, so that its norm is at most 1. Rows are shortened only where the schema declares a
smaller `row_norm` than its columns allow. Messages name a column and a record, never a cell.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array, Flags, Floats, Ints
from tacenda.data import dates
from tacenda.data.as_read import fingerprints
from tacenda.data.basis import products
from tacenda.data.coded import Coded, Entries, is_number, words_of
from tacenda.data.columns import CategoricalColumn, NumericColumn
from tacenda.data.dataset import Dataset
from tacenda.data.features import scale_rows
from tacenda.data.lazy_rows import LazyRows
from tacenda.data.readers import column_names, joined, read_table, source_name
from tacenda.data.schema import Schema, UnconfirmedSchemaWarning
from tacenda.data.spread import LOOK_AT, warn_squeezed
from tacenda.data.table import CHUNK_ROWS, Table
from tacenda.errors import InputError, StateError
from tacenda.privacy.noise.persons import PUBLIC_KEY, kept_records, person_names
from tacenda.threads import in_parts


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
    warning. Without `strict`, one more warning names columns of which most values are in a corner
    of the declared range; it is read from the data, and meant for whoever holds them.

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
        Of each person (the schema's `person`), at each node, so many records are kept at most,
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
    kept = _kept(schema, table, records_per_person, person_key)
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
    the table.

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
    empty = int(np.count_nonzero(~good)) if blank else 0
    if not empty:
        return found
    at = np.flatnonzero(good)
    if len(at) != found.n_records:  # a person's other records were left out: the rest goes last
        at, size = np.arange(found.n_records), found.n_records + empty
    else:
        size = len(good)
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


def kept_positions(
    schema: Schema, table: Table, records_per_person: int | None, person_key: bytes | None
) -> Ints:
    """Where the records that `encode_usable` gives, but for blank ones, stand in the table."""
    good = np.flatnonzero(usable(schema, table))
    kept = _kept(schema, table.part(records=good), records_per_person, person_key)
    return good if kept is None else good[kept]


def person_words(schema: Schema, table: Table) -> Array:
    """(records,) the ids of the persons; a record without one is of a person of its own."""
    bare = _is_missing(schema, table.columns[str(schema.person)])
    found = words_of(table.columns[str(schema.person)]).astype(object)
    found[bare] = [f"\0nobody {k}" for k in np.flatnonzero(bare).tolist()]
    return found.astype(str)


def usable(schema: Schema, table: Table) -> Flags:
    """(records,) whether each can be encoded as it is."""
    _require(schema, table.columns, table.source, label=True)
    if schema.missing == "impute":
        good = ~_lacks_label(schema, table)
        if schema.node_column is not None:
            good &= ~_is_missing(schema, table.columns[schema.node_column])
    else:
        good = ~_missing_rows(schema, table, label=True)
    if schema.person is not None:
        good &= ~_is_missing(schema, table.columns[schema.person])
    for column in schema.columns:
        cells = table.columns[column.name]
        if isinstance(column, NumericColumn):
            good &= ~_unreadable(schema, cells, column.date)
        elif column.unknown != "column":
            good &= _level_codes(schema, column, cells) >= 0
    cells = table.columns[schema.label.name]
    if schema.label.classes is None:
        return good & ~_unreadable(schema, cells)
    return good & (_positions(Coded.of(cells), schema.label.classes) >= 0)


def _encoded(
    schema: Schema, table: Any, kept: Flags | None, sparse: bool, dtype: Any, *, quiet: bool
) -> tuple[Any, Array, Any, Any, Any]:
    """(X, y, nodes, persons, fingerprints) of the records that are there."""
    rows, facts, seen = [], [], 0
    for read in _chunks(table):
        chosen = None if kept is None else kept[seen : seen + len(read)]
        seen += len(read)
        chunk = _typed(schema, read)
        keep, *own = _facts(schema, chunk, chosen)
        own.append(as_read(schema, read)[keep])
        rows.append(_filled(schema, chunk, keep))
        facts.append(own)
        if len(rows) == 1 and not quiet:
            warn_squeezed(schema, chunk, stacklevel=3)
    y, nodes, persons, marks = _stack_facts(facts)
    return _assembled(schema, rows, sparse, dtype), y, nodes, persons, marks


def _listed(
    schema: Schema, table: Any, kept: Flags | None, sparse: bool, dtype: Any, *, quiet: bool
) -> tuple[Any, Array, Any, Any, Any]:
    """The same with X that is still to be read: only what says which records are there, whose they
    are, and how a ledger knows them again is kept."""
    drops = schema.missing == "drop"
    names = [schema.label.name, *_holders(schema), *(column.name for column in schema.columns)]
    there, facts, seen = [], [], 0
    for chunk in _chunks(table, rows=None, names=names):
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
        seen_first = joined(list(_chunks(table, rows=None, only=look_at)))
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
        for chunk in _chunks(self.table, rows=None, only=only) if len(only) else ():
            chunk = _typed(schema, chunk)
            keep, y, *_ = _facts(schema, chunk, None)
            expected = self.y[positions[done : done + len(chunk)]]
            if not np.array_equal(y, expected):
                raise StateError(
                    f"{chunk.source} gave other records when it was read again; leave the file as "
                    "it is while it is used, and give a query an ORDER BY that leaves no choice."
                )
            yield _features(schema, chunk, keep, self.sparse, self.dtype)
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
    return fingerprints(columns, cells.get(schema.label.name))


def _undated(cells: Any, order: dates.Order | None) -> Any:
    if order is None or cells.dtype.kind == "f":
        return cells
    column = Coded.of(cells)
    return _read(column.entries, order)[0][column.codes]


def _kept(schema: Schema, table: Any, most: int | None, key: bytes | None) -> Flags | None:
    """(records,) whether each record is one of its person's kept ones at its node; None keeps all.

    A first reading, of the columns with ids and nodes alone: which records are kept does not depend
    on what else they hold, not even on whether a value is missing.
    """
    if most is None:
        return None
    if schema.person is None:
        raise InputError(
            f"records_per_person ({most}) needs the column with the persons' ids; name it as "
            "person in the schema."
        )
    ids, holders = [], []
    for chunk in _chunks(table, rows=None, names=_holders(schema)):
        ids.append(persons_of(schema, chunk))
        if schema.node_column is not None:
            holders.append(words_of(chunk.columns[schema.node_column]))
    names = np.concatenate(ids)
    kept = np.zeros(len(names), bool)
    where = np.concatenate(holders).astype(str) if holders else np.zeros(len(names), "U1")
    for node in np.unique(where):
        own = np.flatnonzero(where == node)
        kept[own[kept_records(names[own], most, PUBLIC_KEY if key is None else key)]] = True
    return kept


def _holders(schema: Schema) -> list[str]:
    """The columns that say whose a record is: its node, its person."""
    return [name for name in (schema.node_column, schema.person) if name is not None]


def persons_of(schema: Schema, table: Table) -> Array:
    """(records,) the ids of the persons; a record without one is refused."""
    cells = table.columns[str(schema.person)]
    bare = _is_missing(schema, cells)
    if bare.any():
        raise InputError(
            f"record {_where(table, bare)} has no {schema.person!r}, and might be anybody's; give "
            "it an id of its own if nobody else's record can be of the same person, or leave it "
            "out of the table."
        )
    return person_names(words_of(cells), str(schema.person))


def encode_features(
    schema: Schema, table: Any, *, sparse: bool = False, dtype: Any = np.float64
) -> Any:
    """X (n, p) alone, for predicting on records without a label;
    missing values must be imputable or absent."""
    if isinstance(table, str | Path):
        check_columns(schema, table, label=False)
    blocks = []
    for chunk in _chunks(table):
        _require(schema, chunk.columns, chunk.source, label=False)
        chunk = _typed(schema, chunk)
        missing = _missing_rows(schema, chunk, label=False)
        if missing.any() and schema.missing != "impute":
            raise InputError(
                f"record {_where(chunk, missing)} has no value of "
                f"{_gap(schema, chunk, missing)!r}; fill it in or leave the record out, or learn a "
                "model with missing_indicator = true in the columns of the schema that have gaps."
            )
        blocks.append(_filled(schema, chunk, np.ones(len(chunk), bool)))
    return _assembled(schema, blocks, sparse, dtype)


def _chunks(
    table: Any,
    *,
    rows: int | None = CHUNK_ROWS,
    names: Collection[str] | None = None,
    only: Ints | None = None,
) -> Iterable[Table]:
    """The table in pieces (`readers.iter_tables`)."""
    from tacenda.data.readers import chosen, iter_tables

    if isinstance(table, str | Path):
        return iter_tables(table, rows=rows, names=names, only=only)
    return chosen([Table.of(table)], names, only)


def _facts(
    schema: Schema, table: Table, kept: Flags | None, *, features: bool = True
) -> tuple[Flags, Array, Any, Any]:
    """(whether each record is there, then of those that are: label, node, person).

    All but the `kept` records are as if they had never been in the table. features: whether missing
    values of the features count.
    """
    if features:
        _require(schema, table.columns, table.source, label=True)
    persons = None if schema.person is None else persons_of(schema, table)
    there = np.ones(len(table), bool) if kept is None else kept
    missing = _missing_rows(schema, table, label=True, features=features) & there
    if schema.missing == "error" and missing.any():
        raise InputError(
            f"record {_where(table, missing)} has no value of {_gap(schema, table, missing)!r}; "
            "fill it in, or declare missing = 'drop' or 'impute'."
        )
    if schema.missing == "impute":
        # A label or an owner cannot be imputed: the record would be invented.
        bare_of = {schema.label.name: _lacks_label(schema, table) & there}
        if schema.node_column is not None:
            bare_of[schema.node_column] = (
                _is_missing(schema, table.columns[schema.node_column]) & there
            )
        for name, bare in bare_of.items():
            if bare.any():
                raise InputError(
                    f"record {_where(table, bare)} has no {name!r}; "
                    "leave such records out of the table."
                )
        missing = np.zeros(len(table), bool)
    keep = there & ~missing
    nodes = None
    if schema.node_column is not None:
        nodes = words_of(table.columns[schema.node_column])[keep].astype(str)
    ids = None if persons is None else persons[keep]
    return keep, _label(schema, table, keep), nodes, ids


def check_columns(schema: Schema, source: str | Path, *, label: bool = True) -> None:
    """Refuse a file without the schema's columns, by a look at its header; label: whether label,
    node and person are needed too."""
    _require(schema, column_names(source), source_name(source), label=label)


def _require(schema: Schema, columns: Collection[str], source: str, *, label: bool) -> None:
    wanted = [column.name for column in schema.columns] + ([schema.label.name] if label else [])
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


def _missing_rows(schema: Schema, table: Table, *, label: bool, features: bool = True) -> Flags:
    """Records that lack a value which nothing in the schema stands in for."""
    missing = np.zeros(len(table), bool)
    for column in schema.columns if features else ():
        if not column.missing_indicator:
            missing |= _lacks(schema, column, table)
    if label:
        missing |= _lacks_label(schema, table)
    if label and schema.node_column is not None:
        missing |= _is_missing(schema, table.columns[schema.node_column])
    return missing


def _gap(schema: Schema, table: Table, missing: Flags) -> str:
    """The column that the first of these records lacks."""
    first = table.part(records=np.flatnonzero(missing)[:1])
    for column in schema.columns:
        if not column.missing_indicator and _lacks(schema, column, first).any():
            return column.name
    return schema.label.name


def _lacks(schema: Schema, column: NumericColumn | CategoricalColumn, table: Table) -> Flags:
    return _is_missing(schema, table.columns[column.name], isinstance(column, NumericColumn))


def _lacks_label(schema: Schema, table: Table) -> Flags:
    label = schema.label
    return _is_missing(schema, table.columns[label.name], label.classes is None)


def _is_missing(schema: Schema, cells: Any, number: bool = False) -> Flags:
    """Missing cells: gaps and nulls, and of a number also every way to write NaN."""
    if isinstance(cells, Coded):
        gaps = _gaps(schema, cells.entries, number)
        return gaps[cells.codes] if gaps.any() else np.zeros(len(cells), bool)
    if cells.dtype.kind != "f":
        return _is_missing(schema, Coded.of(cells), number)
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


def _typed(schema: Schema, table: Table) -> Table:
    """The table with what the schema uses of it as floats or as coded text, whose cells are then
    looked at once for each entry."""
    used = {part.name for part in (*schema.columns, schema.label)} | set(_holders(schema))
    columns = {
        name: Coded.of(cells) if name in used and cells.dtype.kind != "f" else cells
        for name, cells in table.columns.items()
    }
    return replace(table, columns=columns)


def _features(schema: Schema, table: Table, keep: Flags, sparse: bool, dtype: Any) -> Any:
    """The encoded rows of the kept records."""
    return _assembled(schema, [_filled(schema, table, keep)], sparse, dtype)


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


def _filled(schema: Schema, table: Table, keep: Flags) -> _Filled:
    """What the rows of the kept records hold, column by column."""
    filled: list[_Entry] = []
    offset = 0
    for column in schema.columns:
        if isinstance(column, NumericColumn):
            numbers, lacks, codes = _coded_numbers(schema, column, table, keep)
            found = column.encoded(numbers)
            found[np.isnan(numbers)] = 0.0
            filled += [_Entry(offset + k, own, codes) for k, own in enumerate(found.T)]
            if column.missing_indicator:
                filled.append(_Entry(offset + found.shape[1], lacks, codes))
        else:
            levels = _codes(schema, column, table, table.columns[column.name], keep)
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
    levels = _codes(schema, column, table, table.columns[column.name], keep)
    return np.eye(len(column.features))[levels]


def _assembled(schema: Schema, parts: list[_Filled], sparse: bool, dtype: Any) -> Any:
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


def column_numbers(
    schema: Schema, column: NumericColumn, table: Table, keep: Flags
) -> tuple[Floats, Flags]:
    """(n,) kept numbers, missing ones as declared or NaN, and (n,) which were missing."""
    numbers, lacks, codes = _coded_numbers(schema, column, table, keep)
    return (numbers, lacks) if codes is None else (numbers[codes], lacks[codes])


def level_places(schema: Schema, name: str, levels: tuple[str, ...], table: Table) -> Ints:
    """(n,) place of each cell among the levels, or -1 where it is missing or none of them."""
    cells = table.columns[name]
    found = _positions(Coded.of(cells), levels)
    found[_is_missing(schema, cells)] = -1
    return found


def missing_cells(schema: Schema, name: str, table: Table) -> Flags:
    """(n,) which cells of a column are missing."""
    return _is_missing(schema, table.columns[name])


def readable_numbers(
    schema: Schema, name: str, table: Table, order: dates.Order | None = None
) -> Floats:
    """(n,) numbers, NaN where a cell is missing or holds none; order: of dates, read as years."""
    cells = table.columns[name]
    if not isinstance(cells, Coded) and cells.dtype.kind == "f":
        return np.where(_is_missing(schema, cells) | ~np.isfinite(cells), np.nan, cells)
    column = Coded.of(cells)
    values, known = _read(column.entries, order)
    good = known & ~_gaps(schema, column.entries, number=True)
    return np.where(good, values, np.nan)[column.codes]


def _coded_numbers(
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
        found[_is_missing(schema, cells)[keep]] = np.nan
        return found, None
    column = Coded.of(cells)
    values, known = _read(column.entries, order)
    gaps = _gaps(schema, column.entries, number=True)
    wrong = ~(known | gaps)
    if wrong.any() and (wrong := wrong[column.codes] & keep).any():
        if order is not None:
            raise InputError(
                f"column {name!r} must hold dates in the order {order!r} (year, month, day), but "
                f"record {_where(table, wrong)} holds something else; correct it, declare another "
                "date in the schema, or add that text to missing_values."
            )
        raise InputError(
            f"column {name!r} must be numeric, but record {_where(table, wrong)} holds other "
            "text; correct it, declare the column categorical, "
            "or add that text to missing_values."
        )
    return np.where(gaps, np.nan, values), column.codes[keep]


def _unreadable(schema: Schema, cells: Any, order: dates.Order | None = None) -> Flags:
    """Cells that are neither missing nor a number, or a date in this order."""
    if not isinstance(cells, Coded) and cells.dtype.kind == "f":
        return np.zeros(len(cells), bool)
    column = Coded.of(cells)
    known = _read(column.entries, order)[1] | _gaps(schema, column.entries, number=True)
    return ~known[column.codes]


def _read(entries: Entries, order: dates.Order | None) -> tuple[Floats, Flags]:
    """(k,) entries as numbers, or dates as years, and which can be read."""
    return entries.numbers if order is None else entries.years(order)


def _level_codes(schema: Schema, column: CategoricalColumn, cells: Any) -> Ints:
    """Position of each cell among the levels, -1 for what is none."""
    gaps, cells = _is_missing(schema, cells), Coded.of(cells)
    codes = _positions(cells, column.levels)
    if column.missing_indicator:
        codes[gaps] = len(column.features) - 1
    else:
        codes[gaps] = -1 if column.impute is None else column.levels.index(column.impute)
    return codes


def _codes(
    schema: Schema, column: CategoricalColumn, table: Table, cells: Any, keep: Flags
) -> Ints:
    """Position of each kept cell among the levels;
    undeclared ones take the last place or are refused."""
    codes = _level_codes(schema, column, cells)
    wrong = (codes < 0) & keep
    if wrong.any():
        if column.unknown != "column":
            raise InputError(
                f"column {column.name!r} of record {_where(table, wrong)} holds a level that the "
                "schema does not declare; correct the record, add the level to the schema if it is "
                "public, or set unknown = 'column'."
            )
        codes[wrong] = len(column.levels)
    return codes[keep]


def _label(schema: Schema, table: Table, keep: Flags) -> Array:
    label, cells = schema.label, table.columns[schema.label.name]
    if label.classes is None:
        values, own = _numbers(schema, label.name, table, cells, keep)
        numbers = values if own is None else values[own]
        centre, reach = label.centre_and_reach
        return (np.clip(numbers, label.low, label.high) - centre) / reach
    codes = _positions(Coded.of(cells), label.classes)
    wrong = (codes < 0) & keep
    if wrong.any():
        raise InputError(
            f"label {label.name!r} of record {_where(table, wrong)} is not one of the declared "
            f"classes {list(label.classes)}; add the class to the schema or correct the record."
        )
    return codes[keep]


def _positions(cells: Coded, known: tuple[str, ...]) -> Ints:
    """(n,) place of each cell in `known`, or -1."""
    place = {word: k for k, word in enumerate(known)}
    words = cells.entries.stripped
    found = np.fromiter((place.get(word, -1) for word in words), np.int64, count=len(words))
    return found[cells.codes]


def _where(table: Table, rows: Flags) -> int:
    """The number of the first such record in its source, from 1."""
    return table.number(int(np.argmax(rows)))


def _stack_facts(parts: list[list[Any]]) -> list[Any]:
    """Each fact of all chunks: labels, nodes, persons, fingerprints."""
    if len(parts) == 1:
        return parts[0]
    return [None if own[0] is None else np.concatenate(own) for own in zip(*parts, strict=True)]
