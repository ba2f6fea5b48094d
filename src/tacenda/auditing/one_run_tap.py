"""Canaries of a one-run audit: planted by coins, and scored by an adversary who plays along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacenda._types import Array
from tacenda.auditing.shared_noise import SharedScores
from tacenda.auditing.stage import beside_start
from tacenda.auditing.worlds import dense_rows, make_store
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import Bounded
from tacenda.privacy.secrets.door import Door, Question
from tacenda.privacy.secrets.mechanisms import NoiseKind, Site
from tacenda.privacy.secrets.noise_plan import NoisePlan, price
from tacenda.problem.problem import Problem
from tacenda.questions.facts import Facts
from tacenda.questions.store import DenseStore

COIN_ROUND = 1 << 30  # a round that no run reaches: its stream tosses the coins


@dataclass(frozen=True, eq=False)
class Coins:
    """owner, axis (m,): each canary's node and feature; heads (m,): whether its second record is
    there.

    first, second: stores of m nodes with one record each, the candidates; base: the n nodes without
    their canaries. All have the problem's divisors, and neither candidate store has a regulariser.
    """

    owner: Array
    axis: Array
    heads: Array
    first: DenseStore
    second: DenseStore
    base: DenseStore

    @property
    def count(self) -> int:
        return len(self.owner)


def plant(
    problem: Problem,
    facts: Facts,
    per_node: int,
    adjacency: str,
    noise: SimulatedNoise,
    apart: bool,
    start: Array | None = None,
) -> tuple[Coins, DenseStore]:
    """The coins, and a store where they have decided: canaries take the first records of every
    node, each on its own axis.

    apart: no axis is used at two nodes, as far as there are axes. Where neighbours share noise,
    only the sum over the nodes is seen well, in which canaries on one axis would hide each other.
    start (p,): a public start far out, if there is one; the two records then lie on either side of
    it, both wrongly classified, where a smooth loss has its full slope.
    """
    n, p = problem.n_nodes, problem.n_features
    rows = dense_rows(problem)
    labels = np.array(problem.store.labels, float)
    offsets = problem.store.offsets
    owner = np.repeat(np.arange(n), per_node)
    number = np.tile(np.arange(per_node), n)
    axis = (owner * per_node + number if apart else number) % p
    x = problem.data_norm * np.eye(p)[axis]
    low, high = {"binary": (-1.0, 1.0), "multiclass": (0.0, problem.n_outputs - 1.0)}.get(
        problem.loss.kind, (-1e3, 1e3)
    )
    second = (x, np.full(len(x), high))
    first = (0 * x if adjacency == "add-remove" else x, np.full(len(x), low))
    if start is not None and problem.loss.kind == "binary":
        sides = [beside_start(start, problem.data_norm, e) for e in np.eye(p)]
        usable = [pair for pair in sides if pair is not None]
        pairs: Array = np.array(usable)[axis % len(usable)]
        second = (pairs[:, 1], second[1])
        first = (first[0], first[1]) if adjacency == "add-remove" else (pairs[:, 0], second[1])
    toss = noise.l2_laplace(np.arange(len(x)), COIN_ROUND, 0, np.ones(len(x)), 1)
    heads = toss[:, 0] > 0  # in one dimension the noise's sign is a fair coin
    at = offsets[owner] + number
    base_rows = rows.copy()
    base_rows[at] = 0.0  # a row of zeros adds nothing to a gradient
    rows[at] = np.where(heads[:, None], second[0], first[0])
    labels[at] = np.where(heads, second[1], first[1])
    alone, divisors = np.arange(len(x) + 1), facts.sizes[owner]
    coins = Coins(
        owner,
        axis,
        heads,
        make_store(facts, *first, alone, divisors),
        make_store(facts, *second, alone, divisors),
        make_store(facts, base_rows, labels, offsets, facts.sizes),
    )
    return coins, make_store(facts, rows, labels, offsets, facts.sizes)


class Heard(NamedTuple):
    """released (n, d); amount: noise_std (n,), rate (n,) or ObjectiveNoise;
    streams (edges, d) or None."""

    released: Array
    amount: Any
    streams: Array | None


class Recorder:
    """The gate of the one run: the production door,
    and a list of what left it with its publicly known noise."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.releases: list[Heard] = []

    def release(
        self,
        value: Bounded,
        turn: int,
        call: int,
        noise: str,
        relative_std: float | None,
        weight: float = 1.0,
    ) -> Array:
        out = self._door.release(value, turn, call, noise, relative_std, weight)
        site = Site(
            turn,
            weight * self._plan.weight(turn),
            self._door.dim,
            NoiseKind.added(noise),
            value.sensitivity,
            value.sample,
            relative_std,
        )
        self.releases.append(
            Heard(out, price(self._plan, site)[1], self._streams(turn, call, noise))
        )
        return out

    def _streams(self, turn: int, call: int, noise: str) -> Array | None:
        """(edges, d) the edges' normals, where neighbours share noise: a curious member knows those
        of its own edges."""
        if noise != "correlated" or self._door.shared is None:
            return None
        numbers = np.unique(self._door.shared.edges[1])
        each = (np.arange(len(numbers) + 1), numbers, np.ones(len(numbers)))
        return self._door.noise.shared(each, turn, call, self._door.dim)

    def release_argmin(
        self, question: Question, turn: int, call: int, noise: str = "l2-laplace"
    ) -> Array:
        out = self._door.release_argmin(question, turn, call, noise)
        site = Site(
            turn,
            self._plan.weight(turn),
            self._door.dim,
            NoiseKind.within(noise),
            objective=question.terms,
        )
        self.releases.append(Heard(out, price(self._plan, site)[1], None))
        return out

    @property
    def _plan(self) -> NoisePlan:
        """Of the door: only a run with privacy is attacked."""
        assert self._door.plan is not None
        return self._door.plan


