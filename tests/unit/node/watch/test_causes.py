"""Who is named as the root of a wait, from what neighbours say; they may lie."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from tacenda_node.protocol import frames
from tacenda_node.protocol.handshake import CLONE, is_clone
from tacenda_node.watch.causes import MOST_CAUSES, MOST_CHAIN, Cause, root_causes
from tacenda_node.wire import link as module
from tacenda_node.wire.endpoint import Endpoint
from tacenda_node.wire.link import FROZEN_SECONDS, Link, unfinished

NAMES = [f"m{k}" for k in range(6)]


def made(**changes: Any) -> Link:
    """The edge to m1, connected, as m0 sees it."""
    quiet = SimpleNamespace(info=lambda *a, **k: None, warning=lambda *a, **k: None)
    witness = SimpleNamespace(names=frozenset(NAMES), hear=lambda peer, claims: False)
    box = SimpleNamespace(view=0, round=1, wake=lambda: None)
    found = Link("m1", box, witness, 1 << 16, quiet, None, None)  # type: ignore[arg-type]
    found.connected = True
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def said(*waits: frames.Wait, **more: Any) -> frames.Progress:
    sent = frames.Progress(0, waits=list(waits), **more)
    frame = frames.decode(frames.encode(sent), 1 << 16)
    assert isinstance(frame, frames.Progress)
    return frame


def causes(link: Link) -> list[tuple[tuple[str, ...], str]]:
    return [(cause.chain, cause.state) for cause in link.causes("m0", time.monotonic())]


def test_a_neighbours_own_state() -> None:
    now = time.monotonic()
    assert causes(made()) == [(("m1",), "computing")]
    assert causes(made(connected=False)) == [(("m1",), "away")]
    assert causes(made(connected=False, hung=True)) == [(("m1",), "frozen")]
    assert causes(made(seen=now - FROZEN_SECONDS - 1)) == [(("m1",), "frozen")]


def test_what_a_neighbour_says_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    link = made()
    link.take(said(frames.Wait(["m1", "m2", "m3"], "away", 40)))
    (cause,) = link.causes("m0", 0.0)
    assert (cause.chain, cause.member, cause.state) == (("m1", "m2", "m3"), "m3", "away")
    assert cause.words == "m3 (away for 40 s, says m2)"
    later = time.monotonic() + 5
    monkeypatch.setattr(module.time, "monotonic", lambda: later)
    assert link.causes("m0", 0.0)[0].seconds == pytest.approx(45, abs=0.5)
    link.take(said())
    assert causes(link) == [(("m1",), "computing")]
    link.take(said(frames.Wait(["m1"], "paused", 7)))
    assert link.causes("m0", 0.0)[0].words == "m1 (paused by its policy)"


def test_a_circle_of_waits_names_nobody_else() -> None:
    link = made()
    link.take(said(frames.Wait(["m1", "m2", "m0"], "computing", 3)))
    assert causes(link) == [(("m1",), "waiting for this node")]


def test_who_left_because_of_another_names_the_other() -> None:
    link = made()
    link.take(said(frames.Wait(["m1", "m2"], "away", 9), leaving=True))
    link.connected = False
    assert causes(link) == [(("m1", "m2"), "away")]
    silent = made()
    silent.take(said(frames.Wait(["m1", "m2"], "away", 9)))
    silent.connected = False  # it was killed while it waited: now it is away itself
    assert causes(silent) == [(("m1",), "away")]


@pytest.mark.parametrize(
    "chain", [["m2", "m3"], ["m1", "m2", "m2"], ["m1", "nobody"], ["m1", "m1"]]
)
def test_impossible_chains_cut_the_peer_off(chain: list[str]) -> None:
    with pytest.raises(frames.BadFrame, match="chain of waits"):
        made().take(said(frames.Wait(chain, "away", 1)))


@pytest.mark.parametrize(
    "waits",
    [
        [frames.Wait([], "away", 1)],
        [frames.Wait(["m1"] * (MOST_CHAIN + 1), "away", 1)],
        [frames.Wait(["m1", "m2"], "away", 1)] * (MOST_CAUSES + 1),
        [frames.Wait(["m1", "m2"], "guilty", 1)],
        [frames.Wait(["m1", "m2"], "away", -1)],
        [frames.Wait(["m1", "m2"], "away", 2**41)],
        [frames.Wait(["m1", "x" * 10_000], "away", 1)],
    ],
)
def test_frames_are_bounded(waits: list[frames.Wait]) -> None:
    with pytest.raises(frames.BadFrame, match="not a frame"):
        said(*waits)


def test_the_root_is_who_has_a_fault() -> None:
    computing, away = Cause(("m1",), "computing", 90.0), Cause(("m2", "m3"), "away", 5.0)
    assert root_causes([computing, away]) == [away]
    assert root_causes([computing]) == [computing]
    longer = Cause(("m4", "m5", "m3"), "away", 6.0)
    assert root_causes([longer, away]) == [away]  # each member once, by the shortest way
    many = [Cause((f"x{k}",), "away", float(k)) for k in range(20)]
    assert [cause.member for cause in root_causes(many)] == ["x19", "x18", "x17", "x16"]
    assert root_causes([Cause(("m1",) * (MOST_CHAIN + 1), "away", 1.0)]) == []


def test_a_neighbour_that_refuses_a_clone_is_not_away() -> None:
    """The clone does not blame who refuses it; a neighbour that has refused a clone still misses
    the first process when that one is gone."""
    refused = f"m1 refuses: m0 {CLONE}: one of the two runs on a copy"
    assert is_clone(refused) and not is_clone(refused.removeprefix("m1 refuses: "))
    for reason, found in ((refused, []), ("the stream ended", ["m1"]), (f"m1 {CLONE}", ["m1"])):
        me = SimpleNamespace(
            handshake=SimpleNamespace(identity=SimpleNamespace(name="m0")),
            awaited=(["m1"], time.monotonic()),
            links={"m1": made(connected=False, reason=reason)},
        )
        assert [cause.member for cause in Endpoint.causes(me)] == found  # type: ignore[arg-type]


def test_who_has_not_finished_and_is_alive() -> None:
    """A neighbour, or a member beyond one that has finished; never somebody who is gone."""
    old = time.monotonic() - FROZEN_SECONDS - 1
    assert unfinished([made()], "m0") == ["m1"]
    for gone in ({"connected": False}, {"seen": old}, {"finished": True}):
        assert unfinished([made(**gone)], "m0") == []
    finished = made(finished=True)
    for chain, state, found in (
        (["m1", "m2", "m3"], "away", ["m1"]),  # m2 waits for m3
        (["m1", "m2"], "computing", ["m1"]),
        (["m1", "m2"], "paused", ["m1"]),
        (["m1", "m2"], "away", []),
        (["m1", "m2"], "silent", []),
        (["m1", "m2", "m0"], "away", []),  # in a circle
    ):
        finished.take(said(frames.Wait(chain, state, 3)))
        assert unfinished([finished], "m0") == found, chain
    finished.take(
        said(frames.Wait(["m1", "m3"], "away", 9), frames.Wait(["m1", "m2"], "paused", 3))
    )
    assert unfinished([finished], "m0") == ["m1"]
    finished.take(said(frames.Wait(["m1", "m2", "m3"], "away", 9)))
    finished.connected = False
    assert unfinished([finished], "m0") == []
