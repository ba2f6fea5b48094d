"""Which method to use when, in plain sentences; docs/which-method.md says the same with the
experiment behind each."""

from __future__ import annotations


def lines() -> list[str]:
    """One sentence per situation, from the runs in docs/results.md."""
    return [
        "l2 or no regulariser, a smooth loss, up to 1000 features: leave it to 'auto', which takes "
        "TreeGD on whitened records: on Adult over 100 nodes 0.354 at epsilon 1 in 20 rounds, "
        "where no noise at all has 0.352.",
        "You trust that no more than q members combine what they know: "
        "GossipGD with noise shared by neighbours. It was the best at all four budgets of "
        "equal-privacy, 0.1 points below a trusted server at epsilon 1 and 0.9 at 0.1, "
        "though with more rounds on offer than the others. "
        "Give the network more edges than a ring (many-members).",
        "No such trust: DDP-ADMM or CDP-ADMM, level with each other, at epsilon 1; PVP and R-ADMM "
        "with output perturbation as well at 5. At epsilon 0.5 they are alike, and at 0.1 none of "
        "them beat the majority class on 100 nodes.",
        "Exact local solves and a smooth loss: PVP centred on released values up to epsilon 1, "
        "DVP at 5 (perturbation-tradeoff).",
        "Objective perturbation (DVP, penalty perturbation, R-ADMM): at equal penalties R-ADMM. "
        "With the account that knows the dimension neither the papers' l2-Laplace noise nor "
        "Gaussian noise is better at every budget, and neither is worse than one node alone.",
        "Inner steps (IPADMM): they help with a constant proximal weight. With the weight for "
        "which the paper proves its bound they help a little where T and D are small, "
        "and less than a longer step does.",
        "l1 regularisation and the last iterate: CDP-ADMM rather than DDP-ADMM.",
        "One record a round: rather all records in few rounds with a tuned step.",
        "Never: noise as published on real data.",
    ]
