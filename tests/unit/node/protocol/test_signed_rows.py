"""What members sign: a peer's word never stops a node, its own signature does, and two signatures
convict."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from node_stage import anywhere, handshake_of, signed_contract, small_contract
from tacenda.algorithms.registry import from_plain, private_names
from tacenda.errors import StateError
from tacenda.node.identity.certificates import Identity
from tacenda.node.identity.contract import Contract
from tacenda.node.protocol import wire
from tacenda.node.protocol.handshake import Handshake, Refused
from tacenda.node.protocol.signed_rows import (
    MOST_CALLS_KEPT,
    MOST_CLAIMS,
    WINDOW,
    Witness,
    digest,
    row_text,
)
from tacenda.node.run_plan import make_plan
from tacenda.node.state.database import NodeState
from tacenda.node.transport.endpoint import Endpoint
from tacenda.node.transport.exchange import Exchange
from tacenda.node.transport.link import Link
from tacenda.node.transport.mailbox import Mailbox
from tacenda.runtime.budget import Notebook, blank_host
from tacenda.runtime.network import Network
from tacenda.runtime.places import Form, row_forms

NONCE = bytes(32)
OTHER = "A" * 86 + "=="


class _Quiet:
    def info(self, *_: Any, **__: Any) -> None:
        """The log of this test."""

    warning = info


class Stage:
    """m0, m1, m2 on a triangle, each with a state folder; all keys are in the test's hands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.contract: Contract
        self.people: dict[str, Identity]
        self.contract, self.people = signed_contract(small_contract(3, rounds=50), folder / "keys")
        self._states: dict[str, NodeState] = {}

    def handshake(self, name: str, place: str = "", **values: Any) -> Handshake:
        """A (re)start of a member on its folder."""
        self.close(name)
        self._states[name] = NodeState(self.folder / (place or name))
        return handshake_of(
            self.contract,
            self.people[name],
            self._states[name],
            **{"state_id": place or name, **values},
        )

    def sends(
        self, name: str, turn: int, call: int = 0, value: float = 1.0, view: int = 0
    ) -> wire.Rows:
        """The member makes a row durable, with the checkpoint of the round before, and signs it."""
        frame = wire.rows_frame(view, turn, call, np.full((1, 4), value))
        checkpoint = (view, turn - 1, b"state") if turn > 1 and call == 0 else None
        self._states[name].commit([], [((view, turn, call), "all", wire.encode(frame))], checkpoint)
        return self.signs(name, frame)

    def signs(self, name: str, frame: wire.Rows) -> wire.Rows:
        claim = wire.Claim(name, frame.view, frame.round, frame.call, digest(frame), "")
        return wire.replaced(
            frame, signature=self.people[name].sign_text(row_text(self.contract.run_id(), claim))
        )

    def claim(
        self, name: str, turn: int, call: int = 0, value: float = 1.0, view: int = 0
    ) -> wire.Claim:
        frame = self.signs(name, wire.rows_frame(view, turn, call, np.full((1, 4), value)))
        assert frame.signature is not None
        return wire.Claim(name, view, turn, call, digest(frame), frame.signature)

    def copy(self, name: str, place: str) -> None:
        """A copy of the folder, as a backup takes it while the node stands still."""
        self.close(name)
        shutil.copytree(self.folder / name, self.folder / place)

    def close(self, name: str) -> None:
        if name in self._states:
            self._states.pop(name).close()

    def close_all(self) -> None:
        for name in list(self._states):
            self.close(name)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close_all()


def _meet(caller: Handshake, listener: Handshake) -> None:
    me, peer = caller.identity.name, listener.identity.name
    caller.check_welcome(listener.welcome(caller.hello(peer, NONCE), me), peer, NONCE)


