"""A node's own signature stops it where its state was restored or made anew."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from node_stage import anywhere
from signed_rows_stage import NONCE, Quiet, Stage, meet
from tacenda.errors import StateError
from tacenda_node.protocol import frames
from tacenda_node.protocol.handshake import Refused
from tacenda_node.wire.endpoint import Endpoint
from tacenda_node.wire.exchange import Exchange
from tacenda_node.wire.link import Link
from tacenda_node.wire.mailbox import Mailbox


@pytest.mark.parametrize(
    "place", [(2, 0), (2, 1), (3, 0)], ids=["next round", "next call", "two rounds"]
)
def test_a_restored_copy_stops_at_the_first_honest_neighbour(
    stage: Stage, place: tuple[int, int]
) -> None:
    """A copy of m1's folder, taken before it sent one more message, restored: compared to the very
    call, on both sides."""
    stage.handshake("m1")
    b, a = stage.handshake("m1"), stage.handshake("m0")
    meet(a, b)
    a.witness.row("m1", stage.sends("m1", 1))
    if place != (2, 0):
        a.witness.row("m1", stage.sends("m1", 2))
    stage.copy("m1", "backup")
    b = stage.handshake("m1")
    a.witness.row("m1", stage.sends("m1", *place))
    a.done = place[0] - 1
    meet(a, stage.handshake("m1"))  # the newest state is welcome
    old = stage.handshake("m1", "backup", state_id="m1")
    hello = old.hello("m0", NONCE)
    with pytest.raises(
        Refused, match=f"older than what it has signed, round {place[0]}, call {place[1]}"
    ) as refused:
        a.welcome(hello, "m1")
    with pytest.raises(
        StateError, match=f"has itself signed round {place[0]}, call {place[1]} .m0 shows it"
    ):
        old.check_welcome(frames.Refusal("no", refused.value.shown), "m0", NONCE)
    with pytest.raises(StateError, match="has itself signed"):
        old.welcome(a.hello("m1", NONCE), "m0")
    found = json.loads((stage.folder / "backup" / "evidence-m1-own-state.json").read_text())
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(found["signing_key"]))
    key.verify(
        base64.b64decode(found["signed"][0]["signature"]), found["signed"][0]["text"].encode()
    )


def test_what_is_durable_and_not_yet_sent_is_no_lag(stage: Stage) -> None:
    """A crash between the disk and the wire: the neighbour holds less than the state, which is as
    it should be."""
    a, b = stage.handshake("m0"), stage.handshake("m1")
    meet(a, b)
    a.witness.row("m1", stage.sends("m1", 1))
    stage.sends("m1", 2)
    meet(a, stage.handshake("m1"))
    meet(stage.handshake("m1"), a)


def test_a_restart_of_the_neighbour_keeps_what_it_can_show(stage: Stage) -> None:
    a, b = stage.handshake("m0"), stage.handshake("m1")
    meet(a, b)
    frame = stage.sends("m1", 1)
    a.witness._state.commit(
        [], [], (0, 1, b"mine"), None, [((0, 1, 0), "m1", frames.encode(frame))]
    )
    again = stage.handshake("m0")
    assert again.witness.shown("m1").row == stage.claim("m1", 1)
    with pytest.raises(StateError, match="has itself signed"):
        stage.handshake("m1", "empty", state_id="m1").welcome(again.hello("m1", NONCE), "m0")


def test_a_state_made_anew_is_noticed_before_anything_is_sent(stage: Stage) -> None:
    """m1 has lost its folder: m0 knows the old one by its signed name and refuses, and m1 itself
    stops when shown it."""
    a, b = stage.handshake("m0"), stage.handshake("m1")
    meet(a, b)
    new = stage.handshake("m1", "anew")
    with pytest.raises(Refused, match="going on would spend twice") as refused:
        a.welcome(new.hello("m0", NONCE), "m1")
    with pytest.raises(StateError, match="another state"):
        new.check_welcome(frames.Refusal("no", refused.value.shown), "m0", NONCE)


def test_an_empty_state_may_come_back_to_a_later_view_and_is_silent_until_then(
    stage: Stage,
) -> None:
    a, b = stage.handshake("m0"), stage.handshake("m1")
    meet(a, b)
    a.witness.row("m1", stage.sends("m1", 1))
    new = stage.handshake("m1", "anew")
    a.view = 1
    meet(a, new)
    assert new.lost == 0  # the view in which it sends nothing
    new.witness.hear("m0", [stage.claim("m1", 1)])
    assert new.witness.lost is None
    # Once it has taken up the run in a later view, old signatures are no reason to stop.
    new.witness._state.note("began", 2)
    new.witness._state.commit([], [], (2, 7, b"state"))
    back = stage.handshake("m1", "anew")
    a.view = 2
    assert back.witness.done == (2, 7)
    a.done = 7
    meet(a, back)
    assert back.lost == -1
    # A folder with a history is another matter, whatever the view.
    old = stage.handshake("m1", state_id="m1")
    a.witness.row("m1", stage.signs("m1", frames.rows_frame(0, 2, 0, np.zeros((1, 4)))))
    with pytest.raises(StateError, match="has itself signed"):
        old.welcome(a.hello("m1", NONCE), "m0")


@pytest.mark.parametrize("again", ["same", "other"])
def test_the_first_version_of_a_row_counts_also_after_a_crash(stage: Stage, again: str) -> None:
    """m2's row is used and a message that builds on it is durable; then kill -9, and m2 sends the
    row again, the same or another."""
    handshake = stage.handshake("m1")
    first = stage.signs("m2", frames.rows_frame(0, 1, 0, np.full((1, 4), 5.0)))
    mine = frames.encode(frames.rows_frame(0, 1, 1, np.full((1, 4), 2.5)))
    handshake.witness._state.commit(
        [], [((0, 1, 1), "m2", mine)], None, None, [((0, 1, 0), "m2", frames.encode(first))]
    )
    handshake = stage.handshake("m1")
    box = Mailbox(["m0", "m2"], anywhere(4), 1e9)
    endpoint = Endpoint(handshake, box, frames.frame_limit(32), Quiet(), bind=None)
    exchange = Exchange(stage.contract, handshake.witness._state, endpoint, lambda missing: None)
    endpoint.start()
    try:
        exchange.resend()
        link = Link(
            "m2",
            box,
            handshake.witness,
            frames.frame_limit(32),
            Quiet(),
            lambda p, f: None,
            lambda e: [],
        )
        value = 5.0 if again == "same" else -5.0
        second = stage.signs("m2", frames.rows_frame(0, 1, 0, np.full((1, 4), value)))
        if again == "same":
            assert not link.take(second)
        else:
            with pytest.raises(frames.BadFrame, match="two different messages"):
                link.take(second)
        rows, missing = box.take((0, 1, 0), ["m2"], 0.0)
        assert not missing
        np.testing.assert_array_equal(rows["m2"], np.full((1, 4), 5.0))
        assert bool(handshake.witness.caught) == (again == "other")
    finally:
        endpoint.stop()


def test_only_what_is_behind_the_own_checkpoint_leaves_the_outbox(stage: Stage) -> None:
    """Peers that claim any progress cannot make this node forget what it has signed."""
    handshake = stage.handshake("m1")
    endpoint = Endpoint(
        handshake,
        Mailbox(["m0", "m2"], anywhere(4), 1e9),
        frames.frame_limit(32),
        Quiet(),
        bind=None,
    )
    exchange = Exchange(stage.contract, handshake.witness._state, endpoint, lambda missing: None)
    for link in endpoint.links.values():
        link.used(0, 2**40)
    exchange._commit(
        [((0, 1, 0), "m0", frames.encode(frames.rows_frame(0, 1, 0, np.ones((1, 4)))))]
    )
    assert handshake.witness.remembers(stage.claim("m1", 1))
    exchange.keep(0, 1, b"state")
    exchange._commit(
        [((0, 2, 0), "m0", frames.encode(frames.rows_frame(0, 2, 0, np.ones((1, 4)))))]
    )
    assert stage.handshake("m1").witness.remembers(stage.claim("m1", 2))
    assert handshake.witness.latest == (0, 2, 0)
