"""A node's lasting state: one SQLite file (WAL, synchronous = FULL) with the noise key, the
charges, the outbox and a checkpoint.

One transaction before every message: what it releases is booked, the message's bytes are stored,
and all that it builds on is there: a checkpoint, which is written every few rounds only, and the
neighbours' rows since. After a crash the node goes on from its checkpoint, computes the rounds
since then again from those rows, sees that they give the stored messages (noise is keyed), and
sends the last ones again. Charges are known by (view, round, call), so a redone step is booked
once; beside each stands the digest of its question, so a redone step that asks anything else is
refused before its noise is drawn.

No charge is ever lost unseen. They are chained by hashes, and the chain's head (their number and
the last seal) is kept twice: in this file, in the transaction of the charges, and in a mark outside
it (`mark`), which shows a file that was put back or cut short. Charges of rounds long done are
settled, many rounds in one line (`settled`), in the transaction of a later message.

The file does not grow with the run: a message is stored once for all peers and dropped when all
have used it, and the write-ahead log is written back at a bounded size. Deleted values are
overwritten where their page is written anyway (`secure_delete = FAST`): keys are, and released rows
need not be.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

from tacenda.errors import StateError
from tacenda.node.state.mark import START, Head, Mark, sealed, unsealed
from tacenda.node.state.settled import MOST_LIVE, Row, Stretch, settled
from tacenda.privacy.lasting.files import check_place

FORMAT = "tacenda-node-4"
BEFORE = (
    "tacenda-node-2",  # a message was stored once for each peer
    "tacenda-node-3",  # a checkpoint was written in every round
)
FILE = "node.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS charges (
    seq INTEGER PRIMARY KEY,
    view INTEGER NOT NULL, round INTEGER NOT NULL, call INTEGER NOT NULL,
    event TEXT NOT NULL, question BLOB NOT NULL, seal BLOB NOT NULL,
    UNIQUE (view, round, call));
CREATE TABLE IF NOT EXISTS settled (
    n INTEGER PRIMARY KEY,
    view INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    pattern TEXT NOT NULL, seal BLOB NOT NULL, mac BLOB NOT NULL);
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
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

_FROM_BEFORE = """
ALTER TABLE outbox RENAME TO outbox_of_peers;
CREATE TABLE outbox (
    view INTEGER NOT NULL, round INTEGER NOT NULL, call INTEGER NOT NULL,
    peers TEXT NOT NULL, frame BLOB NOT NULL,
    PRIMARY KEY (view, round, call)) WITHOUT ROWID;
INSERT INTO outbox SELECT view, round, call, json_group_array(peer), frame
    FROM outbox_of_peers GROUP BY view, round, call;
DROP TABLE outbox_of_peers;
"""

# Small rows touch few bytes of many pages, large ones many pages
_SMALL_ROW, _SMALL_PAGE, _LARGE_PAGE = 4096, 1024, 4096
_LOG_BYTES = 1 << 22  # of the write-ahead log, or a few messages' worth where they are larger
_MOST_LOG_BYTES = 1 << 26

_FORGET_RECEIVED = """
DELETE FROM inbox WHERE (view, round) <= (?, ?) AND (view, round, call) < (
    SELECT view, round, call FROM inbox AS latest WHERE latest.peer = inbox.peer
    ORDER BY view DESC, round DESC, call DESC LIMIT 1)
