"""A small set of stable micro-benchmarks for the history over commits: `make bench-history`.

Each is timed in turns with a yardstick, a piece of plain NumPy or Python that is bound by the same
thing (memory, the interpreter, normal numbers, ...); what is kept is the ratio of the two best
turns, which machines and their other work change far less than seconds. Only names that users call
are used as far as possible, so that a commit of next year can still run it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from benchmarks.tables import table

# Budgets here are of no interest
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
READ = np.ones(5_000_000)  # 40 MB, more than a cache holds


def read() -> None:
    """Reading 40 MB once, on one thread."""
    READ.sum()


def interpret() -> None:
    """50,000 turns of a loop."""
    total = 0
    for k in range(50_000):
        total += k & 3


def normals() -> None:
    """A million normal numbers."""
    np.random.Generator(np.random.SFC64(0)).standard_normal(1_000_000)


def solve() -> None:
    """100 systems of 104 equations."""
    np.linalg.solve(SYSTEMS, SIDES)


def sort() -> None:
    """A million whole numbers into order."""
    np.sort(UNSORTED)


def start() -> None:
    """A new Python that imports NumPy."""
    new_python("import numpy")


SYSTEMS = np.random.default_rng(0).normal(size=(100, 104, 104)) + 20 * np.eye(104)
SIDES = np.ones((100, 104, 1))
UNSORTED = np.random.default_rng(0).integers(0, 10**9, 1_000_000)


def new_python(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def ratio(benchmark: Any) -> Callable[..., None]:
    """Time work in turns with its yardstick; the ratio of the best turns is stored."""

    def measure(work: Callable[[], Any], yardstick: Callable[[], Any], turns: int) -> None:
        times: list[float] = []

        def before_each_turn() -> None:
            begin = time.perf_counter()
            yardstick()
            times.append(time.perf_counter() - begin)

        yardstick()
        benchmark.pedantic(work, setup=before_each_turn, rounds=turns, warmup_rounds=1)
        benchmark.extra_info["yardstick"] = yardstick.__name__
        benchmark.extra_info["yardstick_seconds"] = min(times)
        benchmark.extra_info["ratio"] = benchmark.stats.stats.min / min(times)

    return measure


def problem_of(nodes: int, records: int, features: int, dtype: Any = float) -> Any:
    X, y = table(nodes * records, features, dtype)
    return tc.Problem.from_arrays(X, y, records, strength=1e-3, classes=(0, 1))


def run(problem: Any, graph: Any, algorithm: Any, rounds: int, budget: Any) -> None:
    tc.simulate(problem, graph, algorithm, rounds, budget, 0, record_every=0, progress=False)


def test_gradients_of_all_nodes(ratio: Any) -> None:
    """100 nodes x 452 x 104, each at its own point: the kernel alone."""
    problem = problem_of(100, 452, 104)
    points = np.zeros((100, 104))
    ratio(lambda: problem.store.gradient(np.arange(100), points), read, 40)


def test_50_private_rounds_of_100_nodes(ratio: Any) -> None:
    """IPADMM with one step, 100 x 10 x 10: mostly the fixed cost of a round."""
    problem, graph = problem_of(100, 10, 10), tc.graph.ring(100)
    method, budget = tc.algorithms.IPADMM(inner_steps=1), tc.Privacy(1.0, 1e-6)
    ratio(lambda: run(problem, graph, method, 50, budget), interpret, 40)


def test_10_private_rounds_of_10000_nodes(ratio: Any) -> None:
    """IPADMM with one step, 10,000 x 10 x 10."""
    problem, graph = problem_of(10_000, 10, 10), tc.graph.ring(10_000)
    method, budget = tc.algorithms.IPADMM(inner_steps=1), tc.Privacy(1.0, 1e-6)
    ratio(lambda: run(problem, graph, method, 10, budget), read, 20)


def test_100_rounds_of_dual_averaging(ratio: Any) -> None:
    """DP-DDA on samples of mean one, 20 nodes x 2000 features, float32: mostly noise."""
    problem, graph = problem_of(20, 100, 2000, np.float32), tc.graph.ring(20)
    method = tc.algorithms.DPDDA(batch_size=1)
    budget = tc.Privacy.from_noise(noise_multiplier=1.0)
    ratio(lambda: run(problem, graph, method, 100, budget), normals, 20)


def test_5_exact_rounds_of_100_nodes(ratio: Any) -> None:
    """ADMM to gradient norm 1e-8 from a cold start, 100 x 452 x 104."""
    problem, graph = problem_of(100, 452, 104), tc.graph.random_regular(100, 4, seed=0)
    method = tc.algorithms.ADMM(penalty=0.01)
    ratio(lambda: run(problem, graph, method, 5, None), solve, 10)


def test_100_releases_of_one_number(ratio: Any) -> None:
    """Gossip of 20 nodes with one record of one feature: sealing, charging, noise, mixing."""
    problem, graph = problem_of(20, 1, 1), tc.graph.ring(20)
    method = tc.algorithms.GossipGD(noise="independent")
    budget = tc.Privacy.from_noise(noise_multiplier=5.0)
    ratio(lambda: run(problem, graph, method, 100, budget), interpret, 40)


def test_noise_for_a_sampled_run(ratio: Any) -> None:
    """From (epsilon, delta) to the noise of 1000 Poisson-sampled Gaussians, by convolution."""
    from tacenda.privacy.accounting.calibration import solve_scale
    from tacenda.privacy.accounting.events import PoissonGaussian

    def work() -> None:
        solve_scale(lambda k: [(PoissonGaussian(k, 0.01), 1000)], 1.0, 1e-6)

    ratio(work, sort, 3)


def test_problem_of_100000_nodes(ratio: Any) -> None:
    """From one table and a number of records a node."""
    X, y = table(1_000_000, 10)
    ratio(lambda: tc.Problem.from_arrays(X, y, 10, classes=(0, 1)), read, 10)


def test_random_graph_of_100000_nodes(ratio: Any) -> None:
    """6-regular, as a topology."""
    ratio(lambda: tc.graph.Topology.of(tc.graph.random_regular(100_000, 6, seed=0)), sort, 5)


def test_cold_import(ratio: Any) -> None:
    """A new Python that imports the package and names what a first script names."""
    ratio(lambda: new_python("import tacenda as tc; tc.simulate, tc.Problem"), start, 5)
