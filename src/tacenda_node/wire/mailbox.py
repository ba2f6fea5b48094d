"""Messages that have arrived and wait to be used; the meeting place of the network thread and the
algorithm's thread.

A message is kept under (peer, view, round, call). What a well-behaved peer can send is narrow: it
is at most one round ahead, because it needs this node's message to go on. Everything else is
counted as useless or, where it can only be a lie (two different messages under one key, a round too
far ahead), cuts the peer off. So memory is bounded whatever a peer does.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tacenda._types import Array
from tacenda.runtime.places import Form
from tacenda.runtime.transport import Tag
from tacenda_node.protocol.frames import BadFrame, Rows, rows_of

Key = tuple[int, int, int]
MOST_VIEWS = 100  # that a member may have missed while it was away
MOST_WAITING = 64  # messages of one peer: two rounds are fewer, but where there are many groups


@dataclass
class _Shelf:
    rows: dict[Key, Array] = field(default_factory=dict)
    frames: dict[Key, Rows] = field(default_factory=dict)
    digests: dict[Key, bytes] = field(default_factory=dict)


class Mailbox:
    """Shelves of arrived rows, one per neighbour.

    forms: length and type of a row in each place (round, call) in which the algorithm sends any.
    """

    def __init__(self, peers: list[str], forms: Mapping[Tag, Form], radius: float) -> None:
        self._forms, self._radius = forms, radius
        in_round = Counter(round for round, _ in forms)
        self._most = max(MOST_WAITING, 2 * max(in_round.values(), default=0))
        self._shelves = {peer: _Shelf() for peer in peers}
        self._changed = threading.Condition()
        self.view, self.round = 0, 1
        self._alarm: BaseException | None = None
        self._nudges = 0

    def put(self, peer: str, frame: Rows) -> bool:
        """Keep a message; False if it was of no use (old, or known already). BadFrame if it can
        only be a lie."""
        key, digest = (frame.view, frame.round, frame.call), hashlib.sha256(frame.data).digest()
        with self._changed:
            if frame.view < self.view or (frame.view == self.view and frame.round < self.round):
                return False
            if frame.view > self.view + MOST_VIEWS or (
                frame.view == self.view and frame.round > self.round + 1
            ):
                raise BadFrame(
                    f"a message of view {frame.view}, round {frame.round}, which no member can "
                    f"have reached."
                )
            shelf = self._shelves[peer]
            known = shelf.digests.get(key)
            if known is not None:
                if known != digest:
                    raise BadFrame(
                        f"two different messages for round {frame.round}, call {frame.call}."
                    )
                return False
            try:
                form = self._forms[frame.round, frame.call]
            except KeyError:
                raise BadFrame(
                    f"a message for round {frame.round}, call {frame.call}, "
                    "in which the algorithm sends none."
                ) from None
            if len(shelf.digests) >= self._most:
                raise BadFrame("more messages than any algorithm sends.")
            shelf.rows[key] = rows_of(frame, *form, self._radius)
            shelf.frames[key] = frame
            shelf.digests[key] = digest
            self._changed.notify_all()
            return True

    def advance(self, view: int, round: int) -> None:
        """This node now works on a later round: what came before is forgotten."""
        with self._changed:
            self.view, self.round = view, round
            for shelf in self._shelves.values():
                for key in [k for k in shelf.digests if k[:2] < (view, round)]:
                    del shelf.digests[key]
                    shelf.rows.pop(key, None)
                    shelf.frames.pop(key, None)

    def take(
        self, key: Key, peers: list[str], seconds: float
    ) -> tuple[dict[str, Array], list[str]]:
        """(what has arrived under the key, who is still missing) after at most so many seconds."""
        end = time.monotonic() + seconds
        with self._changed:
            nudges = self._nudges
            while True:
                if self._alarm is not None:
                    raise self._alarm
                missing = [peer for peer in peers if key not in self._shelves[peer].rows]
                left = end - time.monotonic()
                if not missing or left <= 0 or nudges != self._nudges:
                    found = {
                        peer: self._shelves[peer].rows[key] for peer in peers if peer not in missing
                    }
                    return found, missing
                self._changed.wait(left)

    def frames(self, key: Key, peers: list[str]) -> dict[str, Rows]:
        """The frames behind what was taken under the key."""
        with self._changed:
            return {peer: self._shelves[peer].frames[key] for peer in peers}

    def alarm(self, error: BaseException) -> None:
        """Stop whoever waits."""
        with self._changed:
            self._alarm = self._alarm or error
            self._changed.notify_all()

    def news(self, known: int | None = None, seconds: float = 0.0) -> int:
        """How often somebody was woken; waits, for so long, until it is not what is known."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._alarm is not None or self._nudges != known, seconds
            )
            if self._alarm is not None:
                raise self._alarm
            return self._nudges

    def wake(self) -> None:
        """Let whoever waits look around."""
        with self._changed:
            self._nudges += 1
            self._changed.notify_all()
