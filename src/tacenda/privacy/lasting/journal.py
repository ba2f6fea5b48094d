"""The journal: a table of which every row is sealed and follows the one before it.

The lasting ledger and a node's state each keep their charges in one. A row goes in inside the
owner's transaction (`SqliteFile.writing`), together with all that depends on it, and the head
(number and seal of the last row) moves with it. Rows of rounds that are long done can be folded:
many equal rounds become one line, from whose seal the chain goes on (`fold`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tacenda.formats.text import canonical_json
from tacenda.privacy.lasting.chain import (
    Head,
    Verification,
    head_of,
    head_record,
    seal,
    verify_chain,
)
from tacenda.privacy.lasting.rounds import Charge, Stretch, fold, from_text, to_text
from tacenda.privacy.lasting.sqlite_file import SqliteFile

HEAD = """
CREATE TABLE IF NOT EXISTS head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL, hash TEXT NOT NULL, record BLOB NOT NULL);
"""
FOLDED = """
CREATE TABLE IF NOT EXISTS folded (
    n INTEGER PRIMARY KEY, stretch TEXT NOT NULL, hash TEXT NOT NULL, mac BLOB NOT NULL);
"""


@dataclass(frozen=True)
class Journal:
    """The rows of `table`. columns: what is sealed, `seq` first; the table has `previous` and
    `hash` behind them. start: the head before the first row. key: makes the head and the folded
    lines the work of whoever holds it; a journal without one is never folded."""

    file: SqliteFile
    table: str
    columns: tuple[str, ...]
    start: Callable[[], Head]
    key: Callable[[], bytes] | None = None

    def begin(self) -> None:
        """Note the head before the first row, so that an emptied table is seen; only inside
        `writing`."""
        self._keep(self.start())

    def begun(self) -> bool:
        """True if anything was ever noted here, and is there."""
        tables = ("head", self.table, "folded")
        return any(self.file.one(f"SELECT 1 FROM {name} LIMIT 1") for name in tables)

    def append(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add sealed rows, their numbers left out, and move the head; only inside `writing`."""
        before = count, last = self.head()
        marks = ", ".join("?" * (len(self.columns) + 2))
        for values in rows:
            row, previous = (count + 1, *values), last
            count, last = count + 1, seal(previous, row)
            self.file.execute(f"INSERT INTO {self.table} VALUES ({marks})", *row, previous, last)
        if (count, last) != before:
            self._keep((count, last))

    def _keep(self, head: Head) -> None:
        record = b"" if self.key is None else head_record(head, self.key())
        self.file.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?, ?)", *head, record)

    def head(self) -> Head:
        """Number and seal of the last row."""
        row = self.file.one("SELECT seq, hash FROM head")
        return (int(row[0]), str(row[1])) if row else self.start()

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows in order, as dicts; inside a transaction."""
        names = (*self.columns, "previous", "hash")
        for row in self.file.execute(f"SELECT {', '.join(names)} FROM {self.table} ORDER BY seq"):
            yield dict(zip(names, row, strict=True))

    def end(self) -> Head:
        """Number and seal of the last row in the table, which the head must name."""
        row = self.file.one(f"SELECT seq, hash FROM {self.table} ORDER BY seq DESC LIMIT 1")
        return (int(row[0]), str(row[1])) if row else self.start()

    def verify(self, anchor: Head | None = None) -> Verification:
        """Check every line, every row and the head, and name the first that is wrong; inside a
        transaction."""
        start = self.start()
        if self.key is not None:
            start, fault = self._checked_lines(self.key)
            fault = fault or self._head_fault(self.key)
            if fault:
                return Verification(start[0], start[0] + 1, fault)
        return verify_chain(self.rows(), start, self.head(), anchor)

    # -- folding

    def stretches(self) -> list[tuple[Stretch, str]]:
        """The folded lines in order, each with the seal behind its last charge."""
        rows = self.file.all("SELECT stretch, hash FROM folded ORDER BY n")
        return [(stretch, hashed) for text, hashed in rows for stretch in from_text(text)]

    def last_folded(self) -> tuple[int, int]:
        """(view, round) of the last charges that are folded; before all rounds if none are."""
        row = self.file.one("SELECT stretch FROM folded ORDER BY n DESC LIMIT 1")
        if row is None:
            return -1, -1
        (stretch,) = from_text(row[0])
        return stretch.view, stretch.last

    def fold(self, done: tuple[int, int], before: int) -> None:
        """Put the charges of whole rounds before the round `done` into lines, as far as their
        numbers are below `before`; only inside `writing`."""
        charges: list[Charge] = []
        seals: list[str] = []
        for row in self.rows():
            if (row["view"], row["round"]) >= done or row["seq"] >= before:
                break
            charges.append(((row["view"], row["round"], row["call"]), row["event"]))
            seals.append(row["hash"])
        # The last round may go on beyond what was taken
        beyond = charges[-1][0][:2] if charges else None
        while charges and charges[-1][0][:2] == beyond:
            charges.pop()
        if not charges or self.key is None:
            return
        lines = self.stretches()
        last = lines[-1][0] if lines else None
        kept = max(0, len(lines) - 1)
        mac = self._mac_before(kept)
        taken = 0 if last is None else -last.count  # of the charges, behind each line
        for n, stretch in enumerate(fold(charges, last), kept):
            taken += stretch.count
            hashed = seals[taken - 1] if taken else lines[-1][1]
            text = to_text([stretch])
            mac = _line_mac(mac, text, hashed, self.key())
            self.file.execute(
                "INSERT OR REPLACE INTO folded VALUES (?, ?, ?, ?)", n, text, hashed, mac
            )
        self.file.execute(
            f"DELETE FROM {self.table} WHERE seq <= ?",
            sum(stretch.count for stretch, _ in lines) + len(charges),
        )

    def _mac_before(self, n: int) -> bytes:
        row = self.file.one("SELECT mac FROM folded WHERE n = ?", n - 1)
        return b"" if row is None else bytes(row[0])

    def _checked_lines(self, key: Callable[[], bytes]) -> tuple[Head, str]:
        """(the head behind the folded lines, what is wrong with them)."""
        count, hashed = self.start()
        mac = b""
        for k, (n, text, seal_of_line, said) in enumerate(
            self.file.all("SELECT n, stretch, hash, mac FROM folded ORDER BY n")
        ):
            mac = _line_mac(mac, text, seal_of_line, key())
            if n != k or not hmac.compare_digest(mac, bytes(said)):
                return (count, hashed), f"its line {k + 1} of folded charges is not what it was"
            (stretch,) = from_text(text)
            count, hashed = count + stretch.count, seal_of_line
        return (count, hashed), ""

    def _head_fault(self, key: Callable[[], bytes]) -> str:
        row = self.file.one("SELECT seq, hash, record FROM head")
        if row is not None and head_of(bytes(row[2]), key()) == (row[0], row[1]):
            return ""
        return "the head record is missing or damaged"


def _line_mac(before: bytes, text: str, hashed: str, key: bytes) -> bytes:
    """A folded line's place in the chain of lines; before: the MAC of the one before it."""
    fields = b"tacenda folded v1\0" + before + canonical_json([text, hashed]).encode()
    return hmac.new(key, fields, hashlib.sha256).digest()
