"""The transport of a real node: durable first, then sent, then wait for the neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from tacenda.errors import NetworkError
from tacenda.node import wire
from tacenda.node.contract import Contract
from tacenda.node.edge_keys import EdgeKeys
from tacenda.node.endpoint import Endpoint
from tacenda.node.mailbox import Key
from tacenda.node.state import Booking, NodeState
from tacenda.privacy.events import Event
from tacenda.runtime.transport import Tag

Array = NDArray[Any]
MEETING = 0.1  # seconds between looks for the keys of the edges
SLICE = 0.5  # seconds between looks at the clock, the signals and the peers


class PeerAbsent(NetworkError):
    """A neighbour stayed away for longer than the contract allows."""

    def __init__(self, peers: list[str], seconds: float, reasons: list[str]) -> None:
        said = "; ".join(sorted({reason for reason in reasons if reason}))
        super().__init__(
            f"{', '.join(peers)} stayed away for more than {seconds:g} s, the contract's limit. Everything is saved: start the node again "
            f"when they are back. Last heard: {said or 'nothing'}."
        )
        self.peers = peers


class Exchange:
    """`Transport` of one member. Charges and the checkpoint wait here for the transaction of the next message."""

    def __init__(self, contract: Contract, state: NodeState, endpoint: Endpoint, look: Callable[[list[str]], None]) -> None:
        self._contract, self._state, self._endpoint, self._look = contract, state, endpoint, look
        self._names = contract.names
        self._charges: list[Booking] = []
        self._checkpoint: tuple[int, int, bytes] | None = None
        self.epoch, self.absent = 0, frozenset[str]()
        self.waited = self.written = 0.0

    def book(self, turn: int, call: int, event: Event, question: bytes = b"") -> None:
        """A release, to be made durable before anything that depends on it leaves; a redone one must ask the same question."""
        key = (self.epoch, turn, call)
        self._state.check_question(key, question)
        self._charges.append((key, event.to_dict(), question))

    def keep(self, epoch: int, turn: int, state: bytes) -> None:
        """The state after a complete round, to be made durable with the next message."""
        self._checkpoint = (epoch, turn, state)

    def flush(self) -> None:
        """Make durable what waits, without a message."""
        self._commit([])

    def drop(self) -> None:
        """Forget charges of a round that was given up before anything of it became durable."""
        self._charges = []

    def exchange(self, tag: Tag, outgoing: dict[int, Array]) -> dict[int, Array]:
        self._look([])
        key = (self.epoch, *tag)
        frames: dict[bytes, bytes] = {}
        messages = []
        for block, rows in outgoing.items():
            raw = rows.tobytes()
            if raw not in frames:
                frames[raw] = wire.encode(wire.rows_frame(*key, rows))
            messages.append((key, self._names[block], frames[raw]))
        stored = self._commit(messages)
        self._endpoint.post([(k, peer, stored[k, peer]) for k, peer, _ in messages])
        peers = [peer for _, peer, _ in messages]
        found = self.wait(key, peers)
        return {block: found[self._names[block]] for block in outgoing}

    def meet(self, edges: EdgeKeys, peers: list[str]) -> None:
        """Wait until all these neighbours have agreed on the keys of their edges: no noise can be drawn before."""
        while missing := edges.missing(peers):
            # Nothing arrives under round 0; a new key, a notice or an alarm ends the wait.
            self._endpoint.mailbox.take((0, 0, 0), missing, MEETING)
            self._look(missing)

    def wait(self, key: Key, peers: list[str]) -> dict[str, Array]:
        """The rows of all these peers; looks around while it waits."""
        begin = time.monotonic()
        while True:
            found, missing = self._endpoint.mailbox.take(key, peers, SLICE)
            if not missing:
                self.waited += time.monotonic() - begin
                return found
            self._look(missing)

    def _commit(self, messages: list[tuple[Key, str, bytes]]) -> dict[tuple[Key, str], bytes]:
        begin = time.monotonic()
        present = [link.done for link in self._endpoint.links.values() if link.peer not in self.absent]
        forget = min(present, default=(0, 0))
        stored = self._state.commit(self._charges, messages, self._checkpoint, forget)
        if self._checkpoint is not None:
            self._endpoint.desk.epoch, self._endpoint.desk.done = self._checkpoint[:2]
        if messages:
            self._endpoint.desk.started = True
        self._charges, self._checkpoint = [], None
        self.written += time.monotonic() - begin
        return stored