class Eavesdropper:
    """Plays the algorithm's own step with what it knows, and listens: it opens no secret, it has
    none.

    It hosts two copies of the network, 2n rows. Its queries answer plain arrays: the gradient with
    all canaries halfway, and in the second copy that plus one, so that the difference of what would
    be released is the factor by which an answer is scaled. Each of its releases then is replaced by
    the one that was heard. scores (m, attacks): positive where the second record is likelier.
    """

    def __init__(self, facts: Facts, coins: Coins, shared: SharedScores | None) -> None:
        self._n, self._coins, self._shared = facts.n, coins, shared
        self.facts = facts.rows(np.tile(np.arange(facts.n), 2))
        self._scores = np.zeros(coins.count)
        self._heard: list[Heard] = []
        self._asked: tuple[Any, ...] = ()

    @property
    def scores(self) -> Array:
        return self._scores[:, None] if self._shared is None else self._shared.scores()

    def hear(self, releases: list[Heard]) -> None:
        """What left the door in the round that is played next."""
        self._heard = list(releases)

    def gradient(
        self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool
    ) -> Any:
        middle, lean = self._leanings(w[: self._n], regularised)
        self._asked = ("gradient", lean)
        return np.vstack([middle, middle + 1.0])

    def argmin(self, linear: Any, quadratic: Array, centre: Any) -> Any:
        self._asked = ("argmin", linear, quadratic, centre)
        # Unknown: the published PVP, which goes on from it, is scored in its first round only
        return np.full(linear.shape, np.nan)

    def question(self, linear: Array, quadratic: Array, centre: Array) -> Any:
        self._asked = ("argmin", linear, quadratic, centre)

    def release(
        self,
        value: Any,
        turn: int,
        call: int,
        noise: str,
        relative_std: float | None,
        weight: float = 1.0,
    ) -> Array:
        out, amount, streams = self._heard.pop(0)
        spread = 1 / amount if noise == "l2-laplace" else amount
        if self._asked[0] == "gradient":
            middle, factor = value[: self._n], value[self._n :, :1] - value[: self._n, :1]
            lean = factor[self._coins.owner] * self._asked[1]
            if self._shared is None:
                self._note(out - middle, lean, 1 / spread, noise == "l2-laplace")
            else:
                assert streams is not None
                self._shared.note(
                    (out - middle) / spread[:, None],
                    streams,
                    lean / spread[self._coins.owner, None],
                )
        else:
            quadratic = np.broadcast_to(
                np.asarray(self._asked[2], float).reshape(-1), (2 * self._n,)
            )
            kappa = self.facts.argmin_convexity(quadratic)[: self._n]
            self._note_argmin(out, np.zeros(self._n), 1 / (kappa * spread), noise == "l2-laplace")
        return np.vstack([out, out])

    def release_argmin(
        self, question: Any, turn: int, call: int, noise: str = "l2-laplace"
    ) -> Array:
        out, amount, _ = self._heard.pop(0)
        laplace = noise == "l2-laplace"
        sharpness = amount.amount if laplace else 1 / amount.amount
        self._note_argmin(out, amount.extra, sharpness, laplace)
        return np.vstack([out, out])

    def _note_argmin(self, out: Array, extra: Array, sharpness: Array, laplace: bool) -> None:
        """At the true minimiser the objective's gradient is minus the noise; the canaries' part of
        it shows who is there."""
        _, linear, quadratic, centre = self._asked
        n = self._n
        if not np.isfinite(centre).all():
            return
        middle, lean = self._leanings(out, True)
        q = np.broadcast_to(np.asarray(quadratic, float), (2 * n, 1))[:n]
        slope = middle + linear[:n] + 2 * q * (out - centre[:n]) + extra[:, None] * out
        self._note(-slope, lean, sharpness, laplace)

    def _leanings(self, w: Array, regularised: bool) -> tuple[Array, Array]:
        """(n, d) each node's gradient at w with its canaries halfway, and (m, d) second minus first
        of each canary."""
        c, clip = self._coins, self.facts.constants.clip_norm
        alone, w = np.arange(c.count), np.ascontiguousarray(w)
        a, b = (store.gradient(alone, w[c.owner], clip, False) for store in (c.first, c.second))
        middle = c.base.gradient(np.arange(len(w)), w, clip, regularised)
        np.add.at(middle, c.owner, (a + b) / 2)
        return middle, b - a

    def _note(self, residual: Array, lean: Array, sharpness: Array, laplace: bool) -> None:
        """residual (n, d), lean (m, d) in the same units,
        sharpness (n,) one over the noise in them."""
        owner = self._coins.owner
        if laplace:
            far0, far1 = (
                np.linalg.norm(residual[owner] + side * lean / 2, axis=1) for side in (1, -1)
            )
            self._scores += sharpness[owner] * (far0 - far1)
            return
        self._scores += np.einsum("md,md->m", residual[owner], lean) * sharpness[owner] ** 2
