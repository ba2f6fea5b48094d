"""Numbers and their nouns: one is one wherever a result, a plan or a report speaks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.words import counted, noun

ONE_OF_MANY = re.compile(
    r"\b1 (closing )?(mixing rounds|mixings|rounds|nodes|seeds|members|records|edges|"
    r"messages|features|trials|canaries|rows|columns)\b"
)


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("round",), "1 round"),
        (0, ("round",), "0 rounds"),
        (3, ("canary", "canaries"), "3 canaries"),
        (1, ("canary", "canaries"), "1 canary"),
    ],
)
def test_counted(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text and text.endswith(noun(number, *words))


def test_a_plan_of_one_mixing_says_so() -> None:
    plan = tc.plan(50, 3, tc.graph.complete(4), 8.0, regulariser="elastic-net")
    said = plan.explain()
    assert (
        "1 mixing a round" in said
        and "1 closing mixing " in said
        and "1 closing mixing brings" in said
    )
    assert not ONE_OF_MANY.search(said) and not ONE_OF_MANY.search(plan.predict(trials=1).explain())


def test_the_smallest_run_is_worded_right_everywhere() -> None:
    from tacenda.graph.topology import Topology
    from tacenda.report.card import model_card

    problem = tc.Problem([(np.zeros((1, 1)), np.array([1]))] * 2, classes=(-1, 1))
    result = tc.simulate(
        problem, tc.graph.path(2), "dpdda", 1, privacy=tc.Privacy(1.0), seed=0, finish_mixing=1
    )
    audited = tc.audit(
        "dpdda", privacy=tc.Privacy(1.0), rounds=1, trials=100, seed=0, progress=False
    )
    texts: list[Any] = [
        result,
        result.history,
        result.privacy,
        model_card(result),
        audited.summary(),
        Topology.of(tc.graph.path(2)),
    ]
    for text in map(str, texts):
        assert not ONE_OF_MANY.search(text), text
    assert (
        "1 round" in str(result)
        and "1 edge" in model_card(result)
        and "1 closing mixing round," in model_card(result)
    )
