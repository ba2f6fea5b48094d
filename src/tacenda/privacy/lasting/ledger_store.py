"""The lasting ledger: one SQLite file that outlives runs and says what every data set has spent.

A run reserves what it will release, and is refused before any noise is drawn if the composition of
everything charged and reserved on its data set would exceed the budget. Each release is charged
*before* it is drawn. A charge is known by (run, index): a step that is done again after a crash is
charged once, and must then use the same noise again. Killed processes lose nothing: what was
charged is on disk (WAL, synchronous=FULL), and a reservation stays counted until its run is closed.
Writers take turns (BEGIN IMMEDIATE), so two processes at once are safe.

All rows are append-only and hash-chained: see `chain` for what tampering that shows and what
it cannot show.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from tacenda._types import Flags
from tacenda.checks import one_of, positive
from tacenda.errors import InputError
from tacenda.formats.text import canonical_json
from tacenda.privacy import adjacency as relations
from tacenda.privacy.accounting.events import Event, Events, merged
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting import rosters
from tacenda.privacy.lasting.accounts import (
    Account,
    Near,
    account_for_bounds,
    account_of,
    check_units,
    held_out_of,
    join,
    joined,
    overlapping,
    reads_all,
    require_name,
    sketch_fault,
    unit_of,
)
from tacenda.privacy.lasting.bookings import Bookings, Index
from tacenda.privacy.lasting.budgets import Budget, Spent
from tacenda.privacy.lasting.chain import Verification
from tacenda.privacy.lasting.database import LedgerFile
from tacenda.privacy.lasting.files import check_place
from tacenda.privacy.lasting.fingerprints import Marks, marks_of
from tacenda.privacy.lasting.rosters import Roster
from tacenda.privacy.lasting.tables import replayed, stored
from tacenda.privacy.lasting.units import Unit, for_unit


class LedgerStore:
    """The ledger at `path` (made if missing). Safe for several threads and processes; use as a
    context manager or close()."""

    def __init__(self, path: str | os.PathLike[str], timeout: float = 60.0) -> None:
        self.path = Path(path)
        check_place(self.path)
        self._file = LedgerFile(self.path, positive("timeout", timeout))
        self._book = Bookings(self._file)

    # -- data sets and budgets

    def account(self, rows: Any, labels: Any, dataset: str | None = None) -> Account:
        """The account of these records, remembered: by name if one is given,
        else by the records themselves (`accounts`)."""
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
            self._book.check_relation(dataset, budget.adjacency)
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
        return self._book.budget(dataset)

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
        roster: Roster | None = None,
    ) -> bool:
        """Begin a run, or go on with one that is still open (after a crash); True if it is new.

        reserve: what one node of the run will release, set aside in the same step: a run that the
        budget refuses (BudgetError) leaves no row. unit: whose loss that is. delta: at which the
        run states its epsilon, for those who read the ledger. roster: the ids that the run reads;
        then the budget holds for each of them by itself (`rosters`).
        """
        _name("run_id", run_id)
        _name("dataset", dataset)
        with self._file.writing():
            about = {"description": description, "delta": delta}
            new = self._book.begin(run_id, dataset, about, adjacency, unit)
            if roster is not None:
                rosters.note(self._file, run_id, dataset, roster)
            if reserve is not None:
                self._book.reserve(run_id, reserve, "")
            return new

    def reserve(self, run_id: str, events: Events, key: str = "") -> bool:
        """Set `events` aside for the run, or raise BudgetError with nothing charged. True if booked
        now.

        Idempotent per (run, key): a resumed run reserves again for nothing; other events need
        another key.
        """
        with self._file.writing():
            return self._book.reserve(run_id, events, key)

    def charge(self, run_id: str, index: Index, event: Event) -> bool:
        """Book one release before it is drawn; False if (run, index) was charged already and the
        noise must be the same."""
        return self.charge_many(run_id, [(index, event)]) == 1

    def charge_many(self, run_id: str, charges: Iterable[tuple[Index, Event]]) -> int:
        """Book many releases in one transaction, all or none; how many of them are new.

        What the run has reserved is taken from its reservation; anything beyond is compared with
        the budget at once. Equal releases of consecutive rounds become one row (`rounds`).
        """
        with self._file.writing():
            return self._book.charge(run_id, charges)

    def close_run(self, run_id: str) -> list[tuple[Event, int]]:
        """End a run; what it reserved and never charged is free again, and is returned."""
        with self._file.writing():
            run = self._book.open_run(run_id)
            left = self._book.outstanding(run_id)
            released = [[event.to_dict(), count] for event, count in left]
            self._file.append("close", run["dataset"], run_id, body={"released": released})
            self._file.execute("UPDATE runs SET open=0 WHERE run=?", run_id)
            return left

    def close_as_spent(self, run_id: str) -> list[tuple[Event, int]]:
        """End a run of which nobody knows any more what it has released: all that it reserved
        counts as charged for good, and what was not charged before is returned."""
        with self._file.writing():
            return self._book.close_as_spent(run_id)

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
            if self._book.run(run_id) is not None:
                return False
            self._book.begin(run_id, dataset, {"description": description}, adjacency, unit)
            self._book.append_reserve(run_id, dataset, merged(events), "")
            self._book.close_as_spent(run_id)
            return True

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """The whole ledger, with its salt, as it is at one moment, in a new file that is its
        owner's alone; runs may go on meanwhile."""
        self._file.copy_to(Path(path))

    def spent(
        self,
        dataset: str,
        adjacency: str | None = None,
        more: Sequence[tuple[Unit, Events]] = (),
        ids: rosters.Ids | None = None,
    ) -> Spent:
        """Everything charged and reserved on `dataset`, and its curves; with `more`, as if runs of
        these units had reserved that too. ids: what the one of these that has lost most has
        lost."""
        with self._file.reading():
            relation = relations.check(adjacency or self._book.relation(dataset))
            names = tuple(joined(self._file, dataset))
            unit = unit_of(self._file, dataset, (own for own, _ in more))
            found = [
                Spent(
                    dataset,
                    merged(for_unit(unit, charged)),
                    merged(for_unit(unit, [*held, *more])),
                    self.budget(dataset),
                    relation,
                    names,
                    unit,
                )
                for charged, held in self._book.lost(dataset, ids)
            ]
        return found[0] if len(found) == 1 else max(found, key=_loss)

    def spent_by_id(self, dataset: str, adjacency: str | None = None) -> Spent:
        """`spent` by the id that has lost most; by all runs, where no run has a roster."""
        ids = self.ids(dataset)
        return self.spent(dataset, adjacency, ids=ids if len(ids) else None)

    # -- ids

    def hashed(self, names: Iterable[str]) -> rosters.Ids:
        """(n,) ids as this ledger knows them."""
        return rosters.hashes_of(names, self.salt)

    def ids(self, dataset: str) -> rosters.Ids:
        """All that took part in runs of this data set, on either side."""
        found = [one.ids for one in self.rosters_of(dataset).values()]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.uint64)

    def rosters_of(self, dataset: str) -> dict[str, Roster]:
        """By run, in their order."""
        with self._file.reading():
            return rosters.of_data_set(self._file, dataset)

    def covered(self, dataset: str, ids: rosters.Ids, more: Sequence[tuple[Unit, Events]]) -> Flags:
        """(n,) whether each id's budget covers a run that releases that too."""
        with self._file.reading():
            return self._book.covered(dataset, ids, more)

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
            found = self._file.journal.verify(anchor)
            if not found.ok:
                return found
            fault = replayed(self._file.rows()).difference(stored(self._file))
            fault = fault or sketch_fault(self._file, self._file.rows())
            fault = fault or rosters.fault(self._file, self._file.rows())
            return Verification(found.rows, found.rows, fault) if fault else found

    def export(self) -> Iterator[str]:
        """All rows as JSON lines, to be kept elsewhere; `database.verify_lines` checks them."""
        with self._file.reading():
            lines = [canonical_json(row) for row in self._file.rows()]
        return iter(lines)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def _loss(spent: Spent) -> float:
    """For comparing what different ids have lost."""
    at = 1e-5 if spent.budget is None else spent.budget.delta
    curve = judge([*spent.events, *spent.reserved], spent.adjacency)
    return curve.epsilon(at) if at else curve.pure_epsilon


def _delta(delta: float) -> float:
    value = positive("delta", delta, zero=True)
    if value >= 1:
        raise InputError(f"delta must be below 1, not {delta!r}; a usual choice is 1e-5.")
    return value


def _name(what: str, value: str) -> None:
    if not isinstance(value, str) or not value:
        raise InputError(f"{what} must be a text that is not empty, not {value!r}.")
