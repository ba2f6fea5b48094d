"""`records_needed`:
how much data a budget and a target ask for (the sample-size question of Zhang and Zhu (2016))."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda import checks
from tacenda.engines import HERE, Workers
from tacenda.errors import InputError
from tacenda.planning.outcome import Plan
from tacenda.planning.planner import plan
from tacenda.planning.predict import Prediction, predict
from tacenda.planning.what_if import again
from tacenda.words import counted

LEAST, MOST = 2, 10_000_000
START, MANY = 100, 10_000
CLOSE = 1.1  # the answer is found to a tenth


@dataclass(frozen=True, eq=False)
class Needed:
    """How many records each member needs for a target.

    Attributes
    ----------
    per_node : int
        Records at each member.
    plan : Plan
        The plan for them.
    prediction : Prediction or None
        What was predicted; None where forecasts alone were compared.

    Examples
    --------
    >>> import tacenda as tc
    >>> needed = tc.records_needed(5, tc.graph.ring(5), 1.0, target_excess=0.05, trials=0)
    >>> needed.total == 5 * needed.per_node
    True
    """

    per_node: int
    plan: Plan
    prediction: Prediction | None

    @property
    def total(self) -> int:
        """Records of all members together."""
        return self.per_node * self.plan.facts.n

    def explain(self) -> str:
        """The result in words.

        Result: a few lines of text.
        """
        how = (
            "by the forecast"
            if self.prediction is None
            else f"predicted excess risk {self.prediction.excess_risk}"
        )
        if self.prediction is not None and self.prediction.accuracy is not None:
            how += f", accuracy {self.prediction.accuracy}"
        return (
            f"About {counted(self.per_node, 'record')} at each of "
            f"{counted(self.plan.facts.n, 'member')}, {self.total} in all: {how}."
        )

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files.

        Result: numbers, strings, lists and dictionaries only.
        """
        found = None if self.prediction is None else self.prediction.to_plain()
        return {
            "per_node": self.per_node,
            "total": self.total,
            "plan": self.plan.to_plain(),
            "prediction": found,
        }


def records_needed(
    dim: int,
    graph: Any,
    epsilon: float,
    delta: float = 1e-5,
    *,
    target_excess: float | None = None,
    target_accuracy: float | None = None,
    trials: int = 2,
    public: Any = None,
    seed: int = 0,
    jobs: int = 1,
    engine: str = "loky",
    prevalence: float | None = None,
    **options: Any,
) -> Needed:
    """Least number of records at each member, to a tenth, with which the plan meets the target.

    Reads no private data.

    Parameters
    ----------
    dim : int
        Length of a node's model, the intercept included.
    graph : networkx.Graph or Topology
        The network.
    epsilon : float
        The budget.
    delta : float, default=1e-05
        The delta of the guarantee.
    target_excess : float or None, default=None
        Objective above the noise-free optimum.
    target_accuracy : float or None, default=None
        Share of records classified correctly; give exactly one of the two targets.
    trials : int, default=2
        Runs on stand-in data for each number that is tried; 0 compares forecasts, for
        `target_excess` only.
    public : (X, y) or None, default=None
        A public sample of the same kind of records.
    seed : int, default=0
        Of the stand-in data and the trials.
    jobs : int, default=1
        Number of processes for the trials of one number; the result does not depend on it.
    engine : str, default="loky"
        Where the trials run: "loky" (processes of this machine), "dask://host:port",
        "ray://host:port" or "ray".
    prevalence : float or None, default=None
        The share of the second of two classes; None takes a half.
    **options : object
        As in `tacenda.plan`: loss, strength, ...

    Raises
    ------
    InputError
        If both or neither target are given, or no number of records meets it.

    Examples
    --------
    >>> import tacenda as tc
    >>> needed = tc.records_needed(5, tc.graph.ring(5), 1.0, target_excess=0.05, trials=0)
    >>> needed.per_node > 10
    True
    """
    first = plan(START, dim, graph, epsilon, delta, **options)
    return records_for(
        first,
        target_excess=target_excess,
        target_accuracy=target_accuracy,
        trials=trials,
        public=public,
        seed=seed,
        workers=Workers.of(engine, jobs),
        prevalence=prevalence,
    )


