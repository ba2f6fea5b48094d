"""Signed votes: malformed ones are refused, and two of one member for one view are kept, shown and
end the run here."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agreement_stage import Five, decided
from tacenda_node.identity.certificates import text_signed
from tacenda_node.membership.agreement import Phase
from tacenda_node.membership.decisions import Decision
from tacenda_node.membership.votes import ConflictingVotes
from tacenda_node.protocol import frames


def _caught(five: Five, folder: Path, post: list[Any]) -> ConflictingVotes:
    """m0 hears from m4 that m2 is absent, and from m1 what m4 has told others."""
    agreement = five.agreement("m0", folder, post)
    agreement.hear("m4", five.frame(1, ["m2"], {"m4": 6}))
    agreement.freeze(6)
    agreement.hear("m1", five.frame(1, ["m3"], {"m4": 6, "m1": 6}))
    with pytest.raises(ConflictingVotes) as stopped:
        agreement.check()
    with pytest.raises(ConflictingVotes):
        agreement.decided()
    return stopped.value


def test_two_votes_of_one_member_stop_the_node_and_name_it(five: Five, tmp_path: Path) -> None:
    post: list[Any] = []
    error = str(_caught(five, tmp_path, post))
    assert error.startswith(
        "m4 has signed two different decisions about who takes part from view 1 on: (m2 absent,"
    )
    assert "(m3 absent, stopped in round 6)" in error
    path = tmp_path / "m0" / "evidence-m4-view-1.json"
    assert str(path) in error
    # The neighbours are shown both, and nothing but these two was said after the lie was found.
    assert [frame for _, frame in post][-2:] == [
        five.frame(1, ["m2"], {"m4": 6}),
        five.frame(1, ["m3"], {"m4": 6}),
    ]


def test_the_evidence_can_be_checked_by_anybody(five: Five, tmp_path: Path) -> None:
    _caught(five, tmp_path, [])
    found = json.loads((tmp_path / "m0" / "evidence-m4-view-1.json").read_text())
    key = five.plan.contract.member("m4").signing_key
    assert (found["member"], found["signing_key"]) == ("m4", key)
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key))
    for signed in found["signed"]:
        public.verify(base64.b64decode(signed["signature"]), signed["text"].encode())
    said = [json.loads(signed["text"].partition("\n")[2]) for signed in found["signed"]]
    assert [(s["member"], s["view"], s["absent"]) for s in said] == [
        ("m4", 1, ["m2"]),
        ("m4", 1, ["m3"]),
    ]
    assert {s["run"] for s in said} == {five.plan.contract.run_id()}


def test_the_node_stays_stopped_after_a_restart(five: Five, tmp_path: Path) -> None:
    error = str(_caught(five, tmp_path, []))
    path = tmp_path / "m0" / "evidence-m4-view-1.json"
    path.unlink()
    five.close()
    again = five.agreement("m0", tmp_path, [])
    with pytest.raises(ConflictingVotes) as stopped:
        again.check()
    assert str(stopped.value) == error
    assert path.exists()


def test_neighbours_who_are_shown_the_proof_stop_too(five: Five, tmp_path: Path) -> None:
    """Also the one whom a vote calls absent, and one who has decided already."""
    post: list[Any] = []
    _caught(five, tmp_path, post)
    shown = [frame for _, frame in post][-2:]
    called_absent = five.agreement("m2", tmp_path, [])
    late = five.agreement("m3", tmp_path, [])
    late.hear("m4", five.frame(1, ["m2"], {"m4": 6, "m0": 6, "m1": 6}))
    late.freeze(6)
    assert decided(late) == (1, frozenset({"m2"}), 6)
    late.enact(Decision(1, frozenset({"m2"}), 6))
    for agreement in (called_absent, late):
        for frame in shown:
            agreement.hear("m1", frame)
        with pytest.raises(ConflictingVotes, match="m4 has signed two different"):
            agreement.check()


def test_who_connects_later_is_shown_the_proof(five: Five, tmp_path: Path) -> None:
    agreement = five.agreement("m0", tmp_path, [])
    assert agreement.greeting(0) == []
    agreement.hear("m4", five.frame(1, ["m2"], {"m4": 6}))
    assert agreement.greeting(0) == [five.frame(1, ["m2"], {"m4": 6})]
    agreement.hear("m1", five.frame(1, ["m3"], {"m4": 6}))
    assert agreement.greeting(0) == [
        five.frame(1, ["m2"], {"m4": 6}),
        five.frame(1, ["m3"], {"m4": 6}),
    ]


def test_two_rounds_for_one_set_are_two_votes(five: Five, tmp_path: Path) -> None:
    agreement = five.agreement("m0", tmp_path, [])
    agreement.hear("m4", five.frame(1, ["m2"], {"m4": 6}))
    agreement.hear("m1", five.frame(1, ["m2"], {"m4": 9}))
    with pytest.raises(ConflictingVotes, match="stopped in round 6.*stopped in round 9"):
        agreement.check()


def test_a_copied_state_of_this_member_is_noticed(five: Five, tmp_path: Path) -> None:
    agreement = five.agreement("m0", tmp_path, [])
    agreement.propose(frozenset({"m4"}))
    agreement.freeze(7)
    agreement.hear("m1", five.frame(1, ["m2"], {"m0": 7}))
    with pytest.raises(ConflictingVotes, match="own key .m0. has signed two.*runs twice"):
        agreement.check()


def test_honest_members_of_two_minds_are_not_accused(five: Five, tmp_path: Path) -> None:
    """Votes of different members, or of one member in different views, may differ."""
    agreement = five.agreement("m0", tmp_path, [])
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 3}))
    agreement.hear("m1", five.frame(1, ["m3"], {"m2": 3}))
    agreement.hear("m1", five.frame(2, ["m3", "m4"], {"m1": 3, "m2": 3}))
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 3}))
    agreement.check()


@pytest.fixture(scope="module")
def listener(made: Five, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    fresh = Five(tmp_path_factory.mktemp("listener"))
    yield fresh, fresh.agreement("m0", tmp_path_factory.mktemp("state"), [])
    fresh.close()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_malformed_signatures_are_refused(listener: Any, data: st.DataObject) -> None:
    """A changed byte anywhere in a signed frame: not a frame, or a vote that does not hold; never a
    vote that counts."""
    five, agreement = listener
    good = five.frame(1, ["m4"], {"m1": 5, "m2": 6})
    raw = bytearray(frames.encode(good))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    try:
        frame = frames.decode(bytes(raw), 10**6)
    except frames.BadFrame:
        return
    assert isinstance(frame, frames.Membership)
    assume(not _same_vote(frame, good))
    with pytest.raises(frames.BadFrame):
        agreement.hear("m1", frame)
    assert agreement.phase is Phase.TAKING_PART
    agreement.check()


def _same_vote(frame: frames.Membership, good: frames.Membership) -> bool:
    """Base64 has spare bits at its end: another text of the very same 64 bytes is the same vote."""

    def plain(value: frames.Membership) -> Any:
        votes = {
            name: (vote.round, base64.b64decode(vote.signature))
            for name, vote in value.votes.items()
        }
        return value.view, sorted(value.absent), votes

    return bool(plain(frame) == plain(good))


@pytest.mark.parametrize(
    "signature", ["", "A" * 88, "A" * 85 + "==", "A" * 86 + "=", "é" * 86 + "==", "A" * 86 + "==\n"]
)
def test_a_signature_of_the_wrong_form_is_no_frame(signature: str) -> None:
    frame = frames.Membership(1, ["m4"], {"m1": frames.SignedStop(1, signature)})
    with pytest.raises(frames.BadFrame, match="not a frame"):
        frames.decode(frames.encode(frame), 10**6)


def test_a_proposal_that_nobody_signed_is_no_frame() -> None:
    with pytest.raises(frames.BadFrame, match="not a frame"):
        frames.decode(frames.encode(frames.Membership(1, ["m4"], {})), 10**6)


def test_a_signed_contract_is_no_vote(five: Five) -> None:
    """The two texts that this key signs cannot be taken for each other."""
    who = five.people["m1"]
    vote = five.signed_stop(who, 1, ["m4"], 5)
    text = b"tacenda contract v1\n" + five.plan.contract.canonical()
    assert not text_signed(who.signing_key, text, vote.signature)
