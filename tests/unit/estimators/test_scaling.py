"""Scaling of features and targets: rows are divided by one public number, and the way back is
exact."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from tacenda.errors import InputError
from tacenda.estimators.scaling import Scaling, Shortening, TargetScaling, declared_bounds


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    bounds=st.sampled_from(
        [None, "norm", (-1.0, 3.0), (0.0, 50.0), ([-1.0, 0.0, 5.0], [1.0, 0.0, 9.0])]
    ),
    norm=st.sampled_from([None, 0.1, 1.0, 7.0]),
    intercept=st.booleans(),
    single=st.booleans(),
)
def test_rows_fit_and_the_model_comes_back(
    seed: int, bounds: Any, norm: float | None, intercept: bool, single: bool
) -> None:
    """w.row = coef.x + intercept, for x as it is where nothing is shortened, else for the x of the
    map that stands before predictions too."""
    rng = np.random.default_rng(seed)
    declared = not (bounds is None or isinstance(bounds, str))
    low, high = bounds if declared else (-5.0, 5.0)
    X = rng.uniform(low, high, size=(20, 3)).astype(np.float32 if single else np.float64)
    X[0] = low  # a corner: the longest row without an intercept, and one of the longest with one
    scaling = Scaling.of(bounds, 3, norm, intercept, sparse=False)
    rows = scaling.rows(X)
    assert rows.dtype == X.dtype
    assert rows.shape == (20, 4 if intercept else 3)
    longest = np.linalg.norm(rows.astype(float), axis=1).max()
    assert longest <= 1 + (1e-6 if single else 1e-12)
    assert (not scaling.feature_map.shortens) == (declared and (norm is None or norm >= 3**0.5))
    if not scaling.feature_map.shortens and intercept:
        assert longest == pytest.approx(1.0, abs=1e-6)  # no longer than it has to be
    w = rng.standard_normal((2, rows.shape[1]))
    coef, offset = scaling.back(w)
    tolerance = 1e-4 if single else 1e-9
    mapped = scaling.feature_map(X)
    np.testing.assert_allclose(rows @ w.T, mapped @ coef.T + offset, rtol=tolerance, atol=tolerance)
    again = scaling.forth(coef, offset)
    kept = np.append(scaling.scale > 0, np.ones(int(intercept), bool))
    np.testing.assert_allclose(again[:, kept], w[:, kept], rtol=1e-9, atol=1e-9)


def test_the_public_number_follows_from_the_declaration() -> None:
    assert Scaling.of((0, 9), 8, None, True, sparse=False).row_scale == pytest.approx(3.0)
    assert Scaling.of((0, 9), 9, None, False, sparse=True).row_scale == pytest.approx(3.0)
    fixed = Scaling.of(([0, 5], [1, 5]), 2, None, True, sparse=False)
    assert fixed.row_scale == pytest.approx(2**0.5)  # a feature without room counts nothing
    norm = Scaling.of("norm", 100, 2.0, True, sparse=False)
    assert norm.row_scale == pytest.approx(5**0.5) and norm.beside == 1.0
    smaller = Scaling.of((0, 9), 8, 2.0, True, sparse=False)
    assert smaller.shortened_by == pytest.approx(2**0.5)


def test_values_outside_the_bounds_are_clipped() -> None:
    scaling = Scaling.of((0.0, 1.0), 2, None, True, sparse=False)
    inside = scaling.rows(np.array([[0.0, 1.0]]))
    outside = scaling.rows(np.array([[-40.0, 90.0]]))
    np.testing.assert_array_equal(inside, outside)
    mapped = scaling.feature_map(np.array([[-40.0, 90.0]]))
    np.testing.assert_array_equal(mapped, [[0.0, 1.0]])  # in prediction too


@pytest.mark.parametrize("norm", [None, 1.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_sparse_rows_are_those_of_the_dense_formula_and_stay_sparse(
    intercept: bool, norm: float | None
) -> None:
    X = csr_matrix(np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [4.0, -9.0, 1.0]]))
    scaling = Scaling.of(([-1, -2, 0], [4, 2, 1]), 3, norm, intercept, sparse=True)
    rows = scaling.rows(X)
    by_hand = np.array([[0, 1.0, 0], [0, 0, 0], [1.0, -1.0, 1.0]])
    if norm is not None:
        by_hand[2] /= 3**0.5
    constant = np.ones((3, 1)) if intercept else np.zeros((3, 0))
    by_hand = np.hstack([by_hand, constant])
    by_hand /= np.linalg.norm(by_hand[2])
    np.testing.assert_allclose(rows.toarray(), by_hand, rtol=1e-12)
    assert rows.nnz == 4 + 3 * intercept
    assert X[0, 1] == 2.0  # the user's matrix is not changed
    dense = Scaling.of(([-1, -2, 0], [4, 2, 1]), 3, norm, intercept, sparse=True)
    np.testing.assert_allclose(dense.rows(X.toarray()), by_hand, rtol=1e-12)
    mapped = scaling.feature_map(X)
    assert hasattr(mapped, "tocsr")
    short = 3**0.5 if scaling.feature_map.shortens else 1.0
    np.testing.assert_allclose(mapped.toarray()[2], np.array([4.0, -2.0, 1.0]) / short)


def test_the_map_travels_as_plain_values() -> None:
    X = np.random.default_rng(0).uniform(-3, 9, (30, 2))
    for bounds, norm in (("norm", 0.7), (([0, 0], [5, 6]), 0.7), (([0, 0], [5, 6]), None)):
        found = Scaling.of(bounds, 2, norm, True, sparse=False).feature_map
        assert found.shortens == (norm is not None)
        again = Shortening.from_plain(json.loads(json.dumps(found.to_plain())))
        np.testing.assert_array_equal(found(X), again(X))


def test_targets_by_hand() -> None:
    scaling = TargetScaling.of((10, 30), intercept=True)
    np.testing.assert_allclose(scaling.scaled(np.array([10, 20, 30, 99, -5])), [-1, 0, 1, 1, -1])
    through_zero = TargetScaling.of((-10, 30), intercept=False)
    np.testing.assert_allclose(through_zero.scaled(np.array([0, 30, -15])), [0, 1, -1 / 3])


@pytest.mark.parametrize("bounds", ["nrm", (1, 0), (0, np.inf), 5, ([0, 1], [1, 2]), (0, 1, 2)])
def test_bad_bounds_are_one_sentence(bounds: Any) -> None:
    with pytest.raises(InputError, match="bounds must"):
        Scaling.of(bounds, 3, 1.0, True, sparse=False)


def test_sparse_bounds_must_hold_zero() -> None:
    with pytest.raises(InputError, match="include 0"):
        Scaling.of((1, 2), 3, 1.0, True, sparse=True)


@pytest.mark.parametrize("bounds", [(1, 1), (0, np.nan), "wide", (1, 2, 3), 4])
def test_bad_target_bounds_are_one_sentence(bounds: Any) -> None:
    with pytest.raises(InputError, match="target_bounds must"):
        TargetScaling.of(bounds, intercept=True)


@pytest.mark.parametrize(
    "bounds",
    [
        (np.array([0.0, -1.0, 2.0]), np.array([1.0, 1.0, 4.0])),
        [(0, 1), (-1, 1), (2, 4)],
        {"b": (-1, 1), "a": (0, 1), "c": (2, 4)},
    ],
)
def test_bounds_can_be_written_as_pairs_or_by_column(bounds: Any) -> None:
    low, high = declared_bounds(bounds, ["a", "b", "c"])
    np.testing.assert_array_equal(low, [0.0, -1.0, 2.0])
    np.testing.assert_array_equal(high, [1.0, 1.0, 4.0])


def test_two_pairs_are_read_in_the_one_way_that_is_possible() -> None:
    low, high = declared_bounds([(18, 90), (0, 200)], ["age", "minutes"])  # not low above high
    assert (low.tolist(), high.tolist()) == ([18, 0], [90, 200])
    low, high = declared_bounds(([0, 1], [2, 3]), ["a", "b"])
    assert (low.tolist(), high.tolist()) == ([0, 1], [2, 3])
    with pytest.raises(InputError, match="or a dict"):
        declared_bounds([[0, 1], [2, 3]], ["a", "b"])


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"a": (0, 1)}, "'b'"),
        ({"a": (0, 1), "b": (0, 1), "d": (0, 1)}, "'d'"),
        ([(0, 1)], "a list of 2 pairs"),
        ((1, 0), "no low above its high"),
        ((0, np.inf), "must be finite"),
        (7, "must be a pair"),
    ],
)
def test_bounds_that_fit_no_form_are_refused(bounds: Any, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        declared_bounds(bounds, ["a", "b"])