# ---- what a peer says
# ------------------------------------------------------------
LIES: dict[str, Callable[[Stage, wire.Hello], wire.Hello]] = {
    "another state, unsigned": lambda s, h: wire.replaced(
        h, shown=wire.Shown(None, wire.Introduction("x", 0, b"", OTHER))
    ),
    "a row, unsigned": lambda s, h: wire.replaced(
        h, shown=wire.Shown(wire.Claim("m1", 0, 9, 0, bytes(32), OTHER))
    ),
    "its own row as ours": lambda s, h: wire.replaced(h, shown=wire.Shown(s.claim("m0", 9))),
    "its own row under our name": lambda s, h: wire.replaced(
        h, shown=wire.Shown(wire.replaced(s.claim("m0", 9), member="m1"))
    ),
    "a row of somebody else": lambda s, h: wire.replaced(h, shown=wire.Shown(s.claim("m2", 9))),
    "its own introduction as ours": lambda s, h: wire.replaced(h, shown=wire.Shown(None, h.me)),
    "a round far ahead": lambda s, h: wire.replaced(h, done=5),
    "a round out of reach": lambda s, h: wire.replaced(h, done=2**40),
    "an introduction without a signature": lambda s, h: wire.replaced(
        h, me=wire.replaced(h.me, signature=OTHER)
    ),
    "another half": lambda s, h: wire.replaced(h, half=b"\1" * 32),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("started", [False, True])
def test_a_lie_ends_the_edge_and_never_the_node(stage: Stage, lie: str, started: bool) -> None:
    """m0 is a member, and lies in its hello and in its welcome: m1 refuses it, and knows itself to
    be whole."""
    a, b = stage.handshake("m0"), stage.handshake("m1")
    if started:
        stage.sends("m1", 1)
        b = stage.handshake("m1")
    false = LIES[lie](stage, a.hello("m1", NONCE))
    with pytest.raises((Refused, wire.BadFrame)):
        b.welcome(false, "m0")
    honest = a.welcome(b.hello("m0", NONCE), "m1")
    values = {f: getattr(false, f) for f in ("done", "me", "shown", "half")}
    signed = wire.replaced(honest, **values)
    challenge = b._challenge(NONCE, "m1", "m0", b"", signed.half, b"")
    with pytest.raises((Refused, wire.BadFrame)):
        b.check_welcome(
            wire.replaced(signed, proof=stage.people["m0"].prove(challenge)), "m0", NONCE
        )
    with pytest.raises((Refused, wire.BadFrame)):
        b.check_welcome(wire.Refusal("state of m1 was lost", false.shown), "m0", NONCE)
    assert b.witness.lost is None
    _meet(b, stage.handshake("m2"))  # the others are none the worse


def test_words_alone_never_raise_a_state_error(stage: Stage) -> None:
    b = stage.handshake("m1")
    for words in ("state of m1 was lost", "contract differs", "", "\0"):
        with pytest.raises(Refused):
            b.check_welcome(wire.Refusal(words), "m0", NONCE)


# ---- what this node has signed itself
# ------------------------------------------------------------
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
    _meet(a, b)
    a.witness.row("m1", stage.sends("m1", 1))
    if place != (2, 0):
        a.witness.row("m1", stage.sends("m1", 2))
    stage.copy("m1", "backup")
    b = stage.handshake("m1")
    a.witness.row("m1", stage.sends("m1", *place))
    a.done = place[0] - 1
    _meet(a, stage.handshake("m1"))  # the newest state is welcome
    old = stage.handshake("m1", "backup", state_id="m1")
    hello = old.hello("m0", NONCE)
    with pytest.raises(
        Refused, match=f"older than what it has signed, round {place[0]}, call {place[1]}"
    ) as refused:
        a.welcome(hello, "m1")
    with pytest.raises(
        StateError, match=f"has itself signed round {place[0]}, call {place[1]} .m0 shows it"
    ):
        old.check_welcome(wire.Refusal("no", refused.value.shown), "m0", NONCE)
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
    _meet(a, b)
    a.witness.row("m1", stage.sends("m1", 1))
    stage.sends("m1", 2)
    _meet(a, stage.handshake("m1"))
    _meet(stage.handshake("m1"), a)


def test_a_restart_of_the_neighbour_keeps_what_it_can_show(stage: Stage) -> None:
    a, b = stage.handshake("m0"), stage.handshake("m1")
    _meet(a, b)
    frame = stage.sends("m1", 1)
    a.witness._state.commit([], [], (0, 1, b"mine"), None, [((0, 1, 0), "m1", wire.encode(frame))])
    again = stage.handshake("m0")
    assert again.witness.shown("m1").row == stage.claim("m1", 1)
    with pytest.raises(StateError, match="has itself signed"):
        stage.handshake("m1", "empty", state_id="m1").welcome(again.hello("m1", NONCE), "m0")


def test_a_state_made_anew_is_noticed_before_anything_is_sent(stage: Stage) -> None:
    """m1 has lost its folder: m0 knows the old one by its signed name and refuses, and m1 itself
    stops when shown it."""
    a, b = stage.handshake("m0"), stage.handshake("m1")
    _meet(a, b)
    new = stage.handshake("m1", "anew")
    with pytest.raises(Refused, match="going on would spend twice") as refused:
        a.welcome(new.hello("m0", NONCE), "m1")
    with pytest.raises(StateError, match="another state"):
        new.check_welcome(wire.Refusal("no", refused.value.shown), "m0", NONCE)


def test_an_empty_state_may_come_back_to_a_later_view_and_is_silent_until_then(
    stage: Stage,
) -> None:
    a, b = stage.handshake("m0"), stage.handshake("m1")
    _meet(a, b)
    a.witness.row("m1", stage.sends("m1", 1))
    new = stage.handshake("m1", "anew")
    a.view = 1
    _meet(a, new)
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
    _meet(a, back)
    assert back.lost == -1
    # A folder with a history is another matter, whatever the view.
    old = stage.handshake("m1", state_id="m1")
    a.witness.row("m1", stage.signs("m1", wire.rows_frame(0, 2, 0, np.zeros((1, 4)))))
    with pytest.raises(StateError, match="has itself signed"):
        old.welcome(a.hello("m1", NONCE), "m0")


@pytest.mark.parametrize("again", ["same", "other"])
def test_the_first_version_of_a_row_counts_also_after_a_crash(stage: Stage, again: str) -> None:
    """m2's row is used and a message that builds on it is durable; then kill -9, and m2 sends the
    row again, the same or another."""
    handshake = stage.handshake("m1")
    first = stage.signs("m2", wire.rows_frame(0, 1, 0, np.full((1, 4), 5.0)))
    mine = wire.encode(wire.rows_frame(0, 1, 1, np.full((1, 4), 2.5)))
    handshake.witness._state.commit(
        [], [((0, 1, 1), "m2", mine)], None, None, [((0, 1, 0), "m2", wire.encode(first))]
    )
    handshake = stage.handshake("m1")
    box = Mailbox(["m0", "m2"], anywhere(4), 1e9)
    endpoint = Endpoint(handshake, box, wire.frame_limit(32), _Quiet(), bind=None)
    exchange = Exchange(stage.contract, handshake.witness._state, endpoint, lambda missing: None)
    endpoint.start()
    try:
        exchange.resend()
        link = Link(
            "m2",
            box,
            handshake.witness,
            wire.frame_limit(32),
            _Quiet(),
            lambda p, f: None,
            lambda e: [],
        )
        value = 5.0 if again == "same" else -5.0
        second = stage.signs("m2", wire.rows_frame(0, 1, 0, np.full((1, 4), value)))
        if again == "same":
            assert not link.take(second)
        else:
            with pytest.raises(wire.BadFrame, match="two different messages"):
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
        wire.frame_limit(32),
        _Quiet(),
        bind=None,
    )
    exchange = Exchange(stage.contract, handshake.witness._state, endpoint, lambda missing: None)
    for link in endpoint.links.values():
        link.used(0, 2**40)
    exchange._commit([((0, 1, 0), "m0", wire.encode(wire.rows_frame(0, 1, 0, np.ones((1, 4)))))])
    assert handshake.witness.remembers(stage.claim("m1", 1))
    exchange.keep(0, 1, b"state")
    exchange._commit([((0, 2, 0), "m0", wire.encode(wire.rows_frame(0, 2, 0, np.ones((1, 4)))))])
    assert stage.handshake("m1").witness.remembers(stage.claim("m1", 2))
    assert handshake.witness.latest == (0, 2, 0)


