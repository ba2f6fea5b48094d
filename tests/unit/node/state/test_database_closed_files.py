"""What is closed holds no file: another process, or the same one again, may have it."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest

from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.state.database import NodeState


def held(folder: Path) -> set[str]:
    """The files below `folder` that this process has open."""
    found = set()
    for one in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(one)
        except OSError:  # the handle of this very listing
            continue
        if target.startswith(str(folder)):
            found.add(Path(target).name)
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are listed in /proc")
def test_a_ledger_and_a_state_let_go_of_their_files(tmp_path: Path) -> None:
    store = LedgerStore(tmp_path / "book")
    store.set_budget("d", 1.0, 1e-5)
    assert "book" in held(tmp_path)
    store.close()
    assert held(tmp_path) == set()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        store.datasets()
    state = NodeState(tmp_path / "state")
    state.bind("run", "me", "records")
    state.keep_mark(tmp_path / "marks" / "m")
    assert len(held(tmp_path)) >= 3  # the lock, the database and the mark
    state.close()
    assert held(tmp_path) == set()
    again = NodeState(tmp_path / "state")
    assert again.keep_mark(tmp_path / "marks" / "m") is None
    again.close()
