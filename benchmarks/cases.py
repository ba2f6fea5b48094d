"""The five comparisons (a) to (e). Each answers a list of rows: what, ratio, target."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np

import tacenda as tc
from benchmarks import rivals
from benchmarks.machine import reader
from benchmarks.timing import Best, best_of


@dataclass(frozen=True)
class Row:
    """One line of the table: ratio by the wall's clock, by the processor's,
    and what is behind it."""

    what: str
    ratio: float
    target: str
    detail: str
    cpu: float | None = None


def compared(what: str, ours: Best, theirs: Best, target: str) -> Row:
    detail = (
        f"{1e3 * ours.wall:.0f} and {1e3 * theirs.wall:.0f} ms (processor {1e3 * ours.cpu:.0f} "
        f"and {1e3 * theirs.cpu:.0f})"
    )
    return Row(what, ours.wall / theirs.wall, target, detail, ours.cpu / theirs.cpu)


def dense(nodes: int, records: int, features: int, dtype: Any = float, seed: int = 0) -> Any:
    """A logistic problem of equal nodes, rows on the unit sphere."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(nodes * records, features)).astype(dtype)
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-6)
    y = np.where(
        x @ rng.normal(size=features).astype(dtype) + 0.1 * rng.normal(size=len(x)) > 0, 1, -1
    )
    cuts = [slice(i * records, (i + 1) * records) for i in range(nodes)]
    return tc.Problem([(x[c], y[c]) for c in cuts], strength=1e-3, classes=(-1, 1))


def private_rounds(turns: int) -> list[Row]:
    """(a) 100 private rounds of IPADMM with one step, 100 nodes x 452 x 104."""
    problem = dense(100, 452, 104)
    graph = tc.graph.Topology.of(tc.graph.erdos_renyi(100, 0.08, seed=0))
    x, y = rivals.tables(problem)
    algorithm, budget = tc.algorithms.IPADMM(inner_steps=1), tc.Privacy(epsilon=1.0, delta=1e-5)
    size = problem.store.nbytes
    with reader(100 * size) as read:
        ours, loop, reading = best_of(
            [
                lambda: tc.simulate(
                    problem, graph, algorithm, 100, budget, 0, record_every=0, progress=False
                ),
                lambda: rivals.gradient_loop(x, y, 100, 1e-3),
                read,
            ],
            turns,
        )
    return [
        compared(
            "(a) 100 private IPADMM rounds / noise-free NumPy gradient loop", ours, loop, "<= 0.7"
        ),
        Row(
            "    one of them / reading the data once from memory",
            ours.wall / reading.wall,
            "<= 1.3",
            f"{10 * ours.wall:.2f} and {10 * reading.wall:.2f} ms "
            f"({size / 1e6:.1f} MB at {100 * size / reading.wall / 1e9:.1f} GB/s)",
        ),
    ]


