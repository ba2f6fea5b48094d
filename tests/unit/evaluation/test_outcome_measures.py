"""Measures of ordered classes and of times: against brute force and statsmodels on records, and
what a noisy table of counts tells of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from statsmodels.duration.survfunc import SurvfuncRight

from tacenda import losses
from tacenda.evaluation import measures
from tacenda.evaluation.outcome_measures import Outcomes
from tacenda.evaluation.private import PrivateEvaluation, counts_for
from tacenda.evaluation.private_run import offsets_of
from tacenda.questions.outcomes import OutcomeCounts, outcome_model
from tacenda.questions.statistics import Records, statistic_from_plain

T = 4
ORDINAL, HAZARD = losses.by_name("ordinal"), losses.by_name("discrete-hazard")
THETA = {"ordinal": np.array([1.5, 0.5, -0.5, -1.5]), "discrete-hazard": np.full(T, -1.2)}


def drawn(loss: str, n: int, seed: int, censored: bool = True) -> tuple[Any, Any, Any]:
    """(rows (n, 2) with a constant, outcomes (n,), weights (T, 2)) of a model that is right."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n)
    scores = s[:, None] + THETA[loss]
    if loss == "ordinal":
        cell = (rng.logistic(size=n)[:, None] < scores).sum(axis=1)
    else:
        event = rng.uniform(size=(n, T)) < expit(scores)
        first = np.where(event.any(axis=1), event.argmax(axis=1), T)
        # Last seen before some period, whatever happens in it
        seen = rng.integers(0, 2 * T, n) if censored else np.full(n, 2 * T)
        cell = np.where(first < np.minimum(seen, T), first, T + np.minimum(seen, T))
    return np.column_stack([s, np.ones(n)]), cell, np.column_stack([np.ones(T), THETA[loss]])


def test_concordance_is_that_of_all_pairs() -> None:
    for loss in (ORDINAL, HAZARD):
        rows, cell, weights = drawn(loss.name, 150, 0)
        o = Outcomes.of_records(loss, np.round(rows @ weights.T, 1), cell)
        right = pairs = 0.0
        for i in range(150):
            for j in range(150):
                if cell[i] >= T:
                    continue  # no event was seen, or the top class: nobody is above it
                # Above the class, or seen without the event beyond the end of the period
                beyond = cell[j] > cell[i]
                if loss is HAZARD:
                    beyond = cell[i] < cell[j] < T or cell[j] - T > cell[i]
                if beyond:
                    pairs += 1
                    right += (o.rank[i] > o.rank[j]) + 0.5 * (o.rank[i] == o.rank[j])
        assert o.pairs == pytest.approx((right, pairs))


def test_scores_without_censoring_are_plain_means() -> None:
    rows, cell, weights = drawn("ordinal", 300, 1)
    scores = rows @ weights.T
    found = measures.outcomes(cell, scores, "ordinal")
    above = expit(scores)
    each = ((above - (cell[:, None] > np.arange(T))) ** 2).mean(axis=0)
    assert found["ranked_probability"] == pytest.approx(each.mean())
    chances = -np.diff(np.column_stack([np.ones(300), above, np.zeros(300)]), axis=1)
    assert found["class_accuracy"] == pytest.approx(np.mean(chances.argmax(axis=1) == cell))
    rows, cell, weights = drawn("discrete-hazard", 300, 1, censored=False)
    left = np.cumprod(1 - expit(rows @ weights.T), axis=1)
    alive = np.where(cell[:, None] < T, cell[:, None] > np.arange(T), True)
    found = measures.outcomes(cell, rows @ weights.T, "discrete-hazard")
    assert found["brier_over_time"] == pytest.approx(((left - alive) ** 2).mean())


def test_observed_survival_is_that_of_kaplan_and_meier() -> None:
    rows, cell, weights = drawn("discrete-hazard", 500, 2)
    o = Outcomes.of_records(HAZARD, rows @ weights.T, cell)
    # Events at the end of their period; last seen just after a point
    time = np.where(cell < T, cell + 1.0, cell - T + 0.5)
    theirs = SurvfuncRight(time, (cell < T).astype(int))
    at = [
        theirs.surv_prob[np.searchsorted(theirs.surv_times, k, "right") - 1] for k in (1, 2, 3, 4)
    ]
    np.testing.assert_allclose(o.observed, at, rtol=1e-12)


