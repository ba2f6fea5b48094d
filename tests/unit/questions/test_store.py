"""The store's plain queries against slow record-by-record NumPy."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import numpy_losses
from tacenda import losses
from tacenda.errors import InputError, TacendaError, UnsupportedError
from tacenda.problem.problem import Problem
from tacenda.questions.store import table as store_module

SIZES, P = (7, 1, 12, 5), 6
# Rows of a stacked loss are those of the logistic one (`test_stacked`)
NAMES = [name for name in losses.names() if not losses.by_name(name).stacked]


def shards(loss, sparse=False, dtype=np.float64, seed=0, sizes=SIZES):
    rng, result = np.random.default_rng(seed), []
    kind = losses.by_name(loss).kind
    for m in sizes:
        x = rng.normal(size=(m, P)) * (rng.random((m, P)) < 0.6)
        x = (x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))).astype(dtype) * dtype(
            0.999
        )
        y = {
            "binary": rng.choice([-1, 1], m),
            "regression": rng.normal(size=m),
            "multiclass": rng.integers(0, 3, m),
        }[kind]
        y = y if kind != "regression" else np.clip(y, *losses.by_name(loss).label_range)
        result.append((sp.csr_matrix(x) if sparse else x, y))
    return result


def make(loss, sparse=False, dtype=np.float64, **more):
    classes = {"binary": (-1, 1), "multiclass": (0, 1, 2)}.get(losses.by_name(loss).kind)
    return Problem(
        shards(loss, sparse, dtype),
        loss=loss,
        strength=0.3,
        loss_scale=1.7,
        classes=classes,
        **more,
    )


def record_gradients(problem, node, w):
    """(m, d) loss gradients of a node's records, by the NumPy formulas."""
    x, y = shards(problem.loss.name)[node]
    if problem.n_outputs > 1:
        slopes = numpy_losses.derivative(problem.loss, x @ w.reshape(problem.n_outputs, P).T, y)
        return np.einsum("mk,mp->mkp", slopes, x).reshape(len(y), -1)
    return numpy_losses.derivative(problem.loss, x @ w, y)[:, None] * x


def clipped(gradients, clip):
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * np.minimum(1.0, clip / np.maximum(norms, 1e-300))


def points(problem, seed=5, dtype=np.float64):
    return (2 * np.random.default_rng(seed).normal(size=(len(SIZES), problem.dim))).astype(dtype)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("clip", [None, 0.2])
def test_gradient(loss, sparse, clip):
    problem = make(loss, sparse)
    w = points(problem)
    got = problem.store.gradient(np.arange(4), w, clip_norm=clip)
    bare = problem.store.gradient(np.arange(4), w, clip_norm=clip, regularised=False)
    for i in range(4):
        each = record_gradients(problem, i, w[i])
        each = each if clip is None else clipped(each, clip)
        np.testing.assert_allclose(bare[i], 1.7 * each.mean(axis=0), atol=1e-15)
        np.testing.assert_allclose(got[i], 1.7 * each.mean(axis=0) + 0.3 * w[i], atol=1e-15)


def test_gradient_is_the_slope_of_the_local_objective():
    for loss, regulariser in (("logistic", "elastic-net"), ("multinomial", "l2"), ("huber", "l1")):
        problem = make(loss, regulariser=regulariser)
        w, h = points(problem), 1e-6
        got = problem.store.gradient(np.arange(4), w)
        for a in range(problem.dim):
            step = h * np.eye(problem.dim)[a]
            slope = (problem.local_objectives(w + step) - problem.local_objectives(w - step)) / (
                2 * h
            )
            np.testing.assert_allclose(got[:, a], slope, atol=1e-7)


def test_declared_sizes_divide():
    problem = make("logistic", public_sizes=[10, 10, 20, 10])
    w = points(problem)
    got = problem.store.gradient(np.arange(4), w, regularised=False)
    for i, size in enumerate([10, 10, 20, 10]):
        np.testing.assert_allclose(
            got[i], 1.7 / size * record_gradients(problem, i, w[i]).sum(axis=0), atol=1e-15
        )
    np.testing.assert_array_equal(problem.sizes, SIZES)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_batch_gradient(loss, sparse):
    problem = make(loss, sparse)
    w, nodes = points(problem), np.array([2, 0, 1])
    indptr, records = np.array([0, 3, 3, 4]), np.array([11, 0, 4, 0])
    got = problem.store.batch_gradient(
        nodes, w[nodes], indptr, records, np.array([4.0, 2.0, 1.0]), clip_norm=0.3
    )
    each = clipped(record_gradients(problem, 2, w[2]), 0.3)[[11, 0, 4]]
    np.testing.assert_allclose(got[0], 1.7 / 4 * each.sum(axis=0) + 0.3 * w[2], atol=1e-15)
    np.testing.assert_allclose(got[1], 0.3 * w[0], atol=1e-15)  # an empty sample
    np.testing.assert_allclose(
        got[2], 1.7 * clipped(record_gradients(problem, 1, w[1]), 0.3)[0] + 0.3 * w[1], atol=1e-15
    )
    empty = problem.store.batch_gradient(
        nodes, w[nodes], np.zeros(4, int), np.empty(0, int), 3.0, regularised=False
    )
    np.testing.assert_array_equal(empty, 0.0)


