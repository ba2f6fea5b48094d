"""The optimum itself, without privacy: quasi-Newton steps on exact sums over a tree; our own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.needs import Needs
from tacenda.algorithms.node import Node
from tacenda.algorithms.published import Verdict
from tacenda.algorithms.quadratic import Quadratic
from tacenda.algorithms.traits import Traits
from tacenda.errors import UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.questions.facts import Facts
from tacenda.questions.moments import unpacked

MOST_FEATURES = 1000  # with a second moment: a message then holds half a million numbers
PAIRS = 20  # of differences that the quasi-Newton steps remember
ENOUGH = 0.5  # of the first slope: a step that ends on a smaller one is taken, for a smooth loss
MOST_CUTS = 30  # of one step
LEAST = 1e-9  # of the largest curvature, where a direction is flat


@dataclass(frozen=True)
class OptimumState:
    """x (b, d): the model; agreed (b, 1): 1.0 once it is the same row at every node.

    Held once for all nodes: asked (d,), where the next gradient is asked for; gradient (d,) at x,
    and direction (d,) of the step from there; numbers (6,): length of the step, how often it was
    cut, momentum, size of the gradient, the largest size so far, and 1.0 when finished; pairs
    (2, k, d): differences of models and of gradients; vectors (p, p) and values (p,) of the
    curvature bound.
    """

    x: Array
    agreed: Array
    asked: Array = field(metadata={"common": True})
    gradient: Array = field(metadata={"common": True})
    direction: Array = field(metadata={"common": True})
    numbers: Array = field(metadata={"common": True})
    pairs: Array = field(metadata={"common": True})
    vectors: Array | None = field(default=None, metadata={"common": True})
    values: Array | None = field(default=None, metadata={"common": True})


@dataclass(frozen=True)
class Optimum(Algorithm):
    """The minimiser of the stated objective, from exact sums of gradients over a spanning tree.

        round 1     M <- (1/n) sum_i (1/m_i) sum_j x x'        (up to 1000 features)
                    Q = curvature c M + r l2, a bound on the Hessian everywhere
        smooth R    L-BFGS, begun with Q^-1: x <- x - t H g; t is cut while the slope at its end
                    rises steeply, and for a loss with kinks while it rises at all, so that the
                    objective of a convex problem falls with every step
        l1 in R     x <- argmin g.w + (1/2)|w - y|_Q^2 + r R(w), for a smooth loss, with momentum
                    that is dropped where it leads uphill; zeros are zeros

    Every node computes the same numbers from the same sums. The run ends when the gradient (with
    l1, the step in units of Q) has fallen to `tolerance` times the largest one.
    Guarantee: none. Its messages are exact functions of the records; a run with a privacy budget
    is refused.

    Parameters
    ----------
    tolerance : float, default=1e-08
        When to stop, relative to the largest gradient.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.Optimum().private
    False
    """

    name: ClassVar[str] = "optimum"
    title: ClassVar[str] = "Optimum (quasi-Newton over a tree)"
    source: ClassVar[str] = "ours"
    private: ClassVar[bool] = False
    default_rounds: ClassVar[int] = 300
    needs: ClassVar[Needs] = Needs()
    verdict: ClassVar[Verdict | None] = Verdict(
        "ours", "no privacy", "The non-private optimum: exact messages.", "A budget is refused."
    )

    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        checks.positive("Optimum.tolerance", self.tolerance)

    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        super().check(facts, topology, rounds, private)
        if facts.constants.clip_norm is not None:
            raise UnsupportedError(
                f"{self.title} minimises the stated objective, which clipped gradients do not "
                f"belong to: clip_norm must be left out, not {facts.constants.clip_norm:g}."
            )

    def init(self, node: Node, w: Array) -> OptimumState:
        none, width = np.zeros(w.shape[1]), w.shape[1]
        return OptimumState(
            w,
            np.zeros_like(w[:, :1]),
            none,
            none,
            none,
            np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
            np.zeros((2, 0, width)),
        )

    def step(self, s: OptimumState, node: Node) -> OptimumState:
        if not s.agreed.all():
            x = node.average(s.x)
            s = replace(s, x=x, agreed=np.ones_like(s.agreed), asked=np.array(x[0], float))
            if s.vectors is None and node.facts.n_features <= MOST_FEATURES:
                s = self._with_curvature(s, node)
        k, asked = node.facts.constants, s.asked
        sparse = k.loss.smooth and k.strength * k.regulariser.l1 > 0
        rows = np.ascontiguousarray(np.broadcast_to(asked, s.x.shape), dtype=s.x.dtype)
        mean = node.release_mean(node.gradient(rows, regularised=not sparse))
        g = np.array(mean[0], float)
        if sparse:
            return self._proximal(s, g, node)
        return self._quasi_newton(s, g, node)

    def _with_curvature(self, s: OptimumState, node: Node) -> OptimumState:
        from tacenda.questions.kernels.eigen import eigen  # here: it loads the compiler

        moment = node.release_mean(node.second_moment())
        e, vectors = eigen(unpacked(np.asarray(moment[0], float)))
        return replace(s, vectors=vectors, values=np.maximum(e, 0.0))

    # ---- smooth regulariser
    def _quasi_newton(self, s: OptimumState, g: Floats, node: Node) -> OptimumState:
        """Judge the step that ended where g was asked for; begin the next one, or cut it."""
        length, cuts, _, size, largest, _ = s.numbers
        x, first = np.asarray(s.x[0], float), not s.direction.any()
        old, slope = (0.0, 0.0) if first else (_dot(s.gradient, s.direction), _dot(g, s.direction))
        k = node.facts.constants
        rise = ENOUGH * -old if k.loss.smooth and k.regulariser.smooth else 0.0
        if slope > rise:
            cut = max(0.1, -old / (slope - old))
            numbers = np.array([length * min(cut, 0.9), cuts + 1, 1.0, size, largest, 0.0])
            if cuts < MOST_CUTS:
                return replace(s, asked=x + numbers[0] * s.direction, numbers=numbers)
            if not s.pairs.size:  # the steepest way down leads nowhere: a kink, or rounding
                return replace(s, asked=x, numbers=np.array([0.0, 0.0, 1.0, size, largest, 1.0]))
            s, new, g = replace(s, pairs=s.pairs[:, :0]), x, s.gradient
        else:
            new = s.asked
        if not first and slope <= rise:
            moved, bent = new - x, g - s.gradient
            if _dot(moved, bent) > 1e-12 * math.sqrt(_dot(moved, moved) * _dot(bent, bent)):
                newest = np.stack([moved, bent])[:, None]
                s = replace(s, pairs=np.concatenate([s.pairs, newest], axis=1)[:, -PAIRS:])
        size = math.sqrt(_dot(g, g))
        largest = max(size, largest)
        direction = -self._inverse(s, g, node)
        if not _dot(direction, g) < 0:
            direction = -g
        done = self._small(size, largest, s)
        asked = new if done else new + direction
        row = np.broadcast_to(new, s.x.shape).astype(s.x.dtype)
        return replace(
            s,
            x=row,
            asked=asked,
            gradient=g,
            direction=direction,
            numbers=np.array([1.0, 0.0, 1.0, size, largest, float(done)]),
        )

    def _inverse(self, s: OptimumState, g: Floats, node: Node) -> Floats:
        """H g by the two loops of L-BFGS, begun with the inverse of the curvature bound."""
        q, kept = g.copy(), []
        moved, bent = s.pairs
        for u, v in zip(moved[::-1], bent[::-1], strict=True):
            rho = 1.0 / _dot(u, v)
            alpha = rho * _dot(u, q)
            q -= alpha * v
            kept.append((rho, alpha))
        z = self._first_guess(s, q, node)
        if len(moved):
            last = self._first_guess(s, bent[-1], node)
            z *= _dot(moved[-1], bent[-1]) / _dot(bent[-1], last)
        for (u, v), (rho, alpha) in zip(zip(moved, bent, strict=True), reversed(kept), strict=True):
            z += u * (alpha - rho * _dot(v, z))
        return z

    def _first_guess(self, s: OptimumState, g: Floats, node: Node) -> Floats:
        """Q^-1 g; without a second moment g/L."""
        k = node.facts.constants
        if s.vectors is None or s.values is None:
            return np.asarray(g / (_steepness(node) * k.data_norm**2))
        values = self._values(s, node) + float(np.mean(k.strength * k.regulariser.l2))
        return _blocks(g, len(values), _form(s.vectors, values), 1 / values)

    @staticmethod
    def _values(s: OptimumState, node: Node) -> Floats:
        """(p,) eigenvalues of the bound on the loss's curvature."""
        assert s.values is not None
        bound = _steepness(node) * s.values
        tiny = float(np.finfo(float).tiny) ** 0.5
        return np.asarray(bound + max(LEAST * float(np.max(bound)), tiny))

    # ---- l1
    def _proximal(self, s: OptimumState, g: Floats, node: Node) -> OptimumState:
        """One accelerated proximal step from where g was asked for."""
        k, x, y = node.facts.constants, np.asarray(s.x[0], float), s.asked
        if s.vectors is None:
            lipschitz = _steepness(node) * k.data_norm**2
            new = np.asarray(k.regulariser.prox(y - g / lipschitz, k.strength / lipschitz))
            uphill = _dot(y - new, new - x) > 0
            size = math.sqrt(lipschitz * _dot(new - y, new - y))
        else:
            values, vectors = self._values(s, node), s.vectors
            centre = y - _blocks(g, len(values), _form(vectors, values), 1 / values)
            new = np.concatenate(
                [
                    Quadratic(vectors, values, part).solve(k.regulariser, k.strength)
                    for part in centre.reshape(-1, len(values))
                ]
            )
            form = _form(vectors, values)
            pulled = _blocks(y - new, len(values), form, values)
            uphill, size = _dot(pulled, new - x) > 0, math.sqrt(max(_dot(pulled, y - new), 0.0))
        _, _, momentum, _, largest, _ = s.numbers
        grown = 1.0 if uphill else 0.5 * (1 + math.sqrt(1 + 4 * momentum**2))
        asked = new if uphill else new + (momentum - 1) / grown * (new - x)
        largest = max(size, largest)
        done = self._small(size, largest, s)
        row = np.broadcast_to(new, s.x.shape).astype(s.x.dtype)
        numbers = np.array([1.0, 0.0, grown, size, largest, float(done)])
        return replace(s, x=row, asked=asked, numbers=numbers)

    def _small(self, size: float, largest: float, s: OptimumState) -> bool:
        """Whether a gradient, or step, of that size is the end; rows of float32 cannot do more."""
        return bool(size <= max(self.tolerance, 16 * float(np.finfo(s.x.dtype).eps)) * largest)

    def finished(self, s: OptimumState) -> bool:
        return bool(s.numbers[5])

    @property
    def traits(self) -> Traits:
        return replace(super().traits, reaches_consensus=True)

    def restart(self, s: OptimumState, node: Node) -> OptimumState:
        """The curvature stays: the other members' records bend about as much."""
        return replace(self.init(node, np.array(s.x)), vectors=s.vectors, values=s.values)

    def released(self, s: OptimumState) -> dict[str, Array]:
        """gradient_norm (1,): of the last gradient; with l1, the length of the last step."""
        return {"gradient_norm": s.numbers[3:4].copy()}

    def iterate(self, s: OptimumState) -> Array:
        return s.x


def _steepness(node: Node) -> float:
    """c times the loss's largest curvature; of a loss with a kink, that of a smoothed one."""
    k = node.facts.constants
    return k.loss_scale * (k.loss.curvature if k.loss.smooth else 1.0)


def _form(vectors: Floats, values: Floats) -> Quadratic:
    return Quadratic(vectors, values, np.zeros(len(values)))


def _blocks(row: Floats, width: int, form: Quadratic, factors: Floats) -> Floats:
    """V diag(factors) V' of each class's part of a row."""
    return np.concatenate([form.times(part, factors) for part in row.reshape(-1, width)])


def _dot(a: Any, b: Any) -> float:
    """One fixed order of summing, whoever computes it."""
    return float(np.sum(a * b))
