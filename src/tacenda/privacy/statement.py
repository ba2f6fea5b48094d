"""What a run really guarantees: the composition of what its ledger was charged,
for the worst node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.privacy.accounting import events
from tacenda.privacy.secrets.ledger import Charge, Charges

if TYPE_CHECKING:
    from tacenda.privacy.accounting.judge import Curve

UNIT = "one record of one node"


@dataclass(frozen=True, eq=False)
class Statement:
    """(epsilon, delta) of one record against an adversary who sees every message of every node in
    every round.

    epsilon is computed from the charges themselves, whatever was asked for; `target` is what was
    asked for. claimed: what the paper says its noise gives, in mode "as-published"; why: one
    sentence where the two differ.
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

    @cached_property
    def _kinds(self) -> tuple[Array, Array]:
        """(a node of each kind, each node's kind): nodes with equal charges are judged once."""
        columns = [values for charge, _ in self.charges for values in charge.parameters.values()]
        if not columns:
            return np.zeros(min(1, self.n_nodes), int), np.zeros(self.n_nodes, int)
        if all(charge.kind is events.Gaussian for charge, _ in self.charges):
            mu = sum(
                count / charge.parameters["noise_multiplier"] ** 2 for charge, count in self.charges
            )
            columns = [np.round(np.log(np.asarray(mu)), 12)]
        _, first, kind = np.unique(
            np.column_stack(columns), axis=0, return_index=True, return_inverse=True
        )
        return first, kind.reshape(-1)

    @cached_property
    def _curves(self) -> list[Curve]:
        from tacenda.privacy.accounting.judge import judge

        return [judge(self.charges.events(int(node)), self.adjacency) for node in self._kinds[0]]

    @cached_property
    def node_epsilons(self) -> Array:
        """(n,) epsilon of each node at the run's delta."""
        found = np.array([curve.epsilon(self.delta) for curve in self._curves])
        return found[self._kinds[1]] if len(found) else np.zeros(self.n_nodes)

    @property
    def epsilon(self) -> float:
        """The largest over the nodes: a record lives on one node,
        so the losses of nodes do not add up."""
        return float(self.node_epsilons.max(initial=0.0))

    @property
    def worst_node(self) -> int:
        """The position of the node with the largest epsilon."""
        return int(np.argmax(self.node_epsilons))

    @property
    def accountant(self) -> str:
        """Who judged the worst node."""
        return self.curve().accountant

    def curve(self, node: int | None = None) -> Curve:
        """The whole privacy curve of one node (the worst one):
        epsilon(delta), delta(epsilon), mu, the trade-off."""
        which = self.worst_node if node is None else node
        if not 0 <= which < self.n_nodes:
            raise InputError(f"node must be a position from 0 to {self.n_nodes - 1}, not {node!r}.")
        return self._curves[int(self._kinds[1][which])]

    def ledger(self, node: int) -> list[tuple[events.Event, int]]:
        """Every release of one node, as (event, count)."""
        return self.charges.events(node)

    def person(self, nodes: list[int]) -> float:
        """Epsilon for a person with one record on each of these nodes: mu = sqrt(sum mu_i^2), pure
        losses add.

        Noise shared by neighbours is not independent between the nodes: what hides one is what
        hides the other, so there mu is the sum of the mu_i (Cauchy-Schwarz; nearly attained where
        the edges' noise is loud).
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

    @property
    def round_losses(self) -> list[dict[str, Any]]:
        """What each release cost by itself, given the past ("dynamic" privacy): the worst node's
        events, in order."""
        node = self.worst_node
        return [{**charge.event(node).to_dict(), "count": count} for charge, count in self.charges]

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files: the charges too, so that anybody can compose them again."""
        return {
            "epsilon": _number(self.epsilon),
            "delta": self.delta,
            "adjacency": self.adjacency,
            "unit": UNIT,
            "mode": self.mode,
            "accountant": self.accountant,
            "coalition": self.curve().coalition,
            "target": self.target,
            "noise": self.noise,
            "spread": self.spread,
            "n_nodes": self.n_nodes,
            "worst_node": self.worst_node,
            "claimed": self.claimed,
            "why": self.why,
            "charges": [
                {
                    "kind": c.kind.kind,
                    "count": count,
                    "parameters": {k: _short(v) for k, v in c.parameters.items()},
                }
                for c, count in self.charges
            ],
        }

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Statement:
        """The inverse of `to_plain`."""
        n = values["n_nodes"]
        charges = Charges(
            (
                Charge(
                    events.KINDS[c["kind"]], {k: _long(v, n) for k, v in c["parameters"].items()}
                ),
                c["count"],
            )
            for c in values["charges"]
        )
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
        )

    def __repr__(self) -> str:
        pooled = self.curve().coalition
        limit = "" if pooled is None else f", coalition {pooled}"
        promise = f"epsilon={self.epsilon:.6g}, delta={self.delta:g}, {self.adjacency}{limit}"
        return f"Statement({promise}, {self.mode}, by {self.accountant})"


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
