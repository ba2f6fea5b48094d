"""What the ledger's rows say of runs and accounts, and the checks that stand before a new row; all
of it inside one transaction of the ledger's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tacenda._types import Flags
from tacenda.errors import BudgetError, InputError, PrivacyError, StateError
from tacenda.formats.text import canonical_json
from tacenda.privacy import adjacency as relations
from tacenda.privacy.accounting.events import Event, Events, event_from_dict, merged
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting import rosters
from tacenda.privacy.lasting.accounts import (
    BOUNDS,
    budget_of,
    check_units,
    join_sides,
    joined,
    relations_of,
    unit_of,
    units_of,
)
from tacenda.privacy.lasting.budgets import Budget
from tacenda.privacy.lasting.database import LedgerFile
from tacenda.privacy.lasting.rounds import fold_indexed, from_text, plain
from tacenda.privacy.lasting.units import Unit, for_unit
from tacenda.words import against

Index = str | int | Sequence[str | int]


class Bookings:
    """Queries and checks on one ledger file."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def budget(self, dataset: str) -> Budget | None:
        """The budget in force, or None where none was set."""
        return next(iter(self.budgets(dataset).values()), None)

    def budgets(self, dataset: str) -> dict[str, Budget]:
        """The budgets of this account and of those that add up with it, its own first."""
        found = {}
        for name in joined(self._file, dataset):
            body = budget_of(self._file, name)
            if body is not None:
                found[name] = Budget(**body)
        return found

    def run(self, run_id: str) -> dict[str, Any] | None:
        row = self._file.one("SELECT dataset, open, records, members FROM runs WHERE run=?", run_id)
        return (
            {"run": run_id, "dataset": row[0], "open": bool(row[1]), "unit": Unit(row[2], row[3])}
            if row
            else None
        )

    def open_run(self, run_id: str) -> dict[str, Any]:
        run = self.run(run_id)
        if run is None or not run["open"]:
            state = "unknown" if run is None else "closed"
            raise StateError(
                f"run_id {run_id!r} is {state}; open_run with a new run_id comes first."
            )
        return run

    def relation(self, dataset: str) -> str:
        """The account's neighbouring relation: that of its budget or first run,
        else the default."""
        budget, runs = self.budget(dataset), relations_of(self._file, joined(self._file, dataset))
        return budget.adjacency if budget else runs[0] if runs else "replace-one"

    def check_relation(self, dataset: str, adjacency: str) -> None:
        """Noise multipliers of different relations are different things and do not add up."""
        runs = relations_of(self._file, joined(self._file, dataset))
        others = [relation for relation in runs if relation != adjacency]
        if runs and not others:
            others = [
                b.adjacency for b in self.budgets(dataset).values() if b.adjacency != adjacency
            ]
        if others:
            raise PrivacyError(
                f"adjacency of data set {dataset!r} must stay {others[0]!r}, "
                f"not become {adjacency!r}, because its runs were charged under it; "
                "keep the relation, or open the data set under another ledger."
            )

    def begin(
        self, run_id: str, dataset: str, about: dict[str, Any], adjacency: str | None, unit: Unit
    ) -> bool:
        known = self.run(run_id)
        if known is not None:
            if known["dataset"] not in joined(self._file, dataset):
                raise StateError(
                    f"run_id {run_id!r} belongs to another data set; choose a new run_id."
                )
            if not known["open"]:
                raise StateError(
                    f"run_id {run_id!r} was closed; a closed run is final, choose a new run_id."
                )
            return False
        relation = relations.check(adjacency or self.relation(dataset))
        self.check_relation(dataset, relation)
        check_units(self._file, dataset, [unit])
        self._file.append(
            "open", dataset, run_id, body={**about, "adjacency": relation, **vars(unit)}
        )
        self._file.execute(
            "INSERT INTO runs VALUES (?, ?, ?, 1, ?, ?)",
            run_id,
            dataset,
            relation,
            unit.records,
            unit.members,
        )
        if run_id.startswith(BOUNDS):
            join_sides(self._file, dataset)
        return True

    def reserve(self, run_id: str, events: Events, key: str) -> bool:
        wanted = merged(events)
        body = [[event.to_dict(), count] for event, count in wanted]
        run = self.open_run(run_id)
        before = self._file.one(
            "SELECT body FROM rows WHERE run=? AND kind='reserve' AND key=?", run_id, key
        )
        if before is not None:
            if json.loads(before[0]) == body:
                return False
            raise StateError(
                f"run {run_id!r} holds another reservation under key {key!r}; "
                "use a new key for more."
            )
        self.check_budget(run, wanted, f"the reservation of run {run_id!r}")
        self.append_reserve(run_id, run["dataset"], wanted, key)
        return True

    def append_reserve(
        self, run_id: str, dataset: str, wanted: list[tuple[Event, int]], key: str
    ) -> None:
        body = [[event.to_dict(), count] for event, count in wanted]
        self._file.append("reserve", dataset, run_id, key, body=body)
        for event, count in wanted:
            self.tally(run_id, event, reserved=count)

    def charge(self, run_id: str, charges: Iterable[tuple[Index, Event]]) -> int:
        """Book those charges that are new; how many they are."""
        run = self.run(run_id)
        if run is None:
            raise StateError(f"run_id {run_id!r} is unknown; open_run comes first.")
        fresh = self.fresh(run_id, charges)
        if fresh and not run["open"]:
            raise StateError(
                f"run {run_id!r} was closed and can release nothing more; open a new run."
            )
        self.check_uncovered(run_id, run, [event for _, event in fresh])
        texts = [(key, canonical_json(event.to_dict())) for key, event in fresh]
        stretches, alone = fold_indexed(texts)
        if stretches:
            self._file.append("charges", run["dataset"], run_id, body=plain(stretches))
        for key, text in alone:
            self._file.append("charge", run["dataset"], run_id, key, event=text)
        for event, count in _counted(event for _, event in fresh):
            self.tally(run_id, event, charged=count)
        return len(fresh)

    def close_as_spent(self, run_id: str) -> list[tuple[Event, int]]:
        run = self.open_run(run_id)
        left = self.outstanding(run_id)
        for number, (event, count) in enumerate(left):
            text = canonical_json(event.to_dict())
            for k in range(count):
                key = _key(("spent", number, k))
                self._file.append("charge", run["dataset"], run_id, key, event=text)
            self.tally(run_id, event, charged=count)
        self._file.append("close", run["dataset"], run_id, body={"released": []})
        self._file.execute("UPDATE runs SET open=0 WHERE run=?", run_id)
        return left

    def tally(self, run_id: str, event: Event, reserved: int = 0, charged: int = 0) -> None:
        self._file.execute(
            "INSERT INTO tally VALUES (?, ?, ?, ?) ON CONFLICT (run, event) DO UPDATE SET "
            "reserved = reserved + excluded.reserved, charged = charged + excluded.charged",
            run_id,
            canonical_json(event.to_dict()),
            reserved,
            charged,
        )

    def outstanding(self, run_id: str) -> list[tuple[Event, int]]:
        rows = self._file.all(
            "SELECT event, reserved - charged FROM tally WHERE run=? AND reserved > charged", run_id
        )
        return _events(rows)

    def charged(self, dataset: str) -> list[tuple[Unit, Events]]:
        return self._sums("sum(charged)", "charged > 0", dataset)

    def held(self, dataset: str) -> list[tuple[Unit, Events]]:
        """Reserved by runs that are still open (also dead ones: nobody knows)
        and not charged yet."""
        return self._sums("sum(reserved - charged)", "open=1 AND reserved > charged", dataset)

    def of_runs(self, runs: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """(what these runs have charged, what those that are open hold beside), each by unit."""
        marks = ", ".join("?" * len(runs))
        found: tuple[list[Any], list[Any]] = ([], [])
        for side, what, where in (
            (0, "sum(charged)", "charged > 0"),
            (1, "sum(reserved - charged)", "open=1 AND reserved > charged"),
        ):
            query = (
                f"SELECT records, members, event, {what} FROM tally JOIN runs USING (run) "
                f"WHERE run IN ({marks}) AND {where} GROUP BY records, members, event"
            )
            for records, members, text, count in self._file.all(query, *runs):
                found[side].append((Unit(records, members), _events([(text, count)])))
        return found

    def lost(self, dataset: str, ids: rosters.Ids | None) -> list[tuple[list[Any], list[Any]]]:
        """What the account has charged and holds, as `of_runs`: of all its runs, or for each set of
        runs that one of these ids took part in, less those that another one of the sets holds."""
        if ids is None:
            return [(self.charged(dataset), self.held(dataset))]
        sets, _ = rosters.histories(self._file, dataset, ids)
        return [self.of_runs(one) for one in rosters.largest_sets(sets)]

    def covered(self, dataset: str, ids: rosters.Ids, more: Sequence[tuple[Unit, Events]]) -> Flags:
        """(n,) whether each id's budget covers a run that releases that too."""
        unit = unit_of(self._file, dataset, (own for own, _ in more))
        budgets = self.budgets(dataset).values()
        sets, which = rosters.histories(self._file, dataset, ids)
        fine = []
        for one in sets:
            charged, held = self.of_runs(one)
            events = for_unit(unit, [*charged, *held, *more])
            fine.append(all(budget.allows(events) for budget in budgets))
        return np.asarray(fine, bool)[which]

    def _sums(self, what: str, where: str, dataset: str) -> list[tuple[Unit, Events]]:
        """Per unit and event, over this account and all that add up with it."""
        names = joined(self._file, dataset)
        marks = ", ".join("?" * len(names))
        query = (
            f"SELECT event, {what} FROM tally JOIN runs USING (run) WHERE dataset IN ({marks}) "
            f"AND {where} AND records IS ? AND members = ? GROUP BY event"
        )
        return [
            (unit, _events(self._file.all(query, *names, unit.records, unit.members)))
            for unit in units_of(self._file, names)
        ]

    def fresh(self, run_id: str, charges: Iterable[tuple[Index, Event]]) -> list[tuple[str, Event]]:
        """Those not booked before; the same index with another event is refused."""
        fresh: dict[str, Event] = {}
        rows = self._file.all("SELECT body FROM rows WHERE run=? AND kind='charges'", run_id)
        settled = {
            canonical_json(place): event
            for (body,) in rows
            for stretch in from_text(body)
            for place, event in stretch.charges()
        }
        for index, event in charges:
            if not isinstance(event, Event):
                raise InputError(
                    f"event must be a privacy event, not {event!r}; "
                    "see tacenda.privacy.accounting.events."
                )
            key = _key(index)
            row = self._file.one(
                "SELECT event FROM rows WHERE run=? AND key=? AND kind='charge'", run_id, key
            )
            text = row[0] if row else settled.get(key)
            booked = event_from_dict(json.loads(text)) if text else fresh.get(key)
            if booked is not None and booked != event:
                raise PrivacyError(
                    f"index {key} of run {run_id!r} was charged as {booked} and cannot become "
                    f"{event}; "
                    "a redone step must be the same release."
                )
            if booked is None:
                fresh[key] = event
        return list(fresh.items())

    def check_uncovered(self, run_id: str, run: dict[str, Any], events: list[Event]) -> None:
        held = dict(self.outstanding(run_id))
        beyond = [
            (e, count - held.get(e, 0)) for e, count in _counted(events) if count > held.get(e, 0)
        ]
        if beyond:
            self.check_budget(run, beyond, f"a release of run {run_id!r} that it had not reserved")

    def check_budget(self, run: dict[str, Any], more: Events, what: str) -> None:
        dataset, unit = run["dataset"], unit_of(self._file, run["dataset"])
        roster = rosters.of_run(self._file, run["run"])
        lost = self.lost(dataset, None if roster is None else roster.ids)
        each = [for_unit(unit, [*charged, *held]) for charged, held in lost]
        wanted = unit.counts(run["unit"], more)
        cases = ((b, name, budget) for b in each for name, budget in self.budgets(dataset).items())
        for before, name, budget in cases:
            events = [*before, *wanted]
            if budget.allows(events):
                continue
            after = judge(events, budget.adjacency)
            spent = judge(before, budget.adjacency).epsilon(budget.delta)
            whom = "" if unit.size == 1 else f", for {unit}"
            by = "" if roster is None else " by an id that takes part"
            raise BudgetError(
                f"the budget of data set {name!r} is epsilon {budget.epsilon:g} at delta "
                f"{budget.delta:g} ({budget.adjacency}{whom}); {spent:.4g} is spent or reserved"
                f"{by}, and {what} would make it {after.epsilon(budget.delta):.4g}, "
                f"against {against(after.coalition)}. Nothing was charged: "
                "use more noise or fewer releases, close runs that are over, or raise the budget."
            )


def _key(index: Index) -> str:
    parts = index if isinstance(index, str | int) else list(index)
    return canonical_json(parts)


def _events(rows: Iterable[tuple[str, int]]) -> list[tuple[Event, int]]:
    return [(event_from_dict(json.loads(text)), int(count)) for text, count in rows]


def _counted(events: Iterable[Event]) -> list[tuple[Event, int]]:
    counts: dict[Event, int] = {}
    for event in events:
        counts[event] = counts.get(event, 0) + 1
    return list(counts.items())
