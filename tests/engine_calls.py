"""Calls for the tests of engines: the workers load them from here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def squared(number: int) -> int:
    return number * number


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


def squared_path(path: str) -> str:
    """In place of the trial: an answer of another program."""
    return f"another program than that of {path}"
