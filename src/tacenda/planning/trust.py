"""Who must not collude with whom, where neighbours share noise, and what happens if they do.

All nodes draw with one scale s, made so that mu_i = Delta_i sqrt(T h_i(q))/s keeps every node's
budget against any q members (`graph.coalition`). Against others the same noise gives

    mu = max_i Delta_i sqrt(T h_i(Q))/s,

h_i = 1 where all neighbours of i, and so also where all others, combine what they know. Masked
values: h_i is 1/(the members of i's component without the coalition).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda.graph.coalition import leverage

if TYPE_CHECKING:
    from tacenda.planning.outcome import Plan


@dataclass(frozen=True)
class Adversary:
    """Who combines what they know, and what the worst member's guarantee against them is.

    Attributes
    ----------
    who : str
        The adversary in words.
    members : int
        How many members it has.
    mu : float
        Gaussian-DP parameter against it.
    epsilon : float
        Epsilon against it, at the plan's delta.
    promised : bool
        Whether the guarantee covers it.
    exact : bool
        Whether the value is exact, and not an upper bound.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0).adversaries(most=1)[0].promised
    True
    """

    who: str
    members: int
    mu: float
    epsilon: float
    promised: bool
    exact: bool

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files.

        Result: numbers, strings, lists and dictionaries only.
        """
        return asdict(self)


def adversaries(plan: Plan, most: int = 3) -> list[Adversary]:
    """An eavesdropper, coalitions of 1 to `most` members (the worst of each size), a member's
    neighbours, everybody else."""
    from tacenda.privacy.accounting.calibration import gaussian_mu
    from tacenda.privacy.accounting.curves import GaussianProfile

    n = plan.facts.n
    budget = np.broadcast_to(np.asarray(plan.epsilon, float), (n,))
    promised_mu = np.array([gaussian_mu(float(e), plan.delta) for e in budget])
    moved = plan.facts.gradient_sensitivity()
    names = {0: "an eavesdropper who sees every message", 1: "any single member"}
    asked = [(names.get(q, f"any {q} members together"), q) for q in range(min(most, n - 2) + 1)]
    fewest = int(plan.topology.degrees.min(initial=n)) if n > 1 else 0
    asked += (
        [("all neighbours of one member", fewest), ("all other members together", n - 1)]
        if n > 1
        else []
    )
    if plan.coalition is None:
        worst = float(promised_mu.max())
        return [
            Adversary(who, q, worst, GaussianProfile(worst).epsilon(plan.delta), True, True)
            for who, q in asked
        ]
    ratio = plan.algorithm.traits.shared_noise
    assert ratio is not None
    own, _ = leverage(plan.topology, ratio, plan.coalition)
    scale = float(np.max(moved * np.sqrt(own) / promised_mu))
    found = []
    for k, (who, q) in enumerate(asked):
        # No edge of such a member is left secret: only its own part hides it
        cut_off = k >= len(asked) - 2
        h, how = (np.ones(n), "exact") if cut_off else leverage(plan.topology, ratio, q)
        mu = float(np.max(moved * np.sqrt(h))) / scale
        found.append(
            Adversary(
                who,
                q,
                mu,
                GaussianProfile(mu).epsilon(plan.delta),
                q <= plan.coalition,
                how == "exact",
            )
        )
    return found
