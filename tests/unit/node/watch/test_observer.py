"""What a node says is wrong with it, and what it tells when it ends."""

from __future__ import annotations

import datetime as dt
import json
import time
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node_stage import made_identity, small_contract
from tacenda.errors import StateError
from tacenda_node.identity import certificates as identity
from tacenda_node.operate.settings import write_settings
from tacenda_node.peer.watchdog import Stopped
from tacenda_node.protocol.handshake import CLONE
from tacenda_node.watch import observer as module
from tacenda_node.watch.causes import Cause
from tacenda_node.watch.display import Display
from tacenda_node.watch.health import metrics_answer
from tacenda_node.watch.observer import LastingSpending, Observer
from tacenda_node.watch.status import (
    LOG_FIELDS,
    EvaluationStatus,
    NodeStatus,
    duration,
    log_entry,
    size,
)
from tacenda_node.watch.status_file import read_status, state_folder
from tacenda_node.watch.web import parse_address
from tacenda_node.wire.exchange import PeerAbsent

LIMIT = 30.0


def _link(**changes: Any) -> Any:
    now = time.monotonic()
    plain = {
        "peer": "m1",
        "connected": True,
        "finished": False,
        "banned": False,
        "frozen": False,
        "hung": False,
        "reason": "",
        "left": now,
        "seen": now,
        "done": (0, 2),
        "sent_bytes": 10,
        "received_bytes": 20,
        "resent": 0,
        "sessions": 1,
        "strikes": 0,
        "certificate_expires": time.time() + 100 * 86400,
    }
    return SimpleNamespace(**{**plain, **changes})


def _observer(folder: Path, link: Any, **endpoint: Any) -> Observer:
    contract = small_contract(
        2, rounds=9, absence={"policy": "continue", "limit_seconds": LIMIT}, graph="path"
    )
    clocks = SimpleNamespace(clock_trouble=lambda name: "")
    thread = {"alive": True, "started": True, "refused": 3, "links": {"m1": link}, **endpoint}
    none = SimpleNamespace(heard=dict)
    thread = {"handshake": clocks, "causes": list, "lives": none, **thread}
    log = SimpleNamespace(info=lambda *a, **k: None, warning=lambda *a, **k: None)
    display = Display(contract, "m0", SimpleNamespace(**thread), log, quiet=True)
    display.done = 3
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=100)
    who = SimpleNamespace(
        certificate=SimpleNamespace(not_valid_after_utc=until), folder=folder / "none"
    )
    exchange = SimpleNamespace(absent=frozenset(), view=0, waited=0.5, written=0.25)
    return Observer(contract, who, display, exchange, folder, log)  # type: ignore[arg-type]


def test_in_order(tmp_path: Path) -> None:
    status = _observer(tmp_path, _link()).status()
    assert (status.in_order, status.alive, status.ready) == (True, True, True)
    assert status.problems == status.warnings == []
    assert status.peers[0].lag_rounds == 1
    assert NodeStatus.from_plain(status.to_plain()) == status


