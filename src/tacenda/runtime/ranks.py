"""The processes of one simulation. Usually there is a single one; under MPI there are several,
called ranks, and each hosts some of the nodes (`runtime.mpi`).

All of them run the same program, so what all must know is told in calls that all make in the same
order. Files, screens and the lasting ledger belong to rank 0, the root.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.runtime.network import placement
from tacenda.runtime.transport import Transport

T = TypeVar("T")


class Ranks:
    """The trivial case: a single process. See `MPI` for several."""

    rank, size = 0, 1

    @property
    def root(self) -> bool:
        """Whether files, screens and the ledger are this process's."""
        return self.rank == 0

    def parts(self, topology: Topology, blocks: Any) -> list[Array]:
        """The nodes of each block: all blocks are here."""
        return placement(topology.n, blocks)

    def end(self) -> Transport:
        """This process's end of the wire to the others."""
        raise InputError("A single process has no one to send to; give transport=tc.MPI().")

    def agreed(self, work: Callable[[], T], doing: str) -> T:
        """work() here; where it fails in one process, it fails in all."""
        return work()

    def by_root(self, work: Callable[[], T], doing: str) -> T:
        """What work() gives at the root, told to all."""
        return work()

    def check_same(self, named: dict[str, Any], remedy: str) -> None:
        """Refuse to go on where the processes differ in one of these values."""

    def gathered(self, rows: Array, parts: list[Array]) -> Array:
        """(n, ...) the rows of all nodes in the graph's order, from those of the nodes here."""
        return rows

    def at_root(self, rows: Array) -> list[Array] | None:
        """The rows of every process, by rank, at the root; None elsewhere. Processes may have
        different numbers of rows."""
        return [rows]

    def each(self, value: T) -> list[T]:
        """The value of every process, by rank."""
        return [value]

    def most(self, *flags: int) -> list[int]:
        """The largest of each over all processes; for a few small numbers every round."""
        return list(flags)

    def total(self, rows: Array) -> Array:
        """The sum over all processes, added up in the order of the ranks."""
        return rows

    def stop(self, error: BaseException, doing: str) -> None:
        """Called with an error that only this process may have: ends the others too."""


ALONE = Ranks()


def ends_of(counts: list[int]) -> Array:
    """0 and the running totals."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
