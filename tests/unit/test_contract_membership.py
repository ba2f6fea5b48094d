"""The agreement on who takes part: the same decision for all, in any order of messages, and no way to be talked into nonsense."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from node_stage import small_contract
from tacenda.errors import NetworkError
from tacenda.node import wire
from tacenda.node.membership import MOST_PROPOSALS, Council
from tacenda.node.plan import RunPlan, make_plan
from tacenda.node.state import NodeState


class _Quiet:
    def warning(self, *_: Any, **__: Any) -> None:
        """The log of this test."""


@pytest.fixture(scope="module")
def plan() -> RunPlan:
    return make_plan(small_contract(5, rounds=50, absence={"policy": "continue", "limit_seconds": 1.0}))


def _council(plan: RunPlan, name: str, folder: Path, post: list[Any]) -> tuple[Council, NodeState]:
    state = NodeState(folder / name)
    return Council(plan, name, state, lambda frame: post.append((name, frame)), _Quiet()), state


@pytest.mark.parametrize("seed", range(5))
def test_all_reach_the_same_decision_in_any_order(plan: RunPlan, tmp_path: Path, seed: int) -> None:
    """Ring m0..m4 without m4; messages between neighbours are delivered in random order."""
    rng, post = random.Random(seed), []  # type: ignore[var-annotated]
    made = {name: _council(plan, name, tmp_path, post) for name in ("m0", "m1", "m2", "m3")}
    stands = {"m0": 10, "m1": 11, "m2": 12, "m3": 10}
    made["m0"][0].propose(frozenset({"m4"}))
    made["m3"][0].propose(frozenset({"m4"}))
    frozen: set[str] = set()
    while post or len(frozen) < 4:
        for name, (council, _) in made.items():
            if council.asked and name not in frozen and rng.random() < 0.5:
                frozen.add(name)
                council.freeze(stands[name])
        if post:
            sender, frame = post.pop(rng.randrange(len(post)))
            for peer in plan.contract.neighbours(sender):
                if peer in made:
                    made[peer][0].hear(sender, wire.decode(wire.encode(frame), 10**6))  # type: ignore[arg-type]
    assert {made[name][0].decided() for name in made} == {(1, frozenset({"m4"}), 13)}
    for council, state in made.values():
        council.enact(1, frozenset({"m4"}))
        assert not council.asked
        assert council.epoch == 1
        state.close()


def test_an_agreement_under_way_survives_a_restart(plan: RunPlan, tmp_path: Path) -> None:
    council, state = _council(plan, "m0", tmp_path, [])
    council.propose(frozenset({"m4"}))
    council.freeze(7)
    state.close()
    again, state = _council(plan, "m0", tmp_path, [])
    assert again.asked
    again.freeze(3)  # the round it had announced stands
    again.hear("m1", wire.Membership(1, ["m4"], {"m1": 5, "m2": 5, "m3": 6}))
    assert again.decided() == (1, frozenset({"m4"}), 8)
    state.close()


def test_another_set_of_absent_members_needs_another_epoch(plan: RunPlan, tmp_path: Path) -> None:
    council, state = _council(plan, "m1", tmp_path, [])
    council.propose(frozenset({"m4"}))
    council.hear("m2", wire.Membership(1, ["m3"], {"m2": 4}))
    council.freeze(4)
    council.hear("m2", wire.Membership(2, ["m3", "m4"], {"m2": 4, "m0": 5}))
    assert council.decided() == (2, frozenset({"m3", "m4"}), 6)
    state.close()


def test_nonsense_is_refused(plan: RunPlan, tmp_path: Path) -> None:
    council, state = _council(plan, "m0", tmp_path, [])
    for absent, frozen in ((["z"], {}), (["m4"], {"m4": 1}), (["m1", "m2", "m3"], {})):
        with pytest.raises(wire.BadFrame):
            council.hear("m1", wire.Membership(1, absent, frozen))
    with pytest.raises(wire.BadFrame, match="more proposals"):
        council.hear("m1", wire.Membership(MOST_PROPOSALS + 1, ["m4"], {}))
    council.hear("m1", wire.Membership(1, ["m0"], {"m1": 3}))
    assert not council.asked
    with pytest.raises(NetworkError, match="not more than half"):
        council.propose(frozenset({"m1", "m2", "m3"}))
    with pytest.raises(NetworkError, match="cannot go on"):
        council.propose(frozenset({"m1", "m3"}))
    state.close()
