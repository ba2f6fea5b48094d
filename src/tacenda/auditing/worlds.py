"""Two worlds that differ in one record, and many copies of a network that live in them side by
side.

World 0 holds the canary's first record at one place, world 1 the second; under add-remove the first
is a row of zeros, which adds nothing to any gradient or objective of a linear model, just as a
record that is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.auditing.masked_noise import MaskedAttacks
from tacenda.auditing.shared_noise import Attacks
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.problem.problem import Problem
from tacenda.questions.facts import Facts
from tacenda.questions.statistics import Statistic
from tacenda.questions.store import DenseStore, Store
from tacenda.regularisers import Regulariser
from tacenda.runtime.budget import Calibration
from tacenda.runtime.spec import RunSpec


@dataclass(frozen=True, eq=False)
class Canary:
    """Two records (x, label), x (p,) and the label as the losses see it: -1 or +1, a class number,
    or a real number."""

    x0: Array
    y0: float
    x1: Array
    y1: float
    name: str = "given"

    def to_plain(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "world 0": [self.x0.tolist(), self.y0],
            "world 1": [self.x1.tolist(), self.y1],
        }


@dataclass(frozen=True, eq=False)
class Script:
    """All that is needed to play trials, as plain picklable values: another process can play a part
    of them.

    rows (M, p), labels (M,) and offsets (n + 2,): the records of the n nodes, the attacked one in
    world 0, then once more the attacked node in world 1. Its record 0 is the canary.
    """

    spec: RunSpec
    rows: Array
    labels: Array
    offsets: Array
    node: int
    start: Array
    seed: int
    attacks: Attacks | MaskedAttacks | None = (
        None  # on the noise that neighbours share, where they do
    )
    keyed: bool = False  # whether the noise is that of real nodes, on whole numbers

    @property
    def calibration(self) -> Calibration:
        assert self.spec.calibration is not None
        return self.spec.calibration

    @property
    def n(self) -> int:
        return self.spec.topology.n

    @property
    def variants(self) -> int:
        """Copies of the network in each trial: one for each world and, where records are sampled,
        one without the canary."""
        return 2 if self.spec.algorithm.traits.sample == "all" else 3

    def store(self) -> DenseStore:
        """The n + 1 shards as a store of their own."""
        return make_store(
            self.spec.facts,
            self.rows,
            self.labels,
            self.offsets,
            np.append(self.spec.facts.sizes, self.spec.facts.sizes[self.node]),
        )


def make_store(
    facts: Facts, rows: Array, labels: Array, offsets: Array, divisors: Array
) -> DenseStore:
    """A dense store with the losses and constants of a problem."""
    k = facts.constants
    return DenseStore(
        np.ascontiguousarray(rows),
        labels,
        offsets,
        n_features=rows.shape[1],
        n_outputs=k.n_outputs,
        loss=k.loss,
        regulariser=k.regulariser,
        strength=k.strength,
        loss_scale=k.loss_scale,
        divisors=np.asarray(divisors, float),
    )


def dense_rows(problem: Problem) -> Array:
    """All records of a problem as a float64 table (M, p)."""
    if problem.store.weights is not None:
        raise UnsupportedError(
            "problem must have no weights for an audit; leave them out and declare "
            "loss_scale=weight_bound: a record of the largest weight is then what is attacked."
        )
    rows = problem.store.rows
    if not isinstance(rows, tuple):
        return np.array(rows, float)
    from scipy.sparse import csr_array

    return np.asarray(
        csr_array(rows, shape=(len(problem.store.labels), problem.n_features)).toarray(), float
    )


def two_worlds(problem: Problem, node: int, canary: Canary) -> tuple[Array, Array, Array]:
    """(rows, labels, offsets) of `Script`:
    the canary takes the place of the attacked node's first record; where the unit is a person, of
    the first person's, all of them alike."""
    rows = dense_rows(problem)
    labels = np.array(problem.store.labels, float)
    offsets = problem.store.offsets
    a, b = int(offsets[node]), int(offsets[node + 1])
    if canary.x0.shape != (problem.n_features,) or canary.x1.shape != (problem.n_features,):
        raise InputError(
            f"canary must hold records of {problem.n_features} features, "
            f"not {canary.x0.shape} and {canary.x1.shape}."
        )
    limit = problem.data_norm * (1 + 1e-9)
    if max(np.linalg.norm(canary.x0), np.linalg.norm(canary.x1)) > limit:
        raise InputError(
            f"canary must hold records of norm at most data_norm={problem.data_norm:g}: "
            "others are no neighbours."
        )
    again, again_labels = rows[a:b].copy(), labels[a:b].copy()
    k = problem.records_per_person
    rows[a : a + k], labels[a : a + k] = canary.x0, canary.y0
    again[:k], again_labels[:k] = canary.x1, canary.y1
    return (
        np.vstack([rows, again]),
        np.concatenate([labels, again_labels]),
        np.append(offsets, offsets[-1] + b - a),
    )


