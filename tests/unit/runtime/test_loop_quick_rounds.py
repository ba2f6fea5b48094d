"""What makes a small round quick changes no bit of it: kernels without threads, and prices that are
worked out once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import tacenda as tc
from support import make_block, problem
from tacenda import threads
from tacenda.errors import BudgetError, InputError, LeakError
from tacenda.privacy.accounting import events
from tacenda.privacy.noise import sources as noise
from tacenda.privacy.secrets.bounded import fixed_sensitivity, seal
from tacenda.privacy.secrets.ledger import Charge, Charges, Ledger
from tacenda.problem import problem as problem_module
from tacenda.questions.radius import brought_within, is_within
from tacenda.runtime import kernels
from tacenda.runtime.local_shards import LocalShards

NODES, FEATURES = 6, 37


def data(dtype: Any, sparse: bool = False, loss: str = "logistic", **more: Any) -> Any:
    rng, parts = np.random.default_rng(1), []
    for i in range(NODES):
        x = rng.normal(size=(80 + i, FEATURES)) * (rng.random((80 + i, FEATURES)) < 0.7)
        x = (x / (1.001 * np.linalg.norm(x, axis=1, keepdims=True))).astype(dtype)
        y = rng.integers(0, 3, len(x)) if loss == "multinomial" else rng.choice([-1, 1], len(x))
        parts.append((csr_array(x) if sparse else x, y))
    return tc.Problem(parts, loss=loss, strength=0.2, loss_scale=1.3, **more)


@pytest.mark.parametrize("sizes", [(1,) * NODES, (0, 1, 32, 33, 5, 64)], ids=["one", "uneven"])
@pytest.mark.parametrize("clip", [None, 0.2])
@pytest.mark.parametrize(
    ("dtype", "sparse", "loss"),
    [
        (np.float32, False, "logistic"),
        (np.float64, False, "hinge"),
        (np.float32, True, "logistic"),
        (np.float32, False, "multinomial"),
    ],
)
def test_samples_without_threads_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
    dtype: Any,
    sparse: bool,
    loss: str,
    clip: float | None,
    sizes: tuple[int, ...],
) -> None:
    monkeypatch.setattr(threads, "_cores", lambda: 3)
    store = data(dtype, sparse, loss).store
    rng, nodes = np.random.default_rng(2), np.arange(NODES)[::-1].copy()
    w = rng.normal(size=(NODES, store.dim)).astype(dtype)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    records = np.concatenate([rng.permutation(80)[:k] for k in sizes])
    for divisor, regularised in ((np.ones(NODES), False), (np.arange(1.0, NODES + 1), True)):
        found = []
        for least in (1 << 18, 1):
            monkeypatch.setattr(threads, "PARALLEL_ELEMENTS", least)
            found.append(
                store.batch_gradient(nodes, w, indptr, records, divisor, clip, regularised)
            )
        assert found[0].dtype == dtype and found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("small", [True, False])
def test_samples_outside_their_node_are_refused(
    monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    store, two, w = data(np.float32).store, np.array([0, 1]), np.zeros((2, FEATURES), np.float32)
    monkeypatch.setattr(threads, "PARALLEL_ELEMENTS", 1 << 18 if small else 1)
    monkeypatch.setattr(threads, "_cores", lambda: 2)
    for indptr, records, words in (
        ([0, 1, 2], [79, 81], "within each node"),
        ([0, 1, 2], [80, 0], "within each node"),
        ([0, 1, 2], [-1, 0], "within each node"),
        ([0, 2, 1], [0], "rising"),
        ([0, 1, 3], [0, 1], "rising"),
        ([1, 1, 2], [0, 1], "rising"),
        ([0, 2], [0, 1], "rising"),
    ):
        with pytest.raises(InputError, match=words):
            store.batch_gradient(two, w, np.array(indptr), np.array(records), 1.0)
    with pytest.raises(InputError, match="positions"):
        store.batch_gradient(np.array([0, NODES]), w, np.array([0, 1, 2]), np.array([0, 0]), 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_without_threads_is_the_same(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    monkeypatch.setattr(threads, "_cores", lambda: 3)
    rng = np.random.default_rng(3)
    core, offset = rng.normal(size=(5, 41)).astype(dtype), rng.normal(size=(5, 41)).astype(dtype)
    source, nodes, std = noise.SimulatedNoise(7), np.arange(5), rng.random(5)
    for parts in ((core, 1.0, None), (core, rng.normal(size=(5, 1)), offset)):
        found = []
        for least in (1 << 18, 1):
            monkeypatch.setattr(threads, "PARALLEL_ELEMENTS", least)
            found.append(source.add_gaussian(nodes, 3, 1, parts, std))
        assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weighted_sums_are_those_of_scipy(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    matrix = csr_array(((rng.random((9, 14)) < 0.4) * rng.normal(size=(9, 14))).astype(dtype))
    rows, out = rng.normal(size=(14, 50)).astype(dtype), np.full((9, 50), np.nan, dtype)
    want = np.asarray(matrix @ rows)
    for nodes in (np.array([0, 3, 4, 8]), np.array([1, 2, 5, 6, 7])):
        kernels.weighted_sums(nodes, matrix.indptr, matrix.indices, matrix.data, rows, out)
        assert out[nodes].tobytes() == want[nodes].tobytes()
    assert out.tobytes() == want.tobytes()
    ones = csr_array((np.ones(matrix.nnz, dtype), matrix.indices, matrix.indptr), matrix.shape)
    plain = matrix.data[:0]
    kernels.weighted_sums(np.arange(9), matrix.indptr, matrix.indices, plain, rows, out)
    assert out.tobytes() == np.asarray(ones @ rows).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_running_average_is_that_of_numpy(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    rows, total = rng.normal(size=(4, 33)).astype(dtype), rng.normal(size=(4, 33)).astype(dtype)
    for weight in (1.0, 3.0, 0.1):
        want = total + (rows if weight == 1 else weight * rows)
        kernels.add_weighted(total, rows, weight)
        assert total.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_within_a_radius_are_told_from_others_and_cut(dtype: Any) -> None:
    """Also where the radius is no number of that type: what is cut lies within, and what lies
    within is not copied."""
    # The sum of the last is infinite, and they are not
    for radius in (1e9, 0.1, 1e15, float(np.finfo(dtype).max)):
        most = (
            dtype(radius)
            if float(dtype(radius)) <= radius
            else np.nextafter(dtype(radius), dtype(0))
        )
        rows = np.full((3, 40), most, dtype)
        with np.errstate(over="ignore"):
            above = np.nextafter(most, dtype(np.inf))
        assert (
            is_within(rows, radius)
            and is_within(-rows, radius)
            and is_within(rows[:0], radius)
            and is_within(rows[:, ::2], radius)
        )
        assert brought_within(rows, radius) is rows
        for bad, cut in ((np.nan, 0), (np.inf, most), (-np.inf, -most), (above, most)):
            for place in ((0, 0), (2, 39)):
                worse = rows / 2
                worse[place] = bad
                assert not is_within(worse, radius)
                better, worse[place] = brought_within(worse, radius), cut
                assert (
                    is_within(better, radius)
                    and better.dtype == dtype
                    and np.array_equal(better, worse)
                )


def test_a_fixed_sensitivity_cannot_be_written() -> None:
    given = np.array([1.0, 2.0])
    kept = fixed_sensitivity(given)
    value = seal(np.zeros((2, 3)), kept)
    given[:] = 0.0
    assert np.array_equal(kept, [1.0, 2.0])
    with pytest.raises(ValueError):
        kept.setflags(write=True)
    assert np.array_equal(value.sensitivity, [1.0, 2.0])
    for wrong in ([1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(LeakError, match="at least 0"):
            fixed_sensitivity(np.array(wrong))


def test_equal_releases_share_a_price_and_others_do_not() -> None:
    block, door, ledger = make_block(problem(4), scale=2.0)
    w, before = np.zeros((4, 4)), []

    def release(factor: float, relative_std: float | None = None) -> float:
        block.release(block.gradient(w) * factor, relative_std=relative_std)
        charge, _ = list(ledger.charges)[-1]
        return float(charge.parameters["noise_multiplier"][0])

    for factor, relative_std in (
        (1.0, None),
        (1.0, None),
        (3.0, None),
        (3.0, 0.5),
        (3.0, 0.25),
        (6.0, 0.25),
        (1.0, None),
    ):
        before.append(release(factor, relative_std))
    sensitivity = float(block.facts.gradient_sensitivity()[0])
    want = [
        2.0,
        2.0,
        2.0,
        1.0 / (3 * sensitivity),
        0.5 / (3 * sensitivity),
        0.5 / (6 * sensitivity),
        2.0,
    ]
    assert np.allclose(before, want, rtol=1e-12) and len(ledger.charges) == 7
    door.plan = type(door.plan)(door.plan.scale / 2, door.plan.weights)
    assert release(1.0) == 1.0  # another plan, another price


def test_a_charge_that_passed_once_is_compared_with_each_new_reservation() -> None:
    def gaussian(z: float) -> Charge:
        return Charge(events.Gaussian, {"noise_multiplier": np.array([z])})

    first, charge = gaussian(1.0), gaussian(1.0)
    charge.freeze()
    ledger = Ledger(Charges([(first, 2), (gaussian(2.0), 1)]))
    ledger.charge(1, 0, charge, b"")
    ledger.charge(2, 0, charge, b"")
    with pytest.raises(BudgetError, match="would cost more"):
        ledger.charge(3, 0, charge, b"")
    with pytest.raises(ValueError):
        charge.parameters["noise_multiplier"][0] = 5.0
    assert len(ledger.charges) == 2


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_objective_of_float32_records(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    """One model's scores are taken without a float64 copy of the table,
    in chunks, and are those of that copy."""
    single = data(np.float32, loss=loss)
    monkeypatch.setattr(problem_module, "_CHUNK_RECORDS", 100 * FEATURES)
    w = np.random.default_rng(6).normal(size=(1, single.dim))
    x, y = single.store.rows.astype(float), single.store.labels
    scores = x @ w.reshape(-1, FEATURES).T
    if loss == "multinomial":
        losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y.astype(int)]
        right = scores.argmax(axis=1) == y
    else:
        losses, right = np.log1p(np.exp(-y * scores[:, 0])), (scores[:, 0] >= 0) == (y > 0)
    means = [part.mean() for part in np.split(losses, single.store.offsets[1:-1])]
    assert single.objective(w[0]) == pytest.approx(
        1.3 * np.mean(means) + 0.1 * np.sum(w**2), rel=1e-13
    )
    assert single.loss_of(w[0]) == pytest.approx(losses.mean(), rel=1e-13)
    assert single.accuracy(w[0]) == right.mean()


def test_the_reference_is_judged_once_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    small, asked = problem(4), []
    reference, honest = small.solve(), LocalShards.objective
    monkeypatch.setattr(
        LocalShards, "objective", lambda self, w: asked.append(np.array(w)) or honest(self, w)
    )
    run = tc.simulate(
        small,
        tc.graph.ring(4),
        tc.algorithms.DDA(),
        5,
        reference=reference,
        metrics=("suboptimality", "objective"),
        finish_mixing=2,
    )
    assert sum(np.array_equal(w, reference) for w in asked) == 1 and len(asked) == 7
    for row in run.history.rows:
        assert row["suboptimality"] == pytest.approx(
            row["objective"] - small.objective(reference), abs=1e-14
        )


@pytest.mark.parametrize("name", ["ipadmm", "cdpadmm", "ddpadmm", "dpdda", "gossipgd"])
def test_float32_records_run_without_noise_as_well(name: str) -> None:
    runs = [
        tc.simulate(
            data(dtype), tc.graph.ring(NODES), name, 20, record_every=0, progress=False
        ).models
        for dtype in (np.float32, float)
    ]
    assert runs[0].dtype == np.float32 and np.allclose(
        runs[0], runs[1], atol=1e-4 * np.abs(runs[1]).max()
    )
