"""The tutorial with eight members in network namespaces, run as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tacenda_node.setup.namespaces import available

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial-eight-members.md"
MEMBERS = ["north", "east", "south", "west", "hill", "coast", "lake", "river"]


def _remove_namespaces() -> None:
    for name in (*MEMBERS, "relay"):
        found = subprocess.run(
            ["ip", "netns", "pids", f"t8-{name}"], capture_output=True, text=True, check=False
        )
        for pid in found.stdout.split():
            subprocess.run(["kill", "-9", pid], check=False)
        subprocess.run(["ip", "netns", "del", f"t8-{name}"], capture_output=True, check=False)
    subprocess.run(["ip", "link", "del", "t8"], capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.skipif(
    not available() or shutil.which("nft") is None, reason="needs Linux, root, iproute2, nftables"
)
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", TUTORIAL.read_text("utf-8"), re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    source = str(Path(__file__).parents[2] / "src")
    env = {**os.environ, "PATH": path, "NUMBA_NUM_THREADS": "1", "PYTHONPATH": source}
    _remove_namespaces()
    try:
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
    finally:
        _remove_namespaces()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "line 2 (`epsilon = 1.0`)" in done.stderr
    assert "has left the run by amendment 1" in done.stderr
    assert "the nodes' models are the simulation's" in done.stdout
