"""Charges of many rounds in one line: nothing is lost, and a run of months leaves a few hundred
bytes.

A charge is known by its place (view, round, call). Most rounds of a run release the same, call by
call: a `Stretch` stands for consecutive rounds with equal charges, as a row for each of them would.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from tacenda.formats.text import canonical_json

Place = tuple[int, int, int]  # (view, round, call)
Charge = tuple[Place, str]  # and its event, as canonical JSON


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Rounds `first` to `last` of a view. pattern: the (call, event) of one round, in order."""

    view: int
    first: int
    last: int
    pattern: tuple[tuple[int, str], ...]

    @property
    def rounds(self) -> int:
        return self.last - self.first + 1

    @property
    def count(self) -> int:
        """How many charges it stands for."""
        return self.rounds * len(self.pattern)

    def charges(self) -> Iterator[Charge]:
        """Each of them, in order."""
        for turn in range(self.first, self.last + 1):
            for call, event in self.pattern:
                yield (self.view, turn, call), event


def fold(charges: Iterable[Charge], last: Stretch | None = None) -> list[Stretch]:
    """The stretches of charges in their order, round by round; the first of them goes on from
    `last`, and then takes its place, if it can."""
    found: list[Stretch] = [] if last is None else [last]
    for (view, turn), group in groupby(charges, key=lambda charge: charge[0][:2]):
        pattern = tuple((place[2], event) for place, event in group)
        before = found[-1] if found else None
        if before is not None and (before.view, before.last + 1, before.pattern) == (
            view,
            turn,
            pattern,
        ):
            found[-1] = msgspec.structs.replace(before, last=turn)
        else:
            found.append(Stretch(view, turn, turn, pattern))
    return found


def fold_indexed(charges: Iterable[tuple[str, str]]) -> tuple[list[Stretch], list[tuple[str, str]]]:
    """(the stretches of several rounds, the other charges); each charge is in one of the two, once.
    A charge here is its index and its event, both as canonical JSON; an index may be anything."""
    placed: list[Charge] = []
    alone: list[tuple[str, str]] = []
    for key, event in charges:
        index = json.loads(key)
        if isinstance(index, list) and [type(part) for part in index] == [int, int, int]:
            placed.append(((index[0], index[1], index[2]), event))
        else:
            alone.append((key, event))
    stretches = fold(sorted(placed))
    for stretch in stretches:
        if stretch.rounds == 1:
            alone += [(canonical_json(place), event) for place, event in stretch.charges()]
    return [stretch for stretch in stretches if stretch.rounds > 1], alone


def plain(stretches: list[Stretch]) -> list[Any]:
    """As lists for JSON."""
    return list(msgspec.to_builtins(stretches))


def to_text(stretches: list[Stretch]) -> str:
    """As JSON, in one fixed way."""
    return canonical_json(plain(stretches))


def from_text(text: str) -> list[Stretch]:
    """`to_text` read back."""
    return msgspec.json.decode(text, type=list[Stretch])
