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

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda.algorithms.base import Algorithm, Array, Node, check_batch, check_hyperparameters
from tacenda.algorithms.published import Published, Sites, Verdict, claimed_epsilon
from tacenda.errors import InputError
from tacenda.privacy.secrets.noise_plan import ScaledPlan
from tacenda.privacy.settings import Privacy
from tacenda.problem.facts import Facts
from tacenda.rows import combined
from tacenda.schedules import PerNode, Schedule, are_numbers, at

REGULARISER_STEPS = ("auto", "subgradient", "prox")


@dataclass(frozen=True)
class LinearisedState:
    """All (b, d): w the newest released iterate, shared the broadcast mean wb, dual, heard."""

    w: Array
    shared: Array
    dual: Array
    heard: Array

    def rows(self) -> list[Array]:
        """w, shared, dual and heard."""
        return [self.w, self.shared, self.dual, self.heard]


@dataclass(frozen=True, eq=False)
class _Factors:
    """Of one (rho, eta): part = 1 / (2 rho deg + eta), a column (b, 1); what the own iterate, the
    dual, the heard and the shared one are multiplied by, and the shared one in the dual's step,
    numbers where all nodes have the same."""

    part: Array
    own: Any
    dual: Any
    heard: Any
    shared: Any
    back: Any


def _factors(node: Node, rho: float, eta: Any) -> _Factors:
    """Worked out once while rho and eta stay as they are."""
    known = node.memo.get("linearised")
    fixed = not isinstance(eta, np.ndarray)
    if fixed and known is not None and known[:2] == (rho, eta):
        found: _Factors = known[2]
        return found
    deg = node.degree
    part = 1 / (2 * rho * deg + eta)
    others = (eta * part, 2 * part, rho * part, rho * part * deg, (-rho / 2) * deg)
    if fixed and (deg == deg[0]).all():
        found = _Factors(part, *(float(column[0, 0]) for column in others))
    else:
        found = _Factors(part, *others)
    if fixed:
        node.memo["linearised"] = (rho, eta, found)
    return found


def _round(
    rows: list[Array], node: Node, algorithm: Any, rho: float, eta: Any, steps: int
) -> LinearisedState:
    """One round of the family; eta is a number, or a function of the inner step.

    The state's `rows` are taken out of the list, and each is let go as soon as it is not needed
    here: where nobody else holds the state, its memory serves what follows.
    """
    w, shared, dual, heard = rows
    rows.clear()
    if isinstance(eta, np.ndarray):  # one for each node
        eta = eta.astype(w.dtype)
    by_prox = _takes_prox(algorithm.regulariser_step, node)
    shape = algorithm.relative_std(node.turn)
    pull = None if steps == 1 else combined(2, dual, rho, heard, rho * node.degree, shared)
    total: Any = None
    for k in range(1, steps + 1):
        e = eta(k) if callable(eta) else eta
        f = _factors(node, rho, e)
        public = (
            combined(f.own, w, f.part, pull)
            if pull is not None  # in one pass where it is needed once
            else combined(f.own, w, f.dual, dual, f.heard, heard, f.shared, shared)
        )
        if k == 1:
            del shared, heard
        query = node.gradient(w, algorithm.batch_size, regularised=not by_prox)
        del w
        w = node.release(public - f.part * query, relative_std=shape)
        del public, query
        if by_prox:
            w = node.prox(w, f.part)
        if algorithm.radius is not None:
            w = _into_ball(w, algorithm.radius)
        total = w if total is None else total + w
    shared = total / steps if steps > 1 else w
    del total, pull
    heard = node.neighbour_sum(shared)
    dual = combined(1, dual, rho / 2, heard, f.back, shared)
    return LinearisedState(w, shared, dual, heard)


def _takes_prox(choice: str, node: Node) -> bool:
    return choice == "prox" or (choice == "auto" and not node.facts.constants.regulariser.smooth)


def _into_ball(w: Array, radius: float) -> Array:
    """Rows projected onto the ball of that radius: post-processing of released values."""
    norm = np.linalg.norm(w, axis=1, keepdims=True)
    return w * np.minimum(1.0, radius / np.maximum(norm, radius)).astype(w.dtype)


def _start(node: Node, w: Array) -> LinearisedState:
    return LinearisedState(w, w, np.zeros(w.shape, w.dtype), node.degree * w)


def _check(algorithm: Any) -> None:
    check_hyperparameters(algorithm, positive=("penalty",))
    check_batch(algorithm)
    checks.one_of(
        f"{type(algorithm).__name__}.regulariser_step",
        algorithm.regulariser_step,
        REGULARISER_STEPS,
    )
    if algorithm.radius is not None:
        checks.positive(f"{type(algorithm).__name__}.radius", algorithm.radius)


def concentrated_noise(facts: Facts, sites: Sites, weights: Array, privacy: Privacy) -> Published:
    """Gauthier et al. (2020): phi = sum s_t^2/(2 std_t^2), epsilon = phi + 2 sqrt(phi ln(1/delta)).

    phi_1, the first round's term, gives the noise as well, and then the total as the worst node's.
    """
    delta, phi, first = privacy.delta, privacy.noise.get("phi"), privacy.noise.get("phi_1")
    log = math.log(1 / delta)
    terms = [  # at noise scale 1
        count
        * (np.asarray(site.sensitivity) / (site.relative_std or np.asarray(site.sensitivity))) ** 2
        / 2
        for site, count in sites
    ]
    unit = np.asarray(sum(terms))
    if first is not None:
        scale = np.sqrt(np.asarray(terms[0]) / sites[0][1] / first)
        phi = float(np.max(unit / scale**2))
    else:
        if phi is None:
            phi = (math.sqrt(log + claimed_epsilon(privacy, "phi")) - math.sqrt(log)) ** 2
        scale = np.sqrt(unit / phi)
    why = (
        "The conversion from zCDP is loose; and the guarantee needs released values in (7) "
        "and bounded gradients, which the paper's Lasso lacks."
    )
    plan = ScaledPlan(scale, weights)
    return Published(plan, (phi + 2 * math.sqrt(phi * log), delta), why)


