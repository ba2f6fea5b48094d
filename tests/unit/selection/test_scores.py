"""Scores of candidates on records, against scikit-learn's own; their bound, against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import norm
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, mean_squared_error

from tacenda.errors import InputError
from tacenda.questions.statistics import Records, enforced, statistic_from_plain
from tacenda.selection import CandidateScores, ways_to_search

RNG = np.random.default_rng(3)


def records(kind: str, labels: np.ndarray, rows: np.ndarray, outputs: int = 1) -> Records:
    return Records(
        rows, labels, outputs, kind, lambda w: rows @ w.reshape(outputs, rows.shape[1]).T
    )


def test_scores_of_two_classes_are_those_of_scikit_learn() -> None:
    rows, labels = RNG.normal(size=(200, 3)), RNG.choice([-1.0, 1.0], 200)
    models = tuple(tuple(w) for w in RNG.normal(size=(4, 3)))
    found = {
        name: CandidateScores(models, name).vectors(records("binary", labels, rows), np.zeros(3))
        for name in ("accuracy", "neg_log_loss", "neg_brier_score")
    }
    for k, w in enumerate(models):
        chance, truth = expit(rows @ np.array(w)), labels > 0
        assert found["accuracy"][:, k].mean() + 0.5 == pytest.approx(
            accuracy_score(truth, chance > 0.5)
        )
        assert 0.5 - found["neg_brier_score"][:, k].mean() == pytest.approx(
            brier_score_loss(truth, chance)
        )
        small = np.where(truth, chance, 1 - chance) > 0.01  # the others count as ln 100
        loss = (0.5 - found["neg_log_loss"][:, k]) * math.log(100)
        assert loss[small].mean() == pytest.approx(
            log_loss(truth[small], chance[small], labels=[False, True])
        )
        assert np.all(loss[~small] == math.log(100))


def test_scores_of_three_classes_and_of_numbers() -> None:
    rows, known = RNG.normal(size=(100, 2)), RNG.integers(0, 3, 100)
    w = RNG.normal(size=(3, 2))
    chance = softmax(rows @ w.T, axis=1)
    three = records("multiclass", known.astype(float), rows, 3)
    models = (tuple(w.ravel()),)
    right = CandidateScores(models, "accuracy").vectors(three, w)[:, 0] + 0.5
    assert np.array_equal(right, (chance.argmax(axis=1) == known).astype(float))
    loss = (0.5 - CandidateScores(models, "neg_log_loss").vectors(three, w)[:, 0]) * math.log(100)
    assert np.allclose(loss, np.minimum(-np.log(chance[np.arange(100), known]), math.log(100)))
    brier = 0.5 - CandidateScores(models, "neg_brier_score").vectors(three, w)[:, 0]
    assert np.allclose(brier, ((chance - np.eye(3)[known]) ** 2).sum(axis=1) / 2)

    y = np.clip(rows @ [0.2, -0.1] + RNG.normal(size=100) * 0.1, -1, 1)
    asked = CandidateScores(((0.2, -0.1),), "neg_mean_squared_error")
    squares = (0.5 - asked.vectors(records("regression", y, rows), w)[:, 0]) * 0.25
    assert squares.mean() == pytest.approx(
        mean_squared_error(y, np.clip(rows @ [0.2, -0.1], -1, 1)), rel=1e-9
    )


@pytest.mark.parametrize(
    ("scoring", "power"), [("neg_mean_absolute_error", 1), ("neg_mean_squared_error", 2)]
)
def test_errors_of_numbers_are_in_halves_of_the_range(scoring: str, power: int) -> None:
    """Cut to the range as predictions are, and the largest error that there can be scores 0."""
    rows = np.linspace(-2, 2, 41)[:, None]
    y = np.where(np.arange(41) % 2, 0.8, -1.7)
    found = CandidateScores(((1.0,),), scoring)
    scores = found.vectors(records("regression", y, rows), np.zeros(1))[:, 0] + 0.5
    error = np.abs(np.clip(rows[:, 0], -1, 1) - np.clip(y, -1, 1)) ** power
    np.testing.assert_allclose(scores, 1 - np.minimum(error / found.largest, 1), atol=1e-12)


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "neg_mean_absolute_error"])
def test_no_record_moves_the_sum_by_more_than_sqrt_k(scoring: str) -> None:
    odd = [0.0, 1.0, -1e300, 1e300, np.inf, -np.inf, np.nan, 5e-324]
    rows = np.array([[a, b] for a in odd for b in odd])
    kind = "regression" if scoring == "neg_mean_absolute_error" else "binary"
    labels = np.resize([-1.0, 1.0, np.nan, np.inf], len(rows))
    models = ((1.0, 0.0), (-1.0, 1e300), (0.0, -1.0), (3.0, 3.0), (0.0, 0.0))
    asked = CandidateScores(models, scoring)
    with np.errstate(all="ignore"):
        raw = asked.vectors(records(kind, labels, rows), np.zeros(2))
    vectors = enforced(raw, len(rows), asked)
    assert np.array_equal(raw, vectors)  # it keeps its own bound: nothing is cut
    assert np.linalg.norm(vectors, axis=1).max() <= asked.norm
    moved = np.linalg.norm(vectors[:, None] - vectors[None], axis=2).max()
    assert moved <= 2 * asked.norm == pytest.approx(math.sqrt(len(models)))


def test_what_is_refused_and_what_is_kept() -> None:
    asked = CandidateScores(((1.0, 2.0), (3.0, 4.0)), "accuracy")
    assert statistic_from_plain(asked.to_plain()) == asked
    asked.check(2, 1, "binary")
    with pytest.raises(InputError, match="weights"):
        asked.check(3, 1, "binary")
    with pytest.raises(InputError, match="scoring"):
        asked.check(2, 1, "regression")
    with pytest.raises(InputError, match="scoring"):
        CandidateScores(((1.0,),), "roc_auc")
    with pytest.raises(InputError, match="finite"):
        CandidateScores(((math.nan,),), "accuracy")
    with pytest.raises(InputError, match="length"):
        CandidateScores(((1.0,), (1.0, 2.0)), "accuracy")


def test_ways_to_search_leave_what_they_say() -> None:
    ways = {way.name: way for way in ways_to_search(4, 1.0, 1e-5)}
    # mu of (1, 1e-5) is 0.26805 (Dong, Roth and Su 2022, Corollary 1, solved by hand)
    assert ways["composition"].mu == pytest.approx(0.26805 / 2, rel=1e-4)
    assert (ways["composition"].found, ways["composition"].trainings) == (1, 4)
    for way in ways.values():
        e, mu = way.epsilon, way.mu
        delta = norm.cdf(-e / mu + mu / 2) - math.exp(e) * norm.cdf(-e / mu - mu / 2)
        assert delta == pytest.approx(1e-5, rel=1e-6)
    assert ways["geometric"].mu > ways["composition"].mu
    assert ways["geometric"].found == pytest.approx(0.9)
    assert ways["geometric"].trainings == pytest.approx(27, rel=0.01)  # (1-z)/(1/m...) by hand
    assert [way.name for way in ways_to_search(1, 1.0, 1e-5)] == ["composition"]
