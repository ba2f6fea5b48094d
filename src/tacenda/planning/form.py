"""Whether records can carry curves: what noise is forecast to cost them, against what it may cost.

The limits were measured (docs/decisions/0044): below them curves gained on most tables, and far
above them noise took more than the bends gave. They say nothing about whether a table has bends,
which only its records know.
"""

from __future__ import annotations

from tacenda.planning.outcome import Plan

# Excess risk: in nats of a record, and of numbers in half squares of half the declared range
MOST_NATS, MOST_SQUARES = 0.1, 0.005


def carries_curves(plan: Plan) -> tuple[bool, str]:
    """Whether to take the additive form, whose plan this is, and why, in a sentence."""
    loss, cost = plan.facts.constants.loss, plan.forecast.excess_risk
    limit = MOST_SQUARES if loss.predicts in ("value", "quantile") else MOST_NATS
    carried = cost <= limit
    said = f"{cost:.2g} of excess risk, {'at most' if carried else 'above'} {limit:g}"
    if carried:
        return True, f"curves: noise is forecast to cost them {said}"
    return False, f"straight lines: noise is forecast to cost curves {said}"
