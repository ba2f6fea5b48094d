"""A node's state against plain dictionaries: whatever is committed, forgotten, noted or read again
after a restart, and whatever is refused, nothing of a refused step is kept."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda.errors import StateError
from tacenda.privacy.lasting.chain import START, head_of, head_record
from tacenda_node.state.database import FILE, NodeState
from tacenda_node.state.looks import booked
from tacenda_node.state.mark import Mark

Key = tuple[int, int, int]


class Copybook:
    """What should be there, by hand."""

    def __init__(self) -> None:
        self.charges: dict[Key, tuple[dict[str, Any], bytes]] = {}
        self.outbox: dict[tuple[Key, str], bytes] = {}
        self.inbox: dict[tuple[Key, str], bytes] = {}
        self.checkpoint: tuple[int, int, bytes] | None = None
        self.noted = (0, 0)

    def commit(
        self, charges: Any, messages: Any, checkpoint: Any, forget: Any, received: Any
    ) -> bool:
        """Whether it is accepted; a refused one changes nothing."""
        booked, sent = dict(self.charges), dict(self.outbox)
        for key, event, question in charges:
            if booked.setdefault(key, (event, question)) != (event, question):
                return False
        for key, peer, frame in messages:  # one row for all peers
            if any(at == key and other != frame for (at, _), other in sent.items()):
                return False
            sent[key, peer] = frame
        changed = len(booked) > len(self.charges) or len(sent) > len(self.outbox)
        changed = changed or checkpoint is not None or bool(received)
        self.charges, self.outbox = booked, sent
        for key, peer, frame in received:
            self.inbox.setdefault((key, peer), frame)
        if checkpoint is not None:
            self.noted = checkpoint[:2]
        if checkpoint is not None and checkpoint[2] is not None:
            self.checkpoint = checkpoint
            latest: dict[str, Key] = {}
            for key, peer in self.inbox:
                latest[peer] = max(latest.get(peer, key), key)
            self.inbox = {
                (key, peer): frame
                for (key, peer), frame in self.inbox.items()
                if key[:2] > checkpoint[:2] or key == latest[peer]
            }
        if forget is not None and changed:
            self.outbox = {
                (key, peer): frame for (key, peer), frame in self.outbox.items() if key[:2] > forget
            }
        return True

    def done(self) -> tuple[int, int] | None:
        """Nothing is done before there is a state from which it can be made again."""
        return None if self.checkpoint is None else max(self.checkpoint[:2], self.noted)

    def whole(self) -> bool:
        """A round is booked together with the end of the round before it."""
        last = max((key[:2] for key in self.charges if key[2] >= 0), default=None)
        done = self.done() or (0, 0)
        return last is None or last <= (done[0], done[1] + 1)


key = st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(-1, 1))
peer, frame = st.sampled_from(["ann", "bob"]), st.sampled_from([b"row", b"other row"])
COMMITS = st.lists(
    st.tuples(
        st.lists(
            st.tuples(
                key, st.sampled_from([{"kind": "a"}, {"kind": "b"}]), st.sampled_from([b"q", b"r"])
            ),
            max_size=2,
            unique_by=lambda row: row[0],
        ),
        st.lists(st.tuples(key, peer, frame), max_size=2, unique_by=lambda row: row[:2]),
        st.none()
        | st.tuples(st.integers(0, 1), st.integers(0, 3), st.sampled_from([b"s", b"t", None])),
        st.none() | st.tuples(st.integers(0, 1), st.integers(0, 3)),
        st.lists(st.tuples(key, peer, frame), max_size=3, unique_by=lambda row: row[:2]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=80)
@given(commits=COMMITS, again=st.booleans())
def test_the_state_holds_what_was_committed_and_nothing_else(commits: Any, again: bool) -> None:
    home = Path(tempfile.mkdtemp())
    try:
        _play(home, commits, again)
    finally:
        shutil.rmtree(home)


def _play(home: Path, commits: Any, again: bool) -> None:
    book, state = Copybook(), NodeState(home / "state")
    noise_key = state.bind("run", "me", "records")
    state.keep_mark(home / "mark")
    for charges, messages, checkpoint, forget, received in commits:
        before = dict(book.outbox)
        accepted = book.commit(charges, messages, checkpoint, forget, received)
        try:
            stored = state.commit(charges, messages, checkpoint, forget, received)
        except StateError:
            assert not accepted
        else:
            assert accepted
            assert stored == {(k, p): before.get((k, p), f) for k, p, f in messages}
        _same(state, book)
        for k, (_, question) in book.charges.items():
            state.check_question(k, question)
            with pytest.raises(StateError, match="another question"):
                state.check_question(k, question + b"!")
        if again:
            state.close()
            if not book.whole():
                with pytest.raises(StateError, match="is recorded, and the last whole round is"):
                    NodeState(home / "state")
                return
            state = NodeState(home / "state")
            assert state.bind("run", "me", "records") == noise_key
            state.keep_mark(home / "mark")
            _same(state, book)
    state.close()


def _same(state: NodeState, book: Copybook) -> None:
    assert state.charges() == [(k, event) for k, (event, _) in book.charges.items()]
    by_place = lambda row: (row[0], row[1])  # noqa: E731
    assert sorted(state.unsent(), key=by_place) == sorted(
        ((k, p, f) for (k, p), f in book.outbox.items()), key=by_place
    )
    assert [k for k, _, _ in state.unsent()] == sorted(k for k, _ in book.outbox)
    assert sorted(state.received(), key=by_place) == sorted(
        ((k, p, f) for (k, p), f in book.inbox.items()), key=by_place
    )
    assert [k for k, _, _ in state.received()] == sorted(k for k, _ in book.inbox)
    assert state.checkpoint() == book.checkpoint
    assert state.done() == book.done()
    assert booked(state.folder)[0] == (book.done() or (0, 0))[1]
    for k in {k for k, _ in book.inbox}:
        found = {p: f for (at, p), f in book.inbox.items() if at == k}
        assert dict(state.received_under(k)) == found
    for k in {k for k, _ in book.outbox}:
        assert {state.sent(k)} == {f for (at, _), f in book.outbox.items() if at == k}
    assert state.sent((9, 9, 9)) is None


def test_notes_and_secrets_stay_until_they_are_forgotten(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    state.bind("run", "me", "records")
    state.put({"one": b"1", "two": b"2"})
    state.put({"two": b"22", "three": b"3"}, forget=["one"])
    state.note("x", [1, "a"])
    state.note_all({"y": {"z": None}, "x": 2})
    state.close()
    again = NodeState(tmp_path)
    assert [again.get(name) for name in ("one", "two", "three")] == [None, b"22", b"3"]
    assert (again.noted("x"), again.noted("y"), again.noted("w")) == (2, {"z": None}, None)
    assert again.noted("w", 7) == 7
    again.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("other run", "me", "records"), "belongs to a contract with other terms of the run. Res"),
        (("run", "other", "records"), "belongs to another member. Resuming is refused"),
        (("run", "me", "others"), "belongs to other data: the same noise on two data sets"),
    ],
)
def test_a_state_says_whose_it_is(given: Any, words: str, tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    key = state.bind("run", "me", "records")
    with pytest.raises(StateError, match=words):
        state.bind(*given)
    assert state.bind("run", "me", "records") == key
    state.close()


def test_a_mark_is_written_twice_over_the_one_before(tmp_path: Path) -> None:
    """A torn write leaves the other slot; what was sealed with another key, or cut, is nothing."""
    path, heads = tmp_path / "marks" / "m", [(k, (bytes([k]) * 32).hex()) for k in range(5)]
    key = b"k" * 32
    mark = Mark(path, key)
    assert mark.open() is None
    mark.create(START, b"0" * 32)
    for k, head in enumerate(heads[1:], 1):
        mark.write(head, bytes([48 + k]) * 32)
    mark.close()
    whole, last = path.read_bytes(), (heads[4], b"4" * 32)
    assert len(whole) == 8192 and path.stat().st_mode & 0o777 == 0o600
    assert whole[:4096] == whole[4096:] and not any(bytes([48 + k]) * 32 in whole for k in range(4))
    assert _read(path, key) == last
    for slot in (0, 4096):
        torn = bytearray(whole)
        torn[slot + 20] ^= 1
        path.with_name("torn").write_bytes(torn)
        assert _read(path.with_name("torn"), key) == last
        torn[4116 - slot] ^= 1
        path.with_name("torn").write_bytes(torn)
        with pytest.raises(StateError, match="damaged or belongs to another state"):
            _read(path.with_name("torn"), key)
    path.with_name("torn").write_bytes(whole)
    with pytest.raises(StateError, match="damaged or belongs to another state"):
        _read(path.with_name("torn"), b"x" * 32)
    assert head_of(head_record(heads[2], key), key) == heads[2]
    assert head_of(head_record(heads[2], key)[:-1], key) is None
    assert head_of(head_record(heads[2], key) + b"!", key) is None
    with pytest.raises(StateError, match="is not open"):
        Mark(path, key).write(heads[1], bytes(32))


def _read(path: Path, key: bytes) -> Any:
    mark = Mark(path, key)
    try:
        return mark.open()
    finally:
        mark.close()


def test_the_same_charge_in_another_order_of_its_fields_is_the_same(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    state.bind("run", "me", "records")
    event = {"kind": "gaussian", "noise_multiplier": 2.0}
    for fields in (event, dict(reversed(event.items()))):
        state.commit([((0, 1, 0), fields, b"q")], [], None)
    assert state.charges() == [((0, 1, 0), event)]
    state.close()


def test_a_state_that_has_no_key_is_lost(tmp_path: Path) -> None:
    """Gone, or cut short: it does not go on with another one."""
    for key in (None, b"k" * 31):
        folder = tmp_path / str(key is None)
        state = NodeState(folder)
        state.bind("run", "me", "records")
        state.put({} if key is None else {"key": key}, forget=["key"] if key is None else None)
        with pytest.raises(StateError, match="it has no lasting key"):
            state.bind("run", "me", "records")
        with pytest.raises(StateError, match="it has no lasting key"):
            state.keep_mark(tmp_path / "mark")
        state.close()
    assert not (tmp_path / "mark").exists()


def test_charges_that_change_while_the_node_runs_are_noticed(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    state.bind("run", "me", "records")
    for turn in (1, 2):
        state.commit([((0, turn, 0), {"kind": "a"}, b"q")], [], (0, turn, b"s"))
    other = sqlite3.connect(tmp_path / FILE)
    seal = other.execute("SELECT hash FROM charges WHERE round=1").fetchone()[0]
    other.execute("DELETE FROM charges WHERE round=2")
    head = head_record((1, seal), state.get("key") or b"")
    other.execute("UPDATE head SET seq=1, hash=?, record=?", (seal, head))  # whole, and older
    other.commit()
    other.close()
    with pytest.raises(StateError, match="changed while the node ran"):
        state.charges()
    state.close()


def test_nothing_to_write_is_no_transaction(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    state.bind("run", "me", "records")
    before = state._file._db.total_changes
    state.put({})
    state.note_all({})
    assert state._file._db.total_changes == before and not state._file._db.in_transaction
    state.close()


def test_a_mark_that_is_not_open_is_not_written(tmp_path: Path) -> None:
    mark = Mark(tmp_path / "m", b"k" * 32)
    with pytest.raises(StateError, match="is not open; nothing was sent"):
        mark.write((1, START[1]), bytes(32))
    mark.create(START, b"s" * 32)
    mark.close()
    with pytest.raises(StateError, match="is not open; nothing was sent"):
        mark.write((1, START[1]), bytes(32))
    assert _read(tmp_path / "m", b"k" * 32) == (START, b"s" * 32)


def test_where_no_mark_can_be_made_or_read_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    beyond = Mark(tmp_path / "file" / "m", b"k" * 32)
    with pytest.raises(StateError, match=r"cannot be written \(.+\); nothing was sent"):
        beyond.create(START, bytes(32))
    deep = Mark(tmp_path / "one" / "two" / "m", b"k" * 32)
    deep.create(START, bytes(32))  # folders that are missing are made, for their owner alone
    deep.close()
    assert deep.path.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "folder").mkdir()
    with pytest.raises(StateError, match=r"cannot be read \(.+\); nothing was sent"):
        Mark(tmp_path / "folder", b"k" * 32).open()