@pytest.mark.parametrize(
    ("link", "endpoint", "words"),
    [
        ({"connected": False, "left": -LIMIT}, {}, "m1 has been away for"),
        ({"connected": False, "banned": True, "left": -LIMIT}, {}, "m1 has been cut off for"),
        ({"frozen": True, "seen": -LIMIT}, {}, "m1 has been frozen for"),
        ({"connected": False, "hung": True, "seen": -LIMIT}, {}, "m1 has been frozen for"),
        (
            {"connected": False, "hung": True, "seen": -LIMIT, "sessions": 0},
            {},
            f"m1 is frozen, not heard since this node started {int(LIMIT) + 1} s ago, longer than",
        ),
        ({"connected": False, "reason": f"m1 refuses: m0 {CLONE}: stop one"}, {}, CLONE),
        ({}, {"alive": False, "started": False}, "network thread has ended"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, link: Any, endpoint: Any, words: str) -> None:
    link |= {k: time.monotonic() - LIMIT - 1 for k in ("left", "seen") if k in link}
    status = _observer(tmp_path, _link(**link), **endpoint).status()
    assert not status.in_order
    assert words in " ".join(status.problems)
    assert status.alive == endpoint.get("alive", True)


def test_stalled_disk_and_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _observer(tmp_path, _link())
    made._display.advanced -= LIMIT + 1
    assert "No round was completed" in made.status().problems[0]
    made._display.waiting_for, made._display.waiting_since = ["m1"], time.monotonic() - 9
    made._endpoint.causes = lambda: [Cause(("m1", "m7"), "away", 70.0)]
    assert made.status().causes[0].member == "m7"
    assert "call the operator of m7" in made.status().problems[0]
    assert "waiting for m7 (away for 70 s, says m1)" in made.status().summary
    made._display.all_done = True
    assert made.status().in_order
    made._expires = time.time() - 5
    assert "expired on" in made.status().problems[0]
    assert not made.status().ready
    made._expires = time.time() + 5 * 86400
    assert made.status().in_order
    assert "expires on" in made.status().warnings[0]
    free = SimpleNamespace(free=module.LEAST_DISK - 1)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: free)
    assert "free some space" in made.status().problems[0]


def test_a_proposal_that_waits_for_this_member_is_told(tmp_path: Path) -> None:
    made, asked = _observer(tmp_path, _link()), {"m0": "4f1c: m1 proposes to stop", "m1": ""}
    made._identity.name = "m0"  # type: ignore[misc]
    kept = [SimpleNamespace(question=asked.get), SimpleNamespace(question=lambda name: "")]
    made.proposals(SimpleNamespace(all=lambda: kept))  # type: ignore[arg-type]
    made._look_at_proposals()
    assert made.status().warnings == ["4f1c: m1 proposes to stop."] and made.status().in_order
    asked["m0"] = ""  # answered
    made._look_at_proposals()
    assert made.status().warnings == []


def test_a_renewed_certificate_is_seen(tmp_path: Path) -> None:
    mine = made_identity(tmp_path / "me", "m0", tmp_path / "ca", days=2)
    made = _observer(tmp_path, _link())
    made._identity = mine
    made._look()
    assert 1.9 < made.status().certificate_days <= 2.0
    identity.sign(tmp_path / "ca", tmp_path / "me" / identity.REQUEST, tmp_path / "me", 300)
    made._next_slow = 0.0
    made._look()
    assert 299 < made.status().certificate_days <= 300
    (tmp_path / "me" / identity.CERTIFICATE).write_text("nothing")
    made._next_slow = 0.0
    made._look()
    assert "the certificate cannot be looked at" in " ".join(made.status().warnings)


def test_budget_near_its_end_and_members_left_out_are_warnings(tmp_path: Path) -> None:
    made = _observer(tmp_path, _link(connected=False, left=time.monotonic() - 2 * LIMIT))
    made._exchange.absent = frozenset({"m1"})
    made._lasting = LastingSpending("records", 2.71, 3.0, 1e-5)
    status = made.status()
    assert status.in_order
    assert "2.71 of the budget of 3" in status.warnings[0]
    assert "continue without m1" in status.warnings[1]
    text = metrics_answer(lambda: status).body.decode()
    assert "tacenda_total_epsilon_left 0.29" in text
    assert 'tacenda_peer_left_out{peer="m1"} 1.0' in text


@pytest.mark.parametrize(
    ("error", "state", "to_do"),
    [
        (None, "finished", "predict"),
        (Stopped("asked"), "stopped", "Start the node again"),
        (PeerAbsent(["m1"], 3.0, []), "stopped", "start the node again when they are back"),
        (StateError("damaged; restore it."), "stopped", "Do what the reason says"),
        (ValueError("x"), "stopped", "report it"),
    ],
)
def test_the_end_is_kept(
    tmp_path: Path, error: BaseException | None, state: str, to_do: str
) -> None:
    made = _observer(tmp_path, _link())
    with nullcontext() if error is None else pytest.raises(type(error)):
        with made:
            if error is not None:
                raise error
    status = read_status(tmp_path)
    assert (status.state, status.in_order) == (state, error is None)
    assert to_do in status.to_do
    assert not status.alive
    assert "ValueError" not in status.stopped or "x" not in status.stopped.split()


def test_a_killed_node_is_told_from_a_running_one(tmp_path: Path) -> None:
    made = _observer(tmp_path, _link())
    made._write(durable=False)
    assert read_status(tmp_path).alive
    path = tmp_path / module.FILE
    long_ago = json.loads(path.read_text()) | {"at": time.time() - 3600}
    path.write_text(json.dumps(long_ago))
    status = read_status(tmp_path)
    assert (status.state, status.alive, status.round) == ("stopped", False, 0)
    assert "no sign of life" in status.stopped
    assert path.stat().st_mode & 0o077 == 0


def test_status_finds_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert state_folder(None) == Path("state")
    assert state_folder(Path("elsewhere")) == Path("elsewhere")
    home = tmp_path / "member"
    home.mkdir()
    write_settings(home, {"schema": "s.toml", "data": "d.csv", "state": "kept"})
    assert state_folder(home) == home / "kept"
    monkeypatch.chdir(home)
    assert state_folder(None) == Path("kept")


def test_what_is_told_is_a_closed_list_of_plain_values(tmp_path: Path) -> None:
    """A field is added here only after somebody has asked whether this member may show it."""
    made = _observer(tmp_path, _link())
    made._lasting = LastingSpending("records", 2.0, 3.0, 1e-5)
    made._look_at_spending()
    plain = made.status().to_plain()
    assert set(plain) == {
        *("format", "member", "title", "contract", "version", "at", "state", "summary"),
        *("alive", "ready", "in_order", "problems", "warnings", "round", "rounds"),
        *("rounds_per_second", "seconds_left", "seconds_running", "seconds_since_round"),
        *("waiting_for", "waiting_seconds", "absence_limit_seconds", "absence_policy"),
        *("wait_seconds_total", "write_seconds_total", "sent_bytes", "received_bytes"),
        *("refused_callers", "peers", "run", "lasting", "certificate_expires"),
        *("certificate_days", "disk_free_bytes", "log", "stopped", "to_do", "evaluation"),
        *("members", "roots", "edges"),  # what all sign for all (`protocol.lives`), and the graph
        "causes",  # who is waited for, as the neighbours say
    }
    # Of the evaluation: terms, the public number of held-out records, and what was released
    assert {f.name for f in fields(EvaluationStatus)} == {
        *("state", "records", "account", "spent", "epsilon", "delta", "against"),
        *("confidence", "measures"),
    }
    assert set(plain["peers"][0]) == {
        *("name", "state", "reason", "lag_rounds", "away_seconds", "silent_seconds", "sent_bytes"),
        *("received_bytes", "sent_again", "cut_off", "certificate_expires", "certificate_days"),
        "heard",
    }
    assert set(plain["run"]) == {"epsilon", "limit", "delta", "adjacency", "against", "curve"}
    assert set(plain["lasting"]) == {"account", "epsilon", "budget", "delta"}
    assert set().union(*plain["log"], set()) <= {"timestamp", "level", "event", "details"}

    def leaves(value: Any) -> Any:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            return [leaf for part in value for leaf in leaves(part)]
        return [value]

    kinds = {type(leaf) for leaf in leaves(plain)}
    assert kinds <= {str, int, float, bool, type(None)}


def test_a_log_entry_shows_its_words_only() -> None:
    entry = {"event": "e", "level": "info", "timestamp": "t", "peer": "m1", "hidden": "h"}
    assert log_entry(entry) == {
        "event": "e",
        "level": "info",
        "timestamp": "t",
        "details": "peer m1",
    }
    assert "hidden" not in LOG_FIELDS


def test_words_for_lengths_and_sizes() -> None:
    assert [duration(s) for s in (5, 600, 3 * 3600, 3 * 86400)] == [
        "5 s",
        "10 min",
        "3 h",
        "3 days",
    ]
    assert [size(n) for n in (0, 999, 1500, 2.5e6, 7e12)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "2.5 MB",
        "7000.0 GB",
    ]


def test_addresses() -> None:
    assert parse_address("9464", "--x") == ("127.0.0.1", 9464)
    assert parse_address("0.0.0.0:9464", "--x") == ("0.0.0.0", 9464)
    assert parse_address("[::]:9464", "--x") == ("::", 9464)
    for wrong in ("", "host", ":9464", "host:x", "1.2.3.4:70000"):
        with pytest.raises(Exception, match="--x must be a port"):
            parse_address(wrong, "--x")


def test_before_the_first_charge_the_contracts_promise_is_told(tmp_path: Path) -> None:
    shared = small_contract(
        algorithm={"name": "treegd", "noise": "masked"},
        privacy={"epsilon": 5.0, "delta": 1e-5, "coalition": 1},
    )
    told = module.run_spending(tmp_path, shared)
    assert (told.epsilon, told.against) == (0.0, "any single curious member")
    alone = module.run_spending(tmp_path, small_contract(3))
    assert alone.against == "everybody else together"
