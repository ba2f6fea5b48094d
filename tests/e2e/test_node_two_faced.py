"""A member that signs two different sets of absent members: the honest ones stop before any noise
of the new view is drawn."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec.structs import replace

from liars_stage import live_with_a_far_round
from node_stage import Crowd, live, small_contract
from tacenda_node.state.database import FILE

TERMS = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True, "coalition": 1}
GOSSIP = {"name": "gossipgd", "correlation": 4.0, "mixings": 2, "step_size": 0.5}
HONEST = ["m0", "m1", "m2", "m3"]


def _rows(crowd: Crowd, name: str, table: str) -> list[int]:
    with sqlite3.connect(crowd.folder(name) / "state" / FILE) as db:
        rows = db.execute(f"SELECT view FROM {table}").fetchall()
    db.close()
    return [int(view) for (view,) in rows]


@pytest.mark.parametrize("graph", ["complete", pytest.param("ring", marks=pytest.mark.slow)])
def test_the_honest_members_stop_and_name_the_liar(tmp_path: Path, graph: str) -> None:
    """m4 tells m0 that m2 is absent, and m3 that m1 is; both are there.
    Shared noise, five members."""
    contract = small_contract(
        5,
        rounds=2000,
        graph=graph,
        algorithm=GOSSIP,
        privacy=TERMS,
        absence={"policy": "continue", "limit_seconds": 20.0},
    )
    crowd = Crowd(tmp_path, contract)
    try:
        crowd.start(*HONEST)
        crowd.start_liar("m4", {"m0": ["m2"], "m3": ["m1"]}, "round one done")
        codes = crowd.wait(150, HONEST)
        assert set(codes.values()) == {2}, {name: crowd.output(name) for name in HONEST}
        for name in HONEST:
            _check_stopped(crowd, name)
        # A restart does not forget: it refuses before it says or draws anything.
        before = _rows(crowd, "m0", "charges")
        crowd.start("m0")
        assert crowd.wait(60, ["m0"]) == {"m0": 2}
        assert crowd.output("m0").count("m4 has signed two different decisions") == 2
        assert _rows(crowd, "m0", "charges") == before
    finally:
        crowd.stop()


def _check_stopped(crowd: Crowd, name: str) -> None:
    assert "ConflictingVotes: m4 has signed two different decisions" in crowd.output(name)
    assert '"a member has signed two decisions"' in crowd.log(name)
    assert "membership changed" not in crowd.log(name)
    # All that was drawn and sent is of the time when all five took part
    assert set(_rows(crowd, name, "charges")) == {0}
    assert set(_rows(crowd, name, "outbox")) <= {0}  # none where all have confirmed the last round
    found = json.loads((crowd.folder(name) / "state" / "evidence-m4-view-1.json").read_text())
    key = Ed25519PublicKey.from_public_bytes(
        base64.b64decode(crowd.stage.contract.member("m4").signing_key)
    )
    for signed in found["signed"]:
        key.verify(base64.b64decode(signed["signature"]), signed["text"].encode())
    sets = [json.loads(signed["text"].partition("\n")[2])["absent"] for signed in found["signed"]]
    assert sorted(sets) == [["m1"], ["m2"]]


@pytest.mark.slow
@pytest.mark.parametrize("round", [15, 10**9])
def test_a_vote_for_a_far_later_round_does_not_count(tmp_path: Path, round: int) -> None:
    """m4 wants the others to skip rounds 4 to 14, or all that are left: they leave it out, and make
    all their rounds."""
    absence = {"policy": "continue", "limit_seconds": 6.0}
    crowd = Crowd(tmp_path, small_contract(5, rounds=16, graph="complete", absence=absence))
    try:
        crowd.start(*HONEST)
        crowd.start_as("m4", live_with_a_far_round, round)
        codes = crowd.wait(240, HONEST)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in HONEST}
    for name in HONEST:
        assert '"a vote does not count"' in crowd.log(name)
        made = {turn for _, turn, _, _ in crowd.charges(name)}
        # A view in which somebody returns may begin after the round that was given up
        assert len(made & set(range(1, 17))) >= 16 - 3, sorted(made)


def live_on_a_false_ground(options: dict[str, Any], output: str, ahead: int) -> None:
    """A member that asks for a vote on view 2 in round 3, and says that it stands in view 1, which
    nobody has decided, or in view 2 itself."""
    from tacenda_node.membership.votes import Votes
    from tacenda_node.peer.watchdog import Watchdog

    honest, look = Votes.cast, Watchdog.__call__

    def cast(self: Votes, view: int, absent: Any, round: int, stand: Any) -> None:
        honest(self, view, absent, round, replace(stand, view=view + ahead))

    def ask(self: Watchdog, missing: list[str]) -> None:
        begins = self.agreement.view == 0 and self.agreement.pending is None
        if begins and self._endpoint.handshake.done == 3:
            self.agreement._adopt(2, frozenset())
        look(self, missing)

    Votes.cast = cast  # type: ignore[method-assign]
    Watchdog.__call__ = ask  # type: ignore[method-assign]
    live(options, output)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [-1, 0])
def test_a_vote_on_a_decision_that_was_never_made_does_not_count(
    tmp_path: Path, ahead: int
) -> None:
    """The others leave m4 out, and make all their rounds but those that they gave up."""
    absence = {"policy": "continue", "limit_seconds": 6.0}
    crowd = Crowd(tmp_path, small_contract(5, rounds=16, graph="complete", absence=absence))
    try:
        crowd.start(*HONEST)
        crowd.start_as("m4", live_on_a_false_ground, ahead)
        codes = crowd.wait(240, HONEST)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in HONEST}
    for name in HONEST:
        assert '"membership changed"' in crowd.log(name) and '"absent": "m4"' in crowd.log(name)
        made = {turn for _, turn, _, _ in crowd.charges(name)}
        assert len(made & set(range(1, 17))) >= 16 - 3, sorted(made)
