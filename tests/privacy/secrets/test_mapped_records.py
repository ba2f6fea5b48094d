"""Mapped records are private records like others: their bound holds for every float, and every
question to them is the same question to a problem that was built of mapped rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import quickly
import tacenda as tc
from support import make_block
from tacenda import regularisers
from tacenda.errors import InputError, LeakError, UnsupportedError
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_parts, open_values, question_of
from tacenda.questions.blank import BlankQueries
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.lattice import LatticeQueries
from tacenda.questions.queries import Queries
from tacenda.questions.store import DenseStore, SparseStore

LAYOUTS = ("dense", "float32", "csr")
SIZES, P = (8, 5, 11), 4


class Named(SimulatedNoise):
    """Noise that is named by what is asked, as a peer's is."""

    by_question = True


def problem_of(layout: str = "dense", loss: str = "logistic", **given: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    kind = tc.losses.by_name(loss).kind
    classes: Any = {"binary": (-1, 1), "multiclass": (0, 1, 2), "regression": None}[kind]
    shards = []
    for m in SIZES:
        x = rng.normal(size=(m, P))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.01
        y = rng.normal(size=m) if classes is None else rng.choice(classes, m)
        shards.append((x.astype(np.float32) if layout == "float32" else x, y))
    table = [(sp.csr_matrix(x), y) for x, y in shards] if layout == "csr" else shards
    settings_: dict[str, Any] = {"strength": 0.1, "loss_scale": 1.4, **given}
    return tc.Problem(table, loss=loss, classes=classes, **settings_), shards


def map_of(columns: int = P, size: float = 2.0) -> Any:
    """Orthogonal columns of different lengths."""
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(P, P)))[0]
    return basis[:, :columns] * np.linspace(0.5, size, columns)


DIAGONAL = np.array([0.5, 2.0, 1.2, 3.0])


def table_of(rows: Any, columns: int = P) -> Any:
    """A store's rows as a dense table."""
    if not isinstance(rows, tuple):
        return rows
    return sp.csr_matrix(rows, shape=(len(rows[2]) - 1, columns)).toarray()


def queries_of(problem: Any, nodes: Any = (0, 1, 2), relation: str = "replace-one") -> Queries:
    at = np.array(nodes)
    facts = Facts.of(problem, relation).rows(at)
    return Queries(problem.store, problem.sizes, at, facts, SimulatedNoise(1))


def rows_of(queries: Queries) -> Any:
    return queries._store.rows  # type: ignore[attr-defined]


def same_problem(shards: Any, matrix: Any, norm: float, problem: Any, **given: Any) -> Any:
    """A problem whose records are the mapped rows, cut by hand, without a regulariser."""
    mapped = []
    for x, y in shards:
        z = x.astype(float) @ matrix
        z *= np.minimum(1.0, norm / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300))
        mapped.append((z, y))
    return tc.Problem(
        mapped,
        loss=problem.loss,
        classes=problem.classes,
        regulariser="none",
        strength=0.0,
        loss_scale=problem.loss_scale,
        data_norm=norm,
        **given,
    )


