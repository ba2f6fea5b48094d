"""`run_calls`: independent calls on an engine, in any order.

A call that is lost with its worker is made again, at most RETRIES times: at first among the others,
then alone, so that a call which ends every worker is known by its name and harms no other. An error
of a call itself ends the whole at once; whatever ends it, calls that have not begun are withdrawn.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import socket
import time
import uuid
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from tacenda.engines.engine import Engine
from tacenda.engines.pools import RETRIES, Pool, opened
from tacenda.errors import EngineError, EngineWarning
from tacenda.sources import versions
from tacenda.threads import limit_threads
from tacenda.words import counted

ALONE = 2  # so many losses, and a call is made while no other is at work
HOPELESS = 3  # so many calls that ended all their workers, and none that was finished
BEAT_SECONDS = 1.0
LOOK_SECONDS = 5.0
IDLE_SECONDS = 120.0  # so long a cluster may be without any worker
# In the words of an error about a call that a scheduler or a worker could not even read
UNREAD = (
    "No module named 'tacenda",
    "Can't get attribute 'called'",
    "deserialization of the task graph",
)


class Place(NamedTuple):
    """What a call has to find where it is made, and how many threads it may use there."""

    versions: dict[str, str]
    mark: str | None
    threads: int


class Call(NamedTuple):
    """One call of a function.

    Parameters
    ----------
    name : str
        What messages call it.
    function : callable
        The function; it must be importable where the call is made.
    values : tuple, default=()
        Its arguments.

    Examples
    --------
    >>> import math
    >>> import tacenda as tc
    >>> tc.engines.Call("root of 2", math.sqrt, (2.0,)).name
    'root of 2'
    """

    name: str
    function: Callable[..., Any]
    values: tuple[Any, ...] = ()


def run_calls(
    engine: Engine,
    calls: Sequence[Call],
    jobs: int,
    take: Callable[[int, Any], None],
    *,
    shared: Any = None,
    folder: str | Path | None = None,
    beat: Callable[[], None] | None = None,
) -> None:
    """Make independent calls on many cores or machines, in any order.

    A call whose worker dies is made again. An error of a call itself ends the whole.

    Parameters
    ----------
    engine : Engine
        Where.
    calls : sequence of Call
        What to call.
    jobs : int
        Processes of this machine; a cluster uses its own.
    take : callable
        Called as take(position, result) for every call that is done.
    shared : object, default=None
        The first argument of every call, unless None; sent to a cluster once.
    folder : str, Path or None, default=None
        Where the calls write: workers of a cluster that do not see it are refused.
    beat : callable or None, default=None
        Called every second in which no call ends.

    Raises
    ------
    EngineError
        If the workers are gone or of no use.

    Examples
    --------
    >>> import math
    >>> import tacenda as tc
    >>> calls = [tc.engines.Call(f"root of {x}", math.sqrt, (x,)) for x in (4.0, 9.0)]
    >>> found = {}
    >>> tc.engines.run_calls(tc.engines.Engine(), calls, 1, found.__setitem__)
    >>> found[0], found[1]
    (2.0, 3.0)
    """
    with _mark(engine, folder) as mark, opened(engine, min(jobs, len(calls))) as pool:
        _Calls(engine, calls, pool, take, beat or _nothing, mark, shared).run()


def _nothing() -> None:
    """Nobody watches."""


class _Calls:
    """The calls of one `run_calls`: what waits, what is at work, what was lost."""

    def __init__(
        self,
        engine: Engine,
        calls: Sequence[Call],
        pool: Pool,
        take: Callable[[int, Any], None],
        beat: Callable[[], None],
        mark: str | None,
        shared: Any,
    ) -> None:
        self.engine, self.calls, self.pool = engine, calls, pool
        self.take, self.beat = take, beat
        self.place = Place(versions(), mark, pool.threads)
        self.shared = None if shared is None else pool.share(pool.packed(shared))
        self.waiting, self.alone = deque(range(len(calls))), deque[int]()
        self.at_work: dict[Future[Any], int] = {}
        self.ended: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self.lost: Counter[int] = Counter()
        self.fatal: list[int] = []  # calls that ended every worker
        self.done = 0
        self.looked = self.peopled = time.monotonic()
        self.told = False

    def run(self) -> None:
        try:
            while self.waiting or self.alone or self.at_work:
                self._begin()
                try:
                    job = self.ended.get(timeout=BEAT_SECONDS)
                except queue.Empty:
                    self.beat()
                    self._look()
                else:
                    self._end(self.at_work.pop(job), job)
        finally:
            self.pool.withdraw(list(self.at_work))
        if self.fatal:
            raise self._killers()

    @property
    def _left(self) -> str:
        return counted(len(self.calls) - self.done, "run")

    def _begin(self) -> None:
        most = self.pool.most or len(self.calls)
        while self.waiting and not self.alone and len(self.at_work) < most:
            self._submit(self.waiting.popleft())
        if self.alone and not self.at_work:
            self._submit(self.alone.popleft())

    def _submit(self, k: int) -> None:
        _, function, values = self.calls[k]
        try:
            job = self.pool.submit(
                called, tuple(self.place), self.shared, self.pool.packed((function, values))
            )
        except self.pool.gone as gone:
            raise self._away(gone) from None
        self.at_work[job] = k
        job.add_done_callback(self.ended.put)

    def _end(self, k: int, job: Future[Any]) -> None:
        try:
            what, found = self.pool.result(job)
        except self.pool.lost:
            self._lose(k)
            return
        except self.pool.gone as gone:
            raise self._away(gone) from None
        except (ImportError, AttributeError, RuntimeError) as unread:
            if not any(words in str(unread) for words in UNREAD):
                raise
            why = str(unread).partition(". ")[0]
            raise EngineError(
                f"engine {self.engine} cannot load this program ({why}); install the same version "
                "of tacenda where the scheduler and the workers run, and start them again."
            ) from None
        if what != DONE:
            raise self._refused(what, found)
        self.done += 1
        self.take(k, found)

    def _lose(self, k: int) -> None:
        self.lost[k] += self.pool.losses
        if self.lost[k] > RETRIES:
            self.fatal.append(k)
            if len(self.fatal) >= HOPELESS and not self.done:
                raise self._killers()
            return
        (self.waiting if self.lost[k] < ALONE else self.alone).appendleft(k)
        warnings.warn(
            f"engine {self.engine}: a worker was lost with {self.calls[k].name}, which is made "
            "again.",
            EngineWarning,
            stacklevel=4,
        )

    def _killers(self) -> EngineError:
        names = ", ".join(self.calls[k].name for k in self.fatal)
        others = len(self.calls) - self.done - len(self.fatal)
        rest = f"; {counted(others, 'other')} not done" if others else ""
        return EngineError(
            f"engine {self.engine}: every worker that began with it was lost, at least "
            f"{RETRIES + 1} times: {names}{rest}. What is finished is stored: see whether the "
            "workers have enough memory, then start again."
        )

    def _away(self, error: BaseException) -> EngineError:
        return EngineError(
            f"engine {self.engine} is gone ({type(error).__name__}); {self._left} not done. "
            "What is finished is stored: start again when it is back."
        )

    def _refused(self, what: str, found: Any) -> EngineError:
        if what == ELSEWHERE:
            assert self.place.mark is not None
            folder = Path(self.place.mark).parent
            return EngineError(
                f"engine {self.engine}: the worker on {found} does not see the folder of this "
                f"process, {folder}; use one that all machines share (--folder, --out)."
            )
        host, theirs = found
        ours = self.place.versions
        differ = [
            f"{name} {_short(theirs.get(name, 'unknown'))} there, {_short(ours[name])} here"
            for name in ours
            if theirs.get(name) != ours[name]
        ]
        return EngineError(
            f"engine {self.engine}: the worker on {host} runs another program ("
            f"{'; '.join(differ)}); install the same versions everywhere, or results would differ."
        )

    def _look(self) -> None:
        """A cluster without any worker would be waited for for ever."""
        now = time.monotonic()
        if now - self.looked < LOOK_SECONDS:
            return
        self.looked = now
        try:
            there = self.pool.workers()
        except self.pool.gone as gone:
            raise self._away(gone) from None
        if there:
            self.peopled, self.told = now, False
        elif now - self.peopled > IDLE_SECONDS:
            raise EngineError(
                f"engine {self.engine} had no worker for {IDLE_SECONDS:.0f} s; {self._left} not "
                f"done. What is finished is stored: {self.pool.remedy}, then start again."
            )
        elif not self.told and now - self.peopled > LOOK_SECONDS:  # not in the place of a dead one
            self.told = True
            warnings.warn(
                f"engine {self.engine} has no worker at the moment: {self.pool.remedy}.",
                EngineWarning,
                stacklevel=4,
            )


DONE, ELSEWHERE, OTHER = "done", "elsewhere", "other"


def called(place: tuple[Any, ...], shared: Any, call: Any) -> tuple[str, Any]:
    """In a worker: the call, unless it must not be made here. What a cluster is sent and answers
    with are plain values and bytes, so that another version of the program can read it."""
    if versions() != place[0]:
        return OTHER, (socket.gethostname(), versions())
    _, mark, threads = Place(*place)
    if mark is not None and not Path(mark).is_file():
        return ELSEWHERE, socket.gethostname()
    limit_threads(threads)
    function, values = _unpacked(call)
    first = () if shared is None else (_unpacked(shared),)
    return DONE, function(*first, *values)


def _unpacked(value: Any) -> Any:
    return pickle.loads(value) if isinstance(value, bytes) else value


@contextlib.contextmanager
def _mark(engine: Engine, folder: str | Path | None) -> Iterator[str | None]:
    """A file in the folder, by which the workers of a cluster know that they see the same one."""
    if folder is None or engine.is_local:
        yield None
        return
    place = Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    mark = place / f".engine-{uuid.uuid4().hex}"
    mark.write_text("While this file is here, runs are made on an engine.\n")
    try:
        yield str(mark)
    finally:
        mark.unlink(missing_ok=True)


def _short(version: str) -> str:
    """A digest by its beginning, which tells two of them apart."""
    return version[:12]