def test_batch_must_fit():
    problem, nodes = make("logistic"), np.array([0, 1])
    with pytest.raises(InputError, match="records must be record numbers within each node"):
        problem.store.batch_gradient(
            nodes, points(problem)[:2], np.array([0, 0, 1]), np.array([1]), 1.0
        )
    with pytest.raises(InputError, match="indptr must have 3 entries"):
        problem.store.batch_gradient(
            nodes, points(problem)[:2], np.array([0, 1]), np.array([1]), 1.0
        )


@pytest.mark.parametrize("loss", ["logistic", "squared", "multinomial"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_integer_gradient(loss, sparse):
    problem = make(loss, sparse)
    w, grid = points(problem), np.array([2.0**-12, 2.0**-20, 0.01, 0.3])
    got = problem.store.integer_gradient(np.arange(4), w, grid, clip_norm=0.25)
    assert got.dtype == np.int64
    for i in range(4):
        each = np.trunc(clipped(record_gradients(problem, i, w[i]), 0.25) / grid[i])
        # A value may lie on the grid but for rounding
        assert np.abs(got[i] - each.sum(axis=0)).max() <= 1
        assert (np.linalg.norm(each, axis=1) <= 0.25 / grid[i] * (1 + 1e-12)).all()


def test_integer_gradient_never_exceeds_its_clip():
    """One record per node: the integer vector's exact norm stays within clip/grid."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 3))
    problem = Problem(
        [(row[None], [rng.normal() * 9]) for row in x], loss="squared", data_norm=10.0
    )
    got = problem.store.integer_gradient(
        np.arange(300), np.zeros((300, 3)), np.full(300, 2.0**-30), clip_norm=1.0
    )
    squares = [sum(int(v) ** 2 for v in row) for row in got]
    assert max(squares) <= 2**60
    assert max(squares) >= 2**60 * (1 - 1e-6)


def test_integer_gradient_refuses():
    problem = make("squared")
    w = points(problem)
    with pytest.raises(UnsupportedError, match="set clip_norm"):
        problem.store.integer_gradient(np.arange(4), w, 0.1)
    with pytest.raises(InputError, match="leave 64 bits"):
        problem.store.integer_gradient(np.arange(4), w, 1e-20, clip_norm=1.0)
    with pytest.raises(InputError, match="grid must hold numbers above 0"):
        problem.store.integer_gradient(np.arange(4), w, 0.0, clip_norm=1.0)


@pytest.mark.parametrize(
    ("records", "features", "tasks"),
    [(40, 10, 1), (64, 10_000, 1), (128, 10_000, 2), (2000, 10_000, 16), (20_000, 10, 1)],
)
def test_tasks_read_much_and_have_many_records(records: int, features: int, tasks: int) -> None:
    table = np.zeros((records, 1))
    store = Problem([(table, np.arange(records) % 2)], classes=(0, 1)).store
    store.cut_for(features)
    assert store._tasks_of.tolist() == [tasks]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("features", [255, 256, 257, 700, 1100])
def test_gradients_of_long_records_are_those_of_numpy(features: int, dtype: Any) -> None:
    """Of all records, and of samples with one, few and many of them."""
    rng = np.random.default_rng(features)
    sizes, parts = (3, 70, 41), []
    for m in sizes:
        x = rng.normal(size=(m, features))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.01
        parts.append((x.astype(dtype), rng.integers(0, 2, m)))
    problem = Problem(parts, strength=0.0, classes=(0, 1))
    w = rng.normal(size=(3, features)).astype(dtype)
    samples = [np.array([2]), np.array([0, 5, 6, 33, 69]), np.arange(0, 41, 2)]

    def mean(k: int, chosen: Any, count: int) -> Any:
        x, y = parts[k][0][chosen].astype(float), 2.0 * parts[k][1][chosen] - 1
        slopes = -y / (1 + np.exp(y * (x @ w[k].astype(float))))
        return slopes @ x / count

    close = {"rtol": 1e-12, "atol": 1e-14} if dtype is np.float64 else {"rtol": 2e-4, "atol": 1e-6}
    found = problem.store.gradient(np.arange(3), w)
    want = [mean(k, np.arange(m), m) for k, m in enumerate(sizes)]
    np.testing.assert_allclose(found, want, **close)
    ends, records = np.cumsum([0, *map(len, samples)]), np.concatenate(samples)
    drawn = problem.store.batch_gradient(np.arange(3), w, ends, records, 4)
    np.testing.assert_allclose(drawn, [mean(k, c, 4) for k, c in enumerate(samples)], **close)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_a_node_does_not_depend_on_its_block(sparse, monkeypatch):
    # So that nodes are cut into several tasks
    monkeypatch.setattr(store_module, "_TASK_ELEMENTS", 12)
    monkeypatch.setattr(store_module, "_TASK_RECORDS", 1)
    for loss in ("logistic", "multinomial"):
        problem = make(loss, sparse)
        assert problem.store._tasks_of.max() > 1
        w = points(problem)
        whole = problem.store.gradient(np.arange(4), w, clip_norm=0.4)
        for block in ([0], [3, 1], [2, 0, 1]):
            np.testing.assert_array_equal(
                problem.store.gradient(np.array(block), w[block], clip_norm=0.4), whole[block]
            )
        for i in range(4):
            want = 1.7 * clipped(record_gradients(problem, i, w[i]), 0.4).mean(axis=0) + 0.3 * w[i]
            np.testing.assert_allclose(whole[i], want, atol=1e-15)
        means = problem.store.losses(np.array([2, 0]), w[[2, 0]])
        np.testing.assert_allclose(means, problem.store.losses(np.arange(4), w)[[2, 0]], rtol=1e-15)


def test_float32_data_with_both_kinds_of_state():
    double, single = make("logistic"), make("logistic", dtype=np.float32)
    assert single.dtype == np.float32
    w = points(double)
    exact = double.store.gradient(np.arange(4), w)
    assert single.store.gradient(np.arange(4), w).dtype == np.float64
    np.testing.assert_allclose(single.store.gradient(np.arange(4), w), exact, atol=2e-7)
    coarse = single.store.gradient(np.arange(4), w.astype(np.float32))
    assert coarse.dtype == np.float32
    np.testing.assert_allclose(coarse, exact, atol=1e-6)


def test_float32_sums_stay_accurate_over_many_records():
    rng = np.random.default_rng(0)
    x = (rng.random((200_000, 3)) * 0.5).astype(np.float32)
    problem = Problem([(x, np.where(np.arange(200_000) % 3, 1, -1))], strength=0.0)
    w = np.array([[0.1, 0.2, -0.1]], dtype=np.float32)
    s, y = x.astype(float) @ w[0].astype(float), problem.store.labels
    want = (-y / (1 + np.exp(y * s))) @ x.astype(float) / len(x)
    np.testing.assert_allclose(problem.store.gradient(np.array([0]), w)[0], want, rtol=1e-6)


def test_no_record_exceeds_the_gradient_bound_and_some_reach_it():
    """Brute force over many points:
    the norm of a record's gradient stays within G and comes close to it."""
    rng = np.random.default_rng(7)
    for loss in (
        "logistic",
        "hinge",
        "smoothed-hinge",
        "huber",
        "absolute-deviation",
        "multinomial",
        "poisson",
        "negative-binomial",
        "quantile",
        "smoothed-quantile",
    ):
        x = rng.normal(size=(400, 3))
        x *= 2.0 / np.linalg.norm(x, axis=1, keepdims=True)
        y = (
            rng.normal(size=400)
            if losses.by_name(loss).kind == "regression"
            else np.arange(400) % 2
        )
        y = np.clip(y, *losses.by_name(loss).label_range)
        problem = Problem(
            [(x[i : i + 1], y[i : i + 1]) for i in range(400)],
            loss=loss,
            data_norm=2.0,
            classes=None if losses.by_name(loss).kind == "regression" else (0, 1),
        )
        bound, worst = problem.constants.gradient_bound, 0.0
        for scale in (0.1, 1.0, 30.0):
            w = scale * rng.normal(size=(400, problem.dim))
            worst = max(
                worst,
                np.linalg.norm(
                    problem.store.gradient(np.arange(400), w, regularised=False), axis=1
                ).max(),
            )
        assert 0.99 * bound <= worst <= bound * (1 + 1e-12)


def test_losses_and_correct():
    for loss in ("logistic", "multinomial", "huber"):
        problem = make(loss)
        w = points(problem)
        means = problem.store.losses(np.arange(4), w)
        for i, (x, y) in enumerate(shards(loss)):
            scores = x @ w[i].reshape(problem.n_outputs, P).T
            flat = scores if problem.n_outputs > 1 else scores[:, 0]
            assert means[i] == pytest.approx(problem.loss.value(flat, y).mean(), rel=1e-14)
            if loss != "huber":
                guess = (
                    scores.argmax(axis=1) if problem.n_outputs > 1 else np.where(flat >= 0, 1, -1)
                )
                assert problem.store.correct(np.array([i]), w[i : i + 1])[0] == (guess == y).sum()
    with pytest.raises(UnsupportedError, match="has none"):
        problem.store.correct(np.arange(4), w)


def test_shapes_positions_and_pickling_are_refused():
    problem = make("logistic")
    with pytest.raises(InputError, match=r"w must have shape \(2, 6\)"):
        problem.store.gradient(np.array([0, 1]), np.zeros((2, 5)))
    with pytest.raises(InputError, match="positions from 0 to 3"):
        problem.store.gradient(np.array([4]), np.zeros((1, 6)))
    with pytest.raises(TacendaError, match="not pickled"):
        pickle.dumps(problem.store)
    assert "0." not in repr(problem.store)


def test_threads_may_share_a_store():
    problem = make("logistic")
    w = points(problem)
    want = problem.store.gradient(np.arange(4), w)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: problem.store.gradient(np.arange(4), w), range(40)))
    assert all((answer == want).all() for answer in answers)
