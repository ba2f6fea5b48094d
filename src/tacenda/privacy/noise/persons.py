"""Draws for whole persons: which of a person's records are kept, on which side of a split a person
is, at which node.

Each draw is a keyed hash of the person's id (BLAKE2b), and looks at nothing else: not at values,
not at other persons. So one person more or less changes nothing for the others, whoever knows the
key; who does not know it cannot foresee the draws.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array, Ints
from tacenda.errors import InputError

PUBLIC_KEY = b"tacenda simulation"  # where nothing needs to be secret: a simulation


def person_names(ids: Any, where: str = "persons") -> Array:
    """(m,) the ids as texts: those of text without white space around them, whole numbers by their
    digits. A record without an id is refused: it might be anybody's."""
    # As objects: among texts NumPy would write a missing id as the text "nan"
    column = ids if isinstance(ids, np.ndarray) else np.asarray(ids, dtype=object)
    if column.ndim != 1:
        raise InputError(f"{where} must hold one id per record, not shape {column.shape}.")
    if column.dtype.kind in "iu":
        return column.astype(str)
    return np.array([_name(value, where) for value in column.tolist()], dtype=str)


def _name(value: Any, where: str) -> str:
    if isinstance(value, str):
        text = unicodedata.normalize("NFC", value).strip()
        if text:
            return text
    elif (isinstance(value, (int, np.integer)) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    ):
        return str(int(value))
    raise InputError(
        f"{where} must hold a text or a whole number for every record, and one record has none; "
        "give it an id of its own if no other record can be of the same person, or leave it out."
    )


def kept_records(persons: Array, most: int, key: bytes) -> Ints:
    """The positions, in order, of the at most `most` records of each person that are kept; which
    ones is drawn by (key, person, number of the record among the person's own)."""
    limit = checks.whole("records_per_person", most, least=1)
    names, who, counts = np.unique(persons, return_inverse=True, return_counts=True)
    kept = np.ones(len(persons), bool)
    order = np.argsort(who, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)])
    for person in np.flatnonzero(counts > limit):
        own = order[starts[person] : starts[person + 1]]
        drawn = [_word(key, "keep", str(names[person]), place) for place in range(len(own))]
        kept[own[np.argsort(np.array(drawn, np.uint64), kind="stable")[limit:]]] = False
    return np.flatnonzero(kept)


def persons_over(persons: Array, n: int, key: bytes) -> Ints:
    """(m,) a node from 0 to n - 1 for each record, the same for all records of a person."""
    nodes = checks.whole("n", n, least=1)
    names, who = np.unique(persons, return_inverse=True)
    drawn = [(_word(key, "node", str(name), 0) * nodes) >> 64 for name in names]
    return np.array(drawn, np.int64)[who]


def _word(key: bytes, purpose: str, name: str, place: int) -> int:
    """64 bits that depend on the key, the purpose, the person and a number."""
    keyed = key if len(key) <= 64 else hashlib.sha256(key).digest()
    found = hashlib.blake2b(digest_size=8, key=keyed, person=purpose.encode())
    found.update(place.to_bytes(8, "big") + name.encode("utf-8", "surrogatepass"))
    return int.from_bytes(found.digest(), "big")


def most_nodes(persons: Iterable[Array]) -> int:
    """On how many nodes the same id is, at most."""
    seen = [np.unique(own) for own in persons]
    if not seen:
        return 0
    counts = np.unique(np.concatenate(seen), return_counts=True)[1]
    return int(counts.max(initial=0))
