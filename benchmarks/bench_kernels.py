"""Ratios of the compiled kernels against plain NumPy and SciPy: python -m benchmarks.bench_kernels

Prints a table; nothing passes or fails on time. Each figure is the best of many runs, since other
work on the machine only ever adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from benchmarks.machine import read_bandwidth
from tacenda.problem.problem import Problem

NODES, RECORDS, FEATURES, LEVELS = 100, 452, 104, 13


def best(run: Callable[[], object], repeats: int = 40) -> float:
    """Milliseconds of the fastest of `repeats` runs, after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def dense_problem(nodes: int, records: int, dtype: type = np.float64) -> Problem:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(nodes * records, FEATURES))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)
    y = np.where(x @ rng.normal(size=FEATURES) + 0.1 * rng.normal(size=len(x)) > 0, 1, -1)
    return Problem(
        [
            (x[i * records : (i + 1) * records], y[i * records : (i + 1) * records])
            for i in range(nodes)
        ],
        strength=1e-3,
    )


def one_hot_problems() -> tuple[Problem, Problem]:
    """The same one-hot table (LEVELS ones per record) as CSR and dense."""
    rng, n = np.random.default_rng(1), NODES * RECORDS
    width = FEATURES // LEVELS
    columns = rng.integers(0, width, size=(n, LEVELS)) + width * np.arange(LEVELS)
    ones = np.full(n * LEVELS, LEVELS**-0.5)
    y = rng.choice([-1, 1], n)
    cuts = [slice(i * RECORDS, (i + 1) * RECORDS) for i in range(NODES)]
    table = sp.csr_matrix((ones, columns.ravel(), np.arange(n + 1) * LEVELS), shape=(n, FEATURES))
    full = table.toarray()
    return Problem([(table[c], y[c]) for c in cuts]), Problem([(full[c], y[c]) for c in cuts])


def numpy_gradient(problem: Problem, w: np.ndarray) -> Callable[[], np.ndarray]:
    n = problem.n_nodes
    x = problem.store.rows.reshape(n, -1, FEATURES)
    y = problem.store.labels.reshape(n, -1).astype(problem.dtype)

    def run() -> np.ndarray:
        s = np.matmul(x, w[:, :, None])[:, :, 0]
        slopes = -y / (1.0 + np.exp(y * s))
        return np.matmul(slopes[:, None, :], x)[:, 0] / x.shape[1] + problem.strength * w

    return run


def bench_gradient() -> None:
    for dtype in (np.float64, np.float32):
        problem = dense_problem(NODES, RECORDS, dtype)
        w = np.random.default_rng(2).normal(size=(NODES, FEATURES)).astype(dtype)
        ours = best(lambda p=problem, w=w: p.store.gradient(np.arange(NODES), w))
        clip = best(lambda p=problem, w=w: p.store.gradient(np.arange(NODES), w, clip_norm=0.3))
        theirs = best(numpy_gradient(problem, w))
        row(f"gradient {np.dtype(dtype).name}, batched NumPy", ours, theirs)
        reading = 1e3 * problem.store.rows.nbytes / read_bandwidth(turns=40)
        row(f"gradient {np.dtype(dtype).name}, reading the rows once from memory", ours, reading)
        row(f"gradient {np.dtype(dtype).name}, clipped, unclipped", clip, ours)


def bench_scale() -> None:
    per_node = {}
    for nodes in (100, 10_000):
        problem = dense_problem(nodes, 45)
        w = np.zeros((nodes, FEATURES))
        everyone = np.arange(nodes)
        per_node[nodes] = (
            best(lambda p=problem, w=w, e=everyone: p.store.gradient(e, w), 15) / nodes
        )
    row("gradient per node, 10,000 nodes x 45, 100 nodes x 45", per_node[10_000], per_node[100])


def bench_sparse() -> None:
    sparse, dense = one_hot_problems()
    w, everyone = np.random.default_rng(3).normal(size=(NODES, FEATURES)), np.arange(NODES)
    ours = best(lambda: sparse.store.gradient(everyone, w))
    row("gradient one-hot CSR, dense kernel", ours, best(lambda: dense.store.gradient(everyone, w)))
    print(f"{'   bytes one-hot CSR, dense':58s} {sparse.store.nbytes / dense.store.nbytes:10.2f}")


def admm_sweeps(
    problem: Problem, solve: Callable[..., np.ndarray], sweeps: int, penalty: float = 0.5
) -> list[float]:
    """Milliseconds of each exact ADMM sweep on a ring, from a cold start."""
    w = dual = np.zeros((problem.n_nodes, problem.dim))
    times = []
    for _ in range(sweeps):
        centre = 0.5 * w + 0.25 * (np.roll(w, 1, axis=0) + np.roll(w, -1, axis=0))
        start = time.perf_counter()
        w = solve(2 * dual, 2 * penalty, centre, w)
        times.append(1e3 * (time.perf_counter() - start))
        dual = dual + 0.5 * penalty * (2 * w - np.roll(w, 1, axis=0) - np.roll(w, -1, axis=0))
    return times


def bench_argmin(tolerance: float = 1e-8) -> None:
    problem = dense_problem(NODES, RECORDS)
    x = problem.store.rows.reshape(NODES, RECORDS, FEATURES)
    y = problem.store.labels.reshape(NODES, RECORDS)
    quadratic = np.empty((NODES, 1))

    def ours(linear: np.ndarray, q: float, centre: np.ndarray, start: np.ndarray) -> np.ndarray:
        quadratic[:] = q
        return problem.store.argmin(np.arange(NODES), linear, quadratic, centre, start, tolerance)

    def theirs(linear: np.ndarray, q: float, centre: np.ndarray, start: np.ndarray) -> np.ndarray:
        result = np.empty_like(start)
        for i in range(NODES):

            def cost(v: np.ndarray, i: int = i) -> tuple[float, np.ndarray]:
                z, away = y[i] * (x[i] @ v), v - centre[i]
                value = (
                    np.logaddexp(0, -z).mean() + 0.5e-3 * v @ v + linear[i] @ v + q * away @ away
                )
                return value, x[i].T @ (-y[i] / (1 + np.exp(z))) / RECORDS + 1e-3 * v + linear[
                    i
                ] + 2 * q * away

            options = {"gtol": tolerance / FEATURES**0.5, "ftol": 0.0, "maxiter": 500}
            result[i] = minimize(cost, start[i], jac=True, method="L-BFGS-B", options=options).x
        return result

    admm_sweeps(problem, ours, 1)  # compile
    problem.store.restore_solver_state({"ridges": np.empty(0), "anchors": np.empty((0, FEATURES))})
    fast, slow = admm_sweeps(problem, ours, 20), admm_sweeps(problem, theirs, 8)
    row("exact ADMM, cold sweep, SciPy L-BFGS loop", fast[0], slow[0])
    row("exact ADMM, warm sweep, SciPy L-BFGS loop", min(fast[4:]), min(slow[4:]))


def row(name: str, ours: float, theirs: float) -> None:
    print(f"{name:58s} {ours:10.3f} {theirs:10.3f} {ours / theirs:8.2f}", flush=True)


def main() -> None:
    print(f"{'what, against what':58s} {'ours ms':>10s} {'theirs ms':>10s} {'ratio':>8s}")
    bench_gradient()
    bench_scale()
    bench_sparse()
    bench_argmin()


if __name__ == "__main__":
    main()
