"""A restored backup never shows less than was spent, and brings back nothing that could be drawn
again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from node_stage import signed_contract, small_contract, small_schema
from tacenda.errors import BudgetError, InputError, StateError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.identity import contract_files
from tacenda_node.operate import backup
from tacenda_node.operate.backup import back_up, restore
from tacenda_node.operate.settings import write_settings
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.state.spending import ledger_run

WORDS = "a long sentence that nobody guesses"
DELTA = 1e-5


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "SCRYPT", {"n": 1 << 10, "r": 8, "p": 1})


class Member:
    """m0 with a folder, a ledger elsewhere and an open run."""

    def __init__(self, place: Path) -> None:
        self.home, self.ledger = place / "home", place / "elsewhere" / "ledger.sqlite"
        self.home.mkdir()
        self.ledger.parent.mkdir()
        self.contract, people = signed_contract(small_contract(3), place / "people")
        shutil.copytree(people["m0"].folder, self.home / "identity")
        contract_files.write(self.contract, self.home / "contract.toml")
        contract_files.sign(self.home / "contract.toml", people["m0"])
        small_schema(4).write(self.home / "schema.toml")
        (self.home / "policy.toml").write_text("epsilon = 9.0\n")
        (self.home / "state").mkdir()
        (self.home / "state" / "node.sqlite").write_bytes(b"noise key")
        write_settings(
            self.home, {"schema": "schema.toml", "data": "my.csv", "ledger": str(self.ledger)}
        )
        self.file = place / "north.backup"
        self.run = ledger_run(self.contract, "aaaaaaaa", "m0")
        self.events = make_plan(self.contract).events("m0")
        self.places = [event for event, count in self.events for _ in range(count)]

    def begin(self) -> None:
        with LedgerStore(self.ledger) as store:
            store.set_budget("records", 6.0, DELTA)
            store.open_run(self.run, "records", reserve=self.events)

    def charge(self, first: int, last: int) -> None:
        with LedgerStore(self.ledger) as store:
            some = [([0, k], self.places[k]) for k in range(first, last)]
            store.charge_many(self.run, some)

    def finish(self) -> None:
        self.charge(0, len(self.places))
        with LedgerStore(self.ledger) as store:
            store.close_run(self.run)

    def spent(self) -> float:
        with LedgerStore(self.ledger) as store:
            assert store.verify().ok
            return float(store.spent("records").curve_with_reserved.epsilon(DELTA))

    def back_up(self) -> Any:
        return back_up(self.home, self.file, WORDS)

    def restore(self, folder: Path | None = None, **more: Any) -> Any:
        return restore(self.file, folder or self.home, WORDS, **more)


@pytest.fixture
def member(tmp_path: Path) -> Member:
    return Member(tmp_path)


def test_a_lost_machine_comes_back_with_everything_but_the_state(
    member: Member, tmp_path: Path
) -> None:
    member.begin()
    member.charge(0, 2)
    report = member.back_up()
    assert report.open_runs == [member.run] and member.file.stat().st_mode & 0o777 == 0o600
    before = {
        path.relative_to(member.home): path.read_bytes()
        for path in member.home.rglob("*")
        if path.is_file() and "state" not in path.parts
    }
    text = member.file.read_bytes()
    assert b"PRIVATE KEY" not in text and b"noise key" not in text
    member.finish()
    most = member.spent()
    shutil.rmtree(member.home)
    shutil.rmtree(member.ledger.parent)
    with pytest.raises(InputError, match="--nothing-begun"):
        member.restore()
    assert not member.ledger.exists() and not (member.home / "identity").exists()
    report = member.restore(nothing_begun=True)
    after = {
        p.relative_to(member.home): p.read_bytes() for p in member.home.rglob("*") if p.is_file()
    }
    assert after == before and not (member.home / "state").exists()
    assert (member.home / "identity" / "tls.key").stat().st_mode & 0o777 == 0o600
    assert member.spent() >= most * (1 - 1e-12)
    assert any("spent in full" in note for note in report.notes)
    with LedgerStore(member.ledger) as store:
        assert store.holds(member.run)
        with pytest.raises(BudgetError):
            store.open_run("more", "records", reserve=member.events)


@pytest.mark.parametrize("moment", ["before", "begun", "half", "over"])
def test_never_less_is_spent_whenever_the_backup_was_made(member: Member, moment: str) -> None:
    """The ledger is lost after a whole run; the backup is of an earlier moment of it."""
    if moment == "before":
        with LedgerStore(member.ledger) as store:
            store.set_budget("records", 6.0, DELTA)
        member.back_up()
    member.begin()
    if moment == "begun":
        member.back_up()
    member.charge(0, 2)
    if moment == "half":
        member.back_up()
    member.finish()
    if moment == "over":
        member.back_up()
    most = member.spent()
    member.ledger.unlink()
    begun = [member.home / "contract.toml"]
    member.restore(begun=begun)
    assert member.spent() == pytest.approx(most, rel=1e-12)
    again = member.restore()  # and a second time nothing changes
    assert "was kept" in again.notes[0] and member.spent() == pytest.approx(most, rel=1e-12)


def test_a_newer_ledger_is_kept_and_an_older_one_replaced(member: Member, tmp_path: Path) -> None:
    member.begin()
    old = tmp_path / "old.sqlite"
    with LedgerStore(member.ledger) as store:
        store.copy_to(old)
    member.charge(0, 2)
    member.back_up()
    member.charge(2, 3)
    with LedgerStore(member.ledger) as store:
        head = store.head()
    assert "was kept" in member.restore().notes[0]
    with LedgerStore(member.ledger) as store:
        assert store.head() == head
    shutil.copy(old, member.ledger)
    with pytest.raises(InputError, match="older than this backup"):
        member.restore()
    member.restore(nothing_begun=True)
    with LedgerStore(member.ledger) as store:
        assert store.verify(head).ok is False  # it has fewer rows of its own
    assert member.spent() == pytest.approx(5.0, rel=1e-3)


def test_a_ledger_of_another_origin_is_refused(member: Member) -> None:
    member.begin()
    member.back_up()
    member.ledger.unlink()
    with LedgerStore(member.ledger) as store:
        store.open_run("other", "records", reserve=member.events)
        head = store.head()
    with pytest.raises(StateError, match="have different histories"):
        member.restore(nothing_begun=True)
    with LedgerStore(member.ledger) as store:
        assert store.head() == head


def test_an_empty_ledger_made_by_mistake_is_replaced(member: Member) -> None:
    member.begin()
    member.back_up()
    member.ledger.unlink()
    LedgerStore(member.ledger).close()
    member.restore(nothing_begun=True)
    assert member.spent() == pytest.approx(5.0, rel=1e-3)


def test_a_ledger_in_use_is_not_replaced(member: Member, tmp_path: Path) -> None:
    member.begin()
    old = tmp_path / "old.sqlite"
    with LedgerStore(member.ledger) as store:
        store.copy_to(old)
    member.charge(0, 2)
    member.back_up()
    shutil.copy(old, member.ledger)
    with LedgerStore(member.ledger), pytest.raises(StateError, match="in use"):
        member.restore(nothing_begun=True)


def test_wrong_words_and_damage_change_nothing(member: Member, tmp_path: Path) -> None:
    member.begin()
    member.back_up()
    with pytest.raises(InputError, match="at least 12 characters"):
        back_up(member.home, member.file, "short")
    empty = tmp_path / "empty"
    with pytest.raises(InputError, match="passphrase is wrong"):
        restore(member.file, empty, WORDS + "!")
    data = bytearray(member.file.read_bytes())
    for at in (20, 40, len(data) // 2, len(data) - 1):
        spoiled = bytes(data[:at]) + bytes([data[at] ^ 1]) + bytes(data[at + 1 :])
        (tmp_path / "spoiled").write_bytes(spoiled)
        with pytest.raises(InputError, match="does not open"):
            restore(tmp_path / "spoiled", empty, WORDS)
    (tmp_path / "spoiled").write_bytes(b"anything")
    with pytest.raises(InputError, match="not a backup"):
        restore(tmp_path / "spoiled", empty, WORDS)
    assert not empty.exists()


def test_a_file_that_differs_is_named_and_nothing_is_written(member: Member) -> None:
    member.begin()
    member.back_up()
    member.ledger.unlink()
    (member.home / "policy.toml").write_text("epsilon = 1.0\n")
    with pytest.raises(InputError, match=r"policy\.toml is there and differs"):
        member.restore(nothing_begun=True)
    assert not member.ledger.exists()


def test_what_lies_outside_is_named(member: Member, tmp_path: Path) -> None:
    shutil.move(member.home / "schema.toml", tmp_path / "schema.toml")
    write_settings(
        member.home,
        {"schema": str(tmp_path / "schema.toml"), "data": "x.csv", "ledger": str(member.ledger)},
    )
    assert member.back_up().outside == [str(tmp_path / "schema.toml")]
