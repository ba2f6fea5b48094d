"""Interleaved timing: rivals take turns, and the best turn of each counts, since other work on the machine only ever adds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def best_of(rivals: Sequence[Callable[[], object]], turns: int) -> list[float]:
    """Seconds of the quickest turn of each rival, after one turn to warm up."""
    for rival in rivals:
        rival()
    best = [float("inf")] * len(rivals)
    for _ in range(turns):
        for k, rival in enumerate(rivals):
            begin = time.perf_counter()
            rival()
            best[k] = min(best[k], time.perf_counter() - begin)
    return best
