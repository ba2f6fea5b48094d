"""Recycled ADMM, one half-step a round, so that its odd iterates can be seen as in Zhang et al.
(2018), Fig. 1. Without noise only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacenda.algorithms import Algorithm, Needs, Node, check_hyperparameters

Array = NDArray[Any]


@dataclass(frozen=True)
class HalfState:
    """w (b, d) the newest iterate, dual, heard as in ADMM; recycled (b, d) the gradient at the odd
    iterate, from released values."""

    w: Array
    dual: Array
    heard: Array
    recycled: Array


@dataclass(frozen=True)
class RecycledHalfSteps(Algorithm):
    """Zhang et al. (2018), (10)-(13): round 1, 3, ... is the odd half-step, round 2, 4, ... the
    even one; otherwise `RADMM` without noise."""

    name: ClassVar[str] = "radmm-half-steps"
    title: ClassVar[str] = "Recycled ADMM by half-steps"
    source: ClassVar[str] = "Zhang et al. (2018), (10)-(13)"
    private: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs(smooth_loss=True, smooth_regulariser=True)

    penalty: float = 0.5
    recycle_proximal: float = 0.2

    def __post_init__(self) -> None:
        check_hyperparameters(self, positive=("penalty",), at_least_zero=("recycle_proximal",))

    def init(self, node: Node, w: Array) -> HalfState:
        return HalfState(w, 0 * w, node.degree * w, 0 * w)

    def step(self, s: HalfState, node: Node) -> HalfState:
        eta, deg = self.penalty, node.degree
        if node.turn % 2:
            centre = 0.5 * (s.w + s.heard / np.maximum(deg, 1))  # any, for a node alone
            w = node.release(node.argmin(2 * s.dual, eta * deg, centre))
            heard = node.neighbour_sum(w)
            recycled = -2 * s.dual - eta * (2 * deg * w - deg * s.w - s.heard)
            return HalfState(w, s.dual + (eta / 2) * (deg * w - heard), heard, recycled)
        pull = s.recycled + 2 * s.dual + eta * (deg * s.w - s.heard)
        w = s.w - pull / (2 * eta * deg + self.recycle_proximal)
        return HalfState(w, s.dual, node.neighbour_sum(w), s.recycled)

    def iterate(self, s: HalfState) -> Array:
        return s.w
