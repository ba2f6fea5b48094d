"""Members who sign what they send, with all keys in the test's hands."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from node_stage import handshake_of, signed_contract, small_contract
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.protocol import frames
from tacenda_node.protocol.handshake import Handshake
from tacenda_node.protocol.signed_rows import digest, row_text
from tacenda_node.state.database import NodeState

NONCE = bytes(32)
OTHER = "A" * 86 + "=="


class Quiet:
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
    ) -> frames.Rows:
        """The member makes a row durable, with the checkpoint of the round before, and signs it."""
        frame = frames.rows_frame(view, turn, call, np.full((1, 4), value))
        checkpoint = (view, turn - 1, b"state") if turn > 1 and call == 0 else None
        self._states[name].commit(
            [], [((view, turn, call), "all", frames.encode(frame))], checkpoint
        )
        return self.signs(name, frame)

    def signs(self, name: str, frame: frames.Rows) -> frames.Rows:
        claim = frames.Claim(name, frame.view, frame.round, frame.call, digest(frame), "")
        return frames.replaced(
            frame, signature=self.people[name].sign_text(row_text(self.contract.run_id(), claim))
        )

    def claim(
        self, name: str, turn: int, call: int = 0, value: float = 1.0, view: int = 0
    ) -> frames.Claim:
        frame = self.signs(name, frames.rows_frame(view, turn, call, np.full((1, 4), value)))
        assert frame.signature is not None
        return frames.Claim(name, view, turn, call, digest(frame), frame.signature)

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


def meet(caller: Handshake, listener: Handshake) -> None:
    me, peer = caller.identity.name, listener.identity.name
    caller.check_welcome(listener.welcome(caller.hello(peer, NONCE), me), peer, NONCE)
