"""Which method to use when, in plain sentences; docs/which-method.md says the same at more length."""

from __future__ import annotations


def lines() -> list[str]:
    """One sentence per situation."""
    return [
        "Few records per node, and you trust that no more than q members pool what they know: GossipGD with "
        "noise shared by neighbours; its average model is "
        "nearly as good as a trusted server's, whatever the number of members.",
        "No such trust, smooth or non-smooth loss, any regulariser with a prox: the planner's choice, a "
        "linearised method on all records in few rounds "
        "(DP-DDA, or IPADMM with few inner steps).",
        "Exact local solves are affordable and the loss is smooth: PVP centred on released values; its "
        "additive noise composes far better than objective "
        "perturbation (DVP, penalty perturbation, R-ADMM), whose pure losses add up.",
        "A pure guarantee (delta = 0) is asked for: R-ADMM, which charges every second half-step only.",
        "l1 regularisation: DDP-ADMM or CDP-ADMM with the prox; CDP-ADMM when only the last iterate counts.",
        "Never: one record a round (002 as printed), PVP around its own unreleased iterate, and any noise as "
        "published on real data.",
    ]
