"""The share of the budget for a released second moment, and the total step, that predict best on a
public sample; private records are not touched, and nothing is charged.

How the rest of the budget is divided over the rounds is not tried: where the share is right, no
shape of noise over the rounds was better than a constant one (docs/planner.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tacenda.algorithms.whitened import Whitened
from tacenda.planning.predict import predict
from tacenda.planning.what_if import again

if TYPE_CHECKING:
    from tacenda.planning.outcome import Plan

SHORTEST, LONGEST = 1 / 16, 16.0
SHARES = (0.03, 0.01)  # of the budget for a second moment, tried in turn instead of a tenth
WORTH = 0.97  # a change must lower the predicted excess risk to this share: less is chance


def tuned(plan: Plan, public: Any, trials: int = 2, seed: int = 0) -> Plan:
    """The plan with the best share of a second moment, then with the total step of `best_length`;
    all are tried on the same stand-in data."""
    best, least = plan, predict(plan, public, trials, seed).excess_risk.mean
    for share in SHARES:
        trial = _with_share(plan, share)
        lower = math.inf if trial is plan else predict(trial, public, trials, seed).excess_risk.mean
        if lower > WORTH * least:
            break
        best, least = trial, lower
    made, risks = {plan.longer: best}, {plan.longer: least}

    def risk(longer: float) -> float:
        if longer not in made:
            found = again(plan, longer=longer)
            if isinstance(best.algorithm, Whitened):
                found = _with_share(found, best.algorithm.whitening.share)
            made[longer] = found
            risks[longer] = predict(made[longer], public, trials, seed).excess_risk.mean
        return risks[longer]

    return replace(made[best_length(risk, plan.longer)], public_records=len(public[1]))


def _with_share(plan: Plan, share: float) -> Plan:
    """The plan with that share of the budget for its second moment; itself where it has none."""
    wrapped = plan.algorithm
    if not isinstance(wrapped, Whitened):
        return plan
    algorithm = replace(wrapped, whitening=replace(wrapped.whitening, share=share))
    return replace(plan, method=replace(plan.method, algorithm=algorithm))


def best_length(risk: Callable[[float], float], start: float = 1.0) -> float:
    """Double the total step as long as that predicts a lower excess risk; if the first doubling
    does not, halve it likewise."""
    best, least = start, risk(start)
    for factor in (2.0, 0.5):
        while SHORTEST <= best * factor <= LONGEST:
            found = risk(best * factor)
            if found > WORTH * least:
                break
            best, least = best * factor, found
        if best != start:
            break
    return best
