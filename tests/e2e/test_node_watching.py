"""What an operator sees of a node: the live table, health, status, a short log, and what is left in
the state folder after the run: predictions, a signed statement."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from node_stage import Crowd, live, live_on_terminal, small_contract
from tacenda.errors import StateError
from tacenda_node.evidence.signed_statement import FILE as STATEMENT
from tacenda_node.evidence.signed_statement import verify_statement
from tacenda_node.identity import contract_files
from tacenda_node.setup.rehearse import free_ports
from tacenda_node.watch.status_file import read_status


def _screen(master: int, seen: list[bytes]) -> None:
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # nobody holds the other end any more
            return
        if not part:
            return
        seen.append(part)


def test_live_table_on_a_terminal_and_cursor_given_back(tmp_path: Path) -> None:
    """With gRPC's words on standard error listened to, as on the command line."""
    loud = {"m0": {"quiet": False}}
    crowd = Crowd(tmp_path, small_contract(2, rounds=60, graph="path"), options=loud)
    master, slave = pty.openpty()
    seen: list[bytes] = []
    reader = threading.Thread(target=_screen, args=(master, seen), daemon=True)
    reader.start()
    crowd.start_as("m0", live_on_terminal, os.ttyname(slave))
    try:
        end = time.monotonic() + 60
        while b"round 0 of 60" not in b"".join(seen):  # while it waits for m1
            assert time.monotonic() < end, (crowd.output("m0"), b"".join(seen)[-500:])
            time.sleep(0.05)
        crowd.start("m1")
        crowd.finish()
    finally:
        crowd.stop()
        os.close(slave)
    reader.join(5)
    os.close(master)
    text = b"".join(seen).decode()
    assert "test: m0" in text  # the table's title
    assert re.search(r"m1.*(not connected yet|nothing listens)", text)
    assert re.search(r"m1.*connected ", text)
    assert text.count("\x1b[?25l") == 1
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    """Two members after their last round."""
    crowd = Crowd(tmp_path_factory.mktemp("ended"), small_contract(2, rounds=4, graph="path"))
    crowd.start()
    crowd.finish()
    return crowd