@dataclass(frozen=True)
class IPADMM(Algorithm):
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
    the running step count, so that it is monotone; noise from the exact mu = sqrt(T l)/z instead of
    sqrt(2 T l ln(1.25/delta))/epsilon, which is 30 % less. Guarantee: exactly mu = sqrt(T l)/z.

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
    >>> tc.algorithms.IPADMM(inner_steps=5).steps_per_round
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
        _check(self)
        checks.whole("IPADMM.inner_steps", self.inner_steps, least=1)
        if isinstance(self.proximal, str):
            checks.one_of("IPADMM.proximal", self.proximal, ("theory",))
        else:
            check_hyperparameters(self, positive=("proximal",), per_node=("proximal",))
        check_hyperparameters(self, positive=("diameter",), at_least_zero=("objective_slope",))

    def init(self, node: Node, w: Array) -> LinearisedState:
        return _start(node, w)

    def step(self, s: LinearisedState, node: Node) -> LinearisedState:
        t, rounds_before = node.turn, (node.turn - 1) * self.inner_steps
        rows = s.rows()
        del s
        if isinstance(self.proximal, str):

            def eta(k: int) -> Any:
                return self._theory(rounds_before + k, node)

            return _round(rows, node, self, at(self.penalty, t), eta, self.inner_steps)
        return _round(rows, node, self, at(self.penalty, t), at(self.proximal, t), self.inner_steps)

    @property
    def repeats_releases(self) -> bool:
        # Then one record moves as much in every round
        return are_numbers(self.penalty, self.proximal)

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        """Huang and Gong (2020): z = c0 sqrt(2 T l ln(1.25/delta)) / epsilon, times the sensitivity
        of *all* records: for batches (its Note 1) the paper changes the gradient and not the
        noise."""
        epsilon, steps = claimed_epsilon(privacy), len(weights) * self.inner_steps
        root = math.sqrt(2 * steps * math.log(1.25 / privacy.delta))
        z = privacy.noise.get("c0", 1.0) * root / epsilon
        why = (
            "The paper's constant c0 is open; with c0 = 1 its noise is about 30 % more "
            "than the exact Gaussian analysis needs."
        )
        scale = np.full(facts.n, z)
        if self.batch_size is not None:
            scale *= facts.gradient_sensitivity() / facts.gradient_sensitivity(self.batch_size)
            why = (
                "Note 1 lets the gradient be that of a batch and keeps the noise of all records: a "
                "record that is drawn moves it by 2Gc/b instead of 2Gc/m. Being drawn rarely makes "
                "up for that only while the noise exceeds 2Gc/b: not for batches of a few records."
            )
        return Published(ScaledPlan(scale, weights), (epsilon, privacy.delta), why)

    @property
    def steps_per_round(self) -> int:
        return self.inner_steps

    def _theory(self, k: int, node: Node) -> Array:
        """(b, 1) the proximal weight (23) at running step k."""
        noise = node.facts.gradient_sensitivity(self.batch_size)[:, None] * node.noise_multiplier
        spread = self.objective_slope**2 + node.facts.dim * noise**2
        eta: Array = np.sqrt(2 * k) / self.diameter * np.sqrt(spread)
        return np.maximum(eta, 1e-12)

    def published_form(self) -> IPADMM:
        """With the subgradient of the regulariser, unless the prox is asked for."""
        super().published_form()
        as_given = self.regulariser_step == "prox"
        return self if as_given else replace(self, regulariser_step="subgradient")

    def iterate(self, s: LinearisedState) -> Array:
        return s.shared


class _OneStep(Algorithm):
    """What DDP- and CDP-ADMM share: one step a round, with noise as their `relative_std` tells."""

    penalty: float | Schedule
    proximal: float | Schedule | PerNode
    regulariser_step: str

    def init(self, node: Node, w: Array) -> LinearisedState:
        return _start(node, w)

    def step(self, s: LinearisedState, node: Node) -> LinearisedState:
        t, rows = node.turn, s.rows()
        del s
        return _round(rows, node, self, at(self.penalty, t), at(self.proximal, t), 1)

    @property
    def repeats_releases(self) -> bool:
        return are_numbers(self.penalty, self.proximal)

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

    def published_form(self) -> Algorithm:
        """With the subgradient of the regulariser, unless the prox is asked for."""
        super().published_form()
        as_given = self.regulariser_step == "prox"
        return self if as_given else replace(self, regulariser_step="subgradient")  # type: ignore[type-var]

    def iterate(self, s: LinearisedState) -> Array:
        return s.shared


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

    def __post_init__(self) -> None:
        _check(self)
        check_hyperparameters(self, at_least_zero=("proximal",), per_node=("proximal",))

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
        _check(self)
        check_hyperparameters(self, at_least_zero=("proximal",), per_node=("proximal",))
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
