"""Attacks on masked releases: what a listener makes of all rows, under the declared masks and under
the faults that they may have.

A row is the node's whole numbers, plus its own noise of s steps, plus and minus its edges' masks,
modulo 2^64. Whoever listens takes off the masks that it knows and adds up rows so that unknown ones
cancel; what is left is a Gaussian residual, near 0 in the true world, and the log likelihood ratio
of two worlds with residuals r^0 and r^1 is (|r^0|^2 - |r^1|^2)/2 in units of its noise.

    as declared     the rows of the attacked node's component in the graph without the listeners, of
                    k members: noise of sqrt(k) s
    no masks        the attacked node's row by itself: noise of s
    masks reused    how its rows differ from their mean over the releases, noise of s, and the mean
                    of the network's sum: together all that masks hide which are the same in every
                    round

With another supposition than the true one a residual is spread over 2^64, and the score is valid
and worthless.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtr, bdtrc, chdtr, chdtrc

from tacenda._types import Array
from tacenda.auditing.listeners import Listener, listeners
from tacenda.auditing.shared_noise import Attacks
from tacenda.graph.coalition import edge_streams
from tacenda.graph.cuts import components, neighbours
from tacenda.graph.topology import Topology

FAULTS = (("an eavesdropper", "no masks"), ("an eavesdropper", "masks reused"))


@dataclass(frozen=True, eq=False)
class MaskedAttacks:
    """One listener after the other with the masks as declared, then the faults.

    edges (E,): numbers of the edges that some listener holds. parts (L, n): 1 for the members of
    the attacked node's component; known (L, E): how often the held masks are in its sum; both
    modulo 2^64.
    """

    node: int
    names: tuple[tuple[str, str], ...]
    edges: Array
    parts: Array
    known: Array

    @property
    def titles(self) -> list[str]:
        return [Attacks.title(*name) for name in self.names]

    @property
    def share(self) -> float:
        """1/k of the worst coalition, which comes first."""
        return 1 / float(self.parts[0].sum())

    @property
    def forms(self) -> tuple[Array, ...]:
        """What the scores depend on."""
        return self.parts, self.known

    def residuals(self, truth: Array) -> MaskedResiduals:
        return MaskedResiduals(self, truth)


@dataclass(frozen=True, eq=False)
class Spread:
    """Of the true residuals, which whoever runs the audit knows: sum of squares, and their number,
    of the whole network's sum, in units of its declared noise; how many of the attacked node's
    rows by themselves, and of their differences between releases, lie within an eighth of all
    words around 0, and of how many."""

    squares: float
    count: int
    near: Array
    of: Array

    def chance(self) -> float:
        """A p-value of "noise and masks are as declared": the sum has its variance, rows and their
        differences are uniform."""
        low, high = chdtr(self.count, self.squares), chdtrc(self.count, self.squares)
        found = [2 * min(low, high)]
        for near, of in zip(self.near, self.of, strict=True):
            if of:
                above = bdtrc(near - 1, of, 0.125) if near else 1.0
                found.append(2 * min(bdtr(near, of, 0.125), above))
        return float(min(1.0, len(found) * min(found)))


def plan_masked(topology: Topology, coalition: int, node: int) -> MaskedAttacks:
    """Every listener within the promise, and the faults."""
    heard = listeners(topology, math.inf, coalition, node)
    edges = np.unique(np.concatenate([one.edges for one in heard]))
    parts = np.array([_component(topology, one, node) for one in heard], np.uint64)
    indptr, numbers, signs = edge_streams(topology, np.arange(topology.n))
    known = np.zeros((len(heard), len(edges)), np.int64)
    for k, one in enumerate(heard):
        for v in np.flatnonzero(parts[k]):
            for at in range(indptr[v], indptr[v + 1]):
                if numbers[at] in one.edges:
                    known[k, np.searchsorted(edges, numbers[at])] += int(signs[at])
    names = (*((one.title, "as declared") for one in heard), *FAULTS)
    return MaskedAttacks(node, names, edges, parts, known.view(np.uint64))


def _component(topology: Topology, one: Listener, node: int) -> Array:
    left = set(range(topology.n)) - set(one.members)
    mine = next(part for part in components(neighbours(topology), left) if node in part)
    return np.isin(np.arange(topology.n), mine)


class MaskedResiduals:
    """What all attacks keep of the releases of a block of trials."""

    def __init__(self, attacks: MaskedAttacks, truth: Array) -> None:
        self._attacks, self._truth = attacks, truth
        self._score = np.zeros((len(truth), len(attacks.names)))
        self._last: tuple[Array, Array, Array] | None = None
        # The first of the rows whose masks may be the same, the score before it, and what was seen
        # since in either world
        self._reference: tuple[Array, Array, Array] | None = None
        self._before = np.zeros(len(truth))
        self._reused = [_Deviations(), _Deviations()]
        self._squares, self._count = 0.0, 0
        self._near, self._of = np.zeros(2, np.int64), np.zeros(2, np.int64)

    def note(self, seen: Array, cores: tuple[Array, Array], steps: Array, words: Array) -> None:
        """seen (trials, n, d) rows modulo 2^64, cores: both worlds' whole numbers, steps (trials,)
        the noise of one node, words (trials, E, d) the masks of `edges`."""
        a, first, second = self._attacks, *(core.view(np.uint64) for core in cores)
        sizes = a.parts.sum(axis=1).astype(float)
        sums = np.matmul(a.parts, seen) - np.matmul(a.known, words)
        spread = (steps[:, None] * np.sqrt(sizes))[:, :, None]
        r0, r1 = (_centred(sums - np.matmul(a.parts, core)) / spread for core in (first, second))
        self._score[:, : len(sizes)] += _ratio(r0, r1)
        mine = (seen[:, a.node], first[:, a.node], second[:, a.node])
        self._score[:, -2] += _ratio(*self._apart(mine, steps, 0))
        whole = int(np.argmax(sizes))  # an eavesdropper's, of all nodes
        self._note_reused(mine, steps, (r0[:, whole], r1[:, whole]))
        if self._last is not None and self._last[0].shape == mine[0].shape:
            between = tuple(now - then for now, then in zip(mine, self._last, strict=True))
            self._apart(between, math.sqrt(2) * steps, 1)
        self._last = mine
        true = np.where(self._truth[:, None] == 0, r0[:, whole], r1[:, whole])
        self._squares, self._count = self._squares + float((true**2).sum()), self._count + true.size

    def _note_reused(
        self, mine: tuple[Array, Array, Array], steps: Array, sums: tuple[Array, Array]
    ) -> None:
        """Rows less the first one with the same masks, in which these cancel, and the network's
        sums in units of their noise. Where a row is far from that one, other masks begin."""
        before = self._reference
        if before is not None and before[0].shape == mine[0].shape:
            apart = tuple(now - then for now, then in zip(mine, before, strict=True))
            rows = _centred(apart[0] - apart[1]), _centred(apart[0] - apart[2])
        if before is None or before[0].shape != mine[0].shape or not _are_near(*rows):
            self._reference, self._before = mine, self._score[:, -1].copy()
            self._reused = [_Deviations(), _Deviations()]
            rows = np.zeros(mine[0].shape), np.zeros(mine[0].shape)
        for known, own, total in zip(self._reused, rows, sums, strict=True):
            known.note(own, total, 1 / steps**2)
        self._score[:, -1] = self._before + self._reused[0].squares - self._reused[1].squares

    def _apart(self, rows: Any, steps: Array, which: int) -> tuple[Array, Array]:
        """Both worlds' residuals (trials, d) of one row, in units of noise of `steps`; those of the
        true world are counted."""
        seen, first, second = rows
        far = _centred(seen - first), _centred(seen - second)
        true = np.where(self._truth[:, None] == 0, *far)
        self._near[which] += np.count_nonzero(np.abs(true) < 2.0**60)
        self._of[which] += true.size
        return far[0] / steps[:, None], far[1] / steps[:, None]

    def scores(self) -> Array:
        """(trials, attacks) of everything that was noted."""
        return self._score

    def moments(self) -> Spread:
        return Spread(self._squares, self._count, self._near, self._of)


class _Deviations:
    """Half the squares of what rows differ by from their weighted mean, and of that of the sums; of
    each trial, whose releases come one by one."""

    def __init__(self) -> None:
        self._weight: Any = 0.0
        self._rows: Any = 0.0
        self._sums: Any = 0.0
        self._squares: Any = 0.0

    def note(self, rows: Array, sums: Array, weight: Array) -> None:
        """rows (trials, d) with noise of variance 1/weight (trials,); sums (trials, d) in units of
        their own noise."""
        each = weight[:, None]
        self._weight = self._weight + each
        self._rows = self._rows + each * rows
        self._sums = self._sums + np.sqrt(each) * sums
        self._squares = self._squares + each * rows * rows

    @property
    def squares(self) -> Array:
        """(trials,)."""
        apart = self._squares - self._rows**2 / self._weight
        return np.asarray((apart + self._sums**2 / self._weight).sum(axis=1) / 2)


def _are_near(*rows: Array) -> bool:
    """Whether most rows (trials, d) lie within an eighth of all words around 0 in some world."""
    return any(float((np.abs(one) < 2.0**60).mean()) > 0.5 for one in rows)


def _centred(words: Array) -> Array:
    """Numbers modulo 2^64 as the nearest ones to 0."""
    return words.view(np.int64).astype(float)


def _ratio(r0: Array, r1: Array) -> Array:
    """(|r0|^2 - |r1|^2)/2 over the last axis."""
    return np.asarray(((r0 - r1) * (r0 + r1)).sum(axis=-1) / 2)
