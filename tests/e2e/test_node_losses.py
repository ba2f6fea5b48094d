"""A member that is lost before, in or after any round of a whitened, masked run: the others go on
with one map and one model, and nobody spends more than was reserved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import Crowd, live, small_contract
from tacenda.node.run_plan import make_plan
from tacenda.runtime.result import load

TERMS = {"epsilon": 50.0, "delta": 1e-5, "coalition": 1}


def contract_of(n: int = 4, rounds: int = 4, limit: float = 6.0, **absence: Any) -> Any:
    return small_contract(
        n,
        rounds=rounds,
        graph="complete",
        algorithm={"name": "treegd"},
        prepare={"name": "whitening"},
        privacy=TERMS,
        absence={"policy": "continue", "limit_seconds": limit, **absence},
    )


def live_until(options: dict[str, Any], output: str, turn: int, call: int, sent: bool) -> None:
    """A member whose machine loses power at one message: before it is durable, or when it was
    sent."""
    from tacenda.node.transport.exchange import Exchange

    honest = Exchange._send

    def send(self: Exchange, key: Any, row: Any, peers: list[str]) -> None:
        here = key[1:] == (turn, call)
        if here and not sent:
            os._exit(9)
        honest(self, key, row, peers)
        if here:
            import time

            time.sleep(0.5)  # for the network thread
            os._exit(9)

    Exchange._send = send  # type: ignore[method-assign]
    live(options, output)


def check_the_rest(crowd: Crowd, rest: list[str], rounds: int) -> None:
    """One model, and no more spent than was reserved, to the last event."""
    plan = make_plan(crowd.stage.contract)
    models = []
    for name in rest:
        found = load(crowd.folder(name) / "state" / "results" / f"treegd-{name}.safetensors")
        models.append(found.models.reshape(-1))
        assert found.privacy is not None
        assert found.privacy.epsilon <= TERMS["epsilon"]
        left = {event: count for event, count in plan.reservation(name)}
        for event, count in found.privacy.ledger(0):
            assert count <= left[event], (name, event, count)
        assert sum(count for _, count in found.privacy.ledger(0)) >= rounds
    assert all(row.tobytes() == models[0].tobytes() for row in models)
    assert np.abs(models[0]).max() < 100


def test_a_member_that_never_comes_does_not_stop_the_others(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, contract_of())
    rest = ["m0", "m1", "m3"]
    try:
        crowd.start(*rest)
        codes = crowd.wait(180, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    check_the_rest(crowd, rest, 5)
