"""What private measures read: a released sum of counts, its noise, and the number of records."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from tacenda._types import Floats
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.private_intervals import Estimate
from tacenda.evaluation.units import Units
from tacenda.questions.counts import ClassCounts, Counts


class Release(Protocol):
    """A released sum of counts with the public facts about it, as a `PrivateEvaluation` has."""

    @property
    def statistic(self) -> Counts: ...
    @property
    def total(self) -> Floats: ...
    @property
    def noise(self) -> float: ...
    @property
    def records(self) -> int | None: ...
    @property
    def units(self) -> Units: ...
    @property
    def level(self) -> float: ...


class Released(NamedTuple):
    """A released sum taken apart: numbers and noise variances by part, the number of records with
    its noise variance (0 where it is public), and the level of the intervals."""

    parts: dict[str, Floats]
    noise: dict[str, float]
    n: float
    n_noise: float
    level: float

    def sum(self, name: str) -> float:
        """One of the sums."""
        return float(self.parts[name][0])

    def mean(self, name: str, square: str | None = None) -> Estimate:
        """A mean of quantities from 0 to 1. square: the part with their squares, which says how
        much they differ, and is taken as large as its noise allows."""
        a, n = self.sum(name), self.n
        middle = min(max(a / n, 0.0), 1.0) if n > 0 else 0.5
        spread = middle * (1.0 - middle)
        if square is not None and n > 0:
            z = intervals.quantile(self.level)
            most = (self.sum(square) + z * math.sqrt(self.noise[square])) / n
            spread = min(max(most - middle**2, 0.0), spread)
        return intervals.mean(a, n, self.level, spread, (self.noise[name], self.n_noise))


def n_records(e: Release) -> tuple[float, bool]:
    """(number of records, whether it is public); a private one is the noisy sum of a table."""
    if e.records is not None:
        return float(e.records), True
    name = next(iter(e.statistic.tables))
    return float(e.statistic.parts(e.total)[name].sum()), False


def n_records_noise(e: Release) -> float:
    """Variance of the number of records."""
    if e.records is not None:
        return 0.0
    name, (rows, columns) = next(iter(e.statistic.tables.items()))
    return (e.noise * e.statistic.factors()[name]) ** 2 * rows * columns


def cell_std(e: Release) -> float:
    """Standard deviation of a cell of the first table."""
    return e.noise * e.statistic.factors()[next(iter(e.statistic.tables))]


def projected(counts: Floats, n: float, known: bool) -> Floats:
    """Cells moved alike so that they add up to the public number of records."""
    return counts + (n - counts.sum()) / counts.size if known else counts


def confusion(e: Release) -> tuple[Floats, Floats]:
    """(counts (K, K), number of noisy cells in each): rows are classes, columns predictions."""
    s = e.statistic
    assert isinstance(s, ClassCounts)
    n, known = n_records(e)
    parts = s.parts(e.total)
    if s.n_classes > 2:
        return projected(parts["confusion"], n, known), np.ones((s.n_classes, s.n_classes))
    half = s.edges.index(0.5) + 1
    table = projected(parts["scores"], n, known)
    cells = np.column_stack([table[:, :half].sum(axis=1), table[:, half:].sum(axis=1)])
    return cells, np.tile([float(half), float(s.bins - half)], (2, 1))


def taken_apart(e: Release) -> Released:
    """The released sum taken apart."""
    s = e.statistic
    noise = {name: (e.noise * factor) ** 2 for name, factor in s.factors().items()}
    return Released(s.parts(e.total), noise, n_records(e)[0], n_records_noise(e), e.level)
