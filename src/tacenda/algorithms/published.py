"""What the algorithms' files say about their papers: noise as published, and what it is worth.

`Algorithm.published_noise` writes a paper's own formula, errors included, for reproducing its
figures (`Privacy(mode="as-published")`); the run's ledger is charged what that noise truly costs,
so that the result carries the claim and the truth side by side. Never for real data: a deployed
node refuses this mode.
`Algorithm.verdict` is shown by `tacenda algorithms` and in the docs; each has a test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy.secrets.mechanisms import ObjectiveNoise, Site
from tacenda.privacy.secrets.noise_plan import (
    NoisePlan,
    ScaledPlan,
    of_nodes,
    weight_of,
    weights_of_nodes,
)
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts

if TYPE_CHECKING:
    from tacenda.algorithms.base import Algorithm

Sites = Sequence[tuple[Site, int]]  # what a run releases, each with the number of times


@dataclass(frozen=True)
class Verdict:
    """paper: the source. verdict: sound, loose or unsound, of the noise as published.

    printed: what is wrong with the published noise. sound: what is done here.
    """

    paper: str
    verdict: str
    printed: str
    sound: str


@dataclass(frozen=True, eq=False)
class Published:
    """A plan as published, what the paper claims for it, and why the truth differs."""

    plan: NoisePlan
    claimed: tuple[float, float]
    why: str


@dataclass(frozen=True, eq=False)
class PublishedPlan:
    """Rates as published, for noise that is not Gaussian; one per paper. Rows as in `facts`."""

    facts: Facts
    weights: Array
    epsilon: float | Array  # of one round of mean weight, a number or one for each node (b,)
    leverage: ClassVar[None] = None  # no paper here shares noise
    grid: ClassVar[None] = None
    reach: ClassVar[None] = None
    coalition: ClassVar[int] = 0

    def weight(self, turn: int) -> float | Array:
        return weight_of(self.weights, turn)

    def rows(self, nodes: Array) -> PublishedPlan:
        return replace(
            self,
            facts=self.facts.rows(nodes),
            weights=weights_of_nodes(self.weights, nodes),
            epsilon=of_nodes(self.epsilon, nodes),
        )

    @property
    def scale(self) -> Array:
        """(b,) stands for a noise multiplier where a step size asks for one; there is none."""
        return np.ones(self.facts.n)

    def noise_std(self, site: Site) -> Array:
        raise UnsupportedError("This paper's noise is not Gaussian; leave noise='l2-laplace'.")

    def laplace_rate(self, site: Site) -> Array:
        raise UnsupportedError(
            "This paper publishes no noise on a released value, but noise inside its objective."
        )

    def objective(self, site: Site) -> ObjectiveNoise:
        raise UnsupportedError(
            "This paper publishes no noise inside an objective, but noise on a released value."
        )


def not_printed(algorithm: Algorithm) -> UnsupportedError:
    """The refusal of an algorithm whose noise no paper prints."""
    from tacenda.algorithms.registry import ALGORITHMS

    printed = [kind for kind in ALGORITHMS.values() if prints_noise(kind)]
    own, shared = f"one of {', '.join(kind.__name__ for kind in printed)}", ""
    if algorithm.traits.shared_noise is not None:
        shared = " shared by neighbours"
        own = "noise='independent'" if prints_noise(type(algorithm)) else own
    return UnsupportedError(
        f"{algorithm.title}: no paper here publishes noise{shared} for it, "
        "so it cannot run as published; "
        f"use mode='sound', or {own}."
    )


def prints_noise(kind: type[Algorithm]) -> bool:
    """Whether the class has a formula of its own."""
    from tacenda.algorithms.base import Algorithm

    return kind.published_noise is not Algorithm.published_noise


def claimed_epsilon(privacy: Privacy, paper_input: str | None = None) -> float:
    """The epsilon to claim, or the paper's own input in its place; one of them must be given."""
    epsilon = float(np.max(privacy.epsilon))
    value = epsilon if paper_input is None else privacy.noise.get(paper_input, epsilon)
    need(value, "epsilon" if paper_input is None else f"epsilon or {paper_input}")
    return value


def claimed_level(privacy: Privacy, name: str, weights: Array) -> tuple[float | Array, float]:
    """(level, the largest of any round and node): of a paper's input that may change with both, or
    the epsilon to claim in its place; a round's own is level * weight."""
    given = name in privacy.noise
    level = privacy.level(name, len(weights)) if given else claimed_epsilon(privacy, name)
    return level, float(np.max(level * weights))


def need(value: float, name: str) -> None:
    """Refuse a run as published without the number that its formula starts from."""
    if not math.isfinite(value):
        raise InputError(f"As published, this algorithm needs {name}; see Privacy.from_paper.")


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


def multistep_noise(
    facts: Facts, weights: Array, privacy: Privacy, steps: int, batch_size: int | None
) -> Published:
    """Huang and Gong (2020): z = c0 sqrt(2 T l ln(1.25/delta)) / epsilon, times the sensitivity of
    *all* records: for batches (its Note 1) the paper changes the gradient and not the noise.

    steps: T l.
    """
    epsilon = claimed_epsilon(privacy)
    root = math.sqrt(2 * steps * math.log(1.25 / privacy.delta))
    scale = np.full(facts.n, privacy.noise.get("c0", 1.0) * root / epsilon)
    why = (
        "The paper's constant c0 is open; with c0 = 1 its noise is about 30 % more "
        "than the exact Gaussian analysis needs."
    )
    if batch_size is not None:
        scale *= facts.gradient_sensitivity() / facts.gradient_sensitivity(batch_size)
        why = (
            "Note 1 lets the gradient be that of a batch and keeps the noise of all records: a "
            "record that is drawn moves it by 2Gc/b instead of 2Gc/m. Being drawn rarely makes "
            "up for that only while the noise exceeds 2Gc/b: not for batches of a few records."
        )
    return Published(ScaledPlan(scale, weights), (epsilon, privacy.delta), why)
