"""`python -m benchmarks.curvature`: its small lines, and that a second call repeats nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASKED = ["--quick", "--seeds", "1", "--sides", "now", "optimum"]


def table(store: Path, *options: str) -> str:
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.curvature", *options, "--store", str(store)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_the_small_lines_are_measured_once_and_lie_above_the_optimum(tmp_path: Path) -> None:
    told = table(tmp_path, *ASKED)
    when = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    assert sorted(when) == [
        "quick-regression.now.0.json",
        "quick-regression.optimum.0.json",
        "quick.now.0.json",
        "quick.optimum.0.json",
    ]
    assert told.count("\n| ") == 3  # a rule and two lines below the head
    for name, chosen in (("quick", "whitened treegd"), ("quick-regression", "moments")):
        now = json.loads((tmp_path / f"{name}.now.0.json").read_text())
        best = json.loads((tmp_path / f"{name}.optimum.0.json").read_text())
        assert best["objective"] < now["objective"] < now["worst_objective"] + 1e-12
        assert now["epsilon"] <= 1.0 and now["method"] == chosen
    assert table(tmp_path, *ASKED) == told == table(tmp_path, "--quick", "--table")
    assert {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()} == when
