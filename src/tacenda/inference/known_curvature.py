"""The curvature of the loss at a released model, as far as public numbers tell it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacenda._types import Floats
from tacenda.algorithms.quadratic import ridge_of
from tacenda.algorithms.whitening import MOMENT, MOMENT_FLOOR
from tacenda.inference.newton import identifiable
from tacenda.inference.statistics import GradientMoments
from tacenda.questions.facts import Facts
from tacenda.questions.moments import unpacked
from tacenda.runtime.result import RunResult

SAME = 1e-6  # relative difference of eigenvalues that were raised to one floor
RARE = "; less shows where few records carry a column's large values"
HALF = 0.5  # of the most that hidden directions may vary: a guess of what they do


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of the curvature.

    guess   (d, d), with as much as a direction may have where a run's noise hides it
    sure    (d, d), with nothing there; None: nothing is hidden
    uneven  (d, d), with half of the guesses' sum there, as a stick that is broken at random
    hidden  (d, h), those directions
    assumed on what it stands, in a few words
    """

    guess: Floats
    sure: Floats | None
    uneven: Floats
    hidden: Floats
    assumed: str


def known_curvature(
    asked: GradientMoments,
    facts: Facts,
    result: RunResult,
    redundant: Floats,
    constant: Floats | None,
    declared: Floats | None,
) -> Known:
    """Return what public numbers tell. redundant, constant, declared: of `Design`."""
    d = asked.n_features
    released = _released(result)
    if released is not None:
        moment, floor = released
        assumed = "by the second moment that the run released"
    elif declared is not None:
        moment, floor, assumed = declared, -1.0, "if values fill their declared ranges evenly"
    else:
        moment, floor = np.eye(d) * (asked.data_norm**2 / d), -1.0
        assumed = "if features vary as much as their norm allows, in all directions alike"
    if not asked.quadratic:
        assumed += RARE
    bend = _mean_second(asked, facts, result, constant, moment)
    q, _ = identifiable(redundant, d)
    e, vectors = np.linalg.eigh(q.T @ moment @ q)
    lost = e <= floor * (1 + SAME)
    count = int(lost.sum())
    if not count:
        return Known(bend * moment, None, bend * moment, np.zeros((d, 0)), assumed)
    vectors = q @ vectors
    parts = np.where(lost, 0.0, e)
    sure = (vectors * parts) @ vectors.T
    parts[lost] = HALF * float(e[lost].sum()) * broken_stick(count)
    uneven = (vectors * parts) @ vectors.T
    return Known(bend * moment, bend * sure, bend * uneven, vectors[:, lost], assumed)


def broken_stick(count: int) -> Floats:
    """Mean lengths of the parts, the shortest first, of a stick of length 1 that is broken at
    random (Barton and David 1956)."""
    return np.cumsum(1.0 / np.arange(count, 0, -1)) / count


def _released(result: RunResult) -> tuple[Floats, float] | None:
    """(d, d) the rows' second moment as the run released it, and up to which variance it is a
    guess."""
    told = result.released
    if MOMENT in told:
        moment = unpacked(np.asarray(told[MOMENT], float))
        return moment, float(told[MOMENT_FLOOR][0])
    if not {"vectors", "values", "noise"} <= set(told):
        return None
    vectors, values = np.asarray(told["vectors"], float), np.asarray(told["values"], float)
    d, std = len(values), float(told["noise"][0])
    # The form holds eigenvalues without their noise, plus half its edge. What is found below the
    # edge may be noise; a variance of more than half of it would be found above
    half = ridge_of(d, std)
    c = float(result.settings["problem"]["loss_scale"])
    found = np.maximum(values - half, half) / c
    return (vectors * found) @ vectors.T, (2 * half if std > 0 else -1.0) / c


def _mean_second(
    asked: GradientMoments, facts: Facts, result: RunResult, constant: Floats | None, moment: Floats
) -> float:
    """Return the mean of the loss's second derivative at the released model, for scores of normal
    shape; for losses whose derivative depends on the label, a typical one."""
    loss = facts.constants.loss
    if loss.kind == "regression" and not loss.is_likelihood:
        if loss.predicts == "log-rate":
            return loss.typical.curvature
        return float(min(loss.curvature, 1.0))
    w = np.asarray(result.model, float).reshape(-1)
    mean = 0.0 if constant is None else float(w @ moment @ constant)
    variance = max(float(w @ moment @ w) - mean**2, 0.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    scores = mean + math.sqrt(variance) * nodes
    second = np.array(loss.second(scores, np.ones(len(scores))))  # type: ignore[attr-defined]
    return float(np.clip(weights @ second / weights.sum(), 0.0, loss.curvature))
