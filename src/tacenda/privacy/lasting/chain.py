"""The hash chain of the lasting ledger: how a row is sealed, and how all rows are checked.

Row s is sealed with SHA-256 over the previous seal and the row's own fields; the first one follows
the hash of the salt. A changed, removed, added or reordered row breaks the chain at that place; the
head record (number and seal of the last row, kept apart) shows a tail that was cut off.

**Limits.** The chain holds no secret: who can write the file can also forge a whole new chain, or
put an older copy of the file back. Against that, note `head()` somewhere else (with the other
members, on paper) and give it to `verify`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tacenda.formats.text import canonical_json
from tacenda.words import counted

FIELDS = ("seq", "time", "kind", "dataset", "run", "key", "event", "body")


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


def genesis(salt: bytes) -> str:
    """The seal before the first row."""
    return hashlib.sha256(b"tacenda ledger v1" + salt).hexdigest()


def seal(previous: str, row: dict[str, Any]) -> str:
    """SHA-256 over the previous seal and the row's fields, written as JSON in one fixed way."""
    text = canonical_json([row[name] for name in FIELDS])
    return hashlib.sha256(bytes.fromhex(previous) + text.encode()).hexdigest()


def verify_chain(
    rows: Iterable[dict[str, Any]],
    first: str | None,
    head: tuple[int, str] | None,
    anchor: tuple[int, str] | None = None,
) -> Verification:
    """Walk the rows (in stored order, each with `previous` and `hash`)
    and name the first that is wrong."""
    count, last, anchored = 0, first, anchor is None or anchor[0] == 0
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
    if row["seq"] != number:
        return f"row {number} is missing or out of order, row {row['seq']} is in its place"
    if last is not None and row["previous"] != last:
        return "it does not follow the row before it"
    try:
        sealed = seal(row["previous"], row)
    except (ValueError, TypeError):
        return "it cannot be read"
    return "" if sealed == row["hash"] else "its contents do not match its seal"


def verify_lines(lines: Iterable[str], anchor: tuple[int, str] | None = None) -> Verification:
    """Check an exported ledger (JSON lines), without the ledger's file;
    its last row is taken as the end."""
    return verify_chain((json.loads(line) for line in lines if line.strip()), None, None, anchor)
