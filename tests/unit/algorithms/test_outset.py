"""Where a descent begins, against least squares by NumPy, and what noise alone does to it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import losses
from tacenda.algorithms.outset import FLATTEST, LEAST, LONGEST, flatter, outset, takes_labels


def moments(x: Any, y: Any) -> tuple[Any, Any, Any]:
    e, vectors = np.linalg.eigh(x.T @ x / len(x))
    return vectors, e, x.T @ y.reshape(len(y), -1) / len(x)


def test_without_noise_it_is_the_least_squares_line_for_the_labels() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(300, 3)), np.full(300, 0.5)])
    y = np.where(rng.random(300) < 1 / (1 + np.exp(2 - 2 * x[:, 0])), 1.0, -1.0)
    line, *_ = np.linalg.lstsq(x, y)
    share = np.mean((x @ line) ** 2)
    found = outset(*moments(x, y), 0.0)
    assert found.unexplained == pytest.approx(1 - share)
    r = math.sqrt(share)
    assert found.start == pytest.approx(line * math.log((1 + r) / (1 - r)) / r)


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5, 0.97])
def test_where_only_the_mean_is_to_be_learnt_it_has_the_log_odds(rate: float) -> None:
    y = np.where(np.arange(1000) < 1000 * rate, 1.0, -1.0)
    x = np.full((1000, 1), 0.7)
    found = outset(*moments(x, y), 0.0)
    assert (x @ found.start)[0] == pytest.approx(math.log(rate / (1 - rate)), abs=1e-9)
    assert found.unexplained == pytest.approx(4 * rate * (1 - rate))


@pytest.mark.parametrize(
    ("shares", "longer"),
    [
        ((0.9, 0.05, 0.05), (1, 1, 1)),
        ((0.5, 0.3, 0.18, 0.02), (1, 1, (0.21 + 0.1476) / 2 / 0.1476, (0.21 + 0.1476) / 0.0392)),
        ((0.4, 0.4, 0.195, 0.005), (1, 1, 0.198487 / 0.156975, 10)),
        ((0.5, 0.5), (1, 1)),
    ],
)
def test_a_rare_class_gets_longer_steps(shares: Any, longer: Any) -> None:
    """By its share times the rest, over that of the middle class; the constant may be spread over
    the columns in any way."""
    k, n = len(shares), 1000
    y = np.repeat(np.eye(k), [round(n * s) for s in shares], axis=0)
    x = np.random.default_rng(2).normal(size=(n, 3))
    x[:, 2] = 0.5 + 0.3 * x[:, 0]
    found = outset(*moments(x, y), 0.0)
    assert found.longer == pytest.approx(longer, rel=1e-5)
    assert not found.start.any() and found.start.shape == (3 * k,)
    alone = outset(*moments(np.full((n, 1), 0.7), y), 0.0)
    squares = math.fsum(s * s for s in shares)
    assert alone.unexplained == pytest.approx((1 - squares) / (1 - 1 / k))


def test_a_share_below_its_noise_counts_as_the_noise() -> None:
    """No step is longer than what is known of the class allows; without a constant none is."""
    shares = np.array([0.5, 0.3, 0.199, 0.001])
    of = np.eye(1), np.full(1, 0.49), 0.7 * shares[None]
    steps = [outset(*of, std).longer[3] for std in (0.0, 0.02, 0.05, 0.5)]
    wanted = [10.0]
    for std in (0.02, 0.05):
        clear = 1 - 9 * 4 * std**2 / 0.49  # the constant is told less clearly, and so are shares
        second, third, last = 0.3 * clear, 0.199 * clear, std * clear / 0.7
        middle = (second * (1 - second) + third * (1 - third)) / 2
        wanted.append(middle / (last * (1 - last)))
    assert steps[:3] == pytest.approx(wanted)
    assert 1 < steps[2] < steps[1] < 10 and steps[3] == 1
    assert np.all(outset(np.eye(1), np.full(1, 0.49), 0.1 * shares[None], 0.0).longer == 1)


def test_noise_alone_is_no_start() -> None:
    """Nor does it make a step longer, but in one of many tries."""
    rng = np.random.default_rng(1)
    vectors, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    found = [outset(vectors, np.full(12, 0.05), rng.normal(size=(12, 1)), 1.0) for _ in range(300)]
    moved = [one.start.any() for one in found]
    assert np.mean(moved) < 1 - 0.997**12 + 0.05  # nine variances: three in a thousand
    assert min(one.unexplained for one in found) == 1.0


@given(
    seed=st.integers(0, 500),
    d=st.integers(1, 6),
    k=st.integers(1, 4),
    std=st.sampled_from([0.0, 1e-9, 1e-2, 1.0]),
    size=st.sampled_from([0.0, 1e-200, 1e-3, 1.0, 1e9]),
)
@settings(max_examples=60)
def test_whatever_was_released_it_is_finite(
    seed: int, d: int, k: int, std: float, size: float
) -> None:
    rng = np.random.default_rng(seed)
    vectors, _ = np.linalg.qr(rng.normal(size=(d, d)))
    found = outset(vectors, 10.0 ** rng.uniform(-9, 0, d), size * rng.normal(size=(d, k)), std)
    assert np.isfinite(found.start).all()
    assert LEAST <= found.unexplained <= 1.0
    assert found.longer.shape == (k,) and np.all((found.longer >= 1) & (found.longer <= LONGEST))


def test_a_louder_release_never_explains_more() -> None:
    vectors, variance, b = np.eye(2), np.array([0.3, 0.1]), np.array([[-0.4], [0.05]])
    left = [outset(vectors, variance, b, std).unexplained for std in (0.0, 1e-3, 1e-2, 0.1, 1.0)]
    assert left == sorted(left) and left[0] < 0.5 and left[-1] == 1.0


@pytest.mark.parametrize(
    ("name", "takes"),
    [("logistic", True), ("hinge", False), ("squared", False), ("multinomial", True)],
)
def test_which_losses_have_such_labels(name: str, takes: bool) -> None:
    assert takes_labels(losses.by_name(name)) is takes


def planned(mean: float, spread: float, typical: float = 1.0, noise: float = 0.0) -> float:
    """`flatter` of scores that are normal, in axes that are turned against the features."""
    variance = np.array([spread**2, 1.0])  # of a feature, and of the constant
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    moment = turn @ np.diag(variance) @ turn.T
    e, axes = np.linalg.eigh(moment)
    model, constant = axes.T @ turn @ [1.0, mean], axes.T @ turn @ [0.0, 1.0]
    return flatter(typical, model, constant, e, np.full(2, noise))


@pytest.mark.parametrize("typical", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(("mean", "spread"), [(-1.7, 0.0), (-3.0, 1.1), (-2.0, 0.4), (0.5, 0.2)])
def test_counts_bend_less_by_their_mean_rate(mean: float, spread: float, typical: float) -> None:
    """The rate by quadrature; the step's factor is the next power of sqrt(2) below, at most 1."""
    at, weights = np.polynomial.hermite_e.hermegauss(60)
    rate = float(weights @ np.exp(mean + spread * at)) / math.sqrt(2 * math.pi)
    found = planned(mean, spread, typical)
    if rate >= typical:
        assert found == 1.0
    else:
        assert found <= rate / typical < found * math.sqrt(2)
        assert math.log2(found**2) == pytest.approx(round(math.log2(found**2)))


def test_steps_lengthen_no_further_than_the_noise_allows() -> None:
    assert planned(-40.0, 0.0) == 2.0 ** (FLATTEST / 2)
    quiet = [planned(-3.0, 0.0, noise=noise) for noise in (0.0, 0.03, 0.05, 0.1, 0.3)]
    assert quiet[0] == quiet[1] < quiet[2] < quiet[3] < quiet[4] == 1.0