@pytest.mark.parametrize("loss", ["logistic", "multinomial", "squared"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("columns", [P, 2])
def test_a_gradient_is_that_of_the_mapped_rows(loss: str, layout: str, columns: int) -> None:
    problem, shards = problem_of(layout, loss)
    matrix = map_of(columns)
    found = queries_of(problem).mapped(RecordMap(matrix, 0.8, 0.5))
    plain = same_problem(shards, matrix, 0.8, problem, clip_norm=0.5)
    v = np.random.default_rng(2).normal(size=(3, found.facts.dim))
    close = {"rtol": 1e-6, "atol": 3e-6} if layout == "float32" else {"rtol": 1e-9, "atol": 1e-11}
    loss_part = open_values(queries_of(plain).gradient(v, 1, 0, None, False, False))
    got = open_values(found.gradient(v, 1, 0, None, False, False))
    np.testing.assert_allclose(got, loss_part, **close)
    # and with the regulariser it is the gradient of f_i(matrix v) by the chain rule
    outputs = problem.n_outputs
    w = v.reshape(3, outputs, columns) @ matrix.T
    ridge = 0.1 * (w @ matrix).reshape(3, -1)
    with_it = found.gradient(v, 1, 0, None, False, True)
    np.testing.assert_allclose(open_values(with_it), loss_part + ridge, **close)
    assert open_parts(with_it)[2] is not None  # weights of any size: added behind the noise
    assert np.array_equal(with_it.sensitivity, found.facts.gradient_sensitivity())
    np.testing.assert_allclose(
        found.facts.gradient_sensitivity(), 2 * 0.5 * 1.4 / np.array(SIZES), rtol=1e-12
    )
    np.testing.assert_allclose(
        found.facts.constants.regulariser.value(v), 0.5 * (w**2).sum(axis=(1, 2)), rtol=1e-12
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_node_has_the_same_rows_in_every_block(layout: str) -> None:
    problem, _ = problem_of(layout)
    matrix = map_of()
    together = rows_of(queries_of(problem).mapped(RecordMap(matrix, 0.8)))
    ends = np.cumsum(SIZES)
    for nodes in ([1], [2, 0], [0, 1]):
        apart = rows_of(queries_of(problem, nodes).mapped(RecordMap(matrix, 0.8)))
        expected = [together[ends[k] - SIZES[k] : ends[k]] for k in nodes]
        assert np.array_equal(apart, np.concatenate(expected))


@pytest.mark.parametrize("loss", ["logistic", "multinomial", "squared"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_diagonal_map_is_that_of_the_diagonal_matrix(loss: str, layout: str) -> None:
    """The same records, facts and gradients; and sparse rows stay sparse."""
    problem, _ = problem_of(layout, loss)
    one = queries_of(problem).mapped(RecordMap(DIAGONAL, 0.8, 0.5))
    full = queries_of(problem).mapped(RecordMap(np.diag(DIAGONAL), 0.8, 0.5))
    close = {"rtol": 1e-6, "atol": 1e-6} if layout == "float32" else {"rtol": 1e-12, "atol": 1e-14}
    rows = rows_of(one)
    assert isinstance(rows, tuple) == (layout == "csr")
    np.testing.assert_allclose(table_of(rows), rows_of(full), **close)
    assert one.facts.dim == full.facts.dim and one.facts.n_features == P
    a, b = one.facts.constants, full.facts.constants
    assert (a.radius, a.data_norm, a.clip_norm) == (b.radius, b.data_norm, b.clip_norm)
    assert np.array_equal(a.regulariser.l2, b.regulariser.l2)
    v = np.random.default_rng(2).normal(size=(3, one.facts.dim))
    found, expected = (q.gradient(v, 1, 0, None, False, True) for q in (one, full))
    np.testing.assert_allclose(open_values(found), open_values(expected), **close)
    assert np.array_equal(found.sensitivity, expected.sensitivity)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_node_has_the_same_rows_in_every_block_of_a_diagonal_map(layout: str) -> None:
    problem, _ = problem_of(layout)
    together = queries_of(problem).mapped(RecordMap(DIAGONAL, 0.8))
    ends, v = np.cumsum(SIZES), np.random.default_rng(2).normal(size=(3, P))
    ask = (1, 0, None, False, True)
    gradients = open_values(together.gradient(v, *ask))
    for nodes in ([1], [2, 0], [0, 1]):
        apart = queries_of(problem, nodes).mapped(RecordMap(DIAGONAL, 0.8))
        expected = [table_of(rows_of(together))[ends[k] - SIZES[k] : ends[k]] for k in nodes]
        assert np.array_equal(table_of(rows_of(apart)), np.concatenate(expected))
        assert np.array_equal(open_values(apart.gradient(v[nodes], *ask)), gradients[nodes])
        for one in (apart, together):  # how a node's sum is cut depends on its own records only
            assert one._store.row_elements == problem.store.row_elements  # type: ignore[attr-defined]


def test_a_sample_of_mapped_records_is_drawn_as_that_node_s_in_every_block() -> None:
    problem, _ = problem_of()
    v = np.random.default_rng(2).normal(size=(3, P))

    def answer(nodes: Any) -> Any:
        found = queries_of(problem, nodes).mapped(RecordMap(map_of(), 0.8))
        return open_values(found.gradient(v[nodes], 1, 0, 3, False, True))

    together = answer([0, 1, 2])
    for nodes in ([2], [1, 0]):
        assert np.array_equal(answer(nodes), together[nodes])


NUMBERS = st.floats(width=64) | st.sampled_from(
    [0.0, 1.0, -1.0, 1e-320, 1e-160, 1e150, 1e200, 1.8e308, np.inf, -np.inf, np.nan]
)


def longest(table: Any, matrix: Any, norm: float, layout: str) -> float:
    """The largest norm of a mapped row, in long double, over `norm`."""
    csr = sp.csr_matrix(table)
    rows: Any = table.astype(np.float32) if layout == "float32" else table
    kind: Any = DenseStore
    if layout == "csr":
        kind = SparseStore
        rows = (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int64))
    store = kind(
        rows,
        np.ones(len(table)),
        np.array([0, len(table)]),
        n_features=table.shape[1],
        n_outputs=1,
        loss=tc.losses.Logistic(),
        regulariser=regularisers.NoRegulariser(),
        strength=0.0,
        loss_scale=1.0,
        divisors=np.array([float(len(table))]),
    )
    found = store.mapped(np.array([0]), matrix, norm, regularisers.NoRegulariser())
    mapped = found.rows
    if isinstance(mapped, tuple):
        assert np.isfinite(mapped[0]).all()
        dense = sp.csr_matrix(mapped, shape=(len(table), table.shape[1]))
        mapped = dense.toarray()
    assert np.isfinite(mapped).all()
    exact = mapped.astype(np.longdouble)
    return float(np.sqrt((exact * exact).sum(axis=1)).max() / np.longdouble(norm))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=3, max_size=3),
    st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=3, max_size=3),
    st.sampled_from([1e-9, 0.3, 1.0, 1e9]),
    st.sampled_from(LAYOUTS),
)
def test_no_floats_make_a_row_longer_than_its_norm(
    table: Any, matrix: Any, norm: float, layout: str
) -> None:
    with np.errstate(all="ignore"):
        assert longest(np.array(table), np.array(matrix), norm, layout) <= 1.0


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=3, max_size=3),
    st.lists(NUMBERS, min_size=3, max_size=3),
    st.sampled_from([1e-9, 0.3, 1.0, 1e9]),
    st.sampled_from(LAYOUTS),
)
def test_no_floats_make_a_row_longer_than_its_norm_on_a_diagonal_map(
    table: Any, diagonal: Any, norm: float, layout: str
) -> None:
    with np.errstate(all="ignore"):
        assert longest(np.array(table), np.array(diagonal), norm, layout) <= 1.0


