"""Scaling of features and targets: rows stay inside data_norm, and the way back is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from tacenda.errors import InputError
from tacenda.estimators.scaling import Scaling, TargetScaling


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    bounds=st.sampled_from(
        [None, "norm", (-1.0, 3.0), (0.0, 50.0), ([-1.0, 0.0, 5.0], [1.0, 0.0, 9.0])]
    ),
    norm=st.sampled_from([0.1, 1.0, 7.0]),
    intercept=st.booleans(),
    single=st.booleans(),
)
def test_rows_fit_and_the_model_comes_back(
    seed: int, bounds: Any, norm: float, intercept: bool, single: bool
) -> None:
    """For records inside the bounds, w.row = k (coef.x + intercept): the same sign, whatever the
    row's length was."""
    rng = np.random.default_rng(seed)
    low, high = (-5.0, 5.0) if bounds is None or isinstance(bounds, str) else bounds
    X = rng.uniform(low, high, size=(20, 3)).astype(np.float32 if single else np.float64)
    scaling = Scaling.of(bounds, 3, norm, intercept, sparse=False)
    rows, k = scaling.rows(X)
    assert rows.dtype == X.dtype
    assert rows.shape == (20, 4 if intercept else 3)
    assert np.linalg.norm(rows.astype(float), axis=1).max() <= norm
    assert np.all((k > 0) & (k <= 1))
    w = rng.standard_normal((2, rows.shape[1]))
    coef, offset = scaling.back(w)
    tolerance = 1e-4 if single else 1e-9
    np.testing.assert_allclose(
        rows @ w.T, k[:, None] * (X @ coef.T + offset), rtol=tolerance, atol=tolerance * norm
    )


def test_values_outside_the_bounds_are_clipped() -> None:
    scaling = Scaling.of((0.0, 1.0), 2, 1.0, True, sparse=False)
    inside, _ = scaling.rows(np.array([[0.0, 1.0]]))
    outside, _ = scaling.rows(np.array([[-40.0, 90.0]]))
    np.testing.assert_array_equal(inside, outside)


@pytest.mark.parametrize("intercept", [True, False])
def test_sparse_rows_are_those_of_the_dense_formula_and_stay_sparse(intercept: bool) -> None:
    X = csr_matrix(np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [4.0, -9.0, 1.0]]))
    scaling = Scaling.of(([-1, -2, 0], [4, 2, 1]), 3, 1.0, intercept, sparse=True)
    rows, k = scaling.rows(X)
    constant = [0.5] if intercept else []
    by_hand = np.array([[0, 1.0, 0, *constant], [0, 0, 0, *constant], [1.0, -1.0, 1.0, *constant]])
    lengths = np.linalg.norm(by_hand, axis=1)
    np.testing.assert_allclose(
        rows.toarray(), by_hand / np.maximum(1.0, lengths)[:, None], rtol=1e-6
    )
    assert rows.nnz == 4 + 3 * len(constant)
    np.testing.assert_allclose(k, np.minimum(1, 1 / np.maximum(lengths, 1e-9)), rtol=1e-6)
    assert X[0, 1] == 2.0  # the user's matrix is not changed


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