# ---- two faces
# ------------------------------------------------------------
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
    w.row("m2", stage.signs("m2", wire.rows_frame(0, 1, 0, np.full((1, 4), 5.0))))
    w.row(
        "m2", stage.signs("m2", wire.rows_frame(0, 1, 0, np.full((1, 4), 5.0)))
    )  # sent again: the same
    with pytest.raises(wire.BadFrame, match="two different messages for round 1"):
        w.row("m2", stage.signs("m2", wire.rows_frame(0, 1, 0, np.full((1, 4), -5.0))))
    _check_evidence(stage, stage.folder / "m0", "m2", 2)
    heard = stage.handshake("m1").witness
    heard.row("m2", stage.signs("m2", wire.rows_frame(0, 1, 0, np.full((1, 4), 5.0))))
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
        wire.Proof(stage.claim("m2", 1), stage.claim("m2", 1)),
        wire.Proof(stage.claim("m2", 1), stage.claim("m2", 1, call=1, value=2.0)),
        wire.Proof(stage.claim("m2", 1), stage.claim("m1", 1, value=2.0)),
        wire.Proof(
            stage.claim("m2", 1), wire.replaced(stage.claim("m1", 1, value=2.0), member="m2")
        ),
    ):
        with pytest.raises(wire.BadFrame, match="proves nothing"):
            third.proof(false)
    assert third.proof(heard.proofs[0])
    assert not third.proof(heard.proofs[0])
    assert list(third.caught) == ["m2"]
    third._state.close()


