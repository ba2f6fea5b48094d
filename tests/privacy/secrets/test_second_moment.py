"""The second moment's declared sensitivity: never exceeded by any floats, and nearly attained.

Every node is a neighbouring pair of its own, as in test_sensitivity; records go into the store as
they are, also those that a Problem would refuse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tacenda as tc
from tacenda import losses, regularisers
from tacenda.errors import InputError
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_parts
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.questions.lattice import LatticeQueries
from tacenda.questions.queries import Queries
from tacenda.questions.store import DenseStore, SparseStore

RELATIONS = ("replace-one", "add-remove")
WAYS = ("floats", "own grid", "common grid")
LAYOUTS = ("dense", "float32", "csr")
KINDS = ("full", "diagonal")
NORM, LABELS = 1.5, (0.7, 2.0)
# Two rows of norm NORM which, with the same largest label behind them, are at right angles.
COSINE = -((LABELS[0] * LABELS[1] / NORM) ** 2)
RIGHT_ANGLE = NORM * np.array([[1.0, 0.0], [COSINE, np.sqrt(1 - COSINE**2)]])


def store_of(
    rows: Any, labels: Any, offsets: Any, layout: str, divisor: float, classes: int = 1
) -> Any:
    kind: Any = DenseStore
    width = rows.shape[1]
    if layout == "float32":
        rows = rows.astype(np.float32)
    if layout == "csr":
        csr = sp.csr_matrix(rows)
        rows = (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int64))
        kind = SparseStore
    return kind(
        rows,
        labels,
        offsets,
        n_features=width,
        n_outputs=classes,
        loss=losses.Squared() if classes == 1 else losses.Multinomial(),
        regulariser=regularisers.NoRegulariser(),
        strength=0.0,
        loss_scale=1.3,
        divisors=np.full(len(offsets) - 1, divisor),
    )


def answer(
    records: list[Any], way: str, layout: str, relation: str, divisor: float, kind: str = "full"
) -> Any:
    """(core rows, sensitivity of the core rows) of nodes with these records (x, y)."""
    rows = np.concatenate([x for x, _ in records])
    labels = np.concatenate([y for _, y in records])
    offsets = np.concatenate([[0], np.cumsum([len(y) for _, y in records])]).astype(np.int64)
    classes = 3 if kind == "classes" else 1
    store = store_of(rows, labels, offsets, layout, divisor, classes)
    loss = losses.Squared() if classes == 1 else losses.Multinomial()
    constants = Constants(
        loss, regularisers.NoRegulariser(), 0.0, 1.3, NORM, clip_norm=0.9, n_outputs=classes
    )
    n = len(records)
    facts = Facts(np.full(n, divisor), rows.shape[1] * classes, constants, relation)
    given: Any = (store, np.diff(offsets), np.arange(n), facts, SimulatedNoise(1))
    if way == "floats":
        queries = Queries(*given)
    else:
        queries = LatticeQueries(*given, 2.0**-16, common=way == "common grid")
    found = queries.second_moment(*LABELS, diagonal=kind == "diagonal")
    core, factor, offset = open_parts(found)
    assert offset is None and np.isfinite(core).all()
    return core, found.sensitivity / np.abs(np.broadcast_to(np.ravel(factor), n))


def moved(
    first: Any, second: Any, way: str, layout: str, relation: str, m: int, kind: str = "full"
) -> Any:
    """(n,) by how much each node's answer moved, over what was declared."""
    with np.errstate(all="ignore"):
        a, bound = answer(first, way, layout, relation, float(m), kind)
        b, _ = answer(second, way, layout, relation, float(m), kind)
    if a.dtype == np.int64:
        squares = [sum(int(step) ** 2 for step in u - v) for u, v in zip(a, b, strict=True)]
        return np.sqrt(np.array(squares, float)) / bound
    return np.linalg.norm(a - b, axis=1) / (bound * (1 + 1e-12 * m))


def pairs(relation: str, count: int = 120, m: int = 4, p: int = 3) -> tuple[Any, Any, int]:
    rng = np.random.default_rng(11)
    first, second = [], []
    for k in range(count):
        x = rng.normal(size=(m + 1, p))
        x *= (
            NORM
            * rng.choice([1.0, 1.0, 5.0, 0.3], (m + 1, 1))
            / np.linalg.norm(x, axis=1, keepdims=True)
        )
        y = rng.choice([-9.0, -1.0, 0.0, 2.0], m + 1)
        if k % 3 == 0:
            x[-2:, :2], x[-2:, 2:], y[-2:] = RIGHT_ANGLE, 0.0, LABELS[1]
        first.append((x[:m], y[:m]))
        other = np.r_[0 : m - 1, m] if relation == "replace-one" else np.r_[0 : m - 1]
        second.append((x[other], y[other]))
    return first, second, m


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_record_moves_it_further_than_declared(
    kind: str, way: str, layout: str, relation: str
) -> None:
    first, second, m = pairs(relation)
    assert moved(first, second, way, layout, relation, m, kind).max() <= 1.0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("way", WAYS)
