"""The history of the micro-benchmarks: what is stored, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import history


def write(folder: Path, name: str, commit: str, when: str, ratios: dict[str, float]) -> None:
    benchmarks = [{"name": k, "extra_info": {"ratio": v}} for k, v in ratios.items()]
    info = {"id": commit * 20, "dirty": commit == "cd"}
    content = {"commit_info": info, "datetime": when, "benchmarks": benchmarks}
    (folder / name).write_text(json.dumps(content))


def test_runs_stand_side_by_side_by_date(tmp_path: Path) -> None:
    write(tmp_path, "0001.json", "cd", "2026-02-01", {"test_a_round": 2.0, "test_new": 1.0})
    write(tmp_path, "0002.json", "ab", "2026-01-01", {"test_a_round": 1.0})
    head, a_round, new = history.table(history.stored(tmp_path)).splitlines()
    assert head.split() == ["ababababab", "cdcdcdcdcd+", "change"]
    assert a_round.split() == ["a", "round", "1", "2", "2.00", "slower"]
    assert new.split() == ["new", "1"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0, 1.2], "1.20"),
        ([1.0, 0.5], "0.50 faster"),
        ([1.0, None], ""),
        ([None, 2.0, 4.0], "2.00 slower"),
    ],
)
def test_only_notable_changes_get_a_word(values: list[float | None], words: str) -> None:
    assert history.change(values).strip() == words


def test_what_is_stored_names_no_host_and_no_folder() -> None:
    """Its files are part of the repository."""
    files = list(history.STORE.rglob("*.json"))
    assert files
    for file in files:
        content = json.loads(file.read_text())
        assert set(content["machine_info"]) == {
            "processor",
            "cores",
            "memory_gb",
            "bandwidth_gb_s",
            "system",
            "python",
            "versions",
        }
        assert content["commit_info"]["project"] == "tacenda"
        assert all(one["extra_info"]["ratio"] > 0 for one in content["benchmarks"])