def records_for(
    wish: Plan,
    *,
    target_excess: float | None = None,
    target_accuracy: float | None = None,
    trials: int = 2,
    public: Any = None,
    seed: int = 0,
    workers: Workers = HERE,
    prevalence: float | None = None,
) -> Needed:
    """The same for a plan's own graph, budget and loss, its sizes left aside."""
    if (target_excess is None) == (target_accuracy is None):
        raise InputError("records_needed takes exactly one of target_excess and target_accuracy.")
    checks.whole("trials", trials, least=0 if target_accuracy is None else 1)
    if prevalence is None and public is None and wish.facts.constants.loss.kind == "binary":
        prevalence = 0.5  # of fewer, a constant would be right more often
    question = _Question(wish, trials, public, seed, workers, prevalence)
    if target_excess is not None:
        goal = checks.positive("target_excess", target_excess)
        guess = _search(
            lambda m: question.plan(m).forecast.excess_risk <= goal,
            START,
            f"target_excess {goal:g}",
        )
        if trials == 0:
            return Needed(guess, question.plan(guess), None)
        found = _search(
            lambda m: question.answer(m).excess_risk.mean <= goal, guess, f"target_excess {goal:g}"
        )
    else:
        wanted = checks.between("target_accuracy", target_accuracy, 0.0, 1.0)
        question.refuse_beyond_reach(wanted)
        found = _search(
            lambda m: question.accuracy(m) >= wanted, START, f"target_accuracy {wanted:g}"
        )
    return Needed(found, question.plan(found), question.answer(found))


class _Question:
    """Plans and predictions for so many records at each member, each made once."""

    def __init__(
        self,
        wish: Plan,
        trials: int,
        public: Any,
        seed: int,
        workers: Workers,
        prevalence: float | None,
    ) -> None:
        self._wish, self._trials, self._public, self._seed = wish, trials, public, seed
        self._workers, self._prevalence = workers, prevalence
        self._answers: dict[int, Prediction] = {}

    def plan(self, m: int) -> Plan:
        return again(self._wish, sizes=np.full(self._wish.facts.n, float(m)))

    def answer(self, m: int) -> Prediction:
        if m not in self._answers:
            self._answers[m] = predict(
                self.plan(m),
                self._public,
                self._trials,
                self._seed,
                self._workers,
                prevalence=self._prevalence,
            )
        return self._answers[m]

    def accuracy(self, m: int) -> float:
        found = self.answer(m).accuracy
        return 0.0 if found is None else found.mean

    def refuse_beyond_reach(self, wanted: float) -> None:
        """An accuracy that even the noise-free optimum of such data has not."""
        best = self.answer(MANY).best_accuracy
        if best is None or best <= wanted:
            reach = (
                "a regression has none"
                if best is None
                else f"without any noise such data is classified to {best:.3g}"
            )
            raise InputError(
                f"target_accuracy {wanted:g} cannot be met: {reach}; ask for less, "
                "or pass public=(X, y) of your kind of data."
            )


def _search(enough: Callable[[int], bool], start: int, what: str) -> int:
    """The least m, to a tenth, that is enough: by doubling or halving,
    then bisection of the logarithm."""
    low, high = start, start
    if enough(start):
        while low > LEAST:
            high, low = low, max(LEAST, low // 2)
            if not enough(low):
                break
        else:
            return low
    else:
        high = 2 * start
        while not enough(high):
            low, high = high, 2 * high
            if high > MOST:
                raise InputError(
                    f"{what} is not met with {MOST} records at each member; allow more rounds, "
                    "budget or a larger target."
                )
    while high > CLOSE * low and high > low + 1:
        middle = min(max(round(math.sqrt(low * high)), low + 1), high - 1)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