def test_no_record_of_a_class_moves_it_further_than_declared(way: str, relation: str) -> None:
    """Nor one whose label names none; rows at right angles, of two classes, are that far."""
    first, second, m = pairs(relation)
    for _, y in [*first, *second]:
        y[:] = np.abs(y).astype(int) % 4  # of three classes
    if relation == "replace-one":
        first[0][0][-1], second[0][0][-1] = np.diag([NORM, NORM, 0.0])[:2]
        first[0][1][-1], second[0][1][-1] = 0.0, 1.0
    share = moved(first, second, way, "dense", relation, m, "classes")
    assert share.max() <= 1.0
    if relation == "replace-one":
        assert share[0] > 0.98


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("way", WAYS)
def test_the_declared_sensitivity_is_nearly_attained(way: str, relation: str) -> None:
    x, y = RIGHT_ANGLE[[0, 0, 1]], np.full(3, LABELS[1])
    first = [(x[:2], y[:2])]
    second = [(x[[0, 2]], y[[0, 2]])] if relation == "replace-one" else [(x[:1], y[:1])]
    assert 1 - 1e-3 <= moved(first, second, way, "dense", relation, 2).max() <= 1.0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_records_along_two_axes_nearly_attain_it_on_the_diagonal(
    way: str, layout: str, relation: str
) -> None:
    """Without labels: one row is NORM times the first unit vector, the other the second."""
    x = NORM * np.eye(3)[[0, 0, 1]]
    other = x[[0, 2]] if relation == "replace-one" else x[:1]
    given = [[(one, np.zeros(len(one)))] for one in (x[:2], other)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.LABELS", (0.0, 1.0))
        found = moved(*given, way, layout, relation, 2, "diagonal").max()
    assert 1 - 1e-3 <= found <= 1.0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whole_diagonals_need_no_shorter_cut(layout: str) -> None:
    """Entries that are rounded toward zero stay at 0 or above, so a coarse grid takes nothing: it
    is refused for the full form, and here the bound holds, also where all entries are rounded."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 3))
    x *= NORM / np.linalg.norm(x, axis=1, keepdims=True)
    store = store_of(x, np.zeros(400), np.arange(401), layout, 1.0)
    grid = NORM**2 / 3.3
    whole = store.integer_second_moment(np.arange(400), grid, NORM, 0.0, 1.0, True)
    assert whole.min() >= 0 and whole.max() <= 3
    apart = np.linalg.norm((whole[:, None] - whole[None]).astype(float), axis=2)
    assert apart.max() <= np.sqrt(2) * 3.3
    with pytest.raises(InputError, match="finer grid"):
        store.integer_second_moment(np.arange(400), grid, NORM, 0.0, 1.0)


FLOATS = st.floats(width=64) | st.sampled_from(
    [0.0, 1.0, NORM, -NORM, 1e-200, 1e154, 1e200, 1.8e308, np.inf, -np.inf, np.nan]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(FLOATS, min_size=3, max_size=3), min_size=4, max_size=4),
    st.sampled_from(WAYS),
    st.sampled_from(LAYOUTS),
    st.sampled_from(RELATIONS),
    st.sampled_from(KINDS),
)
def test_it_holds_for_every_float(
    table: Any, way: str, layout: str, relation: str, kind: str
) -> None:
    z = np.array(table)
    with np.errstate(over="ignore"):
        first, last = (z[:3, :2], z[:3, 2]), (z[[0, 1, 3], :2], z[[0, 1, 3], 2])
        if relation == "add-remove":
            last = (z[:2, :2], z[:2, 2])
        assert moved([first], [last], way, layout, relation, 3, kind).max() <= 1.0


def test_rounding_toward_zero_alone_would_exceed_the_bound() -> None:
    """Two records at right angles whose products are rounded: uncut, the whole numbers are further
    apart than sqrt(2) B^2/grid. This is what the shorter cut is for."""
    from tacenda.questions.kernels.moments import Bounds, integer_moments
    from tacenda.questions.kernels.rows import Columns

    largest, c = 54.0, np.sqrt(0.9606)
    x = np.array([[np.sqrt(27), np.sqrt(27), 0], [c, -c, np.sqrt(largest - 2 * 0.9606)]])
    x *= np.sqrt((1 + 1e-9) / largest)
    grid, at = np.full(2, 1 / largest), np.arange(2)
    columns = Columns(x, np.zeros(2), 1.0, np.linalg.norm(x, axis=1))
    bounds = Bounds(2.0, 0.0, 1.0, 0, 3)

    def apart(cut: float) -> float:
        out = np.zeros((2, 6), np.int64)
        integer_moments(0, 2, columns, at, at + 1, bounds, np.full(2, cut), grid, out)
        return float(np.linalg.norm((out[0] - out[1]).astype(float)))

    assert apart(2.0) > 1.002 * np.sqrt(2) * largest
    assert apart(np.sqrt(1 - np.sqrt(6) / largest)) <= np.sqrt(2) * largest


@settings(max_examples=60)
@given(data=st.data())
def test_no_weight_moves_a_moment_beyond_its_sensitivity(data: Any) -> None:
    """One record and its weight are replaced, or come and go: brute force over hostile weights,
    rows and labels, on floats and on whole numbers."""
    bound = data.draw(st.sampled_from([1.0, 3.0, 1e6, 1e-6]))
    nasty = [0.0, -0.0, 5e-324, 1e-160 * bound, 0.3 * bound, np.nextafter(bound, 0), bound]
    m, relation = 3, data.draw(st.sampled_from(["replace-one", "add-remove"]))
    entries = st.sampled_from([0.0, 1e-160, 0.1, -0.5, 1.0, -1.0, 1e9, 1e150])
    x = np.array(data.draw(st.lists(entries, min_size=8, max_size=8))).reshape(4, 2)
    y = np.array(data.draw(st.lists(entries, min_size=4, max_size=4)))
    weights = np.array(data.draw(st.lists(st.sampled_from(nasty), min_size=4, max_size=4)))
    chosen = [[0, 1, 2], [0, 1, 3] if relation == "replace-one" else [0, 1]]
    scale = data.draw(st.sampled_from([0.0, 0.7]))
    found = []
    for k in chosen:
        problem = tc.Problem(
            [(x[k], y[k])],
            loss="squared",
            on_large_rows="scale",
            public_sizes=float(m),
            weights=[weights[k]],
            weight_bound=bound,
        )
        facts, one = Facts.of(problem, relation), np.array([0])
        assert problem.constants.loss_scale == bound  # what a moment is multiplied by later
        for diagonal in (False, True):
            near = facts.moment_sensitivity(scale, 1.0)[0]
            plain = problem.store.second_moment(one, 1.0, scale, 1.0, diagonal)
            whole = problem.store.integer_second_moment(
                one, np.array([2.0**-20]), 1.0, scale, 1.0, diagonal
            )
            found.append((plain / (near * (1 + 1e-9)), whole / (near * m * 2.0**20)))
    for a, b in zip(found[:2], found[2:], strict=True):
        for one_answer, other in zip(a, b, strict=True):
            assert np.linalg.norm(one_answer - other) <= 1.0


# ---- planted bugs
@pytest.mark.parametrize("kind", KINDS)
def test_a_moment_of_rows_that_are_not_cut_is_caught(monkeypatch: Any, kind: str) -> None:
    original = DenseStore.second_moment
    monkeypatch.setattr(
        DenseStore,
        "second_moment",
        lambda self, nodes, norm, *rest: original(self, nodes, 1e9, *rest),
    )
    first, second, m = pairs("replace-one")
    assert moved(first, second, "floats", "dense", "replace-one", m, kind).max() > 1.0


def test_labels_that_are_not_cut_are_caught(monkeypatch: Any) -> None:
    original = DenseStore.second_moment
    monkeypatch.setattr(
        DenseStore,
        "second_moment",
        lambda self, nodes, norm, scale, bound, diagonal: original(
            self, nodes, norm, scale, 1e9, diagonal
        ),
    )
    first, second, m = pairs("add-remove")
    assert moved(first, second, "floats", "dense", "add-remove", m).max() > 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_sensitivity_without_the_square_is_caught(monkeypatch: Any, way: str, kind: str) -> None:
    original = Facts.moment_bound
    monkeypatch.setattr(
        Facts, "moment_bound", lambda self, *label: float(np.sqrt(original(self, *label)))
    )
    first, second, m = pairs("replace-one")
    assert moved(first, second, way, "dense", "replace-one", m, kind).max() > 1.0
