"""Linearised ADMM, one family: IPADMM (Huang and Gong 2020), DDP-ADMM and CDP-ADMM (Gauthier et al.
2020).

    pub_i = 2 gam_i + rho sum_j wb_j + rho deg_i wb_i                                (all released)
    l times  w_i <- (eta w_i - grad f_i(w_i) + pub_i) / (2 rho deg_i + eta) + N(0, noise_std^2 I)
    wb_i = mean of the l new iterates;   broadcast wb_i
    gam_i <- gam_i - (rho/2) sum_j (wb_i - wb_j)

Huang and Gong (2020), (11)-(15), (18) and Gauthier et al. (2020), (6)-(9); Gauthier et al. (2020)
writes 1/eta for our eta, and both print signs that are corrected here. A whole run is one Gaussian
mechanism: mu^2 = sum over all steps of (s/noise_std)^2, s = 2Gc/(m (2 rho deg + eta)) under
replace-one.

regulariser_step: "subgradient" (as published) puts r R'(w) in the query; "prox" leaves R out and
applies its prox with weight r/(2 rho deg + eta) to the *released* value, which keeps an l1 model
sparse at the same sensitivity; "auto" takes the prox just for regularisers that are not smooth, and
the subgradient in a run as published.
batch_size: Poisson samples of that mean (Huang and Gong 2020, Note 1).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.hyperparameters import check_batch, check_hyperparameters
from tacenda.algorithms.node import Node
from tacenda.algorithms.published import (
    Published,
    Sites,
    Verdict,
    concentrated_noise,
    multistep_noise,
)
from tacenda.algorithms.traits import Traits
from tacenda.errors import InputError
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.rows import Sum, lazy
from tacenda.schedules import PerNode, Schedule, are_numbers, at

REGULARISER_STEPS = ("auto", "subgradient", "prox")


@dataclass(frozen=True)
class LinearisedState:
    """All (b, d): w the newest released iterate, shared the broadcast mean wb, dual, heard."""

    w: Array
    shared: Array
    dual: Array
    heard: Array


class Linearised(Algorithm):
    """The family's round, with `inner_steps` steps before each message."""

    inner_steps: int = 1
    penalty: float | Schedule
    proximal: float | Schedule | PerNode | str
    regulariser_step: str
    radius: float | None

    def __post_init__(self) -> None:
        check_hyperparameters(self, positive=("penalty",))
        check_batch(self)
        name = type(self).__name__
        checks.one_of(f"{name}.regulariser_step", self.regulariser_step, REGULARISER_STEPS)
        if self.radius is not None:
            checks.positive(f"{name}.radius", self.radius)

    def init(self, node: Node, w: Array) -> LinearisedState:
        return LinearisedState(w, w, np.zeros(w.shape, w.dtype), node.degree * w)

    def step(self, s: LinearisedState, node: Node) -> LinearisedState:
        rho, deg = at(self.penalty, node.turn), node.degree
        pub = 2 * lazy(s.dual) + rho * (lazy(s.heard) + deg * lazy(s.shared))
        if self.inner_steps > 1:
            pub = lazy(pub.rows())  # once for all steps
        w = total = self._primal_step(s.w, pub, rho, self._eta(1, node), node)
        for k in range(2, self.inner_steps + 1):
            w = self._primal_step(w, pub, rho, self._eta(k, node), node)
            total = total + w
        shared = total / self.inner_steps if self.inner_steps > 1 else w
        heard = node.neighbour_sum(shared)
        dual = lazy(s.dual) + (rho / 2) * (lazy(heard) - deg * lazy(shared))
        return LinearisedState(w, shared, dual.rows(), heard)

    def _primal_step(self, w: Array, pub: Sum, rho: float, eta: Any, node: Node) -> Array:
        """(eta w - grad f(w) + pub) / (2 rho deg + eta), released; then prox and projection."""
        part = 1 / (2 * rho * node.degree + eta)
        by_prox = self._takes_prox(node)
        public = part * (eta * lazy(w) + pub)
        query = node.gradient(w, self.batch_size, regularised=not by_prox)
        released = node.release(
            public.rows() - part * query, relative_std=self.relative_std(node.turn)
        )
        if by_prox:
            released = node.prox(released, part)
        return released if self.radius is None else into_ball(released, self.radius)

    def _eta(self, k: int, node: Node) -> Any:
        """The proximal weight of inner step k: a number, or (b, 1) in the rows' type."""
        found = at(self.proximal, node.turn)
        return found.astype(node.degree.dtype) if isinstance(found, np.ndarray) else found

    def _takes_prox(self, node: Node) -> bool:
        smooth = node.facts.constants.regulariser.smooth
        return self.regulariser_step == "prox" or (self.regulariser_step == "auto" and not smooth)

    def iterate(self, s: LinearisedState) -> Array:
        return s.shared

    @property
    def traits(self) -> Traits:
        return replace(
            super().traits,
            steps_per_round=self.inner_steps,
            # One record then moves as much in every round
            repeats_releases=are_numbers(self.penalty, self.proximal),
        )

    def published_form(self) -> Algorithm:
        """With the subgradient of the regulariser, unless the prox is asked for."""
        super().published_form()
        as_given = self.regulariser_step == "prox"
        return self if as_given else replace(self, regulariser_step="subgradient")  # type: ignore[type-var]


