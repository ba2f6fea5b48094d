"""A node's ledger during a run: each release is checked against its place in the reservation, and noted for the next commit.

What is booked is the reserved event, which never costs less than the release that was made; so the lasting ledger takes every
charge from its reservation, to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tacenda.node.lattice import as_discrete
from tacenda.privacy.events import Event
from tacenda.privacy.ledger import Charge, Charges, Ledger


class NodeLedger(Ledger):
    """`book(round, call, event)` is told of every release before its noise is drawn."""

    def __init__(self, reserved: Charges, rounds: int, on_lattice: bool, book: Callable[[int, int, Event], None]) -> None:
        super().__init__(reserved)
        self._places = [charge for charge, count in reserved for _ in range(count)]
        self._per_round, rest = divmod(len(self._places), rounds)
        self._rounds_alike, self._on_lattice, self._book = rest == 0, on_lattice, book

    def charge(self, turn: int, call: int, charge: Charge) -> None:
        place = self._made
        super().charge(turn, call, as_discrete(charge) if self._on_lattice else charge)
        self._book(turn, call, self._places[place].event(0))

    def reserved_in(self, turn: int) -> list[Event]:
        """What round `turn` was going to release; without a fixed number per round, everything counts in the first."""
        if not self._rounds_alike:
            return [charge.event(0) for charge in self._places] if turn == 1 else []
        return [charge.event(0) for charge in self._places[(turn - 1) * self._per_round : turn * self._per_round]]

    def go_to(self, turn: int, made: int) -> None:
        """Stand before round `turn`; rounds that were skipped stay reserved and unspent."""
        place = (turn - 1) * self._per_round if self._rounds_alike else made
        self._made = place
        self._ahead: Any = iter(self._places[place:])
