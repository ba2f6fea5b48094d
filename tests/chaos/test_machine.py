"""Faults of a member's own machine: kills in every phase, memory, files, clock, language."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from chaos_members import command, elsewhere, limited, nothing_charged, same_bits, with_clock
from node_stage import Crowd, small_contract

pytestmark = pytest.mark.slow
root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
clocks = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.mark.parametrize("words", ["listening", "peer connected", "round one done"])
def test_killed_in_each_phase(crowd: Crowd, words: str) -> None:
    crowd.start()
    crowd.until("m1", words)
    crowd.kill("m1")
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


def test_killed_after_its_last_round(crowd: Crowd) -> None:
    crowd.start()
    crowd.until("m0", "all rounds done")
    for name in ("m0", "m1"):
        crowd.kill(name)
    crowd.start("m0", "m1")
    same_bits(crowd, crowd.finish())


def test_all_members_lose_power_at_once(crowd: Crowd) -> None:
    crowd.start()
    crowd.until("m2", "round one done")
    for name in crowd.names:
        os.kill(crowd.processes[name].pid, signal.SIGKILL)
    crowd.stop()
    crowd.start()
    same_bits(crowd, crowd.finish())


def test_asked_to_stop(crowd: Crowd) -> None:
    crowd.start("m0", "m2")
    crowd.start_as("m1", command)
    crowd.until("m1", "peer connected")
    os.kill(crowd.processes["m1"].pid, signal.SIGTERM)
    assert crowd.wait(120, ["m1"]) == {"m1": 130}
    assert (
        "The node was asked to stop. Everything is saved: start it again to go on."
        in crowd.output("m1")
    )
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


def test_frozen_and_thawed(crowd: Crowd) -> None:
    crowd.start()
    crowd.until("m1", "round one done")
    crowd.freeze("m1", 3.0)
    same_bits(crowd, crowd.finish())


def test_too_little_memory(crowd: Crowd) -> None:
    crowd.start("m0", "m2")
    crowd.start_as("m1", limited, "RLIMIT_AS", 40_000_000)
    (code,) = crowd.wait(120, ["m1"]).values()
    assert code not in (0, None), crowd.output("m1")
    assert "not enough memory" in crowd.output("m1")
    assert code == 4
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


def test_too_few_open_files(crowd: Crowd) -> None:
    crowd.start("m0", "m2")
    crowd.start_as("m1", limited, "RLIMIT_NOFILE", 12)
    (code,) = crowd.wait(120, ["m1"]).values()
    assert code == 4, crowd.output("m1")
    assert "too many open files" in crowd.output("m1")
    assert "ulimit -n" in crowd.output("m1")
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


@root
def test_a_state_folder_that_is_read_only(crowd: Crowd) -> None:
    state = crowd.folder("m1") / "state"
    crowd.start()
    crowd.until("m1", "round one done")
    crowd.kill("m1")
    subprocess.run(["mount", "--bind", str(state), str(state)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(state)], check=True)
        crowd.start_as("m1", command)
        assert crowd.wait(120, ["m1"]) == {"m1": 4}, crowd.output("m1")
        assert "read-only" in crowd.output("m1").lower()
        assert str(state) in crowd.output("m1")
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)
    crowd.start("m1")
    same_bits(crowd, crowd.finish())


def test_a_state_folder_that_is_a_file(crowd: Crowd) -> None:
    (crowd.folder("m1") / "state").write_text("no folder")
    crowd.start_as("m1", command)
    (code,) = crowd.wait(120, ["m1"]).values()
    assert code == 4, crowd.output("m1")
    assert f"The state folder {crowd.folder('m1') / 'state'} cannot be used" in crowd.output("m1")


@pytest.mark.parametrize(
    "environment",
    [
        {"TZ": "Pacific/Kiritimati", "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"},
        {"TZ": "America/St_Johns", "LC_ALL": "C", "LANG": "C"},
    ],
)
def test_another_language_and_time_zone(crowd: Crowd, environment: dict[str, str]) -> None:
    crowd.start("m0", "m2")
    crowd.start_as("m1", elsewhere, environment)
    crowd.until("m1", "round one done")
    crowd.kill("m1")
    crowd.start("m1")  # goes on at home
    same_bits(crowd, crowd.finish())


@clocks
def test_a_clock_that_is_days_behind(crowd: Crowd, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text(f"{-30 * 86400}\n")
    node = with_clock(crowd.stage, "m1", clock)
    said = node.communicate(timeout=120)[0].decode()
    assert node.returncode == 2, said
    assert "your clock differs by at least" in said
    assert "turn on time synchronisation" in said
    nothing_charged(crowd, "m1")


@clocks
def test_a_certificate_that_has_expired(crowd: Crowd, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text(f"{4000 * 86400}\n")
    node = with_clock(crowd.stage, "m1", clock)
    said = node.communicate(timeout=120)[0].decode()
    assert node.returncode == 2, said
    assert "was valid until" in said
    nothing_charged(crowd, "m1")


@clocks
def test_a_clock_that_jumps_in_the_run(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path / "crowd", small_contract(3, rounds=120), seed=3)
    clock = tmp_path / "clock"
    clock.write_text("0\n")
    crowd.start("m0", "m2")
    node = with_clock(crowd.stage, "m1", clock)
    try:
        crowd.until("m1", "round one done")
        for jump in (5 * 3600, -5 * 3600, 0):
            clock.write_text(f"{jump}\n")
            time.sleep(0.6)
        said = node.communicate(timeout=180)[0].decode()
        assert node.returncode == 0, said
        assert crowd.wait(120, ["m0", "m2"]) == {"m0": 0, "m2": 0}
    finally:
        node.kill()
        crowd.stop()
    same_bits(crowd, crowd.models())
