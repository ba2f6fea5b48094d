"""The test records of a simulation, in this process or spread over ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacenda._types import Array, Floats
from tacenda.content import content_hash
from tacenda.data.features import chunks, is_sparse, scale_rows
from tacenda.errors import InputError
from tacenda.problem.problem import Problem
from tacenda.runtime.ranks import ALONE, Ranks


@dataclass(frozen=True, eq=False)
class HeldOutRecords:
    """x (n, p) and labels (n,), in the problem's coding, of the test records of this process. Where
    each of the `ranks` gave others, what is measured is measured on all of them together."""

    x: Any
    labels: Array
    ranks: Ranks = ALONE

    @classmethod
    def of(
        cls, test: tuple[Any, Any] | None, problem: Problem, ranks: Ranks
    ) -> HeldOutRecords | None:
        """Test records (X, y): the same on all ranks, or a part on each, in their order."""
        if test is None:
            return None
        x, labels = test[0], encode_like(problem, test[1])
        if not is_sparse(x):
            x = np.asarray(x)
        if problem.shortens:
            x = scale_rows(x, problem.data_norm)
        content = (x.shape, x.data, x.indices, x.indptr) if is_sparse(x) else x
        same = len(set(ranks.each(content_hash((content, labels))))) == 1
        return cls(x, labels, ALONE if same else ranks)

    @cached_property
    def count(self) -> int:
        """How many there are on all ranks."""
        return int(sum(self.ranks.each(len(self.labels))))

    @cached_property
    def all_labels(self) -> Array | None:
        """(count,) the labels of all of them; at the root."""
        found = self.ranks.at_root(self.labels)
        return None if found is None else np.concatenate(found)

    def scores(self, problem: Problem, w: Array) -> Array | None:
        """(count,), or (count, K) for K outputs: the scores of all of them under one model (d,) of
        the problem; at the root."""
        matrix = problem.matrix_of(w)
        found = self.ranks.at_root(row_scores(self.x, matrix))
        if found is None:
            return None
        whole = np.concatenate(found)
        return whole if len(matrix) > 1 or problem.loss.stacked else whole[:, 0]


def row_scores(x: Any, matrix: Floats) -> Array:
    """(n, K) products of rows and weights (K, p), each row by itself: its bits do not depend on the
    others, as those of a product by BLAS may."""
    if is_sparse(x):
        return np.asarray(x @ matrix.T)
    found = np.empty((len(x), len(matrix)))
    for part in chunks(x):
        wide = x[part].astype(np.float64, copy=False)
        for k, row in enumerate(matrix):
            found[part, k] = (wide * row).sum(axis=1)
    return found


def encode_like(problem: Problem, labels: Any) -> Array:
    """New labels in the problem's own coding: -1 and +1, 0 .. K-1, or numbers as they are."""
    y = np.asarray(labels)
    if problem.loss.kind == "regression":
        return y.astype(float)
    known = np.asarray(problem.classes)
    if not np.isin(y, known).all():
        raise InputError(
            f"test labels must be among the problem's classes {known.tolist()}; some are not."
        )
    order = np.argsort(known, kind="stable")
    position = order[np.searchsorted(known[order], y)].astype(float)
    two = problem.loss.kind == "binary" and not problem.loss.stacked
    return 2 * position - 1 if two else position
