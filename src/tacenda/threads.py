"""How many threads a compiled loop may use (docs/decisions/0007-threads.md)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PARALLEL_ELEMENTS = 1 << 18  # below this much work, waking a second thread costs more than it saves
_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def kernel_threads(elements: int) -> Iterator[None]:
    """Run one compiled loop over about so many numbers, on one thread if they are few.

    One loop at a time: some of numba's thread pools cannot be entered by two threads at once. The number of threads
    never changes a result, since each row (or task) is computed by one thread.
    """
    import numba

    with _ONE_AT_A_TIME:
        threads = numba.get_num_threads()
        try:
            numba.set_num_threads(1 if elements < PARALLEL_ELEMENTS else threads)
            yield
        finally:
            numba.set_num_threads(threads)
