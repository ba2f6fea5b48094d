"""Generated sets: their declared truth, checked by measuring."""

import tracemalloc

import numpy as np
import pytest

from tacenda import data
from tacenda.errors import InputError


@pytest.mark.parametrize(("classes", "difficulty"), [(2, 0.0), (2, 0.4), (4, 0.3), (2, 1.0)])
def test_the_true_rule_has_the_promised_accuracy(classes, difficulty):
    d = data.make_classification(20_000, 6, difficulty, seed=1, classes=classes)
    w = d.truth.reshape(-1, 6)
    scores = d.X @ w.T
    guess = (scores[:, 0] > 0) if classes == 2 else scores.argmax(axis=1)
    assert np.mean(guess == d.y) == pytest.approx(1 - difficulty * (1 - 1 / classes), abs=0.012)
    assert np.linalg.norm(d.X, axis=1).max() <= 1 + 1e-12
    assert d.classes == tuple(map(str, range(classes))) and d.y.dtype == np.int64


def test_sparse_regression_is_the_papers():
    d = data.make_sparse_regression()
    assert d.X.shape == (2500, 8) and d.classes is None and d.norm is None
    assert np.bincount(d.nodes).tolist() == [50] * 50
    assert np.var(d.y - d.X @ d.truth) == pytest.approx(0.1, rel=0.1)
    assert d.X.mean() == pytest.approx(0, abs=0.03) and d.X.std() == pytest.approx(1, abs=0.03)
    assert np.count_nonzero(data.make_sparse_regression(nonzero=3).truth) == 3


def test_epsilon_like_is_unit_float32_with_the_promised_accuracy():
    d = data.make_epsilon_like(6000, 100, seed=2)
    assert d.X.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(d.X.astype(np.float64), axis=1), 1, atol=1e-6)
    assert np.mean((d.X @ d.truth > 0) == d.y) == pytest.approx(0.9, abs=0.015)


def test_epsilon_like_holds_no_second_copy():
    tracemalloc.start()
    d = data.make_epsilon_like(15_000, 2000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * d.X.nbytes


def test_seeds():
    for make in (
        data.make_classification,
        data.make_sparse_regression,
        lambda seed: data.make_epsilon_like(50, 8, seed),
    ):
        assert (make(seed=3).X == make(seed=3).X).all() and (make(seed=3).X != make(seed=4).X).any()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: data.make_classification(0), "n must be at least 1"),
        (lambda: data.make_classification(difficulty=1.2), "difficulty must be between"),
        (lambda: data.make_sparse_regression(nonzero=9), "nonzero must be at most"),
        (lambda: data.make_epsilon_like(5, accuracy=0.4), "accuracy must be strictly between"),
    ],
)
def test_errors(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("spectrum", [0.0, 1.0])
def test_the_energy_of_epsilon_like_rows_falls_as_declared(spectrum):
    d = data.make_epsilon_like(20_000, 40, seed=3, spectrum=spectrum)
    np.testing.assert_allclose(np.linalg.norm(d.X, axis=1), 1.0, atol=1e-5)
    energy = np.mean(d.X.astype(float) ** 2, axis=0)
    slope = np.polyfit(np.log(np.arange(5, 41)), np.log(energy[4:]), 1)[0]
    # Scaling rows to norm 1 flattens the few first directions alone
    assert slope == pytest.approx(-spectrum, abs=0.05)
    right = np.mean((d.X @ d.truth > 0) == (d.y == 1))
    assert right == pytest.approx(0.9, abs=0.01)
