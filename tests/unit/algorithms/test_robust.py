"""The rule that joins the means of groups, against independent minimisers and counted alarms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from tacenda.algorithms.robust import Apart, cut, joined, left_out, noise_factor

SEEDS = st.integers(0, 10_000)


def cost(y: np.ndarray, means: np.ndarray, weights: np.ndarray) -> float:
    return float(np.sum(weights * np.linalg.norm(means - y, axis=1)))


@given(SEEDS, st.integers(3, 7), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_the_geometric_median_is_the_minimum(seed: int, count: int, width: int) -> None:
    """By a general minimiser from several starts, the points themselves among them."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(count, width)) * 10.0 ** rng.integers(-3, 4)
    weights = rng.integers(1, 6, count) / 10.0
    weights /= weights.sum()
    found = cost(joined(means, weights), means, weights)
    starts = [*means, means.mean(axis=0)]
    best = min(
        min(cost(s, means, weights), minimize(cost, s, (means, weights), "Nelder-Mead").fun)
        for s in starts
    )
    assert found <= best * (1 + 1e-6)


def test_of_two_groups_it_is_the_mean_and_half_of_the_weight_decides() -> None:
    means = np.array([[1.0, 0.0], [3.0, 2.0]])
    np.testing.assert_allclose(joined(means, np.array([0.25, 0.75])), [2.5, 1.5])
    same = np.array([[1.0, 2.0], [1.0, 2.0], [1e9, -1e9], [7.0, 7.0]])
    np.testing.assert_array_equal(joined(same, np.full(4, 0.25)), [1.0, 2.0])
    np.testing.assert_array_equal(joined(np.zeros((3, 2)), np.full(3, 1 / 3)), [0.0, 0.0])