def exact_rounds(turns: int) -> list[Row]:
    """(b) exact ADMM, 100 nodes x 452 x 104, to gradient norm 1e-8."""
    problem = dense(100, 452, 104)
    graph = tc.graph.Topology.of(tc.graph.erdos_renyi(100, 0.08, seed=0))
    x, y = rivals.tables(problem)
    rows = []
    for rounds, target in ((50, "<= 0.10"), (10, "<= 0.15")):
        ours, loop = best_of(
            [
                lambda t=rounds: tc.simulate(
                    problem,
                    graph,
                    tc.algorithms.ADMM(penalty=0.01),
                    t,
                    record_every=0,
                    progress=False,
                ),
                lambda t=rounds: rivals.admm_by_lbfgs(x, y, graph, t, 1e-3, 0.01, 1e-8),
            ],
            max(1, turns // 3),
        )
        name = (
            "(b) 50 exact ADMM rounds"
            if rounds == 50
            else "    the first 10 of them, from a cold start"
        )
        rows.append(compared(f"{name} / SciPy L-BFGS node by node", ours, loop, target))
    return rows


def dual_averaging(turns: int) -> list[Row]:
    """(c) 1000 rounds of DP-DDA on samples of mean one,
    20 nodes on a ring x 2000 features, float32."""
    from tacenda.privacy.noise.sources import SimulatedNoise

    problem, graph = dense(20, 100, 2000, np.float32), tc.graph.Topology.of(tc.graph.ring(20))
    algorithm = tc.algorithms.DPDDA(batch_size=1)
    budget = tc.Privacy.from_noise(noise_multiplier=1.0)
    source = SimulatedNoise(0)
    nodes = np.arange(20)
    rows = np.zeros((20, 2000), np.float32)
    one = np.ones(20)

    def noise_alone() -> None:
        for t in range(1, 1001):
            source.add_gaussian(nodes, t, 0, (rows, 1.0, None), one)

    def numpy_noise() -> None:
        rng = np.random.Generator(np.random.SFC64(0))
        out = np.empty((20, 2000))
        for _ in range(1000):
            rng.standard_normal(out=out)

    ours, alone, numpy_alone = best_of(
        [
            lambda: tc.simulate(
                problem, graph, algorithm, 1000, budget, 0, record_every=0, progress=False
            ),
            noise_alone,
            numpy_noise,
        ],
        turns,
    )
    return [
        compared(
            "(c) 1000 DP-DDA rounds, float32 / drawing its noise alone", ours, alone, "<= 2.5"
        ),
        compared("    the same / NumPy drawing as many normals", ours, numpy_alone, ""),
    ]


def many_nodes(turns: int) -> list[Row]:
    """(d) time per node and round at 10,000 nodes against 100, 45 x 104 records each, on a ring."""
    algorithm, budget = tc.algorithms.IPADMM(inner_steps=1), tc.Privacy(epsilon=1.0, delta=1e-5)
    runs = []
    for nodes, rounds in ((10_000, 10), (100, 1000)):
        problem, graph = dense(nodes, 45, 104), tc.graph.Topology.of(tc.graph.ring(nodes))
        runs.append(
            lambda p=problem, g=graph, t=rounds: tc.simulate(
                p, g, algorithm, t, budget, 0, record_every=0, progress=False
            )
        )
    large, small = best_of(runs, max(1, turns // 2))
    return [compared("(d) 100,000 node-rounds: 10,000 nodes / 100 nodes", large, small, "<= 2")]


def one_hot(turns: int) -> list[Row]:
    """(e) a one-hot table of Adult's shape (45,200 records, 104 columns, 13 ones a row) as CSR
    against dense, and peak memory."""
    from scipy.sparse import csr_array

    rng, nodes, records, fields, width = np.random.default_rng(1), 100, 452, 13, 8
    count = nodes * records
    columns = (
        (rng.integers(0, width, size=(count, fields)) + width * np.arange(fields))
        .ravel()
        .astype(np.int32)
    )
    table = csr_array(
        (np.full(count * fields, fields**-0.5), columns, np.arange(count + 1) * fields),
        shape=(count, 104),
    )
    full, y = table.toarray(), rng.choice([-1, 1], count)
    cuts = [slice(i * records, (i + 1) * records) for i in range(nodes)]
    shards = {"sparse": [(table[c], y[c]) for c in cuts], "dense": [(full[c], y[c]) for c in cuts]}
    graph = tc.graph.Topology.of(tc.graph.ring(nodes))
    algorithm = tc.algorithms.IPADMM(inner_steps=1)
    budget = tc.Privacy(epsilon=1.0, delta=1e-5)
    problems = {kind: tc.Problem(parts, classes=(-1, 1)) for kind, parts in shards.items()}
    quick, slow = best_of(
        [
            lambda p=p: tc.simulate(
                p, graph, algorithm, 50, budget, 0, record_every=0, progress=False
            )
            for p in problems.values()
        ],
        turns,
    )
    small, large = (problems[k].store.nbytes for k in ("sparse", "dense"))
    rows = [
        compared("(e) one-hot rows: CSR / dense, time of 50 private rounds", quick, slow, "< 1"),
        Row(
            "    CSR / dense, size in memory",
            small / large,
            "< 1",
            f"{small / 1e6:.1f} and {large / 1e6:.1f} MB",
        ),
    ]
    for kind, parts in shards.items():
        size = given_bytes(parts)
        peak = size + peak_of(parts, graph, algorithm, budget)
        rows.append(
            Row(
                f"    peak memory / data, {kind}",
                peak / size,
                "<= 2.5",
                f"{peak / 1e6:.1f} and {size / 1e6:.1f} MB",
            )
        )
    return rows


def given_bytes(shards: Any) -> int:
    """Bytes of the arrays that the user holds."""
    return sum(
        sum(a.nbytes for a in ((x.data, x.indices, x.indptr) if hasattr(x, "tocsr") else (x,)))
        + y.nbytes
        for x, y in shards
    )


def peak_of(shards: Any, graph: Any, algorithm: Any, budget: Any) -> int:
    """Bytes that making the problem and running 5 rounds take at their peak,
    on top of the user's own arrays."""
    tracemalloc.start()
    tc.simulate(
        tc.Problem(shards, classes=(-1, 1)),
        graph,
        algorithm,
        5,
        budget,
        0,
        record_every=0,
        progress=False,
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return int(peak)


CASES = {"a": private_rounds, "b": exact_rounds, "c": dual_averaging, "d": many_nodes, "e": one_hot}
