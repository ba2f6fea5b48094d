"""Which method to use when, in plain sentences; docs/which-method.md says the same with the
experiment behind each."""

from __future__ import annotations


def lines() -> list[str]:
    """One sentence per situation, from the full runs in docs/results.md."""
    return [
        "l2 or no regulariser, a smooth loss, up to 1000 features: leave it to 'auto', which takes "
        "TreeGD on whitened records: on Adult over 100 nodes 0.354 at epsilon 1 in 20 rounds, "
        "where no noise at all has 0.352.",
        "You trust that no more than q members combine what they know: "
        "GossipGD with noise shared by neighbours. It was the best in 54 of 60 settings of "
        "equal-privacy, 0.2 points below a trusted server at epsilon 1 and 1.2 at 0.1, "
        "though with more rounds on offer than the others. "
        "Give the network more edges than a ring: on a ring of 100 at epsilon 0.1 it was 4 to 5 "
        "points below, on a 6-regular graph 0 to 1.",
        "No such trust: CDP-ADMM or DDP-ADMM, level with each other and with DP-ADMM, "
        "which needs a hub; PVP at epsilon 5. GossipGD with independent noise and "
        "DP-DDA are close behind. At epsilon 0.1 none of them beat the majority class "
        "on 100 nodes by half a point.",
        "Exact local solves and a smooth loss: PVP centred on released values; "
        "its additive noise composes far better than noise in the objective.",
        "Objective perturbation (DVP, penalty perturbation, R-ADMM): with the papers' l2-Laplace "
        "noise in half of the settings worse than one node alone, with Gaussian noise in none and "
        "always better than that; R-ADMM with output perturbation is better still. "
        "With l2-Laplace noise few rounds (3 did better than 10), and growing penalties when there "
        "are many.",
        "Inner steps (IPADMM): they help with a constant proximal weight. With the weight for "
        "which the paper proves its bound they help a little where T and D are small, "
        "and less than a longer step does.",
        "l1 regularisation and the last iterate: CDP-ADMM rather than DDP-ADMM.",
        "One record a round: rather all records in few rounds with a tuned step.",
        "Never: noise as published on real data.",
    ]
