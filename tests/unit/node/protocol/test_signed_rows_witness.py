"""What exactly is signed, kept, passed on and written down as evidence: texts and files that other
programs, and a court, must be able to read again."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from node_stage import signed_contract, small_contract
from tacenda_node.protocol import frames
from tacenda_node.protocol.signed_rows import Witness, digest, row_text, state_text
from tacenda_node.state.database import NodeState

NOBODY = "A" * 86 + "=="


class Log:
    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def warning(self, what: str, **more: Any) -> None:
        self.said.append((what, more))


class Table:
    """m0 watches m1 and m2, whose keys are in the test's hands."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, Log()
        self.contract, self.people = signed_contract(small_contract(3, rounds=9), folder / "keys")
        self.run = self.contract.run_id()
        self.state = NodeState(folder / "state")
        self.witness = self.begin()

    def begin(self) -> Witness:
        self.state.close()
        self.state = NodeState(self.folder / "state")
        signer = self.people["m0"].signer()
        return Witness(self.contract, "m0", self.state, signer, self.log, frozenset({0, 1}))

    def frame(self, name: str, turn: int, value: float = 1.0, call: int = 0) -> frames.Rows:
        frame = frames.rows_frame(0, turn, call, np.full((1, 4), value))
        claim = frames.Claim(name, 0, turn, call, digest(frame), "")
        signature = self.people[name].sign_text(row_text(self.run, claim))
        return frames.replaced(frame, signature=signature)

    def claim(self, name: str, turn: int, value: float = 1.0, call: int = 0) -> frames.Claim:
        frame = self.frame(name, turn, value, call)
        assert frame.signature is not None
        return frames.Claim(name, 0, turn, call, digest(frame), frame.signature)

    def evidence(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "state" / name).read_text())
        key = base64.b64decode(found["signing_key"])
        for one in found["signed"]:
            Ed25519PublicKey.from_public_bytes(key).verify(
                base64.b64decode(one["signature"]), one["text"].encode()
            )
        return found


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    made = Table(tmp_path)
    yield made
    made.state.close()


def test_the_texts_that_are_signed_are_fixed() -> None:
    """A change of one letter makes every kept signature worthless: it needs a new protocol."""
    claim = frames.Claim("m1", 2, 7, 3, bytes(range(32)), NOBODY)
    assert row_text("run", claim) == (
        b'tacenda row v1\n{"call":3,"digest":"'
        + bytes(range(32)).hex().encode()
        + b'","member":"m1","round":7,"run":"run","view":2}'
    )
    met = frames.Introduction("folder", 4, b"\1\2", NOBODY)
    assert state_text("run", "m1", "m2", met) == (
        b'tacenda state v1\n{"half":"0102","member":"m1","peer":"m2","run":"run",'
        b'"state_id":"folder","view":4}'
    )
    frame = frames.rows_frame(0, 1, 0, np.array([[1.0, 2.0]]))
    assert digest(frame) == hashlib.sha256(b"f8 1 2\n" + frame.data).digest()
    assert digest(frames.replaced(frame, shape=(2, 1))) != digest(frame)


def test_a_row_leaves_with_its_signature_and_with_what_was_heard(table: Table) -> None:
    w = table.witness
    heard = [table.claim("m1", 1), table.claim("m2", 1), table.claim("m2", 2, call=1)]
    w.hear("m1", heard)
    w.hear("m2", heard[:1])  # known already: passed on once
    plain = frames.rows_frame(0, 1, 0, np.ones((1, 4)))
    sent = w.signed(plain)
    claim = frames.Claim("m0", 0, 1, 0, digest(plain), sent.signature or "")
    assert w.holds(claim) and sent.heard == heard and sent.data == plain.data
    assert w.signed(frames.rows_frame(0, 1, 1, np.ones((1, 4)))).heard == []
    assert [c.key for c in w.recent()] == sorted(c.key for c in w.recent())
    assert claim in w.recent() and set(heard) < set(w.recent())
    w.hear("m1", [table.claim("m2", 1, call=2)])  # no call of this algorithm
    assert w.news() == []


