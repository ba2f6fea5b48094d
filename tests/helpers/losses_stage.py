"""Whitened, masked runs that lose members at a chosen message, and what the rest must end with."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np

from node_stage import Crowd, live, small_contract
from tacenda.runtime.result import load
from tacenda_node.peer.run_plan import make_plan

TERMS = {"epsilon": 50.0, "delta": 1e-5, "coalition": 1}


def contract_of(
    n: int = 4,
    rounds: int = 4,
    limit: float = 6.0,
    graph: str = "complete",
    whitened: bool = True,
    evaluation: dict[str, Any] | None = None,
    algorithm: dict[str, Any] | None = None,
    **absence: Any,
) -> Any:
    return small_contract(
        n,
        rounds=rounds,
        graph=graph,
        algorithm=algorithm or {"name": "treegd"},
        privacy=TERMS,
        absence={"policy": "continue", "limit_seconds": limit, **absence},
        **({"prepare": {"name": "whitening"}} if whitened else {}),
        **({} if evaluation is None else {"evaluation": evaluation, "finish_mixing": "exact"}),
    )


def live_until(
    options: dict[str, Any], output: str, turn: int, call: int, sent: bool, view: int | None = None
) -> None:
    """A member whose machine loses power at one message, of any view or of this one: before it is
    durable, or when it was sent."""
    from tacenda_node.wire.exchange import Exchange

    honest = Exchange._send

    def send(self: Exchange, key: Any, row: Any, peers: list[str]) -> None:
        here = key[1:] == (turn, call) and view in (None, key[0])
        if here and not sent:
            os._exit(9)
        honest(self, key, row, peers)
        if here:
            time.sleep(0.5)  # for the network thread
            os._exit(9)

    Exchange._send = send  # type: ignore[method-assign]
    live(options, output)


def live_with_the_map_alone(options: dict[str, Any], output: str, heirs: list[str]) -> None:
    """The root, whose machine loses power when its first total is durable, and only some of the
    others have got it."""
    from tacenda_node.wire.endpoint import Endpoint

    honest = Endpoint.post

    def post(self: Endpoint, messages: list[Any]) -> None:
        if any(key == (0, 1, 2) for key, _, _ in messages):
            honest(self, [message for message in messages if message[1] in heirs])
            time.sleep(0.5)  # for the network thread
            os._exit(9)
        honest(self, messages)

    Endpoint.post = post  # type: ignore[method-assign]
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
        left = dict(plan.reservation(name))
        for event, count in found.privacy.ledger(0):
            assert count <= left[event], (name, event, count)
        assert sum(count for _, count in found.privacy.ledger(0)) >= rounds
    assert all(row.tobytes() == models[0].tobytes() for row in models)
    assert np.abs(models[0]).max() < 100


def check_spent(crowd: Crowd, names: list[str]) -> None:
    """Nobody has booked more than was reserved, finished or not."""
    plan = make_plan(crowd.stage.contract)
    for name in names:
        left = [[event.to_dict(), count] for event, count in plan.reservation(name)]
        for *key, event in crowd.charges(name):
            place = next(pair for pair in left if pair[0] == event)
            place[1] -= 1
            assert place[1] >= 0, (name, key, event)


def changed_views(crowd: Crowd, name: str) -> list[int]:
    """The views that a member has entered, by its log."""
    lines = [json.loads(line) for line in crowd.log(name).splitlines()]
    return [line["view"] for line in lines if line["event"] == "membership changed"]


def absent_sets(crowd: Crowd, name: str) -> list[str]:
    """Who was absent in each view that a member has entered, by its log."""
    lines = [json.loads(line) for line in crowd.log(name).splitlines()]
    return [line["absent"] for line in lines if line["event"] == "membership changed"]
