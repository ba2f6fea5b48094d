"""Loops in parts: every row once, the same bits on any number of threads, errors surface, and a
fork, a nested call or several callers at once do no harm."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quickly
import tacenda as tc
from tacenda import threads
from tacenda.privacy.noise.sources import SimulatedNoise

MANY = threads.PARALLEL_ELEMENTS


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads, whatever the machine has."""
    monkeypatch.setattr(threads, "_cores", lambda: 4)
    monkeypatch.setattr(threads, "_limit", None)
    monkeypatch.setattr(threads, "_pool", None)


class Calls:
    """A kernel that notes its ranges, and on which thread they ran."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.idents: set[int] = set()
        self.seconds = seconds

    def __call__(self, first: int, last: int, *_: Any) -> None:
        self.ranges.append((first, last))
        self.idents.add(threading.get_ident())
        time.sleep(self.seconds)

    def rows(self) -> list[int]:
        return sorted(k for first, last in self.ranges for k in range(first, last))


@pytest.mark.usefixtures("four")
def test_little_work_stays_on_the_calling_thread() -> None:
    for rows, elements in ((100, MANY - 1), (1, 100 * MANY), (0, 0)):
        calls = Calls()
        threads.in_parts(calls, rows, elements)
        assert calls.ranges == [(0, rows)] and calls.idents == {threading.get_ident()}
    assert threads._pool is None


@pytest.mark.usefixtures("four")
def test_much_work_is_shared() -> None:
    calls = Calls(seconds=0.01)
    threads.in_parts(calls, 100, 100 * MANY)
    assert calls.rows() == list(range(100))
    assert len(calls.ranges) == 20 and len(calls.idents) > 1


def test_the_limit_holds(monkeypatch: pytest.MonkeyPatch, four: None) -> None:
    for most in (1, 0, -3):
        threads.limit_threads(most)
        calls = Calls()
        threads.in_parts(calls, 100, 100 * MANY)
        assert calls.ranges == [(0, 100)] and threads.thread_count() == 1
    threads.limit_threads(2)
    assert threads.thread_count() == 2
    threads.limit_threads(64)
    assert threads.thread_count() == 4
    monkeypatch.setattr(threads, "_cores", lambda: 1)
    assert threads.thread_count() == 1


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 20))
def test_ranges_cover_every_row_once_and_share_the_work(sizes: list[int], count: int) -> None:
    rows, work = len(sizes), np.array(sizes)
    for given_sizes in (None, work):
        ranges = threads._ranges(rows, count, given_sizes)
        assert [k for first, last in ranges for k in range(first, last)] == list(range(rows))
        assert all(last > first for first, last in ranges) and len(ranges) <= 5 * count
    shares = [work[first:last].sum() for first, last in threads._ranges(rows, count, work)]
    assert max(shares) <= work.sum() / (2 * count) + 1 + work.max()


@pytest.mark.parametrize("count", [2, 3, 8])
def test_large_parts_come_first_and_the_last_ones_are_a_sixteenth_of_a_share(count: int) -> None:
    rows = 4800 * count
    for sizes in (None, np.full(rows, 7)):
        lengths = [last - first for first, last in threads._ranges(rows, count, sizes)]
        wanted = [2400] * count + [1200] * count + [600] * count + [300] * 2 * count
        assert len(lengths) == 5 * count
        assert all(abs(a - b) <= 1 for a, b in zip(lengths, wanted, strict=True))


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize("where", [0, 37, 99])
def test_what_a_part_raises_surfaces_and_the_next_loop_runs(where: int) -> None:
    class Wrong(Exception):
        pass

    def kernel(first: int, last: int) -> None:
        time.sleep(0.002)
        if first <= where < last:
            raise Wrong(where)

    for _ in range(3):
        with pytest.raises(Wrong, match=str(where)):
            threads.in_parts(kernel, 100, 100 * MANY)
    calls = Calls()
    threads.in_parts(calls, 100, 100 * MANY)
    assert calls.rows() == list(range(100))


@pytest.mark.usefixtures("four")
def test_nobody_writes_after_an_error() -> None:
    """The caller has its arrays for itself again, also where its own part failed."""
    main, running = threading.get_ident(), []

    def kernel(first: int, last: int) -> None:
        if threading.get_ident() == main:
            time.sleep(0.01)
            raise ValueError("mine")
        running.append(1)
        time.sleep(0.05)
        running.pop()

    with pytest.raises(ValueError, match="mine"):
        threads.in_parts(kernel, 100, 100 * MANY)
    assert running == []


@pytest.mark.usefixtures("four")
def test_threads_that_are_busy_elsewhere_are_not_waited_for() -> None:
    """All helpers are held up by another caller: this one does it all itself."""
    threads.in_parts(Calls(), 100, 100 * MANY)  # make the pool
    assert threads._pool is not None
    release = threading.Event()
    held = [threads._pool.submit(release.wait) for _ in range(3)]
    try:
        calls = Calls()
        threads.in_parts(calls, 100, 100 * MANY)
        assert calls.rows() == list(range(100)) and calls.idents == {threading.get_ident()}
    finally:
        release.set()
    assert all(one.result() for one in held)


@pytest.mark.usefixtures("four")
def test_nested_calls_and_several_callers_at_once() -> None:
    def inner(first: int, last: int, found: Any) -> None:
        time.sleep(0.0005)
        found[first:last] += 1

    def outer(first: int, last: int, found: Any) -> None:
        for k in range(first, last):
            threads.in_parts(inner, 20, 20 * MANY, found[k])

    def one(_: int) -> Any:
        found = np.zeros((12, 20))
        threads.in_parts(outer, 12, 12 * MANY, found)
        return found

    with ThreadPoolExecutor(6) as callers:
        for found in callers.map(one, range(12)):
            assert (found == 1).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.usefixtures("four")
def test_a_forked_child_makes_threads_of_its_own() -> None:
    threads.in_parts(Calls(), 100, 100 * MANY)
    with threads._making:  # held at the fork, as by another thread
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            calls = Calls(seconds=0.002)
            threads.in_parts(calls, 100, 100 * MANY)
            right = calls.rows() == list(range(100)) and len(calls.idents) > 1
            os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.usefixtures("four")
def test_where_no_thread_can_be_had_the_caller_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: Any, **__: Any) -> Any:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", no_thread)
    calls = Calls()
    threads.in_parts(calls, 100, 100 * MANY)
    assert calls.rows() == list(range(100))


def problem(dtype: Any, csr: bool, loss: str) -> Any:
    from scipy.sparse import csr_array

    rng, parts = np.random.default_rng(3), []
    for size in (1, 900, 33, 5, 64, 200, 17, 80):
        x = rng.normal(size=(size, 19)) * (rng.random((size, 19)) < 0.6)
        x = (x / (1.001 * np.maximum(1e-9, np.linalg.norm(x, axis=1, keepdims=True)))).astype(dtype)
        y = rng.integers(0, 3, size) if loss == "multinomial" else rng.choice([-1, 1], size)
        parts.append((csr_array(x) if csr else x, y))
    classes = (0, 1, 2) if loss == "multinomial" else (-1, 1)
    return tc.Problem(parts, loss=loss, strength=0.1, classes=classes)


def everything(dtype: Any, csr: bool, loss: str) -> dict[str, Any]:
    """What every kernel that runs in parts answers."""
    store = problem(dtype, csr, loss).store
    nodes, rng = np.arange(8)[::-1].copy(), np.random.default_rng(4)
    w = rng.normal(size=(8, store.dim)).astype(dtype)
    noise, rates = SimulatedNoise(1), np.linspace(0.1, 1.0, 8)
    indptr, records = noise.poisson_records(nodes, 1, 0, store.sizes[nodes], rates)
    edges = (np.array([0, 1, 1, 4, 6]), np.arange(6), np.array([1.0, -1, 1, -1, 1, -1]))
    grid = np.full(8, 2.0**-20)
    found: dict[str, Any] = {
        "gradient": store.gradient(nodes, w, clip_norm=0.3),
        "batch": store.batch_gradient(nodes, w, indptr, records, np.full(8, 3.0)),
        "integers": store.integer_gradient(nodes, w, grid, clip_norm=0.5),
        "margins": store.margins(nodes, w)[0],
        "argmin": store.argmin(nodes, w * 0.1, np.full((8, 1), 0.1), w, w, 1e-8),
        "records": np.concatenate([indptr, records]),
        "one": noise.one_record(nodes, 2, 0, store.sizes[nodes])[1],
        "normals": noise.add_gaussian(nodes, 1, 1, (w, 1.0, w), np.ones(8)),
        "laplace": noise.l2_laplace(nodes, 1, 2, np.ones(8), 7),
        "shared": noise.shared(edges, 1, 3, 9),
        "masks": noise.masks(edges, 1, 4, 9),
        "scores": store.scores(3, 1200, w[0]),
    }
    if store.n_outputs == 1:
        matrix = rng.normal(size=(19, 19))
        for diagonal in (False, True):
            moment = store.second_moment(nodes, 1.0, 0.5, 1.0, diagonal)
            whole = store.integer_second_moment(nodes, grid / 4, 1.0, 0.5, 1.0, diagonal)
            rows = store.mapped(
                nodes, matrix[0] if diagonal else matrix, 1.0, store.regulariser
            ).rows
            found[f"moment {diagonal}"], found[f"whole moment {diagonal}"] = moment, whole
            found[f"mapped {diagonal}"] = rows[0] if isinstance(rows, tuple) else rows
    return found


@pytest.mark.parametrize(
    ("csr", "dtype", "loss"),
    quickly.cases(
        itertools.product((False, True), (np.float64, np.float32), ("logistic", "multinomial")),
        lambda case: case[1] == np.float64 and case[0] == (case[2] == "multinomial"),
    ),
)
def test_no_kernel_depends_on_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, csr: bool, loss: str
) -> None:
    from tacenda.questions.store import table as store_module

    monkeypatch.setattr(store_module, "_TASK_ELEMENTS", 1 << 10)  # several tasks of a node, too
    monkeypatch.setattr(store_module, "_TASK_RECORDS", 1)
    monkeypatch.setattr(threads, "_pool", None)
    answers = []
    for cores, least in ((1, MANY), (2, 1), (5, 1)):
        monkeypatch.setattr(threads, "_cores", lambda cores=cores: cores)
        monkeypatch.setattr(threads, "PARALLEL_ELEMENTS", least)
        answers.append(everything(dtype, csr, loss))
    for other in answers[1:]:
        for name, value in answers[0].items():
            assert value.tobytes() == other[name].tobytes(), name


def test_one_thread_by_the_variable_of_numba() -> None:
    """NUMBA_NUM_THREADS=1 makes no other thread, however large the work."""
    program = (
        "import threading, numpy as np\n"
        "from tacenda.privacy.noise.sources import SimulatedNoise\n"
        "from tacenda.threads import thread_count\n"
        "SimulatedNoise(0).add_gaussian(np.arange(400), 1, 0, (np.zeros((400, 999)), 1.0, None),"
        " np.ones(400))\n"
        "print(thread_count(), threading.active_count())"
    )
    for count, expected in (("1", "1 1"), ("2", "2 2")):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NUMBA_NUM_THREADS": count},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == expected.split()
