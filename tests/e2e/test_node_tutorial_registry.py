"""The registry study of four hospitals, run as written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial-registry.md"


@pytest.mark.slow
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    pytest.importorskip("lifelines")
    blocks = re.findall(r"```bash\n(.*?)```", TUTORIAL.read_text("utf-8"), re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        ["bash", "-c", "set -euo pipefail\n" + "\n".join(blocks)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "NUMBA_NUM_THREADS": "1", "PYTHONPATH": source},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "describe: 60% of the budget" in done.stdout
    table = json.loads((tmp_path / "north/state/tables/describe.json").read_text("utf-8"))
    assert table["records"] == 686 and table["privacy"]["epsilon"] <= 3.0 * (1 + 1e-6)
    curves = json.loads((tmp_path / "east/state/tables/survival.json").read_text("utf-8"))
    assert curves["log_rank"]["p_value"] < 0.2
    found = json.loads((tmp_path / "cox/south/state/tables/hazards.json").read_text("utf-8"))
    (effect,) = found["effects"]
    assert effect["name"] == "horTh=yes" and effect["low"] < 0.67 < effect["high"]
