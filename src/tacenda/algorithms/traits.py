"""What the rest of the program asks of an algorithm, said in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """Facts about a method that the rest of the program needs to run, charge and describe it.

    `Algorithm.traits` says them; a subclass changes what differs:
    `return replace(super().traits, mixes_only=True)`.

    Parameters
    ----------
    steps_per_round : int, default=1
        Passes over a node's records in one round.
    exchanges_per_round : int, default=1
        Messages that a node sends to each neighbour in one round.
    sample : {"all", "poisson", "one"}, default="all"
        Which records a round asks: all, a Poisson sample, or exactly one.
    noise_in_objective : bool, default=False
        True if a release draws its noise inside an objective.
    masks : bool, default=False
        True if neighbours hide their messages under masks that cancel in the network's sum.
    joins_groups : bool, default=False
        True if its masked means may be those of several groups, joined by a public rule.
    edge_noise : float or None, default=None
        Noise of a node on each edge over its own, where neighbours share Gaussian noise.
    repeats_releases : bool, default=False
        True if, with these settings, every round makes the releases of the first over again; they
        may differ in `relative_std` alone. Their noise is then worked out from two rounds instead
        of all. A claim that is not true ends the run before the first release that differs. It
        counts only for the class that also has the `step`: a class with its own step says its
        traits again.
    keeps_secret : bool, default=False
        True if the state holds an unreleased value, as in one paper; it is never saved.
    uses_start : bool, default=True
        True if a given starting model matters; otherwise the method starts at its own.
    mixes_only : bool, default=False
        True if neighbours exchange models by `node.mix` alone, so that edges may vary.
    exact_means_only : bool, default=False
        True if models depend on what nodes release through exact means over the network only, and
        the sensitivity of each release falls with the node's size as a gradient's does.
    reaches_consensus : bool, default=False
        True if every node ends a round with the same model; no closing rounds are needed then.
    tuned_by_release : bool, default=False
        True if clip and step may be chosen from what was released before the first round. The noise
        is then in units of the sensitivity, and the step in units of 1/smoothness.
    learns : bool, default=False
        True if round 1 begins with a release of its own, from which all others follow
        (`Algorithm.learn`).

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.IPADMM(inner_steps=5).traits.steps_per_round
    5
    """

    steps_per_round: int = 1
    exchanges_per_round: int = 1
    sample: str = "all"
    noise_in_objective: bool = False
    masks: bool = False
    joins_groups: bool = False
    edge_noise: float | None = None
    repeats_releases: bool = False
    keeps_secret: bool = False
    uses_start: bool = True
    mixes_only: bool = False
    exact_means_only: bool = False
    reaches_consensus: bool = False
    tuned_by_release: bool = False
    learns: bool = False

    @property
    def shared_noise(self) -> float | None:
        """Noise of a node on each edge over its own; infinite under masks, None if not shared."""
        return math.inf if self.masks else self.edge_noise
