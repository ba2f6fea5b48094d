"""How much noise each release gets, as one number per node: the noise scale.

    Gaussian              noise_std = scale * sensitivity / sqrt(weight), or scale * relative_std
                          where the algorithm has its own shape
    shared, masked        noise_std = scale / sqrt(weight), the same for all nodes, on values in
                          units of the network's worst sensitivity
    l2-Laplace, also in   epsilon of the round = weight / scale
    the objective
    Gaussian there        noise_std = scale * slope / sqrt(weight)

A larger scale is more noise everywhere, so a run is calibrated by solving for one number
(`runtime.budget`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tacenda import checks, schedules
from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.privacy.secrets.ledger import Charge
from tacenda.privacy.secrets.mechanisms import (
    NoiseKind,
    ObjectiveNoise,
    Site,
    correlated_charge,
    gaussian_charge,
    gaussian_objective_charge,
    gaussian_objective_noise,
    laplace_charge,
    masked_charge,
    objective_charge,
    objective_noise,
)

Spread = str | schedules.Schedule | Sequence[float]


def round_weights(spread: Spread, rounds: int) -> Array:
    """(rounds,) each round's share of the budget, 1 on average: uniform, a schedule, or a listed
    sequence; (rounds, n) where each node has a schedule of its own."""
    if isinstance(spread, str):
        checks.one_of("spread", spread, ("uniform",))
        return np.ones(rounds)
    if callable(spread):
        shares = _by_round(spread, rounds)
    else:
        shares = np.asarray(list(spread), float)
        if len(shares) != rounds:
            raise InputError(f"spread must hold one share per round ({rounds}), not {len(shares)}.")
    if rounds and (not np.all(np.isfinite(shares)) or np.any(shares <= 0)):
        who = ""
        if shares.ndim == 2:
            wrong = ~np.isfinite(shares).all(axis=0) | (shares <= 0).any(axis=0)
            who = f" (see node {int(np.argmax(wrong))})"
        raise InputError(f"spread must hold finite shares above 0, one per round{who}.")
    return shares * (rounds / shares.sum(axis=0)) if rounds else shares


def _by_round(schedule: Any, rounds: int) -> Array:
    """(rounds,) the values of a schedule, or (rounds, n) of one for each node."""
    values = [schedule(t) for t in range(1, rounds + 1)]
    return np.array([v[:, 0] if isinstance(v, np.ndarray) else v for v in values], float)


def level_and_weights(level: Any, rounds: int) -> tuple[Any, Array]:
    """(mean over the rounds, weights): of a level that may change with the round and the node, so
    that level(t) = mean * weights[t - 1].

    The mean is a number, or (n,) where the nodes differ; weights (rounds,), or (rounds, n) where
    they differ in how it changes.
    """
    if not callable(level):
        return level, np.ones(rounds)
    values = _by_round(level, rounds)
    if np.all(values == values[0]):
        return values[0] if values.ndim == 2 else float(values[0]), np.ones(rounds)
    mean = values.mean(axis=0)
    return mean, values / mean


def weight_of(weights: Array, turn: int) -> float | Array:
    """A round's share of the budget: a number, or (b,) where the nodes differ."""
    return weights[turn - 1] if weights.ndim == 2 else float(weights[turn - 1])


def weights_of_nodes(weights: Array, nodes: Array) -> Array:
    """The weights of the nodes at these positions."""
    return weights[:, nodes] if weights.ndim == 2 else weights


def of_nodes(value: Any, nodes: Array) -> Any:
    """The values of the nodes at these positions; one number for all stays as it is."""
    return value[nodes] if isinstance(value, np.ndarray) and value.ndim else value


