"""A simulation that is charged to a lasting ledger: what its data set loses is kept beyond the run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.content import content_hash
from tacenda.privacy.events import Event, merged
from tacenda.privacy.ledger import Charge, Charges
from tacenda.privacy.store import LedgerStore


class LastingRun:
    """One run's account in the ledger file. The whole run is reserved first, and each release charged before its draw.

    The data set is the pool of all nodes' records; a record lives on one node, so each release is charged at the worst node's
    parameters. The run is known by all that its releases depend on: the same run again draws the same noise, and costs nothing
    more; any other run has another name, and with it other noise (`SimulatedNoise.named`), so that the two compose.
    """

    def __init__(
        self, path: str | Path, dataset: str | None, problem: Any, name: str, identity: dict[str, Any], reserved: Charges, relation: str
    ) -> None:
        self.run = f"simulation-{content_hash(identity)[:24]}"
        self._store = LedgerStore(path)
        self.dataset = self._store.fingerprint([data_digest(problem).encode()]) if dataset is None else dataset
        self._ahead: list[Event] = [charge.worst() for charge, count in reserved for _ in range(count)]
        self._made = 0
        self._ended = any(row["run"] == self.run and not row["open"] for row in self._store.runs(self.dataset))
        if not self._ended:
            self._store.open_run(self.run, self.dataset, f"simulation of {name}", relation)
            self._store.reserve(self.run, merged((event, 1) for event in self._ahead))

    def charge(self, turn: int, call: int, charge: Charge) -> None:
        """Book the next release at its worst node's cost; the same place is booked once."""
        self._store.charge(self.run, (turn, call), self._ahead[self._made])
        self._made += 1

    def skip(self, made: int) -> None:
        """Releases made before the run was resumed: they are booked already."""
        self._made = made

    def close(self) -> None:
        """End the run: what was reserved and never released is given back."""
        if not self._ended:
            self._store.close_run(self.run)
        self._store.close()


def data_digest(problem: Any) -> str:
    """A fingerprint of the records, to tell data sets apart on this machine; not for sending."""
    digest = hashlib.blake2b(digest_size=16)
    rows = problem.store.rows if isinstance(problem.store.rows, tuple) else (problem.store.rows,)
    for array in (*rows, problem.store.labels):
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
