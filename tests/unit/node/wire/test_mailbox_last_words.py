"""A node that stops says why, and its neighbour reads it, however busy the neighbour is."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from node_stage import Crowd, anywhere, handshake_of, small_contract
from signed_rows_stage import Quiet
from tacenda_node.identity.certificates import Identity
from tacenda_node.protocol import frames
from tacenda_node.state.database import NodeState
from tacenda_node.wire.endpoint import Endpoint
from tacenda_node.wire.mailbox import Mailbox

BUSY_SECONDS = 0.3  # for each frame: far more than a stream needs to be torn down


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def endpoint(crowd: Crowd, name: str, **how: Any) -> tuple[Endpoint, NodeState]:
    contract, folder = crowd.stage.contract, crowd.folder(name)
    state = NodeState(folder / "state")
    handshake = handshake_of(contract, Identity.read(folder / "identity"), state)
    box = Mailbox(contract.neighbours(name), anywhere(4), 1e9)
    return Endpoint(handshake, box, frames.frame_limit(32, 3), Quiet(), **how), state


@pytest.mark.parametrize("leaver", ["caller", "listener"])
def test_who_leaves_because_of_another_is_heard(tmp_path: Path, leaver: str) -> None:
    crowd = Crowd(tmp_path, small_contract(3, graph="path"))
    listener, first = endpoint(crowd, "m1", bind="localhost:0")
    listener.start()
    caller, second = endpoint(
        crowd, "m0", bind=None, addresses={"m1": f"localhost:{listener.port}"}
    )
    caller.start()
    leaves, stays = (caller, listener) if leaver == "caller" else (listener, caller)
    (link,) = [link for link in stays.links.values() if link.peer in ("m0", "m1")]
    heard = link.take

    def slowly(frame: frames.Frame) -> bool:
        time.sleep(BUSY_SECONDS)
        return heard(frame)

    try:
        until(lambda: caller.links["m1"].connected and listener.links["m0"].connected)
        link.take = slowly  # type: ignore[method-assign]
        for _ in range(3):
            leaves.tell(frames.Progress(0))
        leaves.awaits(["m2"])
        leaves.tell_leaving()
        leaves.stop()
        until(lambda: not link.connected)
        assert link.leaving and [wait.chain[-1] for wait in link.waits] == ["m2"]
        assert [cause.member for cause in link.causes("x", time.monotonic())] == ["m2"]
    finally:
        caller.stop()
        listener.stop()
        first.close()
        second.close()
