"""Compiled loops on several threads (docs/decisions/0007-threads.md).

A kernel takes a range of rows (or tasks) first, and is compiled to run without the interpreter's
lock. Each row is computed by one thread and by the same operations wherever the range is cut, so
the number of threads never changes a bit.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tacenda._types import Ints

PARALLEL_ELEMENTS = 1 << 18  # below this much work, waking a second thread costs more than it saves
# Large parts first and small ones last, so that no thread waits long for the last of the others:
# each thread's share of the work is cut like this
_CUTS = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16)
_pool: ThreadPoolExecutor | None = None
_making = threading.Lock()
_limit: int | None = None


def limit_threads(most: int) -> None:
    """Let this process use at most so many threads for a compiled loop, and no more than
    NUMBA_NUM_THREADS (else the processor's cores)."""
    global _limit
    _limit = max(1, most)


def thread_count() -> int:
    """How many threads a large compiled loop uses, the calling one among them."""
    return _cores() if _limit is None else min(_cores(), _limit)


def _cores() -> int:
    from numba import config  # here: it loads the compiler

    return int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def in_parts(
    kernel: Callable[..., Any], rows: int, elements: int, *arguments: Any, sizes: Ints | None = None
) -> None:
    """kernel(first, last, *arguments) over all of range(rows), which is about so many numbers'
    work: at once where they are few, else in parts on several threads.

    sizes (rows,): each row's share of the work, if rows differ. The calling thread works too, and
    waits for no thread that has not begun: on a busy machine it does it all.
    """
    if elements < PARALLEL_ELEMENTS or rows < 2:
        kernel(0, rows, *arguments)
        return
    threads = thread_count()
    if threads < 2:
        kernel(0, rows, *arguments)
        return
    left = deque(_ranges(rows, min(threads, 1 + elements // PARALLEL_ELEMENTS), sizes))

    def work() -> None:
        try:
            while True:
                try:
                    first, last = left.popleft()
                except IndexError:
                    return
                kernel(first, last, *arguments)
        except BaseException:
            left.clear()  # the result is lost: nobody needs to go on
            raise

    helpers = _helpers(work, min(threads, len(left)) - 1)
    try:
        work()
    finally:
        left.clear()
        begun = [helper for helper in helpers if not helper.cancel()]
        failed = [fault for helper in begun if (fault := helper.exception()) is not None]
    if failed:
        raise failed[0]


def _ranges(rows: int, threads: int, sizes: Ints | None) -> list[tuple[int, int]]:
    """Ranges for so many threads, the largest first, none of them empty."""
    goals = list(accumulate(cut / threads for cut in _CUTS for _ in range(threads)))
    if sizes is None:
        cuts = [round(rows * goal) for goal in goals]
    else:
        done = np.cumsum(sizes)
        cuts = (1 + np.searchsorted(done, done[-1] * np.array(goals))).tolist()
    cuts = sorted({0, rows, *(cut for cut in cuts if cut < rows)})
    return list(pairwise(cuts))


def _helpers(work: Callable[[], None], count: int) -> list[Future[None]]:
    """`work` on at most so many other threads, which are kept for the next loop."""
    global _pool
    with _making:
        if _pool is None:  # one for all callers: threads beyond the cores would only wait
            _pool = ThreadPoolExecutor(max(1, _cores() - 1), "tacenda")
        pool = _pool
    helpers: list[Future[None]] = []
    try:
        for _ in range(count):
            helpers.append(pool.submit(work))
    except RuntimeError:  # no more threads are to be had, or the program ends: go on without
        pass
    return helpers


def _forget() -> None:
    """After a fork the child has none of these threads."""
    global _pool, _making
    _pool, _making = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
