"""Whose loss a charge is, and what it costs the person an account is about.

A run is charged by what one node releases. What somebody loses by it depends on how many of their
records it reads and at how many nodes. So every run says its unit, an account is about the largest
unit that its budget and its runs name, and each run is counted for that person:

    the run           what a person loses who has at most K records at each of at most Q nodes
    caps persons      the releases of Q nodes (`events.at_members`): whoever has more records than
                      the cap, the run did not read them
    counts records    those of one node, by group privacy for all K Q records: they may all be there
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tacenda.checks import whole
from tacenda.errors import PrivacyError
from tacenda.privacy.accounting.events import Event, Events, at_members
from tacenda.words import counted


@dataclass(frozen=True)
class Unit:
    """records: the most records of a person that a node reads; None: single records, whosever they
    are. members: at how many nodes a person may be."""

    records: int | None = None
    members: int = 1

    def __post_init__(self) -> None:
        if self.records is not None:
            whole("records_per_person", self.records, least=1)
        whole("members_per_person", self.members, least=1)

    @property
    def size(self) -> int:
        """The most records of one person at all nodes together."""
        return (self.records or 1) * self.members

    def __str__(self) -> str:
        if self.size == 1:
            return "one record"
        person = f"a person with at most {counted(self.records or 1, 'record')}"
        if self.members == 1:
            return person
        return f"{person} at each of at most {self.members} nodes"

    def counts(self, unit: Unit, events: Iterable[tuple[Event, int]]) -> list[tuple[Event, int]]:
        """What this unit loses by a run of another `unit`, of which one node releases `events`."""
        if unit.records is not None:
            return at_members(events, max(self.members, unit.members))
        return [(_grouped(event, self), count) for event, count in events]


def largest(units: Iterable[Unit]) -> Unit:
    """The unit that covers all of these."""
    records: int | None = None
    members = 1
    for unit in units:
        members = max(members, unit.members)
        if unit.records is not None:
            records = max(records or 1, unit.records)
    return Unit(records, members)


def for_unit(unit: Unit, parts: Iterable[tuple[Unit, Events]]) -> list[tuple[Event, int]]:
    """What `unit` loses by several runs, each of a unit of its own."""
    return [item for own, events in parts for item in unit.counts(own, events)]


def _grouped(event: Event, unit: Unit) -> Event:
    found = event if unit.size == 1 else event.grouped(unit.size)
    if found is None:
        raise PrivacyError(
            f"a run that samples single records ({event.kind}) cannot be counted for {unit}, about "
            "whom this account is; use all records in every round, or give the run the persons "
            "behind its records."
        )
    return found
