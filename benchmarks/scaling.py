"""How time and memory grow with nodes, features and ranks: `python -m benchmarks.scaling`.

Every point runs in a process of its own, which makes its records, builds problem and graph, runs
private rounds of IPADMM with one step, and answers with seconds and its own peak memory. A point
whose process does not end within `PATIENCE` is stored as such, and shown as such.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

PATIENCE = 240
NODES = (100, 1_000, 10_000, 100_000, 1_000_000)
GRAPHS = ("ring", "random 6-regular")
FEATURES = (10, 30, 100, 300, 1_000, 3_000, 10_000)
RANKS = (1, 2, 4)
RANK_NODES = 100_000
SECTIONS = ("nodes", "features", "ranks")


def points(section: str) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Name and measurement of each point of a curve."""
    if section == "nodes":
        for graph in GRAPHS:
            for nodes in NODES:
                yield f"nodes/{graph}/{nodes}", lambda n=nodes, g=graph: apart(n, 10, 10, g)
    elif section == "features":
        for kind in ("float64", "float32"):
            for features in FEATURES:
                yield (
                    f"features/{kind}/{features}",
                    lambda p=features, k=kind: apart(100, 100, p, "ring", k),
                )
    elif section == "ranks":
        for ranks in RANKS:
            yield f"ranks/{ranks}", lambda r=ranks: over_ranks(r)


def apart(
    nodes: int, records: int, features: int, graph: str, dtype: str = "float64"
) -> dict[str, Any]:
    """A point, measured in a process of its own."""
    asked = {
        "nodes": nodes,
        "records": records,
        "features": features,
        "graph": graph,
        "dtype": dtype,
    }
    words = [sys.executable, "-m", "benchmarks.scaling", "--point", json.dumps(asked)]
    try:
        done = subprocess.run(
            words,
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {**asked, "unfinished": f"not done after {PATIENCE} s"}
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def over_ranks(ranks: int) -> dict[str, Any]:
    """Rounds over MPI ranks with one thread each, by `bench_mpi.py`."""
    from benchmarks.bench_mpi import launch

    asked = SimpleNamespace(nodes=RANK_NODES, rounds=20, repeat=4)
    return {"ranks": ranks, **launch("torus", ranks, asked)}


def point(
    nodes: int, records: int, features: int, graph: str, dtype: str = "float64"
) -> dict[str, Any]:
    """One point in this process."""
    warnings.simplefilter("ignore")
    import tacenda as tc
    from benchmarks.machine import read_bandwidth
    from benchmarks.tables import table

    graphs = {"ring": tc.graph.ring, "random 6-regular": lambda n: tc.graph.random_regular(n, 6)}
    algorithm, budget = tc.algorithms.IPADMM(inner_steps=1), tc.Privacy(1.0, 1e-9)

    def build(X: Any, y: Any) -> tuple[Any, Any, float, float]:
        began = time.perf_counter()
        problem = tc.Problem.from_arrays(X, y, records, strength=1e-3, classes=(0, 1))
        built = time.perf_counter()
        topology = tc.graph.Topology.of(graphs[graph](len(y) // records))
        return problem, topology, built - began, time.perf_counter() - built

    def run(problem: Any, topology: Any, stretch: int, stretches: int) -> tuple[float, list[float]]:
        times: list[float] = []
        began = time.perf_counter()
        tc.simulate(
            problem,
            topology,
            algorithm,
            stretch * stretches,
            budget,
            0,
            metrics=(),
            record_every=stretch,
            callback=lambda *_: times.append(time.perf_counter()),
            progress=False,
        )
        return began, [*times, time.perf_counter()]

    run(*build(*table(20 * records, features, dtype))[:2], 1, 2)  # what is compiled, is
    empty = peak_bytes()
    X, y = table(nodes * records, features, dtype)
    problem, topology, problem_seconds, graph_seconds = build(X, y)
    begun = [run(problem, topology, 1, 2) for _ in range(2)]
    stretch = int(np.clip(2e8 / (nodes * records * features), 4, 1000))
    times = run(problem, topology, stretch, 4)[1]
    peak = peak_bytes()  # before a further table is made
    ends = [*(found for _, found in begun), times]
    a_round = float(min(np.diff(times[:-1]))) / stretch
    return {
        "nodes": nodes,
        "records": records,
        "features": features,
        "graph": graph,
        "dtype": dtype,
        "problem_seconds": problem_seconds,
        "graph_seconds": graph_seconds,
        "before_seconds": max(0.0, min(first[0] - began for began, first in begun) - a_round),
        "round_seconds": a_round,
        "after_seconds": min(found[-1] - found[-2] for found in ends),
        "data_bytes": X.nbytes + y.nbytes,
        "empty_bytes": empty,
        "peak_bytes": peak,
        "read_seconds": (X.nbytes + y.nbytes) / read_bandwidth(turns=40),
    }


def peak_bytes() -> int:
    """The most memory this process has held. The kernel's own mark is read where there is one: the
    other counts what the parent held when it started this process."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling",
        description="Time and memory by nodes, features and ranks, each point in its own process; "
        "stored in benchmarks/results and drawn into docs/performance.",
    )
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    parser.add_argument("--again", action="store_true", help="measure what is stored again")
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point:
        print(json.dumps(point(**given.point)))
        return
    from benchmarks.report import report

    report(given.sections or SECTIONS, again=given.again)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
