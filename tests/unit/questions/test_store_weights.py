"""A record of weight k under public sizes is k records: for every loss and every question."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import quickly
import tacenda as tc
from tacenda.errors import InputError, UnsupportedError

CASES: tuple[tuple[Any, dict[str, Any]], ...] = (
    ("logistic", {}),
    ("logistic", {"clip_norm": 0.3}),
    ("smoothed-hinge", {}),
    ("squared", {"clip_norm": 0.5}),
    ("huber", {}),
    ("multinomial", {"clip_norm": 0.4}),
    ("multiclass-hinge", {}),
)


def pair(loss: Any, settings: Any, csr: bool) -> tuple[Any, Any]:
    """(a weighted problem of two nodes, the same with repeated records)."""
    rng = np.random.default_rng(3)
    kind = tc.losses.by_name(loss).kind
    x = rng.uniform(-0.5, 0.5, (9, 3))
    y = {
        "binary": rng.choice([-1, 1], 9),
        "multiclass": np.arange(9) % 3,
        "regression": rng.normal(size=9),
    }[kind]
    weights = np.array([1, 0, 3, 2, 1, 1, 3, 0, 2])
    classes = {"binary": (-1, 1), "multiclass": (0, 1, 2), "regression": None}[kind]
    given = {"loss": loss, "classes": classes, "strength": 0.1, "public_sizes": (4.0, 5.0)}

    def table(rows: Any) -> Any:
        return sparse.csr_array(rows) if csr else rows

    parts = (slice(0, 4), slice(4, 9))
    weighted = tc.Problem(
        [(table(x[s]), y[s]) for s in parts],
        weights=[weights[s] for s in parts],
        weight_bound=3.0,
        **given,
        **settings,
    )
    repeated = tc.Problem(
        [(table(np.repeat(x[s], weights[s], axis=0)), np.repeat(y[s], weights[s])) for s in parts],
        **given,
        **settings,
    )
    return weighted, repeated


@pytest.mark.parametrize(
    "csr", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["dense", "csr"]
)
@pytest.mark.parametrize(
    ("loss", "settings"), quickly.cases(CASES, lambda case: CASES.index(case) in (0, 3, 5))
)
def test_a_weight_is_a_number_of_records(loss: Any, settings: Any, csr: bool) -> None:
    one, many = pair(loss, settings, csr)
    nodes, rng = np.arange(2), np.random.default_rng(0)
    w = rng.normal(size=(2, one.dim))
    clip = settings.get("clip_norm")
    np.testing.assert_allclose(
        one.store.gradient(nodes, w, clip), many.store.gradient(nodes, w, clip), rtol=1e-9
    )
    np.testing.assert_allclose(one.local_objectives(w), many.local_objectives(w), rtol=1e-9)
    np.testing.assert_allclose(one.objective(w), many.objective(w), rtol=1e-9)
    np.testing.assert_allclose(one.solve(), many.solve(), atol=1e-7)
    label = 0.7 if one.n_outputs == 1 else 0.0
    moments = [p.loss_scale * p.store.second_moment(nodes, 1.0, label, 1.0) for p in (one, many)]
    np.testing.assert_allclose(*moments, rtol=1e-9)
    matrix = rng.normal(size=(3, 2))
    mapped = [p.store.mapped(nodes[::-1], matrix, 2.0, p.regulariser) for p in (one, many)]
    v = rng.normal(size=(2, 2 * one.n_outputs))
    np.testing.assert_allclose(
        *(p.gradient(nodes, v, regularised=False) for p in mapped), rtol=1e-9
    )
    grid = 2.0**-30
    bound = one.constants.gradient_bound
    whole = [
        p.loss_scale * grid * p.store.integer_gradient(nodes, w, np.full(2, grid), bound)
        for p in (one, many)
    ]
    np.testing.assert_allclose(*whole, atol=1e-7)
    if clip is None:
        zero, q = np.zeros((2, one.dim)), np.full((2, 1), 0.2)
        found = [p.store.argmin(nodes, w, q, zero, zero, 1e-9) for p in (one, many)]
        np.testing.assert_allclose(*found, atol=1e-7)
        around = [p.store.argmin_around(nodes, w, np.full(2, 0.4), 1e-9) for p in (one, many)]
        np.testing.assert_allclose(*around, atol=1e-7)


@pytest.mark.parametrize("loss", ["hinge", "absolute-deviation"])
def test_the_optimum_of_losses_with_kinks(loss: str) -> None:
    one, many = pair(loss, {}, False)
    best = [p.objective(p.solve(1e-7)) for p in (one, many)]
    np.testing.assert_allclose(*best, atol=1e-6)


@pytest.mark.parametrize(
    ("weights", "word"),
    [
        ([[1.0, 2.5]], "weight_bound=2"),
        ([[1.0, -0.1]], "outside 0"),
        ([[1.0, np.nan]], "NaN"),
        ([[1.0]], "give one per record"),
        ([["a", "b"]], "no numbers"),
        ([[1.0, 1.0], [1.0]], "one array per node"),
        ({0: [1.0, 1.0]}, "as the shards do"),
    ],
)
def test_wrong_weights_are_refused(weights: Any, word: str) -> None:
    x = np.full((2, 2), 0.1)
    with pytest.raises(InputError, match=word):
        tc.Problem([(x, [0, 1])], weights=weights, weight_bound=2.0)


def test_the_bound_is_in_every_sensitivity() -> None:
    """A bound of 3 makes one record move each answer by 3 times as much."""
    from tacenda.questions.facts import Facts

    one, _ = pair("logistic", {}, False)
    x, y = np.full((9, 3), 0.1), np.arange(9) % 2
    plain = tc.Problem(
        [(x[:4], y[:4]), (x[4:], y[4:])], strength=0.1, public_sizes=(4.0, 5.0), classes=(0, 1)
    )
    facts, other = Facts.of(one), Facts.of(plain)
    q = np.full((2, 1), 0.5)
    np.testing.assert_allclose(facts.gradient_sensitivity(), 3 * other.gradient_sensitivity())
    np.testing.assert_allclose(facts.argmin_slope(), 3 * other.argmin_slope())
    terms = [f.objective_terms(q).log_curvature(np.full(2, 1.0)) for f in (facts, other)]
    np.testing.assert_allclose(np.expm1(terms[0]), 3 * np.expm1(terms[1]))


def test_parts_of_a_problem_keep_their_weights() -> None:
    one, many = pair("logistic", {}, False)
    w = np.array([0.3, -0.2, 0.5])
    for part in ("pooled", "of_node", "with_one_feature"):
        given = () if part == "pooled" else (1,)
        parts = [getattr(p, part)(*given) for p in (one, many)]
        at = w[: parts[0].dim]
        assert parts[0].objective(at) == pytest.approx(parts[1].objective(at), rel=1e-9)


def test_an_audit_of_weighted_records_is_refused() -> None:
    from tacenda.auditing.worlds import dense_rows

    with pytest.raises(UnsupportedError, match="no weights for an audit"):
        dense_rows(pair("logistic", {}, False)[0])
