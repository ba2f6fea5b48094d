"""Persons as the unit: at most k records of each are kept, before anything else is done with the
records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacenda._types import Array, Ints
from tacenda.errors import InputError
from tacenda.privacy.noise.persons import kept_records, most_nodes, person_names
from tacenda.questions.validate.rows import JoinedShards


def joined_persons(table: JoinedShards, persons: Any, members_per_person: int) -> list[Array]:
    """One array of ids per node, in the order of the table; messages name the node, never an id."""
    counts = np.diff(table.offsets).tolist()
    found = []
    for position, own in enumerate(table.by_node("persons", persons)):
        name = table.node_name(position)
        ids = person_names(own, f"persons of {name}")
        if len(ids) != counts[position]:
            raise InputError(
                f"{name} has {counts[position]} records and {len(ids)} ids of persons; "
                "give one per record."
            )
        found.append(ids)
    refuse_spread(most_nodes(found), members_per_person)
    return found


def refuse_spread(most: int, members_per_person: int) -> None:
    """Refuse persons who are on more nodes, `most` at most, than is declared."""
    if most > members_per_person:
        raise InputError(
            f"members_per_person must be at least {most}, because one person is on that many "
            f"nodes, not "
            f"{members_per_person}: put all records of a person on one node "
            "(data.partition.by_person), or declare it."
        )


def capped(
    table: JoinedShards, persons: list[Array], most: int, key: bytes
) -> tuple[JoinedShards, Ints]:
    """(the table with at most `most` records of each person and node, the positions of those)."""
    parts = [
        start + kept_records(own, most, key)
        for start, own in zip(table.offsets, persons, strict=False)
    ]
    kept = np.concatenate(parts).astype(np.int64)
    if len(kept) == table.offsets[-1]:
        return table, kept
    rows: Any = table.rows
    if isinstance(rows, tuple):
        from scipy.sparse import csr_array

        shape = (int(table.offsets[-1]), table.n_features)
        part = csr_array(rows, shape=shape)[kept]
        rows = (part.data, part.indices.astype(rows[1].dtype), part.indptr.astype(rows[2].dtype))
    else:
        rows = rows[kept]
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in parts])]).astype(np.int64)
    labels = [
        own[kept[(kept >= first) & (kept < first + len(own))] - first]
        for first, own in table.pieces()
    ]
    return replace(table, rows=rows, labels=labels, offsets=offsets), kept
