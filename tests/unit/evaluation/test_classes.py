"""Which class is positive, what each class gets, and from what probability on it is predicted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

import tacenda as tc
from tacenda.errors import InputError
from tacenda.evaluation import figures
from tacenda.evaluation.private import PrivateEvaluation
from tacenda.questions.counts import ClassCounts


def test_recall_and_precision_of_each_class_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, 3, 200), rng.normal(size=(200, 3))
    guessed = scores.argmax(axis=1)
    found = figures.classification(truth, scores, ("a", "b", "c"), probabilities=True)
    how = {"labels": [0, 1, 2], "average": None}
    wanted = metrics.recall_score(truth, guessed, **how)
    np.testing.assert_allclose([c["recall"] for c in found["classes"]], wanted)
    wanted = metrics.precision_score(truth, guessed, **how)
    np.testing.assert_allclose([c["precision"] for c in found["classes"]], wanted)
    assert found["positive"] is None


def test_a_class_that_nobody_has_or_is_given_has_neither() -> None:
    found = figures.classification([0, 0], [-1.0, -2.0], ("no", "yes"), probabilities=True)
    assert found["positive"] == "yes"
    assert found["classes"][1] == {"class": "yes", "recall": None, "precision": None}


def test_the_positive_class_becomes_the_second() -> None:
    data = tc.data.make_classification(50, 2, seed=0)
    first = data.classes[0]
    turned = data.with_positive(first)
    assert turned.classes == (data.classes[1], first)
    np.testing.assert_array_equal(turned.y, 1 - data.y)
    assert data.with_positive(data.classes[1]) is data
    with pytest.raises(InputError, match="positive must name one of a label's two classes"):
        data.with_positive("maybe")


def evaluation(seed: int = 0) -> tuple[PrivateEvaluation, np.ndarray, np.ndarray]:
    """Exact counts of 5,000 records whose scores are calibrated."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(1.0, 4.0, 5000)
    truth = rng.random(5000) < chance
    counts = ClassCounts(2)
    edges = np.array([0.0, *counts.edges, 1.0])
    table = np.array([np.histogram(chance[truth == c], edges)[0] for c in (False, True)])
    total = np.zeros(counts.length)
    total[: table.size] = table.ravel() / counts.factors()["scores"]
    assert round(counts.parts(total)["scores"].sum()) == 5000
    return PrivateEvaluation(counts, total, 0.0, 5000, None, ("no", "yes")), chance, truth


@pytest.mark.parametrize("cost", [0.5, 1.0, 4.0, 9.0])
def test_the_threshold_has_the_least_cost_of_all_declared_ones(cost: float) -> None:
    found, chance, truth = evaluation()
    chosen = found.threshold(missed_cost=cost)

    def paid(at: float) -> float:
        return float(((chance >= at) & ~truth).sum() + cost * ((chance < at) & truth).sum())

    edges = found.statistic.edges  # type: ignore[union-attr]
    assert paid(chosen["threshold"]) == min(paid(at) for at in edges)
    # Of calibrated chances the best threshold is 1/(1 + cost)
    assert abs(chosen["threshold"] - 1 / (1 + cost)) < 0.15
    assert chosen["recall"]["value"] == pytest.approx((chance >= chosen["threshold"])[truth].mean())


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_the_threshold_flags_no_more_than_asked(share: float) -> None:
    found, chance, _ = evaluation()
    chosen = found.threshold(flagged=share)
    assert chosen["flagged"]["value"] == pytest.approx((chance >= chosen["threshold"]).mean())
    assert chosen["flagged"]["value"] <= share
    lower = [at for at in found.statistic.edges if at < chosen["threshold"]]  # type: ignore[union-attr]
    assert all((chance >= at).mean() > share for at in lower)


def test_a_threshold_needs_one_wish_and_two_classes() -> None:
    found, _, _ = evaluation()
    for wish in ({}, {"missed_cost": 2.0, "flagged": 0.1}):
        with pytest.raises(InputError, match="either missed_cost or flagged"):
            found.threshold(**wish)
    with pytest.raises(InputError, match="missed_cost"):
        found.threshold(missed_cost=-1.0)
