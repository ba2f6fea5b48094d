"""Charges of many rounds in one row of the ledger: a run that is settled at its end leaves a few
hundred bytes, however many rounds it had.

A charge is known by its index. Where indices are (view, round, call), equal releases of consecutive
rounds are written as one line [event, view, first round, last round, call], which stands for each
of them as a row of its own would.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tacenda.formats.text import canonical_json

Keyed = tuple[str, str]  # an index and an event, both as canonical JSON
Line = list[Any]  # [event, view, first, last, call]


def stretched(charges: Iterable[Keyed]) -> tuple[list[Line], list[Keyed]]:
    """(the lines of charges that lie beside each other, the others); each charge is in one of the
    two, once."""
    rounds: dict[tuple[str, int, int], list[int]] = {}
    alone: list[Keyed] = []
    for key, event in charges:
        index = json.loads(key)
        if isinstance(index, list) and [type(part) for part in index] == [int, int, int]:
            rounds.setdefault((event, index[0], index[2]), []).append(index[1])
        else:
            alone.append((key, event))
    lines: list[Line] = []
    for (event, view, call), found in rounds.items():
        first = last = None
        for turn in [*sorted(found), None]:
            if first is not None and last is not None and turn == last + 1:
                last = turn
                continue
            if first is not None and last == first:
                alone.append((canonical_json([view, first, call]), event))
            elif first is not None:
                lines.append([json.loads(event), view, first, last, call])
            first = last = turn
    return lines, alone


def charges_of(lines: Iterable[Line]) -> Iterator[Keyed]:
    """Every charge that the lines stand for."""
    for event, view, first, last, call in lines:
        text = canonical_json(event)
        for turn in range(first, last + 1):
            yield canonical_json([view, turn, call]), text
