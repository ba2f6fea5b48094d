"""Predictions: the stand-in data, what a public sample tells, and predicted against measured excess
risk on data never seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import tacenda as tc
from tacenda.data import sources
from tacenda.data.stand_in import StandIn
from tacenda.errors import InputError
from tacenda.planning import predict as predicting
from tacenda.planning.public import PublicSample, _cost, _fit, _mode
from tacenda.privacy.accounting.calibration import gaussian_mu


def measured(name: str) -> tuple[Any, Any, int, Any]:
    """(X, y, size of the public sample, graph) of a set on which nothing
    in the planner was tuned."""
    from sklearn import datasets

    if name == "digits":
        bunch = datasets.load_digits()
        X = np.hstack([bunch.data / 16, np.ones((len(bunch.data), 1))])
        return (
            X / np.linalg.norm(X, axis=1, keepdims=True),
            bunch.target % 2,
            400,
            tc.graph.complete(6),
        )
    if name == "breast_cancer":
        data = tc.data.load(name, intercept=True)
        return data.X, data.y, 150, tc.graph.complete(5)
    data = tc.data.load(name, sparse=False, intercept=True) if name == "a9a" else tc.data.load(name)
    return data.X, data.y, 2000, tc.graph.random_regular(50, 6, seed=0)


def ratio(name: str, epsilon: float, seeds: int, trials: int, coalition: int | None = 1) -> float:
    """Predicted over measured excess risk: a small random part of the set is public,
    the rest is private."""
    X, y, count, graph = measured(name)
    order = np.random.default_rng(1).permutation(len(y))
    public, private = order[:count], order[count:]
    problem = tc.Problem(tc.data.partition.even(X[private], y[private], graph.n), classes=(0, 1))
    plan = tc.plan(
        problem.sizes, problem.dim, graph, epsilon, coalition=coalition, strength=problem.strength
    )
    optimum = problem.objective(problem.solve(1e-5))
    runs = [
        tc.simulate(
            problem, graph, plan.method, privacy=tc.Privacy(epsilon), seed=100 + s, record_every=0
        )
        for s in range(seeds)
    ]
    excess = float(np.mean([problem.objective(run.models).mean() for run in runs])) - optimum
    return plan.predict((X[public], y[public]), trials).excess_risk.mean / excess


@pytest.mark.parametrize("name", ["breast_cancer", "digits"])
def test_prediction_is_within_a_factor_of_one_and_a_half(name: str) -> None:
    assert 1 / 1.5 < ratio(name, 1.0, seeds=3, trials=4) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("coalition", [1, None])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("name", ["breast_cancer", "digits", "a9a", "adult"])
def test_prediction_at_three_budgets(name: str, epsilon: float, coalition: int | None) -> None:
    try:
        measured(name)
    except sources.Unavailable as reason:
        pytest.skip(str(reason))
    assert 1 / 1.5 < ratio(name, epsilon, seeds=3, trials=3, coalition=coalition) < 1.5


def test_stand_in_labels_follow_their_chances() -> None:
    draw, n = StandIn(3), 40_000
    two = draw.labels("binary", np.full((n, 1), 0.7))
    assert two.mean() == pytest.approx(1 / (1 + math.exp(-0.7)), abs=4 * 0.5 / math.sqrt(n))
    scores = np.array([0.0, 1.0, -0.5])
    three = draw.labels("multiclass", np.tile(scores, (n, 1)))
    assert np.bincount(three) / n == pytest.approx(
        np.exp(scores) / np.exp(scores).sum(), abs=4 * 0.5 / math.sqrt(n)
    )
    numbers = draw.labels("regression", np.full((n, 1), 2.0), 0.3)
    assert (numbers.mean(), numbers.std()) == (
        pytest.approx(2.0, abs=0.01),
        pytest.approx(0.3, rel=0.03),
    )


def test_stand_in_rows_and_posterior() -> None:
    draw = StandIn(4)
    X = draw.rows(20_000, 4, 1.0, 2.0)
    assert np.linalg.norm(X, axis=1) == pytest.approx(2.0)
    variances = X.var(axis=0)
    assert variances[0] > variances[1] > variances[2] > variances[3]
    root = np.array([[2.0, 0.0], [1.0, 0.5]])
    draws = np.array([draw.posterior(np.array([1.0, -1.0]), root) for _ in range(20_000)])
    assert draws.mean(axis=0) == pytest.approx([1.0, -1.0], abs=0.08)
    assert np.cov(draws.T) == pytest.approx(np.linalg.inv(root @ root.T), rel=0.08, abs=0.05)


def test_mode_of_two_and_of_three_classes_is_scikit_learns() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    three = (X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(300, 3))).argmax(axis=1)
    for kind, y, outputs in (("binary", (three > 0).astype(int), 1), ("multiclass", three, 3)):
        w, hessian = _mode(X, y, kind, np.zeros(4 * outputs), 0.5)
        fitted = LogisticRegression(C=1 / 0.5, fit_intercept=False, tol=1e-9, max_iter=2000).fit(
            X, y
        )
        assert w.reshape(outputs, 4) == pytest.approx(fitted.coef_, abs=2e-4)
        step = 1e-3 * np.eye(len(w))

        def value(v: Any, y: Any = y, kind: str = kind, outputs: int = outputs) -> float:
            return _cost(X @ v.reshape(outputs, 4).T, y, kind) + 0.25 * float(v @ v)

        for a, b in ((0, 0), (0, 3), (len(w) - 1, 1)):
            around = (
                value(w + step[a] + step[b]) - value(w + step[a]) - value(w + step[b]) + value(w)
            )
            assert hessian[a, b] == pytest.approx(around / 1e-6, rel=0.02, abs=0.05)


def test_regression_takes_the_largest_marginal_likelihood() -> None:
    """y ~ N(0, v (I + X X'/lambda)): the density itself over a grid of both, against the fit's
    lambda and v."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 5))
    y = X @ (0.7 * rng.normal(size=5)) + 0.4 * rng.normal(size=60)
    _, precision, noise_std = _fit(X, y, "regression", 5)
    weight = (np.trace(precision * noise_std**2) - np.trace(X.T @ X)) / 5

    def density(log_weight: float, variance: float) -> float:
        return float(
            multivariate_normal.logpdf(
                y, np.zeros(60), variance * (np.eye(60) + X @ X.T / math.exp(log_weight))
            )
        )

    found = density(math.log(weight), noise_std**2)
    around = [
        density(math.log(weight) + a, noise_std**2 * b)
        for a in (-0.5, 0.0, 0.5)
        for b in (0.85, 1.0, 1.15)
    ]
    assert found >= max(around) - 1e-3
    assert noise_std == pytest.approx(0.4, rel=0.25)


def test_fewer_records_with_the_same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tc.plan(200, 20, tc.graph.random_regular(20, 4, seed=0), 1.0)
    assert gaussian_mu(predicting._privacy(plan, 3.0).epsilon, 1e-5) == pytest.approx(
        3 * gaussian_mu(1.0, 1e-5), rel=1e-6
    )
    whole = plan.predict(trials=3)
    monkeypatch.setattr(predicting, "MOST_VALUES", 20_000)
    part = plan.predict(trials=3)
    assert any("1/4.0 of the records" in a for a in part.assumptions)
    assert part.excess_risk.mean == pytest.approx(whole.excess_risk.mean, rel=0.4)


def test_all_records_are_drawn_as_long_as_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, drawn = tc.plan(200, 20, tc.graph.ring(4), 1.0), []
    honest = predicting._records

    def spy(facts: Any, sample: Any, n: int, *rest: Any) -> Any:
        drawn.append(n)
        return honest(facts, sample, n, *rest)

    monkeypatch.setattr(predicting, "_records", spy)
    assert not any("records and the same" in a for a in plan.predict(trials=1).assumptions)
    monkeypatch.setattr(predicting, "MOST_VALUES", 4_000)
    plan.predict(trials=1)
    assert drawn == [800, 200]


@pytest.mark.parametrize("most", [2.0, 30.0])
def test_stand_ins_of_a_public_sample_are_as_large_as_its_records(most: float) -> None:
    """Counts of a known rate: those that are drawn are as many, whatever the bound."""
    rng = np.random.default_rng(1)
    X = np.column_stack([0.3 * rng.standard_normal((4000, 2)), np.full(4000, 0.7)])
    y = rng.poisson(np.exp(X @ np.array([0.8, -0.5, 0.3]))).clip(0, most).astype(float)
    plan = tc.plan(500, 3, tc.graph.ring(4), 2.0, loss=tc.losses.Poisson(most), rounds=5)
    sample = PublicSample.of((X, y), plan.facts.constants, 3)
    found = [predicting._records(plan.facts, sample, 2000, k, None)[1].mean() for k in range(4)]
    assert np.mean(found) == pytest.approx(np.exp(np.log(np.maximum(y, 0.5)).mean()), rel=0.25)


@pytest.mark.parametrize("loss", ["hinge", "huber", "multinomial"])
def test_every_kind_of_loss_is_predicted(loss: str) -> None:
    outputs = 3 if loss == "multinomial" else 1
    plan = tc.plan(
        100,
        4 * outputs,
        tc.graph.ring(4),
        4.0,
        loss=loss,
        n_outputs=outputs,
        rounds=20,
        adjacency="add-remove",
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) / 3
    y = (
        X[:, 0]
        if loss == "huber"
        else np.digitize(X[:, 0], [-0.1, 0.1])[:, None].ravel() % max(2, outputs)
    )
    for public in (None, (X, y)):
        found = plan.predict(public, trials=2)
        assert found.excess_risk.low <= found.excess_risk.mean <= found.excess_risk.high
        assert (found.accuracy is None) == (loss == "huber")
        assert "No private record was read" in found.explain()
        assert found.to_plain()["trials"] == 2


def test_a_prediction_is_explained_in_lines() -> None:
    found = tc.plan(100, 5, tc.graph.ring(4), 1.0).predict(trials=1, seed=5)
    first, span, *rest = found.explain().split("\n")
    assert first.startswith("Predicted excess risk ") and first.endswith("mean and range.")
    assert span.startswith(f"  - Expect {found.range.low:.2g} to {found.range.high:.2g}, accuracy ")
    assert rest == [f"  - {assumption}" for assumption in found.assumptions]


def test_predictions_repeat_and_one_budget_per_node() -> None:
    plan = tc.plan(100, 5, tc.graph.ring(4), [1.0, 2.0, 1.0, 3.0], coalition=None)
    assert plan.predict(trials=1, seed=5) == plan.predict(trials=1, seed=5)
    assert len(predicting._privacy(plan, 2.0).epsilon) == 4


@pytest.mark.parametrize(
    ("public", "words"),
    [
        (3, "pair"),
        ((np.ones((20, 4)), np.ones(20)), "shape"),
        ((np.ones((20, 5)), np.ones(20)), "2 classes"),
        ((np.ones((5, 5)), np.ones(5)), "at least 10"),
    ],
)
def test_a_wrong_public_sample_is_named(public: Any, words: str) -> None:
    plan = tc.plan(100, 5, tc.graph.ring(4), 1.0)
    with pytest.raises(InputError, match=words):
        plan.predict(public, trials=1)


def test_a_sparse_sample_is_read_like_a_dense_one() -> None:
    from scipy.sparse import csr_array

    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 5)) * (rng.random((80, 5)) < 0.5)
    y = (X @ rng.normal(size=5) > 0).astype(int)
    constants = tc.plan(100, 5, tc.graph.ring(4), 1.0).facts.constants
    dense, sparse = (PublicSample.of((table, y), constants, 5) for table in (X, csr_array(X)))
    assert sparse.mode == pytest.approx(dense.mode, rel=1e-6)
    assert sparse.precision_root == pytest.approx(dense.precision_root, rel=1e-6)


