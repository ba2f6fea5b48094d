"""Wrong, damaged and doubled files of a member: nothing is sent, nothing is spent, and the operator
reads which file it is."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos_members import command, nothing_charged, same_bits
from deployed_stage import refused
from node_stage import Crowd, small_contract, small_schema
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.state.database import FILE

pytestmark = pytest.mark.slow


@pytest.fixture
def crowd(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """Three members, of a run with 60 rounds unless the test asks for more."""
    contract = small_contract(3, rounds=getattr(request, "param", 60))
    made = Crowd(tmp_path / "crowd", contract, seed=3, ledgers=tmp_path / "ledgers")
    yield made
    made.stop()


def _stopped_in_the_run(crowd: Crowd, name: str = "m1") -> None:
    crowd.start()
    crowd.until(name, "round one done")
    crowd.kill(name)


def _spent(crowd: Crowd, name: str) -> float:
    assert crowd.ledgers is not None
    with LedgerStore(crowd.ledgers / name / "ledger.sqlite") as store:
        (dataset,) = store.datasets()
        return float(store.spent(dataset).curve_with_reserved.epsilon(1e-5))


def test_a_damaged_state_file(crowd: Crowd) -> None:
    _stopped_in_the_run(crowd)
    state = crowd.folder("m1") / "state"
    shutil.copytree(state, crowd.stage.folder / "kept")
    (state / "node.sqlite-wal").unlink(missing_ok=True)
    (state / "node.sqlite").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    refused(
        crowd, "m1", 4, "is damaged", "Do not delete it and start again", str(state / "node.sqlite")
    )
    assert _spent(crowd, "m1") == pytest.approx(5.0, rel=1e-4)  # the whole reservation
    shutil.rmtree(state)
    shutil.copytree(crowd.stage.folder / "kept", state)
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


@pytest.mark.parametrize("what", ["missing", "damaged"])
def test_a_mark_that_is_lost(crowd: Crowd, what: str) -> None:
    _stopped_in_the_run(crowd)
    assert crowd.ledgers is not None
    (mark,) = [p for p in (crowd.ledgers / "m1" / "marks").iterdir() if p.is_file()]
    kept = mark.read_bytes()
    if what == "missing":
        mark.unlink()
    else:
        mark.write_bytes(bytes(len(kept)))
    refused(crowd, "m1", 4, f"The mark {mark} is {what}", "or leave the run")
    mark.write_bytes(kept)
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


def test_a_damaged_ledger(crowd: Crowd) -> None:
    _stopped_in_the_run(crowd)
    assert crowd.ledgers is not None
    ledger = crowd.ledgers / "m1" / "ledger.sqlite"
    kept = {p: p.read_bytes() for p in ledger.parent.glob("ledger.sqlite*")}
    for path in kept:
        path.unlink()
    ledger.write_bytes(b"no ledger at all" * 300)
    refused(crowd, "m1", 4, str(ledger), "put its newest copy back")
    for path, raw in kept.items():
        path.write_bytes(raw)
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


def test_the_same_member_twice_on_one_state(crowd: Crowd) -> None:
    crowd.start("m0", "m1")  # m2 is missing: both wait
    crowd.until("m1", "listening")
    first = crowd.processes["m1"]
    refused(crowd, "m1", 4, "Another node runs on the state")
    crowd.processes["first m1"] = first
    crowd.start("m2")
    try:
        assert crowd.wait(120, ["m0", "first m1", "m2"]) == {"m0": 0, "first m1": 0, "m2": 0}
    finally:
        crowd.stop()
    same_bits(crowd, crowd.models())


@pytest.mark.parametrize("crowd", [1500], indirect=True)  # still running when the copy is up
def test_a_copied_state_beside_the_first(crowd: Crowd, tmp_path: Path) -> None:
    """A copy of the state folder on the same machine, with the same ledger."""
    crowd.start()
    crowd.until("m1", "round one done")
    first = crowd.processes["m1"]
    shutil.copytree(crowd.folder("m1") / "state", tmp_path / "copy")
    crowd.options["m1"] = {**crowd.options.get("m1", {}), "state": tmp_path / "copy"}
    refused(crowd, "m1", 4, "Another node runs on a copy of this state: it holds the mark")
    assert first.is_alive()
    crowd.processes["m1"] = first


def test_a_state_of_another_version(crowd: Crowd) -> None:
    _stopped_in_the_run(crowd)
    with sqlite3.connect(crowd.folder("m1") / "state" / FILE) as db:
        db.execute("UPDATE about SET value = ? WHERE name = 'format'", (b"tacenda-node-0",))
    db.close()
    refused(crowd, "m1", 4, "is a node's state of another version of the program")


@pytest.mark.parametrize("crowd", [1500], indirect=True)  # still running when the copy is up
def test_the_same_member_twice_on_two_machines(crowd: Crowd, tmp_path: Path) -> None:
    """A copy of the whole member, identity and records, but with a state, a ledger and an address
    of its own: refused as a clone while the first one is there, and for good without it."""
    crowd.start()
    crowd.until("m1", "round one done")
    first, usual = crowd.processes["m1"], crowd.options.get("m1", {})
    copy = tmp_path / "copy"
    crowd.options["m1"] = {
        "state": copy / "state",
        "ledger": copy / "ledger.sqlite",
        "bind": "127.0.0.1:0",
    }
    copy.mkdir()
    crowd.start_as("m1", command)
    try:
        log, end = copy / "state" / "log.jsonl", time.monotonic() + 60
        while not (log.exists() and "is connected here from another process" in log.read_text()):
            assert time.monotonic() < end, crowd.output("m1")
            time.sleep(0.05)
        assert first.is_alive()
    finally:
        first.kill()
    assert crowd.wait(120, ["m1"]) == {"m1": 4}, crowd.output("m1")
    assert "This member (m1) has itself signed round" in crowd.output("m1")
    crowd.options["m1"] = usual
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


@pytest.mark.parametrize("crowd", [1500], indirect=True)
def test_a_state_whose_run_is_closed_in_the_ledger(crowd: Crowd, tmp_path: Path) -> None:
    """Found by attack: its reservation is free again, and a copy of the state went on."""
    _stopped_in_the_run(crowd)
    with LedgerStore(tmp_path / "ledgers" / "m1" / "ledger.sqlite") as store:
        [run] = [run["run"] for run in store.runs()]
        store.close_run(run)
    before = crowd.charges("m1")
    refused(crowd, "m1", 4, "is closed in the ledger", "nothing more is released from it")
    assert crowd.charges("m1") == before


def test_another_schema(crowd: Crowd, tmp_path: Path) -> None:
    small_schema(5).write(tmp_path / "other.toml")
    crowd.options["m1"] = {"schema": tmp_path / "other.toml"}
    refused(crowd, "m1", 2, "contract field schema_hash: the schema")
    nothing_charged(crowd, "m1")


def test_records_that_are_not_there(crowd: Crowd, tmp_path: Path) -> None:
    crowd.options["m1"] = {"data": tmp_path / "nowhere.csv"}
    crowd.start("m0", "m2")
    refused(crowd, "m1", 2, "nowhere.csv", "is not there; check its name and folder")
    nothing_charged(crowd, "m1")


def test_records_with_a_level_or_value_that_the_schema_does_not_know(
    crowd: Crowd, tmp_path: Path
) -> None:
    """The others must not see it: the run goes on, with a blank record."""
    lines = crowd.stage.data["m1"].read_text().splitlines()
    head = lines[0].split(",")
    cells = lines[1].split(",")
    cells[head.index("y")] = "perhaps"
    (tmp_path / "odd.csv").write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")
    crowd.options["m1"] = {"data": tmp_path / "odd.csv"}
    crowd.start()
    crowd.finish()
    assert "perhaps" not in crowd.log("m1") + crowd.output("m1")


def test_other_records_after_a_stop(crowd: Crowd, tmp_path: Path) -> None:
    _stopped_in_the_run(crowd)
    lines = crowd.stage.data["m1"].read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([lines[0], *lines[:1:-1], lines[1]]) + "\n")
    crowd.options["m1"] = {"data": tmp_path / "other.csv"}
    refused(crowd, "m1", 4, "Resuming is refused")
    crowd.options.clear()
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


def test_a_contract_that_cannot_be_read(crowd: Crowd, tmp_path: Path) -> None:
    text = crowd.stage.contract_path.read_text()
    cut = tmp_path / "contract.toml"
    cut.write_text(text[: len(text) // 2])
    crowd.options["m1"] = {"contract": cut}
    refused(crowd, "m1", 2, "contract.toml", "is not valid TOML")
    nothing_charged(crowd, "m1")


def test_a_key_that_others_may_read(crowd: Crowd) -> None:
    key = crowd.folder("m1") / "identity" / "tls.key"
    key.chmod(0o644)
    refused(crowd, "m1", 4, "may be read or written by others", f"chmod 600 {key}")
    nothing_charged(crowd, "m1")


def test_the_identity_of_another_member(crowd: Crowd) -> None:
    crowd.options["m1"] = {"identity": crowd.folder("m0") / "identity"}
    crowd.start("m0", "m2")
    crowd.until("m0", "listening")
    refused(crowd, "m1", 2, "but another number of records was found")
    nothing_charged(crowd, "m1")


def test_a_policy_that_was_made_stricter_in_the_run(crowd: Crowd, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("epsilon = 10.0\n")
    crowd.options["m1"] = {"policy": policy}
    _stopped_in_the_run(crowd)
    policy.write_text("epsilon = 1.0\n")
    refused(crowd, "m1", 3, "line 1 (`epsilon = 1.0`)")
    policy.write_text("epsilon = 10.0\n")
    crowd.start("m1")
    same_bits(crowd, crowd.finish())
