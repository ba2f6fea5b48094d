"""A large public offset must not round what the noise has not covered: it is added to the noisy
value, never to the secret."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import seal
from tacenda.privacy.secrets.door import Door, Question, SharedNoise
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.privacy.secrets.mechanisms import ObjectiveTerms
from tacenda.privacy.secrets.noise_plan import ScaledPlan

HUGE = 2.0**62  # whose neighbours among the doubles are 1024 apart
D = 40


def door(source: Any) -> Door:
    plan = ScaledPlan(np.ones(1), np.ones(3), np.ones(1), 0)
    shared = SharedNoise((np.array([0, 1]), np.array([0]), np.array([1.0])), 2.0)
    return Door(np.zeros(1, np.int64), D, plan, Ledger(None), source, shared)


def keyed() -> KeyedNoise:
    noise = KeyedNoise(KeyChain.begin(bytes(32)), "a run", floating_point=True)
    noise.share(lambda k: KeyChain.begin(bytes([k]) * 32), "a run and its members")
    return noise


def released(source: Any, secret: float, noise: str) -> Any:
    value = seal(np.full((1, D), secret), np.array([1.0]), asked=b"one question") * 1.0 + np.full(
        (1, D), HUGE
    )
    return door(source).release(value, 1, 0, noise, None)


@pytest.mark.parametrize("noise", ["gaussian", "correlated", "l2-laplace"])
def test_the_noisy_value_is_rounded_and_not_the_secret(noise: str) -> None:
    """With the secret just below and at the middle between two doubles, rounding it first gives two
    answers 1024 apart, however small the difference. Rounding value and noise together gives both
    answers for both secrets, by chance."""
    middle = 512.0
    below, at = (released(keyed(), middle + shift, noise) for shift in (-1.0, 1.0))
    assert set(np.unique(below)) == set(np.unique(at)) == {HUGE, HUGE + 1024.0}


def test_the_simulator_does_the_same_with_shared_noise() -> None:
    below, at = (released(SimulatedNoise(3), 512.0 + shift, "correlated") for shift in (-1.0, 1.0))
    assert set(np.unique(below)) == set(np.unique(at)) == {HUGE, HUGE + 1024.0}


def test_the_noise_for_the_solvers_gap_comes_before_the_offset() -> None:
    """What the solver leaves undone depends on the records;
    a large offset must not make it visible."""
    terms = ObjectiveTerms(
        np.ones(1), np.ones(1), lambda kappa: 0.1 / kappa, lambda logarithm: 0.1 / logarithm, 0.24
    )

    def answer(undone: float) -> Any:
        question = Question(
            terms,
            (1, D),
            lambda noise, extra: (np.full((1, D), 512.0 + undone), np.full((1, D), HUGE)),
            b"one question",
        )
        return door(keyed()).release_argmin(question, 1, 0)

    below, at = answer(-1.0), answer(1.0)
    # Offset first: they differ in every coordinate
    assert len(np.unique(at)) > 1 and np.mean(below != at) < 0.2
