"""The journal by itself: its chain goes on from folded lines, and whatever is changed is found."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacenda.errors import StateError
from tacenda.privacy.lasting.chain import START
from tacenda.privacy.lasting.journal import FOLDED, HEAD, Journal
from tacenda.privacy.lasting.sqlite_file import SqliteFile

TABLE = """
CREATE TABLE charges (seq INTEGER PRIMARY KEY, view INTEGER, round INTEGER, call INTEGER,
    event TEXT, question BLOB, previous TEXT, hash TEXT);
"""
COLUMNS = ("seq", "view", "round", "call", "event", "question")


def made(path: Path) -> Journal:
    file = SqliteFile(path, 5)
    file.execute_all(TABLE + HEAD + FOLDED)
    found = Journal(file, "charges", COLUMNS, lambda: START, lambda: b"k" * 32)
    with file.writing():
        found.begin()
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    found = made(tmp_path / "j.sqlite")
    yield found
    found.file.close()


def booked(journal: Journal, places: list[tuple[int, int, int]], event: str = '"a"') -> None:
    with journal.file.writing():
        journal.append((*place, event, b"q") for place in places)


def charges(journal: Journal) -> list[tuple[tuple[int, int, int], str]]:
    with journal.file.reading():
        past = [charge for stretch, _ in journal.stretches() for charge in stretch.charges()]
        live = [((r["view"], r["round"], r["call"]), r["event"]) for r in journal.rows()]
    return past + live


def sound(journal: Journal) -> bool:
    with journal.file.reading():
        return journal.verify().ok


@given(
    calls=st.lists(st.integers(1, 3), min_size=3, max_size=12),
    cuts=st.lists(st.integers(1, 12), max_size=3),
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_folding_keeps_every_charge_and_the_chain(
    tmp_path_factory: pytest.TempPathFactory, calls: list[int], cuts: list[int]
) -> None:
    journal = made(tmp_path_factory.mktemp("journal") / "j.sqlite")
    places = [(0, turn, call) for turn, number in enumerate(calls) for call in range(number)]
    seals = {}
    for place in places:
        booked(journal, [place])
        seals[journal.head()[0]] = journal.head()[1]
    for cut in sorted(cuts):
        with journal.file.writing():
            journal.fold((0, cut), journal.head()[0])
        assert charges(journal) == [(place, '"a"') for place in places]
        assert sound(journal)
        count = 0
        for stretch, hashed in journal.stretches():
            count += stretch.count
            assert hashed == seals[count]
    assert journal.head() == (len(places), seals[len(places)])
    booked(journal, [(0, len(calls), 0)])
    assert sound(journal) and len(charges(journal)) == len(places) + 1
    journal.file.close()


def test_the_last_whole_round_and_what_is_newer_stay_by_themselves(journal: Journal) -> None:
    booked(journal, [(0, turn, call) for turn in range(6) for call in (0, 1)])
    with journal.file.writing():
        journal.fold((0, 4), journal.head()[0])
    assert journal.last_folded() == (0, 2)
    with journal.file.writing():
        journal.fold((0, 9), 9)  # the row 9 is the first of round 4
    assert journal.last_folded() == (0, 2)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE charges SET event = '\"b\"' WHERE seq = 12",
        "UPDATE charges SET question = x'00' WHERE seq = 12",
        "DELETE FROM charges WHERE seq = 12",
        "DELETE FROM charges",
        "DELETE FROM folded",
        "UPDATE folded SET stretch = replace(stretch, ',2,', ',1,')",
        "UPDATE folded SET hash = (SELECT hash FROM charges WHERE seq = 12)",
        "DELETE FROM head",
        "UPDATE head SET seq = 11, hash = (SELECT hash FROM charges WHERE seq = 11)",
        "DELETE FROM charges; DELETE FROM folded; DELETE FROM head",
    ],
)
def test_every_change_is_found(journal: Journal, change: str) -> None:
    booked(journal, [(0, turn, call) for turn in range(6) for call in (0, 1)])
    with journal.file.writing():
        journal.fold((0, 4), journal.head()[0])
    assert sound(journal)
    for step in change.split("; "):
        assert journal.file.execute(step).rowcount > 0
    assert not sound(journal)


def test_a_transaction_that_fails_leaves_nothing(journal: Journal) -> None:
    booked(journal, [(0, 1, 0)])
    before = journal.head()
    with pytest.raises(TypeError), journal.file.writing():
        journal.append([(0, 2, 0, '"a"', b"q"), (0, 2, 1, '"a"', object())])
    with pytest.raises(sqlite3.ProgrammingError, match="bindings"):
        booked(journal, [(0, 2, 0), (0, 3, 0, 0)])  # type: ignore[list-item]
    assert journal.head() == before and sound(journal)


def test_threads_take_turns(journal: Journal) -> None:
    threads = [
        threading.Thread(target=booked, args=(journal, [(view, turn, 0) for turn in range(5)]))
        for view in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert journal.head()[0] == 20 and sound(journal)


def test_only_a_failed_write_is_told_as_one(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "f.sqlite", 5, unwritten=lambda failed: StateError(str(failed)))
    with pytest.raises(StateError, match="no such table"), file.writing():
        file.execute("INSERT INTO missing VALUES (1)")
    with pytest.raises(sqlite3.OperationalError, match="no such table"), file.reading():
        file.execute("SELECT * FROM missing")
    file.close()
