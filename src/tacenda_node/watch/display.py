"""What the operator sees: a live table on a terminal, a plain line now and then elsewhere.
Public values only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tacenda_node.identity.contract import Contract
from tacenda_node.watch.causes import WAITING_SECONDS

LINE_SECONDS = 10.0
SHOW_SECONDS = 0.2


class Display:
    """Round, peers, rate and time left; also the source of what the node tells about itself.

    The table is drawn on a copy of standard error as it was at the start, because `TlsLog` puts a
    pipe in its place.
    """

    def __init__(
        self, contract: Contract, name: str, endpoint: Any, log: Any, *, quiet: bool
    ) -> None:
        self._contract, self.name, self.endpoint, self._log = contract, name, endpoint, log
        self._begin = self._line = self._shown = time.monotonic()
        self.done, self.total = 0, contract.total_rounds
        self._first: tuple[int, float] | None = None
        self.advanced = time.monotonic()  # when the latest round was completed
        self.waiting_for: list[str] = []
        self.pause = ""  # why the member's policy lets the node neither compute nor send
        self.waiting_since = 0.0
        self.all_done = False
        self.warnings: list[str] = []
        self.lacking = ""  # whose signature of the contract is missing, in words
        self.write_seconds = self.wait_seconds = 0.0
        self._quiet = quiet
        self._terminal: Any = None
        self._live: Any = None
        if not quiet and sys.stderr.isatty():
            self._terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    @property
    def rate(self) -> float:
        """Rounds a second since the first round of this start."""
        if self._first is None or self.done <= self._first[0]:
            return 0.0
        return (self.done - self._first[0]) / max(1e-9, self.advanced - self._first[1])

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far; None while there is none."""
        if self.done >= self.total:
            return 0.0
        return (self.total - self.done) / self.rate if self.rate else None

    @property
    def waiting_seconds(self) -> float:
        """For how long the node has waited for the same neighbours."""
        return time.monotonic() - self.waiting_since if self.waiting_for else 0.0

    def round(self, done: int, total: int, exchange: Any) -> None:
        """A round is complete."""
        self.advanced = time.monotonic()
        if self._first is None:
            self._first = (done, self.advanced)
            self._log.info("round one done", round=done, at=time.time())
        self.done, self.total, self.waiting_for = done, total, []
        self.wait_seconds, self.write_seconds = exchange.waited, exchange.written
        self._show()

    def warn(self, sentences: list[str]) -> None:
        """Tell the operator what is wrong with the run; each sentence once."""
        for sentence in sentences:
            if sentence not in self.warnings:
                self.warnings.append(sentence)
                self._log.warning("warning", message=sentence)
                if not self._quiet:
                    self.say(f"{self.name}: warning: {sentence}")

    def finished(self) -> None:
        """The last round is complete and durable."""
        self.done = self.total  # also where a finished run was started again
        self.all_done = True
        self._log.info(
            "all rounds done",
            round=self.done,
            at=time.time(),
            waited=self.wait_seconds,
            writing=self.write_seconds,
        )
        self._tell()

    def unsigned(self, words: str) -> None:
        """The contract lacks signatures, which ones in words; "" once all are there."""
        self.lacking, self.advanced = words, time.monotonic()
        if words:
            self._show()

    def paused(self, words: str) -> None:
        """The policy makes the node wait, why in words; "" once it goes on."""
        self.pause = words
        if words:
            self._show()

    def waiting(self, peers: list[str]) -> None:
        """The node waits for these."""
        if self.waiting_for != peers:
            self.waiting_for, self.waiting_since = list(peers), time.monotonic()
        self._show()

    def say(self, text: str) -> None:
        """A line for the operator, above the live table where there is one."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def take(self, line: bytes) -> bool:
        """Show a line of standard error above the live table; False where there is none."""
        if self._live is None:
            return False
        self.say(line.decode("utf-8", "replace").rstrip("\n"))
        return True

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._line >= LINE_SECONDS:
            self._tell()
        if self._terminal is not None and now - self._shown >= SHOW_SECONDS:
            self._shown = now
            self._draw()

    def _tell(self) -> None:
        self._line = time.monotonic()
        self._log.info(
            "progress",
            round=self.done,
            of=self.total,
            waiting_for=self.blamed if self.waiting_for else "",
        )
        if not self._quiet and self._terminal is None:
            self.say(f"{self.name}: {self.line()}")

    def _draw(self) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            screen = Console(file=self._terminal)
            self._live = Live(
                console=screen,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(self._table(), refresh=True)

    def line(self) -> str:
        """One sentence."""
        if self.lacking or self.pause:
            return self.lacking or f"paused, {self.pause}"
        if self.all_done:
            line = f"all {self.total} rounds done"
        else:
            left = "" if self.seconds_left is None else f", {self.seconds_left:.0f} s left"
            line = f"round {self.done} of {self.total}, {self.rate:.1f} rounds/s{left}"
        return line + (f", waiting for {self.blamed}" if self.waiting_for else "")

    @property
    def blamed(self) -> str:
        """Who is waited for: the members at the root, in words, or the neighbours at first."""
        causes = self.endpoint.causes() if self.waiting_seconds > WAITING_SECONDS else []
        return "; ".join(cause.words for cause in causes) or ", ".join(self.waiting_for)

    def spent_share(self) -> float:
        """The share of the run's releases that was made."""
        return min(1.0, self.done / self._contract.rounds)

    def _table(self) -> Any:
        from rich.table import Table

        table = Table(title=f"{self._contract.title}: {self.name}", caption=self.line())
        for column in ("peer", "state", "sent again", "cut off"):
            table.add_column(column)
        for link in list(self.endpoint.links.values()):
            state = "connected" if link.connected else link.reason[:60]
            state = "frozen" if link.frozen else state
            table.add_row(link.peer, state, str(link.resent), str(link.strikes))
        terms = self._contract.privacy
        table.add_row(
            "budget",
            f"{100 * self.spent_share():.0f} % of epsilon {terms.epsilon:g}, delta {terms.delta:g}",
            "",
            "",
        )
        return table

    def take_down(self) -> None:
        """Remove the live table: another one takes its place."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    @contextmanager
    def open(self) -> Iterator[Display]:
        """Whatever happens inside, the terminal is left as it was found."""
        try:
            yield self
        finally:
            self.take_down()
            if self._terminal is not None:
                self._terminal.close()
                self._terminal = None
