"""Eigenvectors that every member computes to the same bits: Jacobi's against LAPACK's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.questions.kernels.eigen import eigen


@given(seed=st.integers(0, 2**32), d=st.integers(1, 12), spread=st.floats(0, 12))
def test_it_takes_the_matrix_apart(seed: int, d: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(d, d)) * 10.0 ** (-spread * rng.random(d))[:, None]
    a = a + a.T
    values, vectors = eigen(a)
    size = np.abs(a).max()
    assert np.abs(vectors.T @ vectors - np.eye(d)).max() < 1e-13
    assert np.abs(vectors * values @ vectors.T - a).max() < 1e-13 * size
    assert np.all(np.diff(values) <= 0)
    assert np.abs(values - np.linalg.eigvalsh(a)[::-1]).max() < 1e-13 * size


def test_signs_are_fixed_and_the_input_stays() -> None:
    a = np.random.default_rng(1).normal(size=(30, 30))
    a = a @ a.T
    before = a.copy()
    values, vectors = eigen(a)
    again = eigen(a[:, :])
    assert np.array_equal(a, before)
    assert np.array_equal(values, again[0]) and np.array_equal(vectors, again[1])
    assert np.all(vectors[np.abs(vectors).argmax(axis=0), np.arange(30)] > 0)


@pytest.mark.parametrize("d", [1, 4])
def test_nothing_at_all_has_the_unit_vectors(d: int) -> None:
    values, vectors = eigen(np.zeros((d, d)))
    assert np.array_equal(values, np.zeros(d)) and np.array_equal(vectors, np.eye(d))


def test_the_smallest_numbers_do_no_harm() -> None:
    a = np.diag([1e-300, 0.0, 1.0])
    a[0, 1] = a[1, 0] = 1e-310
    values, vectors = eigen(a)
    assert np.isfinite(values).all() and np.isfinite(vectors).all()
