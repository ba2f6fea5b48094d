"""Members whom nobody can call meet at a relay, which may break, restart and lie, and reads
nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chaos_proxy import ChaosProxy
from node_stage import Crowd, simulated
from relay_stage import RelayProcess, behind_firewalls
from tacenda_node.wire.proxy import read_secret
from tacenda_node.wire.rooms import Token


class Listener(ChaosProxy):
    """What stands in a relay's place and keeps all that passes."""

    def __init__(self, target: str, seed: int) -> None:
        self.heard: list[bytes] = []
        super().__init__(target, seed)

    def _broken(self, data: bytes) -> bytes:
        self.heard.append(data)
        return super()._broken(data)


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[RelayProcess]:
    found = RelayProcess(tmp_path)
    yield found
    if found._process.poll() is None:
        found.stop()


def once_each(crowd: Crowd) -> None:
    """Every release of the run is charged, and charged once."""
    steps = crowd.stage.contract.algorithm.model_dump()["inner_steps"]
    for name in crowd.names:
        keys = [charge[:3] for charge in crowd.charges(name)]
        assert len(keys) == len(set(keys)) == steps * crowd.stage.contract.rounds


def test_members_that_nobody_can_call_meet_at_a_relay(tmp_path: Path, relay: RelayProcess) -> None:
    listener = Listener(relay.address, 0)
    crowd = behind_firewalls(tmp_path, listener.address, relay.token, 3, 4)
    crowd.start()
    models = crowd.finish()
    listener.close()
    np.testing.assert_allclose(models, simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)
    once_each(crowd)
    heard = b"".join(listener.heard)
    assert len(heard) > 20_000
    # Neither a row that was sent, nor a word of the protocol or of the contract
    rows = [row.tobytes() for row in models]
    secret = Token.read(read_secret(relay.token, "")).secret.encode()
    for known in (*rows, *(r[:8] for r in rows), b"hello", b"tacenda.Node", b"ipadmm", secret):
        assert known not in heard
    assert relay.stop(signal.SIGTERM) == 0
    assert "relay stopped" in relay.said


@pytest.mark.slow
def test_a_relay_that_is_killed_and_started_again(tmp_path: Path, relay: RelayProcess) -> None:
    crowd = behind_firewalls(tmp_path, relay.address, relay.token, 3, 120)
    crowd.start()
    for pause in (4.0, 1.0):
        wait_for_rounds(crowd, 2)
        relay.stop()
        time.sleep(pause)
        relay.start()
        time.sleep(2)
    models = crowd.finish()
    np.testing.assert_allclose(models, simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)
    once_each(crowd)


@pytest.mark.slow
def test_a_hostile_relay_changes_nothing(tmp_path: Path, relay: RelayProcess) -> None:
    """Bytes flipped, doubled (replayed), swapped, delayed and dropped, again and again."""
    liar = ChaosProxy(relay.address, 5)
    crowd = behind_firewalls(tmp_path, liar.address, relay.token, 3, 150)
    crowd.start()
    wait_for_rounds(crowd, 2)
    for fault in 3 * ("corrupt", "double", "swap", "delay", "drop"):
        liar.strike(fault)
        time.sleep(0.4)
    models = crowd.finish()
    liar.close()
    np.testing.assert_allclose(models, simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)
    once_each(crowd)


@pytest.mark.slow
def test_a_member_is_killed_behind_a_relay(tmp_path: Path, relay: RelayProcess) -> None:
    crowd = behind_firewalls(tmp_path, relay.address, relay.token, 3, 120)
    crowd.start()
    for name in ("m2", "m0"):
        wait_for_rounds(crowd, 2)
        crowd.kill(name)
        crowd.start(name)
    models = crowd.finish()
    np.testing.assert_allclose(models, simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)
    once_each(crowd)


def test_without_the_token_the_member_says_what_is_missing(tmp_path: Path) -> None:
    crowd = behind_firewalls(tmp_path, "127.0.0.1:9", tmp_path / "none", 2, 2)
    crowd.options["m1"]["relay_token"] = None
    crowd.start()
    try:
        assert set(crowd.wait(60).values()) == {2}
    finally:
        crowd.stop()
    assert "--relay-token" in crowd.output("m0")
    assert "cannot be read" in crowd.output("m0")
    assert "--relay-token is needed: m0, m1" in crowd.output("m1")


def wait_for_rounds(crowd: Crowd, more: int, seconds: float = 60.0) -> None:
    """Until every member has charged for so many more rounds."""
    import sqlite3

    def latest(name: str) -> int:
        path = crowd.folder(name) / "state" / "node.sqlite"
        if not os.path.exists(path):
            return 0
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return int(db.execute("SELECT MAX(round) FROM charges").fetchone()[0] or 0)
        except sqlite3.OperationalError:
            return 0
        finally:
            db.close()

    end = time.monotonic() + seconds
    goal = {name: latest(name) + more for name in crowd.names}
    while any(latest(name) < goal[name] for name in crowd.names):
        assert time.monotonic() < end, {n: crowd.output(n) for n in crowd.names}
        time.sleep(0.05)