def test_the_latest_row_of_a_neighbour_is_kept_whatever_the_order(table: Table) -> None:
    w = table.witness
    assert w.latest_of("m1") is None
    for turn in (2, 3, 1):
        w.row("m1", table.frame("m1", turn))
    latest = w.latest_of("m1")
    assert latest is not None and latest.key == (0, 3, 0)
    assert w.shown("m1") == frames.Shown(latest, None) and w.shown("m2") == frames.Shown(None, None)
    with pytest.raises(frames.BadFrame, match="not signed"):
        w.row("m1", frames.replaced(table.frame("m1", 4), signature=None))
    with pytest.raises(frames.BadFrame, match="not signed"):
        w.row("m1", table.frame("m2", 4))
    with pytest.raises(frames.BadFrame, match="somebody who is not in the contract"):
        w.hear("m1", [frames.replaced(table.claim("m1", 1), member="m9")])
    with pytest.raises(frames.BadFrame, match="not m2's"):
        w.hear("m1", [frames.replaced(table.claim("m1", 1), member="m2")])


@pytest.mark.parametrize("way", ["rows", "hearsay", "proof"])
def test_two_rows_for_one_call_are_written_down_once_and_for_good(table: Table, way: str) -> None:
    w, told = table.witness, []
    w.on_caught = told.append
    one, other = table.claim("m1", 2), table.claim("m1", 2, 5.0)
    if way == "proof":
        assert w.proof(frames.Proof(one, other)) is True
        assert w.proof(frames.Proof(other, one)) is False
    else:
        w.row("m1", table.frame("m1", 2))
        if way == "rows":
            with pytest.raises(frames.BadFrame, match="two different messages"):
                w.row("m1", table.frame("m1", 2, 5.0))
        else:
            w.hear("m2", [other])
    found = table.evidence("evidence-m1-view-0-round-2.json")
    assert found["member"] == "m1" and found["what"] == w.caught["m1"]
    assert [s["text"].encode() for s in found["signed"]] == [
        row_text(table.run, one),
        row_text(table.run, other),
    ]
    assert "round 2, call 0" in w.caught["m1"] and told == ["m1"]
    ((what, more),) = table.log.said
    assert what == "a member was caught" and more == {"peer": "m1", "message": w.caught["m1"]}
    assert w.proofs == [frames.Proof(one, other)]
    again = table.begin()
    assert again.caught == w.caught and again.proofs == w.proofs
    with pytest.raises(frames.BadFrame, match="two different messages"):
        again.row("m1", table.frame("m1", 3))
    with pytest.raises(frames.BadFrame, match="proves nothing"):
        again.proof(frames.Proof(one, one))
    with pytest.raises(frames.BadFrame, match="proves nothing"):
        again.proof(frames.Proof(one, table.claim("m1", 3, 5.0)))
    with pytest.raises(frames.BadFrame, match="proves nothing"):
        again.proof(frames.Proof(table.claim("m2", 2), frames.replaced(other, member="m2")))


def test_a_row_that_no_honest_member_sends_is_kept_with_its_data(table: Table) -> None:
    w, frame = table.witness, table.frame("m2", 4, 1e300)
    w.beyond("m2", frames.replaced(frame, signature=NOBODY), "nothing")
    assert not w.caught
    w.beyond("m2", frame, "a row beyond the radius.")
    found = table.evidence("evidence-m2-view-0-round-4.json")
    assert base64.b64decode(found["data"]) == frame.data
    assert "m2 has signed a row beyond the radius in round 4; it is cut off." in w.caught["m2"]
    before = w.caught["m2"]
    w.beyond("m2", table.frame("m2", 5, 1e300), "another.")
    assert w.caught["m2"] == before and table.begin().caught == w.caught


