"""Signs of life for all members: each signs its own, and they go from neighbour to neighbour.

Every ten seconds a member signs how it is (`frames.Life`) and sends each neighbour, in one frame,
what that neighbour may lack: the latest of every member of whom it has heard. So each knows of
all, without a server, a few times ten seconds later. They go apart from the rounds, of which
nothing depends on them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tacenda.formats.text import canonical_json
from tacenda_node.identity.certificates import text_signed
from tacenda_node.identity.contract import Contract
from tacenda_node.protocol import frames

LIFE_SECONDS = 10.0  # between two sets of one member
BURST = 3  # sets that may come at once: after a connection broke, and the last one
SHOWN_DIGITS = 2  # of the free space: no more is needed, and it may tell how much data comes in


class Health(NamedTuple):
    """What a node tells of itself: `frames.Life`."""

    state: str
    disk_free: int = 0
    epsilon_left: float | None = None


@dataclass(frozen=True)
class Heard:
    """A member's latest sign of life, and when it arrived here, by two clocks: seconds of this
    process, and since 1970."""

    life: frames.Life
    at: float
    wall: float


def life_text(run: str, life: frames.Life) -> bytes:
    """What a member signs; the first line keeps it apart from the other texts of this key."""
    values = {
        "at": life.at,
        "disk": life.disk,
        "left": life.left,
        "member": life.member,
        "number": life.number,
        "round": life.round,
        "run": run,
        "state": life.state,
        "version": life.version,
        "view": life.view,
        "waits": [[wait.member, wait.state, wait.seconds] for wait in life.waits],
    }
    return b"tacenda life v1\n" + canonical_json(values).encode()


def rounded(free: int) -> int:
    """A number of bytes, downwards to two digits."""
    unit = 10 ** max(0, len(str(free)) - SHOWN_DIGITS)
    return free // unit * unit


class Lives:
    """The latest sign of life of every member. Used by several threads."""

    def __init__(self, contract: Contract, name: str, sign: Callable[[bytes], str]) -> None:
        self._contract, self._me, self._sign = contract, name, sign
        self._run, self._mutex, self._number = contract.run_id(), threading.Lock(), 0
        self._heard: dict[str, Heard] = {}
        self._known: dict[str, dict[str, int]] = {}  # by neighbour: the numbers that it has
        self._room: dict[str, tuple[float, float]] = {}  # by neighbour: sets it may send, and when

    def heard(self) -> dict[str, Heard]:
        """By member; of this one too, once it has signed any."""
        with self._mutex:
            return dict(self._heard)

    def tell(
        self, health: Health, view: int, round: int, waits: list[frames.Wanted], version: str
    ) -> None:
        """Sign how this member is now."""
        now, left = time.time(), health.epsilon_left
        with self._mutex:
            self._number = max(self._number + 1, int(10 * now))
            number = self._number
        life = frames.Life(
            self._me,
            number,
            int(now),
            version,
            view,
            round,
            health.state,
            waits,
            rounded(health.disk_free),
            None if left is None else int(1000 * left),
            "",
        )
        life = frames.replaced(life, signature=self._sign(life_text(self._run, life)))
        with self._mutex:
            self._heard[self._me] = Heard(life, time.monotonic(), now)

    def met(self, peer: str) -> None:
        """A new conversation: what was said in the one before may be lost."""
        with self._mutex:
            self._known.pop(peer, None)

    def due(self, peer: str) -> frames.Lives | None:
        """What a neighbour may lack; None if that is nothing."""
        with self._mutex:
            known = self._known.setdefault(peer, {})
            news = [
                one.life
                for name, one in sorted(self._heard.items())
                if name != peer and one.life.number > known.get(name, -1)
            ]
            known.update({life.member: life.number for life in news})
            return frames.Lives(news) if news else None

    def take(self, peer: str, frame: frames.Lives) -> bool:
        """Keep what is new; whether anything was. BadFrame for a signature that does not hold.

        A neighbour that sends more sets than it may is not listened to for a while.
        """
        now, fresh = time.monotonic(), False
        with self._mutex:
            if not self._may_send(peer, now):
                return False
            for life in frame.lives:
                fresh |= self._keep(peer, life, now)
        return fresh

    def _may_send(self, peer: str, now: float) -> bool:
        room, since = self._room.get(peer, (float(BURST), now))
        room = min(float(BURST), room + (now - since) / (LIFE_SECONDS / 2))
        self._room[peer] = (max(0.0, room - 1.0), now)
        return room >= 1.0

    def _keep(self, peer: str, life: frames.Life, now: float) -> bool:
        known = self._heard.get(life.member)
        latest = -1 if known is None else known.life.number
        if life.number <= (self._number if life.member == self._me else latest):
            return False
        if life.member not in self._contract.names:
            raise frames.BadFrame("a sign of life of somebody who is not in the contract.")
        key, text = self._contract.member(life.member).signing_key, life_text(self._run, life)
        named = {wait.member for wait in life.waits} <= set(self._contract.names)
        if not named or not text_signed(key, text, life.signature):
            raise frames.BadFrame(f"a sign of life that is not {life.member}'s.")
        if life.member == self._me:  # of before a restart, when the clock here was later
            self._number = life.number
            return False
        self._heard[life.member] = Heard(life, now, time.time())
        self._known.setdefault(peer, {})[life.member] = life.number
        return True