"""

Key = tuple[int, int, int]  # (view, round, call)
Booking = tuple[Key, dict[str, Any], bytes]  # a release, its event and the digest of its question


class NodeState:
    """The state folder of one member; one process at a time (a lock file says so)."""

    def __init__(self, folder: str | Path, row_bytes: int = 0) -> None:
        """row_bytes: of one message, as far as it is known; the file is laid out for it."""
        self.folder = Path(folder)
        self._claim_folder()
        self._mutex = threading.Lock()
        self._head: Head = START
        self._stretches: list[Stretch] = []
        self._mark: Mark | None = None
        path = self.folder / FILE
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        try:
            os.chmod(path, 0o600)
            self._set_up(row_bytes)
            self._check_pages()
            self._check_format()
            self._db.executescript(_TABLES)
            self._stretches = self._settled()
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
        """The noise key, made on the first start;
        run, member and data must be those of that start ever after."""
        if self.get("format") is None:
            if any(
                self._db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
                for table in ("about", "outbox", "checkpoint")
            ):
                raise self._lost("its key is gone, though messages of the run are there")
            key = os.urandom(32)
            self._write(
                [
                    ("INSERT INTO about VALUES (?, ?)", row)
                    for row in (
                        ("format", FORMAT.encode()),
                        ("key", key),
                        ("run", run_id.encode()),
                        ("member", member.encode()),
                        ("data", _keyed(key, data)),
                        ("head", sealed(START, key)),
                    )
                ]
            )
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
        found = mark.open()
        if found is None:
            if self.get("marked") is not None:
                raise StateError(
                    f"The mark {mark.path} is missing, so nobody can tell whether {self.folder} "
                    "is an old copy; put it back beside the lasting ledger, or leave the run. "
                    "Its spending stays as reserved in the ledger."
                )
            mark.create(self._head)
        else:
            if found[0] and self._seal_of(found[0]) != found[1]:
                raise self._lost(
                    f"{found[0]} charges were noted in {mark.path}, and {self._head[0]} are here"
                )
            if found != self._head:
                mark.write(self._head)
        if self.get("marked") is None:
            self.put({"marked": b"1"})

    def get(self, name: str) -> bytes | None:
        row = self._db.execute("SELECT value FROM about WHERE name=?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def put(self, values: dict[str, bytes], forget: list[str] | None = None) -> None:
        """Keep secret values of the run, and forget others, in one transaction."""
        steps: list[tuple[str, tuple[Any, ...]]] = [
            ("INSERT OR REPLACE INTO about VALUES (?, ?)", row) for row in values.items()
        ]
        self._write(steps + [("DELETE FROM about WHERE name=?", (name,)) for name in forget or ()])

    # ---- one transaction before every message
    def commit(
        self,
        charges: list[Booking],
        messages: list[tuple[Key, str, bytes]],
        checkpoint: tuple[int, int, bytes | None] | None,
        forget: tuple[int, int] | None = None,
        received: list[tuple[Key, str, bytes]] | None = None,
    ) -> dict[tuple[Key, str], bytes]:
        """Make all durable, or nothing. Returns the stored frames of these messages: the old bytes
        where they existed.

        checkpoint: (view, round, state) of a complete round; without a state the round is made
        again from the last state and the rows received since. forget: (view, round) up to which the
        outbox is not needed any more. received: the neighbours' rows on which these messages or
        this checkpoint build; the latest of each neighbour is kept for good.
        """
        with self._mutex:
            steps: list[tuple[str, tuple[Any, ...]]] = []
            self._coming: list[Stretch] | None = None
            count, seal = self._head
            for key, event, question in charges:
                self.check_question(key, question)
                text = json.dumps(event, sort_keys=True, separators=(",", ":"))
                booked = self._db.execute(
                    "SELECT event FROM charges WHERE view=? AND round=? AND call=?", key
                ).fetchone()
                if booked is None:
                    count, seal = count + 1, _next_seal(seal, key, text, question)
                    steps.append(
                        (
                            "INSERT INTO charges VALUES (?,?,?,?,?,?,?)",
                            (count, *key, text, question, seal),
                        )
                    )
                elif booked[0] != text:
                    raise StateError(
                        f"Round {key[1]} was charged as another release before; "
                        "a redone step must be the same."
                    )
            head = (count, seal)
            if head != self._head:
                steps.append(
                    (
                        "INSERT OR REPLACE INTO about VALUES ('head', ?)",
                        (sealed(head, self._key()),),
                    )
                )
            stored = {(key, peer): frame for key, peer, frame in messages}
            steps.extend(self._posted(messages))
            if checkpoint is not None:
                done = json.dumps(checkpoint[:2]).encode()
                steps.append(("INSERT OR REPLACE INTO about VALUES ('done', ?)", (done,)))
            saved = None if checkpoint is None else checkpoint[2]
            if checkpoint is not None and saved is not None:
                steps.extend(self._settle(checkpoint[:2]))
                digest = hashlib.sha256(saved).digest()
                steps.append(
                    ("INSERT OR REPLACE INTO checkpoint VALUES (1,?,?,?,?)", (*checkpoint, digest))
                )
            steps.extend(
                ("INSERT OR IGNORE INTO inbox VALUES (?,?,?,?,?)", (*key, peer, row))
                for key, peer, row in received or ()
            )
            if checkpoint is not None and saved is not None:
                steps.append((_FORGET_RECEIVED, checkpoint[:2]))
            if forget is not None and steps:
                steps.append(
                    (
                        "DELETE FROM outbox WHERE view < ? OR (view = ? AND round <= ?)",
                        (forget[0], *forget),
                    )
                )
            self._write_locked(steps)
            self._stretches, self._coming = self._coming or self._stretches, None
            if head != self._head:
                self._head = head
                if self._mark is not None:
                    self._mark.write(head)
            return stored

    def _posted(self, messages: list[tuple[Key, str, bytes]]) -> list[tuple[str, tuple[Any, ...]]]:
        """The steps that store new messages, each once for all its peers; a redone one must be the
        same, for whomever it is."""
        posts: dict[Key, tuple[set[str], bytes]] = {}
        new: set[Key] = set()
        for key, peer, frame in messages:
            if key not in posts:
                row = self._db.execute(
                    "SELECT peers, frame FROM outbox WHERE view=? AND round=? AND call=?", key
                ).fetchone()
                posts[key] = (
                    (set(), frame) if row is None else (set(json.loads(row[0])), bytes(row[1]))
                )
                new |= set() if row else {key}
            peers, old = posts[key]
            if old != frame:
                raise StateError(
                    f"Round {key[1]}, done again after a stop, "
                    "gave other bytes than were sent before; "
                    "nothing new was sent. Run with the same version of the "
                    "program and its libraries as before the stop."
                )
            if peer not in peers:
                posts[key] = (peers | {peer}, old)
        steps: list[tuple[str, tuple[Any, ...]]] = []
        for key, (peers, frame) in posts.items():
            names = json.dumps(sorted(peers))
            if key in new:
                steps.append(("INSERT INTO outbox VALUES (?,?,?,?,?)", (*key, names, frame)))
            else:
                steps.append(
                    (
                        "UPDATE outbox SET peers=? "
                        "WHERE view=? AND round=? AND call=? AND peers<>?",
                        (names, *key, names),
                    )
                )
        return steps

    def _settle(self, done: tuple[int, int]) -> list[tuple[str, tuple[Any, ...]]]:
        """The steps that put charges of rounds before the round `done` of the checkpoint into
        stretches, once there are many.

        The charge that the mark stands at, which is one transaction behind at most, stays by
        itself.
        """
        past = self._head[0] - sum(stretch.count for stretch in self._stretches)
        if past <= MOST_LIVE:
            return []
        rows: list[Row] = []
        for seq, *row in self._db.execute(
            "SELECT seq, view, round, call, event, seal FROM charges ORDER BY seq"
        ):
            if (row[0], row[1]) >= done or seq >= self._head[0]:
                break
            rows.append((row[0], row[1], row[2], row[3], bytes(row[4])))
        if not rows or rows[0][:2] == rows[-1][:2]:
            return []
        # The last round may go on beyond what was taken
        rows = [row for row in rows if row[:2] != rows[-1][:2]]
        kept = self._stretches[:-1]
        after = kept + settled(rows, self._stretches[-1] if self._stretches else None)
        key = self._key()
        mac = self._last_mac(len(kept))
        steps: list[tuple[str, tuple[Any, ...]]] = []
        for n, one in enumerate(after[len(kept) :], len(kept)):
            mac = one.mac(mac, key)
            steps.append(
                (
                    "INSERT OR REPLACE INTO settled VALUES (?,?,?,?,?,?,?)",
                    (n, one.view, one.first, one.last, one.pattern, one.seal, mac),
                )
            )
        count = sum(stretch.count for stretch in after)
        steps.append(("DELETE FROM charges WHERE seq <= ?", (count,)))
        self._coming = after
        return steps

    def _last_mac(self, n: int) -> bytes:
        """The MAC of the stretch before number n."""
        row = self._db.execute("SELECT mac FROM settled WHERE n=?", (n - 1,)).fetchone()
        return b"" if row is None else bytes(row[0])

    def _settled(self) -> list[Stretch]:
        """The stretches in the file, if every one is what was put there."""
        found: list[Stretch] = []
        mac = b""
        for n, view, first, last, pattern, seal, said in self._db.execute(
            "SELECT n, view, first, last, pattern, seal, mac FROM settled ORDER BY n"
        ).fetchall():
            one = Stretch(view, first, last, pattern, bytes(seal))
            mac = one.mac(mac, self._key())
            if n != len(found) or not hmac.compare_digest(mac, bytes(said)):
                raise self._lost(f"its settled charges were changed or removed at line {n + 1}")
            found.append(one)
        return found

    def _seal_of(self, seq: int) -> bytes | None:
        """The seal of the charge with this number, as far as it stands by itself or ends a
        stretch."""
        row = self._db.execute("SELECT seal FROM charges WHERE seq=?", (seq,)).fetchone()
        if row is not None:
            return bytes(row[0])
        count = 0
        for stretch in self._stretches:
            count += stretch.count
            if count == seq:
                return stretch.seal
        return None

    def check_question(self, key: Key, question: bytes) -> None:
        """Refuse a redone step that asks something else than what its place was charged for; called
        before noise is drawn."""
        if self._stretches and key[:2] <= (self._stretches[-1].view, self._stretches[-1].last):
            raise StateError(
                f"Round {key[1]} is settled, and is asked for again; nothing was drawn or sent. "
                "This is a defect of the program."
            )
        row = self._db.execute(
            "SELECT question FROM charges WHERE view=? AND round=? AND call=?", key
        ).fetchone()
        if row is not None and bytes(row[0]) != question:
            raise StateError(
                f"Round {key[1]}, done again after a stop, "
                "asks the records another question than the one it was charged for; "
                "nothing was drawn or sent. A neighbour has sent other rows than before the "
                "stop, or this is another version of the program."
            )

    def checkpoint(self) -> tuple[int, int, bytes] | None:
        """(view, round, state) of the last complete round whose state was stored."""
        row = self._db.execute("SELECT view, round, state, digest FROM checkpoint").fetchone()
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
        saved = self._db.execute("SELECT view, round FROM checkpoint").fetchone()
        if saved is None:
            return None
        noted = self.get("done")
        return max((int(saved[0]), int(saved[1])), _done(noted))

    def unsent(self) -> list[tuple[Key, str, bytes]]:
        """The whole outbox, in order."""
        rows = self._db.execute(
            "SELECT view, round, call, peers, frame FROM outbox ORDER BY view, round, call"
        ).fetchall()
        return [
            ((e, r, c), peer, bytes(frame))
            for e, r, c, peers, frame in rows
            for peer in json.loads(peers)
        ]

    def received(self) -> list[tuple[Key, str, bytes]]:
        """The neighbours' rows since the checkpoint, and the latest one of each, in order."""
        rows = self._db.execute(
            "SELECT view, round, call, peer, frame FROM inbox ORDER BY view, round, call"
        ).fetchall()
        return [((e, r, c), peer, bytes(frame)) for e, r, c, peer, frame in rows]

    def received_under(self, key: Key) -> list[tuple[str, bytes]]:
        """The neighbours' rows of one call since the checkpoint, with their names."""
        rows = self._db.execute(
            "SELECT peer, frame FROM inbox WHERE view=? AND round=? AND call=?", key
        ).fetchall()
        return [(peer, bytes(frame)) for peer, frame in rows]

    def sent(self, key: Key) -> bytes | None:
        """The stored frame under this key, as long as some peer may need it."""
        row = self._db.execute(
            "SELECT frame FROM outbox WHERE view=? AND round=? AND call=?", key
        ).fetchone()
        return None if row is None else bytes(row[0])

    def charges(self) -> list[tuple[Key, dict[str, Any]]]:
        """Everything booked, in order;
        StateError if any of it was lost since this process began."""
        with self._mutex:
            if self._verified() != self._head:
                raise self._lost("its charges were changed while the node ran")
            rows = self._db.execute(
                "SELECT view, round, call, event FROM charges ORDER BY seq"
            ).fetchall()
            stretches = list(self._stretches)
        past = [charge for stretch in stretches for charge in stretch.charges()]
        return past + [((e, r, c), json.loads(event)) for e, r, c, event in rows]

    def note(self, name: str, value: Any) -> None:
        """Keep a small plain value."""
        self.note_all({name: value})

    def note_all(self, values: dict[str, Any]) -> None:
        """Keep small plain values, all of them or none."""
        self._write(
            [
                ("INSERT OR REPLACE INTO notes VALUES (?, ?)", (k, json.dumps(v)))
                for k, v in values.items()
            ]
        )

    def noted(self, name: str, default: Any = None) -> Any:
        row = self._db.execute("SELECT value FROM notes WHERE name=?", (name,)).fetchone()
        return default if row is None else json.loads(row[0])

    def close(self) -> None:
        if self._mark is not None:
            self._mark.close()
        self._db.close()
        os.close(self._lock)

    # ---- inside
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
            raise self._unwritten(failed) from None

    def _set_up(self, row_bytes: int) -> None:
        page = _SMALL_PAGE if row_bytes <= _SMALL_ROW else _LARGE_PAGE
        self._db.execute(f"PRAGMA page_size={page}")  # of a new file
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA secure_delete=FAST")
        page = self._db.execute("PRAGMA page_size").fetchone()[0]
        # Pages that are written again and again go back into the file once for several messages
        log = min(_MOST_LOG_BYTES, max(_LOG_BYTES, 64 * row_bytes))
        self._db.execute(f"PRAGMA wal_autocheckpoint={log // page}")
        self._db.execute(f"PRAGMA journal_size_limit={2 * log}")

    def _key(self) -> bytes:
        """The noise key."""
        key = self.get("key")
        if key is None or len(key) != 32:
            raise self._lost("it has no noise key")
        return key

    def _check_pages(self) -> None:
        """A page that is broken or missing is found now, whoever would have read it later."""
        found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(found)

    def _check_format(self) -> None:
        """Before the tables of this version are looked for."""
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name='about'").fetchone():
            return
        found = self.get("format")
        if found in [name.encode() for name in BEFORE]:
            old = _FROM_BEFORE if found == BEFORE[0].encode() else ""
            self._write(
                [(sql, ()) for sql in old.split(";\n") if sql.strip()]
                + [("UPDATE about SET value=? WHERE name='format'", (FORMAT.encode(),))]
            )
        elif found is not None and found != FORMAT.encode():
            raise StateError(
                f"{self.folder} is a node's state of another version of the program "
                f"({found.decode('ascii', 'replace')}, and this one reads {', '.join(BEFORE)} and "
                f"{FORMAT}); "
                "finish that run with the version that wrote it, or a newer one, "
                "or use another folder for a new run."
            )

    def _verified(self) -> Head:
        """Walk the chain of charges, and see that it ends at the head that was kept with them."""
        count, seal = START
        for stretch in self._settled():
            count, seal = count + stretch.count, stretch.seal
        for seq, view, round, call, event, question, found in self._db.execute(
            "SELECT seq, view, round, call, event, question, seal FROM charges ORDER BY seq"
        ):
            count += 1
            seal = _next_seal(seal, (view, round, call), event, bytes(question))
            if seq != count or seal != found:
                raise self._lost(f"its charges were changed or removed at row {count}")
        kept = self.get("head")
        if kept is None and count == 0 and self.get("format") is None:
            return START  # nothing was bound yet
        head = None if kept is None else unsealed(kept, self._key())
        if head is None:
            raise self._lost("the head of its charges is missing or damaged")
        if head != (count, seal):
            raise self._lost(f"{head[0]} charges were recorded, and {count} are here")
        return head

    def _check_checkpoint(self) -> None:
        """The charges of a round go into one transaction with the round before it, so they are one
        round ahead at most."""
        last = self._db.execute(
            "SELECT view, round FROM charges WHERE call >= 0 ORDER BY view DESC, round DESC"
        ).fetchone()
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
        import fcntl

        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StateError(
                f"Another node runs on the state {self.folder}; stop it first, "
                "or use another folder."
            ) from None


