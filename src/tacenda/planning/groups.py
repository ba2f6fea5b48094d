"""What sums in groups would cost a plan, and what they buy: the planner shows it, and takes one sum
unless it is told otherwise.

A rule that joins G groups bears liars in fewer than half of them. All members draw sqrt(h_G / h_1)
times the noise of one sum, h the leverage of the worst member (`graph.groups`), and the forecast
risk of noise grows by the square of that.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tacenda.graph.groups import ROBUST, grouped, proposed_groups

if TYPE_CHECKING:
    from tacenda.planning.outcome import Plan

LIKELY = (1, 3, 4, 6, 8)  # numbers of groups that are shown, as far as members are enough


@dataclass(frozen=True)
class GroupOption:
    """One number of groups.

    Attributes
    ----------
    groups : int
        How many.
    smallest : int
        Members of the smallest one.
    noise : float
        Times the noise of one sum.
    excess_risk : float
        The plan's forecast with that noise.
    liars : int
        In how many groups members may lie, and the model still does not follow them.
    proposed : bool
        Whether groups="auto" takes it.

    Examples
    --------
    >>> import tacenda as tc
    >>> [o.groups for o in tc.plan(1000, 5, tc.graph.complete(12), epsilon=1.0).group_options()]
    [1, 3, 4]
    """

    groups: int
    smallest: int
    noise: float
    excess_risk: float
    liars: int
    proposed: bool

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files."""
        return asdict(self)


def group_options(plan: Plan) -> list[GroupOption]:
    """The options of a masked plan whose groups have more members than the coalition; none of any
    other plan."""
    if plan.coalition is None or not plan.algorithm.traits.joins_groups:
        return []
    n, q, found = plan.topology.n, plan.coalition, []
    auto, alone = proposed_groups(n, q), 0.0
    for count in sorted({*LIKELY, auto}):
        if count > 1 and n // count <= q:
            continue
        groups = grouped(plan.topology, count, q)
        most = float(groups.leverage(q)[0].max())
        alone = most if count == 1 else alone
        times = math.sqrt(most / alone)
        risk = plan.forecast.left_undone + plan.forecast.noise_risk * times**2
        liars = (count - 1) // 2 if count >= ROBUST else 0
        smallest = int(groups.sizes.min())
        found.append(GroupOption(count, smallest, times, risk, liars, count == auto))
    return found
