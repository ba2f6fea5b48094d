"""What the operator is told, and how often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from node_stage import small_contract
from tacenda_node.watch import display as module
from tacenda_node.watch.causes import Cause
from tacenda_node.watch.display import Display


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **_: Any) -> None:
        self.lines.append(event)

    warning = info


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> tuple[Display, Log, list[float]]:
    """A display, its log, and the clock that it looks at."""
    now, log = [100.0], Log()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: 0.0))
    endpoint = SimpleNamespace(causes=lambda: [Cause(("m1",), "away", 3.0)])
    return Display(small_contract(2, rounds=4), "m0", endpoint, log, quiet=True), log, now


def test_waiting_past_the_end_tells_it_every_ten_seconds(
    shown: tuple[Display, Log, list[float]],
) -> None:
    display, log, now = shown
    exchange = SimpleNamespace(waited=1.0, written=2.0)
    for done in range(1, 5):
        now[0] += 0.5
        display.round(done, 4, exchange)
    display.finished()
    before = len(log.lines)
    for _ in range(50 * 60):  # as often as a node looks around in a minute
        now[0] += 0.02
        display.waiting(["m1"])
    assert len(log.lines) - before <= 6
    assert display.waiting_seconds == pytest.approx(60, abs=0.1)
    assert "all 4 rounds done, waiting for m1 (away for 3 s)" in display.line()


def test_rate_and_time_left(shown: tuple[Display, Log, list[float]]) -> None:
    display, _, now = shown
    assert display.rate == 0.0
    assert display.seconds_left is None
    for done in (1, 2, 3):
        now[0] += 2.0
        display.round(done, 4, SimpleNamespace(waited=0.0, written=0.0))
    assert display.rate == pytest.approx(0.5)
    assert display.seconds_left == pytest.approx(2.0)
    now[0] += 100.0  # a pause does not change the rate of what was done
    assert display.rate == pytest.approx(0.5)


def test_each_warning_once(shown: tuple[Display, Log, list[float]]) -> None:
    display, log, _ = shown
    display.warn(["a", "b"])
    display.warn(["a"])
    assert display.warnings == ["a", "b"]
    assert log.lines == ["warning", "warning"]


def test_a_finished_run_that_is_started_again_has_all_its_rounds(
    shown: tuple[Display, Log, list[float]],
) -> None:
    display, _, _ = shown
    display.finished()
    assert (display.done, display.seconds_left) == (4, 0.0)
