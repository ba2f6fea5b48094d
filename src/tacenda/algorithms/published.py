"""The papers' own noise formulas, for reproducing their figures: `Privacy(mode="as-published")`.

Each formula is written as printed, errors included; the run's ledger is charged what that noise truly costs, so the result
carries the claim and the truth side by side. Never for real data: a deployed node refuses this mode.

    000 IPADMM            z = c0 sqrt(2 T l ln(1.25/delta)) / epsilon
    001 R-ADMM, M-ADMM    epsilon = sum_k (2c/m) (a_k + 1.4 c1/(r + 2 eta deg)), noise exp(-a_k |e|) in the objective
                          (M-ADMM: in the penalty)
    002 DP-DDA            noise_std^2 = 12 L^2 T ln(1/delta) / (m epsilon)^2 on the gradient of one record
    003 DVP               ah = alpha - 2 ln(1 + c1 c/(m kappa)); if ah > 0 no extra convexity, else Phi for alpha/4 and
                          ah = alpha/2; zeta = ah (line 5)
    003 PVP               zeta = r m alpha / (2c), centred on the node's own unreleased iterate
    004 CDP-, DDP-, DP-ADMM   phi_t = s_t^2/(2 noise_std_t^2), epsilon = phi + 2 sqrt(phi ln(1/delta))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.dpadmm import DPADMM
from tacenda.algorithms.dual_averaging import DPDDA
from tacenda.algorithms.linearised import CDPADMM, DDPADMM, IPADMM
from tacenda.algorithms.madmm import MADMM
from tacenda.algorithms.perturbation import DVP, PVP
from tacenda.algorithms.recycled import RADMM
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy.secrets.mechanisms import ObjectiveNoise, Site
from tacenda.privacy.secrets.noise_plan import NoisePlan, ScaledPlan
from tacenda.privacy.settings import Privacy
from tacenda.problem.facts import Facts

Array = NDArray[Any]
Sites = Sequence[tuple[Site, int]]
Formula = Callable[..., "Published"]


@dataclass(frozen=True, eq=False)
class PublishedPlan:
    """Rates as printed: `objective` noise of 001 and 003 (DVP), `laplace_rate` of 003 (PVP). Rows are those of `facts`."""

    kind: str
    facts: Facts
    weights: Array
    epsilon: float  # of one round of mean weight
    given_rate: float | None = None  # a_i(k) of 001
    leverage: ClassVar[None] = None  # no paper here shares noise
    coalition: ClassVar[int] = 0

    def weight(self, turn: int) -> float:
        return float(self.weights[turn - 1])

    def rows(self, nodes: Array) -> PublishedPlan:
        return replace(self, facts=self.facts.rows(nodes))

    @property
    def scale(self) -> Array:
        """(b,) stands for a noise multiplier where a step size asks for one; objective noise has none."""
        return np.ones(self.facts.n)

    def noise_std(self, site: Site) -> Array:
        raise UnsupportedError("This paper's noise is not Gaussian; leave noise='l2-laplace'.")

    def laplace_rate(self, site: Site) -> Array:
        k, alpha = self.facts.constants, self.epsilon * site.weight
        return np.asarray(k.strong_convexity * self.facts.sizes * alpha / (2 * k.loss_scale))

    def objective(self, site: Site) -> ObjectiveNoise:
        assert site.objective is not None
        terms, alpha = site.objective, self.epsilon * site.weight
        inverse = self.facts.sizes / self.facts.constants.loss_scale  # B/C of the papers
        if self.kind == "recycled":
            loose = 1.4 * self.facts.constants.curvature_trace / terms.convexity
            rate = np.full(self.facts.n, self.given_rate) if self.given_rate else alpha * inverse / 2 - loose
            if np.any(rate <= 0):
                raise InputError(
                    f"epsilon {self.epsilon:g} a round leaves no room for noise in 001's bound: its curvature term alone costs "
                    "more. Use a larger epsilon or penalty, or give a (Privacy.from_paper(a=...))."
                )
            return ObjectiveNoise(rate, np.zeros(self.facts.n), None)
        ah = alpha - 2 * terms.log_curvature(terms.convexity)
        quarter = np.maximum(terms.least_convexity(np.full(self.facts.n, alpha / 4)) - terms.convexity, 0.0)
        extra = np.where(ah > 0, 0.0, quarter)
        return ObjectiveNoise(np.where(ah > 0, ah, alpha / 2) * inverse, extra, None)


@dataclass(frozen=True, eq=False)
class Published:
    """A plan as printed, what the paper claims for it, and why the truth differs."""

    plan: NoisePlan
    claimed: tuple[float, float]
    why: str


def published_form(algorithm: Algorithm) -> Algorithm:
    """The algorithm as printed: PVP then centres on its own unreleased iterate."""
    return replace(algorithm, centre="hidden", noise="l2-laplace") if isinstance(algorithm, PVP) else algorithm


def published(algorithm: Algorithm, facts: Facts, sites: Sites, weights: Array, privacy: Privacy) -> Published:
    """The paper's own noise for this run; `privacy.noise.sources` may hold the paper's own input c0, a, alpha or phi."""
    return _printed(algorithm)(algorithm, facts, sites, weights, privacy)


def check_published(algorithm: Algorithm) -> None:
    """Refuse an algorithm whose noise no paper prints."""
    _printed(algorithm)


def _printed(algorithm: Algorithm) -> Formula:
    """By the very class: what was derived from a published method is another method, and no paper speaks of it."""
    formula = PRINTED.get(type(algorithm))
    if formula is None or algorithm.shared_noise is not None:
        shared = " shared by neighbours" if algorithm.shared_noise is not None else ""
        own = "noise='independent'" if formula is not None else f"one of {', '.join(kind.__name__ for kind in PRINTED)}"
        raise UnsupportedError(
            f"{algorithm.title}: no paper here prints noise{shared} for it, so it cannot run as published; use mode='sound', or {own}."
        )
    return formula


def _ipadmm(algorithm: Any, facts: Facts, sites: Sites, weights: Array, privacy: Privacy) -> Published:
    """000: z = c0 sqrt(2 T l ln(1.25/delta)) / epsilon."""
    epsilon = _epsilon(privacy)
    _need(epsilon, "epsilon")
    steps = len(weights) * algorithm.inner_steps
    z = privacy.noise.get("c0", 1.0) * math.sqrt(2 * steps * math.log(1.25 / privacy.delta)) / epsilon
    why = "The paper's constant c0 is open; with c0 = 1 its noise is about 30 % more than the exact Gaussian analysis needs."
    return Published(ScaledPlan(np.full(facts.n, z), weights), (epsilon, privacy.delta), why)


def _dual_averaging(algorithm: Any, facts: Facts, sites: Sites, weights: Array, privacy: Privacy) -> Published:
    """002: noise_std^2 = 12 L^2 T ln(1/delta) / (m epsilon)^2."""
    epsilon = _epsilon(privacy)
    _need(epsilon, "epsilon")
    rounds, k = len(weights), facts.constants
    std = k.gradient_bound * np.sqrt(12 * rounds * math.log(1 / privacy.delta)) / (facts.sizes * epsilon)
    z = std / facts.gradient_sensitivity(algorithm.batch_size)
    why = (
        "The proof treats a sampled gradient as if all records were averaged: right for full gradients, unsound by orders of "
        "magnitude for samples, where one drawn record stands alone."
    )
    return Published(ScaledPlan(z, weights), (epsilon, privacy.delta), why)


def _dvp(algorithm: Any, facts: Facts, sites: Sites, weights: Array, privacy: Privacy) -> Published:
    """003, Algorithm 2."""
    alpha = privacy.noise.get("alpha", _epsilon(privacy))
    _need(alpha, "epsilon or alpha")
    return Published(PublishedPlan("dvp", facts, weights, alpha), (alpha, 0.0), _WHY["dvp"])


def _pvp(algorithm: Any, facts: Facts, sites: Sites, weights: Array, privacy: Privacy) -> Published:
    """003, Algorithm 3."""
    alpha = privacy.noise.get("alpha", _epsilon(privacy))
    _need(alpha, "epsilon or alpha")
    if facts.constants.strong_convexity <= 0:
        raise UnsupportedError("PVP as published divides by the regulariser's strength; use 'l2' with a strength above 0.")
    return Published(PublishedPlan("pvp", facts, weights, alpha), (alpha, 0.0), _WHY["pvp"])


_WHY = {
    "dvp": "The claim is about one round given the past, not the run; and line 5 of Algorithm 2 (zeta = ah) doubles even that "
    "round's loss under replace-one: the proof needs ah/2.",
    "pvp": "The claim is about one round given the past, not the run; a run costs the composition of all its rounds.",
}


def _recycled(algorithm: Any, facts: Facts, sites: Sites, weights: Array, privacy: Privacy) -> Published:
    """001 (30): the claimed total over all rounds, pure."""
    epsilon, a = _epsilon(privacy), privacy.noise.get("a")
    plan = PublishedPlan("recycled", facts, weights, epsilon / len(weights))
    if a is not None:
        terms = sites[0][0].objective
        assert terms is not None
        damp = (terms.convexity - facts.constants.strong_convexity) if isinstance(algorithm, MADMM) else np.ones(facts.n)
        if np.ptp(damp) > 0:
            raise UnsupportedError("a is one number for all nodes, which needs a regular graph for M-ADMM; give epsilon instead.")
        plan = replace(plan, given_rate=float(a / damp[0]))
        slope, c1 = 2 * facts.constants.loss_scale / facts.sizes, facts.constants.curvature_trace
        epsilon = 0.0
        for site, count in sites:
            assert site.objective is not None
            rate = plan.given_rate or 0.0
            epsilon += count * float(np.max(slope * (rate + 1.4 * c1 / site.objective.convexity)))
    _need(epsilon, "epsilon or a")
    why = (
        "The bound is sound for exact minimisers but loose: the curvature term is over-counted, and rounds compose better than "
        "by their sum."
    )
    return Published(plan, (epsilon, 0.0), why)


def _concentrated(algorithm: Any, facts: Facts, sites: Sites, weights: Array, privacy: Privacy) -> Published:
    """004's corollary: total phi of zCDP, and its loose conversion."""
    epsilon, delta, phi = _epsilon(privacy), privacy.delta, privacy.noise.get("phi")
    log = math.log(1 / delta)
    if phi is None:
        _need(epsilon, "epsilon or phi")
        phi = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    unit = sum(
        count * (np.asarray(site.sensitivity) / (site.relative_std or np.asarray(site.sensitivity))) ** 2 / 2
        for site, count in sites
    )
    scale = np.sqrt(np.asarray(unit) / phi)
    why = (
        "The conversion from zCDP is loose; and the guarantee needs released values in (7) and bounded gradients, which the "
        "paper's Lasso lacks."
    )
    return Published(ScaledPlan(scale, weights), (phi + 2 * math.sqrt(phi * log), delta), why)


def _epsilon(privacy: Privacy) -> float:
    return float(np.max(np.asarray(privacy.epsilon, float)))


def _need(value: float, name: str) -> None:
    if not math.isfinite(value):
        raise InputError(f"As published, this algorithm needs {name}; see Privacy.from_paper.")


# DP-ADMM is the baseline of 004's own figures, at the same total phi. GossipGD is ours, and DDA is 002's baseline without noise.
PRINTED: dict[type[Algorithm], Formula] = {
    IPADMM: _ipadmm, RADMM: _recycled, MADMM: _recycled, DPDDA: _dual_averaging, DVP: _dvp, PVP: _pvp, CDPADMM: _concentrated,
    DDPADMM: _concentrated, DPADMM: _concentrated,
}  # fmt: skip
