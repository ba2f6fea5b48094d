"""Which method to use when, in plain sentences; docs/which-method.md says the same with the experiment behind each."""

from __future__ import annotations


def lines() -> list[str]:
    """One sentence per situation, from the reduced runs in docs/results.md."""
    return [
        "Few records per node, and you trust that no more than q members pool what they know: GossipGD with noise shared by neighbours on "
        "a well connected graph (6-regular or denser); on Adult it came near a trusted server from 10 to 1000 members. Not on a long ring.",
        "No such trust: a linearised method on all records (CDP-ADMM, DDP-ADMM, then GossipGD with independent noise and DP-DDA). On Adult "
        "with 100 nodes none of them beat the majority class at epsilon 0.1.",
        "Exact local solves and a smooth loss: PVP centred on released values; its additive noise composes better than objective "
        "perturbation (DVP, penalty perturbation, R-ADMM).",
        "Objective perturbation is wanted all the same: R-ADMM, with growing penalties; it beat DVP and penalty "
        "perturbation at equal truth.",
        "l1 regularisation and the last iterate: CDP-ADMM rather than DDP-ADMM.",
        "Never: noise as published on real data.",
    ]
