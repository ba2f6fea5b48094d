"""Audits of runs that map their records by what they have released: whitened ones, and regression
by moments. Every trial has a map of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.auditing import audit, audit_one_run
from tacenda.auditing.attack import _scene
from tacenda.auditing.portion import maps, run_portion, trials_at_once
from tacenda.auditing.stage import candidates, default_problem
from tacenda.errors import UnsupportedError
from tacenda.questions.facts import Facts

A = tc.algorithms
TERMS = tc.Privacy(4.0, 1e-5, coalition=1)
MAPPED = (
    A.Whitened(A.CDPADMM()),
    A.Whitened(A.TreeGD(noise="independent")),
    A.Whitened(A.TreeGD()),
    A.MomentRegression(noise="independent"),
    A.MomentRegression(),
)


def scene_of(algorithm: Any, privacy: tc.Privacy = TERMS, rounds: int = 3) -> Any:
    return _scene(
        algorithm, privacy, rounds, None, None, 10, None, None, None, "metropolis", 1, 1e-8, 1
    )


@pytest.mark.parametrize(
    "algorithm",
    MAPPED,
    ids=[
        "whitened cdpadmm",
        "whitened treegd, independent",
        "whitened treegd",
        "moments, independent",
        "moments",
    ],
)
def test_every_trial_has_a_map_of_its_own(algorithm: Any) -> None:
    """Trials know nothing of each other: played in any order they have the same scores."""
    scene = scene_of(algorithm)
    pair = candidates(scene.problem, None, "replace-one", 1)[0]
    script = scene.script(pair)
    assert maps(script) and trials_at_once(script) == 1
    plain = scene_of(A.CDPADMM())
    assert not maps(plain.script(candidates(plain.problem, None, "replace-one", 1)[0]))
    alone = [run_portion(script, first, 1).scores for first in (3, 2)]
    again = [run_portion(script, first, 1).scores for first in (2, 3)]
    np.testing.assert_array_equal(alone[0], again[1])
    np.testing.assert_array_equal(alone[1], again[0])
    assert not np.array_equal(alone[0], alone[1])


@pytest.mark.parametrize("algorithm", MAPPED[::3], ids=lambda one: one.title)
def test_scores_are_exact_likelihood_ratios(algorithm: Any) -> None:
    """Whose mean of exp(score) is 1 in world 0: also along each trial's own map."""
    found = audit(algorithm, privacy=TERMS, rounds=2, trials=400, seed=1)
    assert found.verdict == "consistent"
    for world, sign in ((0, 1.0), (1, -1.0)):
        found_mean = np.exp(sign * found.scores[found.truth == world]).mean()
        assert found_mean == pytest.approx(1.0, abs=0.35)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [MAPPED[1], MAPPED[3]], ids=lambda one: one.title)
def test_a_moment_with_too_little_noise_is_broken(
    algorithm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a record that is there or not, which moves the moment by all that it may."""
    terms = tc.Privacy(4.0, 1e-5, "add-remove")
    sound = audit(algorithm, privacy=terms, rounds=2, trials=1500, seed=2)
    assert sound.verdict == "consistent"
    honest = Facts._moment_distance
    monkeypatch.setattr(Facts, "_moment_distance", lambda self, *how: honest(self, *how) / 12)
    assert audit(algorithm, privacy=terms, rounds=2, trials=1500, seed=2).verdict == "broken"


def test_what_is_not_followed_is_refused_by_name() -> None:
    for inner in (A.DVP(), A.GossipGD()):
        with pytest.raises(UnsupportedError, match="audits do not follow together"):
            scene_of(A.Whitened(inner))
    problem = default_problem(A.CDPADMM(), 8, 10, "replace-one")
    with pytest.raises(UnsupportedError, match=r"tacenda\.audit"):
        audit_one_run(problem, tc.graph.ring(8), A.Whitened(A.CDPADMM()), privacy=TERMS, rounds=2)
