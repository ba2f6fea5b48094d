"""Which positions are held out of training, by a key: the same for ever, on every machine.

Those with the smallest keyed hashes are, exactly as many as were declared: both sizes are public,
and a record that is replaced by another stays on its side. Who looks at the result and draws again
draws the same positions.
"""

from __future__ import annotations

import hashlib

import numpy as np

from tacenda._types import Array, Flags


def keyed_positions(key: bytes, records: int, held_out: int) -> Flags:
    """(records,) whether the record at a position is held out; `held_out` of them are."""
    hashes = np.fromiter((_number(key, place) for place in range(records)), np.uint64, records)
    found = np.zeros(records, bool)
    found[np.argsort(hashes, kind="stable")[:held_out]] = True
    return found


def keyed_ids(key: bytes, names: Array, held_out: int) -> Flags:
    """(n,) whether each id is held out: the same, by ids instead of positions."""
    hashes = np.array([_word(key, str(name)) for name in names], np.uint64)
    found = np.zeros(len(names), bool)
    found[np.argsort(hashes, kind="stable")[:held_out]] = True
    return found


def _word(key: bytes, name: str) -> int:
    raw = name.encode("utf-8", "surrogatepass")
    drawn = hashlib.blake2b(raw, key=key, person=b"tacenda-held-id", digest_size=8)
    return int.from_bytes(drawn.digest(), "big")


def _number(key: bytes, place: int) -> int:
    drawn = hashlib.blake2b(
        place.to_bytes(8, "big"), key=key, person=b"tacenda-position", digest_size=8
    )
    return int.from_bytes(drawn.digest(), "big")
