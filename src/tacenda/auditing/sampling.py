"""The noise and the samples of many trials at once.

Noise is the production source itself, `SimulatedNoise` or that of real nodes, asked by a name that
belongs to one row of one trial; so the outcome of a trial does not depend on which trials are
played beside it. Samples of records are drawn by it too, once per trial, and then handed to the
trial's copies: with the canary in it, and without.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tacenda._types import Array
from tacenda.auditing.keyed_rows import KeyedRows
from tacenda.privacy.noise.sources import SimulatedNoise

SECOND_DRAW = 1 << 20  # a place in the round that no query uses


class TrialNoise:
    """A noise source for rows (trial, variant, node); `included` (trials,) says whether the last
    sample held the canary.

    The canary is record 0 of node `node`. Variants 0 and 1 see the sample with the canary, variant
    2 without it.
    """

    def __init__(
        self,
        inner: SimulatedNoise | KeyedRows,
        first_trial: int,
        shape: tuple[int, int, int],
        node: int,
        edges: int = 0,
    ) -> None:
        self._inner, self._shape, self._node = inner, shape, node
        self.by_question, self.kind = inner.by_question, inner.kind
        self._base = first_trial * shape[1] * shape[2]
        self._edge_base = first_trial * shape[1] * edges  # every copy of an edge has its own stream
        self.included = np.ones(shape[0], bool)

    def asked(self, question: bytes) -> Self:
        self._inner = self._inner.asked(question)
        return self

    def add_gaussian(
        self, nodes: Array, turn: int, call: int, parts: Any, noise_std: Array
    ) -> Array:
        return self._inner.add_gaussian(nodes + self._base, turn, call, parts, noise_std)

    def shared(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        indptr, numbers, signs = edges
        return self._inner.shared((indptr, numbers + self._edge_base, signs), turn, call, dim)

    def whole_gaussian(self, nodes: Array, turn: int, call: int, scale: Array, dim: int) -> Array:
        return self._inner.whole_gaussian(nodes + self._base, turn, call, scale, dim)

    def masks(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        indptr, numbers, signs = edges
        return self._inner.masks((indptr, numbers + self._edge_base, signs), turn, call, dim)

    def l2_laplace(self, nodes: Array, turn: int, call: int, rate: Array, dim: int) -> Array:
        return self._inner.l2_laplace(nodes + self._base, turn, call, rate, dim)

    def one_record(self, nodes: Array, turn: int, call: int, sizes: Array) -> tuple[Array, Array]:
        """Exactly one record; where it is the canary,
        variant 2 shows the other record that would have come."""
        leaders, counts = self._leaders(nodes), self._leaders(sizes)
        picks = self._inner.one_record(leaders + self._base, turn, call, counts)[1].reshape(
            self._shape[0], -1
        )
        records = np.repeat(picks[:, None, :], self._shape[1], axis=1)
        mine, at = picks[:, self._node], leaders.reshape(picks.shape)[:, self._node]
        left = np.maximum(counts.reshape(picks.shape)[:, self._node] - 1, 1)
        other = 1 + self._inner.one_record(at + self._base, turn, call + SECOND_DRAW, left)[1]
        self.included = mine == 0
        records[:, :2, self._node] = 0
        records[:, 2, self._node] = np.where(self.included, other, mine)
        return np.arange(len(nodes) + 1), records.reshape(-1)

    def poisson_records(
        self, nodes: Array, turn: int, call: int, sizes: Array, rates: Array
    ) -> tuple[Array, Array]:
        """Each record with its rate; all copies share the draw of the others."""
        trials, variants, n = self._shape
        leaders = self._leaders(nodes)
        indptr, records = self._inner.poisson_records(
            leaders + self._base, turn, call, self._leaders(sizes), self._leaders(rates)
        )
        owner = np.repeat(np.arange(len(leaders)), np.diff(indptr))
        canary = (owner % n == self._node) & (records == 0)
        self.included = np.zeros(trials, bool)
        self.included[owner[canary] // n] = True
        owner, records = owner[~canary], records[~canary]
        rows = (owner // n) * (variants * n) + owner % n  # of variant 0
        attacked = np.arange(trials) * (variants * n) + self._node
        with_it = [attacked, attacked + n]
        all_rows = np.concatenate([*(rows + v * n for v in range(variants)), *with_it])
        everything = np.concatenate([*([records] * variants), np.zeros(2 * trials, np.int64)])
        order = np.argsort(all_rows, kind="stable")
        return np.concatenate(
            [[0], np.cumsum(np.bincount(all_rows, minlength=len(nodes)))]
        ), everything[order]

    def _leaders(self, values: Array) -> Array:
        """The entries of variant 0 of every trial."""
        return np.ascontiguousarray(values.reshape(self._shape)[:, 0]).reshape(-1)
