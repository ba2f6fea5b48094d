"""The ledger of one run: what each node has released, charged before any noise is drawn.

A `Charge` is one release of a block of nodes: the kind of event and its parameters, one entry per
node. Equal charges that follow each other are one entry with a count, so a thousand equal rounds of
ten thousand nodes are a single array.

A run first reserves the charges it is going to make, in order; `charge` refuses whatever is not
covered by its place in that reservation, so a program that releases more than was calibrated stops
before the draw.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tacenda._types import Array
from tacenda.errors import BudgetError
from tacenda.privacy.accounting import events

Kind = type[events.Event]

# In which direction a parameter gets less private: +1 where larger is worse,
# -1 where smaller is worse.
_WORSE = {
    "noise_multiplier": -1,
    "rate": 1,
    "population": -1,
    "epsilon": 1,
    "dim": -1,
    "mu": 1,
    "coalition": -1,
    "curvature": 1,
    "directions": 1,
    "gap_mu": 1,
}
_SLACK = 1e-9  # relative; above rounding, far below anything that matters


@dataclass(frozen=True, eq=False)
class Charge:
    """One release: `kind` of event and, for each node of the block, its parameters (b,)."""

    kind: Kind
    parameters: dict[str, Array]

    def event(self, row: int) -> events.Event:
        """The event of one node."""
        fields = {f.name: f.type for f in dataclasses.fields(self.kind)}
        values = {
            k: (int if fields[k] in ("int", int) else float)(v[row])
            for k, v in self.parameters.items()
        }
        return self.kind(**values)

    def freeze(self) -> None:
        """From here on the parameters are read-only: the charge will be booked more than once."""
        for values in self.parameters.values():
            values.setflags(write=False)

    def same(self, other: Charge) -> bool:
        """Whether both charges are equal for every node."""
        return self.kind is other.kind and all(
            np.array_equal(v, other.parameters[k]) for k, v in self.parameters.items()
        )

    def covered_by(self, other: Charge) -> bool:
        """Whether this charge costs no node more than `other` does."""
        if self.kind is not other.kind:
            return False
        for name, mine in self.parameters.items():
            theirs, worse = other.parameters[name], _WORSE[name]
            if not np.all(worse * (mine - theirs) <= _SLACK * np.abs(theirs)):
                return False
        return True

    def worst(self) -> events.Event:
        """An event that costs at least as much as any node's: each parameter at its worst."""
        values = {k: (v.max() if _WORSE[k] > 0 else v.min()) for k, v in self.parameters.items()}
        return Charge(self.kind, {k: np.array([v]) for k, v in values.items()}).event(0)

    def rows(self, chosen: Array) -> Charge:
        """The same charge for some of the nodes."""
        return Charge(self.kind, {k: v[chosen] for k, v in self.parameters.items()})


class Charges:
    """A sequence of charges, equal neighbours counted once."""

    def __init__(self, items: Iterable[tuple[Charge, int]] = ()) -> None:
        self._items: list[tuple[Charge, int]] = []
        for charge, count in items:
            self.add(charge, count)

    def add(self, charge: Charge, count: int = 1) -> None:
        if self._items and (self._items[-1][0] is charge or self._items[-1][0].same(charge)):
            self._items[-1] = (self._items[-1][0], self._items[-1][1] + count)
        else:
            self._items.append((charge, count))

    def __iter__(self) -> Iterator[tuple[Charge, int]]:
        return iter(self._items)

    def __len__(self) -> int:
        return sum(count for _, count in self._items)

    def each(self) -> Iterator[Charge]:
        """Every charge by itself, in order."""
        for charge, count in self._items:
            for _ in range(count):
                yield charge

    def rows(self, chosen: Array) -> Charges:
        """The charges of some of the nodes."""
        return Charges((charge.rows(chosen), count) for charge, count in self._items)

    def events(self, row: int) -> list[tuple[events.Event, int]]:
        """(event, count) of one node, equal ones joined."""
        return events.merged((charge.event(row), count) for charge, count in self._items)


Witness = Callable[[int, int, Charge], None]


class Ledger:
    """Charges of one block of nodes, checked one by one against the run's reservation.

    `witness(turn, call, charge)` is told of every charge before it counts: a lasting ledger writes
    it down there, and its refusal stops the release.
    """

    def __init__(self, reserved: Charges | None, witness: Witness | None = None) -> None:
        self.charges = Charges()
        self._reserved = reserved
        self._witness = witness
        self._made = 0
        self._ahead = iter(()) if reserved is None else reserved.each()
        self._covered: tuple[Charge, Charge] | None = (
            None  # the last charge that was compared, and its reservation
        )

    def charge(self, turn: int, call: int, charge: Charge, asked: bytes) -> None:
        """Book one release, or refuse it with BudgetError; nothing has been drawn at this point.

        asked: the digest of its question; a real node's ledger keeps it beside the charge.
        """
        if self._reserved is not None:
            allowed = next(self._ahead, None)
            if allowed is None:
                raise BudgetError(
                    f"The budget is spent: all {len(self._reserved)} releases of this run were "
                    f"made, and round {turn} asked for one more. "
                    "Calibrate the run for more rounds."
                )
            if not self._is_covered(charge, allowed):
                raise BudgetError(
                    f"Release {self._made + 1} (round {turn}) "
                    "would cost more than was reserved for it; nothing was drawn. "
                    "The algorithm's step must ask for the same releases as when it was calibrated."
                )
        if self._witness is not None:
            self._witness(turn, call, charge)
        self.charges.add(charge)
        self._made += 1

    def _is_covered(self, charge: Charge, allowed: Charge) -> bool:
        """`covered_by`, whose answer stays the same while the two objects do."""
        if self._covered is not None and self._covered[0] is charge and self._covered[1] is allowed:
            return True
        if not charge.covered_by(allowed):
            return False
        self._covered = (charge, allowed)
        return True

    def restore(self, charges: Charges) -> None:
        """Take over what was charged before a run was resumed."""
        self.charges = charges
        self._made = len(charges)
        self._ahead = iter(()) if self._reserved is None else self._reserved.each()
        for _ in range(self._made):
            next(self._ahead, None)
