"""Engines: real processes, a real Dask cluster, a real Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import engine_calls

from tacenda import engines
from tacenda.engines import Engine, EngineWarning, run_calls
from tacenda.errors import InputError, StateError

ROOT = Path(__file__).parents[2]
LOKY = Engine("loky")


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        ("loky", "loky", ""),
        ("dask://head:8786", "dask", "head:8786"),
        ("ray://head:10001", "ray", "head:10001"),
        ("ray", "ray", ""),
    ],
)
def test_an_engine_is_read_and_written(text: str, kind: str, address: str) -> None:
    found = Engine.parse(text)
    assert (found.kind, found.address, str(found)) == (kind, address, text)
    assert found.is_local == (kind == "loky")


@pytest.mark.parametrize("text", ["", "dask", "dask://", "loky://x", "slurm", "http://head:80"])
def test_another_engine_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="engine must be"):
        Engine.parse(text)


def _all(engine: Engine, calls: list[Any], folder: Path | None = None) -> dict[int, Any]:
    return dict(run_calls(engine, calls, 2, folder))


def _numbered(count: int) -> list[Any]:
    return [(engine_calls.squared, k) for k in range(count)]


def test_processes_of_this_machine() -> None:
    assert _all(LOKY, _numbered(5)) == {k: k * k for k in range(5)}


def test_a_lost_process_is_replaced(tmp_path: Path) -> None:
    calls = [(engine_calls.dies_once, str(tmp_path / "mark"), k) for k in range(4)]
    with pytest.warns(EngineWarning, match="a worker was lost"):
        assert _all(LOKY, calls) == {k: k for k in range(4)}


def test_calls_that_always_kill_their_worker_end() -> None:
    with (
        pytest.warns(EngineWarning, match="made again"),
        pytest.raises(StateError, match="workers were lost 4 times"),
    ):
        _all(LOKY, [(engine_calls.dies_always, 1)])


def test_an_error_of_a_call_is_its_own() -> None:
    with pytest.raises(ValueError, match="a call of its own failed: 3"):
        _all(LOKY, [(engine_calls.wrong, 3)])


class _Dask:
    """A scheduler and two workers as processes of their own."""

    def __init__(self) -> None:
        pytest.importorskip("distributed")
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        self.port = _free_port()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": env}
        self.scheduler = subprocess.Popen(
            [*dask, "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"], **quiet
        )
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", f"127.0.0.1:{self.port}"]
        worker += ["--nthreads", "1", "--nworkers", "2", "--no-dashboard", "--death-timeout", "60"]
        self.worker = subprocess.Popen(worker, **quiet)
        self.engine = Engine("dask", f"127.0.0.1:{self.port}")

    def wait(self) -> _Dask:
        from distributed import Client

        with Client(f"tcp://{self.engine.address}", timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
        return self

    def close(self) -> None:
        for process in (self.worker, self.scheduler):
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="module")
def dask() -> Iterator[_Dask]:
    cluster = _Dask()
    yield cluster.wait()
    cluster.close()


@pytest.mark.slow
def test_dask_workers_do_the_calls(dask: _Dask, tmp_path: Path) -> None:
    assert _all(dask.engine, _numbered(6), tmp_path) == {k: k * k for k in range(6)}
    assert list(tmp_path.iterdir()) == []  # nothing is left of the trial
    with pytest.raises(ValueError, match="a call of its own failed: 3"):
        _all(dask.engine, [(engine_calls.wrong, 3)])


@pytest.mark.slow
def test_a_lost_dask_worker_is_replaced(dask: _Dask, tmp_path: Path) -> None:
    calls = [(engine_calls.dies_once, str(tmp_path / "mark"), k) for k in range(4)]
    assert _all(dask.engine, calls) == {k: k for k in range(4)}
    assert (tmp_path / "mark").exists()


@pytest.mark.slow
def test_workers_with_another_program_are_refused(
    dask: _Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_tried", engine_calls.squared_path)
    with pytest.raises(StateError, match="another version of tacenda"):
        _all(dask.engine, _numbered(1), tmp_path)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "CONNECT_SECONDS", 1)
    with pytest.raises(StateError, match="no scheduler answered within 1 s"):
        _all(Engine("dask", f"127.0.0.1:{_free_port()}"), _numbered(1))


@pytest.mark.slow
def test_a_scheduler_that_dies_ends_the_runs() -> None:
    cluster = _Dask().wait()
    try:
        seen: list[int] = []
        began = time.monotonic()
        calls = [(engine_calls.slow, k, 0.5 if k < 2 else 60) for k in range(6)]
        found = run_calls(cluster.engine, calls, 1)
        seen.append(next(found)[0])
        cluster.scheduler.send_signal(signal.SIGKILL)
        with pytest.raises(StateError, match="is gone"):
            seen += [k for k, _ in found]
        assert seen
        assert time.monotonic() - began < 120
    finally:
        cluster.close()


@pytest.mark.slow
def test_ray_does_the_calls_and_replaces_a_lost_worker(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    ray = Engine("ray")
    assert _all(ray, _numbered(5), tmp_path) == {k: k * k for k in range(5)}
    calls = [(engine_calls.dies_once, str(tmp_path / "mark"), k) for k in range(4)]
    assert _all(ray, calls) == {k: k for k in range(4)}
    with pytest.raises(ValueError, match="a call of its own failed: 3"):
        _all(ray, [(engine_calls.wrong, 3)])