@given(SEEDS, st.sampled_from([1e-12, 1.0, 1e15, 1e150]))
@settings(max_examples=40, deadline=None)
def test_one_of_four_moves_it_no_further_than_the_others_lie(seed: int, size: float) -> None:
    """Lopuhaa and Rousseeuw: with a share e of the weight it moves at most 2 (1 - e)/(1 - 2 e)
    times the radius of the others."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(size=(3, 5))
    lie = rng.normal(size=5)
    found = joined(np.vstack([honest, size * lie]), np.full(4, 0.25))
    centre = honest.mean(axis=0)
    radius = float(np.linalg.norm(honest - centre, axis=1).max())
    assert np.linalg.norm(found - centre) <= 2 * 0.75 / 0.5 * radius


@pytest.mark.parametrize("power", [-600, -1, 700])
def test_the_median_does_not_depend_on_the_unit(power: int) -> None:
    """Where squares would overflow or vanish, too: all numbers times a power of two."""
    rng = np.random.default_rng(4)
    means, weights = rng.normal(size=(5, 3)), np.full(5, 0.2)
    np.testing.assert_array_equal(
        joined(np.ldexp(means, power), weights), np.ldexp(joined(means, weights), power)
    )


@pytest.mark.parametrize("power", [-100, 0, 100])
def test_short_and_long_means_are_cut_alike(power: int) -> None:
    means = np.ldexp(np.random.default_rng(4).normal(size=(5, 3)), power)
    found = cut(means, np.full(5, math.ldexp(0.01, power)), math.ldexp(0.5, power))
    longest = math.ldexp(0.5 + 0.01 * (math.sqrt(3) + math.sqrt(2 * 20 * math.log(2))), power)
    lengths = np.linalg.norm(means, axis=1)
    assert (lengths > longest).any()
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.minimum(lengths, longest))


def test_means_are_cut_at_the_bound_plus_the_reach_of_their_noise() -> None:
    rng, width, std = np.random.default_rng(0), 30, 0.4
    honest = rng.normal(size=(20_000, width)) * std
    honest += np.eye(width)[0] * 2.0
    np.testing.assert_array_equal(cut(honest, np.full(20_000, std), 2.0), honest)
    far = cut(np.full((2, width), 1e30), np.array([std, 0.0]), 2.0)
    reach = std * (math.sqrt(width) + math.sqrt(2 * 20 * math.log(2)))
    np.testing.assert_allclose(np.linalg.norm(far, axis=1), [2.0 + reach, 2.0])


@pytest.mark.parametrize("width", [1, 2, 3, 10])
def test_the_noise_of_the_median_of_many_groups(width: int) -> None:
    rng, groups = np.random.default_rng(width), 40
    weights = np.full(groups, 1 / groups)
    found = np.array([joined(rng.normal(size=(groups, width)), weights) for _ in range(400)])
    measured = math.sqrt(float((found**2).mean()) * groups)
    assert measured == pytest.approx(noise_factor(groups, width), rel=0.1)
    assert noise_factor(2, width) == 1.0


def runs(shift: float, sites: float, count: int, seed: int = 0) -> list[list[int]]:
    """What is said after 20 releases of 12 numbers in 4 groups. sites: how far their true means
    lie, shift: how far the last one is moved, in standard deviations of the noise."""
    rng, said = np.random.default_rng(seed), []
    for _ in range(count):
        apart, truth = Apart.of(4), sites * rng.normal(size=(4, 12))
        truth[3, 0] += shift
        for _ in range(20):
            apart.add(truth + rng.normal(size=(4, 12)), np.ones(4))
        said.append(apart.differing())
    return said


def test_alike_groups_are_not_named_and_a_moved_one_is() -> None:
    assert not any(runs(0.0, 0.0, 500))
    assert sum(bool(found) for found in runs(0.0, 1.0, 500)) <= 5  # sites that truly differ
    assert runs(6.0, 0.0, 100) == [[3]] * 100
    assert runs(30.0, 1.0, 100) == [[3]] * 100


@given(st.integers(2, 7), st.integers(1, 400), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_from_where_on_a_group_is_named_by_hand(groups: int, width: int, releases: int) -> None:
    """The others are as far from each other as noise makes them: named beyond the reach of a sum
    of squares (Laurent and Massart) at 2^-20, over all pairs, releases and both ways to look."""
    tail = 20 * math.log(2) + math.log(2 * groups**2 * releases**2)
    entries = float(width * releases)
    reach = 2 * math.sqrt(entries * tail) + 2 * tail
    for excess, named in ((0.999 * reach, False), (1.001 * reach, True)):
        apart = Apart.of(groups)
        away = np.full((groups, groups), entries)
        away[0] = away[:, 0] = entries + excess
        np.fill_diagonal(away, 0.0)
        apart.squares, apart.entries, apart.count = away, entries, float(releases)
        apart.sums = np.zeros((groups, width))
        first = [0] if groups > 2 else [0, 1]
        assert apart.differing() == (first if named else [])


def test_what_is_left_out() -> None:
    """Never half of the weight, and none of two, of whom nobody knows which one lies."""
    rng, apart = np.random.default_rng(1), Apart.of(3)
    means = rng.normal(size=(3, 9))
    means[0] += 40.0
    apart.add(means, np.ones(3))
    assert apart.differing() == [0]
    assert left_out(apart, np.array([0.3, 0.4, 0.3])) == [0]
    assert left_out(apart, np.array([0.6, 0.2, 0.2])) == []
    two = Apart.of(2)
    two.add(means[:2], np.ones(2))
    assert two.differing() == [0, 1]
    assert left_out(two, np.array([0.1, 0.9])) == []


def test_it_goes_on_from_a_checkpoint() -> None:
    rng, one, other = np.random.default_rng(2), Apart.of(4), Apart.of(4)
    for width in (20, 5, 5, 5):
        means = rng.normal(size=(4, width))
        one.add(means, np.ones(4))
        again = Apart.of(4)
        again.go_to(other.to_arrays())
        again.add(means, np.ones(4))
        other = again
    for name, values in one.to_arrays().items():
        np.testing.assert_array_equal(values, other.to_arrays()[name])
