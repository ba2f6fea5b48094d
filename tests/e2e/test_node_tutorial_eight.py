"""The tutorial with eight members in network namespaces, run as written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tacenda_node.setup.namespaces import available
from tutorials import run_as_written

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
    _remove_namespaces()
    try:
        done = run_as_written("tutorial-eight-members.md", tmp_path)
    finally:
        _remove_namespaces()
    assert "line 2 (`epsilon = 1.0`)" in done.stderr
    assert "has left the run by amendment 1" in done.stderr
    assert "the nodes' models are the simulation's" in done.stdout
