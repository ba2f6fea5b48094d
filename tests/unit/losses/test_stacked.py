"""Losses of several questions about a record: the rows that are made of it, against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.sparse import csr_array

import tacenda as tc
from tacenda.errors import InputError, UnsupportedError
from tacenda.questions.facts import Facts

N, P = 400, 4


def records(seed: int = 0) -> tuple[Any, Any, Any]:
    """(rows with a constant, ordered classes of 4, cells of a life table of 3 periods)."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-0.4, 0.4, (N, P - 1)), np.full(N, 0.5)])
    score = X[:, :-1] @ [5.0, -3.0, 1.0]
    classes = np.digitize(score + rng.logistic(size=N), [-1.0, 0.3, 1.5])
    return X, classes, rng.integers(0, 7, N)


def brute(loss: str, w: Any, X: Any, y: Any, t: int) -> float:
    """The mean over records and questions of the logistic loss, one record at a time."""
    total = 0.0
    for x, cell in zip(X, y, strict=True):
        for k in range(t):
            score = x[:-1] @ w[: P - 1] + x[-1] * w[P - 1 + k]
            if loss == "ordinal":
                total += np.log1p(np.exp(-score if cell > k else score))
                continue
            event = cell < t
            asked = k <= cell if event else k < cell - t
            answer = -score if event and cell == k else score
            total += np.log1p(np.exp(answer)) if asked else np.log(2.0)
    return total / (len(X) * t)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("loss", "cells", "t"), [("ordinal", 4, 3), ("discrete-hazard", 7, 3)])
def test_a_problem_is_the_mean_over_all_questions(
    loss: str, cells: int, t: int, sparse: bool
) -> None:
    X, *labels = records()
    y = labels[loss != "ordinal"]
    rows: Any = csr_array(X) if sparse else X
    shards = [(rows[:150], y[:150]), (rows[150:], y[150:])]
    problem = tc.Problem(shards, loss=loss, classes=range(cells), strength=0.0, regulariser="none")
    assert (problem.rows_each, problem.n_features, problem.record_features) == (t, P - 1 + t, P)
    w = np.random.default_rng(1).normal(size=problem.dim)
    parts = [brute(loss, w, X[:150], y[:150], t), brute(loss, w, X[150:], y[150:], t)]
    assert problem.objective(w) == pytest.approx(np.mean(parts), rel=1e-12)

    def surprise(v: Any) -> float:
        return float(problem.objective(v))

    best = optimize.minimize(surprise, np.zeros(problem.dim), options={"gtol": 1e-9}).x
    np.testing.assert_allclose(problem.solve(), best, atol=2e-3)


@pytest.mark.parametrize(("loss", "cells"), [("ordinal", 4), ("discrete-hazard", 7)])
def test_records_are_found_again_in_their_rows(loss: str, cells: int) -> None:
    X, *labels = records()
    y = labels[loss != "ordinal"]
    problem = tc.Problem([(X, y)], loss=loss, classes=range(cells))
    w = np.random.default_rng(1).normal(size=problem.dim)
    scores, found = problem.record_scores(w)
    np.testing.assert_array_equal(found, y)
    asked = np.ones(N, bool) if loss == "ordinal" else y != 3  # nothing is asked of cell 3
    np.testing.assert_allclose(scores[asked], problem.predict_scores(X, w)[asked], atol=1e-12)
    whole = problem.of_records()
    np.testing.assert_array_equal(whole.store.labels, y)
    assert whole.sizes.tolist() == [N] and whole.records_per_person == 1
    np.testing.assert_allclose(whole.store.rows[asked], X[asked], atol=1e-15)


def test_the_facts_of_a_declaration_are_those_of_the_problem() -> None:
    X, y, _ = records()
    problem = tc.Problem([(X[:100], y[:100]), (X[100:], y[100:])], loss="ordinal", classes=range(4))
    of = Facts.of(problem)
    declared = Facts.declared([100.0, 300.0], P, 2, adjacency="replace-one", loss="ordinal")
    found = declared.of_outcomes(4)
    assert found.sizes.tolist() == of.sizes.tolist() == [300.0, 900.0]
    assert (found.dim, found.records_per_person, found.exactly, found.one_record) == (
        of.dim, of.records_per_person, of.exactly, of.one_record,
    )  # fmt: skip
    np.testing.assert_array_equal(found.gradient_sensitivity(), of.gradient_sensitivity())
    assert found.records == 400


def test_rows_beside_a_record_count_once() -> None:
    """Tables beside a training read one row of each record, whatever the loss makes of it."""
    from tacenda.questions.tables import ColumnCells, Tables

    X, y, _ = records()
    asked = Tables(((1, (ColumnCells(2, (), False, 1.0),), 1.0),))
    rows = np.zeros((N, 2))
    problem = tc.Problem([(X, y)], loss="ordinal", classes=range(4), beside=rows)
    facts, plain = Facts.of(problem), Facts.of(tc.Problem([(X, y > 1)], classes=(False, True)))
    assert facts.statistic_distance(asked) == plain.statistic_distance(asked)
    assert np.isfinite(problem.store.beside).all(axis=1).sum() == N
    # Without rows beside them, each of a record's rows would be counted
    bare = Facts.of(tc.Problem([(X, y)], loss="ordinal", classes=range(4)))
    assert bare.statistic_distance(asked) == pytest.approx(3 * plain.statistic_distance(asked))


def test_what_does_not_fit_is_refused() -> None:
    X, y, cells = records()
    with pytest.raises(InputError, match="life table"):
        tc.Problem([(X, y)], loss="discrete-hazard", classes=range(4))
    with pytest.raises(UnsupportedError, match="persons do not go with the loss"):
        tc.Problem(
            [(X, y)],
            loss="ordinal",
            classes=range(4),
            persons=[np.arange(N)],
            records_per_person=2,
            public_sizes=[N],
        )
    problem = tc.Problem([(X, cells)], loss="discrete-hazard", classes=range(7))
    with pytest.raises(InputError, match="names no class"):
        tc.simulate(problem, tc.graph.complete(1), "gossipgd", 2, metrics=("accuracy",))
