"""DP-ADMM on a star, the baseline of Huang and Gong (2020) and Gauthier et al. (2020); the hub
holds data too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.hyperparameters import check_batch, check_hyperparameters
from tacenda.algorithms.needs import Needs
from tacenda.algorithms.node import Node
from tacenda.algorithms.published import Published, Sites, Verdict, concentrated_noise
from tacenda.algorithms.traits import Traits
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.schedules import Schedule, are_numbers, at


@dataclass(frozen=True)
class DPADMMState:
    """All (b, d): w the released models, dual, centre the hub's model as each node heard it."""

    w: Array
    dual: Array
    centre: Array


@dataclass(frozen=True)
class DPADMM(Algorithm):
    """Linearised ADMM with a coordinator (DP-ADMM), the baseline of two papers.

    The baseline of Huang and Gong (2020) and Gauthier et al. (2020), on a star or complete graph:

        w_i   <- (w_i/eta_t - grad f_i(w_i) + rho w + gam_i) / (rho + 1/eta_t) + N(0, std_t^2 I)
        w     <- mean(w_i) - mean(gam_i)/rho    (leaves send w_i - gam_i/rho, the hub the mean)
        gam_i <- gam_i - rho (w_i - w)

    Differs from the papers: the hub holds data like every other node.
    Guarantee: one Gaussian mechanism, mu^2 = sum_t (s_t/noise_std_t)^2 with s_t = 2Gc/(m (rho +
    1/eta_t)).

    Parameters
    ----------
    penalty : float or Schedule, default=0.1
        rho, a number or a schedule.
    proximal : float or Schedule, default=1.0
        1/eta_t, a number or a schedule.
    batch_size : int or None, default=None
        Mean size of Poisson samples; None takes all records.
    noise_decay : float, default=0.5
        Exponent p of a noise variance that falls as t^-p (1/2 in the original; 0 keeps it
        constant).

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.DPADMM(noise_decay=0.0).penalty
    0.1
    """

    name: ClassVar[str] = "dpadmm"
    title: ClassVar[str] = "DP-ADMM (star)"
    source: ClassVar[str] = "the baseline of Huang and Gong (2020) and Gauthier et al. (2020)"
    needs: ClassVar[Needs] = Needs(hub=True)
    verdict: ClassVar[Verdict | None] = Verdict(
        "baseline of Huang and Gong (2020), Gauthier et al. (2020)",
        "sound if bounded",
        "Per-round (epsilon, delta) with bounded gradients.",
        "One Gaussian mechanism over the run, mu^2 = sum (s/noise_std)^2; clipping where "
        "gradients are unbounded.",
    )

    penalty: float | Schedule = 0.1
    proximal: float | Schedule = 1.0
    batch_size: int | None = None
    noise_decay: float = 0.5

    def __post_init__(self) -> None:
        check_hyperparameters(
            self, positive=("penalty", "proximal"), at_least_zero=("noise_decay",)
        )
        check_batch(self)

    def init(self, node: Node, w: Array) -> DPADMMState:
        return DPADMMState(w, 0 * w, w)

    def step(self, s: DPADMMState, node: Node) -> DPADMMState:
        t, hub = node.turn, node.is_hub
        rho, prox = at(self.penalty, t), at(self.proximal, t)
        pull = rho * s.centre + s.dual + prox * s.w
        query = -node.gradient(s.w, self.batch_size)
        w = node.release((query + pull) / (rho + prox), relative_std=self.relative_std(t))
        sent = w - s.dual / rho
        mean = hub * (sent + node.neighbour_sum(sent, senders=1 - hub)) / node.n_nodes
        centre = mean + (1 - hub) * node.neighbour_sum(mean, senders=hub)
        return DPADMMState(w, s.dual - rho * (w - centre), centre)

    @property
    def traits(self) -> Traits:
        repeats = are_numbers(self.penalty, self.proximal)
        return replace(super().traits, repeats_releases=repeats)

    def relative_std(self, turn: int) -> float:
        return float(turn ** (-self.noise_decay / 2))

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        """As in the figures of Gauthier et al. (2020), whose baseline it is: at the same total
        phi."""
        return concentrated_noise(facts, sites, weights, privacy)

    def spends(self, facts: Facts, degree: Array, rounds: int) -> Array:
        moved = facts.gradient_sensitivity()[:, None]
        units = [
            (self.relative_std(t) * (at(self.penalty, t) + at(self.proximal, t))) ** -2
            for t in range(1, rounds + 1)
        ]
        return np.asarray(moved**2 * sum(units))

    def iterate(self, s: DPADMMState) -> Array:
        return s.centre
