"""A member that is lost before, in or after any round of a whitened, masked run: the others go on
with one map and one model, and nobody spends more than was reserved."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import Crowd, live, small_contract
from tacenda.node.commands import main
from tacenda.node.membership.amendments import amendment_path
from tacenda.node.run_plan import make_plan
from tacenda.runtime.result import load

TERMS = {"epsilon": 50.0, "delta": 1e-5, "coalition": 1}


def contract_of(
    n: int = 4,
    rounds: int = 4,
    limit: float = 6.0,
    graph: str = "complete",
    whitened: bool = True,
    **absence: Any,
) -> Any:
    return small_contract(
        n,
        rounds=rounds,
        graph=graph,
        algorithm={"name": "treegd"},
        privacy=TERMS,
        absence={"policy": "continue", "limit_seconds": limit, **absence},
        **({"prepare": {"name": "whitening"}} if whitened else {}),
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
        left = dict(plan.reservation(name))
        for event, count in found.privacy.ledger(0):
            assert count <= left[event], (name, event, count)
        assert sum(count for _, count in found.privacy.ledger(0)) >= rounds
    assert all(row.tobytes() == models[0].tobytes() for row in models)
    assert np.abs(models[0]).max() < 100


@pytest.mark.parametrize("whitened", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_member_that_never_comes_does_not_stop_the_others(tmp_path: Path, whitened: bool) -> None:
    crowd = Crowd(tmp_path, contract_of(whitened=whitened))
    rest = ["m0", "m1", "m3"]
    try:
        crowd.start(*rest)
        codes = crowd.wait(180, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    check_the_rest(crowd, rest, 4 + whitened)


# Places of the messages of a whitened TreeGD: in round 1 the moment, the start and the gradient go
# up and down the tree; later the gradient alone.
FIRST = [(1, call) for call in (1, 2, 3, 4, 7, 8)]
MIDDLE, LAST = [(2, 2), (2, 3)], [(4, 2), (4, 3)]
QUICK = {("m1", 1, 1), ("m0", 1, 2), ("m0", 4, 3)}
GRID = [
    pytest.param(
        name, *place, sent, marks=() if (name, *place) in QUICK and sent else pytest.mark.slow
    )
    for name in ("m0", "m1")
    for place in [*FIRST, *MIDDLE, *LAST]
    for sent in (True, False)
    # m0 is the root of a complete graph: it sends down, the others up
    if (place[1] in ((2, 4, 8) if place[0] == 1 else (3,))) == (name == "m0")
]


@pytest.mark.parametrize(("name", "turn", "call", "sent"), GRID)
def test_a_member_lost_at_any_message(
    tmp_path: Path, name: str, turn: int, call: int, sent: bool
) -> None:
    lose(tmp_path, contract_of(), name, turn, call, sent)


@pytest.mark.slow
@pytest.mark.parametrize("place", [*FIRST, *MIDDLE, *LAST])
@pytest.mark.parametrize("sent", [True, False])
def test_a_relaying_member_lost_at_any_message(
    tmp_path: Path, place: tuple[int, int], sent: bool
) -> None:
    """In a ring of four m1 adds m2's rows to its own and hands down what the root m0 says."""
    lose(tmp_path, contract_of(graph="ring"), "m1", *place, sent)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "place"), [("m1", (1, 4)), ("m1", (1, 5)), ("m0", (1, 5)), ("m1", (4, 3))]
)
def test_a_member_lost_at_a_message_of_a_plain_run(
    tmp_path: Path, name: str, place: tuple[int, int]
) -> None:
    lose(tmp_path, contract_of(graph="ring", whitened=False), name, *place, True)


def lose(folder: Path, contract: Any, name: str, turn: int, call: int, sent: bool) -> None:
    """The member is lost at this message, and the rest ends with one model."""
    crowd = Crowd(folder, contract)
    crowd.keep_own_signatures()  # so that no round begins before all processes are there
    rest = [other for other in crowd.names if other != name]
    try:
        crowd.start(*rest)
        crowd.start_as(name, live_until, turn, call, sent)
        codes = crowd.wait(240, rest)
        assert crowd.processes[name].exitcode == 9, crowd.output(name)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {other: crowd.output(other) for other in rest}
    check_the_rest(crowd, rest, 4)


def command(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code


@pytest.mark.parametrize("losses", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_amendment_leaves_out_a_member_that_never_came(tmp_path: Path, losses: int) -> None:
    """Under `stop`, with nothing reserved: before all are there nobody releases anything."""
    crowd = Crowd(tmp_path, contract_of(policy="stop", limit=120.0, losses=losses))
    crowd.keep_own_signatures()
    rest = ["m0", "m1", "m3"]
    try:
        crowd.start(*rest)
        for name in rest:
            crowd.until(name, "peer connected")
        command("contract", "amend", "-c", crowd.contracts["m0"], "--remove", "m2")
        made = amendment_path(crowd.contracts["m0"], 1)
        for name in rest:
            mine = amendment_path(crowd.contracts[name], 1)
            if mine != made:
                shutil.copy(made, mine)
            command("contract", "sign", "--contract", mine, "-i", crowd.folder(name) / "identity")
        codes = crowd.wait(240, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    check_the_rest(crowd, rest, 5)


@pytest.mark.slow
def test_who_was_away_in_round_one_is_handed_the_map(tmp_path: Path) -> None:
    """m2 comes when the others have begun without it, and ends with their model; a second loss is
    not paid for, and the run waits as under `stop`."""
    crowd = Crowd(tmp_path, contract_of(rounds=400, limit=4.0))
    rest = ["m0", "m1", "m3"]
    try:
        crowd.start(*rest)
        for name in rest:
            crowd.until(name, "round one done")
        crowd.start("m2")
        crowd.until("m2", "membership changed")
        crowd.kill("m1")
        codes = crowd.wait(120, ["m0", "m2", "m3"])
        assert set(codes.values()) == {2}
        assert "m1 stayed away" in crowd.output("m0")
        crowd.start("m0", "m1", "m2", "m3")
        codes = crowd.wait(400)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in crowd.names}
    check_the_rest(crowd, rest, 5)
    models = crowd.models()
    assert all(row.tobytes() == models[0].tobytes() for row in models)


def live_with_the_last_word_of_a_liar(options: dict[str, Any], output: str) -> None:
    """A member to whom a lying neighbour hands every total once more, after the honest ones: the
    true bytes, under a place and a view that it has made up."""
    from tacenda.node.protocol import wire
    from tacenda.node.session import Session

    honest = Session._take_total

    def take(self: Session, frame: wire.Total) -> bool:
        honest(self, frame)
        false = wire.replaced(frame.claim, view=9, round=7, call=0)
        return honest(self, wire.replaced(frame, claim=false))

    Session._take_total = take  # type: ignore[method-assign]
    live(options, output)


@pytest.mark.slow
def test_a_total_that_is_handed_over_counts_where_the_members_say(tmp_path: Path) -> None:
    """m2 comes late and lacks the map; it goes by the place that the root has signed."""
    crowd = Crowd(tmp_path, contract_of(rounds=2000, limit=6.0))
    rest = ["m0", "m1", "m3"]
    try:
        crowd.start(*rest)
        for name in rest:
            crowd.until(name, "round one done")
        crowd.start_as("m2", live_with_the_last_word_of_a_liar)
        crowd.until("m2", "membership changed", 90.0)
    finally:
        crowd.stop()
