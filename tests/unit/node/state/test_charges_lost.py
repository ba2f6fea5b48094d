"""No charge is ever lost unseen: whatever is cut, removed or put back, what is reported is what was
sent, or the node refuses."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import small_contract
from tacenda.errors import BudgetError, StateError
from tacenda.privacy.accounting.events import DiscreteGaussian, Gaussian
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.state.charges import NodeLedger
from tacenda_node.state.database import FILE, NodeState
from tacenda_node.state.spending import Spending

ROUNDS, PER_ROUND = 5, 2
PLANNED = Charges([(Charge(Gaussian, {"noise_multiplier": np.array([2.0])}), PER_ROUND * ROUNDS)])
EVENT = Gaussian(2.0).to_dict()
TABLES = ("about", "charges", "head", "outbox", "checkpoint", "notes")


def _opened(home: Path) -> NodeState:
    """As a node opens its state: the keys, the mark, then the plan."""
    state = NodeState(home / "state")
    try:
        state.bind("run", "a", "digest")
        state.keep_mark(home / "elsewhere" / "run.mark")
        ledger = NodeLedger(PLANNED, [PER_ROUND] * ROUNDS, False, lambda *_: None)
        saved = state.checkpoint()
        if saved is not None:
            ledger.resume(state.charges(), *saved[:2])
    except BaseException:
        state.close()
        raise
    return state


def _round(state: NodeState, turn: int) -> None:
    charges = [((0, turn, call), EVENT, bytes([turn, call])) for call in range(PER_ROUND)]
    saved = None if turn == 1 else (0, turn - 1, bytes(9000))  # several pages
    state.commit(charges, [((0, turn, 0), "b", bytes([turn]))], saved)


def _copied(home: Path, to: Path) -> Path:
    """As a power cut leaves the files: no orderly end, so that the write-ahead log is full."""
    shutil.copytree(home, to)
    return to


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The home after 0, 1, ... ROUNDS rounds; PER_ROUND * k charges were sent after k of them."""
    folder = tmp_path_factory.mktemp("homes")
    state = _opened(folder / "live")
    state.note("state_id b", "abc")
    found = [_copied(folder / "live", folder / "0")]
    for turn in range(1, ROUNDS + 1):
        _round(state, turn)
        found.append(_copied(folder / "live", folder / str(turn)))
    state.close()
    return found


def _reported(home: Path) -> int | None:
    """How many charges the node would go on with, or None if it refuses."""
    try:
        state = _opened(home)
    except StateError:
        return None
    try:
        return len(state.charges())
    finally:
        state.close()


def _never_less(home: Path, sent: int, to: Path, damage: Callable[[Path], Any]) -> int | None:
    broken = _copied(home, to)
    damage(broken)
    found = _reported(broken)
    shutil.rmtree(broken)
    assert found is None or found >= sent
    return found


def _sql(home: Path, *steps: str) -> None:
    db = sqlite3.connect(home / "state" / FILE)
    for step in steps:
        db.execute(step)
    db.commit()
    db.close()


def test_an_honest_crash_at_any_moment_goes_on(homes: list[Path], tmp_path: Path) -> None:
    for k, home in enumerate(homes):
        assert _reported(_copied(home, tmp_path / f"whole {k}")) == PER_ROUND * k
        if k == 0:
            continue
        behind = _copied(home, tmp_path / f"behind {k}")  # a crash between the charges and the mark
        shutil.copy(homes[k - 1] / "elsewhere" / "run.mark", behind / "elsewhere" / "run.mark")
        assert _reported(behind) == PER_ROUND * k
        (behind / "elsewhere" / "run.mark").unlink()
        shutil.copy(home / "elsewhere" / "run.mark", behind / "elsewhere" / "run.mark")
        assert _reported(behind) == PER_ROUND * k


@pytest.mark.parametrize("table", TABLES)
def test_an_emptied_or_dropped_table_is_found(
    homes: list[Path], tmp_path: Path, table: str
) -> None:
    for k in (1, ROUNDS):
        for sql in (f"DELETE FROM {table}", f"DROP TABLE {table}"):
            found = _never_less(
                homes[k], PER_ROUND * k, tmp_path / "x", lambda home, sql=sql: _sql(home, sql)
            )
            assert (
                table in ("outbox", "notes") or (table == "checkpoint" and k == 1) or found is None
            ), sql


