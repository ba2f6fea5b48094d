"""A node's lasting state: one SQLite file (WAL, synchronous = FULL) with the noise key, the charges, the outbox and a checkpoint.

One transaction before every message: what it releases is booked, the message's bytes are stored, and the checkpoint that it
builds on is there; only then is it sent. After a crash the node goes on from its checkpoint, computes the same message again (its noise
is keyed) and sends the stored bytes. Charges are known by (epoch, round, call), so a redone step is booked once; they are
chained by hashes, so a row that was changed or removed is noticed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

from tacenda.errors import StateError
from tacenda.privacy.store_files import check_place

FORMAT = "tacenda-node-1"
FILE = "node.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS charges (
    seq INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, round INTEGER NOT NULL, call INTEGER NOT NULL, event TEXT NOT NULL,
    seal BLOB NOT NULL, UNIQUE (epoch, round, call));
CREATE TABLE IF NOT EXISTS outbox (
    epoch INTEGER NOT NULL, round INTEGER NOT NULL, call INTEGER NOT NULL, peer TEXT NOT NULL, frame BLOB NOT NULL,
    PRIMARY KEY (epoch, round, call, peer)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoint (
    one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, round INTEGER NOT NULL, state BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS inbox (
    epoch INTEGER NOT NULL, round INTEGER NOT NULL, call INTEGER NOT NULL, peer TEXT NOT NULL, frame BLOB NOT NULL,
    PRIMARY KEY (epoch, round, call, peer)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

_FORGET_RECEIVED = """
DELETE FROM inbox WHERE (epoch, round) <= (?, ?) AND (epoch, round, call) < (
    SELECT epoch, round, call FROM inbox AS latest WHERE latest.peer = inbox.peer
    ORDER BY epoch DESC, round DESC, call DESC LIMIT 1)
