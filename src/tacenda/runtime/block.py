"""A block: the nodes hosted here, as an algorithm's step sees them.
It is the `Node` of `algorithms.node`."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.robust import Apart, cut, joined, left_out, noise_factor
from tacenda.errors import NetworkError, UnsupportedError
from tacenda.graph.groups import ROBUST, Groups
from tacenda.privacy.secrets.bounded import Bounded
from tacenda.privacy.secrets.door import Question
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.rules import Answers
from tacenda.questions.statistics import Statistic
from tacenda.regularisers.custom import CustomRegulariser
from tacenda.runtime.transport import Tag


class ImpossibleSum(NetworkError):
    """The sum of all members' rows is one that honest members cannot have made."""


def honest_reach(value: float, std: float, n_nodes: int, width: int) -> float:
    """How far from 0 an entry of a sum of masked rows can be.

    value: the largest sum of the nodes' values; std: of each node's noise. Honest members exceed it
    in any of the `width` entries with a chance of at most 2^-100: a sum of discrete Gaussians has
    no heavier tails than a Gaussian of its variance.
    """
    return value + math.sqrt(2 * (101 * math.log(2) + math.log(width)) * n_nodes) * std


class Neighbours(Protocol):
    """`runtime.network.Network`, or the silence of a rehearsal."""

    def neighbour_sum(self, shared: Array, tag: Tag, senders: Array | None = None) -> Array: ...
    def mix(self, shared: Array, tag: Tag) -> Array: ...
    def average(self, shared: Array, tag: Tag, groups: int = 1) -> Array: ...
    def total(self, shared: Array, tag: Tag, groups: int = 1) -> Array: ...


class Gate(Protocol):
    """`privacy.door.Door`, or the notebook of a rehearsal."""

    def release(
        self,
        value: Bounded,
        turn: int,
        call: int,
        noise: str,
        relative_std: float | None,
        weight: float = 1.0,
    ) -> Array: ...
    def release_masked(
        self, value: Bounded, turn: int, call: int, weight: float
    ) -> tuple[Array, float]: ...
    def release_argmin(
        self, question: Question, turn: int, call: int, noise: str = "l2-laplace"
    ) -> Array: ...


def dual_factor(k: Constants, weight: float, quadratic: float) -> Any:
    """What a step of dual averaging multiplies z by, shrunk or as it is: a plain number, which
    takes the type of the rows, whatever type the settings were given in; or a number for each
    coordinate, if the regulariser has them."""
    factor = -1.0 / (weight * (k.strength * k.regulariser.l2) + quadratic)
    return factor if np.ndim(factor) else float(factor)


