"""The hash chain of a journal: how a row is sealed, and how all rows are checked.

Row s is sealed with SHA-256 over the previous seal and the row's own fields. A changed, removed,
added or reordered row breaks the chain at that place; the head record (number and seal of the last
row, kept apart) shows a tail that was cut off.

**Limits.** The chain holds no secret: who can write the file can also forge a whole new chain, or
put an older copy of the file back. Against that, note the head somewhere else (with the other
members, on paper, in a mark outside the folder) and give it to `verify`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tacenda.formats.text import canonical_json
from tacenda.words import counted

Head = tuple[int, str]  # number of the last row, and its seal in hex digits
START: Head = (0, bytes(32).hex())
RECORD_BYTES = 72


@dataclass(frozen=True)
class Verification:
    """`ok`, how many `rows` were sound, and if not ok the first `broken` row and the `reason`."""

    rows: int
    broken: int | None = None
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.broken is None

    def __str__(self) -> str:
        return (
            f"{counted(self.rows, 'row')}, all sound"
            if self.ok
            else f"row {self.broken} is broken: {self.reason}"
        )


def seal(previous: str, values: Sequence[Any]) -> str:
    """SHA-256 over the previous seal and a row's values, written as JSON in one fixed way."""
    text = canonical_json([v.hex() if isinstance(v, bytes) else v for v in values])
    return hashlib.sha256(bytes.fromhex(previous) + text.encode()).hexdigest()


def verify_chain(
    rows: Iterable[dict[str, Any]],
    start: tuple[int, str | None],
    head: Head | None,
    anchor: Head | None = None,
) -> Verification:
    """Walk the rows and name the first that is wrong. Each has its sealed fields in order, then
    `previous` and `hash`; they follow the row `start`, whose seal may be unknown."""
    count, last = start
    anchored = anchor is None or anchor[0] == 0
    for row in rows:
        reason = _fault(row, count + 1, last)
        if reason:
            return Verification(count, count + 1, reason)
        count, last = count + 1, row["hash"]
        if anchor is not None and anchor[0] == count:
            if anchor[1] != last:
                return Verification(
                    count - 1,
                    count,
                    "its seal differs from the one noted elsewhere: the chain was rewritten",
                )
            anchored = True
    if not anchored and anchor is not None:
        return Verification(
            count, count + 1, f"it and those up to {anchor[0]} were noted elsewhere and are missing"
        )
    if head is not None and head != (count, last):
        missing = f"the head record names row {head[0]} as the last one"
        return Verification(
            count,
            min(count, head[0]) + 1,
            f"{missing}, the table ends at {count}: the tail was cut or added",
        )
    return Verification(count)


def _fault(row: dict[str, Any], number: int, last: str | None) -> str:
    *values, previous, hashed = row.values()
    if row["seq"] != number:
        return f"row {number} is missing or out of order, row {row['seq']} is in its place"
    if last is not None and previous != last:
        return "it does not follow the row before it"
    try:
        sealed = seal(previous, values)
    except (ValueError, TypeError):
        return "it cannot be read"
    return "" if sealed == hashed else "its contents do not match its seal"


def head_record(head: Head, key: bytes) -> bytes:
    """A head as bytes that only the holder of the key makes: count (8), seal (32), MAC (32)."""
    text = head[0].to_bytes(8, "big") + bytes.fromhex(head[1])
    return text + _mac(text, key)


def head_of(record: bytes, key: bytes) -> Head | None:
    """The head in a record; None if it is not one, or was made with another key."""
    text, mac = record[:40], record[40:]
    if len(record) != RECORD_BYTES or not hmac.compare_digest(mac, _mac(text, key)):
        return None
    return int.from_bytes(text[:8], "big"), text[8:].hex()


def _mac(text: bytes, key: bytes) -> bytes:
    return hmac.new(key, b"tacenda mark v1\0" + text, hashlib.sha256).digest()