"""

Key = tuple[int, int, int]  # (epoch, round, call)


class NodeState:
    """The state folder of one member; one process at a time (a lock file says so)."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        os.chmod(self.folder, 0o700)
        check_place(self.folder / FILE)
        self._lock_file()
        self._mutex = threading.Lock()
        self._seal = b"\0" * 32
        path = self.folder / FILE
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        try:
            os.chmod(path, 0o600)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_TABLES)
            self._verify()
        except StateError:
            self.close()
            raise
        except sqlite3.DatabaseError as damaged:
            self.close()
            raise StateError(
                f"The state {path} is damaged ({damaged}). Do not delete it and start anew: that would spend again. Restore it from "
                "a backup taken while the node stood still, or leave the run."
            ) from None

    # ---- identity of the run -----------------------------------------------------------------------------------------
    def bind(self, run_id: str, member: str, data: str) -> bytes:
        """The noise key, made on the first start; run, member and data must be those of that start ever after."""
        if self.get("format") is None:
            key = os.urandom(32)
            self._write(
                [("INSERT INTO about VALUES (?, ?)", row) for row in (
                    ("format", FORMAT.encode()), ("key", key), ("run", run_id.encode()), ("member", member.encode()),
                    ("data", _keyed(key, data)),
                )]
            )  # fmt: skip
            return key
        if self.get("format") != FORMAT.encode():
            raise StateError(f"{self.folder} is not a node's state of this version; use another folder for a new run.")
        key = self.get("key") or b""
        found = {"run": run_id.encode(), "member": member.encode(), "data": _keyed(key, data)}
        why = {
            "run": "a contract with other terms of the run",
            "member": "another member",
            "data": "other data: the same noise on two data sets would reveal their difference",
        }
        for name, value in found.items():
            if not hmac.compare_digest(self.get(name) or b"", value):
                raise StateError(
                    f"The state {self.folder} belongs to {why[name]}. Resuming is refused; restore what it was started with, or "
                    "start a new run under a new contract in a new folder (it is charged as a new run)."
                )
        return key

    def get(self, name: str) -> bytes | None:
        row = self._db.execute("SELECT value FROM about WHERE name=?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def put(self, values: dict[str, bytes], forget: list[str] | None = None) -> None:
        """Keep secret values of the run, and forget others, in one transaction."""
        steps: list[tuple[str, tuple[Any, ...]]] = [
            ("INSERT OR REPLACE INTO about VALUES (?, ?)", row) for row in values.items()
        ]
        self._write(steps + [("DELETE FROM about WHERE name=?", (name,)) for name in forget or ()])

    # ---- one transaction before every message ------------------------------------------------------------------------
    def commit(
        self,
        charges: list[tuple[Key, dict[str, Any]]],
        messages: list[tuple[Key, str, bytes]],
        checkpoint: tuple[int, int, bytes] | None,
        forget: tuple[int, int] | None = None,
        received: list[tuple[Key, str, bytes]] | None = None,
    ) -> dict[tuple[Key, str], bytes]:
        """Make all durable, or nothing. Returns the stored frames of these messages: the old bytes where they existed.

        checkpoint: (epoch, round, state). forget: (epoch, round) up to which no peer needs the outbox any more. received: the
        neighbours' rows on which these messages or this checkpoint build; the latest of each neighbour is kept for good.
        """
        with self._mutex:
            steps: list[tuple[str, tuple[Any, ...]]] = []
            seal = self._seal
            for key, event in charges:
                text = json.dumps(event, sort_keys=True, separators=(",", ":"))
                booked = self._db.execute("SELECT event FROM charges WHERE epoch=? AND round=? AND call=?", key).fetchone()
                if booked is None:
                    seal = _next_seal(seal, key, text)
                    steps.append(
                        ("INSERT INTO charges (epoch, round, call, event, seal) VALUES (?,?,?,?,?)", (*key, text, seal))
                    )
                elif booked[0] != text:
                    raise StateError(f"Round {key[1]} was booked as another release before; a redone step must be the same.")
            if seal != self._seal:
                steps.append(("INSERT OR REPLACE INTO about VALUES ('head', ?)", (seal,)))
            stored = {}
            for key, peer, frame in messages:
                old = self._db.execute(
                    "SELECT frame FROM outbox WHERE epoch=? AND round=? AND call=? AND peer=?", (*key, peer)
                ).fetchone()
                if old is None:
                    steps.append(("INSERT INTO outbox VALUES (?,?,?,?,?)", (*key, peer, frame)))
                elif bytes(old[0]) != frame:
                    raise StateError(
                        f"Round {key[1]}, done again after a stop, gave other bytes than were sent before; nothing new was sent. Run "
                        "with the same version of the program and its libraries as before the stop."
                    )
                stored[key, peer] = frame
            if checkpoint is not None:
                digest = hashlib.sha256(checkpoint[2]).digest()
                steps.append(("INSERT OR REPLACE INTO checkpoint VALUES (1,?,?,?,?)", (*checkpoint, digest)))
            steps.extend(
                ("INSERT OR IGNORE INTO inbox VALUES (?,?,?,?,?)", (*key, peer, row)) for key, peer, row in received or ()
            )
            if checkpoint is not None:
                steps.append((_FORGET_RECEIVED, checkpoint[:2]))
            if forget is not None and steps:
                steps.append(("DELETE FROM outbox WHERE epoch < ? OR (epoch = ? AND round <= ?)", (forget[0], *forget)))
            self._write_locked(steps)
            self._seal = seal
            return stored

    def checkpoint(self) -> tuple[int, int, bytes] | None:
        """(epoch, round, state) of the last complete round that was made durable."""
        row = self._db.execute("SELECT epoch, round, state, digest FROM checkpoint").fetchone()
        if row is None:
            return None
        if hashlib.sha256(row[2]).digest() != row[3]:
            raise StateError(f"The checkpoint in {self.folder} is damaged; restore the folder from a backup, or leave the run.")
        return int(row[0]), int(row[1]), bytes(row[2])

    def unsent(self) -> list[tuple[Key, str, bytes]]:
        """The whole outbox, in order."""
        rows = self._db.execute("SELECT epoch, round, call, peer, frame FROM outbox ORDER BY epoch, round, call").fetchall()
        return [((e, r, c), peer, bytes(frame)) for e, r, c, peer, frame in rows]

    def received(self) -> list[tuple[Key, str, bytes]]:
        """The neighbours' rows since the checkpoint, and the latest one of each, in order."""
        rows = self._db.execute("SELECT epoch, round, call, peer, frame FROM inbox ORDER BY epoch, round, call").fetchall()
        return [((e, r, c), peer, bytes(frame)) for e, r, c, peer, frame in rows]

    def sent(self, key: Key) -> list[bytes]:
        """The stored frames under this key, as long as some peer may need them."""
        rows = self._db.execute("SELECT frame FROM outbox WHERE epoch=? AND round=? AND call=?", key).fetchall()
        return [bytes(frame) for (frame,) in rows]

    def charges(self) -> list[tuple[Key, dict[str, Any]]]:
        """Everything booked, in order."""
        rows = self._db.execute("SELECT epoch, round, call, event FROM charges ORDER BY seq").fetchall()
        return [((e, r, c), json.loads(event)) for e, r, c, event in rows]

    def note(self, name: str, value: Any) -> None:
        """Keep a small plain value."""
        self.note_all({name: value})

    def note_all(self, values: dict[str, Any]) -> None:
        """Keep small plain values, all of them or none."""
        self._write([("INSERT OR REPLACE INTO notes VALUES (?, ?)", (k, json.dumps(v))) for k, v in values.items()])

    def noted(self, name: str, default: Any = None) -> Any:
        row = self._db.execute("SELECT value FROM notes WHERE name=?", (name,)).fetchone()
        return default if row is None else json.loads(row[0])

    def close(self) -> None:
        self._db.close()
        os.close(self._lock)

    # ---- inside ------------------------------------------------------------------------------------------------------
    def _write(self, steps: list[tuple[str, tuple[Any, ...]]]) -> None:
        with self._mutex:
            self._write_locked(steps)

    def _write_locked(self, steps: list[tuple[str, tuple[Any, ...]]]) -> None:
        if not steps:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for sql, values in steps:
                self._db.execute(sql, values)
            self._db.execute("COMMIT")
        except sqlite3.Error as failed:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StateError(
                f"The state in {self.folder} cannot be written ({failed}); nothing was sent. Free disk space or mend the disk, "
                "then start the node again: it goes on where it was."
            ) from None

    def _verify(self) -> None:
        """Walk the chain of charges; the last seal is where it goes on."""
        seal, count = self._seal, 0
        for seq, epoch, turn, call, event, found in self._db.execute(
            "SELECT seq, epoch, round, call, event, seal FROM charges ORDER BY seq"
        ):
            count += 1
            seal = _next_seal(seal, (epoch, turn, call), event)
            if seq != count or seal != found:
                raise StateError(
                    f"The charges in {self.folder} were changed or removed at row {count}; restore the folder from a backup. "
                    "What was spent is not known otherwise, and the node does not go on."
                )
        if count and self.get("head") != seal:
            raise StateError(f"The last charges in {self.folder} were removed; restore the folder from a backup.")
        self._seal = seal

    def _lock_file(self) -> None:
        import fcntl

        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StateError(f"Another node runs on the state {self.folder}; stop it first, or use another folder.") from None


def _keyed(key: bytes, text: str) -> bytes:
    return hmac.new(key, b"data\0" + text.encode(), hashlib.sha256).digest()


def _next_seal(seal: bytes, key: Key, event: str) -> bytes:
    return hashlib.sha256(seal + json.dumps([*key, event]).encode()).digest()