def test_a_public_sample_tunes_the_step_and_the_measured_risk_falls() -> None:
    X, y, count, graph = measured("breast_cancer")
    order = np.random.default_rng(1).permutation(len(y))
    problem = tc.Problem(
        tc.data.partition.even(X[order[count:]], y[order[count:]], 5), classes=(0, 1)
    )
    plan = tc.plan(problem.sizes, problem.dim, graph, 2.0)
    better = plan.tuned((X[order[:count]], y[order[:count]]))
    assert better.longer > 1 and better.forecast.step == pytest.approx(
        better.longer * plan.forecast.step, rel=1e-6
    )
    assert "public sample" in better.explain() and better.to_plain()["longer"] == better.longer
    assert all(c.plan.longer == better.longer for c in better.what_if())
    at_once = tc.plan(
        problem.sizes, problem.dim, graph, 2.0, public=(X[order[:count]], y[order[:count]])
    )
    assert at_once.method == better.method and at_once.public_records == count
    assert (
        f"{count} records. They were declared public: they have no protection, "
        "and nothing is charged" in at_once.explain()
    )
    assert (
        "no record was read" in plan.explain() and "no private record was read" in at_once.explain()
    )

    def risk(found: Any) -> float:
        runs = [
            tc.simulate(
                problem, graph, found.method, privacy=tc.Privacy(2.0), seed=s, record_every=0
            )
            for s in range(3)
        ]
        return float(np.mean([problem.objective(run.models).mean() for run in runs]))

    assert risk(better) < risk(plan) - 0.03


