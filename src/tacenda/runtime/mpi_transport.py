"""Rows between the ranks of an MPI program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import NetworkError
from tacenda.runtime.transport import Tag


class MPITransport:
    """One rank's transport, whose blocks are ranks.

    Messages between two ranks arrive in the order in which they were sent, and all ranks ask for
    them in the same order, so the tag (round, call) itself is not sent.
    """

    def __init__(self, library: Any, comm: Any) -> None:
        self._library, self._comm = library, comm
        self._persistent: dict[int, _Persistent] = {}

    def __del__(self) -> None:
        if not self._library.Is_finalized():
            for one in self._persistent.values():
                for request in one.requests:
                    request.Free()

    def exchange(
        self, tag: Tag, outgoing: dict[int, Array], awaited: dict[int, Array]
    ) -> dict[int, Array]:
        comm, byte = self._comm, self._library.BYTE
        requests = [comm.Irecv([rows, byte], other) for other, rows in awaited.items()]
        packed = [np.ascontiguousarray(rows) for rows in outgoing.values()]
        for other, rows in zip(outgoing, packed, strict=True):
            requests.append(comm.Isend([rows, byte], other))
        states = [self._library.Status() for _ in requests]
        self._library.Request.Waitall(requests, states)
        self._check(tag, states, awaited)
        return awaited

    def begin(
        self, tag: Tag, outgoing: dict[int, Array], awaited: dict[int, Array]
    ) -> Callable[[], dict[int, Array]]:
        """Start the exchange and return a function that waits for it. Its requests are set up once
        for these arrays."""
        one = self._persistent.get(id(awaited))
        if one is None:
            comm, byte = self._comm, self._library.BYTE
            requests = [comm.Recv_init([rows, byte], other) for other, rows in awaited.items()]
            requests += [comm.Send_init([rows, byte], other) for other, rows in outgoing.items()]
            states = [self._library.Status() for _ in requests]
            # It keeps the dictionaries, so no other ones ever have their place in memory
            one = self._persistent[id(awaited)] = _Persistent(requests, states, outgoing, awaited)
        self._library.Prequest.Startall(one.requests)
        known = one

        def wait() -> dict[int, Array]:
            self._library.Request.Waitall(known.requests, known.states)
            self._check(tag, known.states, awaited)
            return awaited

        return wait

    def _check(self, tag: Tag, states: list[Any], awaited: dict[int, Array]) -> None:
        for state, (other, rows) in zip(states, awaited.items(), strict=False):
            count = state.Get_count(self._library.BYTE)
            if count != rows.nbytes:
                raise NetworkError(
                    f"Rank {other} sent {count} bytes where {rows.nbytes} were due "
                    f"(round {tag[0]}, call {tag[1]})."
                )


@dataclass(frozen=True, eq=False)
class _Persistent:
    """Requests for one set of buffers: those that receive first, then those that send."""

    requests: list[Any]
    states: list[Any]
    outgoing: dict[int, Array]
    awaited: dict[int, Array]
