"""The log of a node: repeated lines are counted, the tail can be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog

from tacenda_node.operate import logs
from tacenda_node.operate.logs import BURST, EVERY, MOST_LINES, Repeats, open_log, tail


def test_repeated_lines_are_written_a_few_times_then_counted() -> None:
    now = [0.0]
    step = Repeats(lambda: now[0])
    written = []
    for k in range(49 * 180):  # 49 a second for three minutes
        now[0] = k / 49
        try:
            written.append(step(None, "", {"event": "progress", "waiting_for": "m1", "n": k}))
        except structlog.DropEvent:
            continue
    assert len(written) <= BURST + 180 / EVERY
    told = sum(entry.get("repeated", 0) for entry in written)
    left_out = 49 * 180 - len(written)
    assert left_out - 49 * EVERY <= told <= left_out  # all but those of the last minute


def test_other_words_are_another_line_and_old_news_is_news_again() -> None:
    now = [0.0]
    step = Repeats(lambda: now[0])
    for k in range(100):
        assert step(None, "", {"event": "peer not reached", "peer": f"m{k}"})
    for _ in range(BURST - 1):
        step(None, "", {"event": "peer not reached", "peer": "m0"})
    with pytest.raises(structlog.DropEvent):
        step(None, "", {"event": "peer not reached", "peer": "m0"})
    now[0] = EVERY
    assert step(None, "", {"event": "peer not reached", "peer": "m0"})["repeated"] == 1


def test_a_real_log_stays_short_and_its_tail_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert tail(path, 5) == []
    with open_log(path, "m0") as log:
        for k in range(500):
            log.info("progress", round=3, at=k)
        log.warning("peer away", peer="m1", rows=[1.0, 2.0])
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == BURST + 1
    last = tail(path, 2)
    assert [entry["event"] for entry in last] == ["progress", "peer away"]
    assert last[1]["rows"] == "<list not logged>"
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"event": "half of a li')
    assert tail(path, 2)[-1]["event"] == "peer away"
    assert json.loads(lines[-1])["member"] == "m0"


def test_a_peer_with_ever_new_words_fills_no_disk(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with open_log(path, "m0") as log:
        for k in range(2000):
            log.warning("caller refused", peer="m1", reason=f"words {k}")
        log.warning("caller refused", peer="m2", reason="another one is heard")
    written = path.read_text("utf-8").splitlines()
    assert len(written) == MOST_LINES + 1
    assert "another one is heard" in written[-1]


def test_a_log_that_runs_for_years_takes_two_files_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_BYTES", 2000)
    path = tmp_path / "log.jsonl"
    with open_log(path, "m0") as log:
        for k in range(100):
            log.info(f"event {'x' * k}")
    files = sorted(tmp_path.iterdir())
    assert files == [path, logs.aside(path)]
    assert all(file.stat().st_size < 2500 for file in files)
    events = [
        json.loads(line)["event"] for file in files[::-1] for line in file.read_text().splitlines()
    ]
    assert events == [f"event {'x' * k}" for k in range(100 - len(events), 100)]
