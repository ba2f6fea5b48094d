"""Test metrics agree with a hand computation, for two classes, three classes and a regression."""

from __future__ import annotations

import numpy as np
import pytest

import support
import tacenda as tc


@pytest.mark.parametrize(("task", "loss"), [("binary", "logistic"), ("classes", "multinomial")])
def test_test_accuracy_and_loss(task: str, loss: str) -> None:
    problem = support.problem(4, task=task, loss=loss)
    x, y = support.shards([50], seed=9, task=task)[0]
    run = tc.simulate(
        problem,
        tc.graph.ring(4),
        tc.algorithms.GossipGD(noise="independent"),
        5,
        metrics=("test_accuracy", "test_loss"),
        test=(x, y),
    )
    scores = np.atleast_2d(run.model) @ x.T
    classes = np.array(problem.classes)
    guessed = (
        classes[scores.argmax(axis=0)]
        if task == "classes"
        else classes[(scores[0] >= 0).astype(int)]
    )
    assert run.history.rows[-1]["test_accuracy"] == pytest.approx(np.mean(guessed == y))
    if task == "binary":
        sign = np.where(y == classes[1], 1.0, -1.0)
        by_hand = np.mean(np.log1p(np.exp(-sign * scores[0])))
    else:
        by_hand = np.mean(np.log(np.exp(scores).sum(axis=0)) - scores[y, np.arange(len(y))])
    assert run.history.rows[-1]["test_loss"] == pytest.approx(by_hand)


def test_regression_test_loss() -> None:
    problem = support.problem(4, task="regression", loss="squared")
    x, y = support.shards([50], seed=9, task="regression")[0]
    run = tc.simulate(
        problem,
        tc.graph.ring(4),
        tc.algorithms.GossipGD(noise="independent", step_size=0.5),
        5,
        metrics=("test_loss",),
        test=(x, y),
    )
    assert run.history.rows[-1]["test_loss"] == pytest.approx(np.mean((x @ run.model - y) ** 2) / 2)