class NoisePlan(Protocol):
    """How much noise each release gets, for b nodes. Of the round it may know the weight only."""

    @property
    def scale(self) -> Array:
        """(b,) the noise scale, which a step size may ask for."""
        ...

    @property
    def weights(self) -> Array:
        """(rounds,) each round's share of the budget, 1 on average; (rounds, b) where the nodes
        differ."""
        ...

    @property
    def leverage(self) -> Array | None:
        """(b,) of noise shared by neighbours."""
        ...

    @property
    def coalition(self) -> int:
        """How many members may combine what they know of shared noise."""
        ...

    @property
    def grid(self) -> float | None:
        """The step of whole numbers, in units of the release, where values are masked."""
        ...

    @property
    def reach(self) -> Array | None:
        """(rounds, 2) the largest sum of all nodes' values in each round, and the largest of one
        node, in units of the release, where values are masked."""
        ...

    def weight(self, turn: int) -> float | Array: ...
    def noise_std(self, site: Site) -> Array: ...
    def laplace_rate(self, site: Site) -> Array: ...
    def objective(self, site: Site) -> ObjectiveNoise: ...
    def rows(self, nodes: Array) -> NoisePlan:
        """The plan of some of the nodes."""
        ...


@dataclass(frozen=True, eq=False)
class ScaledPlan:
    """One noise scale per node (b,), spread over the rounds by `weights` (rounds,), or (rounds, b).

    leverage (b,) and coalition: of noise shared by neighbours, whose scale is the same for all
    nodes (both ends of an edge must draw alike), on the gradient itself. grid: the step of masked
    values; reach (rounds, 2): the largest sum of such values, and the largest one. most_curvature
    (b,): of objectives, where less was reserved than they would take by themselves.
    """

    scale: Array
    weights: Array
    leverage: Array | None = None
    coalition: int = 0
    grid: float | None = None
    reach: Array | None = None
    most_curvature: Array | None = None

    def weight(self, turn: int) -> float | Array:
        return weight_of(self.weights, turn)

    def rows(self, nodes: Array) -> ScaledPlan:
        return replace(
            self,
            scale=self.scale[nodes],
            weights=weights_of_nodes(self.weights, nodes),
            leverage=None if self.leverage is None else self.leverage[nodes],
            most_curvature=None if self.most_curvature is None else self.most_curvature[nodes],
        )

    def noise_std(self, site: Site) -> Array:
        if site.relative_std is not None:
            return self.scale * site.relative_std
        if site.noise.shared:
            return np.asarray(self.scale / np.sqrt(site.weight))
        assert site.sensitivity is not None
        std: Array = self.scale * site.sensitivity / np.sqrt(site.weight)
        return std

    def laplace_rate(self, site: Site) -> Array:
        assert site.sensitivity is not None
        rate: Array = site.weight / (self.scale * site.sensitivity)
        return rate

    def objective(self, site: Site) -> ObjectiveNoise:
        assert site.objective is not None
        if site.noise == NoiseKind.OBJECTIVE_GAUSSIAN:
            multiplier = self.scale / np.sqrt(site.weight)
            return gaussian_objective_noise(multiplier, site.objective, self.most_curvature)
        return objective_noise(site.weight / self.scale, site.objective, self.most_curvature)


def price(plan: NoisePlan, site: Site) -> tuple[Charge, Any]:
    """What a release costs under a plan, and its noise:
    a std (b,), a rate (b,) or an ObjectiveNoise."""
    if site.noise.inside:
        assert site.objective is not None
        inside = plan.objective(site)
        if site.noise == NoiseKind.OBJECTIVE_GAUSSIAN:
            return gaussian_objective_charge(inside, site.objective), inside
        return objective_charge(inside, site.objective, site.dim), inside
    assert site.sensitivity is not None and site.sample is not None
    if site.noise == NoiseKind.L2_LAPLACE:
        rate = plan.laplace_rate(site)
        return laplace_charge(rate, site.sensitivity, site.dim, site.sample), rate
    std = plan.noise_std(site)
    if site.noise.shared:
        assert plan.leverage is not None
        shared = masked_charge if site.noise == NoiseKind.MASKED else correlated_charge
        return shared(std, site.sensitivity, plan.leverage, plan.coalition, site.sample), std
    return gaussian_charge(std, site.sensitivity, site.sample), std
