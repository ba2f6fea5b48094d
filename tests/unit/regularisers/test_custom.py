"""A user's own regulariser: compared with its declarations before a run."""

from __future__ import annotations

import numpy as np
import pytest

import tacenda as tc
from custom_parts import group_lasso
from support import shards
from tacenda.errors import InputError, UnsupportedError

CustomRegulariser = tc.regularisers.CustomRegulariser


def ridge(**changed):
    declared = {
        "value": lambda w: 0.5 * (w * w).sum(axis=1),
        "gradient": lambda w: w,
        "prox": lambda w, step: w / (1 + step),
        "strong_convexity": 1.0,
        "smoothness": 1.0,
    }
    return CustomRegulariser("my-ridge", **{**declared, **changed})


@pytest.mark.parametrize("dim", [2, 6, 40])
def test_what_is_true_is_accepted(dim):
    for own in (ridge(), group_lasso(), group_lasso(ridge=0.5), ridge(strong_convexity=0.3)):
        assert own.checked(dim) is own and len(own.digest(dim)) == 64


@pytest.mark.parametrize(
    ("own", "word"),
    [
        (ridge(strong_convexity=1.1, smoothness=2.0), "rises less than strong_convexity says"),
        (ridge(smoothness=0.9, strong_convexity=0.5), "changes faster than smoothness=0.9"),
        (ridge(gradient=lambda w: 1.01 * w, smoothness=2.0), "lies below the tangent"),
        (ridge(prox=lambda w, step: w / (1 + 1.1 * step)), "has a better point than prox gives"),
        (ridge(value=lambda w: -0.5 * (w * w).sum(1), gradient=lambda w: -w), "tangent"),
        (ridge(value=lambda w: np.log(w).sum(1)), "must be finite and of shape (48,)"),
        (ridge(value=lambda w: w), "must be finite and of shape (48,)"),
        (group_lasso(size=4), "cannot take models of shape (48, 6)"),
    ],
)
def test_what_is_false_is_refused_with_the_point(own, word):
    with pytest.raises(InputError) as refused:
        own.checked(6)
    assert word in str(refused.value) and own.name in str(refused.value)


def test_declarations_without_sense_are_refused():
    with pytest.raises(InputError, match="strong_convexity must be at most smoothness"):
        ridge(strong_convexity=2.0)
    with pytest.raises(InputError, match="gradient must be a function"):
        ridge(gradient=1.0)
    with pytest.raises(UnsupportedError, match="declared without prox"):
        ridge(prox=None).prox(np.zeros((1, 2)), 1.0)
    assert ridge(prox=None).checked(2)


def test_rows_and_single_models():
    own, l2, w = ridge(), tc.regularisers.L2(), np.arange(6.0).reshape(2, 3)
    for rows in (w, w[0]):
        np.testing.assert_allclose(own.value(rows), l2.value(rows))
        np.testing.assert_allclose(own.gradient(rows), l2.gradient(rows))
        np.testing.assert_allclose(own.prox(rows, 0.5), l2.prox(rows, 0.5))
    assert own.smoothness == l2.smoothness == 1.0 and group_lasso().smooth is False
    assert tc.regularisers.L1().smoothness == np.inf


def test_names():
    own = tc.regularisers.register(group_lasso())
    assert tc.regularisers.by_name("group_lasso") is own
    for other in (group_lasso(), CustomRegulariser("l2", value=np.sum, gradient=np.sum)):
        with pytest.raises(InputError, match="is the name of another regulariser already"):
            tc.regularisers.register(other)
    with pytest.raises(InputError, match="register takes a CustomRegulariser"):
        tc.regularisers.register("l1")
    assert isinstance(tc.regularisers.mapped(own, 0.1, np.ones(2)), tc.regularisers.Unmapped)
    assert tc.regularisers.mapped(own, 0.0, np.ones(2)).name == "none"


def test_the_reference_optimum_is_that_of_the_known_regulariser():
    def solved(regulariser, tolerance):
        problem = tc.Problem(
            shards([15, 15], 3, task="regression"),
            loss="huber",
            regulariser=regulariser,
            strength=0.01,
        )
        return problem.solve(tolerance)

    known = solved("l1", 1e-10)
    assert np.count_nonzero(known) > 1
    np.testing.assert_allclose(solved(group_lasso(size=1), 1e-6), known, atol=1e-3)
    np.testing.assert_allclose(solved(ridge(), 1e-6), solved("l2", 1e-10), atol=1e-3)


def test_the_planner_does_not_whiten_for_it():
    for own in (group_lasso(), group_lasso(ridge=1.0)):
        found = tc.plan(500, 6, tc.graph.complete(5), epsilon=1.0, loss="huber", regulariser=own)
        assert found.algorithm.name in ("gossipgd", "dpdda")
        found.algorithm.check(found.facts, found.topology, found.rounds, True)
