"""Very many nodes are a few arrays: nothing that a run makes or keeps has a Python object, or a
number of its own for each round, per node."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc

NODES = 40_000


def table(nodes: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * nodes, 3))
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
import json, resource, sys
import numpy as np
import tacenda as tc

n, kind = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
X = np.empty((10 * n, 10))
for a in range(0, len(X), 100_000):
    part = X[a : a + 100_000]
    rng.standard_normal(out=part)
    part /= np.linalg.norm(part, axis=1, keepdims=True) * (1 + 1e-9)
y = rng.integers(0, 2, len(X))
problem = tc.Problem.from_arrays(X, y, 10, strength=1e-3, classes=(0, 1))
graph = tc.graph.ring(n) if kind == "ring" else tc.graph.random_regular(n, 6, seed=0)
found = tc.simulate(
    problem, graph, tc.algorithms.IPADMM(inner_steps=1), 3,
    tc.Privacy.from_noise(noise_multiplier=9.0), 0, metrics=(), record_every=0,
)
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"peak": peak, "data": X.nbytes + y.nbytes, "epsilon": found.privacy.epsilon}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ring", "random"])
def test_a_million_nodes_take_two_and_a_half_times_their_records(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LARGE, "1000000", kind], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["peak"] <= 2.5 * found["data"] and found["epsilon"] > 0
