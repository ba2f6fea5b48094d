"""`drive`: rounds one after the other, with everybody told who wants to know. Ctrl-C waits for the
end of a round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tacenda.runtime import checkpoint
from tacenda.runtime.interrupt import BetweenRounds

# (rounds done, Ctrl-C was asked for) -> True to stop the run here
Observer = Callable[[int, bool], bool | None]
SAVE_SECONDS = 5.0


def drive(
    step: Callable[[int], None], done: int, rounds: int, observers: Sequence[Observer]
) -> int:
    """step(t) for t = done + 1 .. rounds, all observers told after each round; the number of rounds
    done in the end."""
    with BetweenRounds() as interrupt:
        while done < rounds:
            step(done + 1)
            done += 1
            stops = [observer(done, interrupt.asked) for observer in observers]
            if interrupt.asked:
                raise KeyboardInterrupt(f"stopped after round {done} of {rounds}")
            if any(stops):
                break
    return done


class Checkpointer:
    """An observer that keeps a checkpoint file up to date:
    every few seconds, and when Ctrl-C was asked for."""

    def __init__(self, path: Path, saved: Callable[[], checkpoint.Saved]) -> None:
        self._path, self._saved, self._last = path, saved, time.monotonic()

    def __call__(self, done: int, asked: bool) -> None:
        if asked or time.monotonic() - self._last > SAVE_SECONDS:
            self.write()

    def write(self) -> None:
        checkpoint.write(self._path, self._saved())
        self._last = time.monotonic()
