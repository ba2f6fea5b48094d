"""The tutorial in which eight members evaluate their model, run as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tutorials import run_as_written


@pytest.mark.slow
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    done = run_as_written("tutorial-evaluation.md", tmp_path)
    assert "evaluated, on about 480 of your 2400 records that are never trained on" in done.stdout
    assert re.search(r"accuracy 0\.\d+ to 0\.\d+", done.stdout)
    assert "each record is covered by one of the two" in done.stdout
    assert "evaluation   done; epsilon" in done.stdout
    assert "one person with at most 2 records" in done.stdout
