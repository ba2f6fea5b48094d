"""A small masked method and a problem of unequal nodes, for tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

import tacenda as tc
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.node import Node
from tacenda.algorithms.traits import Traits


@dataclass(frozen=True)
class State:
    w: Any


@dataclass(frozen=True)
class Veiled(Algorithm):
    """w <- w - step * (masked mean of the gradients); first: the weight of the first release."""

    name: ClassVar[str] = "veiled"
    title: ClassVar[str] = "Masked descent"
    source: ClassVar[str] = "a test"

    first: float = 1.0
    kind: str = "masked"
    says: bool = True

    @property
    def traits(self) -> Traits:
        return replace(super().traits, masks=self.says)

    def init(self, node: Node, w: Any) -> State:
        return State(w)

    def step(self, s: State, node: Node) -> State:
        unit = node.facts.worst_gradient_sensitivity
        asked = node.gradient(s.w, regularised=False) / unit
        weight = self.first if node.turn == 1 else 1.0
        return State(s.w - 0.5 * unit * node.release_mean(asked, noise=self.kind, weight=weight))

    def iterate(self, s: State) -> Any:
        return s.w


def problem_of(n: int = 8, seed: int = 0, dtype: Any = float, even: bool = False) -> tc.Problem:
    rng = np.random.default_rng(seed)
    shards = []
    for size in np.full(n, 60) if even else rng.integers(40, 120, n):
        X = rng.normal(size=(size, 5))
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
        y = np.where(X[:, 0] + 0.1 * rng.normal(size=size) > 0, 1, -1)
        shards.append((X.astype(dtype), y))
    return tc.Problem(shards, loss="logistic", regulariser="l2", strength=1e-3, classes=(-1, 1))
