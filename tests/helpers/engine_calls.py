"""Calls for the tests of engines: the workers load them from here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def squared(number: int) -> int:
    return number * number


def added(one: int, other: int) -> int:
    return one + other


def wrong(number: int) -> int:
    raise ValueError(f"a call of its own failed: {number}")


def dies_once(mark: str, number: int) -> int:
    """The first time it takes its process with it."""
    path = Path(mark)
    if number == 2 and not path.exists():
        path.write_text("been here")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def dies_always(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def slow(number: int, seconds: float) -> int:
    time.sleep(seconds)
    return number


def counted(folder: str, number: int) -> int:
    """Leaves a line for every time that it is called."""
    with Path(folder, f"{number}.txt").open("a") as lines:
        lines.write(f"{os.getpid()}\n")
    return number


def threads() -> int:
    from tacenda.threads import thread_count

    return thread_count()
