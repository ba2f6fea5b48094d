"""A user's own loss: the table agrees with the functions, and what is false is refused."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacenda as tc
from custom_parts import log_cosh
from tacenda.errors import InputError, UnsupportedError

GRID = np.concatenate([np.linspace(-30, 30, 20001), [-1e300, -1e9, -1e5, 1e5, 1e9, 1e300]])
CustomLoss = tc.losses.CustomLoss

SAME = [
    (
        tc.losses.Logistic(),
        {
            "of": "margin",
            "value": lambda z: np.logaddexp(0.0, -z),
            "slope": lambda z: -1.0 / (1.0 + np.exp(z)),
            "slope_bound": 1.0,
            "curvature": 0.25,
            "twice_differentiable": True,
        },
        1e-11,
    ),
    (
        tc.losses.Hinge(),
        {
            "of": "margin",
            "value": lambda z: max(0.0, 1.0 - z),  # of one number at a time
            "slope": lambda z: -1.0 if z < 1.0 else 0.0,
            "slope_bound": 1.0,
            "kinks": [1.0],
        },
        0.0,
    ),
    (
        tc.losses.Huber(2.0),
        {
            "value": lambda u: np.where(np.abs(u) <= 2, 0.5 * u * u, 2 * np.abs(u) - 2),
            "slope": lambda u: np.clip(u, -2, 2),
            "slope_bound": 2.0,
            "curvature": 1.0,
            "kinks": [-2.0, 2.0],
        },
        1e-14,
    ),
    (
        tc.losses.AbsoluteDeviation(),
        {"value": np.abs, "slope": np.sign, "slope_bound": 1.0, "kinks": [0.0]},
        0.0,
    ),
]


@pytest.mark.parametrize(("known", "own", "near"), SAME, ids=lambda case: getattr(case, "name", ""))
def test_a_known_loss_declared_again_is_the_same(known, own, near):
    loss = CustomLoss("mine", **own)
    assert (loss.kind, loss.slope, loss.smooth) == (known.kind, known.slope, known.smooth)
    assert loss.twice_differentiable == known.twice_differentiable
    for y in (-1.0, 1.0) if loss.kind == "binary" else (0.0, 0.37):
        labels = np.full(len(GRID), y)
        inside = (y != GRID) if known.name == "absolute-deviation" else np.full(len(GRID), True)
        gap = loss.derivative(GRID, labels) - known.derivative(GRID, labels)
        assert np.abs(gap[inside]).max() <= near
        here = np.abs(GRID) <= 30
        apart = loss.value(GRID[here], labels[here]) - known.value(GRID[here], labels[here])
        assert np.abs(apart).max() <= 1e-9
        if known.smooth:
            assert loss.curvature == pytest.approx(known.curvature, rel=1e-12)
            bent = loss.second(GRID, labels)
            smooth = np.abs(np.abs(GRID - y) - known.parameter) > 1e-6
            gap = np.abs(bent - known.second(GRID, labels))[smooth]
            assert gap.max() <= 1e-8


def test_a_problem_with_it_is_the_problem_with_the_known_loss():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    shards = [(x[:30], x[:30, 0] > 0), (x[30:], x[30:, 0] > 0)]
    mine = tc.Problem(shards, loss=CustomLoss("mine", **SAME[0][1]), classes=(False, True))
    known = tc.Problem(shards, loss="logistic", classes=(False, True))
    best = known.solve()
    np.testing.assert_allclose(mine.solve(), best, atol=1e-7)
    assert mine.objective(best) == pytest.approx(known.objective(best), abs=1e-10)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"slope_bound": 0.9}, "slope_bound is 0.9, and the slope is 1 at residual"),
        ({"curvature": 0.5}, "the slope rises at a rate of 0.99"),
        ({"value": lambda u: np.log(np.cosh(u))}, "value is inf at residual 7"),
        ({"slope": lambda u: np.tanh(1.001 * u)}, "curvature is 1, and"),
        ({"slope": lambda u: 0.999 * np.tanh(u)}, "the integral of slope from 0 gives"),
        (
            {"value": lambda u: 1 - np.cos(u), "slope": np.sin},
            "a slope that never falls, and this one falls to",
        ),
        ({"value": np.abs, "slope": np.sign, "kinks": [0.0]}, "jumps by 2 at the kink 0"),
        (
            {"value": np.abs, "slope": np.sign, "curvature": math.inf, "kinks": [0.0]},
            "twice_differentiable needs",
        ),
        ({"value": np.abs, "slope": np.sign, "curvature": math.inf}, "name in kinks"),
        ({"slope_bound": -1.0}, "slope_bound must be between"),
        ({"scale": 0.0}, "scale must be between"),
        ({"kinks": [1e9]}, "kinks must be at most"),
        ({"of": "score"}, "of must be one of 'margin', 'residual'"),
        ({"slope": 1.0}, "slope must be a function"),
    ],
)
def test_a_false_declaration_is_refused_with_the_point(changed, word):
    with pytest.raises(InputError) as refused:
        log_cosh(**changed)
    assert word in str(refused.value)


def test_the_functions_are_asked_while_it_is_made_and_never_again():
    asked = []

    def slope(u):
        asked.append(np.size(u))
        return np.tanh(u)

    loss = log_cosh(slope=slope)
    before = len(asked)
    loss.derivative(GRID, np.zeros(len(GRID)))
    problem = tc.Problem([(np.eye(3), np.arange(3.0))] * 2, loss=loss)
    problem.objective(problem.solve())
    assert len(asked) == before


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.0, 5.0), min_size=3, max_size=12),
    st.floats(0.05, 3.0),
    st.floats(0.2, 2.0),
    st.integers(0, 2**31),
)
def test_a_liars_loss_keeps_its_bounds_for_every_float(rises, bound, curvature, seed):
    """A slope that is honest at the points it is asked at, and anything in between."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.normal(size=len(rises)) * 5)

    def slope(u):
        steps = np.array(rises)[:, None] / (1 + np.exp(-np.clip(u - at[:, None], -500, 500)))
        return bound * np.tanh(steps.sum(axis=0) * curvature / (bound * (1 + sum(rises))) - 0.3)

    knots = tc.losses.CustomLoss(
        "scratch", value=lambda u: 0 * u, slope=lambda u: 0 * u, slope_bound=1.0, curvature=1.0
    )._pieces.knots
    values = np.concatenate(
        [[0.0], np.cumsum(0.5 * np.diff(knots) * (slope(knots)[1:] + slope(knots)[:-1]))]
    )
    values -= values[len(knots) // 2]
    loss = CustomLoss(
        "liar",
        value=lambda u: np.interp(u, knots, values),
        slope=slope,
        slope_bound=bound,
        curvature=curvature,
    )
    scores = np.concatenate(
        [
            np.sort(rng.normal(size=4000) * 10.0 ** rng.integers(-3, 4)),
            [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324],
        ]
    )
    found = loss.derivative(scores, np.zeros(len(scores)))
    known = np.isfinite(found)
    assert np.abs(found[known]).max() <= bound and known[:4000].all()
    steps, moved = np.diff(scores[:4000]), np.diff(found[:4000])
    assert moved.min() >= -1e-15 * bound * 8
    assert (moved <= loss.curvature * steps + 1e-15 * bound * 8).all()
    bent = loss.second(scores, np.zeros(len(scores)))
    assert (bent >= 0).all() and bent.max() <= loss.curvature <= curvature * (1 + 1e-5)


def test_it_is_copied_pickled_and_compared_by_its_table():
    loss = log_cosh()
    assert copy.deepcopy(loss) == pickle.loads(pickle.dumps(loss)) == loss == log_cosh()
    assert hash(loss) == hash(log_cosh())
    assert loss != log_cosh(slope_bound=2.0) or loss.digest == log_cosh(slope_bound=2.0).digest
    assert loss != "log-cosh"
    assert "of='residual', slope_bound=1, curvature=1" in repr(loss)


def test_names():
    loss = tc.losses.register(log_cosh())
    assert tc.losses.by_name("log_cosh") is loss and tc.losses.register(log_cosh()) == loss
    with pytest.raises(InputError, match="is the name of another loss already"):
        tc.losses.register(log_cosh(slope_bound=1.0, curvature=1.5))
    with pytest.raises(InputError, match="register takes a CustomLoss"):
        tc.losses.register("hinge")
    with pytest.raises(InputError, match="lower-case letters, digits and hyphens"):
        CustomLoss("Log cosh", value=np.abs, slope=np.sign, slope_bound=1.0)
    with pytest.raises(InputError, match="'log-cosh'"):
        tc.losses.by_name("log-cos")


def test_a_loss_with_kinks_has_no_reference_optimum():
    own = CustomLoss("mine", **SAME[3][1])
    problem = tc.Problem([(np.eye(3), np.arange(3.0))], loss=own)
    with pytest.raises(UnsupportedError, match="reference optimum of a loss with kinks"):
        problem.solve()


def test_a_jump_within_rounding_is_closed():
    """A step of 5e-7 in a slope near 1000 passes as rounding, and is none in the table: what is
    proved of smooth losses, and the solver's tolerance, know no jump."""
    loss = tc.losses.CustomLoss(
        "stepped",
        value=lambda u: 1e3 * (np.logaddexp(u, -u) - np.log(2)) + 5e-7 * np.maximum(u - 3, 0),
        slope=lambda u: 1e3 * np.tanh(u) + 5e-7 * (u > 3),
        slope_bound=1.1e3,
        curvature=1e3,
        kinks=(3.0,),
    )
    below, above = loss.derivative(np.nextafter(3.0, [0.0, 9.0]), 0.0)
    assert loss.smooth and 0 <= above - below < 1e-10


def test_a_class_made_from_a_known_loss_is_refused():
    """The kernels would run the logistic slope, up to 1, and noise be planned for 0.01."""

    class Milder(tc.losses.Logistic):
        slope = 0.01

    with pytest.raises(InputError, match="declare a CustomLoss"):
        tc.Problem([(np.ones((4, 1)), [0, 1, 0, 1])] * 2, loss=Milder(), classes=(0, 1))
