"""Interleaved timing: rivals take turns, and the best turn of each counts, since other work on the
machine only ever adds.

Two clocks: seconds on the wall, which tell the truth on an idle machine, and seconds of processor,
which still do on a busy one.

Threads of a BLAS go on spinning for some 50 ms after their last product, which would count against
whoever comes next: before each turn the process is let come to rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Best:
    """The quickest turn by each clock, in seconds."""

    wall: float
    cpu: float


def best_of(rivals: Sequence[Callable[[], object]], turns: int) -> list[Best]:
    """The best of each rival, after one turn to warm up."""
    for rival in rivals:
        rival()
    times: list[list[tuple[float, float]]] = [[] for _ in rivals]
    for _ in range(turns):
        for taken, rival in zip(times, rivals, strict=True):
            come_to_rest()
            wall, cpu = time.perf_counter(), time.process_time()
            rival()
            taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [Best(min(w for w, _ in taken), min(c for _, c in taken)) for taken in times]


def come_to_rest(longest: float = 2.0) -> None:
    """Wait until the threads of this process have stopped computing."""
    end = time.monotonic() + longest
    while time.monotonic() < end:
        spent = time.process_time()
        time.sleep(0.02)
        if time.process_time() - spent < 0.002:
            return