def test_censoring_is_weighed_out() -> None:
    """With many records, scores of censored ones are those of all."""
    rows, cell, weights = drawn("discrete-hazard", 200_000, 3)
    _, whole, _ = drawn("discrete-hazard", 200_000, 3, censored=False)
    scores = rows @ weights.T
    found, wanted = (Outcomes.of_records(HAZARD, scores, c).brier for c in (cell, whole))
    assert (cell >= T).mean() > 0.5 > (whole >= T).mean()
    np.testing.assert_allclose(found, wanted, atol=0.004)


def evaluation(loss: str, cell: Any, rows: Any, weights: Any, std: float, seed: int) -> Any:
    k = T + 1 if loss == "ordinal" else 2 * T + 1
    asked = counts_for(losses.by_name(loss), k)
    assert isinstance(asked, OutcomeCounts) and statistic_from_plain(asked.to_plain()) == asked
    model = outcome_model(losses.by_name(loss), weights, k)
    matrix = model.reshape(k, -1)
    records = Records(rows, cell.astype(float), k, "multiclass", lambda w: rows @ matrix.T)
    vectors = asked.vectors(records, model)
    assert (np.linalg.norm(vectors, axis=1) <= 1).all() and (vectors >= 0).all()
    total = vectors.sum(axis=0) + std * np.random.default_rng(seed).normal(size=asked.length)
    offsets = offsets_of(asked, model, 1.0)
    return PrivateEvaluation(asked, total, std, len(cell), None, offsets=offsets)


@pytest.mark.parametrize("loss", ["ordinal", "discrete-hazard"])
def test_a_table_without_noise_tells_what_the_records_do(loss: str) -> None:
    rows, cell, weights = drawn(loss, 20_000, 4)
    found = evaluation(loss, cell, rows, weights, 0.0, 0)
    plain = measures.outcomes(cell, rows @ weights.T, loss)
    for name, value in plain.items():
        assert found.measures[name].value == pytest.approx(value, abs=0.02), name
    o = Outcomes.of_records(losses.by_name(loss), rows @ weights.T, cell)
    np.testing.assert_allclose([c["observed"]["value"] for c in found.cuts], o.observed, rtol=1e-9)
    np.testing.assert_allclose([c["predicted"] for c in found.cuts], o.predicted, atol=0.02)
    for one in found.calibration_at:
        for b in one["bins"]:
            if b["observed"] is not None and b["records"] > 400:
                near = 0.08
                assert b["low"] - near < b["observed"]["value"] < b["high"] + near
    again = PrivateEvaluation.from_plain(found.to_plain())
    assert again.to_plain() == found.to_plain()


@pytest.mark.parametrize("loss", ["ordinal", "discrete-hazard"])
def test_intervals_hold_as_often_as_they_say(loss: str) -> None:
    """Of other records of the same population, with noise: concordance, scores and shares."""
    rows, cell, weights = drawn(loss, 200_000, 5)
    truth = evaluation(loss, cell, rows, weights, 0.0, 0)
    names, held, trials = list(truth.measures), [], 40
    for k in range(trials):
        found = evaluation(loss, *_swapped(drawn(loss, 1500, 100 + k)), 4.0, k)
        inside = [m.low <= truth.measures[n].value <= m.high for n, m in found.measures.items()]
        inside += [
            c[w]["low"] <= t[w]["value"] <= c[w]["high"]
            for c, t in zip(found.cuts, truth.cuts, strict=True)
            for w in ("observed", "brier")
        ]
        held.append(inside)
    share = np.mean(held, axis=0)
    assert share.shape == (len(names) + 2 * T,)
    assert share.min() > 0.8 and share.mean() > 0.92, dict(zip(names, share, strict=False))


def _swapped(made: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    rows, cell, weights = made
    return cell, rows, weights


@pytest.mark.parametrize("loss", ["ordinal", "discrete-hazard"])
def test_intervals_have_two_ends_around_the_value(loss: str) -> None:
    found = evaluation(loss, *_swapped(drawn(loss, 20_000, 8)), 4.0, 0)
    for name, m in found.measures.items():
        assert 0 < m.low < m.value < m.high < 1, name
        assert m.high - m.value == pytest.approx(m.value - m.low), name


def test_too_much_noise_is_said() -> None:
    rows, cell, weights = drawn("ordinal", 300, 6)
    found = evaluation("ordinal", cell, rows, weights, 200.0, 0)
    assert not any(m.known for m in found.measures.values())
