"""Dual and primal variable perturbation: the two private ADMMs of Zhang and Zhu (2016)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.admm import ADMMState, check_own_strength, midpoint, with_own
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.hyperparameters import check_hyperparameters
from tacenda.algorithms.needs import Needs
from tacenda.algorithms.node import Node
from tacenda.algorithms.published import Published, PublishedPlan, Sites, Verdict, claimed_level
from tacenda.algorithms.traits import Traits
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.secrets.mechanisms import ObjectiveNoise, Site
from tacenda.privacy.secrets.noise_plan import of_nodes
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.schedules import PerNode, Schedule, at

OBJECTIVE_NOISES = ("l2-laplace", "gaussian")  # inside an argmin


@dataclass(frozen=True, eq=False)
class DynamicPlan(PublishedPlan):
    """The noise of Zhang and Zhu (2016) as published.

    DVP  ah = alpha - 2 ln(1 + c1 c/(m kappa)); zeta = ah (line 5)
         if ah > 0 no extra convexity, else Phi for alpha/4 and ah = alpha/2
    PVP  zeta = rho m alpha / (2c), centred on the node's own unreleased iterate

    own: (b,) or a number, what a node adds to r in rho (in kappa it is already).
    """

    own: float | Array = 0.0

    def objective(self, site: Site) -> ObjectiveNoise:
        assert site.objective is not None
        terms, alpha = site.objective, self.epsilon * site.weight
        ah = alpha - 2 * terms.log_curvature(terms.convexity)
        quarter = np.maximum(
            terms.least_convexity(np.broadcast_to(alpha / 4, (self.facts.n,))) - terms.convexity,
            0.0,
        )
        rate = np.where(ah > 0, ah, alpha / 2) * (
            self.facts.sizes / self.facts.constants.loss_scale
        )
        return ObjectiveNoise(rate, np.where(ah > 0, 0.0, quarter), None)

    def laplace_rate(self, site: Site) -> Array:
        k, alpha = self.facts.constants, self.epsilon * site.weight
        rho = k.strong_convexity + self.own
        return np.asarray(rho * self.facts.sizes * alpha / (2 * k.loss_scale))

    def rows(self, nodes: Array) -> DynamicPlan:
        kept = super().rows(nodes)
        assert isinstance(kept, DynamicPlan)
        return replace(kept, own=of_nodes(self.own, nodes))


@dataclass(frozen=True)
class DVP(Algorithm):
    """Dual variable perturbation, Zhang and Zhu (2016), Algorithm 2, (15)-(19), Theorem 1.

        e ~ density exp(-zeta |e|)
        w_i   <- argmin f_i(w) + 2 lam_i.w + (c/m_i) e.w + (Phi/2)|w|^2
                        + eta sum_j |w - (w_i + w_j)/2|^2
        broadcast w_i;   lam_i <- lam_i + (eta/2) sum_j (w_i - w_j)

    Differs from the paper: zeta = ah/2 under replace-one (its line 5 has ah, which doubles the
    loss); Phi is the smallest value with ln(1 + c1 c/(m kappa)) <= alpha/2, one power and no jump
    at ah = 0; the solver's gap gets noise of its own.
    Guarantee: pure alpha per round given the past; a whole run costs the composition of its rounds,
    and that is reported. Gaussian noise: the Renyi bound of `privacy.accounting.renyi`.

    Parameters
    ----------
    penalty : float or Schedule, default=0.5
        eta, a number or a schedule.
    noise : {"l2-laplace", "gaussian"}, default="l2-laplace"
        Density of the noise inside the objective: as in the paper, or e ~ N(0, s^2 I) in place of
        (c/m_i) e, far less of it at the same (epsilon, delta) where the model is long.
    own_strength : float or PerNode, default=0.0
        rho_i - r: what a node adds to the problem's strength r (section 3.1), a number or one for
        each node.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.DVP().traits.noise_in_objective
    True
    """

    name: ClassVar[str] = "dvp"
    title: ClassVar[str] = "ADMM with dual variable perturbation (DVP)"
    source: ClassVar[str] = "Zhang and Zhu (2016), Algorithm 2, (15)-(19)"
    needs: ClassVar[Needs] = Needs(
        smooth_loss=True,
        twice_differentiable_loss=True,
        smooth_regulariser=True,
        bounded_loss_slope=True,
    )
    verdict: ClassVar[Verdict | None] = Verdict(
        "Zhang and Zhu (2016), Alg. 2",
        "unsound",
        "Line 5 (zeta = ah) doubles the loss of every round under replace-one; a statement about "
        "one round is sold as the run's.",
        "zeta = ah/2; the composition over all rounds is reported; the solver's gap is charged.",
    )

    penalty: float | Schedule = 0.5
    noise: str = "l2-laplace"
    own_strength: float | PerNode = 0.0

    def __post_init__(self) -> None:
        check_hyperparameters(self, positive=("penalty",))
        check_own_strength(self)
        checks.one_of("DVP.noise", self.noise, OBJECTIVE_NOISES)

    def init(self, node: Node, w: Array) -> ADMMState:
        return ADMMState(w, 0 * w, node.degree * w)

    def step(self, s: ADMMState, node: Node) -> ADMMState:
        eta, deg = at(self.penalty, node.turn), node.degree
        pull = with_own(self.own_strength, eta * deg, midpoint(s.w, s.heard, deg))
        w = node.release_argmin(2 * s.dual, *pull, noise=self.noise)
        heard = node.neighbour_sum(w)
        return ADMMState(w, s.dual + (eta / 2) * (deg * w - heard), heard)

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        alpha, largest = claimed_level(privacy, "alpha", weights)
        why = (
            "The claim is about one round given the past, not the run; "
            "and line 5 of Algorithm 2 (zeta = ah) doubles even that round's loss under "
            "replace-one: the proof needs ah/2."
        )
        return Published(DynamicPlan(facts, weights, alpha), (largest, 0.0), why)

    def published_form(self) -> DVP:
        super().published_form()
        return replace(self, noise="l2-laplace")

    def iterate(self, s: ADMMState) -> Array:
        return s.w


@dataclass(frozen=True)
class PVPState:
    """shared (b, d) the released V, dual, heard; hidden: the unreleased w, as published."""

    shared: Array
    dual: Array
    heard: Array
    hidden: Any = None


@dataclass(frozen=True)
class PVP(Algorithm):
    """Primal variable perturbation, Zhang and Zhu (2016), Algorithm 3, (22)-(24), Theorem 2.

        w_i <- argmin f_i(w) + 2 lam_i.w + eta sum_j |w - (V_i + V_j)/2|^2
        V_i <- w_i + e_i;   broadcast V_i;   lam_i <- lam_i + (eta/2) sum_j (V_i - V_j)

    Differs from the paper: every centre uses released values, so that one round's sensitivity is
    (2Gc/m + 2 tol)/(sc + 2 eta deg) instead of 2c/(m r), far less noise. With centre="hidden" the
    declared sensitivity follows the hidden iterate, and tends to the paper's 2c/(m r).
    Guarantee: additive noise, so the rounds compose by the l2-Laplace (or Gaussian) curve, far
    below the sum of their epsilons.

    Parameters
    ----------
    penalty : float or Schedule, default=0.5
        eta, a number or a schedule.
    noise : {"l2-laplace", "gaussian"}, default="l2-laplace"
        "l2-laplace" is the paper's.
    closing_dvp : bool, default=False
        The last round is one of DVP, as in line 15 of the paper's Algorithm 3: around the released
        V, or with centre="hidden" around (w_i + V_j)/2 as printed. It is charged like any other.
    centre : {"released", "hidden"}, default="released"
        "hidden" is the published form: the centre is (w_i - e_i + V_j)/2 with the node's own
        unreleased w_i. A closing round around it costs a multiple of what the paper says.
    own_strength : float or PerNode, default=0.0
        rho_i - r: what a node adds to the problem's strength r (section 3.1), a number or one for
        each node.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.PVP(centre="hidden").traits.keeps_secret
    True
    """

    name: ClassVar[str] = "pvp"
    title: ClassVar[str] = "ADMM with primal variable perturbation (PVP)"
    source: ClassVar[str] = "Zhang and Zhu (2016), Algorithm 3, (22)-(24)"
    needs: ClassVar[Needs] = Needs(
        smooth_loss=True, smooth_regulariser=True, bounded_loss_slope=True
    )
    verdict: ClassVar[Verdict | None] = Verdict(
        "Zhang and Zhu (2016), Alg. 3",
        "unsound as a whole",
        "Intermediate rounds have enough noise by accident (two errors of the proof cancel); "
        "Theorem 2 without C^R and a last round centred on an unreleased iterate are unsound; the "
        "run's composition is not stated.",
        "Centred on released values: sensitivity 2Gc/(m (sc + 2 eta deg)), far less noise, and "
        "the l2-Laplace curve.",
    )

    penalty: float | Schedule = 0.5
    noise: str = "l2-laplace"
    closing_dvp: bool = False
    centre: str = "released"
    own_strength: float | PerNode = 0.0

    def __post_init__(self) -> None:
        check_hyperparameters(self, positive=("penalty",))
        check_own_strength(self)
        checks.one_of("PVP.noise", self.noise, OBJECTIVE_NOISES)
        checks.one_of("PVP.centre", self.centre, ("released", "hidden"))

    def init(self, node: Node, w: Array) -> PVPState:
        return PVPState(w, 0 * w, node.degree * w)

    def step(self, s: PVPState, node: Node) -> PVPState:
        eta, deg = at(self.penalty, node.turn), node.degree
        centre: Any = midpoint(s.shared, s.heard, deg)
        if self.closing_dvp and node.turn == node.rounds:
            if s.hidden is not None:  # (w_i + V_j)/2 moves the centre by half of w_i - V_i
                centre = 0.5 * s.hidden + (centre - 0.5 * s.shared)
            pull = with_own(self.own_strength, eta * deg, centre)
            v = node.release_argmin(2 * s.dual, *pull, noise=self.noise)
            hidden = None
        else:
            # (w_i - e_i + V_j)/2 with e_i = V_i - w_i moves the centre by w_i - V_i
            if s.hidden is not None:
                centre = s.hidden + (centre - s.shared)
            w = node.argmin(2 * s.dual, *with_own(self.own_strength, eta * deg, centre))
            v = node.release(w, noise=self.noise)
            hidden = w if self.centre == "hidden" else None
        heard = node.neighbour_sum(v)
        return PVPState(v, s.dual + (eta / 2) * (deg * v - heard), heard, hidden)

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        alpha, largest = claimed_level(privacy, "alpha", weights)
        own = np.ravel(at(self.own_strength, 1))
        if facts.constants.strong_convexity + own.min() <= 0:
            raise UnsupportedError(
                "PVP as published divides by the regulariser's strength; "
                "use 'l2' with a strength above 0."
            )
        why = (
            "The claim is about one round given the past, not the run; "
            "a run costs the composition of all its rounds."
        )
        plan = DynamicPlan(facts, weights, alpha, own if len(own) > 1 else float(own[0]))
        return Published(plan, (largest, 0.0), why)

    def published_form(self) -> PVP:
        super().published_form()
        return replace(self, centre="hidden", noise="l2-laplace")

    def spends(self, facts: Facts, degree: Array, rounds: int) -> float:
        return laplace_spends(facts, rounds) if self.noise == "l2-laplace" else float(rounds)

    @property
    def traits(self) -> Traits:
        return replace(
            super().traits,
            keeps_secret=self.centre == "hidden",
            noise_in_objective=self.closing_dvp,
        )

    def iterate(self, s: PVPState) -> Array:
        return s.shared

    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        super().check(facts, topology, rounds, private)
        if self.closing_dvp and private and not facts.constants.loss.twice_differentiable:
            raise InputError(
                "PVP.closing_dvp needs a twice differentiable loss ('logistic', 'multinomial'); "
                "leave it False."
            )


def laplace_spends(facts: Facts, rounds: int) -> float:
    """What l2-Laplace noise on values costs at scale 1, as mu^2: about 1/d a release, since its
    loss is the shift's part along the noise, which has a random direction in d dimensions."""
    return rounds / facts.dim