def test_nobody_can_be_framed(stage: Stage) -> None:
    w = stage.handshake("m0").witness
    w.row("m2", stage.signs("m2", wire.rows_frame(0, 1, 0, np.ones((1, 4)))))
    for false in (
        wire.replaced(stage.claim("m1", 1, value=9.0), member="m2"),
        wire.replaced(stage.claim("m2", 2, value=9.0), round=1),
        wire.replaced(stage.claim("m2", 1, value=9.0), view=1),
    ):
        with pytest.raises(wire.BadFrame, match="not m2's"):
            w.hear("m1", [false])
    with pytest.raises(wire.BadFrame, match="nobody in the contract"):
        w.hear("m1", [wire.replaced(stage.claim("m2", 1), member="m9")])
    with pytest.raises(wire.BadFrame, match="not signed"):
        w.row("m2", wire.rows_frame(0, 1, 1, np.ones((1, 4))))
    assert not w.caught
    assert w.lost is None


def test_an_echo_of_the_own_key_stops_a_state_that_runs_twice(stage: Stage) -> None:
    stage.handshake("m1")
    stage.sends("m1", 1)
    w = stage.handshake("m1").witness
    w.signed(wire.rows_frame(0, 1, 0, np.ones((1, 4))))
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
    frame = stage.signs("m2", wire.rows_frame(0, 1, 0, np.full((1, 4), 1e300)))
    with pytest.raises(wire.UnfitRows, match="radius") as unfit:
        wire.rows_of(frame, 4, float, stage.contract.problem.radius)
    w.beyond("m2", frame, str(unfit.value))
    assert "radius of 1e+09 in round 1" in w.caught["m2"]
    _check_evidence(stage, stage.folder / "m0", "m2", 1)
    w.beyond("m1", wire.rows_frame(0, 1, 0, np.full((1, 4), 1e300)), "unsigned rows")
    assert list(w.caught) == ["m2"]


