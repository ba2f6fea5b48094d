"""The public rule that joins the means of groups, so that one group cannot move the result far.

    cut      no mean is longer than an honest one: its bound plus the reach of its noise
    joined   from three groups the geometric median, argmin_y sum_g w_g |y - m_g|; of two the mean
    apart    how far the groups' means are from each other, beyond what noise explains

All of it acts on released sums and public numbers only, so it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacenda._types import Array
from tacenda.graph.groups import ROBUST, Groups

CUT_TAIL = 20 * math.log(2)  # an honest mean is cut with a chance of 2^-20 at most
FURTHER = 4.0  # times the others' squared distances, beyond which a group differs
STEPS = 1000  # of the iteration; it ends long before where no two means nearly coincide
EXACT = 1e-13
SAME = 1e-12  # of the largest squared distance: so near, points count as one


def cut(means: Array, std: Array, bound: float) -> Array:
    """(G, d) the means, none longer than `bound` plus the reach of its noise, of standard deviation
    std (G,) in each entry."""
    width = means.shape[1]
    longest = bound + std * (math.sqrt(width) + math.sqrt(2 * CUT_TAIL))
    lengths = np.sqrt((means**2).sum(axis=1))
    return means * np.minimum(1.0, longest / np.maximum(lengths, 1e-300))[:, None]


def said_of(apart: Apart, groups: Groups) -> list[str]:
    """What to tell of groups that differ, with their members."""
    found = apart.differing()
    if not found:
        return []
    alone = groups.count >= ROBUST
    named = " and ".join(f"group {g + 1} ({groups.names(g)})" for g in found)
    away = left_out(apart, groups.sizes / groups.topology.n)
    return [
        f"The sums of {named} differ from "
        f"{'those of most others' if alone else 'each other'} by more than noise and the others' "
        "spread explain. That says nothing of why: the records there may be of another kind, or a "
        "member sends what is not so. "
        + (
            "From then on their sums were left out of every mean. Ask those members."
            if away
            else "Nothing was left out, since it is not known who is right. Ask the members."
        )
    ]


def left_out(apart: Apart, weights: Array) -> list[int]:
    """The groups that differ, where the others have more than half of the weight; else none. With
    two groups nobody knows which one to leave out."""
    found = apart.differing() if len(weights) >= ROBUST else []
    return found if 2 * float(weights[found].sum()) < 1 else []


def squares(means: Array) -> Array:
    """(G, G) squared distances."""
    found = np.zeros((len(means), len(means)))
    for g in range(len(means)):
        for h in range(g):
            found[g, h] = found[h, g] = ((means[g] - means[h]) ** 2).sum()
    return found


def joined(means: Array, weights: Array) -> Array:
    """(d,) the geometric median of three or more means (G, d), the mean of fewer.

    weights (G,): positive, of sum 1. Where one point has half of the weight, it is the median. The
    result is the same to the bit wherever the same means are: it takes sums and roots only.
    """
    shares = weights if len(means) < ROBUST else _median(squares(_small(means)), weights)
    found = np.zeros(means.shape[1])
    for share, mean in zip(shares, means, strict=True):
        found += share * mean
    return found


def _small(means: Array) -> Array:
    """The means times a power of two, so that none of their squares overflows or vanishes."""
    largest = float(np.abs(means).max())
    return means if largest == 0 else np.ldexp(means, -int(np.frexp(largest)[1]))


def _median(apart: Array, weights: Array) -> Array:
    """(G,) the shares of the points in their geometric median, from their squared distances: by
    Weiszfeld's iteration, within their span."""
    count, same = len(weights), apart <= SAME * apart.max()
    for g in range(count):  # a point is the median if the others do not pull it away
        pulls = np.where(same[g], 0.0, weights / np.sqrt(np.maximum(apart[g], 1e-300)))
        # of unit vectors from g: u_h . u_k = (D_gh + D_gk - D_hk) / (2 |gh| |gk|)
        inner = (apart[g][:, None] + apart[g][None, :] - apart) / 2
        pulled = float((pulls[:, None] * pulls[None, :] * inner).sum())
        if pulled <= float(weights[same[g]].sum()) ** 2:
            return np.eye(count)[g]
    shares = weights.copy()
    for _ in range(STEPS):
        spread = (apart * shares).sum(axis=1)
        far = np.maximum(spread - (spread * shares).sum() / 2, EXACT * apart.max())
        pulls = weights / np.sqrt(far)
        before, shares = shares, pulls / pulls.sum()
        if np.abs(shares - before).max() <= EXACT:
            break
    return shares


