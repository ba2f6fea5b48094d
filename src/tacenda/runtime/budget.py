"""From a budget to the noise of every release, before any data is read.

A run is first rehearsed: the algorithm's own `step` is played for all rounds on blank records,
where every query answers zeros with its true sensitivity. What it would release is noted (`Site`);
one noise scale per node is then solved for, so that the composition of all its releases meets
(epsilon, delta); and the resulting charges are reserved, in order, for the real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.errors import InputError, LeakError, UnsupportedError
from tacenda.graph.coalition import leverage
from tacenda.privacy.accounting import events
from tacenda.privacy.accounting.calibration import gaussian_mu, solve_scale
from tacenda.privacy.secrets.bounded import Bounded, Sample, bound_of, same_numbers
from tacenda.privacy.secrets.door import Question
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.privacy.secrets.mechanisms import NoiseKind, Site
from tacenda.privacy.secrets.noise_plan import (
    NoisePlan,
    ScaledPlan,
    price,
    weight_of,
    weights_of_nodes,
)
from tacenda.privacy.settings import Privacy
from tacenda.problem.queries import Answers, BlankQueries
from tacenda.runtime.block import Gate, Neighbours
from tacenda.runtime.host import Host
from tacenda.runtime.spec import RunSpec
from tacenda.runtime.transport import Tag

Sites = list[tuple[Site, int]]
GAUSSIANS = (events.Gaussian, events.CorrelatedGaussian)
GRID_STEPS = 2.0**26  # of the grid, which the noise of a masked sum spans: far beyond any rounding
TAIL = math.sqrt(2 * 101 * math.log(2))  # 2 exp(-TAIL^2 / 2) = 2^-100
# Sampling rates within 10 % share the noise of the largest,
# and at most so many groups are calibrated
NEAR, MANY = 1.1, 4


class Notebook:
    """A gate that writes down what would be released, and answers zeros."""

    def __init__(self, dim: int, weights: Array, dtype: Any = np.float64) -> None:
        self.dim, self.weights, self.dtype = dim, weights, dtype  # weights: of the hosted nodes
        self.sites: Sites = []

    def release(
        self,
        value: Bounded,
        turn: int,
        call: int,
        noise: str,
        relative_std: float | None,
        weight: float = 1.0,
    ) -> Array:
        if not isinstance(value, Bounded):
            raise LeakError(
                f"release takes a Bounded from a query, not a {type(value).__name__}: "
                "public values need none."
            )
        value.sample.spend()
        share = weight * weight_of(self.weights, turn)
        self.note(
            Site(
                turn,
                share,
                self.dim,
                NoiseKind.added(noise),
                bound_of(value),
                value.sample,
                relative_std,
            )
        )
        return np.zeros(value.shape, self.dtype)

    def release_masked(
        self, value: Bounded, turn: int, call: int, weight: float
    ) -> tuple[Array, float]:
        if not isinstance(value, Bounded):
            raise LeakError(
                f"release_masked takes a Bounded from a query, not a {type(value).__name__}: "
                "public values need none."
            )
        value.sample.spend()
        share = weight * weight_of(self.weights, turn)
        self.note(Site(turn, share, self.dim, NoiseKind.MASKED, bound_of(value), value.sample))
        return np.zeros(value.shape, np.uint64), 1.0

    def release_argmin(
        self, question: Question, turn: int, call: int, noise: str = "l2-laplace"
    ) -> Array:
        weight, kind = weight_of(self.weights, turn), NoiseKind.within(noise)
        self.note(Site(turn, weight, self.dim, kind, objective=question.terms))
        return np.zeros(question.shape)

    def note(self, site: Site, count: int = 1) -> None:
        """Write down so many releases, one after the other."""
        if self.sites and _alike(self.sites[-1][0], site):
            self.sites[-1] = (self.sites[-1][0], self.sites[-1][1] + count)
        else:
            self.sites.append((site, count))


class Silence:
    """Neighbours that say nothing: sensitivities never depend on what is received."""

    def neighbour_sum(self, shared: Array, tag: Tag, senders: Array | None = None) -> Array:
        return np.zeros_like(shared)

    def mix(self, shared: Array, tag: Tag) -> Array:
        return shared

    def average(self, shared: Array, tag: Tag) -> Array:
        return shared

    def total(self, shared: Array, tag: Tag) -> Array:
        return np.zeros(shared.shape, np.int64)


def blank_host(
    spec: RunSpec,
    positions: Array,
    gate: Gate,
    queries: Answers | None = None,
    neighbours: Neighbours | None = None,
    width: int = 1,
) -> Host:
    """A host of some of the run's nodes on blank records; its models have length one, since no
    release depends on it."""
    weights = weights_of_nodes(spec.weights, positions)
    plan = ScaledPlan(np.ones(len(positions)), weights)
    asked = BlankQueries(spec.facts.rows(positions)) if queries is None else queries
    start = np.zeros((len(positions), width), spec.row_type)
    return Host(
        spec.changed(output="last"), positions, asked, gate, neighbours or Silence(), plan, start
    )


def rehearse(spec: RunSpec, positions: Array) -> Sites:
    """All releases of a run, for the nodes at these positions; no data is needed."""
    notebook = Notebook(spec.facts.dim, weights_of_nodes(spec.weights, positions), spec.row_type)
    host = blank_host(spec, positions, notebook)
    for turn in range(1, spec.rounds + 1):
        host.step(turn)
        if turn == 2 and (known := _sites_of_all(spec, notebook)) is not None:
            return known
    return notebook.sites


def _sites_of_all(spec: RunSpec, notebook: Notebook) -> Sites | None:
    """The releases of all rounds, worked out from those of the first two; None where these do not
    tell."""
    algorithm, weights, seen = spec.algorithm, notebook.weights, notebook.sites
    each, left = divmod(sum(count for _, count in seen), 2)
    if not _repeats(algorithm) or each == 0 or left or not (weights == weights[0]).all():
        return None

    def sites_of(rounds: int) -> Sites:
        first = seen[0][0]
        if first.relative_std is None:
            return [(first, each * rounds)]
        told = Notebook(notebook.dim, weights)
        for turn in range(1, rounds + 1):
            site = replace(first, turn=turn, relative_std=algorithm.relative_std(turn))
            told.note(site, each)
        return told.sites

    expected = sites_of(2)
    alike = len(expected) == len(seen) and all(
        count == other_count and _alike(site, other)
        for (site, count), (other, other_count) in zip(expected, seen, strict=True)
    )
    return sites_of(spec.rounds) if alike else None


def _repeats(algorithm: Algorithm) -> bool:
    """Whether the algorithm says that all rounds are alike, of the step that it has: a class with a
    step of its own has to say it anew."""
    order = type(algorithm).__mro__
    says, steps = (
        next(k for k, kind in enumerate(order) if name in vars(kind))
        for name in ("repeats_releases", "step")
    )
    return algorithm.repeats_releases and says <= steps


def releases_by_round(spec: RunSpec) -> tuple[int, ...]:
    """How many releases each round makes, the same at every node."""
    first = np.zeros(1, np.int64)
    notebook = Notebook(spec.facts.dim, weights_of_nodes(spec.weights, first), spec.row_type)
    host, made = blank_host(spec, first, notebook), [0]
    for turn in range(1, spec.rounds + 1):
        host.step(turn)
        made.append(sum(count for _, count in notebook.sites))
    return tuple(np.diff(made).tolist())


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
    ratio, shares, pooled = algorithm.shared_noise, np.ones(topology.n), 0
    if ratio is not None:
        pooled = privacy.pooled(algorithm.title)
        shares, _ = leverage(topology, ratio, pooled)
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
            grid = masked_grid(plan, sites, topology.n, sizes)
            # Declared sizes may be exceeded: a member may hold up to twice as many records
            most = sizes if facts.true_sizes else 2 * sizes
            plan = replace(plan, grid=grid, reach=masked_reach(sites, spec.rounds, most))
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
    if spec.algorithm.learns:
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
    says = algorithm.masks
    shared = {site.noise for site, _ in sites if site.noise.shared}
    if shared and shared != {NoiseKind.MASKED if says else NoiseKind.CORRELATED}:
        raise UnsupportedError(
            f"{algorithm.title} releases with noise={', '.join(sorted(shared))!r}, but says that "
            f"its shared_noise is {algorithm.shared_noise!r} and masks={says}; 'masked' goes with "
            "masks=True, 'correlated' with a ratio, and one run has one of them."
        )
    return says and bool(shared)


def masked_grid(plan: ScaledPlan, sites: Sites, n: int, records: Array) -> float:
    """The step of masked values, in units of the release: a power of two, of which the noise of the
    network's sum spans GRID_STEPS or more in every release.

    records (u,): public sizes, summed over the nodes that each row stands for. A node's value is at
    most (its sensitivity) * (its size), so the largest sum of values, with a tail of the noise that
    is exceeded once in 2^100, is known beforehand, and must stay below 2^63 steps.
    """
    from tacenda.privacy.noise.discrete import LARGEST_SCALE  # here: it loads the compiler

    masked = [site for site, _ in sites if site.noise == NoiseKind.MASKED]
    stds = [float(plan.noise_std(site)[0]) for site in masked]
    step = 2.0 ** math.floor(math.log2(math.sqrt(n) * min(stds) / GRID_STEPS))
    reach = max(
        _largest_sum(site, records) + TAIL * math.sqrt(n) * std
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


def masked_reach(sites: Sites, rounds: int, records: Array) -> Array:
    """(rounds,) how far the network's sum of masked values, without noise, can be from 0 in any
    release of each round, in units of the release; `records` as for `masked_grid`."""
    found = np.zeros(rounds)
    # Equal releases are noted once: they go on until the round in which the next kind begins
    ends = [site.turn for site, _ in sites[1:]] + [rounds]
    for (site, _), end in zip(sites, ends, strict=True):
        if site.noise == NoiseKind.MASKED:
            some = found[site.turn - 1 : end]
            np.maximum(some, _largest_sum(site, records), out=some)
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
    steps = np.log(rates[order[-1]] / rates[order]) / np.log(NEAR)
    group = np.floor(steps * min(1.0, MANY / (1.0 + steps.max())))
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


def _alike(a: Site, b: Site) -> bool:
    if (a.noise, a.relative_std) != (b.noise, b.relative_std):
        return False
    if isinstance(a.weight, float) and isinstance(b.weight, float):
        if a.weight != b.weight:
            return False
    elif not np.array_equal(a.weight, b.weight):
        return False
    if a.objective is not None and b.objective is not None:
        same = np.array_equal(a.objective.slope, b.objective.slope)
        return same and np.array_equal(a.objective.convexity, b.objective.convexity)
    return same_numbers(a.sensitivity, b.sensitivity) and _same_sample(a.sample, b.sample)


def _same_sample(a: Sample | None, b: Sample | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.kind == b.kind and same_numbers(a.rate, b.rate)
