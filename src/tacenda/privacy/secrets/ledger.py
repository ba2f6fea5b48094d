"""The ledger of one run: what each node has released, charged before any noise is drawn.

A `Charge` is one release of a block of nodes: the kind of event and its parameters, one entry for
each kind of node, such as those with equal degree and size. Equal charges that follow each other
are one entry with a count. So a thousand equal rounds of a million equal nodes are a single number.

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
    "inner": 1,
    "gap": 1,
}
_SLACK = 1e-9  # relative; above rounding, far below anything that matters


@dataclass(frozen=True, eq=False)
class Charge:
    """One release: `kind` of event and its parameters for each node of the block.

    entries {name: (u,)}: the numbers of each kind of node; nodes (b,): which of them are each
    node's; each belongs to some node. Without `nodes` every node has its own, and u = b.
    """

    kind: Kind
    entries: dict[str, Array]
    nodes: Array | None = None

    @property
    def parameters(self) -> dict[str, Array]:
        """{name: (b,)}, one number for each node."""
        at = self.nodes
        return self.entries if at is None else {k: v[at] for k, v in self.entries.items()}

    @property
    def n_nodes(self) -> int:
        """b: how many nodes it is a charge of."""
        return len(next(iter(self.entries.values())) if self.nodes is None else self.nodes)

    def event(self, row: int) -> events.Event:
        """The event of one node."""
        fields = {f.name: f.type for f in dataclasses.fields(self.kind)}
        at = row if self.nodes is None else self.nodes[row]
        values = {
            k: (int if fields[k] in ("int", int) else float)(v[at]) for k, v in self.entries.items()
        }
        return self.kind(**values)

    def freeze(self) -> None:
        """From here on the parameters are read-only: the charge will be booked more than once."""
        for values in self.entries.values():
            values.setflags(write=False)

    def same(self, other: Charge) -> bool:
        """Whether both charges are equal for every node."""
        if self.kind is not other.kind or self.n_nodes != other.n_nodes:
            return False
        return all(bool((mine == theirs).all()) for _, mine, theirs in self._beside(other))

    def covered_by(self, other: Charge) -> bool:
        """Whether this charge costs no node more than `other` does."""
        if self.kind is not other.kind:
            return False
        for name, mine, theirs in self._beside(other):
            worse = _WORSE[name]
            # Infinite noise that was reserved would cover any, and so would less than none
            if worse < 0 and not (theirs.min() >= 0 and theirs.max() < np.inf):
                return False
            if not (worse * (mine - theirs) <= _SLACK * np.abs(theirs)).all():
                return False
        return True

    def _beside(self, other: Charge) -> Iterator[tuple[str, Array, Array]]:
        """(name, ours, theirs) of each parameter, of shapes that go together; numbers that are the
        same for all nodes are not written out."""
        alike = self.nodes is other.nodes
        for name, mine in self.entries.items():
            theirs = other.entries[name]
            if not alike:
                mine, theirs = _for_all(mine, self.nodes), _for_all(theirs, other.nodes)
            yield name, mine, theirs

    def worst(self) -> events.Event:
        """An event that costs at least as much as any node's: each parameter at its worst."""
        return self.at_worst().event(0)

    def at_worst(self) -> Charge:
        """The same for each node at the worst node's parameters."""
        values = {
            k: np.full_like(v, v.max() if _WORSE[k] > 0 else v.min())
            for k, v in self.entries.items()
        }
        return Charge(self.kind, values, self.nodes)

    def rows(self, chosen: Array) -> Charge:
        """The same charge for some of the nodes."""
        return next(iter(Charges([(self, 1)]).rows(chosen)))[0]


def _for_all(values: Array, nodes: Array | None) -> Array:
    """(b,) numbers of all nodes, or (1,) where one is that of all."""
    return values if nodes is None or len(values) == 1 else values[nodes]


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

    def first(self, count: int) -> Charges:
        """The first so many charges."""
        found = Charges()
        for charge, several in self._items:
            taken = min(several, count - len(found))
            if taken <= 0:
                break
            found.add(charge, taken)
        return found

    def rows(self, chosen: Array) -> Charges:
        """The charges of some of the nodes, or of each of several as often as it is named."""
        known: dict[int, tuple[Array, Array]] = {}  # charges share their `nodes`, and go on so

        def of(charge: Charge) -> Charge:
            before = charge.nodes
            if id(before) not in known:
                at = chosen if before is None else before[chosen]
                used, at = np.unique(at, return_inverse=True)
                known[id(before)] = used, at.reshape(-1)
            used, at = known[id(before)]
            return Charge(charge.kind, {k: v[used] for k, v in charge.entries.items()}, at)

        return Charges((of(charge), count) for charge, count in self._items)

    @property
    def nodes(self) -> Array | None:
        """The `nodes` that all charges share; None where they differ, or have none."""
        found = {id(charge.nodes): charge.nodes for charge, _ in self._items}
        return next(iter(found.values())) if len(found) == 1 else None

    def at_worst(self) -> Charges:
        """Each charge at its worst node's parameters, for all nodes."""
        return Charges((charge.at_worst(), count) for charge, count in self._items)

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
        self._equal = False
        # Whether every charge so far was just what was reserved for it
        self.as_reserved = reserved is not None

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
            if self._equal:
                charge = allowed  # the same numbers, by kinds of nodes
        if self._witness is not None:
            self._witness(turn, call, charge)
        self.charges.add(charge)
        self._made += 1

    def once(self, turn: int, call: int, draw: Callable[[], Array], places: int = 1) -> Array:
        """What a charged release gives; a real node's ledger stores it, and never draws it again.

        places: how many places of the round its noise takes.
        """
        return draw()

    def _is_covered(self, charge: Charge, allowed: Charge) -> bool:
        """`covered_by`, whose answer stays the same while the two objects do; notes whether they
        are equal."""
        if self._covered is not None and self._covered[0] is charge and self._covered[1] is allowed:
            return True
        if not charge.covered_by(allowed):
            return False
        self._covered, self._equal = (charge, allowed), charge.same(allowed)
        self.as_reserved = self.as_reserved and self._equal
        return True

    def restore(self, charges: Charges) -> None:
        """Take over what was charged before a run was resumed."""
        self.charges = charges
        self._made = len(charges)
        self._ahead = iter(()) if self._reserved is None else self._reserved.each()
        for charge in charges.each():
            allowed = next(self._ahead, None)
            if allowed is None or not (charge is allowed or charge.same(allowed)):
                self.as_reserved = False
