"""Noise inside an objective: what is solved is the objective that was charged for, with its noise
and its extra convexity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import shards
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.questions.facts import Facts
from tacenda.questions.queries import Queries

SIZES, R = [9, 15, 30], 0.2


def slope(part: Any, w: np.ndarray) -> np.ndarray:
    """The gradient of mean logistic loss + R/2 |w|^2."""
    x, y = part[0], np.where(part[1] == "yes", 1.0, -1.0)
    return R * w - (x * (y / (1 + np.exp(y * (x @ w))))[:, None]).mean(axis=0)


@pytest.mark.parametrize("noisy", [False, True])
def test_the_minimiser_is_that_of_the_whole_objective(noisy: bool) -> None:
    """grad f(w) + linear + noise + extra w + 2 q (w - centre) = 0,
    for every node with its own terms."""
    parts, rng = shards(SIZES, 4, seed=3), np.random.default_rng(1)
    data = tc.Problem(parts, strength=R, classes=("no", "yes"))
    queries = Queries(
        data.store, data.sizes, np.arange(3), Facts.of(data, tolerance=1e-11), SimulatedNoise(0)
    )
    linear, centre, noise = (rng.normal(size=(3, 4)) for _ in range(3))
    quadratic, extra = np.array([[0.4], [1.5], [0.1]]), np.array([0.7, 0.05, 2.0])
    w, offset = queries.question(linear, quadratic, centre).solve(
        *((noise, extra) if noisy else (None, None))
    )
    assert offset is None  # nothing here is large
    for i in range(3):
        left = slope(parts[i], w[i]) + linear[i] + 2 * quadratic[i] * (w[i] - centre[i])
        if noisy:
            left = left + noise[i] + extra[i] * w[i]
        np.testing.assert_allclose(left, 0, atol=1e-9)


@pytest.mark.parametrize("quadratic", [0.05, 3.0])
def test_up_to_the_answers_radius_a_last_place_is_an_eighth_of_the_tolerance(
    quadratic: float,
) -> None:
    """Half a last place of each of d coordinates, seen by the gradient through kappa and through
    the scores (curvature 1/4)."""
    data = tc.Problem(shards(SIZES, 4), strength=R, classes=("no", "yes"))
    facts = Facts.of(data, tolerance=1e-9)
    reach = facts.answer_radius(np.full((3, 1), quadratic))
    kappa = R + 2 * quadratic
    seen = (kappa + 0.25 * np.sqrt(4)) * np.sqrt(4) * reach * 2.0**-53
    assert np.all(reach < data.radius)
    np.testing.assert_allclose(seen, 1e-9 / 8, rtol=1e-12)