def test_status_after_the_end(ended: Crowd, tools: ModuleType) -> None:
    state = ended.folder("m0") / "state"
    status = read_status(state)
    assert (status.state, status.round, status.in_order) == ("finished", 4, True)
    assert status.run is not None
    assert status.run.epsilon == pytest.approx(5.0, rel=1e-4)
    assert status.lasting is not None
    assert status.lasting.epsilon == pytest.approx(status.run.epsilon, rel=1e-9)
    assert "predict" in status.to_do
    found = tools.tacenda("node", "status", str(state), "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["round"] == 4
    said = tools.tacenda("node", "status", str(state)).stdout
    assert "finished" in said
    assert "m1" in said


def test_predict_evaluate_and_coefficients_of_a_node(ended: Crowd, tools: ModuleType) -> None:
    state, data = str(ended.folder("m0") / "state"), str(ended.stage.data["m0"])
    lines = tools.tacenda("predict", state, "--data", data).stdout.splitlines()
    assert lines[0] == "prediction,probability yes"
    assert len(lines) == 1 + ended.stage.contract.member("m0").size
    assert {line.split(",")[0] for line in lines[1:]} <= {"no", "yes"}
    found = json.loads(tools.tacenda("evaluate", state, data, "--json").stdout)
    assert found["run"] == "ipadmm-m0"
    assert "not private" in found["note"]
    named = json.loads(tools.tacenda("coefficients", state, "--json").stdout)["coefficients"]
    assert {"x0", "x1", "x2"} <= {row["feature"] for row in named}
    refused = tools.tacenda("evaluate", state, "adult", "--json")
    assert refused.exit_code == 2
    assert "DATA must be a file" in refused.stderr


def test_statement_is_signed_and_every_change_is_found(
    ended: Crowd, tools: ModuleType, tmp_path: Path
) -> None:
    state, contract = ended.folder("m0") / "state", ended.stage.contract
    found = verify_statement(state, contract)
    assert found.member == "m0"
    assert found.statement.epsilon == pytest.approx(5.0, rel=1e-4)
    said = tools.tacenda(
        "node", "verify-statement", str(state), "--contract", str(ended.stage.contract_path)
    )
    assert said.exit_code == 0, said.stderr
    assert "Signed by m0" in said.stdout
    plain = json.loads((state / STATEMENT).read_text())
    for change, words in (
        (lambda p: p["body"]["privacy"].update(epsilon=1.0), "not signed"),
        (lambda p: p["body"]["privacy"]["charges"].pop(), "not signed"),
        (lambda p: p["body"].update(member="m1"), "not signed"),
        (lambda p: p["body"].update(member="x"), "not a member"),
        (lambda p: p.update(signature="AAAA"), "not signed"),
        (lambda p: p.pop("signature"), "no signature"),
        (lambda p: p.update(format="other"), "format"),
    ):
        changed = json.loads(json.dumps(plain))
        change(changed)
        path = tmp_path / STATEMENT
        path.write_text(json.dumps(changed))
        with pytest.raises(StateError, match=words):
            verify_statement(path, contract)
    other = contract_files.read(ended.stage.contract_path).model_copy(update={"title": "other"})
    with pytest.raises(StateError, match="another contract"):
        verify_statement(state, other)


def _answer(port: int, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def test_health_says_what_is_wrong(tmp_path: Path) -> None:
    """A neighbour that stays away: ready all along, in order at first, and then not."""
    terms = {"policy": "stop", "limit_seconds": 2.0}
    crowd = Crowd(tmp_path, small_contract(3, rounds=5, absence=terms))
    (crowd.metrics,) = free_ports(1)
    crowd.start("m0")
    seen: dict[int, dict[str, Any]] = {}
    try:
        end = time.monotonic() + 60
        while 503 not in seen and crowd.processes["m0"].is_alive():
            assert time.monotonic() < end
            try:
                code, found = _answer(crowd.metrics, "/healthz")
                ready, live = _answer(crowd.metrics, "/readyz"), _answer(crowd.metrics, "/livez")
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
                continue
            seen.setdefault(code, found)
            if code == 200:
                assert live[0] == 200
            if code == 503:
                assert (ready[0], live[0]) == (200, 200)
            time.sleep(0.02)
    finally:
        crowd.wait(20, ["m0"])
        crowd.stop()
    assert seen[200]["ok"]
    away = "m1 is away, not heard since this node started"
    assert any(away in words for words in seen[503]["problems"]), seen
    status = read_status(crowd.folder("m0") / "state")
    assert status.state == "stopped"
    assert "stayed away" in status.stopped
    assert "start the node again" in status.to_do


PATIENT = {"policy": "stop", "limit_seconds": 90.0}


def _until_all_name(crowd: Crowd, names: list[str], member: str, state: str) -> None:
    """Wait until each of these members says that it waits for `member`, and nobody else, in this
    state: in its sentence and in its status."""
    end = time.monotonic() + 60
    while True:
        status = {name: read_status(crowd.folder(name) / "state") for name in names}
        named = {name: [(c.member, c.state) for c in one.causes] for name, one in status.items()}
        if all(found == [(member, state)] for found in named.values()):
            break
        assert time.monotonic() < end, named
        time.sleep(0.5)
    for one in status.values():
        assert f"waiting for {member} ({state}" in one.summary
        assert one.causes[0].chain[-1] == member and one.causes[0].seconds > 0


def _until_none_waits(crowd: Crowd, names: list[str]) -> None:
    end = time.monotonic() + 60
    while any(read_status(crowd.folder(name) / "state").causes for name in names):
        assert time.monotonic() < end
        time.sleep(0.5)


@pytest.mark.slow
def test_the_member_that_is_gone_is_named_by_all(tmp_path: Path) -> None:
    """In a ring of five m2 is killed: also who is no neighbour of it names it, and says who says
    so, on the page's status and in the metrics. Frozen instead, it is called frozen."""
    (port,) = free_ports(1)
    contract = small_contract(5, rounds=3000, absence=PATIENT)
    crowd = Crowd(tmp_path, contract, options={"m4": {"metrics_address": str(port)}})
    rest = ["m0", "m1", "m3", "m4"]
    try:
        crowd.start()
        for name in crowd.names:
            crowd.until(name, "round one done")
        os.kill(crowd.processes["m2"].pid, signal.SIGSTOP)
        _until_all_name(crowd, rest, "m2", "frozen")
        direct = read_status(crowd.folder("m1") / "state")
        assert [peer.state for peer in direct.peers if peer.name == "m2"] == ["frozen"]
        os.kill(crowd.processes["m2"].pid, signal.SIGCONT)
        _until_none_waits(crowd, rest)  # killed before a sign of life, it would still look frozen
        crowd.kill("m2")
        _until_all_name(crowd, rest, "m2", "away")
        status = read_status(crowd.folder("m4") / "state")
        assert status.causes[0].chain == ["m3", "m2"]
        assert "m2 (away for" in status.summary and "says m3" in status.summary
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert b'tacenda_waiting_on_seconds{member="m2",state="away"}' in answer.read()
        crowd.start("m2")
        _until_none_waits(crowd, rest)
    finally:
        crowd.stop()


@pytest.mark.slow
def test_who_stops_because_of_another_is_not_blamed(tmp_path: Path) -> None:
    """m2 of a ring of five is gone: its neighbours stop after the limit, then theirs, and all name
    m2 in their last words."""
    contract = small_contract(5, rounds=3000, absence={"policy": "stop", "limit_seconds": 5.0})
    crowd = Crowd(tmp_path, contract)
    rest = ["m0", "m1", "m3", "m4"]
    try:
        crowd.start()
        for name in crowd.names:
            crowd.until(name, "round one done")
        crowd.kill("m2")
        assert crowd.wait(60, rest) == dict.fromkeys(rest, 2)
    finally:
        crowd.stop()
    for name in rest:
        assert "m2 stayed away for more than 5 s" in crowd.output(name), crowd.output(name)


@pytest.mark.slow
def test_a_cloned_machine_is_told_that_it_is_a_clone(tmp_path: Path) -> None:
    """The whole machine of m0 is copied while it runs, and the copy is started at another address:
    the neighbours refuse it, its operator reads why, and the run goes on as if nothing were."""
    contract = small_contract(3, rounds=3000, absence=PATIENT)
    crowd = Crowd(tmp_path, contract, ledgers=tmp_path / "ledgers")
    (port,) = free_ports(1)
    try:
        crowd.start()
        crowd.until("m0", "round one done")
        os.kill(crowd.processes["m0"].pid, signal.SIGSTOP)
        copy = tmp_path / "clone"
        shutil.copytree(crowd.folder("m0"), copy)
        shutil.copytree(tmp_path / "ledgers" / "m0", copy / "ledgers")
        os.kill(crowd.processes["m0"].pid, signal.SIGCONT)
        (copy / "output.txt").unlink(missing_ok=True)
        options = {
            **crowd._options("m0"),
            "identity": copy / "identity",
            "state": copy / "state",
            "ledger": copy / "ledgers" / "ledger.sqlite",
            "bind": f"localhost:{port}",
        }
        crowd.processes["clone"] = crowd.process(live, options, str(copy / "output.txt"))
        end = time.monotonic() + 60
        while True:
            status = read_status(copy / "state")
            if any("one of the two runs on a copy" in words for words in status.problems):
                break
            assert crowd.processes["clone"].is_alive(), (copy / "output.txt").read_text()
            assert time.monotonic() < end, status
            time.sleep(0.3)
        before = read_status(crowd.folder("m1") / "state").round
        time.sleep(4)
        assert read_status(crowd.folder("m1") / "state").round > before
    finally:
        crowd.stop()
