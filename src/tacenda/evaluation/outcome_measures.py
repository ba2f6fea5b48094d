"""Measures of models of ordered classes and of the time until an event: on labelled records, and on
a released table of counts.

Both give the chance to lie beyond each of T cuts: above a step, or without the event up to a time
point. The formulas take kinds of records with counts: every record by itself, or the cells of a
released table, whose records share the chances in the middle of their bin. Who was last seen
without the event before a cut says nothing about it; the others stand for them (inverse
probability of censoring, Graf et al. 1999). Intervals of released counts are to first order in the
counts: sampling and privacy noise together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacenda import losses
from tacenda._types import Array, Floats, Ints
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.measure import IN_HEADLINES, Measure, Told
from tacenda.evaluation.private_intervals import Estimate
from tacenda.evaluation.released import Release, n_records, projected
from tacenda.questions.outcomes import OutcomeCounts

UNIT = (0.0, 1.0)
LEAST = 1e-6  # below it a noisy number of records is none
LEAST_SEEN = 0.05  # the smallest share that is still under observation and counted
BINNED = "of predictions rounded to the middle of their bin"


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Kinds of records: the chance beyond each cut (M, T), what ranks them (M,), the larger the
    earlier; their outcome's cell (M,), and how many there are of each (M,)."""

    beyond: Floats
    rank: Floats
    cell: Ints
    count: Floats
    survival: bool

    @classmethod
    def of_records(cls, loss: Any, scores: Array, cell: Array) -> Outcomes:
        """Labelled records with scores (N, T)."""
        s = np.asarray(scores, float)
        ones = np.ones(len(s))
        kind = loss.predicts == "hazard"
        return cls(loss.beyond(s), loss.lowest(s), np.asarray(cell, np.int64), ones, kind)

    @property
    def cuts(self) -> int:
        """T."""
        return self.beyond.shape[1]

    @property
    def size(self) -> float:
        """Number of records."""
        return max(float(self.count.sum()), LEAST)

    @cached_property
    def seen(self) -> tuple[Floats, Floats]:
        """(T,) records still under observation in each period, and the chance that a record is.
        1 for ordered classes, of which all is known."""
        t = self.cuts
        by = np.bincount(self.cell, self.count, minlength=2 * t + 1 if self.survival else t + 1)
        if not self.survival:
            return np.full(t, by.sum()), np.ones(t)
        events, left = by[:t], by[t : 2 * t]
        at_risk = by.sum() - np.concatenate([[0.0], np.cumsum(events + left)[:-1]])
        with np.errstate(divide="ignore", invalid="ignore"):
            gone = np.where(at_risk > 0, np.clip(left / at_risk, 0.0, 1.0), 0.0)
        return at_risk, np.maximum(np.cumprod(1.0 - gone), LEAST_SEEN)

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """(M, T) the weight of each kind at each cut, where it is not beyond it, and where it is;
        0 where that is not known."""
        t, k, cell = self.cuts, np.arange(self.cuts), self.cell[:, None]
        if not self.survival:
            return (cell <= k).astype(float), (cell > k).astype(float)
        share = self.seen[1]
        own = share[np.minimum(self.cell, t - 1)][:, None]
        before = np.where((cell < t) & (cell <= k), 1.0 / own, 0.0)
        after = np.where(np.where(cell < t, cell > k, cell - t > k), 1.0 / share, 0.0)
        return before, after

    @property
    def brier(self) -> Floats:
        """(T,) the mean square between chance and outcome at each cut."""
        before, after = self.weights
        each = before * self.beyond**2 + after * (1.0 - self.beyond) ** 2
        return np.asarray(self.count @ each / self.size)

    @property
    def observed(self) -> Floats:
        """(T,) the share beyond each cut: for times the estimate of Kaplan and Meier."""
        t = self.cuts
        if not self.survival:
            return np.asarray(self.count @ self.weights[1] / self.size)
        by = np.bincount(self.cell, self.count, minlength=2 * t + 1)
        at_risk = self.seen[0] - by[t : 2 * t]
        with np.errstate(divide="ignore", invalid="ignore"):
            hazard = np.where(at_risk > 0, np.clip(by[:t] / at_risk, 0.0, 1.0), 0.0)
        return np.asarray(np.cumprod(1.0 - hazard))

    @property
    def predicted(self) -> Floats:
        """(T,) the mean chance beyond each cut, of all about whom anything is known."""
        known = self.count * (self.cell != self.cuts if self.survival else 1.0)
        return np.asarray(known @ self.beyond / max(float(known.sum()), LEAST))

    @property
    def pairs(self) -> tuple[float, float]:
        """(those ranked rightly, all) pairs of records of which it is known who comes first."""
        t, right, all_pairs = self.cuts, 0.0, 0.0
        time = self.cell.astype(float)
        if self.survival:  # last seen within a period: not known to outlive its end
            time = np.where(self.cell < t, time, time - t - 0.5)
        firsts = range(t)
        for k in firsts:
            mine = (self.cell == k) & (self.count != 0)
            later = (time > k) & (self.count != 0)
            if not mine.any() or not later.any():
                continue
            order = np.argsort(self.rank[later], kind="stable")
            ranks = self.rank[later][order]
            sums = np.concatenate([[0.0], np.cumsum(self.count[later][order])])
            below = sums[np.searchsorted(ranks, self.rank[mine], side="left")]
            equal = sums[np.searchsorted(ranks, self.rank[mine], side="right")] - below
            right += float(self.count[mine] @ (below + 0.5 * equal))
            all_pairs += float(self.count[mine].sum()) * float(sums[-1])
        return right, all_pairs

    @property
    def class_chances(self) -> Floats:
        """(M, T + 1) the chance of each of ordered classes."""
        ends = np.ones((len(self.beyond), 1)), np.zeros((len(self.beyond), 1))
        return np.asarray(-np.diff(np.hstack([ends[0], self.beyond, ends[1]]), axis=1))

    @property
    def classes(self) -> Ints:
        """(M,) the most probable of them."""
        return np.asarray(self.class_chances.argmax(axis=1))


