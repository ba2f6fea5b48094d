"""Recycled ADMM: every second half-step reuses what was released, and costs no privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacenda.algorithms.admm import ADMMState
from tacenda.algorithms.base import Algorithm, Array, Needs, Node, check_hyperparameters, midpoint
from tacenda.algorithms.recycled_condition import convergence_advice
from tacenda.graph.topology import Topology
from tacenda.problem.facts import Facts
from tacenda.schedules import Schedule, at


@dataclass(frozen=True)
class RADMM(Algorithm):
    """Recycled ADMM, 001 (10)-(13), (28)-(30), Algorithms 1 and 2. One round is an odd and an even half-step.

        odd    w_i   <- argmin f_i(w) + 2 lam_i.w + e.w + eta sum_j |w - (w_i + w_j)/2|^2
               lam_i <- lam_i + (eta/2) sum_j (w_i - w_j)
        even   w_i   <- w_i - (G_i + 2 lam_i + eta sum_j (w_i - w_j)) / (2 eta deg_i + gamma),   lam_i unchanged

    penalty: eta, a number or a schedule (001 Fig. 3: geometric(1, 1.01)). recycle_proximal: gamma (0.2 in the paper).
    G_i = grad f_i + e is never stored: by the optimality of the odd step G_i = -2 lam_i(before) - eta sum_j (2 w_i(odd)
    - w_i(before) - w_j(before)), all released, so the even half-step is post-processing. (A stored gradient would leak the
    solver's residual.)
    Differs from the print: the loss of a round is (2Gc/m) a + ln(1 + c1 c/(m kappa)) instead of the looser published bound; where that
    logarithm would cost more than half of the round, Phi/2 |w|^2 is added (it then is part of G_i).
    Guarantee: pure epsilon per odd half-step; even ones are free; rounds compose.
    """

    name: ClassVar[str] = "radmm"
    title: ClassVar[str] = "Recycled ADMM (R-ADMM)"
    source: ClassVar[str] = "001 (10)-(13), (28)-(30)"
    needs: ClassVar[Needs] = Needs(
        smooth_loss=True, twice_differentiable_loss=True, smooth_regulariser=True, bounded_loss_slope=True
    )

    penalty: float | Schedule = 0.5
    recycle_proximal: float | Schedule = 0.2

    def __post_init__(self) -> None:
        check_hyperparameters(self, positive=("penalty",), at_least_zero=("recycle_proximal",))

    def init(self, node: Node, w: Array) -> ADMMState:
        return ADMMState(w, 0 * w, node.degree * w)

    def step(self, s: ADMMState, node: Node) -> ADMMState:
        eta, gamma, deg = at(self.penalty, node.turn), at(self.recycle_proximal, node.turn), node.degree
        odd = node.release_argmin(2 * s.dual, eta * deg, midpoint(s.w, s.heard, deg))
        heard = node.neighbour_sum(odd)
        dual = s.dual + (eta / 2) * (deg * odd - heard)
        recycled = -2 * s.dual - eta * (2 * deg * odd - deg * s.w - s.heard)
        w = odd - (recycled + 2 * dual + eta * (deg * odd - heard)) / (2 * eta * deg + gamma)
        return ADMMState(w, dual, node.neighbour_sum(w))

    def iterate(self, s: ADMMState) -> Array:
        return s.w

    def advice(self, facts: Facts, topology: Topology, rounds: int) -> list[str]:
        return convergence_advice(self.penalty, self.recycle_proximal, facts, topology)
