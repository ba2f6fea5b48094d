"""What whitening cannot serve is refused in public, and what it may cost is said beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import run_spec
from tacenda.algorithms.whitened import Whitened
from tacenda.algorithms.whitening import Whitening
from tacenda.algorithms.whitening_limits import whitening_advice
from tacenda.errors import UnsupportedError
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts

A = tc.algorithms


def facts_for(d: int, **declared: Any) -> Facts:
    constants = Constants.declared(**{"loss": "logistic", "classes": 3, **declared})
    return Facts(np.full(4, 100.0), d * constants.n_outputs, constants)


def checked(facts: Facts, algorithm: Any = None, whitening: Any = None, **more: Any) -> Any:
    wrapped = Whitened(algorithm or A.TreeGD(), whitening or Whitening())
    topology = tc.graph.Topology.of(tc.graph.ring(4))
    return run_spec(wrapped, topology, facts, 5, **more).checked()


def test_what_cannot_be_mapped_is_refused_before_any_record_is_touched() -> None:
    for regulariser in ("l1", "elastic-net"):
        with pytest.raises(UnsupportedError, match="use 'l2' or 'none'"):
            checked(facts_for(3, regulariser=regulariser))
    with pytest.raises(UnsupportedError, match=r"up to 1000 features. Use kind='diagonal'"):
        checked(facts_for(1001), whitening=Whitening(kind="full"))
    with pytest.raises(UnsupportedError, match="get a diagonal one; leave it out"):
        checked(facts_for(1001), whitening=Whitening(rank=5))
    checked(facts_for(1001))
    checked(facts_for(1000), whitening=Whitening(rank=5))
    with pytest.raises(UnsupportedError, match=r"Whitening.rank must be left out"):
        checked(facts_for(3), A.PVP(), Whitening(rank=2))
    with pytest.raises(UnsupportedError, match="leave prepare out"):
        checked(facts_for(3), A.IPADMM(), privacy=tc.Privacy(1.0, mode="as-published"))
    with pytest.raises(UnsupportedError, match="smoothed-hinge"):
        checked(facts_for(3, loss="hinge"))
    checked(facts_for(3))


def test_advice_comes_with_a_diagonal_map_that_nobody_asked_for() -> None:
    ring = tc.graph.Topology.of(tc.graph.ring(4))
    for whitening, said in ((Whitening(), 1), (Whitening(kind="diagonal"), 0)):
        advice = Whitened(A.TreeGD(), whitening).advice(facts_for(1001), ring, 5)
        assert sum("only their mean squares are released" in one for one in advice) == said
    assert whitening_advice(Whitening(), facts_for(1000)) == []


@pytest.mark.parametrize(("bound", "said"), [(31.0, 0), (32.0, 1)])
def test_advice_comes_with_counts_far_above_the_typical_one(bound: float, said: int) -> None:
    """Steps serve a mean of 8 times the typical count: labels of 4 times that may have more."""
    facts = facts_for(3, loss=tc.losses.by_name("poisson", label_bound=bound), classes=None)
    advice = whitening_advice(Whitening(), facts)
    assert len(advice) == said
    assert all("The largest count is 32 times the typical one" in one for one in advice)
