"""A simulation that is charged to a lasting ledger:
what its data set loses is kept beyond the run."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.content import content_hash
from tacenda.errors import BudgetError, LedgerWarning
from tacenda.privacy.accounting.events import Event, Gaussian, merged
from tacenda.privacy.lasting.accounts import Account
from tacenda.privacy.lasting.fingerprints import Marks, joined_marks, marks_as_read, marks_of
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.units import Unit
from tacenda.privacy.secrets.ledger import Charge
from tacenda.problem.problem import Problem
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.spec import RunSpec

NOTHING_HIDDEN = Gaussian(0.0)  # a release without noise


class LastingRun:
    """One run's account in the ledger file. The whole run is reserved first, and each release
    charged before its draw.

    The data set is the pool of all nodes' records; a record lives on one node, so each release is
    charged at the worst node's parameters, and `unit` says who loses that, and at how many nodes.
    The run is named by all that its releases depend on: the same run again draws the same noise,
    and costs nothing more; any other run has another name, and with it other noise
    (`SimulatedNoise.named`), so that the two compose.

    A run without privacy is refused where the records have a budget, and is booked as an infinite
    loss where they have none.
    """

    def __init__(
        self,
        path: str | Path,
        dataset: str | None,
        shards: LocalShards,
        spec: RunSpec,
        identity: dict[str, Any],
    ) -> None:
        self._spec, self._unit = spec, unit_of(shards.problem)
        reserved = None if spec.calibration is None else spec.calibration.reserved
        self.run = f"simulation-{content_hash(identity)[:24]}"
        self._ahead: list[Event] = [
            charge.worst() for charge, count in reserved or () for _ in range(count)
        ]
        self._made, self._ranks = 0, shards.ranks
        self._file: LedgerStore | None = None
        self._ranks.agreed(lambda: self._open(path), "opening the ledger")
        try:
            marks = self._marks(shards)
            self._ranks.agreed(
                lambda: self._enter(shards, marks, dataset), "opening the run in the ledger"
            )
        except BaseException:
            self._shut()
            raise

    @property
    def _store(self) -> LedgerStore:
        assert self._file is not None
        return self._file

    def _open(self, path: str | Path) -> None:
        """The file is the root's alone."""
        if self._ranks.root:
            self._file = LedgerStore(path)

    def _shut(self) -> None:
        if self._file is not None:
            self._file.close()

    def _marks(self, shards: LocalShards) -> Marks | None:
        """Of the records of all ranks, where no process has all of them, or the root their
        fingerprints."""
        if shards.whole is not None:
            return None
        as_read = shards.problem.fingerprints
        if self._ranks.by_root(lambda: as_read is not None, "looking for fingerprints"):
            if as_read is None or not self._ranks.root:
                return None
            return marks_as_read(as_read, self._store.salt)
        key = self._ranks.by_root(lambda: self._store.salt, "reading the ledger")
        table = shards.problem.store
        return joined_marks(self._ranks.each(marks_of(table.rows, table.labels, key)))

    def _enter(self, shards: LocalShards, marks: Marks | None, dataset: str | None) -> None:
        if not self._ranks.root:
            return
        if shards.whole is not None:
            account = account_of(self._store, shards.whole, dataset)
        else:
            assert marks is not None
            account = self._store.account_of_marks(marks, dataset)
        for note in account.notes:
            warnings.warn(note, LedgerWarning, stacklevel=8)
        self.dataset = account.name
        self._ended = any(row["run"] == self.run and not row["open"] for row in self._store.runs())
        if not self._ended:
            self._begin()

    def _begin(self) -> None:
        privacy, private = self._spec.privacy, self._spec.privacy is not None
        budget = self._store.budget(self.dataset)
        if not private and budget is not None:
            raise BudgetError(
                f"data set {self.dataset!r} has a budget (epsilon {budget.epsilon:g}), "
                "and a run with privacy=None would spend all of it and more: "
                "its messages hide nothing. Give a privacy, "
                "or leave the ledger out for records that need no protection."
            )
        self._store.open_run(
            self.run,
            self.dataset,
            f"simulation of {self._spec.algorithm.name}{'' if private else ', not private'}",
            self._spec.facts.adjacency,
            merged((event, 1) for event in self._ahead) if private else None,
            self._unit,
            None if privacy is None else privacy.delta,
        )
        whole = self._store.spent(self.dataset).unit
        if self._unit.records is None and whole.size > 1:
            warnings.warn(
                f"this run protects single records, and the account {self.dataset!r} is about "
                f"{whole}: its releases are charged there as those of {whole.size} records. Give "
                "the persons behind the records, and it costs less.",
                LedgerWarning,
                stacklevel=9,
            )
        if not private:
            self._store.charge(self.run, "not private", NOTHING_HIDDEN)

    def charge(self, turn: int, call: int, charge: Charge) -> None:
        """Book the next release at its worst node's cost; the same place is booked once. No rank
        draws before the root has booked it."""
        event = self._ahead[self._made]
        self._ranks.agreed(
            lambda: self._store.charge(self.run, (turn, call), event) if self._ranks.root else None,
            "charging the ledger",
        )
        self._made += 1

    def skip(self, made: int) -> None:
        """Releases made before the run was resumed: they are charged already."""
        self._made = made

    def close(self) -> None:
        """End the run: what was reserved and never released is given back."""
        if self._file is not None and not self._ended:
            self._file.close_run(self.run)
        self._shut()


def unit_of(problem: Problem) -> Unit:
    """Who loses what a run on these records is charged for."""
    if problem._persons is None or problem.one_record:
        return Unit()
    return Unit(problem.records_per_person, problem.members_per_person)


def account_of(store: LedgerStore, problem: Problem, dataset: str | None) -> Account:
    """The account to which runs on this problem's records are booked, with what the user should be
    told about it."""
    return store.account_of_marks(marks_of_problem(problem, store.salt), dataset)


def marks_of_problem(problem: Problem, key: bytes) -> Marks:
    """By what a ledger with this key knows the records again: as they were read, else as they
    are."""
    if problem.fingerprints is not None:
        return marks_as_read(problem.fingerprints, key)
    return marks_of(problem.store.rows, problem.store.labels, key)


def data_digest(problem: Problem) -> str:
    """A fingerprint of the records in their order and place, to tell runs apart on this machine;
    not for sending."""
    digest = hashlib.blake2b(digest_size=16)
    rows = problem.store.rows if isinstance(problem.store.rows, tuple) else (problem.store.rows,)
    own = () if problem.store.weights is None else (problem.store.weights,)
    for array in (*rows, problem.store.labels, *own):
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
