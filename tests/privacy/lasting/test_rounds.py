"""Many charges in one row of the lasting ledger: each counts as a row of its own would, none twice,
and a finished run leaves a few hundred bytes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import PrivacyError
from tacenda.formats.text import canonical_json
from tacenda.privacy.accounting.events import Event, Gaussian
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.rounds import fold_indexed, from_text, to_text

A, B = Gaussian(9.0), Gaussian(12.5)
index = st.one_of(
    st.tuples(st.integers(0, 1), st.integers(1, 9), st.integers(-1, 1)).map(list),
    st.sampled_from(["once", 3, [1, 2], [0, "a", 1], [0, True, 1]]),
)


@given(
    charges=st.lists(
        st.tuples(index.map(canonical_json), st.sampled_from(['{"kind":"a"}', '{"kind":"b"}'])),
        unique_by=lambda row: row[0],
    )
)
def test_every_charge_stands_in_one_place(charges: Any) -> None:
    stretches, alone = fold_indexed(charges)
    found = [(canonical_json(place), event) for s in stretches for place, event in s.charges()]
    assert sorted([*found, *alone]) == sorted(charges)
    assert all(stretch.rounds > 1 for stretch in stretches)
    assert from_text(to_text(stretches)) == stretches


def of_rounds(first: int, last: int, event: Event = A) -> list[tuple[Any, Event]]:
    return [([0, turn, call], event) for turn in range(first, last + 1) for call in (0, 1)]


def test_a_charge_is_booked_once_whichever_row_it_stands_in(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.open_run("run", "records", reserve=[(A, 40), (B, 2)])
        assert store.charge("run", [0, 3, 1], A)  # a row of its own
        assert store.charge_many("run", of_rounds(1, 10)) == 19
        assert store.charge_many("run", of_rounds(1, 20)) == 20
        assert not store.charge("run", [0, 7, 0], A)
        with pytest.raises(PrivacyError, match="was charged as"):
            store.charge("run", [0, 7, 0], B)
        with pytest.raises(PrivacyError, match="was charged as"):
            store.charge_many("run", of_rounds(20, 21, B))
        assert store.spent("records").events == [(A, 40)]
        assert store.spent("records").reserved == [(B, 2)]
        assert store.close_run("run") == [(B, 2)]
        assert store.spent("records").events == [(A, 40)]
        assert store.charge_many("run", of_rounds(1, 20)) == 0  # also of a run that is over
        assert store.verify().ok


def test_a_finished_run_leaves_a_few_rows_however_long_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with LedgerStore(path) as store:
        for run, rounds in (("short", 2), ("long", 3000)):
            before = store.head()[0]
            store.open_run(run, "records", reserve=[(A, 2 * rounds)])
            assert store.charge_many(run, of_rounds(1, rounds)) == 2 * rounds
            store.close_run(run)
            assert store.head()[0] - before == 4
        assert store.spent("records").events == [(A, 6004)]
        assert store.verify().ok
        rows = [json.loads(line) for line in store.export()]
    assert sum(len(canonical_json(row)) for row in rows[-4:]) < 2000


def test_a_changed_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with LedgerStore(path) as store:
        store.open_run("run", "records", reserve=[(A, 40)])
        store.charge_many("run", of_rounds(1, 20))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TRIGGER rows_stay")
        db.execute("UPDATE rows SET body = replace(body, ',20,', ',10,') WHERE kind = 'charges'")
    with LedgerStore(path) as store:
        found = store.verify()
    assert (found.broken, found.reason) == (3, "its contents do not match its seal")


def test_a_tally_below_its_lines_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with LedgerStore(path) as store:
        store.open_run("run", "records", reserve=[(A, 40)])
        store.charge_many("run", of_rounds(1, 20))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE tally SET charged = charged - 1")
    with LedgerStore(path) as store:
        assert "the tally says" in store.verify().reason
