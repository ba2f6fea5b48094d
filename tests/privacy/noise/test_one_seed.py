"""Two questions with one seed share no noise: their difference has the noise of both. The same
question again is the same answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms import StatisticRelease
from tacenda.errors import WeakPrivacyWarning
from tacenda.questions.statistics import Count

BUDGET = tc.Privacy(1.0, 1e-5, coalition=1)
GRAPH = tc.graph.complete(4)


def problem_of(records: int = 400, seed: int = 0) -> tc.Problem:
    data = tc.data.make_classification(records, 3, seed=seed)
    shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    return tc.Problem(shards, classes=(0, 1))


def evaluated(model: Any, problem: tc.Problem, **more: Any) -> Any:
    found = tc.evaluate_privately(model, problem, GRAPH, BUDGET, seed=7, **more)
    exact = tc.evaluate_privately(model, problem, GRAPH, None, **more)
    return found, found.total - exact.total


def test_evaluations_of_two_models_share_no_noise() -> None:
    problem = problem_of()
    found, first = evaluated(np.zeros(3), problem)
    _, second = evaluated(np.full(3, 1e-7), problem)
    assert found.noise > 5
    assert np.std(first - second) > found.noise / 2
    again, same = evaluated(np.zeros(3), problem)
    assert np.array_equal(found.total, again.total) and np.array_equal(first, same)


def test_evaluations_that_differ_in_one_record_or_term_share_no_noise() -> None:
    """What is said of one record is said of the difference of two answers, if they share noise."""
    data = tc.data.make_classification(400, 3, seed=0)
    labels = data.y.copy()
    labels[0] = 1 - labels[0]
    one, other = (
        tc.Problem([(data.X[k::4], y[k::4]) for k in range(4)], classes=(0, 1))
        for y in (data.y, labels)
    )
    found, first = evaluated(np.zeros(3), one)
    _, second = evaluated(np.zeros(3), other)
    assert np.std(first - second) > found.noise / 2
    _, third = evaluated(np.zeros(3), one, noise="independent")
    assert np.std(first - third) > found.noise / 2


@pytest.mark.filterwarnings(f"ignore::{WeakPrivacyWarning.__module__}.WeakPrivacyWarning")
def test_intervals_at_two_models_share_no_noise() -> None:
    from tacenda.algorithms.statistic import StatisticRelease
    from tacenda.inference.asking import ask, statistic_of

    problem = problem_of(2000)
    trained = tc.simulate(problem, GRAPH, "treegd", 5, privacy=BUDGET, seed=0, metrics=())
    asked = statistic_of(problem, "robust")

    def noise_at(result: Any) -> Any:
        runs = [
            ask(StatisticRelease(asked), result, problem, GRAPH, terms, 3, None, None)
            for terms in (BUDGET, None)
        ]
        return runs[0].released["total"] - runs[1].released["total"], runs[0].released["noise"][0]

    moved = replace(trained, models=trained.models + 1e-9)
    (first, std), (second, _) = noise_at(trained), noise_at(moved)
    assert np.std(first - second) > float(std) / 2
    assert np.array_equal(first, noise_at(trained)[0])


def test_a_statistic_shares_no_noise_with_another_or_with_a_training() -> None:
    problem = problem_of()

    def released(statistic: Any) -> Any:
        run = tc.simulate(problem, GRAPH, StatisticRelease(statistic), 1, BUDGET, 5, metrics=())
        exact = tc.simulate(problem, GRAPH, StatisticRelease(statistic), 1, None, 5, metrics=())
        return run.released["total"] - exact.released["total"], run.released["noise"][0]

    from tacenda.evaluation.private import counts_for

    (one, std), (two, other) = released(Count()), released(counts_for(problem.loss, 2))
    # In units of the noise, which is what a stream gives
    assert abs(one[0] / std - two[0] / other) > 1e-3
