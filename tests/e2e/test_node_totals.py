"""What goes down the tree is what its root has signed: a member that hands on another total is
named and proved, and impossible sums stop the run."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from liars_stage import inner_member, live_as_false_relay
from node_stage import Crowd, live, small_contract

TERMS = {"epsilon": 50.0, "delta": 1e-5, "coalition": 1}
TREE = {"algorithm": {"name": "treegd"}, "privacy": TERMS}


def live_with_false_masks(options: dict[str, Any], output: str, turn: int, lie: str) -> None:
    """A member that adds 2^40 to its masked row, or sends a random one."""
    from tacenda.privacy.secrets.door import Door

    honest = Door.release_masked

    def release(self: Door, value: Any, at: int, *place: Any) -> Any:
        rows, unit = honest(self, value, at, *place)
        if at == turn:
            random = np.random.default_rng(1).integers(0, 2**64, rows.shape, np.uint64)
            rows = rows + np.uint64(2**40) if lie == "a shift" else random
        return rows, unit

    Door.release_masked = release  # type: ignore[method-assign]
    live(options, output)


@pytest.mark.parametrize("shows", ["root", pytest.param("nothing", marks=pytest.mark.slow)])
def test_a_member_that_hands_on_another_total_in_the_last_round_is_named_by_all(
    tmp_path: Path, shows: str
) -> None:
    contract = small_contract(5, rounds=6, **TREE)
    root, liar, child = inner_member(contract)
    crowd = Crowd(tmp_path, contract)
    honest = [name for name in crowd.names if name != liar]
    try:
        crowd.start(*honest)
        crowd.start_as(liar, live_as_false_relay, child, 6, shows)
        codes = crowd.wait(120, honest)
    finally:
        crowd.stop()
    for name in [child] if shows == "nothing" else honest:
        assert codes[name] == 2, crowd.output(name)
        assert f"MemberCaught: {liar} has" in crowd.output(name)
        path = next((crowd.folder(name) / "state").glob(f"evidence-{liar}-view-0-round-6.json"))
        found = json.loads(path.read_text())
        keys = [found["signing_key"], found.get("root_signing_key")]
        for signed, key in zip(found["signed"], keys, strict=False):
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key))
            public.verify(base64.b64decode(signed["signature"]), signed["text"].encode())
        if shows == "root":
            assert found["root"] == root
            assert len({signed["text"] for signed in found["signed"]}) == 2


@pytest.mark.parametrize("lie", ["a shift", pytest.param("random", marks=pytest.mark.slow)])
def test_a_row_that_makes_the_sum_impossible_stops_all(tmp_path: Path, lie: str) -> None:
    crowd = Crowd(tmp_path, small_contract(4, rounds=6, **TREE))
    try:
        crowd.start("m0", "m1", "m3")
        crowd.start_as("m2", live_with_false_masks, 3, lie)
        codes = crowd.wait(120)
    finally:
        crowd.stop()
    for name in ("m0", "m1", "m3"):
        assert codes[name] == 2, crowd.output(name)
        assert "Round 3: the sum of all members' rows reaches" in crowd.output(name)
        assert "a row or a mask of this sum is wrong" in crowd.output(name)
        assert not list((crowd.folder(name) / "state").glob("results/*"))


@pytest.mark.slow
def test_a_root_that_signs_two_totals_in_the_last_round_is_named_by_all(tmp_path: Path) -> None:
    """Each branch has a total that the root has signed; the digests meet at the close."""
    own = {"name": "treegd", "noise": "independent"}
    contract = small_contract(5, rounds=6, algorithm=own, privacy={"epsilon": 50.0, "delta": 1e-5})
    root, _, _ = inner_member(contract)
    crowd = Crowd(tmp_path, contract)
    honest = [name for name in crowd.names if name != root]
    one = contract.neighbours(root)[0]
    try:
        crowd.start(*honest)
        crowd.start_false(root, {one: 1e-6}, first_round=6)
        codes = crowd.wait(120, honest)
    finally:
        crowd.stop()
    for name in honest:
        assert codes[name] == 2, crowd.output(name)
        assert f"MemberCaught: {root} has signed two different messages" in crowd.output(name)


def live_with_other_model(options: dict[str, Any], output: str) -> None:
    """A member whose program gives another model in the end."""
    from tacenda_node.peer.peer import Peer

    honest = Peer._output
    Peer._output = lambda self: honest(self) + 1e-9  # type: ignore[method-assign]
    live(options, output)


@pytest.mark.slow
def test_members_with_different_models_are_told_at_the_end(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, small_contract(4, rounds=3, **TREE))
    try:
        crowd.start("m0", "m1", "m3")
        crowd.start_as("m2", live_with_other_model)
        codes = crowd.wait(120)
    finally:
        crowd.stop()
    for name in ("m0", "m1", "m3"):
        assert codes[name] == 2, crowd.output(name)
        assert "MemberCaught: m2 has signed another model after the last round" in crowd.output(
            name
        )
        assert (crowd.folder(name) / "state" / "evidence-m2-view-0-model.json").exists()
    assert codes["m2"] == 2
    assert "this member (m2) holds another model than m0, m1, m3" in crowd.output("m2")
