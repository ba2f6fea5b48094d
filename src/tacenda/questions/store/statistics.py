"""Sums of a statistic's vectors over the records of nodes, as floats and as whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any

import numpy as np

from tacenda._arrays import read_only
from tacenda._types import Array, Flags, Floats, Ints
from tacenda.questions.statistics import (
    Factored,
    Records,
    Statistic,
    block_records,
    enforced,
    is_own,
)
from tacenda.questions.store.scores import Scores
from tacenda.questions.store.table import checked_grid
from tacenda.threads import in_parts

_FACTORED_RECORDS = 1 << 13  # whose factors are held at once


class Statistics(Scores):
    """Answers with sums of vectors that a statistic makes of records and their scores."""

    def statistic(self, nodes: Ints, statistic: Statistic, w: Array) -> Floats:
        """sum_j v_j vector_j for each row, float64 (b, length): the records' vectors at the row's
        own model w_k, each as the statistic declares (`statistics.enforced`)."""
        nodes, w = self._checked(nodes, w)
        out = np.zeros((len(nodes), statistic.length))
        for k, vectors in self._vectors(nodes, statistic, w):
            out[k] += vectors.sum(axis=0)
        return out

    def integer_statistic(self, nodes: Ints, statistic: Statistic, w: Array, grid: Array) -> Ints:
        """sum_j trunc(v_j vector_j / grid_k) as int64 (b, length).

        Exact for every float: rounding toward zero lengthens no vector and turns no sign, so one
        record moves row k by at most norm/grid_k when it comes or goes.
        """
        nodes, w = self._checked(nodes, w)
        grid = checked_grid(grid, nodes, statistic.norm)
        out = np.zeros((len(nodes), statistic.length), np.int64)
        plain = is_own(statistic) and self.weights is None
        if plain and self._integer_sums(nodes, statistic, w, grid, out):
            return out
        for k, vectors in self._vectors(nodes, statistic, w):
            out[k] += np.trunc(vectors / grid[k]).astype(np.int64).sum(axis=0)
        return out

    def _integer_sums(
        self, nodes: Ints, statistic: Statistic, w: Array, grid: Floats, out: Ints
    ) -> bool:
        """Fill `out` by compiled loops, where the statistic tells factors of its vectors: sums of
        integers are the same in any order. Returns whether it does."""
        from tacenda.questions.kernels.factored import integer_sum

        adding = Lock()

        def add(first: int, last: int, k: int, found: Factored, left: Flags) -> None:
            own = np.zeros(statistic.length, np.int64)
            integer_sum(first, last, *found, float(statistic.norm), grid[k], own, left)
            with adding:
                out[k] += own

        for k, node in enumerate(nodes):
            model, end = np.asarray(w[k], np.float64), int(self.offsets[node + 1])
            for first in range(self.offsets[node], end, _FACTORED_RECORDS):
                last = min(first + _FACTORED_RECORDS, end)
                with np.errstate(all="ignore"):
                    found = statistic.factored(self._records(first, last), model)
                if found is None:
                    return False
                left = np.zeros(last - first, bool)
                in_parts(add, last - first, found.rows.size, k, found, left)
                for j in (first + np.flatnonzero(left)).tolist():  # those that may be too long
                    with np.errstate(all="ignore"):
                        vector = statistic.vectors(self._records(j, j + 1), model)
                        vector = enforced(vector, 1, statistic)
                    out[k] += np.trunc(vector[0] / grid[k]).astype(np.int64)
        self.count_reads(nodes)
        return True

    def _vectors(self, nodes: Ints, statistic: Statistic, w: Array) -> Iterator[tuple[int, Floats]]:
        """(row, vectors of some of its node's records), block after block."""
        self.count_reads(nodes)
        most = block_records(statistic)
        for k, node in enumerate(nodes):
            model = np.asarray(w[k], np.float64)
            for first in range(self.offsets[node], self.offsets[node + 1], most):
                last = min(first + most, int(self.offsets[node + 1]))
                with np.errstate(all="ignore"):
                    found = statistic.vectors(self._records(first, last), model)
                    vectors = enforced(found, last - first, statistic)
                if self.weights is not None:
                    vectors *= self.weights[first:last, None]
                yield k, vectors

    def _records(self, first: int, last: int) -> Records:
        """The table's records first .. last - 1, read-only."""
        rows: Any
        if isinstance(self.rows, tuple):
            from scipy.sparse import csr_array

            data, indices, indptr = self.rows
            span = slice(indptr[first], indptr[last])
            ends = indptr[first : last + 1] - indptr[first]
            rows = csr_array(
                (data[span].copy(), indices[span].copy(), ends),
                shape=(last - first, self.n_features),
            )
        else:
            rows = read_only(self.rows[first:last])
        return Records(
            rows,
            read_only(self.labels[first:last]),
            self.n_outputs,
            self.loss.kind,
            lambda model: self.scores(first, last, model),
            None if self.beside is None else read_only(self.beside[first:last]),
        )
