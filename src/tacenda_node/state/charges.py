"""A node's ledger during a run: each release is checked against its place in the reservation, and
noted for the next commit.

What is booked is the event that the lasting ledger has reserved (`RunPlan.booked`), which never
costs less than the release that was made; so every charge is taken from the reservation, to the
last digit. A release that was made before, in an earlier view, and is made again after a loss is
booked as one of the spare releases that the contract reserves (`absence.losses`), each at the price
of the dearest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol

from tacenda._types import Array
from tacenda.errors import BudgetError, StateError
from tacenda.privacy.accounting.events import Event, event_from_dict
from tacenda.privacy.secrets.discrete_charges import as_discrete
from tacenda.privacy.secrets.ledger import Charge, Charges, Ledger
from tacenda_node.state.database import Key


class Releases(Protocol):
    """Where a node's releases are stored until a checkpoint holds what follows from them."""

    def find(self, turn: int, call: int) -> Array | None: ...
    def keep(self, turn: int, call: int, value: Array, places: int) -> None: ...


class NodeLedger(Ledger):
    """`book(round, call, event, question)` is told of every release before its noise is drawn, with
    its event in `booked`, by default that in `reserved`; `releases` of what was drawn."""

    releases: Releases | None = None

    def __init__(
        self,
        reserved: Charges,
        releases: Sequence[int],
        on_lattice: bool,
        book: Callable[[int, int, Event, bytes], None],
        booked: Charges | None = None,
        spare: Charges | None = None,
        losses: int = 1,
    ) -> None:
        """losses: for how many of them the spare releases are."""
        super().__init__(reserved)
        self._losses = max(losses, 1)
        self._spare = [] if spare is None else [charge.event(0) for charge in spare.each()]
        self._view = 0
        self._charged: list[tuple[Key, dict[str, Any]]] = []
        self._places = list(reserved.each())
        self._booked = [charge.event(0) for charge in (booked or reserved).each()]
        self._starts = [0, *accumulate(releases)]  # a round's first place
        assert self._starts[-1] == len(self._places)
        self._on_lattice, self._book = on_lattice, book

    def charge(self, turn: int, call: int, charge: Charge, asked: bytes) -> None:
        event = self._event(turn, call, self._made)
        super().charge(turn, call, as_discrete(charge) if self._on_lattice else charge, asked)
        self._book(turn, call, event, asked)
        if self._view:
            self._charged.append(((self._view, turn, call), event.to_dict()))

    def once(self, turn: int, call: int, draw: Callable[[], Array], places: int = 1) -> Array:
        if self.releases is None:
            return draw()
        found = self.releases.find(turn, call)
        if found is None:
            found = draw()
            self.releases.keep(turn, call, found, places)
        return found

    def enter(self, view: int, charged: list[tuple[Key, dict[str, Any]]]) -> None:
        """Go on in a view, with everything that was charged before."""
        self._view, self._charged = view, charged

    def _event(self, turn: int, call: int, place: int) -> Event:
        """What a release is booked as: its own place in the reservation or, where that was used in
        an earlier view, a spare one."""
        if self._view == 0 or place >= len(self._places):
            return self._booked[min(place, len(self._places) - 1)]
        own, planned = self._booked[place], self.reserved_in(turn)
        before = [e for (view, t, _), e in self._charged if t == turn and view < self._view]
        now = self._booked[self._starts[turn - 1] : place].count(own) + 1  # equal ones of the round
        if before.count(own.to_dict()) + now <= planned.count(own):
            return own
        if self._spare_used((self._view, turn, call)) >= len(self._spare):
            raise BudgetError(
                f"Round {turn} would be made again, and this member has released it before: the "
                f"contract reserves {len(self._spare)} releases for losses (absence.losses), and "
                "all are used; nothing was drawn. Wait for the members who are away, or end the "
                "run."
            )
        return self._spare[0]

    def _spare_used(self, key: Key) -> int:
        """How many releases were booked beyond the rounds' own places; not that under `key` itself,
        which may be made once more after a stop."""
        booked: dict[int, list[Event]] = {}
        for made, event in self._charged:
            if made != key:
                booked.setdefault(made[1], []).append(event_from_dict(event))
        return sum(
            max(0, events.count(event) - self.reserved_in(turn).count(event))
            for turn, events in booked.items()
            for event in set(events)
        )

    def spare_for(self, losses: int) -> list[Event]:
        """The spare releases of so many losses, at most all of them."""
        return self._spare[: len(self._spare) // self._losses * losses]

    def reserved_in(self, round: int) -> list[Event]:
        """What round `round` was going to release, as it is booked."""
        return self._booked[self._starts[round - 1] : self._starts[round]]

    def resume(
        self,
        booked: list[tuple[Key, dict[str, Any]]],
        view: int,
        round: int,
        *,
        learned: bool = False,
    ) -> None:
        """Stand behind round `round` of a checkpoint, which implies all its releases: fewer than
        were planned are a loss.

        In view 0 these are the rounds from 1 on. A later view begins in a round that the members
        agreed on, and skips others; there every round from the first booked one on must be whole.
        learned: a first round that is made again may lack its first release (`Traits.learns`).
        """
        self.enter(view, booked)
        spare = [event.to_dict() for event in self._spare[:1]] if view else []
        rounds: dict[int, int] = {}
        for (e, t, _), event in booked:
            if e == view and t <= round:
                rounds[t] = rounds.get(t, 0) + 1
                if event not in [*(r.to_dict() for r in self.reserved_in(t)), *spare]:
                    raise StateError(
                        f"Round {t} was charged as a release that the contract does not plan; "
                        "the node does not continue."
                    )
        first = 1 if view == 0 else min(rounds, default=round + 1)
        for t in range(first, round + 1):
            planned, found = len(self.reserved_in(t)), rounds.get(t, 0)
            if found < planned - int(learned and view > 0 and t == 1):
                raise StateError(
                    f"The checkpoint is of round {round}, "
                    f"and of round {t} only {found} of {planned} "
                    "charges are there: charges were lost. The node does not go on, "
                    "and the whole run stays spent in the lasting ledger."
                )
        self.go_to(round + 1)

    def go_to(self, round: int, skipped: int = 0) -> None:
        """Stand before round `round`, behind its first `skipped` releases; rounds that were skipped
        stay reserved and unspent."""
        self._made = place = self._starts[round - 1] + skipped
        self._ahead: Any = iter(self._places[place:])
