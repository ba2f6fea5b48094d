"""Which functions of the three packages a call goes through, in the order of their first calls."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tacenda
from node_stage import live

SOURCES = f"{Path(tacenda.__file__).parents[1]}/"


def traced(what: Callable[[], Any]) -> list[str]:
    """`file.py: function` of every function called meanwhile, in all threads, by first call; files
    of the library by their path within it."""
    found: dict[str, None] = {}

    def called(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCES):
            file = code.co_filename.removeprefix(SOURCES).removeprefix("tacenda/")
            found.setdefault(f"{file}: {code.co_qualname}")

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        what()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return list(found)


def traced_member(options: dict[str, Any], output: str, trace: str) -> None:
    """A member's life, whose functions are written to the file `trace`."""
    Path(trace).write_text(json.dumps(traced(lambda: live(options, output))), "utf-8")