def test_many_rows_on_the_sphere_stay_within_it() -> None:
    rng = np.random.default_rng(0)
    for columns in (1, 3, 40):
        for layout in LAYOUTS:
            matrix = rng.normal(size=(6, columns)) * 10
            for one in (matrix, matrix[:, 0]):
                found = longest(rng.normal(size=(400, 6)), one, 0.7, layout)
                assert 1 - 2e-6 <= found <= 1.0


def moved(queries: Any, other: Any, v: Any) -> Any:
    """(n,) by how much the gradients of two data sets differ, over what is declared."""
    a = queries.gradient(v, 1, 0, None, False, False)
    b = other.gradient(v, 1, 0, None, False, False)
    return np.linalg.norm(open_values(a) - open_values(b), axis=1) / a.sensitivity


def neighbours() -> tuple[Any, Any]:
    """Two problems whose nodes differ in one record each; the map makes that record long."""
    first, shards = problem_of(clip_norm=None, strength=0.0)
    second = []
    for x, y in shards:
        x, y = x.copy(), y.copy()
        x[0], y[0] = -x[0], y[0]
        second.append((x, y))
    return first, tc.Problem(second, classes=(-1, 1), strength=0.0, loss_scale=1.4)


def test_one_record_moves_a_mapped_gradient_no_further_than_declared() -> None:
    v = np.random.default_rng(3).normal(size=(3, P)) * 20
    for clip in (None, 0.3):
        for matrix in (map_of(), 4 * DIAGONAL):
            asked = [queries_of(p).mapped(RecordMap(matrix, 0.4, clip)) for p in neighbours()]
            assert moved(*asked, v).max() <= 1 + 1e-9


def test_rows_that_are_mapped_but_not_cut_are_caught(monkeypatch: Any) -> None:
    original = DenseStore.mapped
    monkeypatch.setattr(
        DenseStore,
        "mapped",
        lambda self, nodes, matrix, norm, r, s: original(self, nodes, matrix, 1e9, r, s),
    )
    v = np.random.default_rng(3).normal(size=(3, P)) * 20
    for matrix in (map_of(), 4 * DIAGONAL):
        asked = [queries_of(p).mapped(RecordMap(matrix, 0.4)) for p in neighbours()]
        assert moved(*asked, v).max() > 1.0
        assert rows_of(asked[0]).max() > 0.4


def test_the_map_must_be_public_and_fit_the_records() -> None:
    problem, _ = problem_of()
    asked = queries_of(problem)
    secret = asked.gradient(np.zeros((3, P)), 1, 0, None, False, False)
    with pytest.raises(LeakError, match="public point"):
        asked.mapped(RecordMap(secret, 1.0))  # type: ignore[arg-type]
    for wrong in (np.ones((P + 1, 2)), np.ones(P + 1), np.ones((P, 0)), np.ones(())):
        with pytest.raises(InputError, match="matrix must have shape"):
            asked.mapped(RecordMap(wrong, 1.0))


