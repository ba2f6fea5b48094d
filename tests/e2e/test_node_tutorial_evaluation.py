"""The tutorial in which eight members evaluate their model, run as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial-evaluation.md"


@pytest.mark.slow
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", TUTORIAL.read_text("utf-8"), re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    source = str(Path(__file__).parents[2] / "src")
    env = {**os.environ, "PATH": path, "NUMBA_NUM_THREADS": "1", "PYTHONPATH": source}
    done = subprocess.run(
        ["bash", "-c", "set -euo pipefail\n" + "\n".join(blocks)],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "evaluated, on about 480 of your 2400 records that are never trained on" in done.stdout
    assert re.search(r"accuracy 0\.\d+ to 0\.\d+", done.stdout)
    assert "each record is covered by one of the two" in done.stdout
    assert "evaluation   done; epsilon" in done.stdout
    assert "one person with at most 2 records" in done.stdout
