"""What more budget, more members, more records or a denser graph would buy:
the same plan with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda.graph import generators
from tacenda.graph.topology import Topology

if TYPE_CHECKING:
    from tacenda.planning.outcome import Plan
    from tacenda.planning.predict import Prediction

FAMILIES = ("ring", "path", "star", "complete", "exponential")  # that a number of nodes determines


@dataclass(frozen=True, eq=False)
class Change:
    """One line of the table that `Plan.what_if` returns.

    Attributes
    ----------
    name : str
        What was changed.
    plan : Plan
        The plan after the change.
    factor : float
        Its excess risk as a multiple of the plan's own.
    prediction : Prediction or None
        What was predicted, where trials were run.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0).what_if()[0].factor
    1.0
    """

    name: str
    plan: Plan
    factor: float
    prediction: Prediction | None = None

    @property
    def excess_risk(self) -> float:
        """Predicted mean where there are trials, else the forecast."""
        return (
            self.plan.forecast.excess_risk
            if self.prediction is None
            else self.prediction.excess_risk.mean
        )

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files.

        Result: numbers, strings, lists and dictionaries only.
        """
        p, found = self.plan, self.prediction
        return {
            "change": self.name,
            "nodes": p.facts.n,
            "records": p.facts.records,
            "degree": float(p.topology.degrees.mean()),
            "algorithm": p.algorithm.name,
            "rounds": p.rounds,
            "excess_risk": self.excess_risk,
            "factor": self.factor,
            "accuracy": None if found is None or found.accuracy is None else found.accuracy.mean,
            "bytes": p.bytes,
        }


def what_if(plan: Plan, trials: int = 0, public: Any = None, seed: int = 0) -> list[Change]:
    """The plan itself and its changes. trials = 0 compares forecasts (at once); else every line is
    carried out on stand-in data."""
    from tacenda.planning.predict import predict

    found: list[Change] = []
    for name, changed in _changes(plan):
        prediction = predict(changed, public, trials, seed) if trials else None
        line = Change(name, changed, 1.0, prediction)
        found.append(
            replace(line, factor=line.excess_risk / found[0].excess_risk) if found else line
        )
    return found


def _changes(p: Plan) -> Iterator[tuple[str, Plan]]:
    sizes, epsilon, n = p.facts.sizes, p.epsilon, p.facts.n
    twice = 2 * epsilon if isinstance(epsilon, float) else tuple(2 * e for e in epsilon)
    half = epsilon / 2 if isinstance(epsilon, float) else tuple(e / 2 for e in epsilon)
    yield "as planned", p
    yield "twice the budget", again(p, epsilon=twice)
    yield "half the budget", again(p, epsilon=half)
    yield "twice the records at each member", again(p, sizes=2 * sizes)
    larger = of_same_kind(p.topology, 2 * n)
    both = epsilon if isinstance(epsilon, float) else (*epsilon, *epsilon)
    yield (
        "twice the members, each with as many records",
        again(p, sizes=np.tile(sizes, 2), topology=larger, epsilon=both),
    )
    if sizes.min() >= 2:
        yield (
            "the same records over twice the members",
            again(p, sizes=np.tile(sizes / 2, 2), topology=larger, epsilon=both),
        )
    denser = denser_graph(p.topology)
    if denser is not None:
        yield (
            f"a denser graph ({denser.degrees.mean():.3g} neighbours, "
            f"not {p.topology.degrees.mean():.3g})",
            again(p, topology=denser),
        )


def again(
    p: Plan,
    *,
    sizes: Any = None,
    topology: Topology | None = None,
    epsilon: Any = None,
    longer: float | None = None,
) -> Plan:
    """The same wish with other sizes, graph, budget or total step."""
    from tacenda.planning.planner import plan_facts

    facts = (
        p.facts
        if sizes is None
        else replace(p.facts, sizes=np.asarray(sizes, float), noise_sizes=None)
    )
    limits: dict[str, Any] = (
        {"rounds": p.rounds} if p.fixed_rounds else {"max_rounds": p.max_rounds}
    )
    return plan_facts(
        facts,
        p.topology if topology is None else topology,
        p.privacy if epsilon is None else replace(p.privacy, epsilon=epsilon),
        longer=p.longer if longer is None else longer,
        **limits,
    )


def of_same_kind(topology: Topology, n: int) -> Topology:
    """n nodes of the same family; where the family does not tell,
    a random graph of the same mean degree."""
    family = topology.name.partition("(")[0]
    if family in FAMILIES:
        return Topology.of(getattr(generators, family)(n))
    return _regular(n, round(float(topology.degrees.mean())))


def denser_graph(topology: Topology) -> Topology | None:
    """A random graph of twice the mean degree, the complete graph where that is all there is, None
    if it is complete already."""
    n, degree = topology.n, float(topology.degrees.mean())
    return None if degree >= n - 1.5 else _regular(n, round(2 * degree))


def _regular(n: int, degree: int) -> Topology:
    if degree >= n - 1:
        return Topology.of(generators.complete(n))
    if degree <= 2:
        return Topology.of(generators.ring(n))
    return Topology.of(generators.random_regular(n, degree + (n * degree) % 2))


def advice(changes: list[Change]) -> str:
    """One sentence: where the next effort buys most, and what would hardly help."""
    rest = [c for c in changes[1:] if c.factor < 1]
    if not rest:
        return (
            "None of these changes would lower the excess risk; "
            "the plan is as good as this shape allows."
        )
    best = min(rest, key=lambda c: c.factor)
    sentence = (
        f"{best.name[0].upper()}{best.name[1:]} would help most: "
        f"{best.factor:.2g} times the excess risk"
    )
    denser = next((c for c in changes if c.name.startswith("a denser graph")), None)
    if denser is not None and denser is not best:
        sentence += "; a denser graph would " + (
            "hardly help" if denser.factor > 0.9 else f"bring {denser.factor:.2g} times it"
        )
    return sentence + "."
