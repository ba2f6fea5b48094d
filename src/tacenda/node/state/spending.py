"""The lasting ledger of this member's data: the whole run is reserved before round 1, and settled
when the node stops.

While the run is open its full reservation counts against the data's budget, so nothing is ever
under-counted, whatever happens to the process; the run's own state holds the charges message by
message.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import TracebackType
from typing import Any

from tacenda.node.run_plan import RunPlan
from tacenda.node.state.database import Key
from tacenda.privacy.accounting.events import event_from_dict
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.runtime.lasting_run import data_digest


class Spending:
    """`with Spending(...)`: refuses, before any noise is drawn,
    a run that the data's budget does not cover."""

    def __init__(
        self, path: Path, plan: RunPlan, name: str, problem: Any, key: bytes, dataset: str | None
    ) -> None:
        self._plan, self._name, self._path = plan, name, path
        # A state that was lost and begun anew has another key, and is another run: it spends again,
        # and the ledger says so.
        self.run = (
            f"{plan.contract.run_id()[:16]}-{hashlib.sha256(b'run' + key).hexdigest()[:8]}-{name}"
        )
        self._problem, self._dataset = problem, dataset

    @property
    def mark(self) -> Path:
        """Where this run's mark lies (`node.state.mark`): beside the ledger, so it outlives the
        state folder if the ledger does."""
        return self._path.parent / "marks" / f"{self.run}.mark"

    def __enter__(self) -> Spending:
        store = self._store = LedgerStore(self._path)
        self.dataset = self._dataset or store.fingerprint([data_digest(self._problem).encode()])
        known = {run["run"]: run["open"] for run in store.runs()}
        if known.get(self.run, True):
            adjacency = self._plan.contract.privacy.adjacency
            store.open_run(
                self.run, self.dataset, f"{self._plan.contract.title} ({self._name})", adjacency
            )
            store.reserve(self.run, self._plan.events(self._name))
        return self

    def settle(self, charges: list[tuple[Key, dict[str, Any]]], *, final: bool) -> None:
        """Write down what was booked so far;
        after the last round the rest of the reservation is free again."""
        if not next((run["open"] for run in self._store.runs() if run["run"] == self.run), False):
            return
        self._store.charge_many(
            self.run, [(list(key), event_from_dict(event)) for key, event in charges]
        )
        if final:
            self._store.close_run(self.run)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.close()
