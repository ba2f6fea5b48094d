"""Plain lines of progress: the rate leaves out the first round, which compiles, and what a resumed
run had done before."""

from __future__ import annotations

import pytest

from tacenda.runtime import progress


def lines(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    calls: list[tuple[int, float]],
) -> list[str]:
    """What is printed where round `done` ends at `moment`, of 100, begun at 0."""
    clock = iter([0.0, *(moment for _, moment in calls)])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.Progress(True, "run", 100) as show:
        for done, _ in calls:
            show(done)
    return capsys.readouterr().err.splitlines()


def test_the_first_round_does_not_count_towards_the_rate(monkeypatch, capsys) -> None:
    assert lines(monkeypatch, capsys, [(1, 20.0), (21, 30.0), (100, 69.5)]) == [
        "run: 1 of 100",
        "run: 21 of 100, 2 a second, 40 s left",
        "run: 100 of 100, 2 a second, 0 s left",
    ]


def test_a_resumed_run_counts_its_own_rounds(monkeypatch, capsys) -> None:
    assert lines(monkeypatch, capsys, [(81, 1.0), (91, 11.0)]) == [
        "run: 91 of 100, 1 a second, 9 s left"
    ]


def test_short_work_is_silent(monkeypatch, capsys) -> None:
    assert lines(monkeypatch, capsys, [(50, 0.2), (100, 0.4)]) == []


def test_what_stands_still_is_told_ever_more_rarely(monkeypatch, capsys) -> None:
    """Asked every second: after 10 s, and then each time after twice as long, until it moves."""
    calls = [(0 if second < 200 else 1, float(second)) for second in range(1, 240)]
    found = lines(monkeypatch, capsys, calls)
    assert found[:4] == ["run: 0 of 100"] * 4  # after 10, 30, 70 and 150 s
    assert [line.partition(",")[0] for line in found[4:]] == ["run: 1 of 100"] * 2  # 200 and 220
