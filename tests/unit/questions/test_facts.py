"""Public facts, constants, the radius and the cut of an argmin's anchor against plain arithmetic,
record by record where it can be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacenda as tc
from support import shards
from tacenda import losses, regularisers
from tacenda.errors import InputError
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_values
from tacenda.questions.blank import BlankQueries
from tacenda.questions.constants import LARGEST_RADIUS, SENSIBLE, Constants
from tacenda.questions.facts import Facts
from tacenda.questions.queries import Queries
from tacenda.questions.radius import brought_within, is_within
from tacenda.terms.problem import RADIUS

SIZES = np.array([7.0, 40.0, 13.0])
SLOPE = {"logistic": 1.0, "smoothed-hinge": 1.0, "huber": 1.0, "multinomial": math.sqrt(2)}
BEND = {"logistic": 0.25, "smoothed-hinge": 1.0, "huber": 1.0, "multinomial": 0.5}
positive = st.floats(1e-3, 1e3)
declared = st.fixed_dictionaries(
    {
        "loss": st.sampled_from(sorted(SLOPE)),
        "regulariser": st.sampled_from(["l2", "none", "l1", "elastic-net"]),
        "strength": st.floats(0, 10),
        "loss_scale": positive,
        "data_norm": positive,
        "clip_norm": st.none() | positive,
        "radius": st.floats(1e-3, 1e12),
    }
)


@given(declared, st.sampled_from(["replace-one", "add-remove"]), st.data())
def test_every_number_by_hand(given: dict[str, Any], relation: str, data: Any) -> None:
    k = Constants.declared(classes=4, **given)
    tol, dim = data.draw(st.floats(1e-10, 1e-2)), data.draw(st.integers(1, 50))
    batch, q = data.draw(st.integers(1, 7)), np.array([[0.0], [0.7], [2.5]])
    facts = Facts(SIZES, dim, k, relation, tol)
    slope, bend = SLOPE[given["loss"]], BEND[given["loss"]]
    c, r, x, clip = (given[w] for w in ("loss_scale", "strength", "data_norm", "clip_norm"))
    l2 = {"l2": 1.0, "elastic-net": 0.5}.get(given["regulariser"], 0.0)
    changed = 2 if relation == "replace-one" else 1
    g = slope * x
    clipped = g if clip is None else min(g, clip)
    assert k.lipschitz_argmin == pytest.approx(g) and k.gradient_bound == pytest.approx(clipped)
    assert k.strong_convexity == pytest.approx(r * l2)
    multi = given["loss"] == "multinomial"
    trace = (0.75 if multi else bend) * x * x
    assert k.curvature_trace == pytest.approx(trace) and k.n_outputs == (4 if multi else 1)
    smooth = given["regulariser"] in ("l2", "none")
    assert k.smoothness == (pytest.approx(c * bend * x * x + r * l2) if smooth else math.inf)
    for some, sizes in (
        (facts, SIZES),
        (facts.for_the_smallest(), np.full(3, 7.0)),
        (facts.for_the_smallest().rows(np.array([2, 0])), np.full(2, 7.0)),
        (facts.rows(np.array([1, 2])), SIZES[[1, 2]]),
    ):
        assert some.n == len(sizes)
        np.testing.assert_allclose(some.gradient_sensitivity(), changed * clipped * c / sizes)
        np.testing.assert_allclose(
            some.gradient_sensitivity(batch), np.full(some.n, changed * clipped * c / batch)
        )
        np.testing.assert_allclose(some.argmin_slope(), changed * g * c / sizes)
        again = some.gradient_sensitivity()
        assert again is some.gradient_sensitivity() and not again.flags.writeable
    np.testing.assert_allclose(facts.for_the_smallest().sampling_rate(batch), batch / SIZES)
    np.testing.assert_allclose(facts.sampling_rate(batch), batch / SIZES)
    kappa = r * l2 + 2 * q[:, 0]
    np.testing.assert_allclose(facts.argmin_convexity(q), kappa)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = (changed * g * c / SIZES + 0.3 + 2 * q[:, 0] * 0.2 + 2 * tol) / kappa
        found = facts.argmin_sensitivity(q, 0.3, 0.2)
    np.testing.assert_allclose(found, moved, rtol=1e-9)
    _objective(facts, q, kappa, trace * c, SIZES)


def _objective(facts: Facts, q: Any, kappa: Any, steep: float, sizes: Any) -> None:
    """The logarithm of objective perturbation, and the convexity at which it has a given value."""
    terms = facts.objective_terms(q)
    np.testing.assert_allclose(terms.slope, facts.argmin_slope())
    np.testing.assert_allclose(terms.convexity, kappa)
    assert terms.tolerance == facts.tolerance
    rank = 3 if facts.constants.loss.kind == "multiclass" else 1
    some = np.array([0.3, 1.1, 7.0])
    wanted = [rank * math.log1p(steep / rank / (m * x)) for m, x in zip(sizes, some, strict=True)]
    np.testing.assert_allclose(terms.log_curvature(some), wanted, rtol=1e-12)
    np.testing.assert_allclose(terms.least_convexity(terms.log_curvature(some)), some, rtol=1e-9)


def test_the_facts_of_a_problem() -> None:
    data = tc.Problem(shards([9, 14]), classes=("no", "yes"), strength=0.2)
    facts = Facts.of(data, "replace-one", 1e-6)
    assert facts.sizes.tolist() == [9.0, 14.0] and facts.dim == 4 and facts.n == 2
    assert (facts.adjacency, facts.tolerance) == ("replace-one", 1e-6)
    assert (Facts.of(data).adjacency, Facts.of(data).tolerance) == ("replace-one", 1e-8)
    with pytest.raises(InputError, match="public_sizes must be declared"):
        Facts.of(data, "add-remove")
    public = tc.Problem(shards([9, 14]), classes=("no", "yes"), public_sizes=[10, 20])
    for relation in ("add-remove", "replace-one"):
        assert Facts.of(public, relation).sizes.tolist() == [10.0, 20.0]


def test_a_declaration_may_lie_at_the_very_edge_of_sense_and_not_beyond() -> None:
    least, most = SENSIBLE
    for name in ("data_norm", "loss_scale", "clip_norm"):
        for value in (least, most):
            assert getattr(Constants.declared(loss="logistic", **{name: value}), name) == value
        for value in (least * 0.999, most * 1.001):
            with pytest.raises(InputError, match=name):
                Constants.declared(loss="logistic", **{name: value})
    for value in (0.0, most):
        assert Constants.declared(loss="logistic", strength=value).strength == value
    for value in (least, LARGEST_RADIUS):
        assert Constants.declared(loss="logistic", radius=value).radius == value
    for name, value in (
        ("strength", most * 1.001),
        ("radius", LARGEST_RADIUS * 1.001),
        ("radius", least * 0.999),
    ):
        with pytest.raises(InputError, match=name):
            Constants.declared(loss="logistic", **{name: value})
    for wrong in (least * 0.999, most * 1.001):
        with pytest.raises(InputError, match="the parameter of Huber"):
            Constants.declared(loss=losses.Huber(wrong))
    assert Constants.declared(loss=losses.Huber(least)).loss.parameter == least
    assert Constants.declared(loss="multinomial", classes=2).n_outputs == 2
    with pytest.raises(InputError, match="classes must be declared"):
        Constants.declared(loss="multinomial", classes=1)


def test_what_is_declared_when_nothing_is() -> None:
    k = Constants.declared(loss="logistic")
    assert k == Constants(losses.Logistic(), regularisers.L2(), 1e-4, radius=RADIUS)
    assert Constants(losses.Logistic(), regularisers.L2(), 1e-4, 1.0, 1.0) == k
    assert k.radius == 1e9


@given(
    st.lists(
        st.floats(width=32) | st.sampled_from([2.0, -2.0, 2.0000001, -2.0000002, np.nan, np.inf]),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([np.float64, np.float32]),
    st.sampled_from([2.0, 0.1, 1e9, 1 / 3]),
)
def test_brought_within_is_the_nearest_point_within(
    values: list[float], kind: Any, radius: float
) -> None:
    rows = np.array([values], kind)
    found = brought_within(rows, radius)
    inside = all(abs(float(v)) <= radius for v in rows[0])
    assert is_within(rows, radius) == inside and (found is rows) == inside
    assert found.dtype == kind and is_within(found, radius)
    for before, after in zip(rows[0].tolist(), found[0].tolist(), strict=True):
        wanted = 0.0 if math.isnan(before) else min(max(before, -radius), radius)
        assert abs(after) <= radius
        assert after == pytest.approx(wanted, rel=1e-6 if kind is np.float32 else 0, abs=0)


# ---- the anchor of an argmin


def asked(radius: float = 2.0, strength: float = 0.5, **more: Any) -> tuple[Any, Queries]:
    data = tc.Problem(
        shards([9, 14], p=3), classes=("no", "yes"), strength=strength, radius=radius, **more
    )
    nodes = np.arange(2)
    return data, Queries(data.store, data.sizes, nodes, Facts.of(data), SimulatedNoise(0))


@pytest.mark.parametrize("q", [0.0, 0.3, 4.0])
@pytest.mark.parametrize(
    ("linear", "centre"),
    [
        ([[0.0, 0.0, 0.0], [0.1, -0.2, 0.3]], [[9.0, 0.1, -0.2], [0.5, 0.5, 0.5]]),
        ([[40.0, -0.1, 0.0], [0.0, 0.0, -60.0]], [[0.0, 0.0, 0.0], [0.1, 7.0, 0.2]]),
        ([[0.1, 0.2, 0.0], [0.0, 0.3, 0.1]], [[0.1, 0.0, 0.3], [0.0, 0.1, 0.2]]),
    ],
)
def test_an_argmin_is_that_of_its_anchor_cut_to_the_radius(
    q: float, linear: Any, centre: Any
) -> None:
    """Coordinate by coordinate, in the rows that need it only; f + linear.w + q|w - centre|^2 is
    the loss plus (kappa/2)|w - anchor|^2."""
    data, queries = asked()
    linear, centre = np.array(linear), np.array(centre)
    kappa = 0.5 + 2 * q
    anchor = (2 * q * centre - linear) / kappa
    cut = np.clip(anchor, -2.0, 2.0)
    found = open_values(queries.argmin(linear, np.full((2, 1), q), centre))
    for i in range(2):
        x = data.store.rows[data.store.offsets[i] : data.store.offsets[i + 1]]
        y = data.store.labels[data.store.offsets[i] : data.store.offsets[i + 1]]
        slopes = -y / (1 + np.exp(y * (x @ found[i])))
        gradient = slopes @ x / len(y) + kappa * (found[i] - cut[i])
        assert np.linalg.norm(gradient) <= 1e-7


def test_hostile_numbers_raise_no_warning() -> None:
    """A warning that some floats cause is seen by whoever reads the log, and stops a run where
    warnings are errors."""
    bad = [np.nan, np.inf, -np.inf, 1.79e308, -1.79e308, 5e-324, 0.0, 1e200]
    for radius in (2.0, 1e9):
        _, queries = asked(radius)
        with np.errstate(all="raise", under="ignore"):
            for a in bad:
                for b in bad:
                    linear, centre = np.array([[a, 0.1, b]] * 2), np.array([[0.2, b, a]] * 2)
                    answer = queries.argmin(linear, np.full((2, 1), 0.3), centre)
                    assert np.isfinite(open_values(answer)).all()
                    queries.facts.argmin_is_near(np.full((2, 1), 0.3), linear, centre)
                    found = queries.gradient(linear, 1, 0, None, False, True)
                    assert np.isfinite(open_values(found)).all()
                    brought_within(linear, radius)


def test_blank_answers_have_the_true_sensitivities() -> None:
    """A plan is made from them: they must say what the records' own answers will say."""
    data, queries = asked()
    blank, w = BlankQueries(queries.facts), np.zeros((2, 3))
    q = np.array([[0.4], [0.1]])
    for batch, one in ((None, False), (5, False), (1, True)):
        real = queries.gradient(w, 1, 0, batch, one, False)
        plan = blank.gradient(w, 1, 0, batch, one, False)
        assert np.array_equal(real.sensitivity, plan.sensitivity)
        assert real.sample.kind == plan.sample.kind
        if batch is not None:
            assert np.array_equal(real.sample.rate, plan.sample.rate)
    for linear in (w, queries.gradient(w, 1, 0, None, False, True)):
        for centre in (w, queries.argmin(w, q, w)):
            real, plan = queries.argmin(linear, q, centre), blank.argmin(linear, q, centre)
            np.testing.assert_allclose(real.sensitivity, plan.sensitivity, rtol=1e-15)
    mine, theirs = queries.question(w, q, w).terms, blank.question(w, q, w).terms
    assert np.array_equal(mine.slope, theirs.slope)
    assert np.array_equal(mine.convexity, theirs.convexity)
    tight = Facts(queries.facts.sizes, 3, queries.facts.constants, tolerance=1e-15)
    for ask in (BlankQueries(tight), Queries(data.store, data.sizes, np.arange(2), tight, None)):
        for question in (ask.argmin, ask.question):
            with pytest.raises(InputError, match="solver_tolerance must be at least"):
                question(w, q, w)
