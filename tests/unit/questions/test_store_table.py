"""Gradients, samples, scores, losses and objectives of a table against a plain loop over its
records: dense and sparse, both kinds of floats, one task a node and many, chunks of any size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import tacenda as tc
from support import shards
from tacenda import threads
from tacenda.errors import InputError, TacendaError, UnsupportedError
from tacenda.problem import problem as problem_module
from tacenda.questions.store import table as store_module

SIZES, P, C, R = [7, 12, 5], 3, 1.7, 0.2
TASKS = {"logistic": "binary", "multinomial": "classes", "huber": "regression"}
CLASSES: Any = {"binary": ("no", "yes"), "classes": (0, 1, 2), "regression": None}


@pytest.fixture(params=["whole", "cut"])
def _cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "cut":
        monkeypatch.setattr(store_module, "_TASK_ELEMENTS", 9)
        monkeypatch.setattr(store_module, "_TASK_RECORDS", 1)
        monkeypatch.setattr(threads, "PARALLEL_ELEMENTS", 1)
        monkeypatch.setattr(threads, "_cores", lambda: 3)
        monkeypatch.setattr(problem_module, "_CHUNK_SCORES", 10)
        monkeypatch.setattr(problem_module, "_CHUNK_RECORDS", 8)


def made(loss: str, csr: bool, kind: Any = np.float64, **more: Any) -> tuple[Any, list[Any]]:
    """(the problem, [(x, y)] of each node with y as the loss reads it)."""
    parts = shards(SIZES, P, seed=5, task=TASKS[loss], dtype=kind)
    settings = {"loss": loss, "strength": R, "loss_scale": C, "data_norm": 1.1, **more}
    given = [(sparse.csr_matrix(x) if csr else x, y) for x, y in parts]
    data = tc.Problem(given, classes=CLASSES[TASKS[loss]], **settings)
    plain = []
    for x, y in parts:
        numbers = np.where(y == "yes", 1.0, -1.0) if loss == "logistic" else np.asarray(y, float)
        plain.append((x.astype(np.float64), numbers))
    return data, plain


def record(loss: str, w: Any, x: Any, y: float) -> tuple[float, Any]:
    """(loss, gradient) of one record, by the textbook."""
    if loss == "multinomial":
        s = w.reshape(3, P) @ x
        q = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
        e = np.eye(3)[int(y)]
        value = math.log(np.exp(s - s.max()).sum()) + s.max() - s[int(y)]
        return value, np.outer(q - e, x).reshape(-1)
    s = float(w @ x)
    if loss == "logistic":
        return math.log1p(math.exp(-y * s)), -y / (1 + math.exp(y * s)) * x
    u = s - y
    return (u * u / 2 if abs(u) <= 1 else abs(u) - 0.5), float(np.clip(u, -1, 1)) * x


def clipped(g: Any, limit: float | None) -> Any:
    size = float(np.linalg.norm(g))
    return g if limit is None or size <= limit else g * limit / size


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("loss", TASKS)
def test_everything_that_is_asked_of_a_table(loss: str, kind: Any, csr: bool) -> None:
    data, plain = made(loss, csr, kind)
    store, d = data.store, data.dim
    rng, rel = np.random.default_rng(1), 1e-12 if kind is np.float64 else 1e-5
    nodes = np.array([2, 0, 1, 0])
    w = rng.normal(size=(4, d)).astype(kind)
    assert (store.n_nodes, store.dim, d) == (3, d, P * (3 if loss == "multinomial" else 1))
    for clip in (None, 0.25):
        for regularised in (True, False):
            wanted = []
            for k, i in enumerate(nodes):
                x, y = plain[i]
                v = w[k].astype(float)
                total = sum(
                    clipped(record(loss, v, a, b)[1], clip) for a, b in zip(x, y, strict=True)
                )
                wanted.append(C / SIZES[i] * total + (R * v if regularised else 0))
            found = store.gradient(nodes, w, clip, regularised)
            assert found.dtype == kind
            np.testing.assert_allclose(found, wanted, rtol=rel, atol=rel)
            _sampled(store, plain, loss, nodes, w, clip, regularised, rel)
    _scores(data, plain, loss, rel)


def _sampled(
    store: Any, plain: Any, loss: str, nodes: Any, w: Any, clip: Any, regularised: bool, rel: float
) -> None:
    chosen = [[4, 0], [6, 1, 5], [], [3]]
    indptr = np.cumsum([0, *(len(c) for c in chosen)])
    records = np.array([r for c in chosen for r in c])
    for divisor in (np.array([2.0, 5.0, 3.0, 4.0]), np.array(2.5)):
        per = np.broadcast_to(divisor, (4,))
        wanted = []
        for k, i in enumerate(nodes):
            x, y = plain[i]
            v = w[k].astype(float)
            total = sum((clipped(record(loss, v, x[j], y[j])[1], clip) for j in chosen[k]), 0 * v)
            wanted.append(C / per[k] * total + (R * v if regularised else 0))
        found = store.batch_gradient(nodes, w, indptr, records, divisor, clip, regularised)
        np.testing.assert_allclose(found, wanted, rtol=rel, atol=rel)
    for wrong_ptr, wrong in (
        (indptr[:-1], records),
        (indptr + 1, records),
        (indptr, np.append(records, 0)),
    ):
        with pytest.raises(InputError, match="indptr must have 5 entries"):
            store.batch_gradient(nodes, w, wrong_ptr, wrong, per)
    for bad in (-1, 5):  # node 2 has five records
        with pytest.raises(InputError, match="record numbers within each node"):
            store.batch_gradient(nodes, w, indptr, np.array([bad, *records[1:]]), per)


def _scores(data: Any, plain: Any, loss: str, rel: float) -> None:
    store, d = data.store, data.dim
    outputs = 3 if loss == "multinomial" else 1
    models = np.random.default_rng(2).normal(size=(3, d))
    loose = max(rel, 1e-9)

    def by_hand(v: Any, x: Any) -> Any:
        return x @ v.reshape(outputs, P).T

    def right(v: Any, x: Any, y: Any) -> Any:
        s = by_hand(v, x)
        return s.argmax(axis=1) == y if outputs > 1 else (s[:, 0] >= 0) == (y > 0)

    some = np.array([1, 0])
    scores, labels, begin = store.margins(some, models[:2])
    np.testing.assert_allclose(
        scores, np.concatenate([by_hand(models[k], plain[i][0]) for k, i in enumerate(some)]), loose
    )
    assert labels.tolist() == [*plain[1][1].tolist(), *plain[0][1].tolist()]
    assert begin.tolist() == [0, SIZES[1]]
    everything = np.concatenate([x for x, _ in plain])
    np.testing.assert_allclose(
        store.scores(3, 20, models[0]), by_hand(models[0], everything[3:20]), loose
    )
    means = [
        np.mean([record(loss, models[i], a, b)[0] for a, b in zip(*plain[i], strict=True)])
        for i in range(3)
    ]
    np.testing.assert_allclose(store.losses(np.arange(3), models), means, loose)
    np.testing.assert_allclose(
        data.local_objectives(models), C * np.array(means) + R / 2 * (models**2).sum(axis=1), loose
    )
    assert store.elements(some) == (SIZES[0] + SIZES[1]) * store.row_elements * outputs
    whole, mean, share = [], [], []
    for v in models:
        each = [[record(loss, v, a, b)[0] for a, b in zip(x, y, strict=True)] for x, y in plain]
        whole.append(C * np.mean([np.mean(e) for e in each]) + R / 2 * (v**2).sum())
        mean.append(np.mean(np.concatenate(each)))
        share.append(np.mean(np.concatenate([right(v, x, y) for x, y in plain])))
    np.testing.assert_allclose(data.objective(models), whole, loose)
    np.testing.assert_allclose(data.loss_of(models), mean, loose)
    assert data.objective(models[1]) == pytest.approx(whole[1], rel=loose)
    assert isinstance(data.objective(models[1]), float) and isinstance(
        data.loss_of(models[1]), float
    )
    new = everything[:4]
    np.testing.assert_allclose(
        data.predict_scores(new, models[0]),
        by_hand(models[0], new) if outputs > 1 else by_hand(models[0], new)[:, 0],
    )
    if loss == "huber":
        assert data.accuracy(models) is None
        with pytest.raises(UnsupportedError, match="counts class labels"):
            store.correct(some, models[:2])
    else:
        np.testing.assert_allclose(data.accuracy(models), share)
        assert data.accuracy(models[0]) == pytest.approx(share[0])
        counted = [int(right(models[k], *plain[i]).sum()) for k, i in enumerate(some)]
        assert store.correct(some, models[:2]).tolist() == counted
    for wrong in (models[:, :-1], models[None]):
        with pytest.raises(InputError, match="w must have shape"):
            data.objective(wrong)
    with pytest.raises(InputError, match="predict_scores takes"):
        data.predict_scores(new, models)


@pytest.mark.usefixtures("_cut")
def test_a_score_of_zero_is_the_positive_class() -> None:
    data, _ = made("logistic", False)
    assert data.store.right(np.array([0.0, 0.0]), np.array([1.0, -1.0])).tolist() == [True, False]


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
def test_tasks_cut_each_node_into_pieces_that_are_its_own_records(csr: bool) -> None:
    store = made("logistic", csr)[0].store
    nodes = np.array([1, 2, 1])
    owner, first, last, start = store._tasks(nodes)
    assert start[0] == 0 and start[-1] == len(owner) == len(first) == len(last)
    for k, i in enumerate(nodes):
        mine = slice(start[k], start[k + 1])
        assert set(owner[mine].tolist()) == {k}
        assert first[mine][0] == store.offsets[i] and last[mine][-1] == store.offsets[i + 1]
        assert np.array_equal(first[mine][1:], last[mine][:-1])
        assert np.all(last[mine] > first[mine]) and len(first[mine]) <= store_module._TASKS_PER_NODE


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
def test_what_a_table_is(csr: bool) -> None:
    data, plain = made("logistic", csr, public_sizes=[10, 20, 30])
    store = data.store
    everything = np.concatenate([x for x, _ in plain])
    np.testing.assert_allclose(store.norms, np.linalg.norm(everything, axis=1))
    assert store.norms is store.norms and store.kernel_rows is store.kernel_rows
    parts = store.kernel_rows if csr else (store.kernel_rows,)
    assert not any(part.flags.writeable for part in parts)
    entries = everything.size
    size = entries * 8 + (entries * 4 + 25 * 8 if csr else 0) + 24 * 8
    assert store.nbytes == size
    assert repr(store) == f"{'Sparse' if csr else 'Dense'}Store(n_nodes=3, dim=3)"
    with pytest.raises(TacendaError, match="not pickled"):
        store.__reduce__()
    w = np.ones((1, 3))
    got = store.gradient(np.array([1]), w, None, False)
    wanted = sum(record("logistic", w[0], a, b)[1] for a, b in zip(*plain[1], strict=True))
    np.testing.assert_allclose(got[0], C / 20 * wanted)
    for wrong in (np.array([3]), np.array([-1])):
        with pytest.raises(InputError, match="positions from 0 to 2"):
            store.gradient(wrong, w)
    with pytest.raises(InputError, match=r"shape \(1, 3\)"):
        store.gradient(np.array([0]), np.ones((2, 3)))
    assert store.gradient(np.array([0]), np.ones((1, 3), int)).dtype == np.float64
    for wrong_sizes in ([1, 2], [1, 2, 0], [1, 2, 1e16], [[1, 2, 3]]):
        with pytest.raises(InputError, match="public_sizes must be a number"):
            made("logistic", csr, public_sizes=wrong_sizes)
    assert made("logistic", csr, public_sizes=40)[0].divisors.tolist() == [40.0] * 3
    assert made("logistic", csr)[0].divisors.tolist() == [float(m) for m in SIZES]


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("strength", [0.0, 0.25, 1.0, 2.0])
@pytest.mark.parametrize(("regulariser", "l1", "l2"), [("l2", 0, 1), ("l1", 1, 0), ("none", 0, 0)])
def test_the_regulariser_is_added_whatever_its_weight(
    regulariser: str, l1: float, l2: float, strength: float
) -> None:
    """Also at weights that are likely to be taken for none, or for one."""
    store = made("logistic", False, regulariser=regulariser, strength=strength)[0].store
    nodes, w = np.arange(3), np.random.default_rng(3).normal(size=(3, P))
    indptr, records = np.array([0, 1, 2, 3]), np.array([0, 0, 0])
    for ask in (
        lambda on: store.gradient(nodes, w, None, on),
        lambda on: store.batch_gradient(nodes, w, indptr, records, np.ones(3), None, on),
    ):
        added = ask(True) - ask(False)
        np.testing.assert_allclose(added, strength * (l1 * np.sign(w) + l2 * w), atol=1e-12)
