"""The lasting ledger: one SQLite file that outlives runs and says what every data set has spent.

A run reserves what it will release, and is refused before any noise is drawn if the composition of
everything charged and reserved on its data set would exceed the budget. Each release is charged
*before* it is drawn. A charge is known by (run, index): a step that is done again after a crash is
charged once, and must then use the same noise again. Killed processes lose nothing: what was
charged is on disk (WAL, synchronous=FULL), and a reservation stays counted until its run is closed.
Writers take turns (BEGIN IMMEDIATE), so two processes at once are safe.

All rows are append-only and hash-chained: see `store_chain` for what tampering that shows and what
it cannot show.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tacenda.checks import one_of, positive
from tacenda.errors import BudgetError, InputError, PrivacyError, StateError
from tacenda.formats.text import canonical_json
from tacenda.privacy import adjacency as relations
from tacenda.privacy.accounting.events import (
    CorrelatedGaussian,
    Event,
    Events,
    event_from_dict,
    merged,
)
from tacenda.privacy.accounting.judge import Curve, judge
from tacenda.privacy.lasting.accounts import (
    BOUNDS,
    Account,
    Near,
    account_for_bounds,
    account_of,
    budget_of,
    check_units,
    held_out_of,
    join,
    join_sides,
    joined,
    overlapping,
    reads_all,
    relations_of,
    require_name,
    sketch_fault,
    unit_of,
    units_of,
)
from tacenda.privacy.lasting.chain import Verification, genesis, verify_chain
from tacenda.privacy.lasting.database import LedgerFile
from tacenda.privacy.lasting.files import check_place
from tacenda.privacy.lasting.fingerprints import Marks, marks_of
from tacenda.privacy.lasting.stretches import charges_of, stretched
from tacenda.privacy.lasting.tables import replayed, stored
from tacenda.privacy.lasting.units import Unit, for_unit
from tacenda.words import against

ROUNDING = 1e-9
Index = str | int | Sequence[str | int]


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


class LedgerStore:
    """The ledger at `path` (made if missing). Safe for several threads and processes; use as a
    context manager or close()."""

    def __init__(self, path: str | os.PathLike[str], timeout: float = 60.0) -> None:
        self.path = Path(path)
        check_place(self.path)
        self._file = LedgerFile(self.path, positive("timeout", timeout))

    # -- data sets and budgets

    def account(self, rows: Any, labels: Any, dataset: str | None = None) -> Account:
        """The account of these records, remembered: by name if one is given,
        else by the records themselves (`store_accounts`)."""
        return self.account_of_marks(marks_of(rows, labels, self.salt), dataset)

    @property
    def salt(self) -> bytes:
        """The key under which this ledger hashes records; for its owner's processes only."""
        return self._file.salt

    def account_of_marks(self, marks: Marks, dataset: str | None = None) -> Account:
        """`account` by the marks of the records, made under this ledger's salt."""
        if dataset is not None:
            _name("dataset", dataset)
        with self._file.writing():
            return account_of(self._file, marks, dataset)

    @contextmanager
    def account_for_bounds(self, marks: Marks, dataset: str) -> Iterator[Account]:
        """The account `dataset` for a run that looks for bounds in all of these records; the same
        records under two names add up. An error inside leaves the ledger as it was."""
        _name("dataset", dataset)
        with self._file.writing():
            yield account_for_bounds(self._file, marks, dataset)

    def require_name(self, found: str | None = None) -> None:
        """Refuse records without a name, where the ledger holds a budget. found: the account that
        they have; one that was named, or has a budget, is enough."""
        require_name(self._file, found)

    def overlapping(self, marks: Marks) -> list[Near]:
        """Accounts that share many of these records, the nearest first; nothing is noted."""
        return overlapping(self._file, marks)

    def join(self, one: str, other: str) -> bool:
        """From now on two accounts add up: what either spent counts against the budgets of both.
        False if they did already."""
        for name in (one, other):
            one_of("dataset", name, self.datasets())
        with self._file.writing():
            return join(self._file, one, other)

    def join_held_out(self, held_out: str, trained: str) -> bool:
        """`join` for the account of held-out records, which may be new."""
        _name("held_out", held_out)
        with self._file.writing():
            return join(self._file, trained, held_out)

    def reads_all(self, dataset: str) -> bool:
        """Whether a run of this account read all records, those held out too."""
        return reads_all(self._file, dataset)

    def secret(self, purpose: str) -> bytes:
        """A key of this ledger's own for one purpose, the same at every call."""
        return bytes.fromhex(self._file.keyed(f"secret: {purpose}".encode()))

    def held_out_account(self, dataset: str, seen: Marks, kept: Marks, apart: bool) -> Account:
        """The account of the records that are held out (`kept`) of training on `dataset`'s records
        (`accounts.held_out_of`); apart: the data set was named by its holder, whose word keeps it
        apart from others."""
        with self._file.writing():
            return held_out_of(self._file, dataset, seen, kept, apart)

    def set_budget(
        self,
        dataset: str,
        epsilon: float,
        delta: float,
        adjacency: str = "replace-one",
        unit: Unit = Unit(),  # noqa: B008
    ) -> None:
        """The budget of `dataset` from now on, for this unit or a larger one that a run names; what
        was spent before counts against it."""
        budget = Budget(
            positive("epsilon", epsilon),
            _delta(delta),
            relations.check(adjacency),
            unit.records,
            unit.members,
        )
        _name("dataset", dataset)
        with self._file.writing():
            self._check_relation(dataset, budget.adjacency)
            self._file.append("budget", dataset, body=vars(budget))
            check_units(self._file, dataset)

    def copy_budget(self, dataset: str, other: str) -> None:
        """Give `other` the budget that `dataset` has."""
        known = self.budget(dataset)
        assert known is not None
        self.set_budget(other, known.epsilon, known.delta, known.adjacency, known.unit)

    def budget(self, dataset: str) -> Budget | None:
        """The budget in force, or None where none was set:
        then everything is booked and nothing refused."""
        return next(iter(self._budgets(dataset).values()), None)

    def _budgets(self, dataset: str) -> dict[str, Budget]:
        """The budgets of this account and of those that add up with it, its own first."""
        found = {}
        for name in joined(self._file, dataset):
            body = budget_of(self._file, name)
            if body is not None:
                found[name] = Budget(**body)
        return found

    def datasets(self) -> list[str]:
        """All data sets with a budget or a run."""
        return [
            row[0] for row in self._file.all("SELECT DISTINCT dataset FROM rows ORDER BY dataset")
        ]

    # -- runs

    def open_run(
        self,
        run_id: str,
        dataset: str,
        description: str = "",
        adjacency: str | None = None,
        reserve: Events | None = None,
        unit: Unit = Unit(),  # noqa: B008
        delta: float | None = None,
    ) -> bool:
        """Begin a run, or go on with one that is still open (after a crash); True if it is new.

        reserve: what one node of the run will release, set aside in the same step: a run that the
        budget refuses (BudgetError) leaves no row. unit: whose loss that is. delta: at which the
        run states its epsilon, for those who read the ledger.
        """
        _name("run_id", run_id)
        _name("dataset", dataset)
        with self._file.writing():
            about = {"description": description, "delta": delta}
            new = self._begin(run_id, dataset, about, adjacency, unit)
            if reserve is not None:
                self._reserve(run_id, reserve, "")
            return new

    def _begin(
        self, run_id: str, dataset: str, about: dict[str, Any], adjacency: str | None, unit: Unit
    ) -> bool:
        known = self._run(run_id)
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
        relation = relations.check(adjacency or self._relation(dataset))
        self._check_relation(dataset, relation)
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

    def reserve(self, run_id: str, events: Events, key: str = "") -> bool:
        """Set `events` aside for the run, or raise BudgetError with nothing charged. True if booked
        now.

        Idempotent per (run, key): a resumed run reserves again for nothing; other events need
        another key.
        """
        with self._file.writing():
            return self._reserve(run_id, events, key)

    def _reserve(self, run_id: str, events: Events, key: str) -> bool:
        wanted = merged(events)
        body = [[event.to_dict(), count] for event, count in wanted]
        run = self._open_run(run_id)
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
        self._check_budget(run, wanted, f"the reservation of run {run_id!r}")
        self._append_reserve(run_id, run["dataset"], wanted, key)
        return True

    def _append_reserve(
        self, run_id: str, dataset: str, wanted: list[tuple[Event, int]], key: str
    ) -> None:
        body = [[event.to_dict(), count] for event, count in wanted]
        self._file.append("reserve", dataset, run_id, key, body=body)
        for event, count in wanted:
            self._tally(run_id, event, reserved=count)

    def charge(self, run_id: str, index: Index, event: Event) -> bool:
        """Book one release before it is drawn; False if (run, index) was charged already and the
        noise must be the same."""
        return self.charge_many(run_id, [(index, event)]) == 1

    def charge_many(self, run_id: str, charges: Iterable[tuple[Index, Event]]) -> int:
        """Book many releases in one transaction, all or none; how many of them are new.

        What the run has reserved is taken from its reservation; anything beyond is compared with
        the budget at once. Equal releases of consecutive rounds become one row (`stretches`).
        """
        with self._file.writing():
            run = self._run(run_id)
            if run is None:
                raise StateError(f"run_id {run_id!r} is unknown; open_run comes first.")
            fresh = self._fresh(run_id, charges)
            if fresh and not run["open"]:
                raise StateError(
                    f"run {run_id!r} was closed and can release nothing more; open a new run."
                )
            self._check_uncovered(run_id, run, [event for _, event in fresh])
            texts = [(key, canonical_json(event.to_dict())) for key, event in fresh]
            lines, alone = stretched(texts)
            if lines:
                self._file.append("charges", run["dataset"], run_id, body=lines)
            for key, text in alone:
                self._file.append("charge", run["dataset"], run_id, key, event=text)
            for event, count in _counted(event for _, event in fresh):
                self._tally(run_id, event, charged=count)
            return len(fresh)

    def close_run(self, run_id: str) -> list[tuple[Event, int]]:
        """End a run; what it reserved and never charged is free again, and is returned."""
        with self._file.writing():
            run = self._open_run(run_id)
            left = self._outstanding(run_id)
            released = [[event.to_dict(), count] for event, count in left]
            self._file.append("close", run["dataset"], run_id, body={"released": released})
            self._file.execute("UPDATE runs SET open=0 WHERE run=?", run_id)
            return left

    def close_as_spent(self, run_id: str) -> list[tuple[Event, int]]:
        """End a run of which nobody knows any more what it has released: all that it reserved
        counts as charged for good, and what was not charged before is returned."""
        with self._file.writing():
            return self._close_as_spent(run_id)

    def book_spent(
        self,
        run_id: str,
        dataset: str,
        description: str,
        adjacency: str,
        events: Events,
        unit: Unit = Unit(),  # noqa: B008
    ) -> bool:
        """Book a whole run that has happened elsewhere, whatever the budget says: it refuses what
        comes after. False if the ledger has the run already."""
        _name("run_id", run_id)
        _name("dataset", dataset)
        with self._file.writing():
            if self._run(run_id) is not None:
                return False
            self._begin(run_id, dataset, {"description": description}, adjacency, unit)
            self._append_reserve(run_id, dataset, merged(events), "")
            self._close_as_spent(run_id)
            return True

    def _close_as_spent(self, run_id: str) -> list[tuple[Event, int]]:
        run = self._open_run(run_id)
        left = self._outstanding(run_id)
        for number, (event, count) in enumerate(left):
            text = canonical_json(event.to_dict())
            for k in range(count):
                key = _key(("spent", number, k))
                self._file.append("charge", run["dataset"], run_id, key, event=text)
            self._tally(run_id, event, charged=count)
        self._file.append("close", run["dataset"], run_id, body={"released": []})
        self._file.execute("UPDATE runs SET open=0 WHERE run=?", run_id)
        return left

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """The whole ledger, with its salt, as it is at one moment, in a new file that is its
        owner's alone; runs may go on meanwhile."""
        self._file.copy_to(Path(path))

    def spent(
        self, dataset: str, adjacency: str | None = None, more: Sequence[tuple[Unit, Events]] = ()
    ) -> Spent:
        """Everything charged and reserved on `dataset`, and its curves; with `more`, as if runs of
        these units had reserved that too."""
        with self._file.reading():
            relation = relations.check(adjacency or self._relation(dataset))
            names = tuple(joined(self._file, dataset))
            unit = unit_of(self._file, dataset, (own for own, _ in more))
            return Spent(
                dataset,
                merged(for_unit(unit, self._charged(dataset))),
                merged(for_unit(unit, [*self._held(dataset), *more])),
                self.budget(dataset),
                relation,
                names,
                unit,
            )

    def runs(self, dataset: str | None = None) -> list[dict[str, Any]]:
        """Run, data set, adjacency and whether it is open, in order of opening."""
        query = (
            "SELECT run, dataset, adjacency, open FROM runs WHERE ? IS NULL OR dataset = ? ORDER "
            "BY rowid"
        )
        return [
            {"run": run, "dataset": data, "adjacency": relation, "open": bool(is_open)}
            for run, data, relation, is_open in self._file.all(query, dataset, dataset)
        ]

    def last_delta(self, dataset: str) -> float | None:
        """The delta of the newest run that states one."""
        rows = self._file.all(
            "SELECT body FROM rows WHERE kind = 'open' AND dataset = ? ORDER BY seq DESC", dataset
        )
        stated = (json.loads(body).get("delta") for (body,) in rows)
        return next((float(delta) for delta in stated if delta is not None), None)

    def holds(self, run_id: str) -> bool:
        """Whether anything was ever reserved or charged for the run."""
        query = (
            "SELECT 1 FROM rows WHERE run = ? AND kind IN ('reserve', 'charge', 'charges') LIMIT 1"
        )
        return self._file.one(query, run_id) is not None

    # -- the chain

    def head(self) -> tuple[int, str]:
        """Number and seal of the last row: note it elsewhere, and give it to `verify` later."""
        return self._file.head()

    def verify(self, anchor: tuple[int, str] | None = None) -> Verification:
        """Check every row, the head, and that the working tables say what the rows say; names the
        first broken row."""
        with self._file.reading():
            first = genesis(self._file.salt)
            found = verify_chain(self._file.rows(), first, self.head(), anchor)
            if not found.ok:
                return found
            fault = replayed(self._file.rows()).difference(stored(self._file))
            fault = fault or sketch_fault(self._file, self._file.rows())
            return Verification(found.rows, found.rows, fault) if fault else found

    def export(self) -> Iterator[str]:
        """All rows as JSON lines, to be kept elsewhere; `store_chain.verify_lines` checks them."""
        with self._file.reading():
            lines = [canonical_json(row) for row in self._file.rows()]
        return iter(lines)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    # -- inside a transaction

    def _run(self, run_id: str) -> dict[str, Any] | None:
        row = self._file.one("SELECT dataset, open, records, members FROM runs WHERE run=?", run_id)
        return (
            {"dataset": row[0], "open": bool(row[1]), "unit": Unit(row[2], row[3])} if row else None
        )

    def _open_run(self, run_id: str) -> dict[str, Any]:
        run = self._run(run_id)
        if run is None or not run["open"]:
            state = "unknown" if run is None else "closed"
            raise StateError(
                f"run_id {run_id!r} is {state}; open_run with a new run_id comes first."
            )
        return run

    def _relation(self, dataset: str) -> str:
        """The account's neighbouring relation: that of its budget or first run,
        else the default."""
        budget, runs = self.budget(dataset), relations_of(self._file, joined(self._file, dataset))
        return budget.adjacency if budget else runs[0] if runs else "replace-one"

    def _check_relation(self, dataset: str, adjacency: str) -> None:
        """Noise multipliers of different relations are different things and do not add up."""
        runs = relations_of(self._file, joined(self._file, dataset))
        others = [relation for relation in runs if relation != adjacency]
        if runs and not others:
            others = [
                b.adjacency for b in self._budgets(dataset).values() if b.adjacency != adjacency
            ]
        if others:
            raise PrivacyError(
                f"adjacency of data set {dataset!r} must stay {others[0]!r}, "
                f"not become {adjacency!r}, because its runs were charged under it; "
                "keep the relation, or open the data set under another ledger."
            )

    def _tally(self, run_id: str, event: Event, reserved: int = 0, charged: int = 0) -> None:
        self._file.execute(
            "INSERT INTO tally VALUES (?, ?, ?, ?) ON CONFLICT (run, event) DO UPDATE SET "
            "reserved = reserved + excluded.reserved, charged = charged + excluded.charged",
            run_id,
            canonical_json(event.to_dict()),
            reserved,
            charged,
        )

    def _outstanding(self, run_id: str) -> list[tuple[Event, int]]:
        rows = self._file.all(
            "SELECT event, reserved - charged FROM tally WHERE run=? AND reserved > charged", run_id
        )
        return _events(rows)

    def _charged(self, dataset: str) -> list[tuple[Unit, Events]]:
        return self._sums("sum(charged)", "charged > 0", dataset)

    def _held(self, dataset: str) -> list[tuple[Unit, Events]]:
        """Reserved by runs that are still open (also dead ones: nobody knows)
        and not charged yet."""
        return self._sums("sum(reserved - charged)", "open=1 AND reserved > charged", dataset)

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

    def _fresh(
        self, run_id: str, charges: Iterable[tuple[Index, Event]]
    ) -> list[tuple[str, Event]]:
        """Those not booked before; the same index with another event is refused."""
        fresh: dict[str, Event] = {}
        rows = self._file.all("SELECT body FROM rows WHERE run=? AND kind='charges'", run_id)
        settled = dict(charge for (body,) in rows for charge in charges_of(json.loads(body)))
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

    def _check_uncovered(self, run_id: str, run: dict[str, Any], events: list[Event]) -> None:
        held = dict(self._outstanding(run_id))
        beyond = [
            (e, count - held.get(e, 0)) for e, count in _counted(events) if count > held.get(e, 0)
        ]
        if beyond:
            self._check_budget(run, beyond, f"a release of run {run_id!r} that it had not reserved")

    def _check_budget(self, run: dict[str, Any], more: Events, what: str) -> None:
        dataset, unit = run["dataset"], unit_of(self._file, run["dataset"])
        before = for_unit(unit, [*self._charged(dataset), *self._held(dataset)])
        events = [*before, *unit.counts(run["unit"], more)]
        for name, budget in self._budgets(dataset).items():
            if budget.allows(events):
                continue
            after = judge(events, budget.adjacency)
            spent = judge(before, budget.adjacency).epsilon(budget.delta)
            whom = "" if unit.size == 1 else f", for {unit}"
            raise BudgetError(
                f"the budget of data set {name!r} is epsilon {budget.epsilon:g} at delta "
                f"{budget.delta:g} ({budget.adjacency}{whom}); {spent:.4g} is spent or reserved, "
                f"and {what} would make it {after.epsilon(budget.delta):.4g}, "
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


def _delta(delta: float) -> float:
    value = positive("delta", delta, zero=True)
    if value >= 1:
        raise InputError(f"delta must be below 1, not {delta!r}; a usual choice is 1e-5.")
    return value


def _name(what: str, value: str) -> None:
    if not isinstance(value, str) or not value:
        raise InputError(f"{what} must be a text that is not empty, not {value!r}.")
