"""A member that is lost before, in or after any round of a whitened, masked run: the others go on
with one map and one model, and nobody spends more than was reserved."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli_tools import run_main
from losses_stage import (
    changed_views,
    check_the_rest,
    contract_of,
    live_until,
    live_with_the_map_alone,
)
from node_stage import Crowd, live
from tacenda_node.membership.amendments import amendment_path


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


def live_deaf(options: dict[str, Any], output: str) -> None:
    """A member to whom m2's vote for view 1 gets through only after a later view was proposed."""
    from tacenda_node.membership.agreement import Agreement

    honest, later = Agreement.hear, []

    def hear(self: Agreement, peer: str, frame: Any) -> None:
        if frame.view > 1:
            later.append(frame.view)
        votes = {name: vote for name, vote in frame.votes.items() if later or name != "m2"}
        if votes:
            honest(self, peer, replace(frame, votes=votes))

    Agreement.hear = hear  # type: ignore[method-assign]
    live(options, output)


@pytest.mark.slow
def test_a_member_that_missed_a_decision_is_shown_it_before_the_next(tmp_path: Path) -> None:
    """m4 is lost before the map is made, and m3 does not hear that all others agree to go on
    without it. It asks to leave out m2 as well; m0 and m1 vote from a view that m3 does not know.
    """
    crowd = Crowd(tmp_path, contract_of(5, losses=3))
    crowd.keep_own_signatures()
    rest = ["m0", "m1", "m2", "m3"]
    try:
        crowd.start("m0", "m1", "m2")
        crowd.start_as("m3", live_deaf)
        crowd.start_as("m4", live_until, 1, 1, False)
        codes = crowd.wait(240, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    views = {name: changed_views(crowd, name) for name in rest}
    assert views["m0"] == views["m1"] and views["m0"][:2] == [1, 2]
    assert views["m3"] == views["m0"][1:], "m3 never enters view 1, and every later one"
    check_the_rest(crowd, rest, 4)


@pytest.mark.slow
def test_a_relaying_member_lost_in_the_last_round_before_an_evaluation(tmp_path: Path) -> None:
    """m2 lacks the last total. Those who have finished wait with the evaluation until they have
    agreed to go on without m1 and have handed it over."""
    evaluation = {"held_out": 0.4, "epsilon": 100.0}
    contract = contract_of(graph="ring", evaluation=evaluation)
    lose(tmp_path, contract, "m1", 5, 0, True)  # the models' average goes up, and never down


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


def live_and_never_finish(options: dict[str, Any], output: str) -> None:
    """A member that stays connected after its last round, and never says that it is done."""
    from tacenda_node.peer.session import Session

    Session.take_leave = lambda self, *_: time.sleep(120)  # type: ignore[method-assign, assignment, return-value]
    live(options, output)


@pytest.mark.slow
def test_who_never_finishes_does_not_hold_up_the_others_for_ever(tmp_path: Path) -> None:
    """They stay for six times the limit, and have saved their models before."""
    crowd = Crowd(tmp_path, contract_of(limit=4.0))
    crowd.keep_own_signatures()
    rest = ["m0", "m1", "m2"]
    try:
        crowd.start(*rest)
        crowd.start_as("m3", live_and_never_finish)
        model = crowd.folder("m0") / "state" / "results" / "treegd-m0.safetensors"
        while not model.exists() and crowd.processes["m0"].is_alive():
            time.sleep(0.1)
        saved = time.monotonic()
        codes = crowd.wait(100, rest)
        assert time.monotonic() - saved < 6 * 4.0 + 20
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    check_the_rest(crowd, rest, 4)


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
        run_main("contract", "amend", "-c", crowd.contracts["m0"], "--remove", "m2")
        made = amendment_path(crowd.contracts["m0"], 1)
        for name in rest:
            mine = amendment_path(crowd.contracts[name], 1)
            if mine != made:
                shutil.copy(made, mine)
            run_main("contract", "sign", "--contract", mine, "-i", crowd.folder(name) / "identity")
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
    true bytes, under a view that it has made up."""
    from tacenda_node.protocol import frames
    from tacenda_node.protocol.handed_totals import HandedTotals

    honest = HandedTotals.take

    def take(self: HandedTotals, peer: str, frame: frames.Total) -> bool:
        honest(self, peer, frame)
        false = frames.replaced(frame.claim, view=9)
        return honest(self, peer, frames.replaced(frame, claim=false))

    HandedTotals.take = take  # type: ignore[method-assign]
    live(options, output)


@pytest.mark.slow
def test_a_total_that_is_handed_over_counts_where_the_members_say(tmp_path: Path) -> None:
    """m2 comes late and lacks the map; it goes by the view that the votes name."""
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


@pytest.mark.slow
def test_a_root_that_returns_with_a_map_that_nobody_knows(tmp_path: Path) -> None:
    """The others have made round 1 again, so its map is void, and it takes theirs."""
    crowd = Crowd(tmp_path, contract_of(rounds=400))
    crowd.keep_own_signatures()
    rest = ["m1", "m2", "m3"]
    try:
        crowd.start(*rest)
        crowd.start_as("m0", live_with_the_map_alone, [])
        assert crowd.wait(120, ["m0"]) == {"m0": 9}
        for name in rest:
            crowd.until(name, "round one done")
        crowd.start("m0")
        codes = crowd.wait(300)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in crowd.names}
    assert "membership changed" in crowd.log("m0")
    check_the_rest(crowd, crowd.names, 5)


def live_frozen_at_the_map(options: dict[str, Any], output: str) -> None:
    """The root, whose process is stopped when its first total is durable, before anybody has it."""
    from tacenda_node.wire.endpoint import Endpoint

    honest = Endpoint.post

    def post(self: Endpoint, messages: list[Any]) -> None:
        if any(key == (0, 1, 2) for key, _, _ in messages):
            os.kill(os.getpid(), signal.SIGSTOP)
        honest(self, messages)

    Endpoint.post = post  # type: ignore[method-assign]
    live(options, output)


@pytest.mark.slow
def test_a_root_that_is_frozen_with_the_map_and_thawed(tmp_path: Path) -> None:
    """It wakes up with a map of its own, when the others have made round 1 without it."""
    crowd = Crowd(tmp_path, contract_of(rounds=400))
    crowd.keep_own_signatures()
    rest = ["m1", "m2", "m3"]
    try:
        crowd.start(*rest)
        crowd.start_as("m0", live_frozen_at_the_map)
        for name in rest:
            crowd.until(name, "round one done")
        os.kill(crowd.processes["m0"].pid, signal.SIGCONT)
        codes = crowd.wait(300)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in crowd.names}
    assert "membership changed" in crowd.log("m0")
    check_the_rest(crowd, crowd.names, 5)


def live_until_it_hands_over(options: dict[str, Any], output: str) -> None:
    """A member that is lost when all have agreed, and before it hands over any total."""
    from tacenda_node.peer.session import Session

    Session._hand_over = lambda *_: os._exit(9)  # type: ignore[assignment, method-assign]
    live(options, output)


@pytest.mark.slow
def test_the_only_holder_of_the_map_is_lost_while_it_is_to_hand_it_over(tmp_path: Path) -> None:
    """m0 dies when only m1 has its total, and m1 when all have agreed to take the map from it: the
    rest goes on without both, and makes round 1 again."""
    crowd = Crowd(tmp_path, contract_of(5, losses=2))
    crowd.keep_own_signatures()
    rest = ["m2", "m3", "m4"]
    try:
        crowd.start(*rest)
        crowd.start_as("m0", live_with_the_map_alone, ["m1"])
        crowd.start_as("m1", live_until_it_hands_over)
        codes = crowd.wait(240, rest)
        assert [crowd.processes[name].exitcode for name in ("m0", "m1")] == [9, 9]
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    check_the_rest(crowd, rest, 4)
