"""Charges of rounds that are long done, many rounds in one line: nothing is lost, and the state of
a run of months does not grow with it.

Most rounds of a run release the same, call by call. A `Stretch` holds consecutive rounds with equal
charges, and the seal of the chain behind its last one, from which the chain of the later charges
goes on. The stretches are chained themselves, by a MAC under the state's key: one that was changed,
removed or put in from elsewhere is found.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

Row = tuple[int, int, int, str, bytes]  # view, round, call, event as text, seal
MOST_LIVE = 512  # charges that stand by themselves before the older ones are settled


@dataclass(frozen=True)
class Stretch:
    """Rounds first to last of a view. pattern: JSON of one round's [call, event as text], in order;
    seal: of the chain, behind the last charge."""

    view: int
    first: int
    last: int
    pattern: str
    seal: bytes

    @cached_property
    def count(self) -> int:
        """How many charges it stands for."""
        return (self.last - self.first + 1) * len(json.loads(self.pattern))

    def charges(self) -> Iterator[tuple[tuple[int, int, int], dict[str, Any]]]:
        """Each of them: its place and its event."""
        calls = [(call, json.loads(event)) for call, event in json.loads(self.pattern)]
        for round in range(self.first, self.last + 1):
            for call, event in calls:
                yield (self.view, round, call), dict(event)

    def mac(self, before: bytes, key: bytes) -> bytes:
        """Its place in the chain of stretches; before: the MAC of the one before it."""
        fields = [self.view, self.first, self.last, self.pattern, self.seal.hex()]
        text = b"tacenda settled v1\0" + before + json.dumps(fields).encode()
        return hmac.new(key, text, hashlib.sha256).digest()


def settled(rows: Iterable[Row], last: Stretch | None) -> list[Stretch]:
    """The stretches of whole rounds, in the order of their charges; the first of them goes on from
    `last`, and then takes its place, if it can."""
    found: list[Stretch] = [] if last is None else [last]
    for (view, round), group in groupby(rows, key=lambda row: row[:2]):
        charges = list(group)
        pattern = json.dumps([[call, event] for _, _, call, event, _ in charges])
        mine = Stretch(view, round, round, pattern, charges[-1][4])
        before = found[-1] if found else None
        if before is not None and (before.view, before.last + 1, before.pattern) == (
            view,
            round,
            pattern,
        ):
            found[-1] = replace(before, last=round, seal=mine.seal)
        else:
            found.append(mine)
    return found
