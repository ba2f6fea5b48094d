"""Kernels compiled beside a first run: those that it needs, and no others; a word is said while it
takes time."""

from __future__ import annotations

import gc
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

from tacenda import _compiled, warm_up
from tacenda._jit import EXACT, njit

LINE, SPENT = "Compiling the inner loops", "of it compiling"


# Notes what a program compiles: module, name, types
LISTENER = """import json, sys
from numba.core import event
from tacenda import warm_up

class Found(event.Listener):
    names, depth = [], 0
    def on_start(self, e):
        self.depth += 1
    def on_end(self, e):
        self.depth -= 1
        if self.depth == 0:
            found = e.data["dispatcher"].py_func
            self.names.append([found.__module__, found.__name__, str(e.data["args"])])

event.register("numba:compile", Found())
"""


def test_every_listed_kernel_is_there_and_takes_so_many_arguments() -> None:
    names = [(module, name) for module, name, _ in warm_up.KERNELS]
    assert len(set(names)) == len(names)
    for module, name, letters in warm_up.KERNELS:
        function = warm_up.kernel(module, name).py_func
        types = warm_up.signature(letters)
        assert len(types) == len(inspect.signature(function).parameters), name


@pytest.mark.slow
def test_what_is_listed_is_compiled_and_nothing_else(tmp_path: Path) -> None:
    """Small runs of the methods that the demo compares compile nothing once it was warmed up."""
    program = f"""{LISTENER}
warm = warm_up.is_warm()
if sys.argv[1] == "warm up":
    warm_up.compile_all()
else:
    import tacenda as tc
    data = tc.data.make_classification(400, 3, difficulty=0.3, seed=0)
    shards = tc.data.partition.even(data.X, data.y, 8, seed=0)
    problem = tc.Problem(shards, strength=1e-2, classes=(0, 1))
    graph, privacy = tc.graph.random_regular(8, 3, seed=0), tc.Privacy(epsilon=2.0, delta=1e-5)
    for name in ("cdpadmm", "ipadmm"):
        tc.simulate(problem, graph, name, 3, privacy, 0, metrics=("objective", "accuracy"))
    problem.solve()
print(json.dumps([warm, Found.names]))
"""

    def run(what: str) -> tuple[bool, list[list[str]]]:
        done = subprocess.run(
            [sys.executable, "-c", program, what],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        warm, names = json.loads(done.stdout)
        return warm, names

    warm, compiled = run("warm up")
    assert not warm
    assert {name for _, name, _ in compiled} == {name for _, name, _ in warm_up.KERNELS}
    assert len(compiled) == len(warm_up.KERNELS)
    assert run("warm up") == (True, [])
    assert run("use") == (True, [])


@pytest.mark.slow
def test_a_cold_demo_compiles_what_is_listed_and_says_so(tmp_path: Path) -> None:
    """As a count: what each costs depends on the machine."""
    program = f"""{LISTENER}
warm_up._cores = lambda: 1  # alone
from tacenda.cli.app import app
try:
    app(["demo", "--offline", "--folder", sys.argv[1]])
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(Found.names))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "run")]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    environment.pop("TACENDA_DATA", None)  # Adult's files would be read, and their reader compiled
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    compiled = json.loads(done.stdout.splitlines()[-1])
    listed = [
        [f"tacenda.{module}", name, str(warm_up.signature(letters))]
        for module, name, letters in warm_up.KERNELS
    ]
    assert sorted(compiled) == sorted(listed)
    assert len(compiled) <= 20
    assert done.stderr.count(LINE) == 1 and done.stdout.count(SPENT) == 1
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout.splitlines()[-1]) == []
    assert LINE not in again.stderr and SPENT not in again.stdout


def test_helpers_run_beside_and_end_with_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[Any] = []
    popen = subprocess.Popen

    def noted(command: list[str], **options: Any) -> Any:
        assert command[1:] == ["-P", "-m", "tacenda.warm_up", str(len(started)), "2"]
        started.append(popen([sys.executable, "-c", "import time; time.sleep(60)"], **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(warm_up, "is_warm", lambda: False)
    monkeypatch.setattr(warm_up, "_cores", lambda: 3)

    def failing() -> None:
        with warm_up.beside():
            assert [helper.poll() for helper in started] == [None, None]
            raise ValueError("of the run")

    with pytest.raises(ValueError, match="of the run"):
        failing()
    assert all(helper.poll() is not None for helper in started)
    for name, value in (("_cores", 1), ("is_warm", True)):
        with monkeypatch.context() as other:
            other.setattr(warm_up, name, lambda value=value: value)
            with warm_up.beside():
                assert len(started) == 2


@pytest.mark.parametrize("cores", [1, 2, 4, 64])
def test_helpers_share_the_list(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    """Each kernel is compiled by one of them; no more are started than cores are free."""
    parts: list[list[str]] = []
    monkeypatch.setattr(warm_up, "is_warm", lambda: False)
    monkeypatch.setattr(warm_up, "_cores", lambda: cores)
    monkeypatch.setattr(
        warm_up,
        "kernel",
        lambda _, name: SimpleNamespace(compile=lambda types: parts[-1].append(name)),
    )

    def here(command: list[str], **_: Any) -> Any:
        parts.append([])
        warm_up.compile_all(*map(int, command[4:]))
        return SimpleNamespace(terminate=lambda: None, wait=lambda: 0)

    monkeypatch.setattr(subprocess, "Popen", here)
    with warm_up.beside():
        pass
    assert len(parts) == min(cores - 1, warm_up.MOST)
    listed = [name for _, name, _ in warm_up.KERNELS]
    assert sorted(name for part in parts for name in part) == (sorted(listed) if parts else [])
    assert all(part == sorted(part, key=listed.index, reverse=True) for part in parts)


def test_without_a_process_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise OSError("no process")

    monkeypatch.setattr(subprocess, "Popen", refused)
    monkeypatch.setattr(warm_up, "is_warm", lambda: False)
    monkeypatch.setattr(warm_up, "_cores", lambda: 2)
    with warm_up.beside():
        pass


def test_a_word_is_said_once_and_only_where_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(_compiled, "_spent", 0.0)  # as before, afterwards
    with _compiled.telling(said.append):
        _compiled.tell(0.4)
        assert said == []
        with _compiled.telling(None):
            _compiled.tell(9.0)
        _compiled.tell(0.6)
        _compiled.tell(0.7)
    assert _compiled.compiled_for() == 0.7
    assert len(said) == 1 and said[0].startswith(LINE)
    _compiled.tell(9.0)
    assert len(said) == 1

    monkeypatch.setattr(_compiled, "PATIENCE", 0.0)

    @njit(**{**EXACT, "cache": False})
    def anew(row: Any) -> float:
        return row[0] + row.shape[0]  # type: ignore[no-any-return]

    with _compiled.telling(said.append):
        anew(np.ones(3))
        assert len(said) == 2 and gc.isenabled()
        anew(np.ones(3))
        with pytest.raises(TypingError):  # fails while it is compiled: garbage is collected again
            anew("text")
    assert len(said) == 2 and gc.isenabled()
