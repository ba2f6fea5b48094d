"""A node's lasting state: one SQLite file (WAL, synchronous = FULL) with the charges, what was
released, the outbox, a checkpoint, and the keys, which open with the mark alone (`secrets`).

One transaction before every message: what it releases is booked and stored, the message's bytes are
stored, the keys of its noise are passed, and all that it builds on is there: a checkpoint, which is
written every few rounds only, and since then the neighbours' rows and this member's own releases.
After a crash the node goes on from its checkpoint, makes the rounds since then again from those,
sees that they give the stored messages, and sends the last ones again. Charges are known by (view,
round, call), so a redone step is booked once; beside each stands the digest of its question, so a
redone step that asks anything else is refused, and noise is never drawn again.

No charge is ever lost unseen. They are a journal (`tacenda.privacy.lasting.journal`), whose head
(their number and the last seal) is kept twice: in this file, in the transaction of the charges, and
in a mark outside it (`mark`), which shows a file that was put back or cut short. Charges of rounds
long done are folded, many rounds in one line, in the transaction of a later message.

The file does not grow with the run: a message is stored once for all peers and dropped when all
have used it, and the write-ahead log is written back at a bounded size.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tacenda.errors import StateError
from tacenda.formats.text import canonical_json
from tacenda.privacy.lasting.chain import START, Head
from tacenda.privacy.lasting.files import check_place
from tacenda.privacy.lasting.journal import FOLDED, HEAD, Journal
from tacenda.privacy.lasting.rounds import Place
from tacenda.privacy.lasting.sqlite_file import SqliteFile
from tacenda_node.state.locks import lock
from tacenda_node.state.mark import Mark
from tacenda_node.state.secrets import TABLE as SECRETS
from tacenda_node.state.secrets import Changed, NamedKeys, Secrets

FORMAT = "tacenda-node-2"
FILE = "node.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS charges (
    seq INTEGER PRIMARY KEY,
    view INTEGER NOT NULL, round INTEGER NOT NULL, call INTEGER NOT NULL,
    event TEXT NOT NULL, question BLOB NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL,
    UNIQUE (view, round, call));
CREATE TABLE IF NOT EXISTS outbox (
    view INTEGER NOT NULL, round INTEGER NOT NULL, call INTEGER NOT NULL,
    peers TEXT NOT NULL, frame BLOB NOT NULL,
    PRIMARY KEY (view, round, call)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoint (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    view INTEGER NOT NULL, round INTEGER NOT NULL,
    state BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS inbox (
    view INTEGER NOT NULL, round INTEGER NOT NULL, call INTEGER NOT NULL,
    peer TEXT NOT NULL, frame BLOB NOT NULL,
    PRIMARY KEY (view, round, call, peer)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS released (
    view INTEGER NOT NULL, round INTEGER NOT NULL, call INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (view, round, call)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_CHARGE = ("seq", "view", "round", "call", "event", "question")
MOST_LIVE = 512  # charges that stand by themselves before the older ones are folded

# Small rows touch few bytes of many pages, large ones many pages
_SMALL_ROW, _SMALL_PAGE, _LARGE_PAGE = 4096, 1024, 4096
_LOG_BYTES = 1 << 22  # of the write-ahead log, or a few messages' worth where they are larger
_MOST_LOG_BYTES = 1 << 26

_FORGET_RECEIVED = """
DELETE FROM inbox WHERE (view, round) <= (?, ?) AND (view, round, call) < (
    SELECT view, round, call FROM inbox AS latest WHERE latest.peer = inbox.peer
    ORDER BY view DESC, round DESC, call DESC LIMIT 1)
