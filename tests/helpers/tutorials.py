"""A tutorial's commands, run as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks_of(page: str) -> list[str]:
    """The commands of a page of docs/, block by block."""
    return re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL)


def run_as_written(page: str, folder: Path, seconds: int = 1800) -> subprocess.CompletedProcess:
    """Run all commands of a page in one shell; they must succeed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"PATH": path, "NUMBA_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        ["bash", "-c", "set -euo pipefail\n" + "\n".join(blocks_of(page))],
        cwd=folder,
        env={**os.environ, **own},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done
