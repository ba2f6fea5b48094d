"""The tutorial with three organisations, run as written; it says how many commands it needs."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest

from tutorials import ROOT, blocks_of, run_as_written

PAGE = "tutorial-three-organisations.md"
SECONDS = 90.0  # of a processor: "never more than a minute and a half"
OPTIONAL = "tacenda node check"


def test_it_needs_nine_commands_and_two_exchanges() -> None:
    text = (ROOT / "docs" / PAGE).read_text("utf-8")
    assert "Nine commands in all, and two exchanges of files" in text
    assert "never more than a minute and a half" in text
    lines = "".join(blocks_of(PAGE)).splitlines()
    commands = [line for line in lines if re.match(r"\s*tacenda\b", line)]
    needed = [line for line in commands if not line.startswith(OPTIONAL)]
    assert len(needed) == 9, needed
    assert len(commands) == 10
    assert not any("tacenda" in line for line in lines if re.match(r"\s*(for|while)\b", line))
    # What leaves a member's folder: the invitation, then the cards; then the contract
    sent = [line for line in lines if line.startswith("cp ")]
    assert [Path(word).suffix for line in sent for word in line.split()[1:-1]] == [
        ".invite",
        ".card",
        ".card",
        ".toml",
    ]


@pytest.mark.slow
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_as_written(PAGE, tmp_path, seconds=900)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS
    for clinic in ("north", "east", "south"):
        assert re.search(rf"{clinic}: epsilon (1\.\d\d\d|2\.000)", done.stdout)
        keys = [tmp_path / clinic / "identity" / name for name in ("tls.key", "signing.key")]
        assert all(key.stat().st_mode & 0o077 == 0 for key in keys)
        assert not list((tmp_path / "common").glob("*.key"))
    assert "rounds of TreeGD" in done.stdout
    assert re.search(r"ok +rehearsal +3 rounds with 2 simulated neighbours", done.stdout)
