"""The queue's file: order, one ledger, approvals, and ports that are not shared."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from node_stage import signed_contract, small_contract, small_schema
from tacenda.cli.app import app
from tacenda.errors import InputError, StateError
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.operate import queue as queues
from tacenda_node.operate.queue import FILE, Queue, Server, _ports, not_allowed
from tacenda_node.operate.settings import read_settings, write_settings
from tacenda_node.watch.status_file import state_folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """m0's folder with two signed contracts, spring.toml being the folder's own."""
    folder = tmp_path / "home"
    folder.mkdir()
    spring, people = signed_contract(small_contract(3), tmp_path / "people")
    autumn = Contract.build({**spring.to_plain(), "title": "autumn", "rounds": 6})
    shutil.copytree(people["m0"].folder, folder / "identity")
    for name, contract in (("contract", spring), ("autumn", autumn)):
        contract_files.write(contract, folder / f"{name}.toml")
        contract_files.sign(folder / f"{name}.toml", people["m0"])
    small_schema(4).write(folder / "schema.toml")
    write_settings(
        folder, {"schema": "schema.toml", "data": "my.csv", "ledger": str(tmp_path / "l.sqlite")}
    )
    return folder


def test_entries_keep_their_order_and_have_states_of_their_own(home: Path) -> None:
    queue = Queue(home)
    first, second = queue.add(home / "contract.toml"), queue.add(home / "autumn.toml")
    assert [one.title for one in Queue(home).entries()] == ["test", "autumn"]
    states = [queue.settings(Path(one.what)).state for one in (first, second)]
    assert states[0] == read_settings(home).state and states[1] != states[0]
    assert states[1].parent == states[0].parent
    with pytest.raises(InputError, match="already, as number 2"):
        queue.add(home / "autumn.toml")
    assert (home / FILE).stat().st_mode & 0o777 == 0o600
    assert queue.remove(1) == first
    with pytest.raises(InputError, match="no number 1; there are 2"):
        queue.remove(1)
    (listed,) = queue.listing()
    assert listed["round"] == 0 and listed["rounds"] == 6 and listed["reason"] == ""


def test_the_list_takes_the_folder_as_other_commands_do(home: Path) -> None:
    Queue(home).add(home / "autumn.toml")
    said = [
        CliRunner().invoke(app, ["node", "queue", "list", *words])
        for words in ([str(home)], ["--folder", str(home)], [str(home), "--folder", str(home)])
    ]
    assert [one.exit_code for one in said] == [0, 0, 0]
    assert len({one.stdout for one in said}) == 1 and "1 'autumn': waiting" in said[0].stdout
    both = CliRunner().invoke(app, ["node", "queue", "list", str(home), "--folder", "other"])
    assert both.exit_code == 2 and "give one of the two" in both.stderr


def test_the_status_of_a_folder_is_that_of_its_present_or_latest_run(home: Path) -> None:
    queue = Queue(home)
    entries = [queue.add(home / f"{name}.toml") for name in ("contract", "autumn")]
    states = [queue.settings(Path(one.what)).state for one in entries]
    assert queue.present_state() is None and state_folder(home) == states[0]
    for state in states:
        state.mkdir()
        (state / "status.json").write_text("{}")
        assert queue.present_state() == state_folder(home) == state.resolve()
    queue.update(1, state="running")
    assert state_folder(home) == states[0].resolve()
    assert state_folder(states[1]) == states[1]  # one that is named


def test_a_run_that_the_members_have_stopped_is_done_with_the_reason(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(home)
    ended = SimpleNamespace(poll=lambda: 0)
    server = Server(queue, say=lambda text: None)
    for number, (name, why) in enumerate((("contract", "stopped for good"), ("autumn", "")), 1):
        entry = queue.add(home / f"{name}.toml")
        told = SimpleNamespace(stopped=why)
        monkeypatch.setattr(queues, "read_status", lambda state, told=told: told)
        server._running[number] = queues._Running(entry, ended, frozenset())  # type: ignore[arg-type]
        server._collect()
    assert [(one.state, one.reason) for one in queue.entries()] == [
        ("done", "stopped for good"),
        ("done", ""),
    ]


def test_a_refused_entry_that_is_added_again_waits_again(home: Path) -> None:
    queue = Queue(home)
    number = queue.add(home / "autumn.toml").number
    queue.update(number, state="refused", reason="no budget")
    again = queue.add(home / "autumn.toml")
    assert (again.number, again.state, again.reason) == (number, "waiting", "")
    queue.update(number, state="done")
    with pytest.raises(InputError, match="already"):
        queue.add(home / "autumn.toml")
    queue.update(99, state="done")  # one that was removed stays removed
    assert len(queue.entries()) == 1


def test_a_folder_with_another_ledger_is_refused(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(home, other)
    write_settings(
        other, {"schema": "schema.toml", "data": "my.csv", "ledger": str(tmp_path / "2.sqlite")}
    )
    with pytest.raises(InputError, match="one queue has one ledger"):
        Queue(home).add(other)
    assert not Queue(home).entries()


def test_it_waits_for_signature_and_officer(home: Path) -> None:
    settings = Queue(home).settings(home / "autumn.toml")
    contract = contract_files.read(home / "autumn.toml")
    assert not_allowed(settings, contract) == ""
    (home / "policy.toml").write_text("rounds = 5\n")
    settings = Queue(home).settings(home / "autumn.toml")
    assert "line 1 (`rounds = 5`)" in not_allowed(settings, contract)
    Queue(home).add(home / "autumn.toml")
    assert "rounds = 5" in Queue(home).listing()[0]["reason"]
    contract_files.signatures_path(home / "autumn.toml").unlink()
    assert "signature of m0" in not_allowed(settings, contract)


def test_runs_with_a_port_in_common_are_told_apart_from_others(home: Path) -> None:
    one = read_settings(home, bind="0.0.0.0:7443", metrics_address=9464)
    contract = contract_files.read(one.contract)
    assert _ports(one, contract) == {"7443", "9464"}
    assert _ports(read_settings(home), contract) == {"1"}
    assert _ports(read_settings(home, bind="relay://r.example:7444"), contract) == frozenset()


def test_a_damaged_queue_is_named(home: Path) -> None:
    (home / FILE).write_text("{}")
    with pytest.raises(StateError, match="not a queue"):
        Queue(home).entries()
