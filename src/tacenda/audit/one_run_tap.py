"""Canaries of a one-run audit: planted by coins, and scored at the door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.audit.worlds import dense_rows, make_store
from tacenda.privacy.bounded import Bounded, open_parts
from tacenda.privacy.door import Door, Question
from tacenda.privacy.mechanisms import Site
from tacenda.privacy.noise import SimulatedNoise
from tacenda.privacy.plan import price
from tacenda.problem.facts import Facts
from tacenda.problem.queries import Queries
from tacenda.problem.store import DenseStore

Array = NDArray[Any]
COIN_ROUND = 1 << 30  # a round that no run reaches: its stream tosses the coins


@dataclass(frozen=True, eq=False)
class Coins:
    """owner (m,): each canary's node; heads (m,): whether its second record is there.

    first, second: stores of m nodes with one record each, the candidates; base: the n nodes without their canaries.
    All have the problem's divisors, and neither candidate store has a regulariser.
    """

    owner: Array
    heads: Array
    first: DenseStore
    second: DenseStore
    base: DenseStore

    @property
    def count(self) -> int:
        return len(self.owner)


def plant(problem: Any, facts: Facts, per_node: int, adjacency: str, noise: SimulatedNoise) -> tuple[Coins, DenseStore]:
    """The coins, and a store where they have decided: canaries take the first records of every node, each on its own axis."""
    n, p = problem.n_nodes, problem.n_features
    rows, labels, offsets = dense_rows(problem), np.array(problem.store.labels, float), problem.store.offsets
    owner = np.repeat(np.arange(n), per_node)
    number = np.tile(np.arange(per_node), n)
    x = problem.data_norm * np.eye(p)[number % p]
    low, high = {"binary": (-1.0, 1.0), "multiclass": (0.0, problem.n_outputs - 1.0)}.get(problem.loss.kind, (-1e3, 1e3))
    second = (x, np.full(len(x), high))
    first = (0 * x if adjacency == "add-remove" else x, np.full(len(x), low))
    toss = noise.l2_laplace(np.arange(len(x)), COIN_ROUND, 0, np.ones(len(x)), 1)
    heads = toss[:, 0] > 0  # in one dimension the noise's sign is a fair coin
    at = offsets[owner] + number
    base_rows = rows.copy()
    base_rows[at] = 0.0  # a row of zeros adds nothing to a gradient
    rows[at] = np.where(heads[:, None], second[0], first[0])
    labels[at] = np.where(heads, second[1], first[1])
    alone, divisors = np.arange(len(x) + 1), facts.sizes[owner]
    coins = Coins(
        owner, heads, make_store(facts, *first, alone, divisors), make_store(facts, *second, alone, divisors),
        make_store(facts, base_rows, labels, offsets, facts.sizes),
    )  # fmt: skip
    return coins, make_store(facts, rows, labels, offsets, facts.sizes)


class CanaryTap(Queries):
    """Queries and gate of the one run in one object: it hears each public point asked and each value released.

    scores (m,): positive where the second record is the likelier one.
    """

    def __init__(
        self, store: DenseStore, counts: Array, nodes: Array, facts: Facts, noise: SimulatedNoise, door: Door, coins: Coins
    ) -> None:
        super().__init__(store, counts, nodes, facts, noise)
        self._door, self._coins = door, coins
        self._asked: tuple[Any, ...] = ()
        self.scores = np.zeros(coins.count)

    def gradient(self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool) -> Bounded:
        self._asked = ("gradient", w, regularised)
        return super().gradient(w, turn, call, batch_size, one, regularised)

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        self._asked = ("argmin", linear, quadratic, centre)
        return super().argmin(linear, quadratic, centre)

    def question(self, linear: Array, quadratic: Array, centre: Array) -> Question:
        self._asked = ("argmin", linear, quadratic, centre)
        return super().question(linear, quadratic, centre)

    def release(self, value: Bounded, turn: int, call: int, noise: str, relative_std: float | None) -> Array:
        """The production release, and the canaries' scores from it."""
        factor, offset = open_parts(value)[1:]  # public: what the algorithm did with the answer
        out = self._door.release(value, turn, call, noise, relative_std)
        weight = self._door.plan.weight(turn)  # type: ignore[union-attr]
        site = Site(turn, weight, self._door.dim, noise, value.sensitivity, value.sample, relative_std)
        amount = price(self._door.plan, site)[1]
        spread = 1 / amount if noise == "l2-laplace" else amount
        if self._asked[0] == "gradient":
            column = np.broadcast_to(np.asarray(factor, float).reshape(-1, 1), (len(out), 1))
            middle, lean = self._leanings(self._asked[1], self._asked[2])
            answer = (out if offset is None else out - offset) / column
            self._note(answer - middle, lean, np.abs(column[:, 0]) / spread)
        else:
            self._note_argmin(out, np.zeros(len(out)), 1 / (self._kappa() * spread))
        return out

    def release_argmin(self, question: Question, turn: int, call: int) -> Array:
        """The production release; the noise inside shows in the gradient of the objective at the released point."""
        out = self._door.release_argmin(question, turn, call)
        site = Site(turn, self._door.plan.weight(turn), self._door.dim, "objective", objective=question.terms)  # type: ignore[union-attr]
        amount = price(self._door.plan, site)[1]
        self._note_argmin(out, amount.extra, amount.rate)
        return out

    def _note_argmin(self, out: Array, extra: Array, sharpness: Array) -> None:
        """At the true minimiser the objective's gradient is minus the noise; the canaries' part of it shows who is there."""
        _, linear, quadratic, centre = self._asked
        if isinstance(linear, Bounded) or isinstance(centre, Bounded):
            return  # the published PVP after its first round asks at hidden points: nothing simple follows from them
        middle, lean = self._leanings(out, True)
        q = np.broadcast_to(np.asarray(quadratic, float), (len(out), 1))
        slope = middle + linear + 2 * q * (out - centre) + extra[:, None] * out
        self._note(-slope, lean, sharpness)

    def _kappa(self) -> Array:
        q = np.broadcast_to(np.asarray(self._asked[2], float).reshape(-1), (len(self._nodes),))
        return self.facts.argmin_convexity(q)

    def _leanings(self, w: Array, regularised: bool) -> tuple[Array, Array]:
        """(n, d) each node's gradient at w with its canaries halfway, and (m, d) second minus first of each canary."""
        c, clip = self._coins, self.facts.constants.clip_norm
        alone = np.arange(c.count)
        a, b = (store.gradient(alone, w[c.owner], clip, False) for store in (c.first, c.second))
        middle = c.base.gradient(np.arange(len(w)), w, clip, regularised)
        np.add.at(middle, c.owner, (a + b) / 2)
        return middle, b - a

    def _note(self, residual: Array, lean: Array, sharpness: Array) -> None:
        """residual (n, d) in units of the gradient, sharpness (n,) one over its noise."""
        owner = self._coins.owner
        self.scores += np.einsum("md,md->m", residual[owner], lean) * sharpness[owner] ** 2
