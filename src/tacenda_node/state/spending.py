"""The lasting ledger of this member's data: the whole run is reserved before round 1, and settled
when the node stops.

While the run is open its full reservation counts against the data's budget, so nothing is ever
under-counted, whatever happens to the process; the run's own state holds the charges message by
message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from tacenda.errors import StateError
from tacenda.privacy.accounting.events import event_from_dict
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.rosters import Roster
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.run_plan import RunPlan
from tacenda_node.state.database import Key

EVALUATION = "+evaluation"  # behind a member's name: its part in the closing run


def ledger_run(contract: Contract, state: str, name: str) -> str:
    """The run's name in the member's ledger. state: which state folder, in a word; name: the
    member's, with `EVALUATION` behind it for the closing run."""
    return f"{contract.run_id()[:16]}-{state}-{name}"


def is_run_of(run: str, contract: Contract, name: str) -> bool:
    """Whether this is the ledger's name of the contract's run, with whatever state."""
    first, _, rest = run.partition("-")
    return first == contract.run_id()[:16] and rest.partition("-")[2] == name


def is_evaluation_of(run: str, contract: Contract, name: str) -> bool:
    """Whether this is the ledger's name of the contract's closing run, with whatever state."""
    first, _, rest = run.partition("-")
    own = rest.partition("-")[2]
    return first == contract.run_id()[:16] and own.startswith(f"{name}{EVALUATION}")


class Spending:
    """`with Spending(...)`: refuses, before any noise is drawn,
    a run that the data's budget does not cover."""

    def __init__(
        self,
        path: Path,
        plan: RunPlan,
        name: str,
        key: bytes,
        dataset: str,
        *,
        rehearsal: bool = False,
        closes: Contract | None = None,
        roster: Roster | None = None,
    ) -> None:
        """closes: of a closing run, the contract that it belongs to: it is reserved before its
        model, and with it its own contract, is known. roster: the ids that take part, where each
        has a budget of its own."""
        self._roster = roster
        self._plan, self._name, self._path = plan, name, path
        self._rehearsal = rehearsal
        self._contract = closes or plan.contract
        self._part = name if closes is None else f"{name}{EVALUATION}"
        # Without those who were absent at the end of the training it is another reservation
        if closes is not None and len(plan.contract.members) < len(closes.members):
            self._part += f"-by-{len(plan.contract.members)}"
        # A state that was lost and begun anew has another key, and is another run.
        state = hashlib.sha256(b"run" + key).hexdigest()[:8]
        self.run = ledger_run(self._contract, state, self._part)
        self.dataset = dataset
        self.anew = ""  # why this state must not send anything as from the run's beginning
        self._closed = False

    @property
    def mark(self) -> Path:
        """Where this run's mark lies (`node.state.mark`): beside the ledger, so it outlives the
        state folder if the ledger does."""
        return self._path.parent / "marks" / f"{self.run}.mark"

    def __enter__(self) -> Spending:
        store = self._store = LedgerStore(self._path)
        known = {run["run"]: run["open"] for run in store.runs()}
        self.anew = "" if self._rehearsal else self._begun_before(known)
        if self.anew and self._plan.contract.absence.policy != "continue":
            store.close()
            raise StateError(self.anew)
        self._closed = not known.get(self.run, True)
        if not self._closed:
            privacy = self._plan.contract.privacy
            title = f"{self._plan.contract.title} ({self._name})"
            events = self._plan.reservation(self._name)
            store.open_run(
                self.run,
                self.dataset,
                title,
                privacy.adjacency,
                events,
                self._plan.unit,
                privacy.delta,
                self._roster,
            )
        return self

    def _begun_before(self, known: Iterable[str]) -> str:
        """The refusal, if the ledger holds this contract under another state.

        Begun anew in an empty folder a contract would have other rows signed in the name of the
        same run, and one row of the first beginning would convict this member, who is honest.
        """
        for run in known:
            same = is_run_of(run, self._contract, self._part) and run != self.run
            if same and self._store.holds(run):
                return (
                    f"{self._name} has begun this contract before, with another state: run {run} "
                    f"in the ledger {self._path}. Rows that it signed then may still be with its "
                    "neighbours, and rows of a second beginning would contradict them. "
                    "Put that state folder back to continue with the run; if it is lost, let all "
                    "members sign a new contract (another title is enough, for example one with "
                    "today's date). Nothing was sent."
                )
        return ""

    def require_open(self) -> None:
        """Refuse to go on with a run that the ledger has closed: what it had reserved and not spent
        is free again, and may have been given to other runs."""
        if self._closed:
            raise StateError(
                f"The run {self.run} is closed in the ledger {self._path}: {self._name} has left "
                "or finished it, and the rest of its reservation is free again. This state is a "
                "copy from before that; nothing more is released from it. Take part in a new run "
                "under a new contract."
            )

    def settle(
        self, charges: list[tuple[Key, dict[str, Any]]], *, final: bool, run: str | None = None
    ) -> None:
        """Write down what was charged so far; after the last round the rest of the reservation is
        free again. run: the one that it was charged to, by default this one."""
        booked_as = self.run if run is None else run
        self._store.charge_many(
            booked_as, [(list(key), event_from_dict(event)) for key, event in charges]
        )
        if final:
            self._close(booked_as)

    def give_back(self) -> None:
        """Free a reservation from which nothing was, or will be, released."""
        self._close(self.run)

    def _close(self, run: str) -> None:
        if any(known["open"] for known in self._store.runs() if known["run"] == run):
            self._store.close_run(run)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.close()
