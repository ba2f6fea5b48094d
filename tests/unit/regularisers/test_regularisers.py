"""Regularisers and constants: brute force against formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tacenda import losses, regularisers
from tacenda.errors import InputError
from tacenda.questions.constants import Constants

ALL = [
    regularisers.NoRegulariser(),
    regularisers.L2(),
    regularisers.L1(),
    regularisers.ElasticNet(0.3),
]
W = np.array([[0.5, -2.0, 0.0], [3.0, 1.0, -0.25]])


def test_values_by_hand():
    values = {
        "none": [0, 0],
        "l2": [2.125, 5.03125],
        "l1": [2.5, 4.25],
        "elastic-net": [2.2375, 4.796875],
    }
    for reg in ALL:
        np.testing.assert_allclose(reg.value(W), values[reg.name], rtol=1e-15)
        assert reg.value(W[0]) == pytest.approx(values[reg.name][0])
    np.testing.assert_allclose(regularisers.ElasticNet(0.3).gradient(W[0]), [0.65, -1.7, 0.0])


@pytest.mark.parametrize("reg", ALL, ids=lambda reg: reg.name)
def test_prox_minimises(reg):
    steps = np.array([[0.7], [1.9]])
    got = reg.prox(W, steps)
    for row in range(2):
        for a in range(3):

            def cost(v, row=row, a=a):
                return steps[row, 0] * float(reg.value(np.array([v]))) + 0.5 * (v - W[row, a]) ** 2

            best = minimize_scalar(cost, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10})
            assert cost(got[row, a]) <= best.fun + 1e-15
    np.testing.assert_allclose(reg.prox(W[0], 0.7), got[0])


@pytest.mark.parametrize("reg", ALL, ids=lambda reg: reg.name)
def test_gradient_is_a_subgradient_with_the_declared_strong_convexity(reg):
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    linear = reg.value(v) + (reg.gradient(v) * (u - v)).sum(axis=1)
    gap = reg.value(u) - linear - 0.5 * reg.strong_convexity * ((u - v) ** 2).sum(axis=1)
    assert gap.min() >= -1e-12
    assert reg.smooth == (reg.l1 == 0)


def test_names():
    assert regularisers.by_name(None) == regularisers.NoRegulariser()
    assert regularisers.by_name("elastic_net") == regularisers.ElasticNet(0.5)
    with pytest.raises(InputError, match="Did you mean 'l2'|must be one of"):
        regularisers.by_name("L22")
    with pytest.raises(InputError, match=r"write L1\(\)"):
        regularisers.by_name(regularisers.L1)
    with pytest.raises(InputError, match="l1_ratio must be between 0 and 1"):
        regularisers.ElasticNet(1.5)


def make(loss, **more):
    return Constants(
        loss, more.pop("reg", regularisers.L2()), 0.1, 2.0, more.pop("data_norm", 3.0), **more
    )


def test_constants_by_hand():
    logistic = make(losses.Logistic())
    assert (logistic.gradient_bound, logistic.curvature_trace, logistic.strong_convexity) == (
        3.0,
        2.25,
        0.1,
    )
    assert logistic.smoothness == pytest.approx(2.0 * 0.25 * 9 + 0.1)
    assert float(logistic.log_curvature(100, 0.5)) == pytest.approx(
        math.log(1 + 2.25 * 2 / 50), rel=1e-15
    )
    assert make(losses.Logistic(), clip_norm=0.5).gradient_bound == 0.5
    assert make(losses.Logistic(), clip_norm=5.0).gradient_bound == 3.0
    squared = make(losses.Squared(), clip_norm=0.5)
    assert (squared.gradient_bound, squared.lipschitz_argmin) == (0.5, math.inf)
    assert make(losses.Squared()).gradient_bound == math.inf
    assert make(losses.Huber(0.2)).gradient_bound == pytest.approx(0.6)
    assert make(
        losses.Logistic(), reg=regularisers.ElasticNet(0.25)
    ).strong_convexity == pytest.approx(0.075)
    assert math.isinf(float(make(losses.Hinge()).log_curvature(10, 1.0)))
    assert math.isinf(make(losses.Logistic(), reg=regularisers.L1()).smoothness)


def test_constants_from_declarations():
    """Names or objects, the class count only where the loss asks for it, and errors that say whose
    name it is."""
    made = Constants.declared(
        loss="huber", regulariser=None, strength=0.1, data_norm=3.0, clip_norm=2, classes=5
    )
    none = regularisers.NoRegulariser()
    assert made == Constants(losses.Huber(), none, 0.1, data_norm=3.0, clip_norm=2.0)
    assert Constants.declared(loss="multinomial", classes=5).n_outputs == 5
    with pytest.raises(
        InputError, match="problem.classes must be declared for the loss 'multinomial'"
    ):
        Constants.declared(loss="multinomial", prefix="problem.")
    for name in ("strength", "loss_scale", "data_norm", "clip_norm", "radius"):
        with pytest.raises(InputError, match=f"problem.{name} must be a number"):
            Constants.declared(loss="logistic", prefix="problem.", **{name: -1.0})


def test_multinomial_log_determinant_is_bounded_and_nearly_attained():
    """ln det(I + (c/(m kappa)) H) of one record never exceeds (K-1)
    ln(1 + data_norm^2 c/(K m kappa))."""
    classes, m, kappa = 3, 7.0, 0.4
    constants = make(losses.Multinomial(), n_outputs=classes, data_norm=1.5)
    assert constants.gradient_bound == pytest.approx(1.5 * math.sqrt(2))
    bound = float(constants.log_curvature(m, kappa))
    assert bound == pytest.approx(2 * math.log(1 + 1.5**2 * 2.0 / (3 * m * kappa)), rel=1e-14)
    rng, worst = np.random.default_rng(2), 0.0
    for q in [*rng.dirichlet(np.ones(classes), 500), np.full(classes, 1 / 3)]:
        hessian = 1.5**2 * (np.diag(q) - np.outer(q, q))
        assert np.trace(hessian) <= constants.curvature_trace * (1 + 1e-12)
        worst = max(worst, np.linalg.slogdet(np.eye(classes) + 2.0 / (m * kappa) * hessian)[1])
    assert bound * (1 - 1e-12) <= worst <= bound * (1 + 1e-12)


def test_weights_of_each_coordinate():
    weights = np.array([0.5, 0.0, 4.0])
    reg = regularisers.WeightedL2(weights)
    np.testing.assert_allclose(reg.value(W), 0.5 * (W**2 @ weights))
    np.testing.assert_allclose(reg.gradient(W), W * weights)
    steps = np.array([[0.7], [1.9]])
    prox = reg.prox(W, steps)
    np.testing.assert_allclose(prox + steps * reg.gradient(prox), W, rtol=1e-14)
    assert reg.smooth and reg.strong_convexity == 0.0


def test_l2_in_the_coordinates_of_a_map():
    rng = np.random.default_rng(0)
    matrix = np.linalg.qr(rng.normal(size=(4, 3)))[0] * [0.1, 1.0, 20.0]
    found = regularisers.mapped(regularisers.L2(), 0.3, matrix, n_outputs=2)
    v = rng.normal(size=(5, 6))
    w = v.reshape(5, 2, 3) @ matrix.T
    np.testing.assert_allclose(found.value(v), 0.5 * (w**2).sum(axis=(1, 2)), rtol=1e-12)


@pytest.mark.parametrize(
    "reg",
    [
        regularisers.L2(),
        regularisers.L1(),
        regularisers.ElasticNet(0.3),
        regularisers.NoRegulariser(),
        regularisers.GeneralisedLasso(np.diff(np.eye(3), axis=0)),
    ],
    ids=lambda reg: reg.name,
)
def test_strength_means_what_it_meant_before_rows_were_divided(reg):
    """The model of divided rows is s times as long, and R sees the one of the rows before."""
    s = 3.7
    found = regularisers.divided(reg, s)
    assert found.name == reg.name
    np.testing.assert_allclose(found.value(s * W), reg.value(W))
    np.testing.assert_allclose(found.gradient(s * W), reg.gradient(W) / s)
    assert found.strong_convexity == pytest.approx(reg.strong_convexity / s**2)
    assert found.smoothness == pytest.approx(reg.smoothness / s**2)
    # prox: a minimiser of step R + |v - w|^2/2, hence no point near it is better
    step, rng = 0.8, np.random.default_rng(1)
    best = found.prox(W, step)
    least = step * found.value(best) + 0.5 * ((best - W) ** 2).sum(axis=1)
    for size in (1e-3, 0.1, 1.0):
        near = best + size * rng.normal(size=best.shape)
        there = step * found.value(near) + 0.5 * ((near - W) ** 2).sum(axis=1)
        assert (there >= least - 1e-12).all()
    again = regularisers.divided(regularisers.divided(reg, 2.0), s / 2.0)
    np.testing.assert_allclose(again.value(W), found.value(W))
    with pytest.raises(InputError, match="row_scale"):
        regularisers.divided(reg, 0.0)
