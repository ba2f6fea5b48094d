"""`heterogeneity`: are the members' populations alike? A private test.

At one public model w each node i releases the mean gradient of its own records and their spread,
with noise of its own. If all populations are alike, the gradients have one mean, and

    g_i ~ N(mean, S_i),   S_i = V / m_i + noise_i^2 I

with V the covariance of one record's gradient, taken from all nodes together. With W_i = S_i^-1 and
the mean by these weights (Cochran 1937),

    Q = sum_i (g_i - mean)' W_i (g_i - mean)

has the chi-square distribution with (n - 1) d degrees of freedom: the test is of any difference in
the joint distribution of features and label that moves the gradient at w. Masked sums hide what the
test needs, each node's own sum: so it is an explicit extra, with noise that each node draws alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Floats
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.errors import InputError, UnsupportedError
from tacenda.inference.asking import PER_COEFFICIENT, ask, gradient_moments, per_person
from tacenda.inference.newton import positive
from tacenda.inference.result import Condition, cost_of
from tacenda.inference.statistics import FULL, GradientMoments
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.problem.problem import Problem
from tacenda.questions.facts import Facts
from tacenda.runtime.result import RunResult


@dataclass(frozen=True, eq=False)
class Heterogeneity:
    """What the test found.

    Attributes
    ----------
    statistic : float
        Q.
    degrees : int
        Degrees of freedom of its distribution if all nodes are alike.
    p_value : float or None
        Chance of so large a Q if all nodes are alike; None where a condition does not hold.
    nodes : ndarray
        Shape (n,), each node's part of Q.
    share : float
        I^2, from 0 to 1: how much of the differences is more than chance and noise
        (Higgins and Thompson 2002).
    noise : float
        The share of the gradients' variance that is privacy noise, from 0 to 1: near 1 the test
        sees the noise, and hardly the records.
    conditions : tuple of Condition
        On what the p-value stands.
    privacy : Statement or None
        What it cost; None without noise.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.inference import Heterogeneity
    >>> Heterogeneity(30.0, 10, 0.001, np.array([10.0, 20.0]), 2 / 3, 0.1).degrees
    10
    """

    statistic: float
    degrees: int
    p_value: float | None
    nodes: Floats
    share: float
    noise: float
    conditions: tuple[Condition, ...] = ()
    privacy: Statement | None = None

    def __str__(self) -> str:
        p = "no p-value" if self.p_value is None else f"p = {self.p_value:.3g}"
        return "\n".join(
            [
                f"Are the nodes alike? Q = {self.statistic:.4g} with {self.degrees} degrees of "
                f"freedom, {p}; {self.share:.0%} of the differences is more than chance.",
                f"{self.noise:.0%} of the gradients' variance is privacy noise.",
                *(c.text for c in self.conditions),
                "It cost nothing: there was no noise, and there is no privacy."
                if self.privacy is None
                else f"It cost {cost_of(self.privacy)}.",
            ]
        )

    def to_plain(self) -> dict[str, Any]:
        """Give plain values for files.

        Result: numbers, conditions and the cost.
        """
        return {
            "statistic": self.statistic,
            "degrees": self.degrees,
            "p_value": self.p_value,
            "nodes": self.nodes.tolist(),
            "share": self.share,
            "noise": self.noise,
            "conditions": [[c.name, c.holds, c.text] for c in self.conditions],
            "privacy": None if self.privacy is None else self.privacy.to_plain(),
        }


def heterogeneity(
    result: RunResult,
    problem: Problem,
    graph: Any,
    *,
    privacy: Privacy | None = None,
    slope: float | None = None,
    seed: int | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
) -> Heterogeneity:
    """Test whether the nodes' populations are alike, from one charged question to the records.

    Parameters
    ----------
    result : RunResult
        A run; the records are asked at its average model.
    problem : Problem
        The records, at two nodes or more.
    graph : Graph or Topology
        The network of the nodes.
    privacy : Privacy or None, default=None
        The price of the question, on top of the run; None: no noise, and no privacy.
    slope : float or None, default=None
        As in `intervals`.
    seed : int or None, default=None
        Of the noise; None draws it afresh.
    ledger : str, Path or None, default=None
        A lasting ledger, charged before noise is drawn.
    dataset : str or None, default=None
        The account of the records in it.

    Returns
    -------
    Heterogeneity
        Q, its p-value, each node's part of it, conditions and the cost.

    Raises
    ------
    InputError
        If there is one node only.
    UnsupportedError
        If the loss has several scores or is not smooth.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(400, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem, graph = tc.Problem(shards, classes=(0, 1)), tc.graph.ring(4)
    >>> result = tc.simulate(problem, graph, "treegd", 10, privacy=tc.Privacy(4.0), seed=0)
    >>> found = tc.inference.heterogeneity(
    ...     result, problem, graph, privacy=tc.Privacy(2.0), seed=1
    ... )
    >>> found.degrees, found.p_value > 0.01
    (9, True)
    """
    if problem.n_nodes < 2:
        raise InputError(
            f"problem must have two nodes or more to be compared, not {problem.n_nodes}."
        )
    facts = Facts.of(problem, "replace-one" if privacy is None else privacy.adjacency)
    asked = gradient_moments(facts, False, FULL, slope)
    release = StatisticRelease(asked, "independent")
    run = ask(release, result, problem, graph, privacy, seed, ledger, dataset)
    return compared(asked, run)


def compared(asked: GradientMoments, run: RunResult) -> Heterogeneity:
    """The test from what nodes released each by itself: costs nothing more."""
    if "own" not in run.released:
        raise UnsupportedError(
            "The nodes' own sums are not in this result: a masked sum hides them. Ask with "
            "independent noise."
        )
    from scipy.stats import chi2

    sizes = np.asarray(run.settings["problem"]["sizes"], float)
    own, n, d = np.asarray(run.released["own"], float), len(sizes), asked.n_features
    std = float(run.released["noise"][0]) / np.sqrt(n)  # of each node's sum
    units = asked.units
    g = asked.means(own, 1.0)["gradient"] / sizes[:, None]
    total = asked.means(own.sum(axis=0), float(sizes.sum()))
    middle, k = total["gradient"], per_person(run)
    spread = positive(total["spread"] - np.outer(middle, middle)) * k
    noise = (std * units["gradient"] / sizes) ** 2
    e, vectors = np.linalg.eigh(spread)
    # S_i in the axes of V: all are diagonal there
    variance = np.maximum(e, 0.0)[None, :] / sizes[:, None] + noise[:, None]
    seen = (variance > 1e-12 * variance.max()).all(axis=0)
    along, variance = (g @ vectors)[:, seen], variance[:, seen]
    mean = (along / variance).sum(axis=0) / (1 / variance).sum(axis=0)
    parts = ((along - mean) ** 2 / variance).sum(axis=1)
    q, degrees = float(parts.sum()), (n - 1) * int(seen.sum())
    few = sizes.min() < PER_COEFFICIENT * d
    # For small nodes a chi-square needs normal gradients, which noise makes them
    of_noise = float(np.mean(noise[:, None] / variance))
    conditions = (
        Condition(
            "records",
            not few or of_noise > 0.5,
            f"The smallest node has {sizes.min():.0f} records for {d} coefficients; "
            f"{PER_COEFFICIENT} for each are needed where noise does not prevail.",
        ),
        Condition(
            "independence", None, "Records are independent draws from their node's population."
        ),
    )
    holds = all(c.holds is not False for c in conditions)
    return Heterogeneity(
        q,
        degrees,
        float(chi2.sf(q, degrees)) if holds else None,
        parts,
        max(0.0, 1.0 - degrees / q) if q > 0 else 0.0,
        of_noise,
        conditions,
        run.privacy,
    )