def test_a_row_that_no_honest_member_sends_convicts_also_where_it_is_only_shown(
    table: Table,
) -> None:
    w, frame, why = table.witness, table.frame("m2", 4, 1e300), "rows beyond the radius."
    row = frames.signed_row("m2", frame, digest(frame))
    forged = frames.replaced(row.claim, signature=NOBODY), frames.replaced(row.claim, member="m1")
    for claim in (*forged, frames.replaced(row.claim, member="nobody")):
        with pytest.raises(frames.BadFrame, match="without a valid signature"):
            w.unfit(frames.replaced(row, claim=claim), why)
    with pytest.raises(frames.BadFrame, match="without a valid signature"):
        w.unfit(frames.replaced(row, data=row.data[::-1]), why)
    assert not w.caught and not w.evidence
    assert w.unfit(row, why) and not w.unfit(row, why)
    assert "m2 has signed rows beyond the radius in round 4" in w.caught["m2"]
    assert w.evidence == [row] and table.begin().evidence == [row], "also after a restart"


def test_who_has_signed_anything_after_a_place(table: Table) -> None:
    w = table.witness
    w.row("m1", table.frame("m1", 2))
    assert w.is_past("m1", (0, 1, 5)) and w.is_past("m1", (0, 1, 0))
    assert not w.is_past("m1", (0, 2, 0)) and not w.is_past("m2", (0, 1, 0))
    w.hear("m1", [table.claim("m2", 2, call=1)])
    assert w.is_past("m2", (0, 2, 0)) and not w.is_past("m2", (1, 0, 0))


def test_a_total_is_passed_on_before_what_follows_from_it(table: Table) -> None:
    w = Witness(
        table.contract, "m0", table.state, table.people["m0"].signer(), None,
        frozenset({0, 1}), frozenset({(1, 1)}), lambda key: "m1",
    )  # fmt: skip
    follows, total, other = (
        table.claim("m2", 2), table.claim("m1", 1, call=1), table.claim("m2", 1, call=1)
    )  # fmt: skip
    w.hear("m2", [follows, other, total])
    assert w.news() == [total, follows, other]


def test_nobody_is_shown_what_it_has_shown_itself(table: Table) -> None:
    """Whoever has shown a signature knows it; another one for the same call goes to all."""
    w = table.witness
    w.row("m1", table.frame("m1", 1))
    from_both, lie = table.claim("m2", 1), table.claim("m2", 1, 7.0)
    w.hear("m1", [from_both])
    w.hear("m2", [from_both])
    own, passed_on = w.news()
    assert own.member == "m1" and passed_on == from_both
    assert w.unknown_to("m1", [own, passed_on]) == []
    assert w.unknown_to("m2", [own, passed_on]) == [own]
    assert w.unknown_to("m3", [own, passed_on, lie]) == [own, passed_on, lie]
    w.hear("m1", [from_both])
    assert w.news() == []


def test_the_own_signature_on_something_unknown_is_written_down(table: Table) -> None:
    w, told = table.witness, []
    w.on_caught = told.append
    one, other = table.claim("m0", 3), table.claim("m0", 3, 7.0)
    assert w.lost is None and w.proof(frames.Proof(one, other)) is True
    assert "two messages for round 3" in str(w.lost) and told == ["m0"]
    found = table.evidence("evidence-m0-own-state.json")
    assert [s["text"].encode() for s in found["signed"]] == [row_text(table.run, other)]
    assert found["member"] == "m0" and "m0" not in w.caught
    first = w.lost
    w.lose(one.signature, row_text(table.run, one), "something else", "why")
    assert w.lost is first  # the first word stays


def test_states_that_neighbours_show(table: Table) -> None:
    """Kept at the first meeting; another folder or another half of a key replaces it, another view
    of the same does not."""
    w = table.witness
    assert w.known_state("m1") is None and w.began == 0
    theirs = Witness(
        table.contract, "m1", NodeState(table.folder / "m1"), table.people["m1"].signer()
    )
    first = theirs.introduce("m0", "folder", 0, b"half")
    assert w.introduced("m1", "m0", first) and not w.introduced("m1", "m2", first)
    w.keep_state("m1", first)
    assert w.known_state("m1") == first and w.shown("m1").state == first
    w.keep_state("m1", theirs.introduce("m0", "folder", 3, b"half"))
    assert w.known_state("m1") == first
    for other in (
        theirs.introduce("m0", "new folder", 3, b"half"),
        theirs.introduce("m0", "new folder", 3, b"other half"),
    ):
        w.keep_state("m1", other)
        w = table.begin()
        assert w.known_state("m1") == other
    forged = frames.replaced(first, signature=NOBODY)
    table.state.note("introduced m1", ["folder", 0, b"half".hex(), NOBODY])
    w = table.begin()
    assert w.known_state("m1") == forged and w.shown("m1").state is None
    w.keep_state("m1", first)  # what was not signed is replaced
    assert w.known_state("m1") == first
    table.state.note("began", 4)
    assert w.began == 4