def test_a_flood_of_own_signatures_hides_no_lie(stage: Stage) -> None:
    """A liar signs many messages that no algorithm sends; then it tells two neighbours two
    things."""
    calls = frozenset(call for _, call in row_forms(make_plan(stage.contract).spec))
    flood = [stage.claim("m2", 1 + WINDOW, call=1000 + k) for k in range(MOST_CLAIMS + 1)]
    told = {}
    for name, value in (("m0", 5.0), ("m1", -5.0)):
        state = NodeState(stage.folder / f"flooded {name}")
        told[name] = Witness(stage.contract, name, state, stage.people[name].signer(), None, calls)
        told[name].hear("m2", flood)
        frame = wire.rows_frame(0, 1, min(calls), np.full((1, 4), value))
        told[name].row("m2", stage.signs("m2", frame))
    told["m0"].hear("m1", told["m1"].recent())
    told["m1"].hear("m0", told["m0"].news())
    assert [list(w.caught) for w in told.values()] == [["m2"], ["m2"]]
    for w in told.values():
        w._state.close()


@pytest.mark.parametrize("name", private_names())
def test_the_calls_in_which_rows_are_sent_are_known_before(name: str) -> None:
    """Of a whole run: the same calls as a simulation makes."""
    sent: dict[Any, Any] = {}

    class Watched(Network):
        def _sendable(self, shared: Any, tag: Any) -> Any:
            sent[tag] = Form(shared.shape[1], shared.dtype)
            return super()._sendable(shared, tag)

    coalition = 1 if from_plain({"name": name}).shared_noise is not None else None
    terms = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True} | (
        {} if coalition is None else {"coalition": coalition}
    )
    contract = small_contract(3, rounds=5, algorithm={"name": name}, privacy=terms)
    plan = make_plan(contract)
    dim = plan.facts.dim
    network = Watched(plan.topology, [np.arange(3)], 0, None, plan.spec.row_type)
    host = blank_host(
        plan.spec,
        np.arange(3),
        Notebook(dim, plan.spec.weights, plan.spec.row_type),
        neighbours=network,
        width=dim,
    )
    for turn in range(1, 6):
        host.step(turn)
    closing = range(6, 6 + contract.finish_mixing)
    assert row_forms(plan.spec) == sent | {(k, 0): Form(dim, plan.spec.row_type) for k in closing}


def test_what_is_kept_is_bounded(stage: Stage) -> None:
    """A member signs as much as it likes: only near rounds are kept, and not more than so many; old
    ones are forgotten."""
    w = stage.handshake("m0").witness
    w.hear(
        "m1",
        [
            stage.claim("m2", 2 + WINDOW),
            stage.claim("m2", 1, view=2),
            stage.claim("m2", 1 + WINDOW),
        ],
    )
    assert [claim.round for claim in w.recent()] == [1 + WINDOW]
    w.hear("m1", [stage.claim("m2", 1, call=k) for k in range(MOST_CALLS_KEPT + 10)])
    w.hear("m1", [stage.claim("m2", 0), stage.claim("m2", 51)])  # no rounds of this contract
    assert len(w._known["m2"]) == 1 + MOST_CALLS_KEPT
    w.hear(
        "m1", [stage.claim("m2", 1 + k % 50, call=k // 50, view=1) for k in range(MOST_CLAIMS + 10)]
    )
    assert len(w._known["m2"]) == 1 + MOST_CALLS_KEPT + MOST_CLAIMS
    assert len(w.news()) == wire.MOST_HEARD
    w.advance(0, 2 + WINDOW)
    assert len(w._known["m2"]) == 1 + MOST_CLAIMS
    w.advance(1, 2)
    assert {key[0] for key in w._known["m2"]} == {1}
    assert max(key[1] for key in w._known["m2"]) == 2 + WINDOW
    largest = wire.Claim("m" * 63, 2**40, 2**40, 10**5, bytes(32), OTHER)
    full = wire.Rows(0, 1, 0, "f8", (1, 4), bytes(32), OTHER, [largest] * wire.MOST_HEARD)
    assert len(wire.encode(full)) < wire.frame_limit(32)
