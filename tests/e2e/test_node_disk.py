"""A full file system and a damaged write-ahead log: the node says so, names the file, and goes on
or refuses; nothing is spent twice."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from node_stage import Crowd, simulated, small_contract
from tacenda.cli import exits
from tacenda.errors import StateError
from tacenda_node.state.database import NodeState
from tacenda_node.state.looks import booked

mounts = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    """Two members; the state of m1, with its log and its ledger, is on a file system of 12 MB."""
    crowd = Crowd(tmp_path / "crowd", small_contract(2, rounds=300), seed=3)
    small = crowd.folder("m1") / "state"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(small)], check=True)
    yield crowd
    crowd.stop()
    subprocess.run(["umount", "-l", str(small)], check=True)


def tacenda(crowd: Crowd, name: str) -> subprocess.Popen[bytes]:
    """The member as `tacenda node run`, for its exit code and its words."""
    words = ["tacenda" if w == "tacenda_node" else w for w in crowd.stage.command(name)]
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


@pytest.mark.slow
def test_charges_are_settled_in_a_long_run_with_kills(tmp_path: Path) -> None:
    rounds = 900
    crowd = Crowd(tmp_path / "crowd", small_contract(2, rounds=rounds), seed=3)
    crowd.start()
    for name in ("m0", "m1", "m0"):
        done = _round(crowd, name)
        while _round(crowd, name) < done + 250:
            assert crowd.processes[name].is_alive(), crowd.output(name)
            time.sleep(0.05)
        crowd.kill(name)
        crowd.start(name)
    np.testing.assert_allclose(
        crowd.finish(300), simulated(crowd.stage, seed=3), rtol=0, atol=1e-12
    )
    for name in crowd.names:
        keys = [charge[:3] for charge in crowd.charges(name)]
        assert len(keys) == len(set(keys)) == 2 * rounds
        assert booked(crowd.folder(name) / "state")[0] == rounds
        assert sum(n for _, n in booked(crowd.folder(name) / "state")[1]) == 2 * rounds
        with sqlite3.connect(crowd.folder(name) / "state" / "node.sqlite") as db:
            assert db.execute("SELECT COUNT(*) FROM charges").fetchone()[0] < 600
        db.close()


def _round(crowd: Crowd, name: str) -> int:
    try:
        return booked(crowd.folder(name) / "state")[0]
    except StateError:  # the file is being made
        return 0


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (sqlite3.OperationalError("database or disk is full"), "database or disk is full"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    ],
)
def test_a_failed_disk_is_no_fault_of_the_program(error: Exception, words: str) -> None:
    assert exits.code_of(error) == exits.STATE
    assert words in exits.sentence_of(error)
    assert "free some space" in exits.sentence_of(error)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_file_that_a_full_disk_does_not_take_is_named(code: int) -> None:
    error = OSError(code, "the disk is full: it needs 5 bytes", "out.csv")
    assert exits.code_of(error) == exits.STATE
    assert exits.sentence_of(error) == "out.csv: the disk is full: it needs 5 bytes."


def test_a_damaged_log_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    """A write-ahead log that was cut: an older state, whole in itself."""
    state = NodeState(tmp_path / "state")
    state.bind("run", "me", "records")
    state.keep_mark(tmp_path / "mark")
    log = tmp_path / "state" / "node.sqlite-wal"
    for turn in range(1, 6):
        question = bytes([turn]) * 32
        state.commit([((0, turn, 0), {"kind": "a"}, question)], [], (0, turn - 1, b"s"))
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    state.close()
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "copy").rename(tmp_path / "state")
    (tmp_path / "state" / "node.sqlite-shm").unlink()
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    with pytest.raises(StateError) as found:
        _used(tmp_path / "state", lambda again: again.keep_mark(tmp_path / "mark"))
    assert "node.sqlite-wal" in str(found.value)
    assert "put the newest state back, or leave the run" in str(found.value)


def test_a_full_disk_at_the_start_is_not_called_damage(tmp_path: Path) -> None:
    """The limit on a file's size stands for a full disk."""
    state = NodeState(tmp_path)
    state.bind("run", "me", "records")
    state.close()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        with pytest.raises(StateError, match=r"cannot be written .*Free disk space"):
            _used(tmp_path, lambda full: full.note("anything", "x" * 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    again = NodeState(tmp_path)
    assert again.bind("run", "me", "records")
    again.close()


def _used(folder: Path, use: Callable[[NodeState], None]) -> None:
    with closing(NodeState(folder)) as state:
        use(state)
