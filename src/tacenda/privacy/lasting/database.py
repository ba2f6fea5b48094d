"""The ledger's SQLite file: connection, transactions, and the one way to add a row."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacenda.errors import StateError
from tacenda.formats.text import canonical_json
from tacenda.privacy.lasting.chain import FIELDS, genesis, seal
from tacenda.privacy.lasting.files import close_to_others, make_private

VERSION = "4"  # of the file
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
CREATE TABLE IF NOT EXISTS head (
    one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL);
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
CREATE TRIGGER IF NOT EXISTS rows_stay BEFORE UPDATE ON rows
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS rows_last BEFORE DELETE ON rows
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""


class LedgerFile:
    """One connection per process, guarded for threads; writers of all processes take turns."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path, self._timeout = path, timeout
        self._lock = threading.RLock()
        self._inherited: list[sqlite3.Connection] = []
        self._open()

    def execute(self, query: str, *values: Any) -> sqlite3.Cursor:
        return self._connection().execute(query, values)

    def one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        with self._lock:
            found: tuple[Any, ...] | None = self.execute(query, *values).fetchone()
            return found

    def all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self.execute(query, *values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """All or nothing, and nobody else writes meanwhile."""
        with self._lock, self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Several queries that see the same state."""
        with self._lock:
            if self._connection().in_transaction:
                yield
                return
            with self._transaction("BEGIN"):
                yield

    def append(
        self,
        kind: str,
        dataset: str,
        run: str = "",
        key: str = "",
        event: str = "",
        body: Any = None,
    ) -> None:
        """Add a sealed row and move the head; only inside `writing`."""
        last, previous = self.head()
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        values = (last + 1, moment, kind, dataset, run, key, event, canonical_json(body))
        hashed = seal(previous, dict(zip(FIELDS, values, strict=True)))
        self.execute(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *values, previous, hashed
        )
        self.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", last + 1, hashed)

    def head(self) -> tuple[int, str]:
        """Number and seal of the last row."""
        row = self.one("SELECT seq, hash FROM head")
        return (int(row[0]), str(row[1])) if row else (0, genesis(self.salt))

    @property
    def salt(self) -> bytes:
        row = self.one("SELECT value FROM meta WHERE name = 'salt'")
        if row is None:
            raise StateError(
                f"the ledger {str(self._path)!r} has lost its salt; restore it from a copy."
            )
        return bytes.fromhex(row[0])

    def keyed(self, content: bytes) -> str:
        """A hash of `content` under the ledger's own salt."""
        return hmac.new(self.salt, content, hashlib.sha256).hexdigest()

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows in order, as dicts; inside `reading`."""
        names = (*FIELDS, "previous", "hash")
        for row in self.execute(f"SELECT {', '.join(names)} FROM rows ORDER BY seq"):
            yield dict(zip(names, row, strict=True))

    def copy_to(self, path: Path) -> None:
        """Everything, as of one moment, in a new file of its own."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with self._lock, closing(sqlite3.connect(path)) as copy:
            self._connection().backup(copy)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _connection(self) -> sqlite3.Connection:
        # After a fork: closing the parent's handle would drop the parent's locks
        if self._pid != os.getpid():
            self._inherited.append(self._db)
            self._lock = threading.RLock()
            self._open()
        return self._db

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        connection = self._connection()
        connection.execute(begin)
        try:
            yield
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:  # a full disk ends it by itself
                connection.execute("ROLLBACK")
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            if isinstance(error, sqlite3.OperationalError) and full:
                raise StateError(
                    f"the ledger {str(self._path)!r} cannot be written, because its disk is full: "
                    "this was not booked, so nothing was released for it; free some space there, "
                    "and go on."
                ) from None
            raise

    def _open(self) -> None:
        self._pid = os.getpid()
        make_private(self._path)
        try:
            self._db = sqlite3.connect(
                self._path,
                timeout=self._timeout,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=64,
            )
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise StateError(
                f"the ledger {str(self._path)!r} cannot be opened ({error}); "
                "if it is damaged, put its newest copy back: an older one shows less than was "
                "spent, and so does a new file."
            ) from error
        try:
            close_to_others(self._path)
        except BaseException:
            self.close()
            raise
        self._check_head()

    def _prepare(self) -> None:
        db = self._db
        if self._wal() != "wal":
            raise StateError(
                f"the ledger {str(self._path)!r} cannot use a write-ahead log here; "
                "choose a path on a local disk."
            )
        db.execute("PRAGMA synchronous = FULL")
        names = "'meta', 'rows', 'head', 'tally', 'sketches'"
        known = db.execute(
            f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ({names})"
        ).fetchone()
        if known[0] == 0:
            with self._transaction("BEGIN IMMEDIATE"):
                for statement in SCHEMA.split(";\n"):
                    if statement.strip():
                        db.execute(statement)
                db.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", (VERSION,))
                db.execute(
                    "INSERT OR IGNORE INTO meta VALUES ('salt', ?)", (secrets.token_hex(32),)
                )
        version = db.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
        if version is None or version[0] != VERSION:
            found = None if version is None else version[0]
            raise StateError(
                f"the ledger's version must be {VERSION!r}, not {found!r}; "
                "open it with the program that wrote it."
            )

    def _wal(self) -> str:
        """Turning a new file to WAL does not wait for other processes that do the same,
        so it is tried again."""
        end = time.monotonic() + self._timeout
        while True:
            try:
                return str(self._db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
            except sqlite3.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def _check_head(self) -> None:
        """The cheap part of `verify`, at every opening."""
        last = self.one("SELECT seq, hash FROM rows ORDER BY seq DESC LIMIT 1")
        ends = (int(last[0]), str(last[1])) if last else (0, genesis(self.salt))
        if ends != self.head():
            self.close()
            raise StateError(
                f"the ledger {str(self._path)!r} was changed by hand: "
                f"its last row is {ends[0]}, its head record says otherwise; "
                "restore it from a copy (`verify` on the copy names the place)."
            )


def body_of(row: dict[str, Any]) -> Any:
    return json.loads(row["body"])