def test_a_loss_is_found_without_the_mark_too(homes: list[Path], tmp_path: Path) -> None:
    """The state alone: whatever is taken from the charges,
    with the mark as old as it may ever be."""
    for where in (
        "1",
        "seq = 1",
        "seq = 4",
        f"seq = {PER_ROUND * ROUNDS}",
        "round = 2",
        f"round = {ROUNDS}",
        "call = 1",
    ):

        def damage(home: Path, where: str = where) -> None:
            _sql(home, f"DELETE FROM charges WHERE {where}")
            shutil.copy(homes[0] / "elsewhere" / "run.mark", home / "elsewhere" / "run.mark")

        assert _never_less(homes[-1], PER_ROUND * ROUNDS, tmp_path / "x", damage) is None, where


def test_every_single_row_and_column_counts(homes: list[Path], tmp_path: Path) -> None:
    home, sent = homes[-1], PER_ROUND * ROUNDS
    names = ("key", "run", "member", "data", "format", "marked")
    changes = [f"DELETE FROM charges WHERE seq = {seq}" for seq in range(1, sent + 1)]
    changes += ["DELETE FROM head", "UPDATE head SET seq = 5", "UPDATE head SET hash = '00'"]
    changes += ["UPDATE head SET record = x'00'"]
    changes += [f"DELETE FROM about WHERE name = '{name}'" for name in names]
    changes += [f"UPDATE about SET value = x'00' WHERE name = '{name}'" for name in names[:-1]]
    changes += [
        f"UPDATE charges SET {column} = {value} WHERE seq = 3"
        for column, value in (
            ("view", 1),
            ("round", 9),
            ("call", 9),
            ("event", "replace(event, '2.0', '9.0')"),
            ("question", "x'00'"),
            ("previous", "'00'"),
            ("hash", "'00'"),
            ("seq", 99),
        )
    ]
    for sql in changes:
        found = _never_less(home, sent, tmp_path / "x", lambda home, sql=sql: _sql(home, sql))
        assert found is None or "marked" in sql, sql


def test_an_older_file_beside_a_newer_mark_is_refused(homes: list[Path], tmp_path: Path) -> None:
    for new in range(1, ROUNDS + 1):
        for old in range(new):

            def damage(home: Path, old: int = old) -> None:
                shutil.rmtree(home / "state")
                shutil.copytree(homes[old] / "state", home / "state")

            assert _never_less(homes[new], PER_ROUND * new, tmp_path / "x", damage) is None, (
                old,
                new,
            )


def test_two_histories_of_one_state_are_told_apart(homes: list[Path], tmp_path: Path) -> None:
    """An old copy went on, on another machine, to as many charges as the mark has, or more: they
    are other charges."""
    for more in (1, 2):
        fork = _copied(homes[2], tmp_path / f"fork {more}")
        state = _opened(fork)
        for turn in range(3, 3 + more):
            state.commit(
                [((0, turn, call), EVENT, b"other") for call in range(PER_ROUND)],
                [],
                (0, turn - 1, b""),
            )
        state.close()
        shutil.copy(homes[3] / "elsewhere" / "run.mark", fork / "elsewhere" / "run.mark")
        assert _reported(fork) is None


def test_two_copies_never_run_at_once(homes: list[Path], tmp_path: Path) -> None:
    """Two folders with one ledger between them: the second is refused while the first runs, and
    after it has gone on."""
    one, other = _copied(homes[2], tmp_path / "one"), _copied(homes[2], tmp_path / "other")
    shutil.rmtree(other / "elsewhere")
    (other / "elsewhere").symlink_to(one / "elsewhere")
    state = _opened(one)
    with pytest.raises(StateError, match="Another node runs on a copy"):
        _opened(other)
    _round(state, 3)
    state.close()
    assert _reported(other) is None
    assert _reported(one) == 3 * PER_ROUND


@pytest.mark.parametrize("what", ["cut", "flip"])
def test_a_damaged_write_ahead_log_is_found(homes: list[Path], tmp_path: Path, what: str) -> None:
    """SQLite drops everything behind the damage without a word, which is an older state that is
    whole in itself."""
    home, sent, file = homes[-1], PER_ROUND * ROUNDS, Path("state") / f"{FILE}-wal"
    size = (home / file).stat().st_size
    assert size > 10_000
    refused = 0
    places = sorted({*np.linspace(0, size - 1, 60).astype(int).tolist(), 1, 31, 32, 33, size - 1})
    for at in places:

        def damage(home: Path, at: int = at) -> None:
            (home / "state" / f"{FILE}-shm").unlink()
            data = bytearray((home / file).read_bytes())
            if what == "cut":
                del data[at:]
            else:
                data[at] ^= 0x55
            (home / file).write_bytes(data)

        refused += _never_less(home, sent, tmp_path / "x", damage) is None
    assert refused > len(places) // 2