def concordance(o: Outcomes) -> float | None:
    """Share of the pairs of which it is known who comes first that are ranked rightly."""
    right, pairs = o.pairs
    return right / pairs if pairs > 0 else None


def mean_brier(o: Outcomes) -> float | None:
    """Mean over the cuts of the Brier score."""
    return float(o.brier.mean())


def accuracy(o: Outcomes) -> float | None:
    """Share of records whose most probable class is their own."""
    return float(o.count @ (o.classes == o.cell) / o.size)


# ---- on a released table
def released(e: Release) -> Outcomes | None:
    """The cells of a release; None where another statistic was released, or the model's offsets are
    not known."""
    s, offsets = e.statistic, getattr(e, "offsets", None)
    if not isinstance(s, OutcomeCounts) or offsets is None:
        return None
    chances = s.chances(offsets)
    bins, k = s.tables["outcomes"]
    counts = projected(s.parts(e.total)["outcomes"], *n_records(e))
    beyond = np.repeat(chances, k, axis=0)
    kind = s.learnt.predicts == "hazard"
    rank = -np.repeat(np.arange(bins, dtype=float), k)
    return Outcomes(beyond, rank, np.tile(np.arange(k), bins), counts.reshape(-1), kind)


def told(e: Release, found: Callable[[Outcomes], Any], o: Outcomes | None = None) -> Estimate:
    """Estimate numbers (q,) from released counts, with intervals, to first order in the counts."""
    whole = released(e) if o is None else o
    assert whole is not None
    value = np.atleast_1d(np.asarray(found(whole), float))
    std = e.noise * e.statistic.factors()["outcomes"]
    n, slopes = whole.count, np.empty((len(whole.count), len(value)))
    step = max(1.0, std)
    for k in range(len(n)):
        moved = n.copy()
        moved[k] += step
        slopes[k] = (np.atleast_1d(found(replace(whole, count=moved))) - value) / step
    sampling = np.maximum(n, 0.0) @ slopes**2 - (n @ slopes) ** 2 / whole.size
    noise = std**2 * (slopes**2).sum(axis=0)
    if e.records is not None:  # the counts were moved so that they add up
        noise -= std**2 * slopes.sum(axis=0) ** 2 / len(n)
    reach = intervals.quantile(e.level) * np.sqrt(np.maximum(sampling, 0.0) + np.maximum(noise, 0))
    inside = np.clip(value, 0.0, 1.0)
    low, high = np.clip(value - reach, 0.0, 1.0), np.clip(value + reach, 0.0, 1.0)
    return Estimate(inside, low, high)


def _counted(found: Callable[[Outcomes], float | None], kinds: tuple[bool, ...]) -> Any:
    def on_counts(e: Release) -> Told | None:
        o = released(e)
        if o is None or o.survival not in kinds:
            return None
        std = e.noise * e.statistic.factors()["outcomes"]
        enough = o.count.sum() > intervals.FAR * std * math.sqrt(len(o.count))
        if not enough or found(o) is None:
            return Told(Estimate(0.5, 0.0, 1.0), UNIT)
        ends = told(e, lambda x: 0.5 if (y := found(x)) is None else y, o)
        return Told(Estimate(*(float(end[0]) for end in ends)), UNIT, BINNED)

    return on_counts


def at_cuts(o: Outcomes) -> Array:
    """(2 T,) the observed share beyond each cut, then the Brier score at it."""
    return np.concatenate([o.observed, o.brier])


def by_bin(bins: int, k: int, o: Outcomes) -> Array:
    """(bins,) the observed share beyond cut k of each bin of a released table."""
    each = len(o.count) // bins
    found = np.empty(bins)
    for b in range(bins):
        part = slice(b * each, (b + 1) * each)
        found[b] = replace(
            o, beyond=o.beyond[part], rank=o.rank[part], cell=o.cell[part], count=o.count[part]
        ).observed[k]
    return found


def horizons(t: int) -> list[int]:
    """The cuts whose calibration is shown: first, middle and last."""
    return sorted({0, t // 2, t - 1})


def is_outcome(loss: str | None) -> bool:
    """Whether the loss with this name asks several questions about a record."""
    return loss is not None and loss in losses.names() and losses.by_name(loss).stacked


_NO_PAIRS = "it needs pairs of records whose order is known"
MEASURES = (
    Measure(
        "concordance",
        "concordance",
        4,
        True,
        why=_NO_PAIRS,
        of=("order", "hazard"),
        on_records=concordance,
        on_counts=_counted(concordance, (False, True)),
        place=IN_HEADLINES,
    ),
    Measure(
        "ranked_probability",
        "ranked probability score, mean of the steps",
        4,
        False,
        of=("order",),
        on_records=mean_brier,
        on_counts=_counted(mean_brier, (False,)),
        place=IN_HEADLINES,
    ),
    Measure(
        "brier_over_time",
        "Brier score, mean of the time points",
        4,
        False,
        of=("hazard",),
        on_records=mean_brier,
        on_counts=_counted(mean_brier, (True,)),
        place=IN_HEADLINES,
    ),
    Measure(
        "class_accuracy",
        "accuracy, most probable class",
        4,
        True,
        share=True,
        of=("order",),
        on_records=accuracy,
        on_counts=_counted(accuracy, (False,)),
    ),
)
