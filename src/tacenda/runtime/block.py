"""A block: the nodes hosted here, as an algorithm's step sees them.
It is the `Node` of `algorithms.base`."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tacenda._types import Array
from tacenda.privacy.secrets.bounded import Bounded
from tacenda.privacy.secrets.door import Question
from tacenda.problem.facts import Facts
from tacenda.problem.queries import Answers
from tacenda.runtime.transport import Tag


class Neighbours(Protocol):
    """`runtime.network.Network`, or the silence of a rehearsal."""

    def neighbour_sum(self, shared: Array, tag: Tag, senders: Array | None = None) -> Array: ...
    def mix(self, shared: Array, tag: Tag) -> Array: ...


class Gate(Protocol):
    """`privacy.door.Door`, or the notebook of a rehearsal."""

    def release(
        self, value: Bounded, turn: int, call: int, noise: str, relative_std: float | None
    ) -> Array: ...
    def release_argmin(self, question: Question, turn: int, call: int) -> Array: ...


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
        dtype: Any = np.float64,
    ) -> None:
        self.facts: Facts = queries.facts
        self.n_nodes, self.rounds, self.turn = n_nodes, rounds, 0
        self.degree: Array = degree.astype(dtype)[:, None]
        self.is_hub: Array = is_hub.astype(dtype)[:, None]
        self._queries, self._gate, self._neighbours = queries, gate, neighbours
        self._scale, self._weights, self._dtype = noise_scale, weights, dtype
        self._call = 0

    def start(self, turn: int) -> None:
        """Open round `turn`."""
        self.turn, self._call = turn, 0

    def _places(self, count: int = 1) -> int:
        first = self._call
        self._call += count
        return first

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

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        return self._queries.argmin(linear, quadratic, centre)

    def release(
        self, value: Bounded, *, noise: str = "gaussian", relative_std: float | None = None
    ) -> Array:
        return self._gate.release(value, self.turn, self._places(), noise, relative_std)

    def release_argmin(self, linear: Array, quadratic: Array, centre: Array) -> Array:
        question = self._queries.question(linear, quadratic, centre)
        return self._gate.release_argmin(question, self.turn, self._places(2))

    def neighbour_sum(self, shared: Array, senders: Array | None = None) -> Array:
        return self._neighbours.neighbour_sum(shared, (self.turn, self._places()), senders)

    def mix(self, shared: Array) -> Array:
        return self._neighbours.mix(shared, (self.turn, self._places()))

    def prox(self, w: Array, weight: Array | float) -> Array:
        k = self.facts.constants
        return np.asarray(k.regulariser.prox(w, k.strength * weight), dtype=w.dtype)

    def dual_step(self, z: Array, weight: float, quadratic: float) -> Array:
        """With r R = (sc/2)|x|^2 + l1 |x|_1: x = -soft(z, weight l1) / (weight sc + quadratic)."""
        k = self.facts.constants
        l1 = weight * k.strength * k.regulariser.l1
        shrunk = z if l1 == 0 else np.sign(z) * np.maximum(np.abs(z) - l1, 0)
        x: Array = shrunk * (-1.0 / (weight * k.strong_convexity + quadratic))
        return x
