"""Which programs are compared on what, and how: all sides are started, each makes one turn to warm
up, then they take turns; the best turn of each counts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import tacenda as tc
from benchmarks.environments import DECENT_BENCH, DIFFPRIVLIB, FLOWER, FOLDER, Environment
from benchmarks.tables import table

HERE = Path(__file__).parent
PATIENCE = 300  # seconds for one stage or turn of one side
# With products of this size a second thread of BLAS costs more than it gives: measured, diffprivlib
# and decent-bench's ADMM take twice as long with it. Our own kernels have threads of their own.
ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Side:
    """A program, the script that drives it, and what is asked of it besides the common work."""

    name: str
    script: str
    environment: Environment | None = None
    asked: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Work for several sides, ours first. quality names the figure that both must agree on, or
    that tells how good the model is."""

    title: str
    nodes: int
    records: int
    features: int
    asked: dict[str, Any]
    sides: tuple[Side, ...]
    quality: str
    turns: int
    test: int = 0


def ours(name: str = "Tacenda", **asked: Any) -> Side:
    return Side(name, "side_tacenda.py", None, asked)


SIZE = {"nodes": 100, "records": 452, "features": 104}
PEERS: dict[str, list[Comparison]] = {
    "decent-bench": [
        Comparison(
            "gradient steps over peers, 100 rounds",
            **SIZE,
            asked={"method": "ATC", "rounds": 100, "step": 4.0},
            sides=(
                ours("Tacenda GossipGD"),
                Side("decent-bench ATC", "side_decent_bench.py", DECENT_BENCH),
                Side("decent-bench DGD", "side_decent_bench.py", DECENT_BENCH, {"method": "DGD"}),
            ),
            quality="loss",
            turns=5,
        ),
        Comparison(
            "ADMM over peers, 5 rounds",
            **SIZE,
            asked={"method": "ADMM", "rounds": 5, "penalty": 0.05},
            sides=(
                ours("Tacenda ADMM"),
                Side("decent-bench ADMM", "side_decent_bench.py", DECENT_BENCH),
            ),
            quality="loss",
            turns=2,
        ),
    ],
    "flower": [
        Comparison(
            "federated gradient descent, 10 rounds",
            **SIZE,
            asked={"method": "FedAvg", "rounds": 10, "step": 4.0},
            sides=(
                ours("Tacenda TreeGD, no privacy"),
                Side("Flower FedAvg", "side_flower.py", FLOWER),
                ours("Tacenda TreeGD, epsilon 1", epsilon=1.0, delta=1e-6),
            ),
            quality="loss",
            turns=2,
        )
    ],
    "diffprivlib": [
        Comparison(
            "private logistic regression on pooled records, epsilon 1",
            nodes=1,
            records=45_200,
            features=104,
            asked={"method": "fit", "epsilon": 1.0, "delta": 1e-6},
            sides=(
                ours("Tacenda, one node"),
                Side("diffprivlib", "side_diffprivlib.py", DIFFPRIVLIB),
                ours("Tacenda, 100 nodes", nodes=100),
            ),
            quality="accuracy",
            turns=5,
            test=10_000,
        )
    ],
}


def compare(
    one: Comparison, turns: int | None = None, tell: Callable[[str], Any] = lambda _: None
) -> dict[str, Any]:
    """Seconds, memory and quality of every side of a comparison."""
    # Environments first: making one takes longer than all turns
    pythons = [s.environment.python() if s.environment else Path(sys.executable) for s in one.sides]
    players: list[Player] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_work(one, home)
        try:
            for number, (side, python) in enumerate(zip(one.sides, pythons, strict=True)):
                asked = {**common(one), **one.asked, **side.asked}
                (home / f"asked{number}.json").write_text(json.dumps(asked))
                tell(f"{side.name}: start and warm up")
                players.append(Player(side.name, python, side.script, home, number))
            for _ in range(one.turns if turns is None else turns):
                for player in players:
                    tell(player.name)
                    player.turn()
            sides = [player.found(one.quality) for player in players]
        finally:
            for player in players:
                player.end()
    return {
        "title": one.title,
        "nodes": one.nodes,
        "records": one.records,
        "features": one.features,
        "quality": one.quality,
        "sides": sides,
    }


