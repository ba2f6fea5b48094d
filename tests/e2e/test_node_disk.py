"""A full file system and a damaged write-ahead log: the node says so, names the file, and goes on
or refuses; nothing is spent twice."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from node_stage import Crowd, simulated, small_contract

mounts = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    """Two members; the state of m1, with its log and its ledger, is on a file system of 1.5 MB."""
    crowd = Crowd(tmp_path / "crowd", small_contract(2, rounds=300), seed=3)
    small = crowd.folder("m1") / "state"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(small)], check=True)
    yield crowd
    crowd.stop()
    subprocess.run(["umount", "-l", str(small)], check=True)


def tacenda(crowd: Crowd, name: str) -> subprocess.Popen[bytes]:
    """The member as `tacenda node run`, for its exit code and its words."""
    words = ["tacenda" if w == "tacenda.node" else w for w in crowd.stage.command(name)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.slow
@mounts
def test_a_full_file_system_stops_the_node_with_a_sentence(crowd: Crowd) -> None:
    state = crowd.folder("m1") / "state"
    crowd.start("m0")
    node = tacenda(crowd, "m1")
    log = state / "log.jsonl"
    while not log.exists() or "round one done" not in log.read_text():
        assert node.poll() is None, node.communicate()
        time.sleep(0.02)
    filler = state / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    said = node.communicate(timeout=60)[0].decode()
    assert node.returncode == 4, said
    assert str(state) in said
    assert "Free disk space" in said
    assert "unexpected" not in said
    assert "Traceback" not in said
    again = tacenda(crowd, "m1")  # still full
    said = again.communicate(timeout=60)[0].decode()
    assert again.returncode == 4, said
    assert "Free disk space" in said
    filler.unlink()
    last = tacenda(crowd, "m1")
    out = last.communicate(timeout=120)[0].decode()
    assert last.returncode == 0, out
    assert crowd.wait(60, ["m0"]) == {"m0": 0}
    np.testing.assert_allclose(crowd.models(), simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)
