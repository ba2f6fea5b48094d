"""The total step that predicts best on a public sample; private records are not touched, and
nothing is charged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tacenda.planning.predict import predict
from tacenda.planning.what_if import again

if TYPE_CHECKING:
    from tacenda.planning.outcome import Plan

SHORTEST, LONGEST = 1 / 16, 16.0
WORTH = 0.97  # a change must lower the predicted excess risk to this share: less is chance


def tuned(plan: Plan, public: Any, trials: int = 2, seed: int = 0) -> Plan:
    """The plan with the total step of `best_length`; all are tried on the same stand-in data."""
    made = {plan.longer: plan}

    def risk(longer: float) -> float:
        if longer not in made:
            made[longer] = again(plan, longer=longer)
        return predict(made[longer], public, trials, seed).excess_risk.mean

    return replace(made[best_length(risk, plan.longer)], public_records=len(public[1]))


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
