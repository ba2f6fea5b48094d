"""Very many nodes are a few arrays: nothing that a run makes or keeps has a Python object, or a
number of its own for each round, per node."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.runtime.block import Block
from tacenda.runtime.host import Host
from tacenda.runtime.network import Network

NODES = 40_000
WIDE, FEATURES = 8_000, 40


def table(nodes: int, seed: int = 0, features: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * nodes, features))
    return X / (2 * np.linalg.norm(X, axis=1, keepdims=True)), rng.integers(0, 2, 2 * nodes)


def run(nodes: int, graph: Any, rounds: int = 3) -> Any:
    X, y = table(nodes)
    problem = tc.Problem.from_arrays(X, y, 2, strength=1e-2, classes=(0, 1))
    return tc.simulate(
        problem,
        graph,
        tc.algorithms.CDPADMM(penalty=0.1, proximal=1.0),
        rounds,
        tc.Privacy.from_noise(noise_multiplier=4.0),
        seed=0,
        metrics=(),
    )


@pytest.mark.parametrize("kind", ["ring", "random"])
def test_no_python_object_per_node(kind: str, tmp_path: Path) -> None:
    def graph(n: int) -> Any:
        return tc.graph.ring(n) if kind == "ring" else tc.graph.small_world(n, 20, 0.3, seed=1)

    run(100, tc.graph.ring(100))  # what is loaded and compiled once
    gc.collect()
    before = sys.getallocatedblocks()
    result = run(NODES, graph(NODES))
    gc.collect()
    assert sys.getallocatedblocks() - before < NODES // 10
    # Every round has another charge, and each has a number for each kind of node only
    entries = [len(v) for c, _ in result.privacy.charges for v in c.entries.values()]
    assert len(entries) == 3 and max(entries) <= 60
    assert result.privacy.node_epsilons.shape == (NODES,)
    saved = tc.load(result.save(tmp_path / "result.safetensors"))
    assert np.array_equal(saved.settings["graph"]["edges"], result.settings["graph"]["edges"])
    assert saved.settings["graph"]["labels"] == range(NODES)
    assert np.array_equal(saved.privacy.node_epsilons, result.privacy.node_epsilons)


LARGE = """
import json, sys
from pathlib import Path
import numpy as np
import tacenda as tc

n, kind = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
X = np.empty((10 * n, 10))
for a in range(0, len(X), 100_000):
    part = X[a : a + 100_000]
    rng.standard_normal(out=part)
    part /= np.linalg.norm(part, axis=1, keepdims=True) * (1 + 1e-9)
y = rng.integers(0, 2, len(X), dtype=np.int8)
problem = tc.Problem.from_arrays(X, y, 10, strength=1e-3, classes=(0, 1))
graph = tc.graph.ring(n) if kind == "ring" else tc.graph.random_regular(n, 6, seed=0)
privacy = tc.Privacy.from_noise(noise_multiplier=9.0)
for _ in range(3):  # one after the other, with the default metrics, measured after every round
    epsilon = tc.simulate(
        problem, graph, tc.algorithms.IPADMM(inner_steps=1), 3, privacy, 0,
        callback=lambda *_: False,
    ).privacy.epsilon
# Not getrusage: that also counts what the parent held when it started this process
peak = 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
print(json.dumps({"peak": peak, "data": X.nbytes + y.nbytes, "epsilon": epsilon}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ring", "random"])
def test_a_million_nodes_take_little_more_than_their_records(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LARGE, "1000000", kind], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # The rows above (decision 33) take ten times 80 MB, and Python with its libraries 190 MB
    assert found["peak"] <= 2.6 * found["data"] and found["epsilon"] > 0


@pytest.fixture
def wide() -> tuple[Any, Any]:
    """Nodes whose models are far longer than what else is held for each of them."""
    X, y = table(WIDE, features=FEATURES)
    return (tc.Problem.from_arrays(X, y, 2, strength=1e-2, classes=(0, 1)), tc.graph.ring(WIDE))


def short_run(problem: Any, graph: Any, algorithm: Any, callback: Any = None) -> None:
    privacy = tc.Privacy.from_noise(noise_multiplier=4.0)
    tc.simulate(problem, graph, algorithm, 3, privacy, 0, metrics=(), callback=callback)


@pytest.mark.parametrize(
    ("algorithm", "most"),
    [
        # The start, both states with model and dual, what is heard, and a gradient; for an average
        # its sum; for several steps their pull, their sum and the steps before (decision 33)
        (tc.algorithms.CDPADMM(penalty=0.1, proximal=1.0), 7),
        (tc.algorithms.IPADMM(inner_steps=1), 8),
        (tc.algorithms.IPADMM(inner_steps=3), 12),
    ],
)
def test_few_rows_are_alive_at_once(wide: tuple[Any, Any], algorithm: Any, most: int) -> None:
    """Rows of all nodes at the peak of a round, in units of one model for each node, besides some
    numbers for each node."""
    short_run(*wide, algorithm)  # what is loaded and compiled once
    peaks: list[float] = []

    def told(turn: int, models: Any) -> None:
        peaks.append((tracemalloc.get_traced_memory()[1] - before) / models.nbytes)
        tracemalloc.reset_peak()

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        short_run(*wide, algorithm, told)
    finally:
        tracemalloc.stop()
    assert len(peaks) == 3
    assert max(peaks) < most + 0.9


@pytest.mark.parametrize("algorithm", ["ipadmm", "dpdda", "gossipgd", "admm", "whitened"])
def test_a_run_leaves_nothing_to_the_collector(algorithm: str) -> None:
    """What refers to itself lives until the collector comes, and a million nodes with it."""
    X, y = table(40)
    problem = tc.Problem.from_arrays(X, y, 2, strength=1e-2, classes=(0, 1))
    privacy = None if algorithm == "admm" else tc.Privacy.from_noise(noise_multiplier=4.0)
    name = "dpdda" if algorithm == "whitened" else algorithm

    def alive() -> list[str]:  # by type(): a dead proxy among them refuses to be asked
        kinds = (type(found) for found in gc.get_objects())
        return sorted(kind.__name__ for kind in kinds if kind in (Host, Block, Network))

    gc.collect()
    before = alive()
    gc.disable()
    try:
        tc.simulate(
            problem,
            tc.graph.ring(40),
            name,
            3,
            privacy,
            0,
            prepare="whitening" if algorithm == "whitened" else None,
        )
        left = alive()
    finally:
        gc.enable()
    assert left == before
