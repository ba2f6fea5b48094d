"""What a run really guarantees: the composition of what its ledger was charged,
for the worst node."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.privacy.accounting import events
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.accounting.final_model import WHOLE_RUN, FinalModel, Hidden
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.words import counted

if TYPE_CHECKING:
    from tacenda.privacy.accounting.judge import Curve

UNIT = "one record of one node"


def unit_of(
    records_per_person: int = 1, members_per_person: int = 1, one_record: bool = False
) -> str:
    """Whose data the promise is about, in words that follow "for"."""
    if (records_per_person, members_per_person) == (1, 1):
        return UNIT
    if one_record and members_per_person == 1:
        return f"{UNIT}, which is {records_per_person} rows"
    most = f"one person with at most {counted(records_per_person, 'record')}"
    if members_per_person == 1:
        return most
    return f"{most} at each of at most {members_per_person} nodes"


@dataclass(frozen=True, eq=False)
class Statement:
    """What a run really guarantees, composed from what its ledger was charged.

    (epsilon, delta) of one record of one node, against an adversary who sees every message of every
    node in every round. `epsilon` is computed from the charges themselves, whatever was asked for;
    `target` is what was asked for.

    Attributes
    ----------
    charges : Charges
        Every release of the run and its noise.
    n_nodes : int
        Number of nodes.
    delta : float
        The delta at which epsilon is stated.
    adjacency : str
        The neighbouring relation, "replace-one" or "add-remove".
    mode : str
        "sound" or "as-published".
    target : float or sequence of float
        The epsilon that was asked for.
    noise : str
        Name of the noise.
    spread : str
        How the budget was divided over the rounds.
    claimed : tuple[float, float] or None
        What the paper says that its noise gives, in mode "as-published".
    why : str or None
        One sentence where the claimed and the accounted epsilon differ.
    hidden : Hidden or None
        What is proved for who sees only the final model; None where nothing better than the whole
        run is.
    records_per_person : int
        k: the promise is for a person with at most k records of one node; 1: for a record.
    members_per_person : int
        On how many nodes a person may be; the promise is for all of them together.
    one_record : bool
        Whether the k records of a person are the rows that a model makes of one record, so that the
        promise is for that record.
    groups : int
        In how many groups of members sums were made; each group's are public.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem = tc.Problem(shards, classes=(0, 1))
    >>> budget = tc.Privacy(epsilon=1.0, delta=1e-5)
    >>> result = tc.simulate(problem, tc.graph.ring(4), "cdpadmm", 5, budget, seed=0)
    >>> round(result.privacy.epsilon, 3)
    1.0
    """

    charges: Charges
    n_nodes: int
    delta: float
    adjacency: str
    mode: str
    target: Any
    noise: str
    spread: str = "uniform"
    claimed: tuple[float, float] | None = None
    why: str | None = None
    hidden: Hidden | None = None
    records_per_person: int = 1
    members_per_person: int = 1
    one_record: bool = False
    groups: int = 1

    @property
    def unit(self) -> str:
        """Whose data the promise is about: one record, or one person with at most k records."""
        return unit_of(self.records_per_person, self.members_per_person, self.one_record)

    @property
    def for_whom(self) -> str:
        """The same as a whole: every single record, or every person with at most k records."""
        if self.unit == UNIT:
            return "every single record"
        if self.unit.startswith(UNIT):
            return self.unit.replace(UNIT, "every single record", 1)
        return self.unit.replace("one person", "every person", 1)

    @cached_property
    def _judged(self) -> Charges:
        """The charges that count: each node's own; for persons on several nodes, of each release
        the worst over all nodes, since any of them may hold the person's records."""
        if self.members_per_person == 1:
            return self.charges
        return self.charges.at_worst()

    @cached_property
    def _kinds(self) -> tuple[Array, Array]:
        """(a node of each kind, each node's kind): nodes with equal charges are judged once."""
        charges, shared = self._judged, self._judged.nodes
        numbers = [charge.parameters if shared is None else charge.entries for charge, _ in charges]
        columns = [values for each in numbers for values in each.values()]
        if not columns:
            return np.zeros(min(1, self.n_nodes), int), np.zeros(self.n_nodes, int)
        if all(charge.kind is events.Gaussian for charge, _ in charges):
            mu = sum(
                count / each["noise_multiplier"] ** 2
                for each, (_, count) in zip(numbers, charges, strict=True)
            )
            columns = [np.round(np.log(np.asarray(mu)), 12)]
        _, first, kind = np.unique(
            np.column_stack(columns), axis=0, return_index=True, return_inverse=True
        )
        kind = kind.reshape(-1)
        if shared is None:
            return first, kind
        _, first, each = np.unique(kind[shared], return_index=True, return_inverse=True)
        return first, each.reshape(-1)

    @cached_property
    def _curves(self) -> list[Curve]:
        from tacenda.privacy.accounting.judge import judge

        k, q = self.records_per_person, self.members_per_person
        curves = [
            judge(events.at_members(self._judged.events(int(node)), q), self.adjacency)
            for node in self._kinds[0]
        ]
        return curves if k * q == 1 else [replace(curve, group_size=k * q) for curve in curves]

    @cached_property
    def node_epsilons(self) -> Array:
        """Epsilon of each node at the run's delta, shape (n,)."""
        found = np.array([curve.epsilon(self.delta) for curve in self._curves])
        return found[self._kinds[1]] if len(found) else np.zeros(self.n_nodes)

    @property
    def epsilon(self) -> float:
        """Largest epsilon over the nodes.

        A record is on one node only, so that the losses of nodes do not add up; where a person may
        be on several, they do.
        """
        return float(self.node_epsilons.max(initial=0.0))

    @property
    def worst_node(self) -> int:
        """The position of the node with the largest epsilon."""
        return int(np.argmax(self.node_epsilons))

    @property
    def accountant(self) -> str:
        """Name of the accountant that composed the worst node's releases."""
        return self.curve().accountant

    @property
    def exact(self) -> bool:
        """False where `epsilon` is an upper bound: the privacy may be better than it says."""
        return self.curve().exact and not self._uneven

    @property
    def _uneven(self) -> bool:
        """Whether a person's nodes add unlike noise: then the worst node is counted at each."""
        numbers = [v for charge, _ in self.charges for v in charge.entries.values() if v.size]
        return self.members_per_person > 1 and any(
            np.ptp(values) > 1e-9 * np.abs(values).max() for values in numbers
        )

    def curve(self, node: int | None = None) -> Curve:
        """Privacy curve of one node: epsilon(delta), delta(epsilon), mu and the trade-off.

        node: position of the node; None takes the one with the largest epsilon.
        """
        which = self.worst_node if node is None else node
        if not 0 <= which < self.n_nodes:
            raise InputError(f"node must be a position from 0 to {self.n_nodes - 1}, not {node!r}.")
        return self._curves[int(self._kinds[1][which])]

    def ledger(self, node: int) -> list[tuple[events.Event, int]]:
        """Every release of one node."""
        return self.charges.events(node)

    def person(self, nodes: list[int]) -> float:
        """Epsilon for a person with one record on each of several nodes.

        mu = sqrt(sum mu_i^2), and pure losses add up. Noise shared by neighbours is not independent
        between the nodes: what hides one is what hides the other, so there mu is the sum of the
        mu_i (Cauchy-Schwarz; nearly attained where the edges' noise is large).

        nodes: different positions of nodes. Result: epsilon at the run's delta.
        """
        from tacenda.privacy.accounting.judge import judge

        rows = sorted(int(node) for node in nodes)
        if not rows or len(set(rows)) < len(rows) or rows[0] < 0 or rows[-1] >= self.n_nodes:
            raise InputError(
                f"nodes must be different positions from 0 to {self.n_nodes - 1}, not {nodes!r}; "
                "several records on one node are curve(node).group(size)."
            )
        listed: list[tuple[events.Event, int]] = []
        for charge, count in self.charges:
            if issubclass(charge.kind, events.CorrelatedGaussian):
                mu, coalition = charge.parameters["mu"][rows], charge.parameters["coalition"][rows]
                listed.append((charge.kind(float(mu.sum()), int(coalition.min())), count))
            else:
                listed += [(charge.event(row), count) for row in rows]
        return judge(events.merged(listed), self.adjacency).epsilon(self.delta)

    def final_model(self) -> FinalModel:
        """Guarantee against somebody who sees the final model, and no message of any node.

        Never larger than `epsilon`, which holds against those who see every message, the members
        among them.

        Result: its epsilon at the run's delta, and what that rests on.
        """
        if self.hidden is not None:
            largest = np.sort(self.hidden.mu)[-self.members_per_person :]
            found = GaussianProfile(float(np.sum(largest))).epsilon(self.delta)
            if found < self.epsilon:
                return FinalModel(found, self.delta, True, self.hidden.why)
        return FinalModel(self.epsilon, self.delta, False, WHOLE_RUN)

    @property
    def round_losses(self) -> list[dict[str, Any]]:
        """What each release cost by itself, given the past ("dynamic" privacy).

        The events of the worst node, in order.
        """
        node = self.worst_node
        return [{**charge.event(node).to_dict(), "count": count} for charge, count in self.charges]

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files: the charges too, so that anybody can compose them again.

        Result: numbers, strings, lists and dictionaries only.
        """
        return {
            "epsilon": _number(self.epsilon),
            "delta": self.delta,
            "adjacency": self.adjacency,
            "unit": self.unit,
            "records_per_person": self.records_per_person,
            "members_per_person": self.members_per_person,
            "one_record": self.one_record,
            "mode": self.mode,
            "accountant": self.accountant,
            "exact": self.exact,
            "coalition": self.curve().coalition,
            "target": self.target,
            "noise": self.noise,
            "spread": self.spread,
            "n_nodes": self.n_nodes,
            **({"groups": self.groups} if self.groups > 1 else {}),
            "worst_node": self.worst_node,
            "claimed": self.claimed,
            "why": self.why,
            "final_model": self._final_plain(),
            **self._plain_charges(),
        }

    def _plain_charges(self) -> dict[str, Any]:
        """Numbers for each kind of node, and which kind each node is, where that is known; else
        for each node. One number where it is that of all."""
        shared = self.charges.nodes
        numbers = [c.parameters if shared is None else c.entries for c, _ in self.charges]
        alike = all(np.all(v == v[0]) for each in numbers for v in each.values())
        return {
            **({} if shared is None or alike else {"nodes": shared.tolist()}),
            "charges": [
                {
                    "kind": c.kind.kind,
                    "count": count,
                    "parameters": {k: _short(v) for k, v in each.items()},
                }
                for each, (c, count) in zip(numbers, self.charges, strict=True)
            ],
        }

    def _final_plain(self) -> dict[str, Any]:
        final = self.final_model()
        mu = None if self.hidden is None else _short(self.hidden.mu)
        return {"epsilon": _number(final.epsilon), "why": final.why, "mu": mu}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Statement:
        """Read back what `to_plain` wrote."""
        n = values["n_nodes"]
        charges = _charges(values, n)
        claimed = tuple(values["claimed"]) if values.get("claimed") else None
        return cls(
            charges,
            n,
            values["delta"],
            values["adjacency"],
            values["mode"],
            values["target"],
            values["noise"],
            values["spread"],
            claimed,
            values.get("why"),
            _hidden(values.get("final_model"), n),
            values.get("records_per_person", 1),
            values.get("members_per_person", 1),
            values.get("one_record", False),
            values.get("groups", 1),
        )

    def __repr__(self) -> str:
        pooled = self.curve().coalition
        limit = "" if pooled is None else f", coalition {pooled}"
        promise = f"epsilon={self.epsilon:.6g}, delta={self.delta:g}, {self.adjacency}{limit}"
        promise += "" if self.unit == UNIT else f", for {self.for_whom}"
        promise += "" if self.groups == 1 else f", sums of {self.groups} groups public"
        return f"Statement({promise}, {self.mode}, by {self.accountant})"


def _charges(values: dict[str, Any], n: int) -> Charges:
    """What `Statement._plain_charges` wrote."""
    nodes, each = values.get("nodes"), n
    numbers = [v for c in values["charges"] for v in c["parameters"].values()]
    if not any(isinstance(v, list) for v in numbers):
        nodes, each = np.zeros(n, np.int64), 1
    elif nodes is not None:
        nodes, each = np.asarray(nodes, np.int64), max(nodes) + 1
    return Charges(
        (
            Charge(
                events.KINDS[c["kind"]],
                {k: _long(v, each) for k, v in c["parameters"].items()},
                nodes,
            ),
            c["count"],
        )
        for c in values["charges"]
    )


def _hidden(values: dict[str, Any] | None, n: int) -> Hidden | None:
    if values is None or values.get("mu") is None:
        return None
    return Hidden(_long(values["mu"], n), values["why"])


def _short(values: Array) -> Any:
    """One number where all nodes share it."""
    plain = [_number(v) for v in (values[:1] if np.all(values == values[0]) else values)]
    return plain[0] if np.all(values == values[0]) else plain


def _long(values: Any, n: int) -> Array:
    return (
        np.array([float(v) for v in values])
        if isinstance(values, list)
        else np.full(n, float(values))
    )


def _number(value: Any) -> Any:
    number = float(value)
    return "inf" if math.isinf(number) else number
