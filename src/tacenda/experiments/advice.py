"""Which method to use when, in plain sentences; docs/which-method.md says the same with the experiment behind each."""

from __future__ import annotations


def lines() -> list[str]:
    """One sentence per situation, from the full runs in docs/results.md."""
    return [
        "You trust that no more than q members pool what they know: GossipGD with noise shared by neighbours. It was the best in 54 of 60 "
        "settings of equal-privacy and 0.4 points below a trusted server on average. Give the network more edges than a ring: on a ring of "
        "100 at epsilon 0.1 it was 5 points below, on a 6-regular graph 1.",
        "No such trust: CDP-ADMM or DDP-ADMM, level with each other and with DP-ADMM, which needs a hub; PVP at epsilon 5. GossipGD with "
        "independent noise and DP-DDA are close behind. At epsilon 0.1 none of them beat the majority class on 100 nodes by half a point.",
        "Exact local solves and a smooth loss: PVP centred on released values; its additive noise composes far better than noise in the "
        "objective.",
        "Objective perturbation (DVP, penalty perturbation, R-ADMM): in half of the settings worse than one node alone. If it must be: "
        "three rounds, R-ADMM a little ahead of the others, with growing penalties when there are many rounds.",
        "Inner steps (IPADMM): they help with a constant proximal weight, and not with the weight that the paper proves.",
        "l1 regularisation and the last iterate: CDP-ADMM rather than DDP-ADMM.",
        "One record a round: rather all records in few rounds with a tuned step.",
        "Never: noise as published on real data.",
    ]