def test_a_declared_prevalence_is_that_of_the_stand_in_and_ranges_are_by_hand() -> None:
    """Of 3 % positive nearly all are classified; without it three shares are tried in turn."""
    from scipy.special import logit

    plan = tc.plan(2000, 6, tc.graph.ring(4), epsilon=1.0, row_scale=2.0)
    told, open_ = plan.predict(trials=3, prevalence=0.03), plan.predict(trials=3)
    assert told.accuracy is not None and open_.accuracy is not None
    assert told.accuracy.low > 0.95 and told.accuracy.high < 0.99
    assert open_.accuracy.low < 0.9 < 0.94 < open_.accuracy.high
    e, a = told.excess_risk, told.accuracy_range
    assert (told.range.low, told.range.high) == (0.4 * e.low, 6.0 * e.high)
    assert a is not None
    assert logit(a.low) == pytest.approx(logit(told.accuracy.low) - 1.6)
    assert logit(a.high) == pytest.approx(logit(told.accuracy.high) + 1.6)
    assert "share of 0.03" in told.explain() and "Expect" in told.explain()
    assert "in turn, a share of 0.5, 0.2, 0.05" in open_.explain()
    assert told.to_plain()["accuracy_range"]["low"] == a.low
    low, high = plan.forecast.range
    assert (low, high) == (0.3 * plan.forecast.excess_risk, 45.0 * plan.forecast.excess_risk)
    for wrong, words in ((0.0, "strictly between"), (1.5, "strictly between")):
        with pytest.raises(InputError, match=words):
            plan.predict(trials=1, prevalence=wrong)
    numbers = tc.plan(2000, 6, tc.graph.ring(4), epsilon=1.0, loss="squared", clip_norm=1.0)
    with pytest.raises(InputError, match="two classes"):
        numbers.predict(trials=1, prevalence=0.5)


@pytest.mark.parametrize("prevalence", [0.01, 0.5, 0.9])
def test_chances_have_the_prevalence(prevalence: float) -> None:
    scores = np.random.default_rng(0).normal(0, 3, 5000)
    b = predicting.centre(scores, prevalence)
    assert np.mean(1 / (1 + np.exp(-scores - b))) == pytest.approx(prevalence, rel=1e-6)
