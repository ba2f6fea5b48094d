"""Proposals on real processes: the next run by one command at one member and one at each other,
on without a member, and a stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from node_stage import Crowd, small_contract
from tacenda.cli.app import app
from tacenda.formats.text import toml
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.runtime.result import load
from tacenda_node.operate.queue import Queue
from tacenda_node.operate.settings import write_settings

pytestmark = pytest.mark.slow


class Federation:
    """Members with folders of their own, as `consortium join` leaves them, and `node serve`."""

    def __init__(self, place: Path, contract: Any, policies: dict[str, dict[str, Any]]) -> None:
        own = {"rehearsal": False, "budget": 30.0}
        self.crowd = Crowd(
            place, contract, ledgers=place / "ledgers", options=dict.fromkeys(contract.names, own)
        )
        self.crowd.keep_own_signatures()
        self.names = self.crowd.names
        kept = ("contract", "schema", "data", "identity", "state", "ledger", "bind", "budget")
        for name in self.names:
            plain = self.crowd._options(name)
            write_settings(self.home(name), {key: plain[key] for key in kept})
            if name in policies:
                (self.home(name) / "policy.toml").write_text(toml(policies[name]))

    def home(self, name: str) -> Path:
        return self.crowd.folder(name)

    @contextmanager
    def served(self, *names: str) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
        made = {name: self.serve(name) for name in names or self.names}
        try:
            yield made
        finally:
            for process in made.values():
                process.send_signal(signal.SIGTERM)
            for process in made.values():
                process.wait(60)

    def serve(self, name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tacenda", "node", "serve", str(self.home(name))]
        with (self.home(name) / "served.txt").open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def says(self, name: str) -> str:
        return (self.home(name) / "served.txt").read_text()

    def do(self, *words: str) -> str:
        found = CliRunner().invoke(app, ["consortium", *words])
        assert found.exit_code == 0, found.output
        if words[:2] in (("propose", "without"), ("propose", "stop")):
            assert "starts from scratch" not in found.output  # it is about this run
        return found.stdout

    def propose(self, by: str, *words: str) -> tuple[str, str]:
        """(number, what was said)."""
        said = self.do("propose", *words, "--folder", str(self.home(by)), "--yes")
        return said.split(":")[0], said

    def accept(self, name: str, number: str) -> str:
        return self.do("accept", number, "--folder", str(self.home(name)), "--yes")

    def states(self, name: str) -> list[str]:
        return [one.state for one in Queue(self.home(name)).entries()]

    def until(self, what: Callable[[], bool], seconds: float = 180.0) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, {name: self.says(name) for name in self.names}
            time.sleep(0.3)


def knows(federation: Federation, name: str, number: str) -> bool:
    return (federation.home(name) / "proposals" / f"{number}.json").exists()


def test_next_month_by_one_command_at_each_member(tmp_path: Path) -> None:
    """m1 accepts by hand, and m2's officer has allowed it beforehand; nobody edits a file. The
    runs are begun by the units that serve."""
    policies = {"m2": {"epsilon": 50.0, "delta": 1e-4, "proposals": ["next"]}}
    federation = Federation(tmp_path, small_contract(3, rounds=12), policies)
    with federation.served():
        federation.until(
            lambda: all((federation.home(n) / ".serve.lock").exists() for n in federation.names)
        )
        time.sleep(3)
        number, said = federation.propose("m0", "next", "--reason", "October")
        assert "m0 proposes the next run, 'test 2' (October)" in said
        federation.until(lambda: all(knows(federation, n, number) for n in ("m1", "m2")))
        federation.until(lambda: "answer: tacenda consortium accept" in federation.says("m1"))
        federation.accept("m1", number)
        federation.until(lambda: "accepted by the policy" in federation.says("m2"))
        federation.until(lambda: all(federation.states(n) == ["done"] for n in federation.names))
        listed = json.loads(
            federation.do("proposals", "--folder", str(federation.home("m1")), "--json")
        )
        (one,) = listed["proposals"]
        assert (
            one["in_effect"] and one["accepted"] == ["m0", "m1", "m2"] and one["title"] == "test 2"
        )
        # And the month after: its number follows, from the contract that is now the latest one
        _, said = federation.propose("m1", "next")
        assert "'test 3'" in said
    models = []
    for name in federation.names:
        (state,) = federation.home(name).glob("state-*")
        models.append(load(next((state / "results").glob("*.safetensors"))).models)
    assert len(models) == 3


def test_the_members_stop_a_run_for_good(tmp_path: Path) -> None:
    """Two of three are enough; the third ends, too, and nobody's run can go on."""
    contract = small_contract(3, rounds=4000, absence={"policy": "stop", "limit_seconds": 60.0})
    federation = Federation(tmp_path, contract, {})
    crowd = federation.crowd
    try:
        crowd.start()
        for name in crowd.names:
            crowd.until(name, "round one done")
        number, said = federation.propose("m0", "stop", "--reason", "wrong schema")
        assert "Shown to m1, m2" in said and "waits for m1, m2" in said
        assert knows(federation, "m2", number)
        assert "in effect" in federation.accept("m1", number)
        codes = crowd.wait(90)
        assert set(codes.values()) == {2}  # the stage's code of every error
        for name in crowd.names:
            assert "The run was stopped for good: m0, m1 have accepted" in crowd.output(name)
            assert "wrong schema" in crowd.output(name)
        for name in crowd.names:
            with LedgerStore(crowd.ledgers / name / "ledger.sqlite") as store:
                (account,) = store.datasets()
                spent = store.spent(account)
            assert not spent.reserved and spent.curve.epsilon(1e-5) > 0
        crowd.start("m2")  # it does not begin again
        assert crowd.wait(60, ["m2"]) == {"m2": 2}
        assert "stopped for good" in crowd.output("m2")
    finally:
        crowd.stop()


def test_the_members_go_on_without_one(tmp_path: Path) -> None:
    """Under `stop` a lost member would end the run; one proposal, accepted by the two others,
    leaves it out."""
    contract = small_contract(
        4, rounds=600, graph="complete", absence={"policy": "stop", "limit_seconds": 120.0}
    )
    federation = Federation(tmp_path, contract, {})
    crowd, rest = federation.crowd, ["m0", "m1", "m2"]
    try:
        crowd.start()
        for name in crowd.names:
            crowd.until(name, "round one done")
        crowd.kill("m3")
        number, said = federation.propose("m1", "without", "m3", "--reason", "disk is dead")
        assert "to go on without m3" in said and "Not to m3" in said
        for name in ("m0", "m2"):
            assert knows(federation, name, number)
            federation.accept(name, number)
        codes = crowd.wait(150, rest)
        assert codes == dict.fromkeys(rest, 0), {name: crowd.output(name) for name in rest}
        for name in rest:
            assert '"event": "amendment in force"' in crowd.log(name)
    finally:
        crowd.stop()