def test_what_this_member_remembers_of_itself(table: Table) -> None:
    frame = frames.rows_frame(0, 3, 0, np.full((1, 4), 2.0))
    table.state.commit([], [((0, 3, 0), "m1", frames.encode(frame))], (0, 2, b"state"))
    w = table.begin()
    assert w.done == (0, 2) and w.latest == (0, 3, 0)
    assert w.remembers(table.claim("m0", 2)) and w.remembers(table.claim("m0", 1))
    assert w.remembers(table.claim("m0", 3, 2.0))
    assert not w.remembers(table.claim("m0", 3, 9.0))
    assert not w.remembers(table.claim("m0", 4, 2.0))


def test_rows_that_were_received_are_known_after_a_restart(table: Table) -> None:
    """The latest of each neighbour; not those whose signature no longer holds."""
    sent = [table.frame("m1", 2), table.frame("m1", 3, call=1)]
    stolen = frames.replaced(table.frame("m2", 3), signature=sent[0].signature)
    bare = frames.replaced(table.frame("m2", 2), signature=None)
    rows = [("m1", sent[0]), ("m1", sent[1]), ("m2", stolen), ("m2", bare)]
    table.state.commit(
        [], [], None, None, [((0, f.round, f.call), who, frames.encode(f)) for who, f in rows]
    )
    w = table.begin()
    latest = w.latest_of("m1")
    assert latest == table.claim("m1", 3, call=1) and w.latest_of("m2") is None
    assert [c.key for c in w.recent()] == [(0, 2, 0), (0, 3, 1)]
    # What it says now is compared with what it said before
    with pytest.raises(frames.BadFrame, match="two different messages for round 2, call 0"):
        w.row("m1", table.frame("m1", 2, value=7.0))
    assert list(w.caught) == ["m1"]


def test_digests_are_compared_in_a_window_of_rounds(table: Table) -> None:
    w = table.witness
    w.advance(0, 20)
    for turn, near in ((11, False), (12, True), (28, True), (29, False)):
        assert w._near(table.claim("m1", turn)) is near, turn
    for view, turn, near in ((1, 1, True), (1, 999, True), (2, 20, False)):
        claim = frames.Claim("m1", view, turn, 0, bytes(32), NOBODY)
        assert w._near(claim) is near, view
    w.advance(1, 20)
    assert not w._near(table.claim("m1", 20))  # of the view before


def test_an_empty_state_keeps_still_about_its_own_name(table: Table) -> None:
    """It may stand in the place of a lost one: the handshake decides that, not hearsay."""
    w = table.witness
    assert w.latest == (0, 0, 0)
    assert not w.hear("m1", [table.claim("m0", 1)])
    assert w.lost is None and w.recent() == []
    table.state.commit([], [], (0, 1, b"state"))
    w = table.begin()
    w.hear("m1", [table.claim("m0", 1)])  # before the checkpoint: remembered
    assert w.lost is None
    w.hear("m1", [table.claim("m0", 4)])
    assert w.lost is not None and "round 4, call 0" in str(w.lost)


def test_rounds_and_calls_that_a_run_does_not_have_are_not_kept(table: Table) -> None:
    w = table.witness
    last = table.contract.total_rounds
    for turn, call, kept in ((1, 0, True), (2, 1, True), (3, 2, False), (0, 0, False)):
        assert w.hear("m1", [table.claim("m1", turn, call=call)]) is kept, (turn, call)
    w.advance(0, last)
    assert w.hear("m2", [table.claim("m2", last)])
    assert not w.hear("m2", [table.claim("m2", last + 1, call=1)])
    assert not w.hear("m2", [table.claim("m2", last + 2)])
    assert w.hear("m2", [table.claim("m2", last + 1)])  # the model after the last round
