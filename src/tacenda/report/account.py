"""What one run's ledger says, prepared for the eye: the worst node's curve, what observers gain,
how it was spent.

All numbers are composed again from the charges. Judging sampled releases takes seconds for each
kind of node; the stored ledger's `worst_node` then tells which node to judge, and the other nodes
are only said to be no worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import PrivacyError
from tacenda.privacy.accounting import events
from tacenda.privacy.accounting.judge import Curve, judge
from tacenda.privacy.statement import Statement

QUICK = (events.Gaussian, events.CorrelatedGaussian, events.DiscreteGaussian)
DELTAS = 10.0 ** -np.arange(1.0, 12.01, 0.5)
POINTS, SLOW_POINTS = 60, 12
GRID = 1e-4  # relative: two versions of a numerical accountant may differ by so much


@dataclass(frozen=True, eq=False)
class Account:
    """One statement and the curve of its worst node."""

    statement: Statement
    worst_node: int
    curve: Curve
    quick: bool

    @classmethod
    def of(cls, statement: Statement, stored: dict[str, Any]) -> Account:
        """`stored` is the run's entry of ledger.json; without it every node is judged."""
        quick = all(issubclass(charge.kind, QUICK) for charge, _ in statement.charges)
        worst = stored.get("worst_node")
        if quick or not isinstance(worst, int) or not 0 <= worst < statement.n_nodes:
            worst = statement.worst_node
        return cls(
            statement, worst, judge(statement.charges.events(worst), statement.adjacency), quick
        )

    @property
    def delta(self) -> float:
        return self.statement.delta

    @cached_property
    def epsilon(self) -> float:
        """Of the worst node, at the run's delta."""
        return self.curve.epsilon(self.delta)

    @property
    def node_epsilons(self) -> Array | None:
        """(n,) where judging every node is cheap, else None."""
        return self.statement.node_epsilons if self.quick else None

    @cached_property
    def best_guess(self) -> float:
        """The largest chance (1 + delta(0))/2 of telling two neighbouring data sets apart, from a
        fair coin's 1/2."""
        return (1.0 + self.curve.delta(0.0)) / 2.0

    @property
    def target(self) -> float | None:
        """The epsilon that was asked for, the largest over the nodes,
        or None where the noise was given."""
        asked = self.statement.target
        if isinstance(asked, dict) or asked is None:
            return None
        return float(np.max(np.asarray(asked, float)))

    @property
    def kept(self) -> bool:
        """Whether the composed epsilon is what was asked for,
        up to the width of the accountants' grids."""
        return self.target is None or self.epsilon <= self.target * (1 + GRID)

    def profile(self) -> tuple[Array, Array]:
        """(deltas, epsilons) of the worst node, finite ones only,
        the run's own delta among them."""
        own = [self.delta] if self.delta > 0 else []
        deltas = np.unique(np.concatenate([DELTAS, own]))
        found = np.array([self.curve.epsilon(float(d)) for d in deltas])
        good = np.isfinite(found)
        return deltas[good], found[good]

    def groups(self, sizes: tuple[int, ...] = (2, 5)) -> list[tuple[int, float]]:
        """Epsilon at the run's delta for several records of one person on one node, where an
        accountant can say it."""
        answers = []
        for size in sizes:
            try:
                answers.append((size, self.curve.group(size).epsilon(self.delta)))
            except PrivacyError:
                answers.append((size, math.inf))
        return answers

    def spending(self, rounds: int) -> tuple[Array, Array]:
        """(round, epsilon spent up to it) of the worst node;
        releases are spread evenly over the rounds."""
        listed = [
            (charge.event(self.worst_node), count) for charge, count in self.statement.charges
        ]
        total = sum(count for _, count in listed)
        points = POINTS if self.quick or _pure(listed) else SLOW_POINTS
        # Dense where it rises steeply
        stops = np.unique(
            (total * np.linspace(0, 1, min(points, total) + 1) ** 1.5).round().astype(int)
        )
        spent = [
            judge(_first(listed, int(k)), self.statement.adjacency).epsilon(self.delta)
            for k in stops
        ]
        return stops * (rounds / max(total, 1)), np.array(spent)

    def single_releases(self, rounds: int) -> tuple[Array, Array]:
        """(round, epsilon of that release by itself at the run's delta)
        of the worst node, thinned."""
        listed = [
            (charge.event(self.worst_node), count) for charge, count in self.statement.charges
        ]
        starts = np.cumsum([0] + [count for _, count in listed])
        points = POINTS if self.quick or _pure(listed) else SLOW_POINTS
        at = np.unique(np.linspace(0, max(starts[-1] - 1, 0), points).round().astype(int))
        which = np.searchsorted(starts, at, side="right") - 1
        cost: dict[int, float] = {}
        for k in np.unique(which):
            cost[int(k)] = judge([(listed[k][0], 1)], self.statement.adjacency).epsilon(self.delta)
        return (at + 1) * (rounds / max(starts[-1], 1)), np.array([cost[int(k)] for k in which])


def together(accounts: list[Account]) -> tuple[float, float] | None:
    """(epsilon, delta) of all runs published together on the same records, or None where their
    relations differ.

    Exact for Gaussian releases (the mu^2 of each node add); else the sums of the epsilons and of
    the deltas, which always hold.
    """
    first = accounts[0].statement
    if any(
        (a.statement.adjacency, a.statement.n_nodes) != (first.adjacency, first.n_nodes)
        for a in accounts
    ):
        return None
    gaussian = all(c.kind is events.Gaussian for a in accounts for c, _ in a.statement.charges)
    if not gaussian:
        return float(sum(a.epsilon for a in accounts)), float(sum(a.delta for a in accounts))
    squares = sum(
        n / c.parameters["noise_multiplier"] ** 2 for a in accounts for c, n in a.statement.charges
    )
    mu = float(np.sqrt(np.max(squares)))
    delta = max(a.delta for a in accounts)
    return judge([(events.Gaussian(1.0 / mu if mu > 0 else math.inf), 1)], first.adjacency).epsilon(
        delta
    ), delta


def _pure(listed: list[tuple[events.Event, int]]) -> bool:
    """Equal pure rounds compose quickly; different ones, and l2-Laplace noise on values, do not."""
    quick = events.Pure | events.ObjectiveLaplace
    return len({event for event, _ in listed}) == 1 and isinstance(listed[0][0], quick)


def _first(listed: list[tuple[events.Event, int]], count: int) -> list[tuple[events.Event, int]]:
    """The first `count` releases."""
    taken, left = [], count
    for event, number in listed:
        if left <= 0:
            break
        taken.append((event, min(number, left)))
        left -= number
    return taken
