"""`drive`: rounds one after the other, with everybody told who wants to know. Ctrl-C waits for the
end of a round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tacenda.runtime import checkpoint
from tacenda.runtime.interrupt import BetweenRounds
from tacenda.runtime.ranks import ALONE, Ranks

# (rounds done, Ctrl-C was asked for) -> True to stop the run here
Observer = Callable[[int, bool], bool | None]
SAVE_SECONDS = 5.0


def drive(
    step: Callable[[int], None],
    done: int,
    rounds: int,
    observers: Sequence[Observer],
    agree: Callable[[bool], bool] = bool,
) -> int:
    """Rounds done + 1 .. rounds; the number of rounds done in the end.

    All observers are told after each. agree: asked before them whether somebody wants to stop,
    since Ctrl-C in one process of a run stops all after the same round."""
    with BetweenRounds() as interrupt:
        while done < rounds:
            step(done + 1)
            done += 1
            asked = agree(interrupt.asked)
            stops = [observer(done, asked) for observer in observers]
            if asked:
                raise KeyboardInterrupt(f"stopped after round {done} of {rounds}")
            if any(stops):
                break
    return done


class Checkpointer:
    """An observer that keeps a checkpoint file up to date: every few seconds by the root's clock,
    and when Ctrl-C was asked for. The root writes it, with the state of all."""

    def __init__(
        self, path: Path, saved: Callable[[], checkpoint.Saved], ranks: Ranks = ALONE
    ) -> None:
        self._path, self._saved, self._ranks = path, saved, ranks
        self._last = time.monotonic()

    def __call__(self, done: int, asked: bool) -> None:
        late = self._ranks.root and time.monotonic() - self._last > SAVE_SECONDS
        if asked or self._ranks.most(late)[0]:
            self.write()

    def write(self) -> None:
        saved, root = self._saved(), self._ranks.root
        self._ranks.agreed(
            lambda: checkpoint.write(self._path, saved) if root else None, "writing the checkpoint"
        )
        self._last = time.monotonic()
