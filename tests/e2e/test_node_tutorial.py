"""The tutorial with three organisations, run as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial-three-organisations.md"


def _script() -> str:
    blocks = re.findall(r"```bash\n(.*?)```", TUTORIAL.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 10
    return "set -euo pipefail\n" + "\n".join(blocks)


@pytest.mark.slow
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    here = Path(sys.executable).parent
    path = os.pathsep.join([str(here), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", _script()],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    for clinic in ("north", "east", "south"):
        assert re.search(rf"{clinic}: epsilon (1\.9\d\d|2\.000)", done.stdout)
    assert "3 members, 60 rounds" in done.stdout
