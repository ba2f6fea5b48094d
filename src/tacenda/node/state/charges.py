"""A node's ledger during a run: each release is checked against its place in the reservation, and
noted for the next commit.

What is booked is the reserved event, which never costs less than the release that was made; so the
lasting ledger takes every charge from its reservation, to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tacenda.errors import StateError
from tacenda.node.lattice import as_discrete
from tacenda.node.state.database import Key
from tacenda.privacy.accounting.events import Event
from tacenda.privacy.secrets.ledger import Charge, Charges, Ledger


class NodeLedger(Ledger):
    """`book(round, call, event, question)` is told of every release before its noise is drawn."""

    def __init__(
        self,
        reserved: Charges,
        rounds: int,
        on_lattice: bool,
        book: Callable[[int, int, Event, bytes], None],
    ) -> None:
        super().__init__(reserved)
        self._places = [charge for charge, count in reserved for _ in range(count)]
        self._per_round, rest = divmod(len(self._places), rounds)
        self._rounds_alike, self._on_lattice, self._book = rest == 0, on_lattice, book

    def charge(self, turn: int, call: int, charge: Charge, asked: bytes = b"") -> None:
        place = self._made
        super().charge(turn, call, as_discrete(charge) if self._on_lattice else charge, asked)
        self._book(turn, call, self._places[place].event(0), asked)

    def reserved_in(self, round: int) -> list[Event]:
        """What round `round` was going to release; without a fixed number per round, everything
        counts in the first."""
        if not self._rounds_alike:
            return [charge.event(0) for charge in self._places] if round == 1 else []
        return [
            charge.event(0)
            for charge in self._places[(round - 1) * self._per_round : round * self._per_round]
        ]

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
                if self._rounds_alike and event not in [
                    reserved.to_dict() for reserved in self.reserved_in(t)
                ]:
                    raise StateError(
                        f"Round {t} was booked as a release that the contract does not plan; "
                        "the node does not go on."
                    )
        made = sum(rounds.values())
        if self._rounds_alike:
            first = 1 if view == 0 else min(rounds, default=round + 1)
            short = [t for t in range(first, round + 1) if rounds.get(t, 0) < self._per_round]
            if short:
                raise StateError(
                    f"The checkpoint is of round {round}, "
                    f"and of round {short[0]} only {rounds.get(short[0], 0)} of {self._per_round} "
                    "charges are there: charges were lost. The node does not go on, "
                    "and the whole run stays spent in the lasting ledger."
                )
        self.go_to(
            round + 1,
            made if view == 0 else sum(1 for (e, t, _), _ in booked if (e, t) <= (view, round)),
        )

    def go_to(self, round: int, made: int) -> None:
        """Stand before round `round`; rounds that were skipped stay reserved and unspent."""
        place = (round - 1) * self._per_round if self._rounds_alike else made
        self._made = place
        self._ahead: Any = iter(self._places[place:])