def test_regularisers_that_live_in_the_old_coordinates_are_refused_with_the_remedy() -> None:
    for name in ("l1", "elastic-net"):
        problem, _ = problem_of(regulariser=name)
        there = queries_of(problem).mapped(RecordMap(map_of(), 1.0))
        with pytest.raises(UnsupportedError, match="cannot be mapped; use 'l2' or 'none'"):
            there.gradient(np.zeros((3, map_of().shape[1])), 1, 0, None, False, True)
        alone = there.gradient(np.zeros((3, map_of().shape[1])), 1, 0, None, False, False)
        assert alone.shape == (3, map_of().shape[1])
        for asked in ("l1", "l2", "smooth"):
            with pytest.raises(UnsupportedError, match="cannot be mapped"):
                getattr(there.facts.constants.regulariser, asked)
    problem, _ = problem_of()
    with pytest.raises(UnsupportedError, match="orthogonal columns"):
        queries_of(problem).mapped(RecordMap(map_of() + 0.01, 1.0))
    once = queries_of(problem).mapped(RecordMap(map_of(), 1.0))
    with pytest.raises(UnsupportedError, match="mapped again"):
        once.mapped(RecordMap(np.eye(P), 1.0))
    for name, strength in (("none", 0.3), ("l2", 0.0), ("l1", 0.0)):
        problem, _ = problem_of(regulariser=name, strength=strength)
        found = queries_of(problem).mapped(RecordMap(map_of() + 0.01, 1.0)).facts.constants
        assert found.regulariser.name == "none"


def test_the_facts_of_mapped_records() -> None:
    problem, _ = problem_of(loss="multinomial", radius=50.0)
    facts = queries_of(problem).facts
    matrix = map_of(2)
    found = facts.mapped(RecordMap(matrix, 0.8, 0.5, 0.123))
    k = found.constants
    assert (k.data_norm, k.clip_norm, found.dim, found.n_features) == (0.8, 0.5, 6, 2)
    assert k.strong_convexity == 0.0 and found.smoothness == 0.123
    assert k.radius == pytest.approx(50.0 / 0.5)  # the shortest column
    assert np.array_equal(found.sizes, facts.sizes) and found.smallest == facts.smallest
    assert facts.mapped(RecordMap(matrix, 0.8)).smoothness == pytest.approx(
        1.4 * k.loss.curvature * 0.64
    )
    blank = BlankQueries(facts).mapped(RecordMap(matrix, 0.8, 0.5))
    assert blank.facts.constants.clip_norm == 0.5 and blank.facts.dim == 6
    w = np.zeros((3, 6))
    assert np.array_equal(
        blank.gradient(w, 1, 0, None, False, True).sensitivity, found.gradient_sensitivity()
    )


def test_another_map_is_another_question() -> None:
    problem, _ = problem_of()
    at = np.array([0])
    facts = Facts.of(problem).rows(at)
    asked = Queries(problem.store, problem.sizes, at, facts, Named(1))
    maps = [(map_of(), 0.8, None), (map_of(), 0.7, None), (map_of(), 0.8, 0.5),
            (map_of() * 2, 0.8, None)]  # fmt: skip
    v, q = np.zeros((1, P)), np.ones((1, 1))
    several = [asked] + [asked.mapped(RecordMap(*one)) for one in maps]
    gradients = [question_of(a.gradient(v, 1, 0, None, False, False))[0] for a in several]
    minimisers = [question_of(a.argmin(v, q, v))[0] for a in several]
    moments = [question_of(a.second_moment(0.0, 1.0))[0] for a in several]
    for names in (gradients, minimisers, moments):
        assert len(set(names)) == len(names)
    again = asked.mapped(RecordMap(map_of(), 0.8))
    assert question_of(again.gradient(v, 1, 0, None, False, False))[0] == gradients[1]