def common(one: Comparison) -> dict[str, Any]:
    """What every side is told: the number of nodes, the graph's edges, the size of the test."""
    edges: list[Any] = []
    if one.nodes > 1:
        graph = tc.graph.Topology.of(tc.graph.random_regular(one.nodes, 4, seed=0))
        edges = [[i, int(j)] for i in range(graph.n) for j in graph.neighbours(i) if i < j]
    return {"nodes": one.nodes, "edges": edges, "test": one.test}


def write_work(one: Comparison, home: Path) -> None:
    X, y = table(one.nodes * one.records + one.test, one.features)
    np.save(home / "X.npy", X)
    np.save(home / "y.npy", y)


class Player:
    """One side's process."""

    def __init__(self, name: str, python: Path, script: str, home: Path, number: int) -> None:
        self.name = name
        FOLDER.mkdir(exist_ok=True)
        self._log = FOLDER / f"{script.removesuffix('.py')}.log"
        outer = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        scratch = home / f"s{number}"  # for Ray, whose sockets need a short path
        scratch.mkdir()
        begin = time.perf_counter()
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [python, HERE / script, home, f"asked{number}.json"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                env={**outer, **ONE_BLAS_THREAD, "RAY_TMPDIR": str(scratch)},
            )
        self._memory = Memory(self._process.pid)
        self._turns: list[dict[str, Any]] = []
        try:
            self._program = self._stage("imported")["program"]
            imported = time.perf_counter()
            self._stage("ready")
            self._import, self._setup = imported - begin, time.perf_counter() - imported
            self._first = self.turn()
            self._turns.clear()
        except BaseException:
            self.end()
            raise
        finally:
            self.peak = self._memory.end()

    def turn(self) -> dict[str, Any]:
        """One turn; "whole" is how long it took seen from here."""
        assert self._process.stdin is not None
        begin = time.perf_counter()
        self._process.stdin.write("\n")
        found = self._stage("turn")
        self._turns.append({**found, "whole": time.perf_counter() - begin})
        return self._turns[-1]

    def _stage(self, name: str) -> dict[str, Any]:
        """The next answer, within `PATIENCE`."""
        assert self._process.stdout is not None
        late = threading.Timer(PATIENCE, self._kill)
        late.start()
        try:
            line = self._process.stdout.readline()
        finally:
            late.cancel()
        if not line:
            raise RuntimeError(
                f"{self.name} ended, or did not answer within {PATIENCE} s, before {name!r}; "
                f"{self._log} ends with:\n{self._log.read_text()[-1500:]}"
            )
        found: dict[str, Any] = json.loads(line)
        assert found["stage"] == name, found
        return found

    def found(self, quality: str) -> dict[str, Any]:
        best = min(self._turns, key=lambda turn: turn["seconds"])
        rounds = best.get("rounds", 1)
        return {
            "name": self.name,
            "program": self._program,
            "seconds": best["seconds"] / rounds,
            "per": "round" if rounds > 1 else "fit",
            "seconds_of_turns": [turn["seconds"] / rounds for turn in self._turns],
            "import_seconds": self._import,
            "setup_seconds": self._setup,
            "first_run_seconds": self._first["whole"],
            "later_run_seconds": min(turn["whole"] for turn in self._turns),
            "peak_mb": self.peak / 1e6,
            quality: float(np.mean([turn[quality] for turn in self._turns])),
        }

    def end(self) -> None:
        """Let the process end by itself, and end it and whatever it has started if it does not."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended before
            self._process.stdin.close()
        self._kill(after=10)
        self._process.stdout.close()

    def _kill(self, after: float = 0.0) -> None:
        try:
            own = psutil.Process(self._process.pid)
            started = [*own.children(recursive=True), own]
        except psutil.NoSuchProcess:
            started = []
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(after)
        for process in started:
            if process.is_running():
                process.kill()
        self._process.wait()


class Memory:
    """The most memory that a process and its children held together, looked at ten times a second:
    pages that several share count once."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak, self._over = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            held = 0
            try:
                own = psutil.Process(self._pid)
                for process in [own, *own.children(recursive=True)]:
                    held += process.memory_full_info().pss
            except psutil.Error:
                continue  # one of them has just ended
            self._peak = max(self._peak, held)

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        return self._peak
