"""Whose a record is: the persons behind the records of a table, and which of theirs are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._types import Array, Flags
from tacenda.data.cells import first_of, is_missing
from tacenda.data.coded import words_of
from tacenda.data.readers import pieces
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError
from tacenda.privacy.noise.persons import PUBLIC_KEY, kept_records, person_names


def person_words(schema: Schema, table: Table) -> Array:
    """(records,) the ids of the persons; a record without one is of a person of its own."""
    bare = is_missing(schema, table.columns[str(schema.person)])
    found = words_of(table.columns[str(schema.person)]).astype(object)
    found[bare] = [f"\0nobody {k}" for k in np.flatnonzero(bare).tolist()]
    return found.astype(str)


def kept_of_persons(
    schema: Schema, table: Any, most: int | None, key: bytes | None
) -> Flags | None:
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
    for chunk in pieces(table, rows=None, names=holder_columns(schema)):
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


def holder_columns(schema: Schema) -> list[str]:
    """The columns that say whose a record is: its node, its person."""
    return [name for name in (schema.node_column, schema.person) if name is not None]


def persons_of(schema: Schema, table: Table) -> Array:
    """(records,) the ids of the persons; a record without one is refused."""
    cells = table.columns[str(schema.person)]
    bare = is_missing(schema, cells)
    if bare.any():
        raise InputError(
            f"record {first_of(table, bare)} has no {schema.person!r}, so it could belong to "
            f"anybody; give it an id of its own if no other record can be of the same person, or "
            f"leave it out of the table."
        )
    return person_names(words_of(cells), str(schema.person))
