"""Which records of a table can be encoded as they are, and where they stand."""

from __future__ import annotations

import numpy as np

from tacenda._types import Flags, Ints
from tacenda.data.cells import (
    is_missing,
    lacks_label,
    level_codes,
    missing_rows,
    places_in,
    require_columns,
    unreadable,
)
from tacenda.data.coded import Coded
from tacenda.data.columns import NumericColumn
from tacenda.data.persons import kept_of_persons
from tacenda.data.schema import Schema
from tacenda.data.table import Table


def kept_positions(
    schema: Schema, table: Table, records_per_person: int | None, person_key: bytes | None
) -> Ints:
    """Where the records that `encode_usable` gives, but for blank ones, stand in the table."""
    good = np.flatnonzero(usable(schema, table))
    kept = kept_of_persons(schema, table.part(records=good), records_per_person, person_key)
    return good if kept is None else good[kept]


def usable(schema: Schema, table: Table) -> Flags:
    """(records,) whether each can be encoded as it is."""
    require_columns(schema, table.columns, table.source, label=True)
    if schema.missing == "impute":
        good = ~lacks_label(schema, table)
        if schema.node_column is not None:
            good &= ~is_missing(schema, table.columns[schema.node_column])
    else:
        good = ~missing_rows(schema, table, label=True)
    if schema.person is not None:
        good &= ~is_missing(schema, table.columns[schema.person])
    for column in schema.columns:
        cells = table.columns[column.name]
        if isinstance(column, NumericColumn):
            good &= ~unreadable(schema, cells, column.date)
        elif column.unknown != "column":
            good &= level_codes(schema, column, cells) >= 0
    if schema.label.survival:
        return good & ~lacks_label(schema, table)
    cells = table.columns[schema.label.name]
    if schema.label.classes is None:
        return good & ~unreadable(schema, cells)
    return good & (places_in(Coded.of(cells), schema.label.classes) >= 0)
