"""What members sign: a peer's word never stops a node, the calls of rows are known before,
and what is kept is bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from node_stage import small_contract
from signed_rows_stage import NONCE, OTHER, Stage, meet
from tacenda.algorithms.registry import ALGORITHMS, from_plain
from tacenda.runtime.network import Network
from tacenda.runtime.places import Form, row_forms
from tacenda.runtime.rehearsal import Notebook, blank_host
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.protocol import frames
from tacenda_node.protocol.handshake import Refused, challenge_text
from tacenda_node.protocol.signed_rows import MOST_CALLS_KEPT, MOST_CLAIMS, WINDOW

LIES: dict[str, Callable[[Stage, frames.Hello], frames.Hello]] = {
    "another state, unsigned": lambda s, h: frames.replaced(
        h, shown=frames.Shown(None, frames.Introduction("x", 0, b"", OTHER))
    ),
    "a row, unsigned": lambda s, h: frames.replaced(
        h, shown=frames.Shown(frames.Claim("m1", 0, 9, 0, bytes(32), OTHER))
    ),
    "its own row as ours": lambda s, h: frames.replaced(h, shown=frames.Shown(s.claim("m0", 9))),
    "its own row under our name": lambda s, h: frames.replaced(
        h, shown=frames.Shown(frames.replaced(s.claim("m0", 9), member="m1"))
    ),
    "a row of somebody else": lambda s, h: frames.replaced(h, shown=frames.Shown(s.claim("m2", 9))),
    "its own introduction as ours": lambda s, h: frames.replaced(h, shown=frames.Shown(None, h.me)),
    "a round far ahead": lambda s, h: frames.replaced(h, done=5),
    "a round out of reach": lambda s, h: frames.replaced(h, done=2**40),
    "an introduction without a signature": lambda s, h: frames.replaced(
        h, me=frames.replaced(h.me, signature=OTHER)
    ),
    "another half": lambda s, h: frames.replaced(h, half=b"\1" * 32),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("started", [False, True])
def test_a_lie_ends_the_edge_and_never_the_node(stage: Stage, lie: str, started: bool) -> None:
    """m0 is a member, and lies in its hello and in its welcome:
    m1 refuses it, and knows itself to be whole."""
    a, b = stage.handshake("m0"), stage.handshake("m1")
    if started:
        stage.sends("m1", 1)
        b = stage.handshake("m1")
    false = LIES[lie](stage, a.hello("m1", NONCE))
    with pytest.raises((Refused, frames.BadFrame)):
        b.welcome(false, "m0")
    honest = a.welcome(b.hello("m0", NONCE), "m1")
    values = {f: getattr(false, f) for f in ("done", "me", "shown", "half")}
    signed = frames.replaced(honest, **values)
    challenge = challenge_text(NONCE, b.contract.hash(), "m1", "m0", b"", signed.half, b"")
    with pytest.raises((Refused, frames.BadFrame)):
        b.check_welcome(
            frames.replaced(signed, proof=stage.people["m0"].prove(challenge)), "m0", NONCE
        )
    with pytest.raises((Refused, frames.BadFrame)):
        b.check_welcome(frames.Refusal("state of m1 was lost", false.shown), "m0", NONCE)
    assert b.witness.lost is None
    meet(b, stage.handshake("m2"))  # the others are none the worse


def test_words_alone_never_raise_a_state_error(stage: Stage) -> None:
    b = stage.handshake("m1")
    for words in ("state of m1 was lost", "contract differs", "", "\0"):
        with pytest.raises(Refused):
            b.check_welcome(frames.Refusal(words), "m0", NONCE)


@pytest.mark.parametrize(
    "name",
    [name for name, kind in ALGORITHMS.items() if kind.private and not kind.needs.squared_loss],
)
def test_the_calls_in_which_rows_are_sent_are_known_before(name: str) -> None:
    """Of a whole run: the same calls as a simulation makes."""
    sent: dict[Any, Any] = {}

    class Watched(Network):
        def _sendable(self, shared: Any, tag: Any) -> Any:
            sent[tag] = Form(shared.shape[1], shared.dtype)
            return super()._sendable(shared, tag)

    coalition = 1 if from_plain({"name": name}).traits.shared_noise is not None else None
    terms = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True} | (
        {} if coalition is None else {"coalition": coalition}
    )
    contract = small_contract(3, rounds=5, algorithm={"name": name}, privacy=terms)
    plan = make_plan(contract)
    dim = plan.spec.facts.dim
    network = Watched(plan.spec.topology, [np.arange(3)], 0, None, plan.spec.row_type)
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
    forms = row_forms(plan.spec)
    assert sent.items() <= forms.items()
    if (
        not plan.spec.algorithm.traits.masks
    ):  # rows of a tree, and after a change of members, are others
        assert forms == sent | {(k, 0): Form(dim, plan.spec.row_type) for k in closing}


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
    assert len(w.news()) == frames.MOST_HEARD
    w.advance(0, 2 + WINDOW)
    assert len(w._known["m2"]) == 1 + MOST_CLAIMS
    w.advance(1, 2)
    assert {key[0] for key in w._known["m2"]} == {1}
    assert max(key[1] for key in w._known["m2"]) == 2 + WINDOW
    largest = frames.Claim("m" * 63, 2**40, 2**40, 10**5, bytes(32), OTHER)
    full = frames.Rows(0, 1, 0, "f8", (1, 4), bytes(32), OTHER, [largest] * frames.MOST_HEARD)
    assert len(frames.encode(full)) < frames.frame_limit(32)