def into_ball(w: Array, radius: float) -> Array:
    """Project rows onto the ball of that radius: post-processing of released values."""
    norm = np.linalg.norm(w, axis=1, keepdims=True)
    return w * np.minimum(1.0, radius / np.maximum(norm, radius)).astype(w.dtype)


@dataclass(frozen=True)
class IPADMM(Linearised):
    """Multi-step linearised ADMM, Huang and Gong (2020) (11)-(15), (18), (23).

    l steps, then one message:

        pub_i = 2 gam_i + rho sum_j wb_j + rho deg_i wb_i                            (all released)
        l times  w_i <- (eta w_i - grad f_i(w_i) + pub_i)/(2 rho deg_i + eta) + N(0, noise_std^2 I)
        wb_i = mean of the l new iterates;   broadcast wb_i
        gam_i <- gam_i - (rho/2) sum_j (wb_i - wb_j)

    proximal="theory" is (23) with the running step count k,

        eta_k = (sqrt(2 k)/D) sqrt((c2/n)^2 + d s_i^2)

    with D = diameter, c2/n = objective_slope, and s_i the std of the noise on a gradient: 2 G c
    z/m_i, z the run's own multiplier (with batches of b records 2 G c z/b). Output: the average of
    all iterates. Differs from the paper: (11)-(12) and (18) with the signs that descend; (23) by
    the running step count, so that it is monotone; the output averages the iterates 1..l of each
    round, where (22) has 0..l-1, that is with its start and without its last; noise from the exact
    mu = sqrt(T l)/z instead of sqrt(2 T l ln(1.25/delta))/epsilon, which is 30 % less. Guarantee:
    exactly mu = sqrt(T l)/z.

    Parameters
    ----------
    penalty : float or Schedule, default=0.01
        rho, a number or a schedule.
    proximal : float, Schedule, PerNode or str, default=1.0
        eta, a number or a schedule of the round, one for each node, or "theory" for (23).
    inner_steps : int, default=10
        l (10 in the paper).
    batch_size : int or None, default=None
        Mean size of Poisson samples; None takes all records.
    regulariser_step : {"auto", "subgradient", "prox"}, default="auto"
        "subgradient" (as published) puts r R'(w) in the query; "prox" leaves R out and applies
        its prox to the *released* value, which keeps an l1 model sparse at the same
        sensitivity; "auto" takes the prox just for regularisers that are not smooth, and the
        subgradient in mode "as-published".
    radius : float or None, default=None
        Project each released iterate onto a ball (the theory's is D/2).
    diameter : float, default=20.0
        D of (23).
    objective_slope : float, default=1.0
        c2/n of (23), a bound on the slope of one node's part of the objective; by section 5.4 of
        the paper c2 = n + mu D/n, so about 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.IPADMM(inner_steps=5).traits.steps_per_round
    5
    """

    name: ClassVar[str] = "ipadmm"
    title: ClassVar[str] = "IPADMM (multi-step)"
    source: ClassVar[str] = "Huang and Gong (2020), (11)-(15), (18), (23)"
    default_output: ClassVar[str] = "average"
    verdict: ClassVar[Verdict | None] = Verdict(
        "Huang and Gong (2020)",
        "loose",
        "Sound with c0 = 1 up to epsilon about 8 at delta 1e-5, and 30 % too noisy; its "
        "minibatch note is unsound for batches of a few records.",
        "Exact: z = sqrt(T l)/mu(epsilon, delta); Poisson batches by the subsampled-Gaussian "
        "accountant.",
    )

    penalty: float | Schedule = 0.01
    proximal: float | Schedule | PerNode | str = 1.0
    inner_steps: int = 10
    batch_size: int | None = None
    regulariser_step: str = "auto"
    radius: float | None = None
    diameter: float = 20.0
    objective_slope: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole("IPADMM.inner_steps", self.inner_steps, least=1)
        if isinstance(self.proximal, str):
            checks.one_of("IPADMM.proximal", self.proximal, ("theory",))
        else:
            check_hyperparameters(self, positive=("proximal",), per_node=("proximal",))
        check_hyperparameters(self, positive=("diameter",), at_least_zero=("objective_slope",))

    def _eta(self, k: int, node: Node) -> Any:
        if self.proximal != "theory":
            return super()._eta(k, node)
        steps = (node.turn - 1) * self.inner_steps + k
        noise = node.facts.gradient_sensitivity(self.batch_size)[:, None] * node.noise_multiplier
        spread = self.objective_slope**2 + node.facts.dim * noise**2
        return np.maximum(np.sqrt(2 * steps) / self.diameter * np.sqrt(spread), 1e-12)  # (23)

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        steps = len(weights) * self.inner_steps
        return multistep_noise(facts, weights, privacy, steps, self.batch_size)


