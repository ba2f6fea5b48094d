"""Several runs of one member, as real processes: a queue that survives kill -9, one ledger, and a
budget that nobody overspends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from node_stage import Crowd, small_contract
from tacenda.cli.app import app
from tacenda.errors import StateError
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.operate.settings import write_settings
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.state.looks import booked

DELTA = 1e-5


def deployed(place: Path, title: str, ledger: Path, rounds: int, budget: float) -> Crowd:
    """Two members; m0's node.toml books in the given ledger."""
    place.mkdir()
    contract = small_contract(2, rounds=rounds, graph="path", title=title)
    own: dict[str, Any] = {"rehearsal": False, "budget": budget}
    crowd = Crowd(
        place / "crowd",
        contract,
        ledgers=place / "ledgers",
        options={"m0": {**own, "ledger": ledger}, "m1": own},
    )
    plain = crowd._options("m0")
    kept = ("contract", "schema", "data", "identity", "state", "ledger", "bind", "budget")
    write_settings(crowd.folder("m0"), {key: plain[key] for key in kept})
    return crowd


def costs(count: int, rounds: int) -> float:
    """Epsilon of so many runs together."""
    events = make_plan(small_contract(2, rounds=rounds, graph="path")).events("m0")
    return float(judge(events * count, "replace-one").epsilon(DELTA))


def serve(home: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tacenda", "node", "serve", str(home), "--until-empty", *more]
    with (home / "served.txt").open("ab") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )


def queue(*words: Any) -> Any:
    done = CliRunner().invoke(app, ["node", "queue", *map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def reaches(state: Path, round: int) -> None:
    end, done = time.monotonic() + 150, 0
    while done < round:
        assert time.monotonic() < end
        time.sleep(0.02)
        with suppress(StateError):  # its file is just being made
            done = booked(state)[0]


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_queue_survives_kill_9_and_refuses_what_the_budget_does_not_cover(
    tmp_path: Path, at_once: int
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    rounds = 200
    budget = (costs(2, rounds) + costs(3, rounds)) / 2
    titles = ("spring", "autumn", "winter")
    crowds = [deployed(tmp_path / t, t, ledger, rounds, budget) for t in titles]
    home, first = crowds[0].folder("m0"), crowds[0].folder("m0") / "state"
    queue("add", crowds[0].stage.contract_path, "-f", home)
    for crowd in crowds[1:]:
        queue("add", crowd.folder("m0"), "-f", home)
    more = ("--at-once", str(at_once))
    server = None
    try:
        for crowd in crowds:
            crowd.start("m1")
        server = serve(home, *more)
        reaches(first, 5)
        os.killpg(server.pid, signal.SIGKILL)  # everything at once
        server.wait()
        states = [one["state"] for one in queue("list", "-f", home)["entries"]]
        assert states == ["running", "running" if at_once == 2 else "waiting", "waiting"]
        server = serve(home, *more)
        before = booked(first)[0]
        reaches(first, before + 5)
        os.kill(server.pid, signal.SIGKILL)  # the run goes on alone meanwhile
        server.wait()
        server = serve(home, *more)
        code, said = server.wait(240), (home / "served.txt").read_text()
        assert code == 1, said  # one was refused
        assert "is left" in said
    finally:
        if server is not None and server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        for crowd in crowds:
            crowd.stop()
    entries = queue("list", "-f", home)["entries"]
    assert [one["state"] for one in entries] == ["done", "done", "refused"]
    assert [one["round"] for one in entries] == [rounds, rounds, 0]
    assert "is left" in entries[2]["reason"]
    with LedgerStore(ledger) as store:
        assert store.verify().ok
        runs = store.runs()
        assert len(runs) == 2 and not any(run["open"] for run in runs)  # each of them once
        (account,) = store.datasets()
        spent = store.spent(account).curve_with_reserved.epsilon(DELTA)
    assert spent == pytest.approx(costs(2, rounds), rel=1e-6) and spent < budget


@pytest.mark.slow
def test_two_runs_that_begin_at_once_never_overspend(tmp_path: Path) -> None:
    """The budget covers one of them; both look at the ledger at the same moment."""
    ledger = tmp_path / "ledger.sqlite"
    budget = (costs(1, 20) + costs(2, 20)) / 2
    crowds = [deployed(tmp_path / t, t, ledger, 20, budget) for t in ("spring", "autumn")]
    try:
        for crowd in crowds:
            crowd.start("m1")
        for crowd in crowds:
            crowd.start("m0")
        codes = [crowd.wait(120, ["m0"])["m0"] for crowd in crowds]
    finally:
        for crowd in crowds:
            crowd.stop()
    assert sorted(codes) == [0, 2]
    refused = crowds[codes.index(2)]
    assert "BudgetError" in refused.output("m0")
    assert booked(refused.folder("m0") / "state") == (0, [])
    with LedgerStore(ledger) as store:
        assert store.verify().ok and len(store.runs()) == 1
        (account,) = store.datasets()
        spent = store.spent(account).curve_with_reserved.epsilon(DELTA)
    assert spent == pytest.approx(costs(1, 20), rel=1e-6)