class SharedStore:
    """One store read by many copies: row k of every query belongs to shard `owner[k]`.

    An argmin keeps a cache per shard, so for that query every copy gets its own records, made when
    first asked for.
    """

    def __init__(self, script: Script, owner: Array) -> None:
        self._script, self._owner, self._store = script, owner, script.store()
        self._copies: DenseStore | None = None

    def gradient(
        self, nodes: Array, w: Array, clip_norm: float | None = None, regularised: bool = True
    ) -> Array:
        return self._store.gradient(self._owner[nodes], w, clip_norm, regularised)

    def batch_gradient(
        self,
        nodes: Array,
        w: Array,
        indptr: Array,
        records: Array,
        batch_size: Array,
        clip_norm: float | None = None,
        regularised: bool = True,
    ) -> Array:
        return self._store.batch_gradient(
            self._owner[nodes], w, indptr, records, batch_size, clip_norm, regularised
        )

    def argmin(
        self,
        nodes: Array,
        linear: Array,
        quadratic: Array,
        centre: Array,
        start: Array,
        tolerance: float,
        remember: bool = False,
    ) -> Array:
        return self._own_records().argmin(
            nodes, linear, quadratic, centre, start, tolerance, remember
        )

    def argmin_around(
        self, nodes: Array, anchor: Array, convexity: Array, tolerance: float
    ) -> Array:
        return self._own_records().argmin_around(nodes, anchor, convexity, tolerance)

    def second_moment(
        self,
        nodes: Array,
        norm: float,
        label_scale: float,
        label_bound: float,
        diagonal: bool = False,
    ) -> Array:
        return self._store.second_moment(
            self._owner[nodes], norm, label_scale, label_bound, diagonal
        )

    def integer_gradient(self, nodes: Array, w: Array, grid: Array, clip_norm: float) -> Array:
        return self._store.integer_gradient(self._owner[nodes], w, grid, clip_norm)

    def integer_second_moment(
        self,
        nodes: Array,
        grid: Array,
        norm: float,
        label_scale: float,
        label_bound: float,
        diagonal: bool = False,
    ) -> Array:
        return self._store.integer_second_moment(
            self._owner[nodes], grid, norm, label_scale, label_bound, diagonal
        )

    def statistic(self, nodes: Array, statistic: Statistic, w: Array) -> Array:
        return self._store.statistic(self._owner[nodes], statistic, w)

    def integer_statistic(self, nodes: Array, statistic: Statistic, w: Array, grid: Array) -> Array:
        return self._store.integer_statistic(self._owner[nodes], statistic, w, grid)

    def mapped(
        self, nodes: Array, matrix: Array, norm: float, regulariser: Regulariser, strength: float
    ) -> Store:
        return self._store.mapped(self._owner[nodes], matrix, norm, regulariser, strength)

    def _own_records(self) -> DenseStore:
        if self._copies is None:
            self._copies = self._spread_out()
        return self._copies

    def _spread_out(self) -> DenseStore:
        s, owner = self._script, self._owner
        counts = np.diff(s.offsets)[owner]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.arange(offsets[-1]) + np.repeat(s.offsets[owner] - offsets[:-1], counts)
        divisors = np.append(s.spec.facts.sizes, s.spec.facts.sizes[s.node])[owner]
        return make_store(s.spec.facts, s.rows[chosen], s.labels[chosen], offsets, divisors)


def copies_of(topology: Topology, count: int) -> Topology:
    """`count` separate copies of a network as one; no edge joins two of them."""
    n, links = topology.n, len(topology.indices)
    shift = np.repeat(np.arange(count) * n, links)
    starts = (topology.indptr[:-1] + (np.arange(count) * links)[:, None]).reshape(-1)
    edges = (topology.edges[None] + (np.arange(count) * n)[:, None, None]).reshape(-1, 2)
    return Topology(
        tuple(range(count * n)),
        np.append(starts, count * links),
        np.tile(topology.indices, count) + shift,
        np.tile(topology.degrees, count),
        edges,
        f"{count} copies of {topology.name}",
    )