"""

_FORGET_RELEASED = "DELETE FROM released WHERE (view, round) <= (?, ?)"

DESTROYED = "keys destroyed"  # the run is over for this member, and nothing opens its keys
Key = Place  # (view, round, call)
Booking = tuple[Key, dict[str, Any], bytes]  # a release, its event and the digest of its question
Stored = tuple[Key, bytes, int]  # a release, its value and how many places it has used


class NodeState:
    """The state folder of one member; one process at a time (a lock file says so)."""

    def __init__(self, folder: str | Path, row_bytes: int = 0) -> None:
        """row_bytes: of one message, as far as it is known; the file is laid out for it."""
        self.folder = Path(folder)
        self._claim_folder()
        self._mutex = threading.Lock()  # no commit between another's transaction and its mark
        self._head: Head = START
        self._mark: Mark | None = None
        path = self.folder / FILE
        try:
            self._file = SqliteFile(path, 10, _layout(row_bytes), self._unwritten)
            self._journal = Journal(self._file, "charges", _CHARGE, lambda: START, self._key)
            os.chmod(path, 0o600)
            _bound_log(self._file, row_bytes)
            self._check_pages()
            self._check_format()
            self._file.execute_all(_TABLES + HEAD + FOLDED + SECRETS)
            self._secrets = Secrets(self._file)
            self._head = self._verified()
            self._check_checkpoint()
        except StateError:
            self.close()
            raise
        except sqlite3.DatabaseError as failed:
            self.close()
            if _no_room(failed):
                raise self._unwritten(failed) from None
            log = path.with_name(f"{FILE}-wal")
            also = f", or its write-ahead log {log} is," if log.exists() else ""
            raise StateError(
                f"The state {path} is damaged{also} ({failed}). Do not delete it and start again: "
                "that would spend again. Restore the whole folder from a backup taken while the "
                "node stood still, or leave the run."
            ) from None

    def _claim_folder(self) -> None:
        """Make the folder this member's own, and hold its lock."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            os.chmod(self.folder, 0o700)
            check_place(self.folder / FILE)
            self._lock_file()
        except OSError as failed:
            if failed.errno in (errno.EMFILE, errno.ENFILE):
                raise  # no fault of the folder
            raise StateError(
                f"The state folder {self.folder} cannot be used ({failed.strerror}); nothing was "
                "sent. It must be a folder in which this program may write: mount it for writing, "
                "give it to the node's user, or name another one (--state) for a new run."
            ) from None

    # ---- identity of the run
    def bind(self, run_id: str, member: str, data: str) -> bytes:
        """The lasting key, made on the first start: of seals, checks and names, never of noise.
        Run, member and data must be those of that start ever after."""
        if self.get("format") is None:
            if any(
                self._file.one(f"SELECT 1 FROM {table} LIMIT 1")
                for table in ("about", "head", "outbox", "checkpoint")
            ):
                raise self._lost("its key is gone, though messages of the run are there")
            key = os.urandom(32)
            about = {
                "format": FORMAT.encode(),
                "key": key,
                "run": run_id.encode(),
                "member": member.encode(),
                "data": _keyed(key, data),
            }
            with self._file.writing():
                for name, value in about.items():
                    self._keep(name, value)
                self._journal.begin()
            return key
        key = self._key()
        found = {"run": run_id.encode(), "member": member.encode(), "data": _keyed(key, data)}
        why = {
            "run": "a contract with other terms of the run",
            "member": "another member",
            "data": "other data: the same noise on two data sets would reveal their difference",
        }
        for name, value in found.items():
            if not hmac.compare_digest(self.get(name) or b"", value):
                raise StateError(
                    f"The state {self.folder} belongs to {why[name]}. Resuming is refused; "
                    "restore what it was started with, or start a new run under a new contract "
                    "in a new folder (it is charged as a new run)."
                )
        return key

    def keep_mark(self, path: Path) -> None:
        """Note the charges' head at `path` too, from now on; refuse a state that is not at least as
        far as its mark."""
        mark = Mark(path, self._key())
        try:
            self._compare(mark)
        except BaseException:
            mark.close()
            raise
        self._mark = mark

    def _compare(self, mark: Mark) -> None:
        found, secret = mark.open() or (None, Secrets.fresh())
        if found is None:
            if self.get("marked") is not None:
                raise StateError(
                    f"The mark {mark.path} is missing, so it is not known whether {self.folder} "
                    "is an old copy; put it back beside the lasting ledger, or leave the run. "
                    "Its spending stays as reserved in the ledger."
                )
            mark.create(self._head, secret)
        elif found[0] and self._seal_of(found[0]) != found[1]:
            raise self._lost(
                f"{found[0]} charges were noted in {mark.path}, and {self._head[0]} are here"
            )
        if self.get(DESTROYED) is None:
            if self.get("marked") is not None and not self._secrets.are_stored:
                raise self._lost("its keys are gone, though no run has ended")
            secrets = self._secrets.open(secret)
        else:
            secrets = self._secrets.destroyed()
        if (found, secret) != (self._head, secrets.secret):
            mark.write(self._head, secrets.secret)
        self._secrets.keep(secrets)
        if self.get("marked") is None:
            self.put({"marked": b"1"})

    # ---- keys at rest
    def keys(self, name: str) -> NamedKeys:
        """The chain of keys with this name."""
        return NamedKeys(self._secrets, name)

    def secret(self, name: str) -> bytes | None:
        """A secret value of the run; None if there is none."""
        return self._secrets.get(name)

    def keep_secrets(
        self,
        values: dict[str, bytes],
        forget: Iterable[str] = (),
        public: dict[str, bytes] | None = None,
    ) -> None:
        """Keep secret values, and destroy others; beside them public ones (`get`)."""
        with self._mutex:
            self._require_mark()
            with self._file.writing():
                for name, value in (public or {}).items():
                    self._keep(name, value)
                secrets = self._secrets.change(values, forget)
            self._note_in_mark(secrets)

    def destroy_keys(self) -> None:
        """Overwrite all keys of the run: nothing is released from this state any more."""
        if self.get(DESTROYED) is None:
            self.put({DESTROYED: b"1"})
            with self._mutex:
                self._require_mark()
                self._note_in_mark(self._secrets.destroyed())

    def _note_in_mark(self, secrets: Changed | None) -> None:
        """Head and secret of what is durable in the file go into the mark."""
        if self._mark is not None:
            now = self._secrets.now if secrets is None else secrets
            self._mark.write(self._head, now.secret)
            self._secrets.keep(now)

    def _require_mark(self) -> None:
        if self._mark is None:
            raise StateError(f"The state {self.folder} has no mark, which every key needs.")

    def get(self, name: str) -> bytes | None:
        row = self._file.one("SELECT value FROM about WHERE name=?", name)
        return None if row is None else bytes(row[0])

    def put(self, values: dict[str, bytes], forget: list[str] | None = None) -> None:
        """Keep values of the run, and forget others, in one transaction."""
        if not values and not forget:
            return
        with self._file.writing():
            for name, value in values.items():
                self._keep(name, value)
            for name in forget or ():
                self._file.execute("DELETE FROM about WHERE name=?", name)

    def _keep(self, name: str, value: bytes) -> None:
        self._file.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", name, value)

    # ---- one transaction before every message
    def commit(
        self,
        charges: list[Booking],
        messages: list[tuple[Key, str, bytes]],
        checkpoint: tuple[int, int, bytes | None] | None,
        forget: tuple[int, int] | None = None,
        received: list[tuple[Key, str, bytes]] | None = None,
        released: list[Stored] | None = None,
    ) -> dict[tuple[Key, str], bytes]:
        """Make all durable, or nothing. Returns the stored frames of these messages: the old bytes
        where they existed.

        checkpoint: (view, round, state) of a complete round; without a state the round is made
        again from the last state and the rows received since. forget: (view, round) up to which the
        outbox is not needed any more. received: the neighbours' rows on which these messages or
        this checkpoint build; the latest of each neighbour is kept for good. released: what was
        charged for, so that it is never drawn again; the keys of its noise are passed.
        """
        if not (charges or messages or checkpoint or received):
            return {}
        with self._mutex:
            with self._file.writing():
                self._journal.append(
                    (*key, canonical_json(event), question)
                    for key, event, question in charges
                    if self._is_new(key, event, question)
                )
                self._post(messages)
                if checkpoint is not None:
                    self._keep("done", json.dumps(checkpoint[:2]).encode())
                saved = None if checkpoint is None else checkpoint[2]
                if checkpoint is not None and saved is not None:
                    self._fold(checkpoint[:2])
                    digest = hashlib.sha256(saved).digest()
                    self._file.execute(
                        "INSERT OR REPLACE INTO checkpoint VALUES (1,?,?,?,?)", *checkpoint, digest
                    )
                for key, peer, row in received or ():
                    self._file.execute(
                        "INSERT OR IGNORE INTO inbox VALUES (?,?,?,?,?)", *key, peer, row
                    )
                if checkpoint is not None and saved is not None:
                    self._file.execute(_FORGET_RECEIVED, *checkpoint[:2])
                    self._file.execute(_FORGET_RELEASED, *checkpoint[:2])
                secrets = self._store_released(charges, released or [])
                if forget is not None:
                    self._file.execute(
                        "DELETE FROM outbox WHERE view < ? OR (view = ? AND round <= ?)",
                        forget[0],
                        *forget,
                    )
                head = self._journal.head()
            if head != self._head or secrets is not None:
                self._head = head
                self._note_in_mark(secrets)
        return {(key, peer): frame for key, peer, frame in messages}

    def _store_released(self, charges: list[Booking], released: list[Stored]) -> Changed | None:
        """Store what was released, and pass the keys of all that was charged for."""
        for key, value, _ in released:
            self._file.execute("INSERT INTO released VALUES (?,?,?,?)", *key, value)
        used = [(*key[:2], key[2] + places - 1) for key, _, places in released]
        return self._secrets.behind([*used, *(key for key, _, _ in charges)])

    def released(self, key: Key) -> bytes | None:
        """What was released here before, since the checkpoint."""
        row = self._file.one("SELECT value FROM released WHERE view=? AND round=? AND call=?", *key)
        return None if row is None else bytes(row[0])

    def _is_new(self, key: Key, event: dict[str, Any], question: bytes) -> bool:
        """True of a release that was not charged yet; one that was must be the same."""
        self.check_question(key, question)
        booked = self._file.one(
            "SELECT event FROM charges WHERE view=? AND round=? AND call=?", *key
        )
        if booked is not None and booked[0] != canonical_json(event):
            raise StateError(
                f"Round {key[1]} was charged as another release before; "
                "a redone step must be the same."
            )
        return booked is None

    def _post(self, messages: list[tuple[Key, str, bytes]]) -> None:
        """Store new messages, each once for all its peers; a redone one must be the same, for
        whomever it is."""
        posts: dict[Key, tuple[set[str], bytes]] = {}
        for key, peer, frame in messages:
            if key not in posts:
                row = self._file.one(
                    "SELECT peers, frame FROM outbox WHERE view=? AND round=? AND call=?", *key
                )
                posts[key] = (
                    (set(), frame) if row is None else (set(json.loads(row[0])), bytes(row[1]))
                )
            peers, old = posts[key]
            if old != frame:
                raise StateError(
                    f"Round {key[1]}, done again after a stop, "
                    "gave other bytes than were sent before; "
                    "nothing new was sent. Run with the same version of the "
                    "program and its libraries as before the stop."
                )
            peers.add(peer)
        for key, (peers, frame) in posts.items():
            self._file.execute(
                "INSERT INTO outbox VALUES (?,?,?,?,?) ON CONFLICT (view, round, call) "
                "DO UPDATE SET peers = excluded.peers WHERE peers <> excluded.peers",
                *key,
                json.dumps(sorted(peers)),
                frame,
            )

    def _fold(self, done: tuple[int, int]) -> None:
        """Fold charges of rounds before the round `done` of the checkpoint, once there are many.

        The charge that the mark stands at, which is one transaction behind at most, stays by
        itself.
        """
        (live,) = self._file.one("SELECT COUNT(*) FROM charges WHERE seq <= ?", self._head[0]) or (
            0,
        )
        if live > MOST_LIVE:
            self._journal.fold(done, self._head[0])

    def _seal_of(self, seq: int) -> str | None:
        """The seal of the charge with this number, as far as it stands by itself or ends a
        line."""
        row = self._file.one("SELECT hash FROM charges WHERE seq=?", seq)
        if row is not None:
            return str(row[0])
        count = 0
        for stretch, seal in self._journal.stretches():
            count += stretch.count
            if count == seq:
                return seal
        return None

    def check_question(self, key: Key, question: bytes) -> None:
        """Refuse a redone step that asks something else than what its place was charged for; called
        before noise is drawn."""
        if key[:2] <= self._journal.last_folded():
            raise StateError(
                f"Round {key[1]} is folded, and is asked for again; nothing was drawn or sent. "
                "This is a defect of the program."
            )
        row = self._file.one(
            "SELECT question FROM charges WHERE view=? AND round=? AND call=?", *key
        )
        if row is not None and bytes(row[0]) != question:
            raise StateError(
                f"Round {key[1]}, done again after a stop, "
                "asks the records another question than the one it was charged for; "
                "nothing was drawn or sent. A neighbour has sent other rows than before the "
                "stop, or this is another version of the program."
            )

    def checkpoint(self) -> tuple[int, int, bytes] | None:
        """(view, round, state) of the last complete round whose state was stored."""
        row = self._file.one("SELECT view, round, state, digest FROM checkpoint")
        if row is None:
            return None
        if hashlib.sha256(row[2]).digest() != row[3]:
            raise StateError(
                f"The checkpoint in {self.folder} is damaged; restore the folder from a backup, "
                "or leave the run."
            )
        return int(row[0]), int(row[1]), bytes(row[2])

    def done(self) -> tuple[int, int] | None:
        """(view, round) of the last complete round that is durable: that of the checkpoint, or a
        later one, which the rows received since make again."""
        saved = self._file.one("SELECT view, round FROM checkpoint")
        if saved is None:
            return None
        noted = self.get("done")
        return max((int(saved[0]), int(saved[1])), done_of(noted))

    def unsent(self) -> list[tuple[Key, str, bytes]]:
        """The whole outbox, in order."""
        rows = self._file.all(
            "SELECT view, round, call, peers, frame FROM outbox ORDER BY view, round, call"
        )
        return [
            ((e, r, c), peer, bytes(frame))
            for e, r, c, peers, frame in rows
            for peer in json.loads(peers)
        ]

    def received(self) -> list[tuple[Key, str, bytes]]:
        """The neighbours' rows since the checkpoint, and the latest one of each, in order."""
        rows = self._file.all(
            "SELECT view, round, call, peer, frame FROM inbox ORDER BY view, round, call"
        )
        return [((e, r, c), peer, bytes(frame)) for e, r, c, peer, frame in rows]

    def received_under(self, key: Key) -> list[tuple[str, bytes]]:
        """The neighbours' rows of one call since the checkpoint, with their names."""
        rows = self._file.all(
            "SELECT peer, frame FROM inbox WHERE view=? AND round=? AND call=?", *key
        )
        return [(peer, bytes(frame)) for peer, frame in rows]

    def sent(self, key: Key) -> bytes | None:
        """The stored frame under this key, as long as some peer may need it."""
        row = self._file.one("SELECT frame FROM outbox WHERE view=? AND round=? AND call=?", *key)
        return None if row is None else bytes(row[0])

    def charges(self) -> list[tuple[Key, dict[str, Any]]]:
        """Everything booked, in order;
        StateError if any of it was lost since this process began."""
        with self._mutex, self._file.reading():
            if self._verified() != self._head:
                raise self._lost("its charges were changed while the node ran")
            past = [
                charge for stretch, _ in self._journal.stretches() for charge in stretch.charges()
            ]
            live = [((r["view"], r["round"], r["call"]), r["event"]) for r in self._journal.rows()]
        return [(key, json.loads(event)) for key, event in past + live]

    def note(self, name: str, value: Any) -> None:
        """Keep a small plain value."""
        self.note_all({name: value})

    def note_all(self, values: dict[str, Any]) -> None:
        """Keep small plain values, all of them or none."""
        if not values:
            return
        with self._file.writing():
            for name, value in values.items():
                self._file.execute(
                    "INSERT OR REPLACE INTO notes VALUES (?, ?)", name, json.dumps(value)
                )

    def noted(self, name: str, default: Any = None) -> Any:
        row = self._file.one("SELECT value FROM notes WHERE name=?", name)
        return default if row is None else json.loads(row[0])

    def close(self) -> None:
        if self._mark is not None:
            self._mark.close()
        file = getattr(self, "_file", None)  # none where it could not be opened
        if file is not None:
            file.close()
        os.close(self._lock)

    # ---- inside
    def _key(self) -> bytes:
        """The lasting key."""
        key = self.get("key")
        if key is None or len(key) != 32:
            raise self._lost("it has no lasting key")
        return key

    def _check_pages(self) -> None:
        """A page that is broken or missing is found now, whoever would have read it later."""
        found = self._file.one("PRAGMA quick_check(1)")
        if found != ("ok",):
            raise sqlite3.DatabaseError(found)

    def _check_format(self) -> None:
        """Before the tables of this version are looked for."""
        if not self._file.one("SELECT 1 FROM sqlite_master WHERE name='about'"):
            return
        found = self.get("format")
        if found is not None and found != FORMAT.encode():
            raise StateError(
                f"{self.folder} is a node's state of another version of the program "
                f"({found.decode('ascii', 'replace')}, and this one reads {FORMAT}); "
                "finish that run with the version that wrote it, "
                "or use another folder for a new run."
            )

    def _verified(self) -> Head:
        """Walk the charges, and see that they end at the head that was kept with them."""
        if self.get("format") is None and not self._journal.begun():
            return START  # nothing was bound yet
        with self._file.reading():
            found = self._journal.verify()
            head = self._journal.head()
        if not found.ok:
            raise self._lost(
                f"its charges were changed or removed at number {found.broken}: {found.reason}"
            )
        return head

    def _check_checkpoint(self) -> None:
        """The charges of a round go into one transaction with the round before it, so they are one
        round ahead at most."""
        last = self._file.one(
            "SELECT view, round FROM charges WHERE call >= 0 ORDER BY view DESC, round DESC"
        )
        done = self.done() or (0, 0)
        if last is not None and tuple(last) > (done[0], done[1] + 1):
            raise self._lost(f"round {last[1]} is recorded, and the last whole round is {done[1]}")

    def _unwritten(self, failed: sqlite3.Error) -> StateError:
        return StateError(
            f"The state in {self.folder} cannot be written ({failed}); nothing was sent. "
            "Free disk space or repair the disk, "
            "then start the node again: it continues where it stopped."
        )

    def _lost(self, what: str) -> StateError:
        return StateError(
            f"The state {self.folder} is damaged or an old copy: {what} "
            f"(in {FILE}, or in its write-ahead log {FILE}-wal). "
            "What was spent is not known from it, so the node does not continue, "
            "and the whole run stays spent in the lasting ledger; put the newest state back, "
            "or leave the run."
        )

    def _lock_file(self) -> None:
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(self._lock)
        except OSError:
            os.close(self._lock)
            raise StateError(
                f"Another node runs on the state {self.folder}; stop it first, "
                "or use another folder."
            ) from None


