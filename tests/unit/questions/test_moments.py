"""Second moments as packed rows, against NumPy and against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tacenda as tc
from tacenda.errors import InputError
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_values
from tacenda.questions import moments
from tacenda.questions.blank import BlankQueries
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.moments import packed, packed_length, packed_width, unpacked
from tacenda.questions.queries import Queries

SIZES = (7, 4, 9)


def make(layout: str, p: int = 5, loss: str = "squared", **settings: Any) -> tuple[Any, list[Any]]:
    rng = np.random.default_rng(3)
    shards = []
    for m in SIZES:
        x = rng.normal(size=(m, p)) * (rng.random((m, p)) < 0.6)
        x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
        shards.append((x.astype(np.float32) if layout == "float32" else x, 3 * rng.normal(size=m)))
    given = [(sp.csr_matrix(x), y) for x, y in shards] if layout == "csr" else shards
    return tc.Problem(given, loss=loss, clip_norm=1.0, **settings), shards


def queries(problem: Any, nodes: Any = (0, 1, 2), relation: str = "replace-one") -> Queries:
    at = np.array(nodes)
    facts = Facts.of(problem, relation)
    return Queries(problem.store, problem.sizes, at, facts.rows(at), SimulatedNoise(1))


@pytest.mark.parametrize("p", [1, 2, 5])
def test_packing_keeps_the_frobenius_norm_and_comes_back(p: int) -> None:
    a = np.random.default_rng(p).normal(size=(4, p, p))
    a = a + a.transpose(0, 2, 1)
    rows = packed(a)
    assert rows.shape == (4, packed_length(p)) and packed_width(rows.shape[1]) == p
    np.testing.assert_allclose(
        np.linalg.norm(rows, axis=1), np.linalg.norm(a, axis=(1, 2)), rtol=1e-14
    )
    np.testing.assert_allclose(unpacked(rows), a, rtol=1e-15, atol=0)
    np.testing.assert_array_equal(unpacked(rows[0]), unpacked(rows)[0])
    assert np.array_equal(unpacked(rows), unpacked(rows).transpose(0, 2, 1))


def test_the_order_of_the_packed_row_by_hand() -> None:
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    two = math.sqrt(2)
    np.testing.assert_allclose(packed(a), [1, 2 * two, 3 * two, 4, 5 * two, 6])


@pytest.mark.parametrize("length", [0, 2, 4, 5, 7])
def test_a_row_of_another_length_is_no_triangle(length: int) -> None:
    with pytest.raises(InputError, match=r"p \(p \+ 1\)/2"):
        unpacked(np.zeros(length))


@pytest.mark.parametrize("layout", ["dense", "float32", "csr"])
@pytest.mark.parametrize("label", [(0.0, 1.0), (0.7, 2.0)])
def test_it_is_the_mean_of_outer_products(layout: str, label: tuple[float, float]) -> None:
    problem, shards = make(layout)
    found = unpacked(open_values(queries(problem).second_moment(*label)))
    scale, bound = label
    for k, (x, y) in enumerate(shards):
        z = x.astype(float)
        if scale:
            z = np.column_stack([z, scale * np.clip(y, -bound, bound)])
        np.testing.assert_allclose(found[k], z.T @ z / len(z), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("layout", ["dense", "float32", "csr"])
@pytest.mark.parametrize("label", [(0.0, 1.0), (0.7, 2.0)])
def test_the_diagonal_is_the_mean_of_squares(layout: str, label: tuple[float, float]) -> None:
    problem, shards = make(layout)
    found = open_values(queries(problem).second_moment(*label, diagonal=True))
    scale, bound = label
    for k, (x, y) in enumerate(shards):
        z = x.astype(float)
        if scale:
            z = np.column_stack([z, scale * np.clip(y, -bound, bound)])
        np.testing.assert_allclose(found[k], (z**2).mean(axis=0), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("layout", ["dense", "float32", "csr"])
@pytest.mark.parametrize("diagonal", [False, True])
def test_a_node_has_the_same_bits_in_every_block(layout: str, diagonal: bool) -> None:
    problem, _ = make(layout)
    together = open_values(queries(problem).second_moment(0.5, 1.0, diagonal))
    for nodes in ([2], [1, 0], [0, 2]):
        apart = open_values(queries(problem, nodes).second_moment(0.5, 1.0, diagonal))
        assert np.array_equal(apart, together[nodes])


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_whole_numbers_are_truncated_products(layout: str) -> None:
    """Against exact fractions: entry by entry, each record's product over the grid, cut toward
    zero. The cut rows are far from the sphere here, so nothing is shortened."""
    problem, shards = make(layout, data_norm=2.0)
    grid, scale, bound = 2.0**-9, 0.5, 2.0
    whole = problem.store.integer_second_moment(np.arange(3), grid, 2.0, scale, bound)
    for k, (x, y) in enumerate(shards):
        z = np.column_stack([x, scale * np.clip(y, -bound, bound)])
        for place, (a, b) in enumerate(zip(*np.triu_indices(z.shape[1]), strict=True)):
            exact = [Fraction(row[a]) * Fraction(row[b]) / Fraction(grid) for row in z]
            factor = Fraction(1) if a == b else Fraction(math.sqrt(2))
            expected = sum(math.trunc(e * factor) for e in exact)
            assert whole[k, place] == expected
    diagonal = problem.store.integer_second_moment(np.arange(3), grid, 2.0, scale, bound, True)
    ends = np.cumsum(np.r_[0, np.arange(6, 1, -1)])  # where the triangle's rows begin
    assert np.array_equal(diagonal, whole[:, ends])


def test_a_sum_of_squares_stops_at_its_top() -> None:
    problem, _ = make("dense", data_norm=2.0)
    store = problem.store
    whole = store.integer_second_moment(np.arange(3), 2.0**-58, 1.0, 0.0, 1.0, True)
    store.rows[:] = 0.0
    store.rows[:, 0], store._norms = 1.0, np.ones(len(store.rows))
    top = store.integer_second_moment(np.arange(3), 2.0**-60.5, 1.0, 0.0, 1.0, True)
    assert (whole >= 0).all() and (top[:, 0] == 2**62).all() and not top[:, 1:].any()


def test_a_grid_that_is_too_coarse_or_too_fine_is_refused() -> None:
    problem, _ = make("dense")
    ask = problem.store.integer_second_moment
    with pytest.raises(InputError, match="finer grid"):
        ask(np.arange(3), 0.5, 1.0, 0.0, 1.0)
    with pytest.raises(InputError, match="64 bits"):
        ask(np.arange(3), 2.0**-62, 1.0, 0.0, 1.0)
    with pytest.raises(InputError, match="above 0"):
        ask(np.arange(3), 0.0, 1.0, 0.0, 1.0)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_classes_have_a_place_each(layout: str) -> None:
    rng = np.random.default_rng(0)
    shards = [(rng.normal(size=(m, 3)) / 9, rng.integers(0, 3, m)) for m in SIZES]
    given = [(sp.csr_matrix(x), y) for x, y in shards] if layout == "csr" else shards
    problem = tc.Problem(given, loss="multinomial", classes=(0, 1, 2))
    asked = queries(problem)
    assert asked.second_moment(0.0, 1.0).shape == (3, 6)
    z = [np.hstack([x, 0.4 * np.eye(3)[y]]) for x, y in shards]
    exact = np.array([one.T @ one / len(one) for one in z])
    # The bound of a number says nothing of classes
    for bound in (1.0, 0.5):
        found = open_values(asked.second_moment(0.4, bound))
        np.testing.assert_allclose(unpacked(found), exact, rtol=1e-12, atol=1e-15)
    whole = problem.store.integer_second_moment(np.arange(3), 2.0**-30, 1.0, 0.4, 1.0)
    sizes = np.array(SIZES)[:, None, None]
    np.testing.assert_allclose(unpacked(whole * 2.0**-30), sizes * exact, atol=30 * 2.0**-30)
    blank = BlankQueries(asked.facts, full=True).second_moment(0.4, 1.0)
    assert blank.shape == (3, 21)


def test_a_table_that_does_not_fit_is_refused_from_public_numbers(monkeypatch: Any) -> None:
    problem, _ = make("dense")
    asked = queries(problem)
    monkeypatch.setattr(moments, "MOST_BYTES", 8 * 3 * 15 - 1)
    with pytest.raises(InputError, match="second moment of 5 features would need"):
        asked.second_moment(0.0, 1.0)
    with pytest.raises(InputError, match="mapped to 3 dense columns would need"):
        asked.mapped(RecordMap(np.eye(5, 3), 1.0))
    monkeypatch.setattr(moments, "MOST_BYTES", 8 * 20 * 3)
    assert asked.mapped(RecordMap(np.eye(5, 3), 1.0)).facts.dim == 3
    assert asked.mapped(RecordMap(np.ones(5), 1.0)).facts.dim == 5  # as large as what is there
    monkeypatch.setattr(moments, "MOST_BYTES", 8 * 3 * 5)
    assert asked.second_moment(0.0, 1.0, diagonal=True).shape == (3, 5)
    with pytest.raises(InputError, match="second moment of 5 features would need"):
        asked.second_moment(1.0, 1.0, diagonal=True)


def test_blank_records_answer_with_the_true_sensitivity() -> None:
    problem, _ = make("dense")
    real = queries(problem)
    for full, diagonal, length in (
        (False, False, 3),
        (True, False, 21),
        (False, True, 2),
        (True, True, 6),
    ):
        blank = BlankQueries(real.facts, full).second_moment(0.5, 2.0, diagonal)
        asked = real.second_moment(0.5, 2.0, diagonal)
        assert blank.shape == (3, length) and asked.shape == (3, 6 if diagonal else 21)
        assert np.array_equal(blank.sensitivity, asked.sensitivity)


def test_facts_know_the_networks_smallest_node_in_every_block() -> None:
    problem, _ = make("dense", data_norm=1.5, loss_scale=2.0)
    facts = Facts.of(problem)
    assert facts.smallest == 4 and facts.rows(np.array([2])).smallest == 4
    assert facts.rows(np.array([0, 2])).rows(np.array([0])).smallest == 4
    for part in (facts, facts.rows(np.array([2]))):
        assert part.worst_gradient_sensitivity == facts.gradient_sensitivity()[1] == 2 * 2 / 4
        assert part.worst_moment_sensitivity() == facts.moment_sensitivity()[1]
        assert part.smoothness == 2.0 * 1.5**2
