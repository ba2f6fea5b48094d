"""Two signatures for one call convict, and nobody can be framed."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from signed_rows_stage import Stage
from tacenda.errors import StateError
from tacenda.runtime.places import row_forms
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.protocol import frames
from tacenda_node.protocol.signed_rows import MOST_CLAIMS, WINDOW, Witness
from tacenda_node.state.database import NodeState


def _check_evidence(stage: Stage, folder: Path, name: str, count: int) -> None:
    (path,) = folder.glob(f"evidence-{name}-view-*.json")
    found = json.loads(path.read_text())
    key = Ed25519PublicKey.from_public_bytes(
        base64.b64decode(stage.contract.member(name).signing_key)
    )
    for signed in found["signed"]:
        key.verify(base64.b64decode(signed["signature"]), signed["text"].encode())
    assert len({signed["text"] for signed in found["signed"]}) == count


def test_two_rows_for_one_call_convict_directly_by_hearsay_and_by_proof(stage: Stage) -> None:
    w = stage.handshake("m0").witness
    w.row("m2", stage.signs("m2", frames.rows_frame(0, 1, 0, np.full((1, 4), 5.0))))
    # Sent again: the same
    w.row("m2", stage.signs("m2", frames.rows_frame(0, 1, 0, np.full((1, 4), 5.0))))
    with pytest.raises(frames.BadFrame, match="two different messages for round 1"):
        w.row("m2", stage.signs("m2", frames.rows_frame(0, 1, 0, np.full((1, 4), -5.0))))
    _check_evidence(stage, stage.folder / "m0", "m2", 2)
    heard = stage.handshake("m1").witness
    heard.row("m2", stage.signs("m2", frames.rows_frame(0, 1, 0, np.full((1, 4), 5.0))))
    heard.hear("m0", [stage.claim("m0", 1), stage.claim("m2", 1, value=-5.0)])
    assert list(heard.caught) == ["m2"]
    _check_evidence(stage, stage.folder / "m1", "m2", 2)
    assert list(stage.handshake("m1").witness.caught) == ["m2"]  # also after a restart
    assert stage.handshake("m1").witness.proofs == heard.proofs
    # Who holds neither row believes the proof, and only a proof.
    third = Witness(
        stage.contract, "m0", NodeState(stage.folder / "third"), stage.people["m0"].signer()
    )
    for false in (
        frames.Proof(stage.claim("m2", 1), stage.claim("m2", 1)),
        frames.Proof(stage.claim("m2", 1), stage.claim("m2", 1, call=1, value=2.0)),
        frames.Proof(stage.claim("m2", 1), stage.claim("m1", 1, value=2.0)),
        frames.Proof(
            stage.claim("m2", 1), frames.replaced(stage.claim("m1", 1, value=2.0), member="m2")
        ),
    ):
        with pytest.raises(frames.BadFrame, match="proves nothing"):
            third.proof(false)
    assert third.proof(heard.proofs[0])
    assert not third.proof(heard.proofs[0])
    assert list(third.caught) == ["m2"]
    third._state.close()


def test_nobody_can_be_framed(stage: Stage) -> None:
    w = stage.handshake("m0").witness
    w.row("m2", stage.signs("m2", frames.rows_frame(0, 1, 0, np.ones((1, 4)))))
    for false in (
        frames.replaced(stage.claim("m1", 1, value=9.0), member="m2"),
        frames.replaced(stage.claim("m2", 2, value=9.0), round=1),
        frames.replaced(stage.claim("m2", 1, value=9.0), view=1),
    ):
        with pytest.raises(frames.BadFrame, match="not m2's"):
            w.hear("m1", [false])
    with pytest.raises(frames.BadFrame, match="somebody who is not in the contract"):
        w.hear("m1", [frames.replaced(stage.claim("m2", 1), member="m9")])
    with pytest.raises(frames.BadFrame, match="not signed"):
        w.row("m2", frames.rows_frame(0, 1, 1, np.ones((1, 4))))
    assert not w.caught
    assert w.lost is None


def test_an_echo_of_the_own_key_stops_a_state_that_runs_twice(stage: Stage) -> None:
    stage.handshake("m1")
    stage.sends("m1", 1)
    w = stage.handshake("m1").witness
    w.signed(frames.rows_frame(0, 1, 0, np.ones((1, 4))))
    w.hear("m0", [stage.claim("m1", 1)])
    assert w.lost is None
    w.hear("m0", [stage.claim("m1", 1, value=2.0)])
    assert isinstance(w.lost, StateError)
    stage.handshake("m1", "first")
    stage.sends("m1", 1)
    ahead = stage.handshake("m1", "first").witness
    ahead.hear("m0", [stage.claim("m1", 3)])
    assert "round 3" in str(ahead.lost)


def test_rows_beyond_the_radius_are_evidence(stage: Stage) -> None:
    w = stage.handshake("m0").witness
    frame = stage.signs("m2", frames.rows_frame(0, 1, 0, np.full((1, 4), 1e300)))
    with pytest.raises(frames.UnfitRows, match="radius") as unfit:
        frames.rows_of(frame, 4, float, stage.contract.problem.radius)
    w.beyond("m2", frame, str(unfit.value))
    assert "radius of 1e+09 in round 1" in w.caught["m2"]
    _check_evidence(stage, stage.folder / "m0", "m2", 1)
    w.beyond("m1", frames.rows_frame(0, 1, 0, np.full((1, 4), 1e300)), "unsigned rows")
    assert list(w.caught) == ["m2"]


def test_a_flood_of_own_signatures_hides_no_lie(stage: Stage) -> None:
    """A liar signs many messages that no algorithm sends;
    then it tells two neighbours two things."""
    calls = frozenset(call for _, call in row_forms(make_plan(stage.contract).spec))
    flood = [stage.claim("m2", 1 + WINDOW, call=1000 + k) for k in range(MOST_CLAIMS + 1)]
    told = {}
    for name, value in (("m0", 5.0), ("m1", -5.0)):
        state = NodeState(stage.folder / f"flooded {name}")
        told[name] = Witness(stage.contract, name, state, stage.people[name].signer(), None, calls)
        told[name].hear("m2", flood)
        frame = frames.rows_frame(0, 1, min(calls), np.full((1, 4), value))
        told[name].row("m2", stage.signs("m2", frame))
    told["m0"].hear("m1", told["m1"].recent())
    told["m1"].hear("m0", told["m0"].news())
    assert [list(w.caught) for w in told.values()] == [["m2"], ["m2"]]
    for w in told.values():
        w._state.close()