def in_use(folder: str | Path) -> bool:
    """Whether a node runs on this state, by a look that does not take its place."""
    import fcntl

    try:
        handle = os.open(Path(folder) / "lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def booked(folder: str | Path) -> tuple[int, list[tuple[dict[str, Any], int]]]:
    """(rounds done, each release that was booked and how often), by a look from outside: also
    while the node runs, and without taking its place."""
    path = Path(folder) / FILE
    if not path.is_file():
        return 0, []
    # Without a log beside it nobody has the file open, and nothing but the file is read
    alone = "" if path.with_name(f"{FILE}-wal").exists() else "&immutable=1"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{alone}", uri=True)) as db:
        try:
            db.execute("BEGIN")  # one moment for all tables
            events = db.execute("SELECT event, COUNT(*) FROM charges GROUP BY event").fetchall()
            past = db.execute("SELECT first, last, pattern FROM settled").fetchall()
            row = db.execute("SELECT view, round FROM checkpoint").fetchone()
            noted = db.execute("SELECT value FROM about WHERE name='done'").fetchone()
        except sqlite3.DatabaseError as failed:
            raise StateError(
                f"The state {path} cannot be read ({failed}); look at it again in a moment, and if "
                "that does not help, run `tacenda doctor`."
            ) from None
    for first, last, pattern in past:
        events += [(text, last - first + 1) for _, text in json.loads(pattern)]
    done = 0 if row is None else max(tuple(row), _done(None if noted is None else noted[0]))[1]
    return int(done), [(json.loads(text), n) for text, n in events]


def _no_room(failed: sqlite3.Error) -> bool:
    """Whether the file could not be written, and nothing is wrong with what is in it."""
    code = getattr(failed, "sqlite_errorcode", 0) & 0xFF
    return code in (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
    )


def _done(noted: bytes | None) -> tuple[int, int]:
    view, round = (0, 0) if noted is None else json.loads(noted)
    return int(view), int(round)


def _keyed(key: bytes, text: str) -> bytes:
    return hmac.new(key, b"data\0" + text.encode(), hashlib.sha256).digest()


def _next_seal(seal: bytes, key: Key, event: str, question: bytes) -> bytes:
    return hashlib.sha256(seal + json.dumps([*key, event, question.hex()]).encode()).digest()
