"""Ctrl-C between rounds: the first one lets the round end, so that a checkpoint is whole; the
second stops at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class BetweenRounds:
    """`with BetweenRounds() as interrupt:` and look at `interrupt.asked` after each round."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> BetweenRounds:
        # Only the main thread may set a handler, and a host program's own handler is left alone.
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
