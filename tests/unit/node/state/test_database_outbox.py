"""The lasting state: durable before sent, the same bytes again, charged once, damage noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacenda.errors import StateError
from tacenda_node.state.database import FILE, NodeState

EVENT = {"kind": "gaussian", "noise_multiplier": 2.0}
ASKED = bytes(32)


def _bound(folder: Path) -> NodeState:
    state = NodeState(folder)
    state.bind("run", "a", "digest")
    return state


def test_a_redone_step_is_charged_once_and_sends_the_same_bytes(tmp_path: Path) -> None:
    state = _bound(tmp_path)
    key = (0, 1, 3)
    state.commit([(key, EVENT, ASKED)], [(key, "a", b"bytes")], None)
    stored = state.commit([(key, EVENT, ASKED)], [(key, "a", b"bytes")], None)
    assert stored == {(key, "a"): b"bytes"}
    assert state.charges() == [(key, EVENT)]
    assert state.unsent() == [(key, "a", b"bytes")]
    with pytest.raises(StateError, match="gave other bytes"):
        state.commit([], [(key, "a", b"other")], None)
    with pytest.raises(StateError, match="charged as another release"):
        state.commit([(key, {**EVENT, "noise_multiplier": 1.0}, ASKED)], [], None)
    for ask in (
        lambda q: state.check_question(key, q),
        lambda q: state.commit([(key, EVENT, q)], [], None),
    ):
        with pytest.raises(StateError, match="another question"):
            ask(bytes(31) + b"1")
    state.check_question(key, ASKED)
    assert state.charges() == [(key, EVENT)]
    state.close()


def test_what_is_committed_survives_and_nothing_else(tmp_path: Path) -> None:
    state = _bound(tmp_path)
    state.commit([((0, 1, 0), EVENT, ASKED)], [((0, 1, 0), "a", b"x")], (0, 0, b"state"))
    state._file.execute("BEGIN")
    state._file.execute("DELETE FROM outbox")
    state._file.close()  # as a killed process leaves it: a transaction that never ended
    import os

    os.close(state._lock)
    again = NodeState(tmp_path)
    assert again.checkpoint() == (0, 0, b"state")
    assert [frame for _, _, frame in again.unsent()] == [b"x"]
    again.close()


def test_key_run_member_and_data_are_bound(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    key = state.bind("run", "a", "digest")
    assert len(key) == 32
    assert state.bind("run", "a", "digest") == key
    for values, words in (
        (("other", "a", "digest"), "other terms"),
        (("run", "b", "digest"), "another member"),
        (("run", "a", "changed"), "reveal their difference"),
    ):
        with pytest.raises(StateError, match=words):
            state.bind(*values)
    state.close()


def test_forgotten_messages_leave_and_later_ones_stay(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    for turn in (1, 2, 3):
        state.commit([], [((0, turn, 0), "a", bytes([turn]))], None, forget=(0, turn - 2))
    assert [key[1] for key, _, _ in state.unsent()] == [2, 3]
    state.close()


def test_a_damaged_file_is_refused_with_advice(tmp_path: Path) -> None:
    NodeState(tmp_path).close()
    path = tmp_path / FILE
    path.write_bytes(b"garbage" * 1000)
    with pytest.raises(StateError, match="Do not delete it"):
        NodeState(tmp_path)


def test_a_damaged_checkpoint_is_noticed(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    state.commit([], [], (0, 1, b"state"))
    state._file.execute("UPDATE checkpoint SET state = ?", b"stale")
    with pytest.raises(StateError, match="checkpoint .* is damaged"):
        state.checkpoint()
    state.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    with pytest.raises(StateError, match="Another node runs"):
        NodeState(tmp_path)
    state.close()


def test_a_full_disk_loses_nothing_and_sends_nothing(tmp_path: Path) -> None:
    state = _bound(tmp_path)
    state.commit([((0, 1, 0), EVENT, ASKED)], [((0, 1, 0), "a", b"x")], None)
    pages = state._file.execute("PRAGMA page_count").fetchone()[0]
    state._file.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateError, match="nothing was sent"):
        state.commit([((0, 2, 0), EVENT, ASKED)], [((0, 2, 0), "a", b"y" * 100_000)], None)
    assert state.charges() == [((0, 1, 0), EVENT)]
    state._file.execute("PRAGMA max_page_count = 100000")
    state.commit([((0, 2, 0), EVENT, ASKED)], [((0, 2, 0), "a", b"y" * 100_000)], None)
    assert len(state.charges()) == 2
    state.close()