def test_a_missing_log_a_cut_file_and_lost_marks_are_found(
    homes: list[Path], tmp_path: Path
) -> None:
    home, sent = homes[-1], PER_ROUND * ROUNDS

    def without_log(home: Path) -> None:
        for suffix in ("-wal", "-shm"):
            (home / "state" / f"{FILE}{suffix}").unlink()

    assert _never_less(home, sent, tmp_path / "x", without_log) is None
    whole = _copied(home, tmp_path / "whole")
    _sql(whole, "PRAGMA wal_checkpoint(TRUNCATE)")
    size = (whole / "state" / FILE).stat().st_size
    cuts = (*range(100, size, size // 12), size - 1)
    found = [
        _never_less(
            whole, sent, tmp_path / "x", lambda h, at=at: os.truncate(h / "state" / FILE, at)
        )
        for at in cuts
    ]
    assert found.count(None) > len(cuts) // 2  # a cut that took free pages only may go on
    mark = Path("elsewhere") / "run.mark"
    assert _never_less(home, sent, tmp_path / "x", lambda h: (h / mark).unlink()) is None
    assert (
        _never_less(home, sent, tmp_path / "x", lambda h: (h / mark).write_bytes(bytes(1024)))
        is None
    )
    assert _never_less(home, sent, tmp_path / "x", lambda h: (h / mark).write_bytes(b"")) is None


def test_charges_that_vanish_while_the_node_runs_are_found(
    homes: list[Path], tmp_path: Path
) -> None:
    home = _copied(homes[3], tmp_path / "x")
    state = _opened(home)
    _sql(home, "DELETE FROM charges")
    with pytest.raises(StateError, match="names row 6 as the last one, the table ends at 0"):
        state.charges()
    state.close()


def test_a_checkpoint_implies_the_planned_charges(tmp_path: Path) -> None:
    """Rows left out before they were chained, so that nothing but the plan can tell."""
    for k, left_out in enumerate(
        (
            [(2, 0), (2, 1)],
            [(1, 0)],
            [(3, 1)],
            [(turn, call) for turn in (1, 2, 3) for call in (0, 1)],
        )
    ):
        home = tmp_path / str(k)
        state = _opened(home)
        for turn in range(1, 5):
            charges = [
                ((0, turn, c), EVENT, b"q") for c in range(PER_ROUND) if (turn, c) not in left_out
            ]
            state.commit(charges, [], (0, turn - 1, b"") if turn > 1 else None)
        state.close()
        with pytest.raises(StateError, match="charges were lost"):
            _opened(home)
    cheaper = _opened(tmp_path / "cheaper")
    cheaper.commit(
        [((0, 1, c), Gaussian(9.0).to_dict(), b"q") for c in range(PER_ROUND)], [], (0, 1, b"")
    )
    cheaper.close()
    with pytest.raises(StateError, match="does not plan"):
        _opened(tmp_path / "cheaper")


def test_a_later_epoch_may_begin_anywhere_but_skips_nothing(tmp_path: Path) -> None:
    ledger = NodeLedger(PLANNED, [PER_ROUND] * ROUNDS, False, lambda *_: None)

    def booked(*rounds: int) -> list[Any]:
        return [((0, 1, c), EVENT) for c in (0, 1)] + [
            ((1, t, c), EVENT) for t in rounds for c in range(PER_ROUND)
        ]

    ledger.resume(booked(3, 4), 1, 4)
    ledger.resume(booked(), 1, 2)
    with pytest.raises(StateError, match="of round 3 only 0 of 2"):
        ledger.resume(booked(2, 4), 1, 4)


def test_rounds_with_unequal_releases_have_their_own_places(tmp_path: Path) -> None:
    """Two releases in round 1, one in each later round, each with a price of its own."""
    prices = [3.0, 4.0, 5.0, 6.0]
    planned = Charges([(Charge(Gaussian, {"noise_multiplier": np.array([z])}), 1) for z in prices])
    ledger = NodeLedger(planned, [2, 1, 1], False, lambda *_: None)
    assert [[e.noise_multiplier for e in ledger.reserved_in(t)] for t in (1, 2, 3)] == [
        [3.0, 4.0],
        [5.0],
        [6.0],
    ]
    ledger.go_to(3)
    with pytest.raises(BudgetError):
        ledger.charge(3, 0, Charge(Gaussian, {"noise_multiplier": np.array([5.0])}), b"")
    ledger.go_to(3)
    ledger.charge(3, 0, Charge(Gaussian, {"noise_multiplier": np.array([6.0])}), b"")
    booked = [((0, 1, c), Gaussian(z).to_dict()) for c, z in enumerate(prices[:2])]
    ledger.resume([*booked, ((0, 2, 0), Gaussian(5.0).to_dict())], 0, 2)
    with pytest.raises(StateError, match="of round 1 only 1 of 2"):
        ledger.resume(booked[:1], 0, 1)
    with pytest.raises(StateError, match="does not plan"):
        ledger.resume([*booked, ((0, 2, 0), Gaussian(6.0).to_dict())], 0, 2)


def test_a_lost_run_stays_spent_in_full(tmp_path: Path) -> None:
    """The lasting ledger after an emptied table: the whole reservation counts,
    not what is left in the state."""
    contract = small_contract(2, ROUNDS, graph="path")
    plan = make_plan(contract)
    events = [event.to_dict() for event, count in plan.events("m0") for _ in range(count)]
    path, home = tmp_path / "elsewhere" / "ledger.sqlite", tmp_path / "state"
    path.parent.mkdir()

    def start() -> tuple[NodeState, Spending]:
        state = NodeState(home)
        key = state.bind(contract.run_id(), "m0", "digest")
        return state, Spending(path, plan, "m0", key, "ours")

    state, spending = start()
    with spending:
        state.keep_mark(spending.mark)
        assert spending.mark.parent.parent == path.parent
        for k, event in enumerate(events):
            state.commit([((0, 1, k), event, b"q")], [], None)
        spending.settle(state.charges()[:1], final=False)
    state.close()
    _sql(tmp_path, "DELETE FROM charges")
    with pytest.raises(StateError, match="stays spent in the lasting ledger"):
        start()
    with LedgerStore(path) as store:
        spent = store.spent("ours")
        assert spent.curve_with_reserved.epsilon(1e-5) == pytest.approx(
            contract.privacy.epsilon, rel=1e-3
        )


def test_a_state_of_another_version_is_named(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL)")
    db.execute(
        "CREATE TABLE charges (seq INTEGER PRIMARY KEY, view INTEGER, round INTEGER, call INTEGER, "
        "event TEXT, seal BLOB)"
    )
    db.execute("INSERT INTO about VALUES ('format', ?)", (b"tacenda-node-0",))
    db.commit()
    db.close()
    with pytest.raises(StateError, match="another version of the program"):
        NodeState(tmp_path)


def test_a_charge_needs_a_bound_state(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    with pytest.raises(StateError, match="no lasting key"):
        state.commit([((0, 1, 0), EVENT, b"q")], [], None)
    state.close()


@pytest.mark.parametrize("on_lattice", [False, True])
def test_each_release_is_booked_as_its_own_place_in_the_plan(on_lattice: bool) -> None:
    """Where the noise changes from round to round every release has its own price: that one is
    booked, whichever round the node begins in."""
    kind = DiscreteGaussian if on_lattice else Gaussian
    noise = [2.0, 2.0, 3.0, 3.0, 4.0, 5.0]  # three rounds of two releases
    planned = Charges(
        (Charge(kind, {"noise_multiplier": np.array([z])}), count)
        for z, count in ((2.0, 2), (3.0, 2), (4.0, 1), (5.0, 1))
    )

    def played(begin: int) -> list[Any]:
        said: list[Any] = []
        ledger = NodeLedger(planned, (2, 2, 2), on_lattice, lambda *row: said.append(row))
        for k, z in enumerate(noise[:4]):
            assert ledger.reserved_in(1 + k // 2)[k % 2] == kind(z)
        assert [e.noise_multiplier for e in ledger.reserved_in(3)] == [4.0, 5.0]
        if begin > 1:
            ledger.go_to(begin)
        for place in range(2 * (begin - 1), 6):
            made = Charge(Gaussian, {"noise_multiplier": np.array([noise[place] * 1.001])})
            ledger.charge(1 + place // 2, place % 2, made, b"q%d" % place)
        return said

    for begin in (1, 2, 3):
        assert played(begin) == [
            (1 + k // 2, k % 2, kind(noise[k]), b"q%d" % k) for k in range(2 * (begin - 1), 6)
        ]
    uneven = NodeLedger(planned, (5, 0, 0, 1), on_lattice, lambda *_: None)
    assert len(uneven.reserved_in(1)) == 5 and uneven.reserved_in(2) == []
    assert [e.noise_multiplier for e in uneven.reserved_in(4)] == [5.0]
