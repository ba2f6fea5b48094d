"""Members as on their own machines, and how they end where something is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from chaos_members import command
from node_stage import Crowd


class Deployed(Crowd):
    """No rehearsal, and a ledger for each that outlives the runs."""

    ledgers: Path
    more: dict[str, Any]

    def _options(self, name: str) -> dict[str, Any]:
        plain = {**super()._options(name), "rehearsal": False, "watch_tls": False}
        return {**plain, "ledger": self.ledgers / f"{name}.sqlite", **self.more}


def deployed(folder: Path, ledgers: Path, contract: Any, **more: Any) -> Deployed:
    """A staged contract, whose members' ledgers may have seen other runs. more: options of all
    members, such as their budget."""
    ledgers.mkdir(exist_ok=True)
    files = {key: more.pop(key) for key in ("schema", "data") if key in more}
    crowd = Deployed(folder, contract, **files)
    crowd.ledgers, crowd.more = ledgers, more
    return crowd


def refused(crowd: Crowd, name: str, code: int, *words: str) -> str:
    """Start one member, as `tacenda node run` does, and see it end with this exit code and these
    words; what it said."""
    before = len(crowd.output(name))
    crowd.start_as(name, command)
    assert crowd.wait(120, [name]) == {name: code}, crowd.output(name)
    said = crowd.output(name)[before:] or crowd.output(name)
    for word in words:
        assert word in said, said
    return said


def shell(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """One command as a process of its own, without a terminal; its words on lines of any length."""
    return subprocess.run(
        [sys.executable, "-m", "tacenda", *map(str, words)],
        env={**os.environ, "COLUMNS": "2000"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
