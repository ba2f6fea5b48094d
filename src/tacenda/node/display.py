"""What the operator sees: a live table on a terminal, a plain line now and then elsewhere.
Public facts only."""

from __future__ import annotations

import sys
import time
from typing import Any

from tacenda.node.identity.contract import Contract

LINE_SECONDS = 10.0
SHOW_SECONDS = 0.2


class Display:
    """Round, peers, rate and time left; also the source of the health page."""

    def __init__(
        self, contract: Contract, name: str, endpoint: Any, log: Any, *, quiet: bool
    ) -> None:
        self._contract, self.name, self.endpoint, self._log = contract, name, endpoint, log
        self._begin = self._line = self._shown = time.monotonic()
        self.done, self.total = 0, contract.total_rounds
        self._first: tuple[int, float] | None = None
        self.waiting_for: list[str] = []
        self.lacking = ""  # whose signature of the contract is missing, in words
        self._warned: set[str] = set()
        self.write_seconds = self.wait_seconds = 0.0
        self._live: Any = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        self._quiet = quiet

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    @property
    def rate(self) -> float:
        """Rounds a second since the first round of this start."""
        if self._first is None or self.done <= self._first[0]:
            return 0.0
        return (self.done - self._first[0]) / max(1e-9, time.monotonic() - self._first[1])

    def round(self, done: int, total: int, exchange: Any) -> None:
        """A round is complete."""
        if self._first is None:
            self._first = (done, time.monotonic())
            self._log.info("round one done", round=done, at=time.time())
        self.done, self.total, self.waiting_for = done, total, []
        self.wait_seconds, self.write_seconds = exchange.waited, exchange.written
        self._show()

    def warn(self, sentences: list[str]) -> None:
        """Tell the operator what is wrong with the run; each sentence once."""
        for sentence in sentences:
            if sentence not in self._warned:
                self._warned.add(sentence)
                self._log.warning("warning", message=sentence)
                if not self._quiet:
                    print(f"{self.name}: warning: {sentence}", file=sys.stderr, flush=True)

    def finished(self) -> None:
        """The last round is complete and durable."""
        self._log.info(
            "all rounds done",
            round=self.done,
            at=time.time(),
            waited=self.wait_seconds,
            writing=self.write_seconds,
        )

    def unsigned(self, words: str) -> None:
        """The contract lacks signatures, which ones in words; "" once all are there."""
        self.lacking = words
        if words:
            self._show()

    def waiting(self, peers: list[str]) -> None:
        """The node waits for these."""
        self.waiting_for = list(peers)
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._line >= LINE_SECONDS or self.done == self.total:
            self._line = now
            self._log.info(
                "progress", round=self.done, of=self.total, waiting_for=", ".join(self.waiting_for)
            )
            if not self._quiet and self._live is None:
                print(f"{self.name}: {self.line()}", file=sys.stderr, flush=True)
        if self._live is not None and now - self._shown >= SHOW_SECONDS:
            self._shown = now
            self._live.update(self._table(), refresh=True)

    def line(self) -> str:
        """One sentence."""
        if self.lacking:
            return self.lacking
        left = (self.total - self.done) / self.rate if self.rate else float("nan")
        line = f"round {self.done} of {self.total}, {self.rate:.1f} rounds/s, {left:.0f} s left"
        return line + (f", waiting for {', '.join(self.waiting_for)}" if self.waiting_for else "")

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
            table.add_row(link.peer, state, str(link.resent), str(link.strikes))
        terms = self._contract.privacy
        table.add_row(
            "budget",
            f"{100 * self.spent_share():.0f} % of epsilon {terms.epsilon:g}, delta {terms.delta:g}",
            "",
            "",
        )
        return table

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
