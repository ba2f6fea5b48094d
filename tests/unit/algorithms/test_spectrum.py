"""What a released spectrum decides: against simulation, and what holds for every spectrum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda.algorithms.spectrum import FLOOR, LONGEST, decide, descend, edge_of, records_moment
from tacenda.questions.constants import Constants

LOGISTIC = Constants.declared(loss="logistic", strength=1e-4)
BARE = Constants.declared(loss="logistic", strength=0.0)


def noise(rng, d, std):
    """Symmetric, with that std on the diagonal and std/sqrt(2) beside it."""
    half = np.triu(rng.normal(size=(d, d)) * std / math.sqrt(2), 1)
    return half + half.T + np.diag(rng.normal(size=d) * std)


def test_the_edge_is_the_largest_eigenvalue_of_noise():
    rng = np.random.default_rng(0)
    top = np.mean([np.linalg.eigvalsh(noise(rng, 300, 0.01))[-1] for _ in range(5)])
    assert top == pytest.approx(edge_of(300, 0.01), rel=0.03)


def test_the_edge_of_a_diagonal_is_the_largest_of_its_noises():
    rng = np.random.default_rng(0)
    top = np.mean([rng.normal(size=3000).max() for _ in range(50)])
    assert top == pytest.approx(edge_of(3000, 1.0, diagonal=True), rel=0.15)
    assert edge_of(1, 0.5, diagonal=True) == 0.5


def test_a_feature_that_stands_out_has_the_mean_square_that_is_found():
    rng, d, std = np.random.default_rng(1), 2000, 1e-4
    true = np.r_[0.3, 0.2, np.full(d - 2, 0.5 / (d - 2))]
    told = records_moment(true + std * rng.normal(size=d), std, 1.0, diagonal=True)
    assert told[:2] == pytest.approx(true[:2], rel=5e-3)
    assert told.sum() == pytest.approx(1.0, rel=0.1)


def test_of_a_diagonal_all_of_a_row_may_lie_in_one_direction():
    e = np.array([0.4, 0.1, 0.01])
    alone = decide(e, 1e-3, 2.0, 20, BARE, diagonal=True)
    assert alone.smoothness == pytest.approx(BARE.loss.curvature * 0.25)
    assert alone.smoothness >= decide(e, 1e-3, 2.0, 20, BARE).smoothness


@pytest.mark.parametrize("spike", [0.12, 0.2, 0.5])
def test_a_direction_that_stands_out_has_the_variance_that_the_records_have_there(spike):
    rng, d, std = np.random.default_rng(1), 300, 0.004
    true = np.zeros((d, d))
    true[0, 0] = spike
    told, found = [], []
    for _ in range(8):
        values, vectors = np.linalg.eigh(true + noise(rng, d, std))
        told.append(records_moment(values[::-1], std, 1.0)[0])
        found.append(vectors[:, -1] @ true @ vectors[:, -1])
    assert np.mean(told) == pytest.approx(np.mean(found), rel=0.05)


def test_the_hidden_directions_share_the_rest_of_the_trace():
    rng, d, std = np.random.default_rng(2), 200, 0.002
    true = np.diag(np.r_[0.5, np.full(d - 1, 0.5 / (d - 1))])
    values = np.linalg.eigvalsh(true + noise(rng, d, std))[::-1]
    told = records_moment(values, std, 1.0)
    assert told.sum() == pytest.approx(1.0, rel=0.1)
    assert told[-1] == pytest.approx(0.5 / (d - 1), rel=0.2)


@pytest.mark.parametrize("tail", [0.25, 0.5, 1.0])
def test_the_forecast_of_a_descent_is_that_of_the_recursion(tail):
    """The same by a plain loop: without noise, and by the sum over single noises."""
    h, ridge, eta, rounds = np.array([0.3, 0.05, 1.2]), np.array([0.01, 0.2, 0.0]), 1.1, 9
    averaged = max(1, round(tail * rounds))

    def average(force, kicks):
        v, total = np.zeros(3), np.zeros(3)
        for t in range(rounds):
            v = (v - eta * (h * v - force) - eta * kicks[t]) / (1 + eta * ridge)
            total += v if t >= rounds - averaged else 0.0
        return total / averaged

    left, spread = descend(h, ridge, eta, rounds, tail)
    quiet = np.zeros((rounds, 3))
    assert left == pytest.approx((1.0 - average(h, quiet)) ** 2)
    single = [
        average(0.0, np.where(np.arange(rounds)[:, None] == j, 1.0, 0.0) + quiet) ** 2
        for j in range(rounds)
    ]
    assert spread == pytest.approx(np.sum(single, axis=0))


anything = st.lists(
    st.floats(-1e300, 1e300) | st.sampled_from([0.0, math.nan, math.inf, -math.inf, 5e-324]),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(
    anything,
    st.sampled_from([0.0, 1e-300, 1e-9, 1e-3, 1.0, 1e6]),
    st.sampled_from([1e-3, 2.0, 1e3]),
    st.sampled_from([1, 2, 20]),
)
def test_any_spectrum_gives_finite_settings_and_the_same_ones_again(values, std, weight, rounds):
    e = np.array(values)
    found = decide(e, std, weight, rounds, LOGISTIC)
    numbers = [found.floor, found.scale, found.step, found.smoothness]
    assert all(math.isfinite(v) and v > 0 for v in numbers)
    assert found.clip is None or (math.isfinite(found.clip) and found.clip > 0)
    assert found.step <= LONGEST
    assert np.isfinite([found.left_undone, found.noise_risk]).all()
    assert found == decide(e.copy(), std, weight, rounds, LOGISTIC)


def falling(d=40):
    e = np.arange(1, d + 1) ** -1.0
    return e / e.sum()


def test_the_unit_of_the_records_does_not_matter():
    one = decide(falling(), 1e-3, 2.0, 20, BARE)
    for norm in (0.01, 30.0):
        k = Constants.declared(loss="logistic", strength=0.0, data_norm=norm)
        other = decide(falling() * norm**2, 1e-3 * norm**2, 2.0, 20, k)
        assert other.floor == pytest.approx(one.floor * norm**2)
        assert (other.scale, other.clip) == pytest.approx((one.scale, one.clip))
        assert other.step / other.smoothness == pytest.approx(one.step / one.smoothness)


def test_more_noise_shortens_the_descent_and_clips_no_less():
    found = [decide(falling(), std, 2.0, 20, LOGISTIC) for std in 10.0 ** np.arange(-7, 1)]
    # The largest is the bound of a gradient, which noise moves in the fifth digit
    clips = [round(f.clip, 3) for f in found if f.clip is not None]
    assert clips[:6] == sorted(clips[:6], reverse=True) and clips[0] > clips[5]
    risks = [f.left_undone + f.noise_risk + f.bent for f in found]
    assert risks == sorted(risks)
    assert found[-1].step < 1e-2 * found[0].step
    assert [f.seen for f in found] == sorted((f.seen for f in found), reverse=True)
    for f, std in zip(found[2:], 10.0 ** np.arange(-5, 1), strict=True):
        assert f.floor == pytest.approx(FLOOR * edge_of(40, std))


def test_the_forecast_noise_is_that_of_the_budget():
    """The same gradient noise from both relations, by the sensitivities of moment and gradient."""
    replace = decide(falling(), 1e-3, 2.0, 20, LOGISTIC, clip=0.3)
    add = decide(falling(), 1e-3, 2.0, 20, LOGISTIC, "add-remove", clip=0.3)
    # std = sqrt(2) B^2/(m z') against B^2/(m z'): at one std the gradient's 2/m z and 1/m z differ
    # by sqrt(2), and so its variance by 2 at one step
    assert replace.left_undone >= add.left_undone
    same = decide(falling(), 1e-3, 1.0, 20, LOGISTIC, clip=0.3)
    assert (same.step, same.scale) == (add.step, add.scale)
    assert same.noise_risk == pytest.approx(add.noise_risk)


@pytest.mark.parametrize("loss", ["squared", "huber", "smoothed-hinge", "multinomial", "hinge"])
def test_every_loss_has_a_setting(loss):
    k = Constants.declared(
        loss=loss, strength=1e-3, clip_norm=2.0 if loss == "squared" else None, classes=5
    )
    found = decide(falling(), 1e-3, 2.0, 20, k)
    assert found.clip is not None and 0 < found.clip <= 2.0 and 0 < found.step <= LONGEST


def test_without_noise_nothing_is_clipped_and_a_given_clip_is_kept():
    assert decide(falling(), 0.0, 2.0, 20, LOGISTIC).clip is None
    assert decide(falling(), 0.0, 2.0, 20, LOGISTIC, clip=0.25).clip == 0.25
    assert decide(falling(), 1e-3, 2.0, 20, LOGISTIC, clip=0.25).clip == 0.25
    unbounded = Constants.declared(loss="squared")
    assert decide(falling(), 0.0, 2.0, 20, unbounded).clip is None
