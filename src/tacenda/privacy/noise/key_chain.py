"""Keys that can be made in one direction only: one for every (view, round, call), in order.

A chain that has passed a place cannot make its key again, nor can anybody who holds it. Views,
rounds and calls each follow from the one before by a one-way step, so a chain goes straight to a
later view or round, whatever the places in between were used for:

    view v      makes  view v + 1,            and the rounds of view v
    round r     makes  round r + 1,           and the calls of round r
    call c      makes  call c + 1,            and the key of call c

At (v, r, c) it keeps what makes view v + 1, round r + 1 and call c, and nothing earlier.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Protocol

from tacenda.errors import StateError

SECRET = 32
MOST_STEPS = 1 << 20  # far more views, rounds or calls than any run has
Place = tuple[int, int, int]  # (view, round, call)


class Keys(Protocol):
    """What draws noise asks for its keys: a `KeyChain`, or one that a node keeps."""

    def key(self, place: Place) -> bytes: ...
    def has_passed(self, place: Place) -> bool: ...


@dataclass(frozen=True)
class KeyChain:
    """A chain before `place`, the first one whose key it can make."""

    place: Place
    views: bytes
    rounds: bytes
    calls: bytes

    @classmethod
    def begin(cls, secret: bytes) -> KeyChain:
        """The whole chain: whoever has its secret can make every key."""
        return cls._in_view(0, secret)

    @classmethod
    def _in_view(cls, view: int, secret: bytes) -> KeyChain:
        first = _step(secret, b"rounds")
        return cls((view, 0, 0), _step(secret, b"view"), *_in_round(first))

    def at(self, place: Place) -> KeyChain:
        """The chain before a later place; StateError for one that it has passed."""
        if self.has_passed(place):
            raise StateError(
                f"The key of round {place[1]} has been overwritten; nothing was drawn. This is a "
                "defect of the program: what was released is stored, and never made again."
            )
        view, round, call = place
        found, now = self, self.place
        if max(view - now[0], round, call) > MOST_STEPS:
            raise StateError(f"There is no round {round} of view {view}; nothing was drawn.")
        while found.place[0] < view:
            found = KeyChain._in_view(found.place[0] + 1, found.views)
        rounds, calls = found.rounds, found.calls
        for _ in range(round - found.place[1]):
            rounds, calls = _in_round(rounds)
        passed = found.place[2] if round == found.place[1] else 0
        for _ in range(call - passed):
            calls = _step(calls, b"call")
        return KeyChain(place, found.views, rounds, calls)

    def has_passed(self, place: Place) -> bool:
        """True if the key of this place cannot be made any more."""
        return place < self.place

    def key(self, place: Place) -> bytes:
        """The key of a place."""
        return _step(self.at(place).calls, b"key")

    def behind(self, place: Place) -> KeyChain:
        """The chain that has passed a place and those before it."""
        after = (place[0], place[1], max(0, place[2] + 1))
        return self if self.has_passed(after) else self.at(after)

    def to_bytes(self) -> bytes:
        """The chain as it is kept."""
        numbers = b"".join(number.to_bytes(8, "big") for number in self.place)
        return numbers + self.views + self.rounds + self.calls

    @classmethod
    def from_bytes(cls, stored: bytes) -> KeyChain:
        """The chain that `to_bytes` gave."""
        if len(stored) != 24 + 3 * SECRET:
            raise ValueError("not a chain of keys")
        view, round, call = (int.from_bytes(stored[at : at + 8], "big") for at in (0, 8, 16))
        secrets = [stored[at : at + SECRET] for at in range(24, len(stored), SECRET)]
        return cls((view, round, call), *secrets)

    def __repr__(self) -> str:
        return f"KeyChain(before {self.place})"


def _in_round(secret: bytes) -> tuple[bytes, bytes]:
    """(what makes the rounds after this one, what makes its calls)."""
    return _step(secret, b"round"), _step(secret, b"calls")


def _step(secret: bytes, what: bytes) -> bytes:
    return hmac.digest(secret, b"tacenda chain v1 " + what, "sha256")
