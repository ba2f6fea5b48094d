"""How many threads a compiled loop may use (docs/decisions/0007-threads.md)."""

from __future__ import annotations

import threading

PARALLEL_ELEMENTS = 1 << 18  # below this much work, waking a second thread costs more than it saves
_ONE_AT_A_TIME = threading.Lock()


def is_small(elements: int) -> bool:
    """Whether one thread does so much work best; such a loop may as well be compiled without
    threads at all."""
    return elements < PARALLEL_ELEMENTS


class kernel_threads:
    """`with kernel_threads(elements):` runs one compiled loop over about so many numbers, on one
    thread if they are few.

    One loop at a time: some of numba's thread pools cannot be entered by two threads at once. The
    number of threads never changes a result, since each row (or task) is computed by one thread.
    """

    __slots__ = ("_before", "_few")

    def __init__(self, elements: int) -> None:
        self._few, self._before = is_small(elements), 1

    def __enter__(self) -> None:
        import numba

        _ONE_AT_A_TIME.acquire()
        if self._few:
            self._before = numba.get_num_threads()
            if self._before > 1:
                numba.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        import numba

        try:
            if self._before > 1:
                numba.set_num_threads(self._before)
        finally:
            _ONE_AT_A_TIME.release()
