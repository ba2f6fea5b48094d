"""A SQLite file that loses nothing: write-ahead log, synchronous, one writer at a time.

What was written in a transaction is on the disk when `writing` ends, or none of it is.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacenda.errors import StateError


class SqliteFile:
    """One connection per process, guarded for threads; writers of all processes take turns.

    pragmas: set before the write-ahead log is. unwritten: the error to raise where `writing` failed
    with one of SQLite's, or None to raise that one.
    """

    def __init__(
        self,
        path: Path,
        timeout: float,
        pragmas: Sequence[str] = (),
        unwritten: Callable[[sqlite3.Error], StateError | None] = lambda failed: None,
    ) -> None:
        self.path, self._timeout = path, timeout
        self._pragmas, self._unwritten = pragmas, unwritten
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
        try:
            with self._lock, self._transaction("BEGIN IMMEDIATE"):
                yield
        except sqlite3.Error as failed:
            said = self._unwritten(failed)
            if said is None:
                raise
            raise said from None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Several queries that see the same state."""
        with self._lock:
            if self._connection().in_transaction:
                yield
                return
            with self._transaction("BEGIN"):
                yield

    def execute_all(self, script: str) -> None:
        """Statements that each end with a semicolon and a new line."""
        for statement in script.split(";\n"):
            if statement.strip():
                self.execute(statement)

    def backup(self, copy: sqlite3.Connection) -> None:
        """Everything, as of one moment, into another connection."""
        with self._lock:
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
        try:
            connection.execute(begin)
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk ends it by itself
                connection.execute("ROLLBACK")
            raise

    def _open(self) -> None:
        self._pid = os.getpid()
        self._db = sqlite3.connect(
            self.path,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )
        try:
            for pragma in self._pragmas:
                self._db.execute(f"PRAGMA {pragma}")
            if self._wal() != "wal":
                raise StateError(
                    f"{str(self.path)!r} cannot use a write-ahead log here; "
                    "choose a path on a local disk."
                )
            self._db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            self._db.close()
            raise

    def _wal(self) -> str:
        """Turning a new file to WAL does not wait for other processes that do the same,
        so it is tried again."""
        end = time.monotonic() + self._timeout
        while True:
            try:
                return str(self._db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
            except sqlite3.OperationalError as failed:
                locked = (failed.sqlite_errorcode & 0xFF) in (
                    sqlite3.SQLITE_BUSY,
                    sqlite3.SQLITE_LOCKED,
                    sqlite3.SQLITE_PROTOCOL,
                )
                if not locked or time.monotonic() > end:
                    raise
                time.sleep(0.02)
