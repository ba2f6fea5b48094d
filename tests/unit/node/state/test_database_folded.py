"""Charges of rounds long done are kept as a few lines: none is lost, none is found twice, and the
files of a long run do not grow."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import StateError
from tacenda.privacy.lasting.rounds import fold, from_text, to_text
from tacenda_node.state import database, looks
from tacenda_node.state.database import FILE, NodeState

EVENT = {"kind": "gaussian", "noise_multiplier": 2.0}
QUESTION = b"q" * 32


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MOST_LIVE", 6)


def opened(home: Path) -> NodeState:
    state = NodeState(home / "state")
    state.bind("run", "me", "records")
    state.keep_mark(home / "mark")
    return state


def round_of(state: NodeState, turn: int, view: int = 0, calls: int = 2, event: Any = EVENT) -> Any:
    """One round as an exchange commits it: with the checkpoint of the round before."""
    keys = [(view, turn, call) for call in range(calls)]
    state.commit(
        [(key, event, QUESTION) for key in keys],
        [((view, turn, 0), peer, bytes(400)) for peer in ("ann", "bob")],
        (view, turn - 1, b"s" * 900),
        (view, turn - 2),
        [((view, turn - 1, 0), peer, bytes(400)) for peer in ("ann", "bob")],
    )
    return [(key, event) for key in keys]


charge = st.tuples(
    st.integers(0, 1), st.integers(1, 4), st.integers(0, 2), st.sampled_from(['"a"', '"b"'])
)


@given(rows=st.lists(charge, max_size=30), cut=st.integers(0, 30))
def test_stretches_stand_for_exactly_their_charges(rows: Any, cut: int) -> None:
    """Also for rows in an order that no run gives, and in two steps."""
    charges = [(row[:3], row[3]) for row in sorted(rows, key=lambda row: row[:2])]
    new = (k for k in range(cut, len(charges)) if charges[k][0][:2] != charges[k - 1][0][:2])
    edge = next(new, 0)
    first = fold(charges[:edge])
    both = first[:-1] + fold(charges[edge:], first[-1] if first else None)
    assert [charge for stretch in both for charge in stretch.charges()] == charges
    assert sum(stretch.count for stretch in both) == len(charges)
    assert from_text(to_text(both)) == both


def test_a_long_run_keeps_all_charges_and_its_files_do_not_grow(tmp_path: Path) -> None:
    state, booked, pages = opened(tmp_path), [], []
    state._file.execute("PRAGMA synchronous=OFF")  # nothing crashes here
    state._file.execute("PRAGMA wal_autocheckpoint=200")
    for turn in range(1, 401):
        booked += round_of(state, turn)
        if turn % 100 == 0:
            pages.append(state._file.execute("PRAGMA page_count").fetchone()[0])
    assert state.charges() == booked
    assert len(set(pages)) == 1, pages
    assert (tmp_path / "state" / (FILE + "-wal")).stat().st_size < 300 * 1048
    assert state._file.execute("SELECT COUNT(*) FROM charges").fetchone()[0] < 20
    assert state._file.execute("SELECT COUNT(*) FROM folded").fetchone()[0] == 1
    state.close()
    again = opened(tmp_path)
    assert again.charges() == booked
    booked += round_of(again, 401)
    assert again.charges() == booked
    again.close()


def test_other_events_calls_and_views_begin_another_stretch(tmp_path: Path) -> None:
    state, booked = opened(tmp_path), []
    for turn in range(1, 30):
        other = {**EVENT, "noise_multiplier": 3.0}
        booked += round_of(
            state, turn, int(turn > 15), 1 + (turn > 10), EVENT if turn < 22 else other
        )
    booked += round_of(state, 35, 1)  # rounds that were skipped
    for turn in range(36, 50):
        booked += round_of(state, turn, 1)
    assert state.charges() == booked
    assert state._file.execute("SELECT COUNT(*) FROM folded").fetchone()[0] == 5
    state.close()
    again = opened(tmp_path)
    assert again.charges() == booked
    again.close()


def test_a_settled_round_is_never_charged_again(tmp_path: Path) -> None:
    state = opened(tmp_path)
    booked = [row for turn in range(1, 20) for row in round_of(state, turn)]
    for ask in (
        lambda: state.check_question((0, 2, 0), QUESTION),
        lambda: state.commit([((0, 2, 0), EVENT, QUESTION)], [], None),
    ):
        with pytest.raises(StateError, match="Round 2 is folded"):
            ask()
    assert state.charges() == booked
    state.close()


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM folded",
        "DELETE FROM folded WHERE n = 0",
        "DELETE FROM folded WHERE n = 1",
        "UPDATE folded SET stretch = replace(stretch, '[[0,1,', '[[0,2,')",
        "UPDATE folded SET stretch = replace(stretch, '[[0,', '[[1,')",
        "UPDATE folded SET stretch = replace(stretch, ',10,', ',9,')",
        "UPDATE folded SET stretch = replace(stretch, '2.0', '9.0')",
        "UPDATE folded SET hash = replace(hash, substr(hash, 1, 1), 'x')",
        "UPDATE folded SET mac = zeroblob(32)",
        "UPDATE folded SET n = n + 10",
        "DELETE FROM charges WHERE seq = (SELECT MIN(seq) FROM charges)",
    ],
)
def test_every_field_of_a_settled_line_counts(change: str, tmp_path: Path) -> None:
    state = opened(tmp_path)
    for turn in range(1, 30):
        round_of(state, turn, calls=1 + (turn > 10))
    state.close()
    with sqlite3.connect(tmp_path / "state" / FILE) as other:
        assert other.execute(change).rowcount > 0
    other.close()
    with pytest.raises(StateError, match="is damaged or an old copy: its charges were"):
        NodeState(tmp_path / "state")


def test_a_crash_at_every_write_of_the_settling_transaction(tmp_path: Path) -> None:
    """The process dies before each statement in turn: all of it is there, or nothing."""
    state = opened(tmp_path)
    booked = [row for turn in range(1, 7) for row in round_of(state, turn)]
    state.close()
    steps = 0
    while True:
        home = tmp_path / f"crash{steps}"
        home.mkdir()
        shutil.copytree(tmp_path / "state", home / "state")
        shutil.copy(tmp_path / "mark", home / "mark")
        pid = os.fork()
        if pid == 0:
            _die_at(home, steps)
        _, status = os.waitpid(pid, 0)
        again = opened(home)
        done = again.charges() == booked + [((0, 7, call), EVENT) for call in (0, 1)]
        assert done or again.charges() == booked
        if not done:
            round_of(again, 7)
            assert len(again.charges()) == len(booked) + 2
        again.close()
        if os.waitstatus_to_exitcode(status) == 0:
            assert done
            break
        steps += 1
    assert steps > 8


def _die_at(home: Path, steps: int) -> None:
    state = opened(home)
    real, left = state._file._db, [steps]

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def execute(self, sql: str, *values: Any) -> Any:
            if not sql.startswith("SELECT"):
                if left[0] == 0:
                    os._exit(1)
                left[0] -= 1
            return real.execute(sql, *values)

    state._file._db = Dying()  # type: ignore[assignment]
    round_of(state, 7)
    os._exit(0)


def test_a_mark_that_is_one_message_behind_is_followed(tmp_path: Path) -> None:
    """A crash between the state's transaction, which settles, and the mark."""
    state = opened(tmp_path)
    for turn in range(1, 40):
        before = (tmp_path / "mark").read_bytes()
        round_of(state, turn, calls=1 + turn % 3)
        state.close()
        (tmp_path / "mark").write_bytes(before)
        state = opened(tmp_path)
    older = shutil.copytree(tmp_path / "state", tmp_path / "older")
    round_of(state, 40)
    state.close()
    shutil.rmtree(tmp_path / "state")
    older.rename(tmp_path / "state")
    with pytest.raises(StateError, match="charges were noted in"):
        opened(tmp_path)


def test_a_look_from_outside_counts_all_charges(tmp_path: Path) -> None:
    """While the state is open, and after it was closed; settled or not."""
    state = opened(tmp_path)
    other = {"kind": "gaussian", "noise_multiplier": 3.0}
    for turn in range(1, 21):
        round_of(state, turn, event=EVENT if turn <= 12 else other)
    assert state._journal.stretches()
    wanted = {2.0: 24, 3.0: 16}

    def counted() -> dict[float, int]:
        found: dict[float, int] = {}
        for event, number in looks.booked(tmp_path / "state")[1]:
            found[event["noise_multiplier"]] = found.get(event["noise_multiplier"], 0) + number
        return found

    assert counted() == wanted
    assert looks.booked(tmp_path / "state")[0] == 19
    state.close()
    assert counted() == wanted
    assert looks.booked(tmp_path / "nowhere") == (0, [])
    assert not (tmp_path / "nowhere").exists()
