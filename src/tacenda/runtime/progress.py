"""Progress of long work on standard error: a bar on a terminal, now and then a plain line
elsewhere, silence when asked."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from tacenda import checks
from tacenda.errors import InputError

QUIET_SECONDS = 1.0  # nothing is shown for work that ends sooner
LINE_SECONDS = 10.0  # between two lines; the same one again comes after twice the time of before


class Progress:
    """`with Progress("auto", "ipadmm", rounds) as show: show(t)`;
    mode "auto", True (always) or False (never)."""

    def __init__(self, mode: str | bool, title: str, total: int) -> None:
        if not isinstance(mode, bool):
            if not isinstance(mode, str):
                raise InputError(f"progress must be 'auto', True or False, not {mode!r}.")
            checks.one_of("progress", mode, ("auto",))
        terminal = sys.stderr.isatty()
        self._shown = mode is True or (mode == "auto" and terminal)
        self._terminal, self._title, self._total = terminal, title, total
        self._bar: Any = None

    def __enter__(self) -> Progress:
        self._begin = self._line = time.monotonic()
        self._first: tuple[int, float] | None = None
        self._told, self._wait = -1, LINE_SECONDS
        return self

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if self._first is None:
            # The first round also compiles, and a resumed run does not begin at 0
            self._first = (done, now)
        if not self._shown or now - self._begin < QUIET_SECONDS:
            return
        if self._terminal:
            if self._bar is None:
                self._open_bar()
            rate = self._rate(done, now)
            self._bar.update(0, completed=done, rate="" if rate is None else f"{rate:.3g}/s")
        elif now - self._line >= self._pause(done) or done == self._total:
            self._line, self._told, self._wait = now, done, 2 * self._pause(done)
            rate = self._rate(done, now)
            speed = (
                ""
                if rate is None
                else f", {rate:.3g} a second, {(self._total - done) / rate:.0f} s left"
            )
            print(f"{self._title}: {done} of {self._total}{speed}", file=sys.stderr, flush=True)

    def _pause(self, done: int) -> float:
        """Seconds from the last line to one with this number."""
        return self._wait if done == self._told else LINE_SECONDS

    def _rate(self, done: int, now: float) -> float | None:
        """Rounds a second since the first one ended; None as long as there is no second one."""
        assert self._first is not None
        before, then = self._first
        return (done - before) / (now - then) if done > before and now > then else None

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        rate = TextColumn("{task.fields[rate]}")
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            rate,
            TimeRemainingColumn(),
        )
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._bar.add_task(self._title, total=self._total, rate="")
        self._bar.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
