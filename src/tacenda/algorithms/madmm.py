"""M-ADMM: each round its own penalty; private by penalty perturbation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.admm import ADMMState, midpoint
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.hyperparameters import check_hyperparameters
from tacenda.algorithms.needs import Needs
from tacenda.algorithms.node import Node
from tacenda.algorithms.perturbation import OBJECTIVE_NOISES
from tacenda.algorithms.published import Published, Sites, Verdict
from tacenda.algorithms.recycled import recycled_noise
from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.schedules import PerNode, Schedule, at


@dataclass(frozen=True)
class MADMM(Algorithm):
    """ADMM with non-decreasing penalties eta_i(t) of the nodes and a dual step theta (M-ADMM).

    The baseline of Zhang et al. (2018):

        w_i   <- argmin_w f_i(w) + 2 lam_i.w + eta_i(t) sum_j |w + e_i - (w_i + w_j)/2|^2
        lam_i <- lam_i + (theta/2) sum_j (w_i - w_j)

    Private form (penalty perturbation): the noise e_i inside the penalty adds the linear term 2
    eta_i deg_i e_i.w, that is, objective perturbation. A growing penalty damps the noise in w.
    Differs from the paper: the noise is calibrated by its rate in the objective, so that a round
    costs what its share of the budget says, and Phi/2 |w|^2 is added where the curvature term alone
    would cost more than half of it.
    Guarantee: pure epsilon per round, 2Gc/m times the noise's rate plus ln(1 + c1 c/(m kappa)),
    kappa = sc + Phi + 2 eta deg; the rounds compose. Gaussian noise: `privacy.accounting.renyi`.

    Parameters
    ----------
    penalty : float, Schedule or PerNode, default=0.5
        eta_i(t), a number or a schedule; or one for each node, as a list, an array (n,) or
        (rounds, n), or `schedules.PerNode`.
    dual_step : float or None, default=None
        theta, by default the smallest eta_i(1); it must not exceed any eta_i(t).
    noise : {"l2-laplace", "gaussian"}, default="l2-laplace"
        Density of the noise inside the objective: as in the paper, or Gaussian, far less of it at
        the same (epsilon, delta) where the model is long.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.MADMM(penalty=tc.schedules.Geometric(0.5, 1.01)).private
    True
    """

    name: ClassVar[str] = "madmm"
    title: ClassVar[str] = "M-ADMM (penalty perturbation)"
    source: ClassVar[str] = "the baseline of Zhang et al. (2018)"
    needs: ClassVar[Needs] = Needs(
        smooth_loss=True,
        twice_differentiable_loss=True,
        smooth_regulariser=True,
        bounded_loss_slope=True,
    )
    verdict: ClassVar[Verdict | None] = Verdict(
        "baseline of Zhang et al. (2018)",
        "loose",
        "Pure loss of the rounds is added up, with a loose curvature term.",
        "Exact curvature term ln(1 + c1 c/(m kappa)), extra convexity where it pays, an "
        "account that knows the model's length.",
    )

    penalty: float | Schedule | PerNode = 0.5
    dual_step: float | None = None
    noise: str = "l2-laplace"

    def __post_init__(self) -> None:
        check_hyperparameters(self, positive=("penalty",), per_node=("penalty",))
        if self.dual_step is not None:
            check_hyperparameters(self, positive=("dual_step",))
        checks.one_of("MADMM.noise", self.noise, OBJECTIVE_NOISES)

    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        super().check(facts, topology, rounds, private)
        values = np.array([np.ravel(at(self.penalty, t)) for t in range(1, rounds + 1)])
        theta, of = self._theta(), " of node {!r}" if values.shape[1] > 1 else ""
        falls = np.argwhere(np.diff(values, axis=0) < 0)
        if len(falls):
            who = of.format(topology.labels[falls[0, 1]])
            raise InputError(
                f"MADMM.penalty{who} must not decrease from round to round; "
                "use ADMM or a growing schedule."
            )
        least = int(np.argmin(values[0]))
        if theta > values[0, least] * (1 + 1e-12):
            who = of.format(topology.labels[least])
            raise InputError(
                f"MADMM.dual_step must be at most the first penalty{who} "
                f"{values[0, least]:g}, not {theta:g}: a larger one diverges."
            )

    def _theta(self) -> float:
        """The same at every node: the duals then add up to 0."""
        first = np.min(at(self.penalty, 1)) if self.dual_step is None else self.dual_step
        return float(first)

    def at_nodes(self, positions: Array) -> MADMM:
        own = super().at_nodes(positions)
        assert isinstance(own, MADMM)
        return own if own is self else replace(own, dual_step=self._theta())

    def init(self, node: Node, w: Array) -> ADMMState:
        return ADMMState(w, 0 * w, node.degree * w)

    def step(self, s: ADMMState, node: Node) -> ADMMState:
        eta, theta, deg = at(self.penalty, node.turn), self._theta(), node.degree
        w = node.release_argmin(
            2 * s.dual, eta * deg, midpoint(s.w, s.heard, deg), noise=self.noise
        )
        heard = node.neighbour_sum(w)
        return ADMMState(w, s.dual + (theta / 2) * (deg * w - heard), heard)

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        """As Zhang et al. (2018) has it, drawn in the penalty: e there is 2 eta_i(t) deg_i e in the
        objective."""
        return recycled_noise(facts, sites, weights, privacy, in_penalty=True)

    def published_form(self) -> MADMM:
        super().published_form()
        return replace(self, noise="l2-laplace")

    def iterate(self, s: ADMMState) -> Array:
        return s.w
