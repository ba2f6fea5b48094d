"""What a data set may lose, and what it has lost, in all its runs together."""

from __future__ import annotations

from dataclasses import dataclass

from tacenda.privacy.accounting.events import CorrelatedGaussian, Event, Events
from tacenda.privacy.accounting.judge import Curve, judge
from tacenda.privacy.lasting.units import Unit

ROUNDING = 1e-9


@dataclass(frozen=True)
class Budget:
    """What a data set may lose in all its runs together."""

    epsilon: float
    delta: float
    adjacency: str
    records: int | None = None  # with `members` the unit: see `units.Unit`
    members: int = 1

    @property
    def unit(self) -> Unit:
        """Whom the budget is about, at least."""
        return Unit(self.records, self.members)

    def allows(self, events: Events) -> bool:
        """Whether the composition of `events` fits;
        a run calibrated to exactly the budget does, rounding included."""
        curve = judge(events, self.adjacency)
        if self.delta == 0:
            return curve.pure_epsilon <= self.epsilon * (1 + ROUNDING)
        return curve.delta(self.epsilon) <= self.delta * (1 + ROUNDING)


@dataclass(frozen=True)
class Spent:
    """What the unit of one data set has lost: `events` charged, `reserved` still outstanding, and
    the curves of both."""

    dataset: str
    events: list[tuple[Event, int]]
    reserved: list[tuple[Event, int]]
    budget: Budget | None
    adjacency: str

    names: tuple[str, ...] = ()  # of all accounts that add up here, this one first
    unit: Unit = Unit()  # whose loss it is

    @property
    def coalition(self) -> int | None:
        """Against how many pooling members all of it holds, charged or reserved: the fewest; None
        means any number."""
        sizes = [
            e.coalition
            for e, _ in (*self.events, *self.reserved)
            if isinstance(e, CorrelatedGaussian)
        ]
        return min(sizes, default=None)

    @property
    def curve(self) -> Curve:
        """Of everything charged."""
        return judge(self.events, self.adjacency)

    @property
    def curve_with_reserved(self) -> Curve:
        """Of everything charged or still reserved: this is what the budget is compared with."""
        return judge([*self.events, *self.reserved], self.adjacency)
