"""What a budget achieves, before any data is read:
`tacenda.plan(sizes, dim, graph, epsilon, delta)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.planning.named import plan_named
    from tacenda.planning.needed import Needed, records_needed
    from tacenda.planning.no_privacy import without_privacy
    from tacenda.planning.outcome import Forecast, Plan
    from tacenda.planning.planner import plan, plan_facts
    from tacenda.planning.predict import Prediction
    from tacenda.planning.trust import Adversary
    from tacenda.planning.what_if import Change

_HOMES = {
    "Adversary": "trust",
    "Change": "what_if",
    "Forecast": "outcome",
    "Needed": "needed",
    "Plan": "outcome",
    "Prediction": "predict",
    "plan": "planner",
    "plan_facts": "planner",
    "plan_named": "named",
    "records_needed": "needed",
    "without_privacy": "no_privacy",
}

__all__ = [
    "Adversary",
    "Change",
    "Forecast",
    "Needed",
    "Plan",
    "Prediction",
    "plan",
    "plan_facts",
    "plan_named",
    "records_needed",
    "without_privacy",
]

__getattr__ = lazily(__name__, _HOMES)
