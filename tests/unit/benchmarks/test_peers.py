"""Comparisons with other programs: sides are processes that take turns and do the same work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.environments import Environment, Unavailable, interpreter
from benchmarks.peers.comparisons import PEERS, Comparison, Side, common, compare, ours
from benchmarks.tables import table

SMALL = Comparison(
    "gradient steps",
    nodes=6,
    records=20,
    features=3,
    asked={"method": "ATC", "rounds": 5, "step": 1.0},
    sides=(ours(), ours("the same"), ours("another step", step=0.1)),
    quality="loss",
    turns=2,
)


@pytest.mark.slow
def test_sides_take_turns_and_answer_the_same() -> None:
    said: list[str] = []
    found = compare(SMALL, tell=said.append)
    one, same, other = found["sides"]
    assert said[3:] == [side.name for side in SMALL.sides] * 2
    assert one["loss"] == same["loss"] < other["loss"] < np.log(2)
    for side in found["sides"]:
        assert len(side["seconds_of_turns"]) == 2 and side["seconds"] > 0
        assert side["import_seconds"] > 0.05 and side["peak_mb"] > 20


def test_a_side_that_fails_ends_the_comparison_with_its_log(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import sys; print('what went wrong', file=sys.stderr)")
    broken = replace(SMALL, sides=(Side("broken", str(script)),))
    with pytest.raises(RuntimeError, match="(?s)broken ended.*what went wrong"):
        compare(broken)


def test_an_environment_without_its_python_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="unreal needs Python 9.8 or 9.9"):
        Environment("unreal", ("numpy",), ("9.8", "9.9")).python(tmp_path)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert interpreter((own,)) == sys.executable


def wheel(folder: Path) -> str:
    """A package of one module."""
    path = folder / "tiny_thing-1.0-py3-none-any.whl"
    about = "tiny_thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny_thing.py", "VALUE = 3\n")
        file.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n"
        )
        file.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{about}/RECORD", "")
    return str(path)


@pytest.mark.slow
def test_an_environment_is_made_once_and_anew_for_other_packages(tmp_path: Path) -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    tiny = Environment("tiny", (wheel(tmp_path),), (own,))
    python = tiny.python(tmp_path)
    told = subprocess.run(
        [python, "-c", "import tiny_thing; print(tiny_thing.VALUE)"],
        capture_output=True,
        check=True,
    )
    assert told.stdout == b"3\n"
    made = tmp_path / "tiny" / "made-of.txt"
    first = made.stat().st_mtime_ns
    assert tiny.python(tmp_path) == python and made.stat().st_mtime_ns == first
    with pytest.raises(Unavailable, match="nothing.whl failed"):
        Environment("tiny", (str(tmp_path / "nothing.whl"),), (own,)).python(tmp_path)
    assert not made.exists()


def test_all_sides_are_told_the_same_graph() -> None:
    told = common(PEERS["decent-bench"][0])
    degrees = np.bincount(np.array(told["edges"]).ravel(), minlength=100)
    assert (degrees == 4).all() and told == common(PEERS["decent-bench"][0])


def test_records_are_on_the_sphere_and_drawn_alike() -> None:
    X, y = table(500, 7)
    assert np.linalg.norm(X, axis=1).max() <= 1 and np.linalg.norm(X, axis=1).min() > 0.999
    assert set(y.tolist()) == {0, 1} and 0.2 < y.mean() < 0.8
    again = table(500, 7, np.float32)
    np.testing.assert_array_equal(X.astype(np.float32), again[0])
    np.testing.assert_array_equal(y, again[1])


@pytest.mark.slow
def test_the_table_of_ratios_as_json() -> None:
    root = Path(__file__).parents[3]
    words = [sys.executable, "-m", "benchmarks", "e", "--turns", "1", "--json"]
    env = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)["e"]
    assert rows[0]["what"].startswith("(e)") and all(row["ratio"] > 0 for row in rows)
