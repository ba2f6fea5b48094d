"""Which records are held out of training: a secret draw that depends on no record's values.

Under replace-one the positions are drawn: those with the smallest keyed hashes, exactly as many as
were declared, so that both sizes are public and a record that is replaced stays on its side. Under
add-remove every record, or person, has a coin of its own, keyed by what it is, so that one that
comes or goes moves no other. The same key gives the same answer for ever: who looks at the result
and draws again gets the same records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from tacenda._types import Flags

_BITS = 64


def held_out_positions(key: bytes, records: int, held_out: int) -> Flags:
    """(records,) whether the record at a position is held out; `held_out` of them are."""
    hashes = np.fromiter(
        (_number(key, b"position", place.to_bytes(8, "big")) for place in range(records)),
        np.uint64,
        records,
    )
    found = np.zeros(records, bool)
    found[np.argsort(hashes, kind="stable")[:held_out]] = True
    return found


def held_out_coins(key: bytes, owners: Iterable[bytes], share: float) -> Flags:
    """One flag for each owner (a record's or a person's own bytes): held out with probability
    `share`, the same for equal bytes."""
    limit = int(share * 2**_BITS)
    return np.array([_number(key, b"coin", owner) < limit for owner in owners], bool)


def _number(key: bytes, purpose: bytes, content: bytes) -> int:
    found = hashlib.blake2b(content, key=key, person=purpose, digest_size=_BITS // 8)
    return int.from_bytes(found.digest(), "big")
