"""A node's ledger during a run: each release is checked against its place in the reservation, and
noted for the next commit.

What is booked is the event that the lasting ledger has reserved (`RunPlan.booked`), which never
costs less than the release that was made; so every charge is taken from the reservation, to the
last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from tacenda.errors import StateError
from tacenda.node.state.database import Key
from tacenda.privacy.accounting.events import Event
from tacenda.privacy.secrets.discrete_charges import as_discrete
from tacenda.privacy.secrets.ledger import Charge, Charges, Ledger


class NodeLedger(Ledger):
    """`book(round, call, event, question)` is told of every release before its noise is drawn, with
    its event in `booked`, by default that in `reserved`."""

    def __init__(
        self,
        reserved: Charges,
        releases: Sequence[int],
        on_lattice: bool,
        book: Callable[[int, int, Event, bytes], None],
        booked: Charges | None = None,
    ) -> None:
        super().__init__(reserved)
        self._places = list(reserved.each())
        self._booked = [charge.event(0) for charge in (booked or reserved).each()]
        self._starts = [0, *accumulate(releases)]  # a round's first place
        assert self._starts[-1] == len(self._places)
        self._on_lattice, self._book = on_lattice, book

    def charge(self, turn: int, call: int, charge: Charge, asked: bytes) -> None:
        place = self._made
        super().charge(turn, call, as_discrete(charge) if self._on_lattice else charge, asked)
        self._book(turn, call, self._booked[place], asked)

    def reserved_in(self, round: int) -> list[Event]:
        """What round `round` was going to release, as it is booked."""
        return self._booked[self._starts[round - 1] : self._starts[round]]

    def resume(self, booked: list[tuple[Key, dict[str, Any]]], view: int, round: int) -> None:
        """Stand behind round `round` of a checkpoint, which implies all its releases: fewer than
        were planned are a loss.

        In view 0 these are the rounds from 1 on. A later view begins in a round that the members
        agreed on, and skips others; there every round from the first booked one on must be whole.
        """
        rounds: dict[int, int] = {}
        for (e, t, _), event in booked:
            if e == view and t <= round:
                rounds[t] = rounds.get(t, 0) + 1
                if event not in [reserved.to_dict() for reserved in self.reserved_in(t)]:
                    raise StateError(
                        f"Round {t} was charged as a release that the contract does not plan; "
                        "the node does not continue."
                    )
        first = 1 if view == 0 else min(rounds, default=round + 1)
        for t in range(first, round + 1):
            planned, found = len(self.reserved_in(t)), rounds.get(t, 0)
            if found < planned:
                raise StateError(
                    f"The checkpoint is of round {round}, "
                    f"and of round {t} only {found} of {planned} "
                    "charges are there: charges were lost. The node does not go on, "
                    "and the whole run stays spent in the lasting ledger."
                )
        self.go_to(round + 1)

    def go_to(self, round: int) -> None:
        """Stand before round `round`; rounds that were skipped stay reserved and unspent."""
        self._made = place = self._starts[round - 1]
        self._ahead: Any = iter(self._places[place:])
