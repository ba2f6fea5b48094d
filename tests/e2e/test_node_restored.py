"""Real processes whose state is put back from an old copy, or loses charges: refused before
anything is sent, and spent in full."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from node_stage import Crowd, small_contract
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.state.database import FILE


def test_old_copies_and_lost_charges_are_refused_and_the_newest_state_goes_on(
    tmp_path: Path,
) -> None:
    crowd = Crowd(tmp_path, small_contract(3, 120), ledgers=tmp_path / "ledgers")
    state, copies = crowd.folder("m0") / "state", tmp_path / "copies"
    try:
        crowd.start()
        _stopped_after(crowd, "m0", 20)
        shutil.copytree(state, copies / "old")
        crowd.start("m0")
        _stopped_after(crowd, "m0", 60)
        shutil.copytree(state, copies / "newest")
        for damage in (
            lambda: _put_back(copies / "old", state),
            lambda: _emptied(state),
            lambda: _without_log(state),
        ):
            _refused(crowd, damage)
            _put_back(copies / "newest", state)
        # The whole reservation, while nobody knows
        assert _spent(crowd) == pytest.approx(5.0, rel=1e-4)
        crowd.start("m0")
        crowd.finish(240)
    finally:
        crowd.stop()
    assert len(_charges(state)) == 120 * 2
    assert _spent(crowd) == pytest.approx(5.0, rel=1e-4)


def _refused(crowd: Crowd, damage: Callable[[], None]) -> None:
    damage()
    crowd.start("m0")
    assert crowd.wait(60, ["m0"]) == {"m0": 2}, crowd.output("m0")
    last = crowd.output("m0").strip().splitlines()[-1]
    assert last.startswith("Error: StateError: The state") and "damaged or an old copy" in last
    assert last.endswith("put the newest state back, or leave the run.")


def _put_back(copy: Path, state: Path) -> None:
    shutil.rmtree(state)
    shutil.copytree(copy, state)


def _emptied(state: Path) -> None:
    db = sqlite3.connect(state / FILE)
    db.execute("DELETE FROM charges")
    db.commit()
    db.close()


def _without_log(state: Path) -> None:
    """The last charges lie in the write-ahead log of a killed process."""
    log = state / f"{FILE}-wal"
    assert log.stat().st_size > 10_000
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def _stopped_after(crowd: Crowd, name: str, charges: int) -> None:
    end = time.monotonic() + 90
    while len(_charges(crowd.folder(name) / "state")) < charges:
        assert time.monotonic() < end and crowd.processes[name].is_alive(), crowd.output(name)
        time.sleep(0.02)
    crowd.kill(name)


def _charges(state: Path) -> list[tuple[int]]:
    if not (state / FILE).exists():
        return []
    db = sqlite3.connect(f"file:{state / FILE}?mode=ro", uri=True)
    try:
        return db.execute("SELECT round FROM charges").fetchall()
    except sqlite3.OperationalError:  # not made yet
        return []
    finally:
        db.close()


def _spent(crowd: Crowd) -> float:
    assert crowd.ledgers is not None
    with LedgerStore(crowd.ledgers / "m0" / "ledger.sqlite") as store:
        (dataset,) = store.datasets()
        return float(store.spent(dataset).curve_with_reserved.epsilon(1e-5))
