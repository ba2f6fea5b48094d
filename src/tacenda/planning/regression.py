"""Least squares by its second moment (`algorithms.moments`) as a way to carry out a run.

Along an eigenvector of the risk's Hessian with eigenvalue h, let lambda be what the moment's noise
adds to the curvature (half its edge), a = lambda/(h + lambda), K the steps and t of them averaged:

    left undone     (mean of a^k over the last t steps)^2           of the squared distance
    noise           sum_j (what step j's noise still is in the average)^2 g^2/(size^2 (h + lambda))

with g the noise of one step's mean gradient on whitened records, whose expected norm is set by
size. Both noises follow from the budget: the moment has
`share` of mu^2, each step (1 - share)/K.

Rows are divided by the largest norm that they can have, so most are much shorter than 1. The noise
of the moment then makes steps short, and more of them are taken: their noise is averaged, and
costs little.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tacenda.algorithms.moments import MOST_FEATURES, MomentRegression
from tacenda.algorithms.quadratic import RIDGE
from tacenda.graph.cuts import least_components
from tacenda.planning.after_release import WORTH
from tacenda.planning.candidates import Candidate, Case
from tacenda.planning.outcome import Forecast
from tacenda.questions.facts import Facts
from tacenda.terms.method import Method

STEPS = (8, 15, 24, 40)  # Newton steps that are tried
SQUARE = 1 / 6  # of a row's largest norm, squared: values that fill half of their bounds
NEARLY = 1.05  # of the least forecast risk: the fewest steps that reach it are taken
HOPELESS = 2.0  # forecast risk over that of a model of zeros: so little budget asks for short steps


def serves(facts: Facts) -> bool:
    """Whether the problem is least squares of a size whose second moment may be sent."""
    return facts.constants.loss.quadratic and facts.dim <= MOST_FEATURES


def by_moments(case: Case, coalition: int | None) -> list[Candidate]:
    """MomentRegression for least squares: masked against a coalition of that size, with
    independent noise for None and where such a coalition leaves some member nearly alone; nothing
    for other losses, and where next to nothing can be learnt."""
    facts = case.facts
    if not serves(facts) or case.most < 2:
        return []
    noise = _average_noise(case, coalition)
    if coalition is not None and noise > WORTH * _average_noise(case, None):
        return by_moments(case, None)
    algorithm = MomentRegression(noise="independent" if coalition is None else "masked")
    rounds = case.most if case.fixed else min(case.most, _rounds(case, algorithm, noise))
    undone, noisy = excess(case, algorithm, noise, rounds)
    land = case.landscape
    if undone + noisy > HOPELESS * 0.5 * float(land.copies @ (land.eigenvalues * land.signal)):
        return []
    total = 2.0 * (rounds - 1) / float(case.landscape.eigenvalues.max())
    forecast = Forecast(total, total, rounds, noise, undone, noisy, case.mixing.second, 0.0)
    method = Method(algorithm, rounds, algorithm.default_output)
    return [Candidate(method, forecast, coalition)]


def _rounds(case: Case, algorithm: MomentRegression, noise: float) -> int:
    """The fewest rounds that come near the least risk for rows of typical length."""
    land = case.landscape
    shorter = replace(land, eigenvalues=SQUARE * land.eigenvalues, signal=land.signal / SQUARE)
    there = replace(case, landscape=shorter)
    risks = [sum(excess(there, algorithm, noise, 1 + steps)) for steps in STEPS]
    return 1 + next(s for s, risk in zip(STEPS, risks, strict=True) if risk <= NEARLY * min(risks))


def _average_noise(case: Case, coalition: int | None) -> float:
    """The noise of the network's mean gradient, were the whole budget one release."""
    n = case.facts.n
    if coalition is None:
        return float(np.sqrt(np.sum(case.node_noise**2)) / n)
    sizes, _ = least_components(case.topology, coalition)
    return float(np.max(case.node_noise / np.sqrt(sizes))) / math.sqrt(n)


def excess(
    case: Case, algorithm: MomentRegression, noise: float, rounds: int
) -> tuple[float, float]:
    """(left undone, noise): the two parts of the expected excess risk; see this module's text."""
    facts, land, steps = case.facts, case.landscape, rounds - 1
    ratio = facts.worst_moment_sensitivity() / facts.worst_gradient_sensitivity
    moment = facts.constants.loss_scale * ratio * noise / math.sqrt(algorithm.share)
    gradient = noise * math.sqrt(steps / (1 - algorithm.share))
    h = land.eigenvalues + land.convexity
    q = h + RIDGE * math.sqrt(2.0 * facts.dim) * moment
    size = math.sqrt(facts.constants.loss_scale / float(land.copies @ (h / q)))  # over SHORT
    # per unit of noise in a gradient that is clipped at SHORT of its clip_norm
    moved = 1 / (facts.constants.data_norm * size * np.sqrt(q))
    kept = 1 - h / q
    tail = max(1, round(algorithm.tail * steps))
    powers = kept[None, :] ** np.arange(steps + 1)[:, None]
    undone = powers[steps - tail + 1 :].mean(axis=0)
    still = [powers[max(0, steps - tail - j) : steps - j].sum(axis=0) / tail for j in range(steps)]
    variance = (gradient * moved) ** 2 * np.sum(np.square(still), axis=0)
    target = land.signal * (land.eigenvalues / h) ** 2
    weight = 0.5 * land.copies * h
    return float(weight @ (target * undone**2)), float(weight @ variance)
