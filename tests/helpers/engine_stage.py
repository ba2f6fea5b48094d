"""Real clusters for the tests of engines: Dask's and Ray's own programs as processes of this
machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacenda.engines import Engine

ROOT = Path(__file__).parents[2]
PATH = f"{ROOT / 'src'}{os.pathsep}{Path(__file__).parent}"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Dask:
    """A scheduler and workers; path: where they look for this program."""

    def __init__(self, *, workers: int = 2, nanny: bool = True, path: str = PATH) -> None:
        self.path, self.port = path, free_port()
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        self.scheduler = self._started("dask_scheduler", *place)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.engine = Engine("dask", f"127.0.0.1:{self.port}")
        if workers:
            self.hire(workers, nanny=nanny)

    def _started(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "PYTHONPATH": self.path, "NUMBA_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env,
        )

    def hire(self, workers: int, *, nanny: bool = True) -> None:
        """More workers, each a process with one thread; a nanny puts a new one in the place of one
        that dies."""
        options = ["--nthreads", "1", "--no-dashboard", "--death-timeout", "60"]
        options += ["--nworkers", str(workers)] if nanny else ["--no-nanny"]
        self.workers.append(self._started("dask_worker", self.engine.address, *options))

    def wait(self, workers: int = 2) -> Dask:
        from distributed import Client

        deadline = time.monotonic() + 60
        while True:
            try:
                with Client(self.engine.address, timeout=10, set_as_default=False) as client:
                    if workers:
                        client.wait_for_workers(workers, timeout=60)
                return self
            except OSError:  # the scheduler is still starting
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def dask(workers: int = 2, *, nanny: bool = True, path: str = PATH) -> Iterator[Dask]:
    cluster = Dask(workers=workers, nanny=nanny, path=path)
    try:
        yield cluster.wait(workers)
    finally:
        cluster.close()


@contextmanager
def ray_head(folder: Path, token: str) -> Iterator[tuple[Engine, int]]:
    """A Ray of its own that asks for a token, with the port for its clients, and the id of its
    group of processes. Ports of workers are put where nobody else listens."""
    port, client = free_port(), free_port()
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    options = {
        "port": port,
        "ray-client-server-port": client,
        "num-cpus": 2,
        "include-dashboard": "false",
        "object-store-memory": 200_000_000,
        "min-worker-port": 0,
        "max-worker-port": 0,
        "temp-dir": folder,
    }
    process = subprocess.Popen(
        [
            *command,
            "--disable-usage-stats",
            *(f"--{name}={value}" for name, value in options.items()),
        ],
        env={**os.environ, **ray_environment(token), "PYTHONPATH": PATH},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _listens(client, process)
        yield Engine("ray", f"127.0.0.1:{client}"), process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def ray_environment(token: str) -> dict[str, str]:
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "NUMBA_NUM_THREADS": "1",
    }


def _listens(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("Ray did not start")