@pytest.mark.parametrize("common", [False, True])
def test_the_lattice_answers_on_mapped_records_too(common: bool) -> None:
    problem, _ = problem_of(loss="squared", clip_norm=2.0)
    at, facts = np.arange(3), Facts.of(problem)
    given: Any = (problem.store, problem.sizes, at, facts, SimulatedNoise(1))
    grid = 2.0**-24
    whole = LatticeQueries(*given, grid, common=common).mapped(RecordMap(map_of(), 0.8, 0.5))
    floats = Queries(*given).mapped(RecordMap(map_of(), 0.8, 0.5))
    v = np.random.default_rng(4).normal(size=(3, P))
    pairs = [
        (one.gradient(v, 1, 0, None, False, False), one.second_moment(0.4, 2.0))
        for one in (whole, floats)
    ]
    for found, expected in zip(*pairs, strict=True):
        core, factor, offset = open_parts(found)
        assert core.dtype == np.int64 and offset is None
        np.testing.assert_allclose(open_values(found), open_values(expected), atol=1e-5)
        np.testing.assert_allclose(found.sensitivity, expected.sensitivity, rtol=1e-12)
        steps = found.sensitivity / np.ravel(factor)
        assert steps.min() >= 2.0**22
        if common:
            assert len(set(np.ravel(factor))) == 1
            assert float(np.ravel(factor)[0]) == grid * found.sensitivity.max()


def test_nodes_of_unequal_size_add_up_on_the_common_grid() -> None:
    """The whole numbers of all nodes, added up and times one public step, are the network's sum."""
    problem, _ = problem_of()
    facts = Facts.of(problem)
    parts = [np.array([0, 2]), np.array([1])]
    w = np.random.default_rng(6).normal(size=(1, P))
    total, steps = np.zeros(P, np.int64), set()
    for at in parts:
        asked = LatticeQueries(
            problem.store, problem.sizes, at, facts.rows(at), SimulatedNoise(1), 2.0**-30, True
        )
        found = asked.gradient(np.repeat(w, len(at), 0), 1, 0, None, False, False)
        unit = asked.facts.worst_gradient_sensitivity
        core, factor, _ = open_parts(found / unit)
        total += core.sum(axis=0)
        steps |= set(np.ravel(factor) * unit)
    assert len(steps) == 1
    expected = problem.store.gradient(np.arange(3), np.repeat(w, 3, 0), None, False).sum(axis=0)
    np.testing.assert_allclose(total * steps.pop(), expected, atol=1e-7)


@pytest.mark.parametrize(
    ("far", "loss"),
    quickly.cases(
        itertools.product((False, True), ("logistic", "squared", "multinomial")),
        lambda case: case[1] == "logistic" or case == (True, "squared"),
    ),
)
def test_a_minimiser_on_mapped_records(loss: str, far: bool) -> None:
    """Its gradient vanishes, with a weight for each coordinate: near, and around a far anchor."""
    problem, _ = problem_of(loss=loss, radius=1e12)
    found = queries_of(problem).mapped(RecordMap(map_of(), 0.8))
    dim, rng = found.facts.dim, np.random.default_rng(8)
    linear, centre = rng.normal(size=(2, 3, dim)) * (1e7 if far else 1.0)
    q = np.array([[0.3], [1.0], [0.1]])
    v = open_values(found.argmin(linear, q, centre))
    gradient = found.gradient(v, 1, 0, None, False, True)
    residual = open_values(gradient) + linear + 2 * q * (v - centre)
    limit = 1e-8 if not far else 1e7 * 1e-14
    assert np.linalg.norm(residual, axis=1).max() <= 4 * limit
    if far:
        core, _, offset = open_parts(found.argmin(linear, q, centre))
        assert offset is not None or loss == "squared"
        if offset is not None:
            assert np.abs(core).max() < 100 < np.abs(offset).max()


def test_one_record_moves_a_mapped_minimiser_no_further_than_declared() -> None:
    first, second = neighbours()
    q, zero = np.full((3, 1), 0.05), np.zeros((3, P))
    asked = [queries_of(p).mapped(RecordMap(map_of(), 0.4)).argmin(zero, q, zero)
             for p in (first, second)]  # fmt: skip
    apart = np.linalg.norm(open_values(asked[0]) - open_values(asked[1]), axis=1)
    assert (apart <= asked[0].sensitivity).all()


def test_a_mapped_block_is_the_same_block_on_other_records() -> None:
    problem, _ = problem_of()
    block = make_block(problem, scale=1.0)[0]
    block.start(1)
    other = block.mapped(RecordMap(map_of(), 0.8, 0.5))
    assert other is block.mapped(RecordMap(map_of(), 0.8, 0.5)) and other is not block.mapped(
        RecordMap(map_of(), 0.8)
    )
    v = np.random.default_rng(0).normal(size=(3, P))
    weights = (map_of() ** 2).sum(axis=0)
    np.testing.assert_allclose(other.prox(v, 0.5), v / (1 + 0.5 * 0.1 * weights), rtol=1e-12)
    np.testing.assert_allclose(
        other.dual_step(v, 2.0, 0.3), -v / (2.0 * 0.1 * weights + 0.3), rtol=1e-12
    )
