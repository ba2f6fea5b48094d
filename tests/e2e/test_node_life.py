"""The life of a member after a real run: archive, deletion, backup and the way back."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from node_stage import Crowd, simulated, small_contract
from tacenda.cli.app import app
from tacenda.errors import StateError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.operate.archive import FILE, plan_deletion, verify_archive
from tacenda_node.operate.settings import read_settings, write_settings
from tacenda_node.state.database import FILE as STATE
from tacenda_node.state.looks import booked


def member_folder(crowd: Crowd, name: str) -> Path:
    """node.toml for a member of the crowd, so that commands find everything."""
    home = crowd.folder(name)
    plain = crowd._options(name)
    kept = ("contract", "schema", "data", "identity", "state", "ledger", "bind", "budget")
    write_settings(home, {key: plain[key] for key in kept if plain.get(key) is not None})
    return home


def command(*words: Any) -> Result:
    return CliRunner().invoke(app, ["node", *map(str, words)])


def deployed(folder: Path, rounds: int = 3, seed: int | None = None, **changes: Any) -> Crowd:
    contract = small_contract(3, rounds=rounds, **changes)
    own = {"rehearsal": seed is not None, "budget": 20.0}
    return Crowd(
        folder,
        contract,
        seed=seed,
        ledgers=folder / "ledgers",
        options=dict.fromkeys(contract.names, own),
    )


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    """A run that is over; the policy of m0 had an approved exception."""
    crowd = deployed(tmp_path_factory.mktemp("over"))
    crowd.keep_own_signatures()  # the others' travel between the nodes
    crowd.options["m0"] = {**crowd.options["m0"], "policy": crowd.folder("m0") / "policy.toml"}
    home = member_folder(crowd, "m0")
    (home / "policy.toml").write_text("epsilon = 1.0\n")
    assert command("approve", home, "--by", "A", "--reason", "board").exit_code == 0
    for name in ("m1", "m2"):
        member_folder(crowd, name)
    crowd.start()
    crowd.finish()
    return crowd


def spent(crowd: Crowd, name: str) -> float:
    assert crowd.ledgers is not None
    with LedgerStore(crowd.ledgers / name / "ledger.sqlite") as store:
        assert store.verify().ok
        (account,) = store.datasets()
        return float(store.spent(account).curve_with_reserved.epsilon(1e-5))


def test_an_archive_holds_what_must_be_kept_and_no_key(over: Crowd, tmp_path: Path) -> None:
    home, target = over.folder("m0"), tmp_path / "archive"
    done = command("archive", home, "-o", target)
    assert done.exit_code == 0, done.output
    files = json.loads((target / FILE).read_text())["body"]["files"]
    for name in (
        "contract/contract.toml",
        "contract/contract.toml.signatures",
        "policy/policy.toml",
        "run/statement.json",
        "run/manifest.json",
        "run/log.jsonl",
        "ledger.jsonl",
        "versions.json",
    ):
        assert name in files, name
    assert any(name.startswith("policy/approvals/") for name in files)
    assert any(name.startswith("run/results/") for name in files)
    with sqlite3.connect(home / "state" / STATE) as db:
        (key,) = db.execute("SELECT value FROM about WHERE name='key'").fetchone()
    signing = (home / "identity" / "signing.key").read_bytes()
    for name in files:
        data = (target / name).read_bytes()
        assert key not in data and signing not in data, name
    checked = json.loads(command("verify-archive", target, "--json").stdout)
    assert checked["epsilon"] == pytest.approx(5.0, rel=1e-3) and not checked["notes"]
    report = CliRunner().invoke(app, ["report", str(target / "run"), "-o", str(tmp_path / "r")])
    assert report.exit_code == 0, report.output


def test_a_changed_missing_or_added_file_is_named(over: Crowd, tmp_path: Path) -> None:
    target = tmp_path / "archive"
    assert command("archive", over.folder("m1"), "-o", target).exit_code == 0
    for name in ("ledger.jsonl", "run/statement.json", "contract/contract.toml"):
        text = (target / name).read_bytes()
        (target / name).write_bytes(text + b"\n")
        assert command("verify-archive", target).exit_code == 4
        (target / name).unlink()
        with pytest.raises(StateError, match=f"{name} is missing"):
            verify_archive(target)
        (target / name).write_bytes(text)
    (target / "more").touch()
    with pytest.raises(StateError, match="more was changed or added"):
        verify_archive(target)
    (target / "more").unlink()
    values = json.loads((target / FILE).read_text())
    values["body"]["archived_at"] = "2020-01-01T00:00:00+00:00"
    (target / FILE).write_text(json.dumps(values))
    with pytest.raises(StateError, match="not signed by m1"):
        verify_archive(target)


def test_deletion_removes_the_keys_and_never_the_ledger(over: Crowd) -> None:
    home, before = over.folder("m2"), spent(over, "m2")
    asked = command("delete", home)
    assert asked.exit_code == 1 and (home / "state" / STATE).exists()  # nobody said yes
    assert "ledger.sqlite: what the records have lost" in asked.output
    done = command("delete", home, "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert str(home / "state" / STATE) in json.loads(done.stdout)["remove"]
    assert not list((home / "state").glob("node.sqlite*"))
    assert list((home / "state").glob("results/*.safetensors"))
    assert spent(over, "m2") == pytest.approx(before, rel=1e-12)
    again = command("delete", home, "--yes")  # nothing is left to do
    assert again.exit_code == 0, again.output
    # And the run cannot be begun a second time
    over.contracts.pop("m2")  # the copy with all signatures: it would wait for them otherwise
    try:
        over.start("m2")
        assert over.wait(60, ["m2"]) == {"m2": 2}
    finally:
        over.stop()
    assert "has begun this contract before" in over.output("m2")
    assert spent(over, "m2") == pytest.approx(before, rel=1e-12)


@pytest.mark.slow
def test_a_run_that_is_not_over_is_kept_or_spent_in_full(tmp_path: Path) -> None:
    crowd = deployed(tmp_path, rounds=400)
    home = member_folder(crowd, "m0")
    try:
        crowd.start()
        crowd.until("m0", "round one done")
        refused = command("delete", home, "--yes")
        assert refused.exit_code == 4 and "A node runs" in refused.output
        for name in crowd.names:
            crowd.kill(name)
    finally:
        crowd.stop()
    refused = command("delete", home, "--yes")
    assert refused.exit_code == 4 and "--force-spent" in refused.output
    assert command("archive", home, "-o", tmp_path / "no").exit_code == 2
    kept = command("archive", home, "-o", tmp_path / "kept", "--unfinished")
    assert kept.exit_code == 0, kept.output
    assert plan_deletion(read_settings(home), force_spent=True).spends
    assert command("delete", home, "--yes", "--force-spent").exit_code == 0
    assert spent(crowd, "m0") == pytest.approx(5.0, rel=1e-3)
    with LedgerStore(tmp_path / "ledgers" / "m0" / "ledger.sqlite") as store:
        assert not any(run["open"] for run in store.runs())


@pytest.mark.slow
def test_a_restored_ledger_lets_the_newest_state_go_on_and_nothing_else(tmp_path: Path) -> None:
    """A backup in the middle of a run, more rounds, then the ledger is lost: the newest state goes
    on with the same bits; an old one, or none, is refused; never less is spent."""
    crowd = deployed(tmp_path, rounds=3000, seed=3)
    home, ledger = member_folder(crowd, "m0"), tmp_path / "ledgers" / "m0" / "ledger.sqlite"
    secret, file, state = tmp_path / "words", tmp_path / "m0.backup", home / "state"
    secret.write_text("a long sentence that nobody guesses\n")
    secret.chmod(0o600)
    words = ("--passphrase-file", secret)
    put_back = ("restore", file, "--folder", home, *words)
    try:
        crowd.start()
        crowd.until("m0", "round one done")
        done = command("backup", home, "-o", file, *words)  # while it runs
        assert done.exit_code == 0, done.output
        crowd.kill("m0")
        shutil.copytree(state, tmp_path / "old")
        crowd.start("m0")
        _reaches(state, booked(tmp_path / "old")[0] + 10)
        crowd.kill("m0")
        kept = command(*put_back)
        assert kept.exit_code == 0 and "was kept" in kept.output
        for path in ledger.parent.glob("ledger.sqlite*"):
            path.unlink()
        asked = command(*put_back)
        assert asked.exit_code == 2 and "--nothing-begun" in asked.output
        done = command(*put_back, "--nothing-begun")
        assert done.exit_code == 0 and "spent in full" in done.output, done.output
        assert spent(crowd, "m0") == pytest.approx(5.0, rel=1e-3)
        state.rename(tmp_path / "newest")
        shutil.copytree(tmp_path / "old", state)  # an old state: its mark is ahead of it
        crowd.start("m0")
        assert crowd.wait(60, ["m0"]) == {"m0": 2}
        assert "old copy" in crowd.output("m0")
        shutil.rmtree(state)
        (tmp_path / "newest").rename(state)
        crowd.start("m0")
        np.testing.assert_array_equal(crowd.finish(), simulated(crowd.stage, seed=3))
        assert spent(crowd, "m0") == pytest.approx(5.0, rel=1e-3)
    finally:
        crowd.stop()


@pytest.mark.slow
def test_after_a_dead_disk_the_run_is_not_begun_anew(tmp_path: Path) -> None:
    crowd = deployed(tmp_path, rounds=400)
    home, ledger = member_folder(crowd, "m0"), tmp_path / "ledgers" / "m0" / "ledger.sqlite"
    secret, file = tmp_path / "words", tmp_path / "m0.backup"
    secret.write_text("a long sentence that nobody guesses\n")
    secret.chmod(0o600)
    words = ("--passphrase-file", secret)
    try:
        assert command("backup", home, "-o", file, *words).exit_code == 0  # before the run
        crowd.start()
        crowd.until("m0", "round one done")
        crowd.kill("m0")
        shutil.rmtree(home / "state")
        shutil.rmtree(ledger.parent)
        contract = crowd.stage.contract_path
        done = command(
            *("restore", file, "--folder", home, *words),
            *("--begun", contract, "--dataset", "records"),
        )
        assert done.exit_code == 0, done.output
        assert spent(crowd, "m0") == pytest.approx(5.0, rel=1e-3)
        crowd.start("m0")
        assert crowd.wait(60, ["m0"]) == {"m0": 2}
        assert "has begun this contract before" in crowd.output("m0")
    finally:
        crowd.stop()


def _reaches(state: Path, round: int) -> None:
    end = time.monotonic() + 120
    while booked(state)[0] < round:
        assert time.monotonic() < end
        time.sleep(0.02)