def _no_room(failed: sqlite3.Error) -> bool:
    """Whether the file could not be written, and nothing is wrong with what is in it."""
    code = getattr(failed, "sqlite_errorcode", 0) & 0xFF
    return code in (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
    )


def done_of(noted: bytes | None) -> tuple[int, int]:
    """(view, round) in the note of the last complete round; before all rounds without one."""
    view, round = (0, 0) if noted is None else json.loads(noted)
    return int(view), int(round)


def _keyed(key: bytes, text: str) -> bytes:
    return hmac.new(key, b"data\0" + text.encode(), hashlib.sha256).digest()


def _layout(row_bytes: int) -> list[str]:
    """For a new file whose rows have this size."""
    page = _SMALL_PAGE if row_bytes <= _SMALL_ROW else _LARGE_PAGE
    return [f"page_size = {page}"]


def _bound_log(file: SqliteFile, row_bytes: int) -> None:
    """Pages that are written again and again go back into the file once for several messages."""
    (page,) = file.one("PRAGMA page_size") or (_SMALL_PAGE,)
    log = min(_MOST_LOG_BYTES, max(_LOG_BYTES, 64 * row_bytes))
    file.execute(f"PRAGMA wal_autocheckpoint = {log // page}")
    file.execute(f"PRAGMA journal_size_limit = {2 * log}")