class Block:
    """b nodes with their queries, their door and their neighbours. `start` opens a round; every
    call has its place in it."""

    def __init__(
        self,
        queries: Answers,
        gate: Gate,
        neighbours: Neighbours,
        *,
        degree: Array,
        is_hub: Array,
        n_nodes: int,
        rounds: int,
        noise_scale: Array | None,
        weights: Array | None,
        reach: Array | None = None,
        groups: Groups | None = None,
        apart: Apart | None = None,
        dtype: Any = np.float64,
    ) -> None:
        """reach (rounds, 2): see `NoisePlan.reach`. apart: where what groups differ in is noted."""
        self.facts: Facts = queries.facts
        self.n_nodes, self.rounds, self.turn = n_nodes, rounds, 0
        self.degree: Array = degree.astype(dtype)[:, None]
        self.is_hub: Array = is_hub.astype(dtype)[:, None]
        self._queries, self._gate, self._neighbours = queries, gate, neighbours
        self._scale, self._weights, self._dtype = noise_scale, weights, dtype
        self._reach = reach
        self._groups, self._apart = groups, apart
        self._calls = [0]  # a list: a mapped block counts on
        self._map: RecordMap | None = None
        # None, not itself: what refers to itself lives on until the collector comes, with all rows
        self._other: Block | None = None

    def start(self, turn: int) -> None:
        """Open round `turn`."""
        self.turn, self._calls[0] = turn, 0

    def _places(self, count: int = 1) -> int:
        first = self._calls[0]
        self._calls[0] += count
        return first

    def skip_mean(self) -> None:
        self._places(1 + self._sum_places)

    @property
    def _sum_places(self) -> int:
        """Of a sum's way up and down the tree; each group's sum comes down by itself."""
        return 2 if self._groups is None else 2 + self._groups.count

    @property
    def _n_groups(self) -> int:
        return 1 if self._groups is None else self._groups.count

    def mean_std(self, unit: float, width: int, weight: float = 1.0) -> float:
        std = self.noise_multiplier * (unit / math.sqrt(weight * self.n_nodes))
        return float(std[0, 0]) * noise_factor(self._n_groups, width)

    @property
    def noise_multiplier(self) -> Array:
        """(b, 1) z of a Gaussian release in this round; 0 without privacy."""
        if self._scale is None or self._weights is None:
            return np.zeros_like(self.degree)
        z: Array = (self._scale / np.sqrt(self._weights[self.turn - 1])).astype(self._dtype)[
            :, None
        ]
        return z

    def gradient(
        self,
        w: Array,
        batch_size: int | None = None,
        *,
        one: bool = False,
        regularised: bool = True,
    ) -> Bounded:
        return self._queries.gradient(w, self.turn, self._places(), batch_size, one, regularised)

    def second_moment(
        self, label_scale: float = 0.0, label_bound: float = 1.0, *, diagonal: bool = False
    ) -> Bounded:
        return self._queries.second_moment(label_scale, label_bound, diagonal)

    def statistic(self, statistic: Statistic, w: Array) -> Bounded:
        return self._queries.statistic(statistic, w)

    def mapped(self, by: RecordMap) -> Block:
        """The same block on mapped records; it shares the round's calls, the door and the
        neighbours. Asked again with the same map, it is the same block."""
        known, other = self._map, self._other
        if known is None or other is None or not known.same_as(by):
            other = copy.copy(self)
            other._queries = self._queries.mapped(by)
            other.facts = other._queries.facts
            other._map, other._other = None, None
            self._map, self._other = replace(by, matrix=by.matrix.copy()), other
        if other.facts.released_smoothness != by.smoothness:
            other.facts = replace(other.facts, released_smoothness=by.smoothness)
        other.turn, other._calls = self.turn, self._calls
        return other

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        return self._queries.argmin(linear, quadratic, centre)

    def release(
        self,
        value: Bounded,
        *,
        noise: str = "gaussian",
        relative_std: float | None = None,
        weight: float = 1.0,
    ) -> Array:
        return self._gate.release(value, self.turn, self._places(), noise, relative_std, weight)

    def release_mean(self, value: Bounded, *, noise: str = "masked", weight: float = 1.0) -> Array:
        if self._scale is None or noise != "masked":
            # without privacy there is nothing to hide, so nothing is masked either
            kind = "gaussian" if self._scale is None else noise
            released = self.release(value, noise=kind, weight=weight)
            return self.average(released.astype(self._dtype, copy=False))
        whole, unit = self._gate.release_masked(value, self.turn, self._places(), weight)
        place = self.turn, self._places(self._sum_places)
        total = self._neighbours.total(whole, place, self._n_groups)
        if self._groups is not None:
            return self._joined(total, unit, weight, self._groups)
        self._check_possible(total, unit, weight)
        return np.asarray(total * (unit / self.n_nodes), dtype=self._dtype)

    def _joined(self, total: Array, unit: float, weight: float, groups: Groups) -> Array:
        """(b, d) what the public rule makes of the groups' sums (b, G d), in steps of `unit`."""
        found = np.zeros((len(total), total.shape[1] // groups.count), self._dtype)
        own = float(self.noise_multiplier.max()) / math.sqrt(weight)
        for i, row in enumerate(total):
            if i and np.array_equal(row, total[i - 1]):
                found[i] = found[i - 1]
                continue
            sums = row.reshape(groups.count, -1)
            # In a rehearsal nobody sends anything, and there is no bound
            most = math.inf if self._reach is None else float(self._reach[self.turn - 1, 1])
            self._check_most_possible(sums, unit, own, most, groups)
            means = sums * (unit / groups.sizes[:, None])
            std = own / np.sqrt(groups.sizes)
            means = cut(means, std, most)
            weights, kept = groups.sizes / self.n_nodes, list(range(groups.count))
            if i == 0 and self._apart is not None:
                self._apart.add(means, std)
                away = left_out(self._apart, weights)
                kept = [g for g in kept if g not in away]
            found[i] = joined(means[kept], weights[kept] / weights[kept].sum())
        return found

    def _check_most_possible(
        self, sums: Array, unit: float, own: float, most: float, groups: Groups
    ) -> None:
        """Refuse sums of which those of too many members cannot be right. Less than half of them,
        in one group of three or more, moves the result as little as any other lie."""
        wrong = [
            g
            for g, (row, size) in enumerate(zip(sums, groups.sizes.tolist(), strict=True))
            if np.abs(row.astype(float)).max()
            > honest_reach(most * size, own, size, sums.shape[1]) / unit
        ]
        if not wrong or (groups.count >= ROBUST and 2 * groups.sizes[wrong].sum() < self.n_nodes):
            return
        named = "; ".join(groups.names(g) for g in wrong)
        raise ImpossibleSum(
            f"Round {self.turn}: the sums of {len(wrong)} of {groups.count} groups are ones that "
            f"honest members cannot have made ({named}): rows or masks of these sums are wrong. "
            "Nothing was computed from them, and what was spent stays charged. Compare the "
            "versions of the program at all members, then begin again under a new contract with "
            "those whom you trust."
        )

    def _check_possible(self, total: Array, unit: float, weight: float) -> None:
        """Refuse a sum of masked rows, in steps of `unit`, that no honest members make."""
        if self._reach is None:  # in a rehearsal, where nobody sends anything
            return
        value = float(self._reach[self.turn - 1, 0])
        std = float(self.noise_multiplier.max()) / math.sqrt(weight)
        reach = honest_reach(value, std, self.n_nodes, total.shape[1]) / unit
        largest = float(np.abs(total.astype(float)).max())
        if largest > reach:
            raise ImpossibleSum(
                f"Round {self.turn}: the sum of all members' rows reaches {largest:.3g} steps, and "
                f"that of honest members at most {reach:.3g}: a row or a mask of this sum is "
                "wrong. Masks hide whose it is. Nothing was computed from it, and what was spent "
                "stays charged. Compare the versions of the program at all members, then begin "
                "again under a new contract with those whom you trust."
            )

    def release_argmin(
        self, linear: Array, quadratic: Array, centre: Array | Bounded, *, noise: str = "l2-laplace"
    ) -> Array:
        question = self._queries.question(linear, quadratic, centre)
        return self._gate.release_argmin(question, self.turn, self._places(2), noise)

    def neighbour_sum(self, shared: Array, senders: Array | None = None) -> Array:
        return self._neighbours.neighbour_sum(shared, (self.turn, self._places()), senders)

    def mix(self, shared: Array) -> Array:
        return self._neighbours.mix(shared, (self.turn, self._places()))

    def average(self, shared: Array, *, known: bool = False) -> Array:
        if known:
            # Rows of several groups take many places: those of a round with an average and those
            # of one without must not meet in one
            self._places(0 if self._groups is None else self._sum_places)
            return shared
        place = self.turn, self._places(self._sum_places)
        return self._neighbours.average(shared, place, self._n_groups)

    def prox(self, w: Array, weight: Array | float) -> Array:
        k = self.facts.constants
        # The models of a dry run may be of length one, which somebody's own prox cannot take
        if isinstance(k.regulariser, CustomRegulariser) and w.shape[-1] != self.facts.dim:
            return w
        return np.asarray(k.regulariser.prox(w, k.strength * weight), dtype=w.dtype)

    def dual_step(self, z: Array, weight: float, quadratic: float) -> Array:
        """With r R = (l2/2)|x|^2 + l1 |x|_1: x = -soft(z, weight l1) / (weight l2 + quadratic)."""
        k = self.facts.constants
        if isinstance(k.regulariser, CustomRegulariser):  # by its prox
            if not quadratic > 0:
                raise UnsupportedError(
                    f"Dual averaging takes the regulariser {k.regulariser.name!r} by its prox, "
                    "which needs an offset above 0; set offset."
                )
            return self.prox((-1.0 / quadratic) * z, weight / quadratic)
        l1 = weight * k.strength * k.regulariser.l1
        shrunk = z if l1 == 0 else np.sign(z) * np.maximum(np.abs(z) - l1, 0)
        x: Array = shrunk * dual_factor(k, weight, quadratic)
        return x.astype(z.dtype, copy=False)
