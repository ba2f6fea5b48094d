"""Losses, rehearsed on copies: the real folder and ledger stay as they are, to the byte."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from node_stage import Crowd, small_contract
from tacenda.cli.app import app
from tacenda.privacy.accounting.events import Gaussian
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.operate import backup
from tacenda_node.operate.drill import KINDS, drill
from tacenda_node.operate.settings import write_settings


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passphrases are slow on purpose, eight times in a drill."""
    monkeypatch.setattr(backup, "SCRYPT", {"n": 1 << 10, "r": 8, "p": 1})


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A member's folder as `consortium join` leaves it, with a ledger that has an open run."""
    crowd = Crowd(tmp_path_factory.mktemp("drill"), small_contract(3))
    home = crowd.folder("m0")
    contract = home / "contract.toml"
    contract_files.write(crowd.stage.contract, contract)
    for name in crowd.names:
        contract_files.sign(contract, Identity.read(crowd.folder(name) / "identity"))
    shutil.copy2(crowd.stage.schema, home / "schema.toml")
    values: dict[str, Any] = {"schema": "schema.toml", "contract": "contract.toml"}
    values |= {"identity": "identity", "state": "state", "ledger": "ledger.sqlite"}
    write_settings(home, {**values, "data": "records.csv", "dataset": "patients", "budget": 9.0})
    with LedgerStore(home / "ledger.sqlite") as store:
        store.set_budget("patients", 9.0, 1e-5)
        store.open_run("earlier", "patients", "", None, [(Gaussian(4.0), 3)])
    return home


def everything(home: Path) -> dict[str, str]:
    files = [p for p in home.rglob("*") if p.is_file()]
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_each_loss_is_rehearsed_and_nothing_real_is_touched(member: Path, tmp_path: Path) -> None:
    before = everything(member)
    found = drill(member, tmp_path)
    assert everything(member) == before
    assert [one.kind for one in found] == list(KINDS)
    assert all(one.ok for one in found), [one.failed for one in found]
    assert all(one.seconds > 0 and one.did and one.to_do for one in found)
    said = {one.kind: " ".join(one.did + one.open) for one in found}
    assert "took away" in said["key"] and "the contract pins them" in said["key"]
    assert "runs that were open count as spent in full: 1" in said["disk"]
    assert "without your word was refused" in said["ledger"]
    assert "counts as spent in full, in all epsilon" in said["ledger"]
    assert "no policy.toml" in said["operator"]


def test_a_key_that_the_contract_does_not_pin_fails(member: Path, tmp_path: Path) -> None:
    other = tmp_path / "home"
    shutil.copytree(member, other)
    crowd = Crowd(tmp_path / "others", small_contract(3))
    shutil.rmtree(other / "identity")
    shutil.copytree(crowd.folder("m0") / "identity", other / "identity")
    place = tmp_path / "place"
    place.mkdir()
    (found,) = drill(other, place, ("key",))
    assert not found.ok and "is not the one that the contract pins" in found.failed


def test_a_damaged_ledger_fails(member: Path, tmp_path: Path) -> None:
    other = tmp_path / "home"
    shutil.copytree(member, other)
    with LedgerStore(other / "ledger.sqlite") as store:
        store._file.execute("UPDATE tally SET reserved = 1")
    place = tmp_path / "place"
    place.mkdir()
    (found,) = drill(other, place, ("ledger",))
    assert not found.ok and "ledger is damaged" in found.failed


def test_the_command_says_what_it_took(member: Path) -> None:
    told = CliRunner().invoke(app, ["node", "drill", str(member), "--only", "operator"])
    assert told.exit_code == 0, told.output
    assert "operator: ok, " in told.stdout and "to do: the deputy restores" in told.stdout
    plain = CliRunner().invoke(app, ["node", "drill", str(member), "--only", "key", "--json"])
    (one,) = json.loads(plain.stdout)["drills"]
    assert one["ok"] and one["kind"] == "key" and one["seconds"] > 0
    wrong = CliRunner().invoke(app, ["node", "drill", str(member), "--only", "fire"])
    assert wrong.exit_code != 0


def test_a_backup_holds_the_queues_contracts(member: Path, tmp_path: Path) -> None:
    """And what goes on by itself, as the queue does, hinders no restore."""
    home = tmp_path / "home"
    shutil.copytree(member, home)
    shutil.copy2(home / "contract.toml", home / "next-0123456789ab.toml")
    (home / "start-0123456789abcdef.safetensors").write_bytes(b"numbers")
    (home / "queue.json").write_text(json.dumps({"entries": []}))
    backup.back_up(home, tmp_path / "file", "a long enough passphrase")
    inside, _ = backup.contents_of(home)
    assert {"next-0123456789ab.toml", "start-0123456789abcdef.safetensors"} <= set(inside)
    (home / "queue.json").write_text(json.dumps({"entries": [], "more": 1}))
    (home / "next-0123456789ab.toml").unlink()
    backup.restore(tmp_path / "file", home, "a long enough passphrase")
    assert (home / "next-0123456789ab.toml").exists()
    assert "more" in (home / "queue.json").read_text()
