"""The ledger's SQLite file: its tables, its salt, and the one way to add a row."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacenda.errors import StateError
from tacenda.formats.text import canonical_json
from tacenda.privacy.lasting.chain import Head, Verification, seal, verify_chain
from tacenda.privacy.lasting.files import close_to_others, make_private
from tacenda.privacy.lasting.journal import HEAD, Journal
from tacenda.privacy.lasting.sqlite_file import SqliteFile

VERSION = "1"  # of the file
FIELDS = ("seq", "time", "kind", "dataset", "run", "key", "event", "body")
ROW = (*FIELDS, "previous", "hash")
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rows (
    seq INTEGER PRIMARY KEY,
    time TEXT NOT NULL, kind TEXT NOT NULL, dataset TEXT NOT NULL, run TEXT NOT NULL,
    key TEXT NOT NULL, event TEXT NOT NULL, body TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS once ON rows (run, key) WHERE kind = 'charge';
CREATE UNIQUE INDEX IF NOT EXISTS once_reserved ON rows (run, key) WHERE kind = 'reserve';
CREATE INDEX IF NOT EXISTS stretches ON rows (run) WHERE kind = 'charges';
CREATE INDEX IF NOT EXISTS budgets ON rows (dataset, seq) WHERE kind = 'budget';
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, dataset TEXT NOT NULL, adjacency TEXT NOT NULL, open INTEGER NOT NULL,
    records INTEGER, members INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tally (
    run TEXT NOT NULL, event TEXT NOT NULL, reserved INTEGER NOT NULL, charged INTEGER NOT NULL,
    PRIMARY KEY (run, event));
CREATE TABLE IF NOT EXISTS sketches (
    dataset TEXT NOT NULL, digest TEXT NOT NULL, sketch BLOB NOT NULL,
    PRIMARY KEY (dataset, digest));
CREATE INDEX IF NOT EXISTS noted ON rows (key) WHERE kind = 'records';
CREATE TABLE IF NOT EXISTS rosters (run TEXT PRIMARY KEY, ids BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS rows_stay BEFORE UPDATE ON rows
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS rows_last BEFORE DELETE ON rows
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""


class LedgerFile(SqliteFile):
    """The ledger at `path`, made if it is missing."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.journal = Journal(self, "rows", FIELDS, lambda: (0, _genesis(self.salt)))
        super().__init__(path, timeout, unwritten=self._full)

    def append(
        self,
        kind: str,
        dataset: str,
        run: str = "",
        key: str = "",
        event: str = "",
        body: Any = None,
    ) -> None:
        """Add a sealed row; only inside `writing`."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.journal.append([(moment, kind, dataset, run, key, event, canonical_json(body))])

    def head(self) -> Head:
        """Number and seal of the last row."""
        return self.journal.head()

    @property
    def salt(self) -> bytes:
        row = self.one("SELECT value FROM meta WHERE name = 'salt'")
        if row is None:
            raise StateError(
                f"the ledger {str(self.path)!r} has lost its salt; restore it from a copy."
            )
        return bytes.fromhex(row[0])

    def keyed(self, content: bytes) -> str:
        """A hash of `content` under the ledger's own salt."""
        return hmac.new(self.salt, content, hashlib.sha256).hexdigest()

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows in order, as dicts; inside `reading`."""
        return self.journal.rows()

    def copy_to(self, path: Path) -> None:
        """Everything, as of one moment, in a new file of its own."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(path)) as copy:
            self.backup(copy)

    def _full(self, failed: sqlite3.Error) -> StateError | None:
        if getattr(failed, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
            return None
        return StateError(
            f"the ledger {str(self.path)!r} cannot be written, because its disk is full: "
            "this was not booked, so nothing was released for it; free some space there, "
            "and go on."
        )

    def _open(self) -> None:
        make_private(self.path)
        try:
            super()._open()
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise StateError(
                f"the ledger {str(self.path)!r} cannot be opened ({error}); "
                "if it is damaged, put its newest copy back: an older one shows less than was "
                "spent, and so does a new file."
            ) from error
        try:
            close_to_others(self.path)
            self._check_head()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        names = "'meta', 'rows', 'head', 'tally', 'sketches'"
        known = self.one(
            f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ({names})"
        )
        if known == (0,):
            with self.writing():
                self.execute_all(SCHEMA + HEAD)
                self.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", VERSION)
                self.execute("INSERT OR IGNORE INTO meta VALUES ('salt', ?)", secrets.token_hex(32))
        version = self.one("SELECT value FROM meta WHERE name = 'version'")
        if version is None or version[0] != VERSION:
            found = None if version is None else version[0]
            raise StateError(
                f"the ledger's version must be {VERSION!r}, not {found!r}; "
                "open it with the program that wrote it."
            )

    def _check_head(self) -> None:
        """The cheap part of `verify`, at every opening."""
        end = self.journal.end()
        if end != self.head():
            raise StateError(
                f"the ledger {str(self.path)!r} was changed by hand: "
                f"its last row is {end[0]}, its head record says otherwise; "
                "restore it from a copy (`verify` on the copy names the place)."
            )


def body_of(row: dict[str, Any]) -> Any:
    return json.loads(row["body"])


def is_sealed(row: dict[str, Any]) -> bool:
    """True if an exported row is what was sealed."""
    return seal(row["previous"], [row[name] for name in FIELDS]) == str(row["hash"])


def verify_lines(lines: Iterable[str], anchor: Head | None = None) -> Verification:
    """Check an exported ledger (JSON lines), without the ledger's file;
    its last row is taken as the end."""
    rows = (json.loads(line) for line in lines if line.strip())
    ordered = ({name: row[name] for name in ROW} for row in rows)
    return verify_chain(ordered, (0, None), None, anchor)


def _genesis(salt: bytes) -> str:
    """The seal before the first row."""
    return hashlib.sha256(b"tacenda ledger v1" + salt).hexdigest()