class _OneStep(Linearised):
    """What DDP- and CDP-ADMM share: l = 1, and noise that `relative_std` shapes over the rounds."""

    proximal: float | Schedule | PerNode

    def __post_init__(self) -> None:
        super().__post_init__()
        check_hyperparameters(self, at_least_zero=("proximal",), per_node=("proximal",))

    @abstractmethod
    def relative_std(self, turn: int) -> float: ...

    def spends(self, facts: Facts, degree: Array, rounds: int) -> Array:
        """(b, 1) sum over the rounds of (s_t/shape_t)^2, s_t = 2Gc/(m (2 rho_t deg + eta_t))."""
        moved = facts.gradient_sensitivity()[:, None]
        total = np.zeros_like(moved)
        for t in range(1, rounds + 1):
            weight = 2 * at(self.penalty, t) * degree + at(self.proximal, t)
            total = total + (moved / (weight * self.relative_std(t))) ** 2
        return total


@dataclass(frozen=True)
class DDPADMM(_OneStep):
    """Decentralised DP-ADMM, Gauthier et al. (2020): one step a round, variance (on w) ~ 1/sqrt(t).

    The recursion is that of `IPADMM` with l = 1; Gauthier et al. write 1/eta for our eta.
    Differs from the paper: its (7) needs released values; gradients must be bounded or clipped.
    Guarantee: mu^2 = sum_t (s_t/noise_std_t)^2, exact.

    Parameters
    ----------
    penalty : float or Schedule, default=0.1
        rho, a number or a schedule.
    proximal : float, Schedule or PerNode, default=1.0
        eta >= 0, a number or a schedule, or one for each node.
    batch_size : int or None, default=None
        Mean size of Poisson samples; None takes all records.
    regulariser_step : {"auto", "subgradient", "prox"}, default="auto"
        As in `IPADMM`.
    radius : float or None, default=None
        Project each released iterate onto a ball.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.DDPADMM().penalty
    0.1
    """

    name: ClassVar[str] = "ddpadmm"
    title: ClassVar[str] = "DDP-ADMM (variance 1/sqrt(t))"
    source: ClassVar[str] = "Gauthier et al. (2020), (6)-(9)"
    verdict: ClassVar[Verdict | None] = Verdict(
        "Gauthier et al. (2020)",
        "sound if bounded",
        "Needs released values in (7) and bounded gradients; loose conversion.",
        "mu^2 = sum (s_t/noise_std_t)^2, exact; clipping.",
    )

    penalty: float | Schedule = 0.1
    proximal: float | Schedule | PerNode = 1.0
    batch_size: int | None = None
    regulariser_step: str = "auto"
    radius: float | None = None

    def relative_std(self, turn: int) -> float:
        return float(turn**-0.25)

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        return concentrated_noise(facts, sites, weights, privacy)


@dataclass(frozen=True)
class CDPADMM(_OneStep):
    """CDP-ADMM, Gauthier et al. (2020): each round's variance is R times that of the round before.

    One step a round; the recursion is that of `IPADMM` with l = 1; Gauthier et al. write 1/eta for
    our eta. The first noise_std solves sum_t (s_t/noise_std_t)^2 = mu^2. Differs from the paper:
    its (7) needs released values; gradients must be bounded or clipped (its Lasso example is not).
    Guarantee: exactly that mu (the paper states it in zCDP, phi = mu^2/2, and converts loosely).

    Parameters
    ----------
    penalty : float or Schedule, default=0.1
        rho, a number or a schedule.
    proximal : float, Schedule or PerNode, default=1.0
        eta >= 0, a number or a schedule, or one for each node.
    variance_decay : float, default=0.98
        R, above 0 and at most 1; 1 keeps the noise constant.
    batch_size : int or None, default=None
        Mean size of Poisson samples; None takes all records.
    regulariser_step : {"auto", "subgradient", "prox"}, default="auto"
        As in `IPADMM`.
    radius : float or None, default=None
        Project each released iterate onto a ball.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.CDPADMM(variance_decay=1.0).variance_decay
    1.0
    """

    name: ClassVar[str] = "cdpadmm"
    title: ClassVar[str] = "CDP-ADMM (geometric variance)"
    source: ClassVar[str] = "Gauthier et al. (2020), (6)-(9)"
    verdict: ClassVar[Verdict | None] = Verdict(
        "Gauthier et al. (2020)",
        "sound if bounded",
        "Needs released values in (7) and bounded gradients (its Lasso example has no "
        "guarantee); loose conversion.",
        "mu^2 = sum (s_t/noise_std_t)^2, exact; clipping.",
    )

    penalty: float | Schedule = 0.1
    proximal: float | Schedule | PerNode = 1.0
    variance_decay: float = 0.98
    batch_size: int | None = None
    regulariser_step: str = "auto"
    radius: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if checks.positive("CDPADMM.variance_decay", self.variance_decay) > 1:
            raise InputError(
                "CDPADMM.variance_decay must be above 0 and at most 1, "
                f"not {self.variance_decay!r}."
            )

    def relative_std(self, turn: int) -> float:
        return float(self.variance_decay ** ((turn - 1) / 2))

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        return concentrated_noise(facts, sites, weights, privacy)
