"""performance.md: its tables and pictures are those of the stored points, and all points
belong to one program on one machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks import figures, page, report
from benchmarks.machine import cores, read_bandwidth
from benchmarks.store import RESULTS, Results

TEXT = page.PAGE.read_text(encoding="utf-8")


def test_tables_are_written_from_the_store() -> None:
    assert page.filled(TEXT, Results()) == TEXT


def test_another_figure_in_the_store_would_be_noticed() -> None:
    results = Results()
    results.content["points"]["ratios/a"]["found"][0]["ratio"] *= 2
    assert page.filled(TEXT, results) != TEXT


def test_pictures_are_drawn_from_the_store() -> None:
    results = Results()
    for name, (prefix, _) in figures.PICTURES.items():
        assert figures.drawn_from(name) == results.digest(prefix), f"{name}.svg is of other points"
        assert f"performance/{name}.svg" in TEXT


def test_the_store_is_whole_and_of_one_program() -> None:
    results = Results()
    wanted = [name for section in report.SECTIONS for name, _ in report.points(section)]
    assert list(results.points) == wanted
    assert len(results.programs) == 1
    assert results.machine["cores"] >= 1 and results.machine["bandwidth_gb_s"] > 0


def test_the_store_names_no_host_and_no_folder() -> None:
    text = RESULTS.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(home|root|work|tmp|usr|opt)/", text)


def test_figures_stand_between_marks_only() -> None:
    """What is measured is not typed: outside of the blocks no unit of time or size has a number."""
    prose = re.sub(r"<!-- (\S+): written.*?<!-- end of \1 -->", "", TEXT, flags=re.S)
    assert "<!--" not in prose
    assert not re.findall(r"\d[\d.,]*[ \u00a0]?(?:ms|us|s|MB|GB)\b", prose)


def test_a_point_is_measured_once_for_each_program(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    asked: list[int] = []

    def measure() -> dict[str, int]:
        asked.append(1)
        return {"seconds": len(asked)}

    first = Results(path)
    assert not first.has("ratios/z")
    first.add("ratios/z", measure)
    again = Results(path)
    assert (
        again.has("ratios/z") and again.points == {"ratios/z": {"seconds": 1}} and len(asked) == 1
    )
    one = again.content["points"]["ratios/z"]
    for word in ("program", "benchmark"):  # as if another one had measured it
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"points": {"ratios/z": one | {word: "0" * 64}}}))
        assert not Results(path).has("ratios/z")


def test_what_another_machine_measured_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results = Results(path)
    results.here()
    results.add("ratios/z", dict)
    results.here()
    assert results.has("ratios/z")
    content = json.loads(path.read_text())
    content["machine"]["cores"] += 1
    path.write_text(json.dumps(content))
    other = Results(path)
    other.here()
    assert not other.has("ratios/z") and other.machine["cores"] == cores()


def test_bandwidth_is_that_of_a_memory_and_not_of_a_clock() -> None:
    assert 1e8 < read_bandwidth(64, 3) < 1e13


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.5e-6, "1.50 us"),
        (0.0123, "12.3 ms"),
        (2.0, "2.00 s"),
        (0.9996, "1,000 ms"),
        (75, "75.0 s"),
    ],
)
def test_seconds_in_words(value: float, words: str) -> None:
    assert page.seconds(value) == words.replace(" ", page.UNBROKEN)


def test_a_point_that_did_not_end_is_told(tmp_path: Path) -> None:
    results = Results()
    name = f"nodes/{figures.GRAPHS[1]}/1000000"
    results.content["points"][name]["found"] = {"nodes": 10**6, "unfinished": "not done after 9 s"}
    told = page.nodes(results)
    assert f"1,000,000 nodes, {figures.GRAPHS[1]}: not done after 9 s." in told


def test_a_program_that_cannot_be_had_is_told() -> None:
    results = Results()
    results.content["points"]["peers/flower/0"]["found"] = {"unavailable": "no such Python"}
    assert page.BLOCKS["flower"](results) == "Not measured on this machine: no such Python"


def test_marks_that_are_missing_are_named() -> None:
    with pytest.raises(ValueError, match="machine"):
        page.filled("no marks", Results())


def found_by_hand(points: dict[str, Any]) -> float:
    large, small = (points[f"nodes/ring/{n}"]["round_seconds"] / n for n in (10**6, 10**4))
    return large / small


def test_the_ratio_of_a_million_nodes_is_that_of_its_points() -> None:
    results = Results()
    assert f"(ring): {found_by_hand(results.points):.2f} times as long" in page.nodes(results)


@pytest.mark.parametrize(
    ("name", "side", "apart"),
    [
        ("decent-bench/0", 1, 1e-12),  # the same recursion
        ("decent-bench/0", 2, 1e-3),  # its neighbours' models are one step older
        ("decent-bench/1", 1, 1e-5),  # its local problems are solved less exactly
        ("flower/0", 1, 1e-12),
    ],
)
def test_other_programs_did_the_same_work(name: str, side: int, apart: float) -> None:
    sides = Results().points[f"peers/{name}"]["sides"]
    assert sides[side]["program"] != sides[0]["program"]
    assert abs(sides[side]["loss"] - sides[0]["loss"]) < apart
