"""The registry study of four hospitals, run as written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tutorials import run_as_written


@pytest.mark.slow
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    pytest.importorskip("lifelines")
    done = run_as_written("tutorial-registry.md", tmp_path, seconds=900)
    assert "describe: 60% of the budget" in done.stdout
    table = json.loads((tmp_path / "north/state/tables/describe.json").read_text("utf-8"))
    assert table["records"] == 686 and table["privacy"]["epsilon"] <= 3.0 * (1 + 1e-6)
    curves = json.loads((tmp_path / "east/state/tables/survival.json").read_text("utf-8"))
    assert curves["log_rank"]["p_value"] < 0.2
    found = json.loads((tmp_path / "cox/south/state/tables/hazards.json").read_text("utf-8"))
    (effect,) = found["effects"]
    assert effect["name"] == "horTh=yes" and effect["low"] < 0.67 < effect["high"]
