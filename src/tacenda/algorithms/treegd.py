"""Gradient descent on the network's exact mean gradient: our own; every node holds one model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.hyperparameters import check_hyperparameters
from tacenda.algorithms.needs import Needs
from tacenda.algorithms.node import Node
from tacenda.algorithms.proximal import proximal_descent, tail_weight
from tacenda.algorithms.published import Verdict
from tacenda.algorithms.traits import Traits
from tacenda.errors import InputError
from tacenda.privacy.accounting.final_model import Descent
from tacenda.questions.facts import Facts
from tacenda.schedules import Schedule, at

NOISES = ("masked", "independent")
# Where the curvature is a guess: a mean gradient that points against the last one, by so much of
# their lengths' product, says that steps overshoot, and halves them
AGAINST = 0.1


@dataclass(frozen=True)
class TreeState:
    """x (b, d): the model; agreed (b, 1): 1.0 once it is the same row at every node. Where the
    curvature is a guess: the last mean gradient (b, d), and the share (b, 1) of the planned step
    that is taken."""

    x: Array
    agreed: Array
    last: Array | None = None
    share: Array | None = None


@dataclass(frozen=True)
class TreeGD(Algorithm):
    """Proximal gradient steps on the network's mean noisy gradient, summed over a spanning tree.

        x <- (1/n) sum_i x_i          (in round 1 and after a change of the members only: masks
                                       cancel between nodes that ask the same question)
        g <- (1/n) sum_i (grad loss_i(x) + noise_i)              (released once by each node)
        x <- prox_{eta r R}(x - eta g),   eta = step_size / L
        output: the average of the last `tail` share of the rounds

    L is the public smoothness of the loss: from the declared constants; after `Whitening` 1/L is
    the step with the least forecast risk on the released curvature, and longer for rare classes.
    After a diagonal map it is a guess, and halved when a mean gradient points against the last.
    Guarantee, masked: a sum of discrete Gaussians over the members that a coalition of at most
    `Privacy.coalition` leaves connected. Independent: exact Gaussian composition.

    Parameters
    ----------
    step_size : float or Schedule, default=1.0
        In units of 1/L, a number or a schedule.
    noise : {"masked", "independent"}, default="masked"
        "masked": each node adds whole-numbered noise of its own and, for every edge, a mask of
        which its neighbour adds the negative; only the sum over the network is ever readable,
        so that all nodes' noise hides each record. "independent": each node's message holds
        enough noise by itself, and needs no trust.
    tail : float, default=0.5
        Share of the rounds that is averaged, above 0 and at most 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.TreeGD(noise="independent").traits.masks
    False
    """

    name: ClassVar[str] = "treegd"
    title: ClassVar[str] = "TreeGD (exact averages over a tree)"
    source: ClassVar[str] = "ours"
    default_output: ClassVar[str] = "average"
    verdict: ClassVar[Verdict | None] = Verdict(
        "ours",
        "sound",
        "New here: exact averages of noisy gradients, under masks that cancel between neighbours.",
        "Masked: a sum of discrete Gaussians over what a coalition of the stated size leaves "
        "connected; independent: mu^2 = T/z^2.",
    )

    needs: ClassVar[Needs] = Needs(bounded_curvature=True)

    step_size: float | Schedule = 1.0
    noise: str = "masked"
    tail: float = 0.5

    def __post_init__(self) -> None:
        check_hyperparameters(self, positive=("step_size",))
        checks.one_of("TreeGD.noise", self.noise, NOISES)
        if not 0 < checks.positive("TreeGD.tail", self.tail) <= 1:
            raise InputError(f"TreeGD.tail must be above 0 and at most 1, not {self.tail!r}.")

    def init(self, node: Node, w: Array) -> TreeState:
        return TreeState(w, np.zeros_like(w[:, :1]))

    def step(self, s: TreeState, node: Node) -> TreeState:
        x = node.average(s.x, known=bool(s.agreed.all()))
        eta = at(self.step_size, node.turn) / node.facts.smoothness
        longer = node.facts.longer
        if longer is not None and x.shape[1] >= len(longer) > 1:  # not in a dry run
            eta = eta * np.repeat(longer, x.shape[1] // len(longer))
        worst = node.facts.worst_gradient_sensitivity
        unit = worst if math.isfinite(worst) else 1.0  # only without privacy
        kind = "masked" if self.noise == "masked" else "gaussian"
        g = unit * node.release_mean(node.gradient(x, regularised=False) / unit, noise=kind)
        agreed = np.ones_like(s.agreed)
        if not node.facts.smoothness_guessed:
            return TreeState(node.prox(x - eta * g, eta), agreed)
        share = agreed if s.share is None else s.share
        last = np.zeros_like(g) if s.last is None else s.last
        lengths = np.sqrt((g * g).sum(axis=1) * (last * last).sum(axis=1))
        against = (g * last).sum(axis=1) < -AGAINST * lengths
        share = np.where(against[:, None], share / 2, share)
        eta = eta * share
        return TreeState(node.prox(x - eta * g, eta), agreed, g, share)

    @property
    def traits(self) -> Traits:
        masks = self.noise == "masked"
        return replace(
            super().traits,
            masks=masks,
            joins_groups=masks,
            exact_means_only=not masks,
            reaches_consensus=True,
            tuned_by_release=True,
        )

    def descent(self, facts: Facts, rounds: int, output: str) -> Descent | None:
        steps = [at(self.step_size, t) / facts.smoothness for t in range(1, rounds + 1)]
        return proximal_descent(self, facts, steps, output)

    def iterate(self, s: TreeState) -> Array:
        return s.x

    def averaging_weight(self, turn: int, rounds: int) -> float:
        return tail_weight(turn, rounds, self.tail)
