"""`MPI`: one simulation over several processes, on one machine or on many (extra `mpi`).

Every rank runs the same script. It hosts its own nodes, holds only their records, and sends rows
to its neighbours' ranks without waiting for them before it must. Sums over nodes are made in the
graph's order or up the spanning tree, wherever the nodes are, so that the result is that of one
process, to the last bit.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from tacenda._launched import launched
from tacenda._types import Array
from tacenda.errors import InputError, NetworkError, StateError
from tacenda.graph.locality import near_parts
from tacenda.graph.topology import Topology
from tacenda.runtime.mpi_transport import MPITransport
from tacenda.runtime.network import placement
from tacenda.runtime.ranks import ALONE, Ranks, ends_of
from tacenda.sources import versions

T = TypeVar("T")
SAME_PACKAGES = "install the same packages on all machines of the run"
_GRACE = 5.0  # seconds in which rank 0 may say itself what is wrong


class MPI(Ranks):
    """The ranks of an MPI program, as the transport of a simulation.

    Start the script with `mpiexec -n 4 python script.py`, give the same `tc.MPI()` to everything,
    and every rank gets the same result. From here on an error that ends one rank's script ends all
    ranks, with its message, instead of leaving the others waiting.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or None, default=None
        The communicator; None takes a copy of the world's, which holds all ranks.

    Attributes
    ----------
    rank : int
        Number of this process, from 0. Rank 0 writes files and shows progress.
    size : int
        How many processes there are.

    Raises
    ------
    ImportError
        If mpi4py is not installed.
    StateError
        If the ranks run different versions of the program or of its packages.

    Examples
    --------
    >>> import tacenda as tc
    >>> mpi = tc.MPI()  # doctest: +SKIP
    >>> graph = tc.graph.ring(1000)
    >>> shards = [records_of(k) for k in mpi.nodes(graph)]  # doctest: +SKIP
    >>> problem = tc.Problem(shards, classes=(0, 1))  # doctest: +SKIP
    >>> tc.simulate(problem, graph, "cdpadmm", 50, transport=mpi)  # doctest: +SKIP
    """

    def __init__(self, comm: Any = None) -> None:
        try:
            from mpi4py import MPI as library
        except (ImportError, RuntimeError) as missing:
            raise ImportError(
                f"Several processes need mpi4py and an MPI library ({missing}): "
                "pip install 'tacenda[mpi]' mpich, or use the MPI of your cluster."
            ) from None
        self._library = library
        self._comm = library.COMM_WORLD.Dup() if comm is None else comm
        self._ending = self._comm.Dup()  # where ranks meet that have failed
        self.rank, self.size = int(self._comm.Get_rank()), int(self._comm.Get_size())
        self._known: dict[Any, list[Array]] = {}
        self._flags: dict[int, Array] = {}
        self._failed: bool | None = None
        if self.size > 1:
            _met.append(self)  # before the first thing that may go wrong on all
            self._before, sys.excepthook = sys.excepthook, self._last_words
            self.check_same(versions(), SAME_PACKAGES)

    def __repr__(self) -> str:
        return f"MPI(rank={self.rank}, size={self.size})"

    def nodes(self, graph: Any) -> Array:
        """Give the positions of the nodes that this rank hosts.

        Nodes that are near each other in the graph are put on one rank, so that little is sent.

        Result: positions in the graph's own order of its nodes, ascending.
        """
        return self.parts(Topology.of(graph), 1)[self.rank]

    def parts(self, topology: Topology, blocks: Any) -> list[Array]:
        """The nodes of each rank: near each other in the graph for blocks=1, cut by their numbers
        for as many blocks as ranks, or as the lists of positions say."""
        if not isinstance(blocks, (int, np.integer)) or blocks not in (1, self.size):
            found = placement(topology.n, blocks)
            if len(found) != self.size:
                raise InputError(
                    f"blocks must be 1, the number of ranks ({self.size}) or one list of positions "
                    f"for each rank, not {len(found)} blocks."
                )
            return found
        if self.size > topology.n:
            raise InputError(
                f"{self.size} ranks are more than the graph's {topology.n} nodes; start fewer "
                "(mpiexec -n)."
            )
        if blocks == self.size:
            return placement(topology.n, self.size)
        content = (topology.indptr, topology.indices)
        key = hashlib.blake2b(b"".join(a.tobytes() for a in content)).digest()
        if key not in self._known:
            # At the root alone: another version of METIS elsewhere must not matter
            work = lambda: near_parts(topology, self.size)  # noqa: E731
            self._known = {key: self.by_root(work, "dividing the graph")}
        return self._known[key]

    def end(self) -> MPITransport:
        return MPITransport(self._library, self._comm)

    def agreed(self, work: Callable[[], T], doing: str) -> T:
        mine: Exception | None = None
        result: Any = None
        try:
            result = work()
        except Exception as error:  # raised again below, when the others know of it
            mine = error
        words = None if mine is None else f"{type(mine).__name__}: {mine}"
        failed = [(k, text) for k, text in enumerate(self._comm.allgather(words)) if text]
        if mine is not None:
            raise mine
        if failed:
            rank, text = failed[0]
            raise NetworkError(f"Rank {rank} of {self.size} failed while {doing}: {text}")
        return result

    def by_root(self, work: Callable[[], T], doing: str) -> T:
        result = self.agreed(lambda: work() if self.root else None, doing)
        return self._comm.bcast(result, root=0)

    def check_same(self, named: dict[str, Any], remedy: str) -> None:
        all_of_them = self._comm.allgather(named)
        for name in dict.fromkeys(name for one in all_of_them for name in one):
            value = all_of_them[0].get(name)
            for rank, other in enumerate(all_of_them):
                if other.get(name) != value:
                    raise StateError(
                        f"The ranks of this run differ in {name}: {value!r} on rank 0, "
                        f"{other.get(name)!r} on rank {rank}; {remedy}."
                    )

    def gathered(self, rows: Array, parts: list[Array]) -> Array:
        mine = np.ascontiguousarray(rows)
        counts = [len(part) for part in parts]
        row = int(np.prod(mine.shape[1:], dtype=np.int64)) * mine.itemsize
        ends = ends_of(counts) * row
        found = np.empty((int(sum(counts)), *mine.shape[1:]), mine.dtype)
        byte = self._library.BYTE
        self._comm.Allgatherv(
            [mine, byte], [found, (np.diff(ends).tolist(), ends[:-1].tolist()), byte]
        )
        whole = np.empty_like(found)
        whole[np.concatenate(parts)] = found
        return whole

    def at_root(self, rows: Array) -> list[Array] | None:
        mine, byte = np.ascontiguousarray(rows), self._library.BYTE
        counts = self._comm.gather(len(mine), root=0)
        if counts is None:
            self._comm.Gatherv([mine, byte], None, root=0)
            return None
        ends = ends_of(counts)
        found = np.empty((int(ends[-1]), *mine.shape[1:]), mine.dtype)
        bytes_at = ends * (found.nbytes // max(1, len(found)))
        places = (np.diff(bytes_at).tolist(), bytes_at[:-1].tolist())
        self._comm.Gatherv([mine, byte], [found, places, byte], root=0)
        return [found[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]

    def each(self, value: T) -> list[T]:
        return list(self._comm.allgather(value))

    def most(self, *flags: int) -> list[int]:
        both = self._flags.setdefault(len(flags), np.empty((2, len(flags)), np.int64))
        both[0] = flags
        self._comm.Allreduce(both[0], both[1], self._library.MAX)
        return [int(value) for value in both[1]]

    def total(self, rows: Array) -> Array:
        mine = np.ascontiguousarray(rows)
        all_of_them = np.empty((self.size, *mine.shape), mine.dtype)
        self._comm.Allgather(mine, all_of_them)
        result = all_of_them[0].copy()
        for other in all_of_them[1:]:
            result += other
        return result

    def stop(self, error: BaseException, doing: str) -> None:
        if not self.all_failed():
            words = " ".join(str(error).split())
            if os.environ.get("TACENDA_DEBUG"):
                traceback.print_exception(error, file=sys.stderr)
            self.abort(f"rank {self.rank} of {self.size} failed {doing}: {words}")

    def all_failed(self) -> bool:
        """Tell whether every rank ends with an error at this time.

        So it is where the same settings are wrong for all; then each may end by itself.

        Result: false if some rank did not come within five seconds.
        """
        if self._failed is None:
            meeting, until = self._ending.Ibarrier(), time.monotonic() + _GRACE
            while not meeting.Test() and time.monotonic() < until:
                time.sleep(0.01)
            self._failed = bool(meeting.Test())
        return self._failed

    def code_of_all(self, code: int) -> int:
        """Rank 0's exit code, for ranks that have all failed.

        A starter joins different ones into a number that means nothing.
        """
        return int(self._ending.bcast(code, root=0))

    def abort(self, words: str, code: int = 5) -> None:
        """End all ranks at once."""
        print(f"tacenda: {words.rstrip('.')}; all ranks are ended.", file=sys.stderr, flush=True)
        sys.stdout.flush()
        self._comm.Abort(code)

    def _last_words(self, kind: Any, error: Any, trace: Any) -> None:
        """What ends this rank's script ends all: a rank that waits for one that has gone would
        wait for ever."""
        together = self._library.Is_finalized() or self.all_failed()
        if self.root or not together:
            self._before(kind, error, trace)
        if not together:
            self.abort(f"rank {self.rank} of {self.size} ended with the error above")


_met: deque[MPI] = deque(maxlen=1)


def started() -> MPI | None:
    """The ranks of this process, if there are several and they have met.

    Returns
    -------
    MPI or None
        Those that met last, also where they could not agree to begin.
    """
    return _met[-1] if _met else None


@lru_cache(maxsize=1)
def world() -> Ranks:
    """The ranks that this command was started with: itself alone, or all of `mpiexec -n`."""
    if launched() == 1:
        return ALONE
    found = MPI()
    if found.size != launched():
        raise StateError(
            f"{launched()} processes were started, and mpi4py's MPI library sees {found.size}: the "
            "starter belongs to another MPI library; use the mpiexec that was installed with it."
        )
    return found
