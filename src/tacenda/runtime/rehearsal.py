"""A rehearsal: the algorithm's own `step`, played on blank records, where every question answers
zeros with its true sensitivity. What a run would release, send or keep is known from it before any
record is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.privacy.secrets.bounded import Bounded, Sample, bound_of, require_bounded, same_numbers
from tacenda.privacy.secrets.door import Question
from tacenda.privacy.secrets.mechanisms import NoiseKind, Site
from tacenda.privacy.secrets.noise_plan import ScaledPlan, weight_of, weights_of_nodes
from tacenda.questions.blank import BlankQueries
from tacenda.questions.rules import Answers
from tacenda.runtime.assemble import assemble
from tacenda.runtime.block import Gate, Neighbours
from tacenda.runtime.host import Exits, Host, Seat
from tacenda.runtime.spec import RunSpec
from tacenda.runtime.transport import Tag

Sites = list[tuple[Site, int]]  # releases in a row that are alike, and how many


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
        require_bounded(value, "release")
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
        require_bounded(value, "release_masked")
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

    def average(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        return shared

    def total(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        return np.zeros((len(shared), groups * shared.shape[1]), np.int64)


def blank_host(
    spec: RunSpec,
    positions: Array,
    gate: Gate,
    questions: Answers | None = None,
    neighbours: Neighbours | None = None,
    width: int = 1,
) -> Host:
    """A host of some of the run's nodes on blank records; its models have length one, since no
    release depends on it."""
    plan = ScaledPlan(np.ones(len(positions)), weights_of_nodes(spec.weights, positions))
    asked = BlankQueries(spec.facts.rows(positions)) if questions is None else questions
    return assemble(
        Seat(spec.changed(output="last"), positions, plan),
        asked,
        Exits(gate, neighbours or Silence()),
        np.zeros((len(positions), width)),
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
        next(k for k, kind in enumerate(order) if name in vars(kind)) for name in ("traits", "step")
    )
    return algorithm.traits.repeats_releases and says <= steps


def releases_by_round(spec: RunSpec) -> tuple[int, ...]:
    """How many releases each round makes, the same at every node."""
    first = np.zeros(1, np.int64)
    notebook = Notebook(spec.facts.dim, weights_of_nodes(spec.weights, first), spec.row_type)
    host, made = blank_host(spec, first, notebook), [0]
    for turn in range(1, spec.rounds + 1):
        host.step(turn)
        made.append(sum(count for _, count in notebook.sites))
    return tuple(np.diff(made).tolist())


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
