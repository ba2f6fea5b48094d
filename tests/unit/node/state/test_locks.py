"""One process holds a file, and where the system has no such locks a node says what to do."""

from __future__ import annotations

import multiprocessing as mp
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tacenda.errors import InputError
from tacenda_node.state.database import NodeState
from tacenda_node.state.locks import lock


def _hold(path: Path, said: Any, until: Any) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    lock(handle)
    said.set()
    until.wait(60)


def test_a_second_process_is_refused_and_served_once_the_first_has_ended(tmp_path: Path) -> None:
    context = mp.get_context("spawn")
    said, until, path = context.Event(), context.Event(), tmp_path / "lock"
    other = context.Process(target=_hold, args=(path, said, until))
    other.start()
    try:
        assert said.wait(60)
        handle = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            lock(handle)
        other.kill()
        lock(handle, wait=True)
        os.close(handle)
    finally:
        other.kill()
        other.join()


def test_where_the_system_has_no_such_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(InputError, match="On Windows run it in WSL 2"):
        NodeState(tmp_path / "state")
    assert not (tmp_path / "state" / "node.sqlite").exists()
