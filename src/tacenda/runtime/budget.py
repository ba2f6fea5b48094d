"""From a budget to the noise of every release, before any data is read.

A run is first rehearsed (`runtime.rehearsal`), which says what it would release. One noise scale
for each node is then solved for, at which the composition of all its releases meets (epsilon,
delta). The resulting charges are reserved, in order, for the real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy.accounting import events
from tacenda.privacy.accounting.calibration import gaussian_mu, solve_scale
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.privacy.secrets.mechanisms import NoiseKind, Site
from tacenda.privacy.secrets.noise_plan import NoisePlan, ScaledPlan, price, weights_of_nodes
from tacenda.privacy.settings import Privacy
from tacenda.runtime.rehearsal import Sites, rehearse, releases_by_round
from tacenda.runtime.spec import RunSpec

GAUSSIANS = (events.Gaussian, events.CorrelatedGaussian)
GRID_STEPS = 2.0**26  # that the noise of a masked sum spans: far beyond any rounding
NOISE_TAIL = math.sqrt(2 * 101 * math.log(2))  # 2 exp(-NOISE_TAIL^2 / 2) = 2^-100
SIMILAR_RATES = 1.1  # sampling rates that differ by less share the noise of the largest
MAX_RATE_GROUPS = 4  # of such rates that are calibrated, besides the largest


@dataclass(frozen=True, eq=False)
class Calibration:
    """The noise plan of all n nodes, and the charges it will make; spare: those of releases that
    are made again after a loss; claimed and why: of noise as published."""

    plan: NoisePlan
    reserved: Charges
    spare: Charges = field(default_factory=Charges)
    claimed: tuple[float, float] | None = None
    why: str | None = None


def calibrate(spec: RunSpec) -> Calibration:
    """Solve for the noise scale of every node; nodes alike in size,
    degree and target are solved once."""
    algorithm, facts, topology, privacy = spec.algorithm, spec.facts, spec.topology, spec.privacy
    assert privacy is not None
    hub = np.arange(topology.n) == topology.hub()
    target = privacy.epsilon_of(topology.n)
    ratio, shares, pooled = algorithm.traits.shared_noise, np.ones(topology.n), 0
    if ratio is not None:
        pooled = privacy.pooled(algorithm.title)
        shares, _ = spec.leverage()
        if not math.isinf(ratio):
            shares = _rounded_up(shares)
    own = (algorithm.node_kinds(topology.n), privacy.node_kinds(topology.n))
    first, kind = kinds_of([facts.sizes, topology.degrees, hub, target, shares, *own])
    weights = weights_of_nodes(spec.weights, first)
    sites = rehearse(spec, first)
    masked = _check_masked(algorithm, sites)
    spare = _spare_sites(spec, sites, ScaledPlan(np.ones(len(first)), weights, shares[first]))
    if not isinstance(privacy.spread, str) and any(
        site.relative_std is not None for site, _ in sites
    ):
        raise UnsupportedError(
            f"{algorithm.title} has its own spread of the noise over the rounds; "
            "leave spread='uniform'."
        )
    if privacy.mode == "as-published":
        here = algorithm.at_nodes(first)
        printed = here.published_noise(facts.rows(first), sites, weights, privacy.at_nodes(first))
        plan, claimed, why = printed.plan, printed.claimed, printed.why
    else:
        plan = ScaledPlan(np.ones(len(first)), weights, shares[first], pooled)
        scale = (
            _given_scale(privacy, sites, len(first))
            if privacy.noise
            else _solved_scale(
                privacy, [*sites, *spare], target[first], plan, facts.members_per_person
            )
        )
        if ratio is not None:
            scale = np.full(len(first), scale.max())  # both ends of an edge draw alike
        plan, claimed, why = replace(plan, scale=scale), None, None
        if masked:
            sizes = facts.sizes[first] * np.bincount(kind)
            least = topology.n if spec.groups is None else int(spec.groups.sizes.min())
            grid = masked_grid(plan, sites, topology.n, sizes, least)
            # Declared sizes may be exceeded: a member may hold up to twice as many records
            most = sizes if facts.true_sizes else 2 * sizes
            largest = facts.sizes[first] * (1 if facts.true_sizes else 2)
            reach = masked_reach(sites, spec.rounds, most, largest)
            plan = replace(plan, grid=grid, reach=reach)
    charges = Charges((price(plan, site)[0], count) for site, count in sites)
    again = Charges((price(plan, site)[0], count) for site, count in spare)
    return Calibration(plan.rows(kind), charges.rows(kind), again.rows(kind), claimed, why)


def _spare_sites(spec: RunSpec, sites: Sites, unit: ScaledPlan) -> Sites:
    """Releases that are reserved beside those of the rounds: for each loss as many as any round
    makes, each at the price of the dearest one.

    A round that begins with a release from which all others follow is never given up with both:
    before that release is known, none of the others can be made. unit: a plan with scale 1.
    """
    if not spec.losses or not sites:
        return []
    made = list(releases_by_round(spec))
    if spec.algorithm.traits.learns:
        made[0] = max(1, made[0] - 1)
    priced = [price(unit, site)[0] for site, _ in sites]
    for charge, (site, _) in zip(priced, sites, strict=True):
        if all(other.covered_by(charge) for other in priced):
            return [(site, spec.losses * max(made))]
    raise UnsupportedError(
        f"absence.losses: the releases of {spec.algorithm.title} are of different kinds, and none "
        "is the dearest; leave losses at 0."
    )


def kinds_of(traits: Sequence[Array]) -> tuple[Array, Array]:
    """(the first node of each kind, each node's kind) where nodes equal in all traits, (n,) or
    (n, k) each, are of one kind; kinds in the order of their traits."""
    kind = np.zeros(len(traits[0]), np.int64)
    for trait in traits:
        for column in trait.reshape(len(kind), -1).T:
            if np.all(column == column[0]):
                continue  # most of them: what is the same for all takes no sorting
            values, place = np.unique(column, return_inverse=True)
            # As numbers from 0, so that they never grow beyond the square of n
            kind = np.unique(kind * len(values) + place.reshape(-1), return_inverse=True)[1]
    return np.unique(kind, return_index=True)[1], kind


def _check_masked(algorithm: Algorithm, sites: Sites) -> bool:
    """Whether the run's releases are masked; refuse an algorithm that says one thing and does
    another, whose noise would be counted wrongly."""
    says = algorithm.traits.masks
    shared = {site.noise for site, _ in sites if site.noise.shared}
    if shared and shared != {NoiseKind.MASKED if says else NoiseKind.CORRELATED}:
        raise UnsupportedError(
            f"{algorithm.title} releases with noise={', '.join(sorted(shared))!r}, but says that "
            f"its shared_noise is {algorithm.traits.shared_noise!r} and masks={says}; 'masked' "
            "goes with masks=True, 'correlated' with a ratio, and one run has one of them."
        )
    return says and bool(shared)


def masked_grid(
    plan: ScaledPlan, sites: Sites, n: int, records: Array, least: int | None = None
) -> float:
    """The step of masked values, in units of the release: a power of two, of which the noise of a
    sum of `least` members, by default the network's, spans GRID_STEPS or more in every release.

    records (u,): public sizes, summed over the nodes that each row stands for. A node's value is at
    most (its sensitivity) * (its size), so the largest sum of values, with a tail of the noise that
    is exceeded once in 2^100, is known beforehand, and must stay below 2^63 steps.
    """
    from tacenda.privacy.noise.discrete import LARGEST_SCALE  # here: it loads the compiler

    masked = [site for site, _ in sites if site.noise == NoiseKind.MASKED]
    stds = [float(plan.noise_std(site)[0]) for site in masked]
    step = 2.0 ** math.floor(math.log2(math.sqrt(least or n) * min(stds) / GRID_STEPS))
    reach = max(
        _largest_sum(site, records) + NOISE_TAIL * math.sqrt(n) * std
        for site, std in zip(masked, stds, strict=True)
    )
    own = max(stds) / step
    if reach / step >= 2.0**63 or own > LARGEST_SCALE:
        raise UnsupportedError(
            f"A masked sum may reach {reach / step:.3g} steps of its grid, and a member's noise "
            f"{own:.3g}; whole numbers hold sums below 2^63 = {2.0**63:.3g} and noise up to "
            f"{LARGEST_SCALE:.3g} steps. Spread the budget more evenly over the releases, or use "
            "noise='independent'."
        )
    return step


def _largest_sum(site: Site, records: Array) -> float:
    return float(np.dot(np.asarray(site.sensitivity), records))


def masked_reach(sites: Sites, rounds: int, records: Array, largest: Array) -> Array:
    """(rounds, 2) how far the network's sum of masked values, without noise, can be from 0 in any
    release of each round, in units of the release, and how far one member's value; `records` as for
    `masked_grid`, largest (u,): of one node."""
    found = np.zeros((rounds, 2))
    # Equal releases are noted once: they go on until the round in which the next kind begins
    ends = [site.turn for site, _ in sites[1:]] + [rounds]
    for (site, _), end in zip(sites, ends, strict=True):
        if site.noise == NoiseKind.MASKED:
            some = found[site.turn - 1 : end]
            one = float(np.max(np.asarray(site.sensitivity) * largest))
            np.maximum(some, [_largest_sum(site, records), one], out=some)
    return found


def _given_scale(privacy: Privacy, sites: Sites, n: int) -> Array:
    """(u,) the scale of noise that was given instead of a target."""
    gaussian = all(
        site.noise not in (NoiseKind.L2_LAPLACE, NoiseKind.OBJECTIVE) for site, _ in sites
    )
    if "round_epsilon" in privacy.noise:
        if gaussian and sites:
            raise InputError(
                "round_epsilon is for pure rounds; this algorithm's noise is Gaussian, "
                "so give noise_multiplier."
            )
        return np.full(n, 1.0 / privacy.noise["round_epsilon"])
    if not gaussian:
        raise InputError(
            "noise_multiplier is for Gaussian noise; this algorithm's rounds are pure, "
            "so give round_epsilon."
        )
    z = privacy.noise["noise_multiplier"]
    if not sites:
        return np.full(n, z)
    # Of the first release, where the algorithm or the spread shapes the noise over the run
    first = sites[0][0]
    if first.relative_std is not None:
        return np.asarray(z * np.asarray(first.sensitivity) / first.relative_std)
    if first.noise.shared:
        return np.asarray(z * np.asarray(first.sensitivity) * np.sqrt(first.weight))
    return np.array(np.broadcast_to(z * np.sqrt(first.weight), (n,)))


def _solved_scale(
    privacy: Privacy, sites: Sites, target: Array, plan: ScaledPlan, members: int
) -> Array:
    """(u,) the smallest scale that meets each node's own target; `plan` has scale 1. members: on
    how many nodes alike a person may be."""
    if not sites:
        return np.ones(len(target))
    unit = [(price(plan, site)[0], count) for site, count in sites]
    if all(issubclass(charge.kind, GAUSSIANS) for charge, _ in unit):
        mu = np.sqrt(
            sum(
                count * _mu(charge) ** 2 * (members**2 if "mu" in charge.entries else members)
                for charge, count in unit
            )
        )
        goals = {e: gaussian_mu(e, privacy.delta) for e in np.unique(target)}
        return np.asarray(mu / np.array([goals[e] for e in target]))
    return _solved_by_kind(privacy, sites, unit, target, plan, members)


def _mu(charge: Charge) -> Array:
    return (
        charge.entries["mu"] if "mu" in charge.entries else 1 / charge.entries["noise_multiplier"]
    )


def _solved_by_kind(
    privacy: Privacy,
    sites: Sites,
    unit: Sequence[Any],
    target: Array,
    plan: ScaledPlan,
    at_nodes: int,
) -> Array:
    """One solve for each distinct list of events; among nodes alike but for their sampling rates
    these are grouped, upwards."""
    named = [
        (name, _rounded(np.asarray(v, float)))
        for charge, _ in unit
        for name, v in charge.entries.items()
    ]
    signature = np.column_stack([values for _, values in named] + [target])
    _, first, kind = np.unique(signature, axis=0, return_index=True, return_inverse=True)
    kind, stand_in = kind.reshape(-1), np.arange(len(first))
    rates = [values[first] for name, values in named if name == "rate"]
    if rates and all(np.array_equal(r, rates[0]) for r in rates):
        rest = np.column_stack([values for name, values in named if name != "rate"] + [target])[
            first
        ]
        _, family = np.unique(rest, axis=0, return_inverse=True)
        for which in np.unique(family):
            members = np.flatnonzero(family.reshape(-1) == which)
            stand_in[members] = members[_by_largest_rate(rates[0][members])]
    scale = np.empty(len(first))
    for which in np.unique(stand_in):
        at = _events_at(sites, int(first[which]), plan, at_nodes)
        scale[stand_in == which] = solve_scale(
            at, float(target[first[which]]), privacy.delta, privacy.adjacency
        )
    return scale[kind]


def _by_largest_rate(rates: Array) -> Array:
    """For each rate, the position of the largest one of its group:
    no node gets too little noise."""
    order = np.argsort(rates)
    steps = np.log(rates[order[-1]] / rates[order]) / np.log(SIMILAR_RATES)
    group = np.floor(steps * min(1.0, MAX_RATE_GROUPS / (1.0 + steps.max())))
    stand_in = np.empty(len(rates), np.int64)
    for which in np.unique(group):
        members = order[group == which]
        stand_in[members] = members[-1]
    return stand_in


def _events_at(
    sites: Sites, row: int, plan: ScaledPlan, members: int
) -> Callable[[float], events.Events]:
    def at(k: float) -> events.Events:
        scaled = replace(plan, scale=k * plan.scale)
        listed = Charges((price(scaled, site)[0], count) for site, count in sites).events(row)
        return events.at_members(listed, members)

    return at


def _rounded(values: Array) -> Array:
    """To twelve digits: rounding errors do not make two nodes different."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(
            np.isfinite(values) & (values != 0), 10.0 ** np.floor(np.log10(np.abs(values))), 1.0
        )
    return np.asarray(np.round(values / size, 12) * size)


def _rounded_up(leverages: Array) -> Array:
    """To six digits, upwards: nodes that differ by rounding are planned together,
    and none gets too little noise."""
    return np.asarray(np.minimum(np.ceil(leverages * 1e6 * (1 - 1e-9)) / 1e6, 1.0))
