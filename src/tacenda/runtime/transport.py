"""How blocks of nodes hand each other released rows. The seam is one method; gRPC and MPI fit
behind it.

`exchange(tag, outgoing, awaited)` sends an array to each block of `outgoing`, and returns what the
blocks of `awaited` have sent under the same tag; where one block sends another several arrays under
one tag, they arrive in the order in which they were sent. Every block calls it for the same tags in
the same order, because all run the same program. `awaited` has a place for the rows of each block:
an array of their shape and type, which a transport may fill and return, or leave.

A transport that sends while its block works on has `begin` too, with the same arguments: it returns
at once, and what it returns waits for the rows. It may set itself up for its arguments: the same
dictionaries come again, with the same arrays in them.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from tacenda._types import Array
from tacenda.errors import NetworkError

Tag = tuple[int, int]  # (round, call within the round)


class Transport(Protocol):
    """One block's end of the wire."""

    def exchange(
        self, tag: Tag, outgoing: dict[int, Array], awaited: dict[int, Array]
    ) -> dict[int, Array]:
        """Send each array to its block; wait for the arrays of others, or the same."""
        ...


@runtime_checkable
class Overlapping(Protocol):
    """A transport whose block works on while rows are on their way."""

    def begin(
        self, tag: Tag, outgoing: dict[int, Array], awaited: dict[int, Array]
    ) -> Callable[[], dict[int, Array]]:
        """Start to send and to receive; the function that is returned waits."""
        ...


@runtime_checkable
class Signing(Protocol):
    """A transport whose blocks sign what they send."""

    def from_root(self, tag: Tag, root: int, *, of_group: bool) -> None:
        """Note that the rows under this tag are those of the node at position `root`: who passes
        them on shows its signature with them. of_group: they are a group's, and the root of the
        whole tree hands down those of all groups after them."""
        ...

    def false_sums(self, tag: Tag) -> None:
        """Note that the rows of all groups under this tag are not those of the groups' roots."""
        ...


class NoTransport:
    """For the single block that hosts all nodes: there is nobody to send to."""

    def exchange(
        self, tag: Tag, outgoing: dict[int, Array], awaited: Iterable[int]
    ) -> dict[int, Array]:
        if outgoing or list(awaited):
            raise NetworkError(
                "A single block has no one to send to; this is a defect of its placement."
            )
        return {}


class InProcess:
    """Where the blocks of one process hand each other rows. One lock lets a single block work at a
    time.

    So compiled kernels with threads of their own never run at once, and every run takes the same
    course.
    """

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self._mail: dict[tuple[Tag, int, int], deque[Array]] = defaultdict(deque)
        self._failed: BaseException | None = None

    def exchange(
        self, me: int, tag: Tag, outgoing: dict[int, Array], awaited: Iterable[int]
    ) -> dict[int, Array]:
        """Called by a block that holds the lock; waiting lets the others work."""
        for other, rows in outgoing.items():
            self._mail[tag, me, other].append(rows.copy())
        self.lock.notify_all()
        received = {}
        for other in awaited:
            while (tag, other, me) not in self._mail:
                self._raise_if_failed()
                self.lock.wait()
            waiting = self._mail[tag, other, me]
            received[other] = waiting.popleft()
            if not waiting:
                del self._mail[tag, other, me]
        return received

    def fail(self, error: BaseException) -> None:
        """Wake everybody who waits for a block that will not answer."""
        self._failed = self._failed or error
        self.lock.notify_all()

    def _raise_if_failed(self) -> None:
        if self._failed is not None:
            raise NetworkError("Another block of this run failed.") from self._failed


class InProcessEnd:
    """One block's end of an in-process transport."""

    def __init__(self, shared: InProcess, me: int) -> None:
        self._shared, self._me = shared, me

    def exchange(
        self, tag: Tag, outgoing: dict[int, Array], awaited: Iterable[int]
    ) -> dict[int, Array]:
        return self._shared.exchange(self._me, tag, outgoing, awaited)