def noise_factor(groups: int, width: int) -> float:
    """How much larger the noise of `joined` is than that of the mean, for Gaussian noise of `width`
    entries alike in all groups: from the asymptotic efficiency of the spatial median."""
    if groups < ROBUST:
        return 1.0
    if width == 1:
        return math.sqrt(math.pi / 2)
    half = math.lgamma((width - 1) / 2) - math.lgamma(width / 2)
    efficiency = ((width - 1) / width) ** 2 * (width / 2) * math.exp(2 * half)
    return math.sqrt(1 / efficiency)


@dataclass
class Apart:
    """How far the groups' means were from each other, over all releases so far, in units of the
    standard deviation of their noise.

    squares (G, G): squared distances of the means, summed over the releases; entries: how many
    numbers that were, as many as noise alone makes of them on average. sums (G, d): of the means of
    the last releases, as many of one width as `count` says; a lie that stays the same stands out
    there.
    """

    squares: Array
    sums: Array
    entries: float = 0.0
    count: float = 0.0

    @classmethod
    def of(cls, groups: int) -> Apart:
        """Of groups of which nothing was seen yet."""
        return cls(np.zeros((groups, groups)), np.zeros((groups, 0)))

    def to_arrays(self) -> dict[str, Array]:
        """Everything that is known, for a checkpoint."""
        numbers = np.array([self.entries, self.count])
        return {"squares": self.squares, "sums": self.sums, "numbers": numbers}

    def go_to(self, arrays: dict[str, Array]) -> None:
        """Stand where `to_arrays` stood."""
        self.squares, self.sums = np.array(arrays["squares"]), np.array(arrays["sums"])
        self.entries, self.count = (float(x) for x in arrays["numbers"])

    def add(self, means: Array, std: Array) -> None:
        """Note one release: means (G, d) with noise of that standard deviation (G,)."""
        variance = std[:, None] ** 2 + std[None, :] ** 2
        self.squares = self.squares + squares(means) / variance
        self.entries += means.shape[1]
        if means.shape != self.sums.shape:
            self.sums, self.count = np.zeros(means.shape), 0.0
        # All groups' in one unit; their own noise differs as their sizes do
        self.sums, self.count = self.sums + means / std.max(), self.count + 1

    def differing(self) -> list[int]:
        """The groups that differ from most others by more than noise and the others' spread
        explain, in single releases or in their sum. It says nothing of why."""
        if len(self.squares) < 2 or not self.entries:
            return []
        tail = CUT_TAIL + math.log(2 * len(self.squares) ** 2 * max(1.0, self.count) ** 2)
        found = _beyond(self.squares, self.entries, tail)
        if self.count > 1:
            together = squares(self.sums) / (2 * self.count)
            found |= _beyond(together, self.sums.shape[1], tail)
        return sorted(found)


def _beyond(apart: Array, entries: float, tail: float) -> set[int]:
    """The groups that stand out by these squared distances (G, G), of which noise makes as many as
    `entries`, and more than the reach with a chance of e^-tail."""
    count, reach = len(apart), 2 * math.sqrt(entries * tail) + 2 * tail  # Laurent and Massart
    excess = apart - entries
    if count < ROBUST:  # of two nobody knows which one
        return {0, 1} if excess[0, 1] > reach else set()
    typical = np.array([_lower_median(np.delete(excess[g], g)) for g in range(count)])
    found = set()
    for g in range(count):
        others = np.sort(np.delete(typical, g))
        spread = max(float(others[len(others) // 2]), 0.0)
        if typical[g] > reach + FURTHER * spread:
            found.add(g)
    return found


def _lower_median(values: Array) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])
