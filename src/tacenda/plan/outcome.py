"""`Plan`: what the planner chose, what it expects, and why, in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from tacenda.algorithms.base import Algorithm
from tacenda.graph.topology import Topology
from tacenda.plan.forecast import SHAPES
from tacenda.problem.facts import Facts


@dataclass(frozen=True)
class Forecast:
    """The planner's numbers: total step tau, the noise of the average, both parts of the forecast excess risk.

    node_spread: how far a node's score is from the average model's during the run, before the closing mixings.
    """

    step: float
    wanted_step: float
    wanted_rounds: int
    average_noise_std: float
    left_undone: float
    noise_risk: float
    second_eigenvalue: float
    node_spread: float

    @property
    def excess_risk(self) -> float:
        """Expected objective above the noise-free optimum, for data of the assumed shape."""
        return self.left_undone + self.noise_risk


@dataclass(frozen=True, eq=False)
class Plan:
    """Settings of one run. `tc.simulate(problem, graph, privacy=..., **plan.settings)` carries it out."""

    algorithm: Algorithm
    rounds: int
    output: str
    finish_mixing: int
    facts: Facts
    topology: Topology
    forecast: Forecast
    epsilon: Any
    delta: float
    coalition: int | None = None  # where neighbours share noise: how many curious members the promise holds against

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments of `simulate` that the plan decides."""
        return {
            "algorithm": self.algorithm, "rounds": self.rounds, "output": self.output, "finish_mixing": self.finish_mixing
        }  # fmt: skip

    @property
    def messages(self) -> int:
        """Messages between nodes: two for each edge in each mixing."""
        return 2 * len(self.topology.edges) * (self.rounds * getattr(self.algorithm, "mixings", 1) + self.finish_mixing)

    @property
    def bytes(self) -> int:
        """Bytes of released values in them, in double precision."""
        return 8 * self.facts.dim * self.messages

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """One sentence for each choice."""
        return tuple(_reasons(self))

    def explain(self) -> str:
        """The choice and its reasons as text."""
        k, f = self.facts.constants, self.forecast
        eps = f"{self.epsilon:g}" if isinstance(self.epsilon, float) else "one epsilon per node"
        head = [
            f"Plan for {self.facts.n} nodes, {self.facts.sizes.sum():.0f} records, a model of length {self.facts.dim}, "
            f"({eps}, {self.delta:g}) {self.facts.adjacency}:",
            f"  algorithm       {self.algorithm.title}, {_hyperparameters(self.algorithm)}, full gradients",
            f"  rounds          {self.rounds}, then {self.finish_mixing} closing mixings that cost no privacy",
            f"  output          {self.output} iterate",
            f"  communication   {self.messages} messages, {self.bytes / 1e6:.1f} MB",
            f"  excess risk     about {f.excess_risk:.3g} (left undone {f.left_undone:.2g}, noise {f.noise_risk:.2g})",
            "Why:",
        ]
        assumed = (
            f"The forecast assumes typical data (scores of size {SHAPES[k.loss.name].signal:g}, eigenvalues falling like 1/sqrt(k), "
            f"rows of norm near {k.data_norm:g}); no record was read."
        )
        return "\n".join([*head, *(f"  - {reason}" for reason in self.reasons), f"  - {assumed}"])

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files."""
        return {
            "algorithm": self.algorithm.to_plain(),
            "rounds": self.rounds,
            "output": self.output,
            "finish_mixing": self.finish_mixing,
            "epsilon": list(self.epsilon) if isinstance(self.epsilon, tuple) else self.epsilon,
            "delta": self.delta,
            "adjacency": self.facts.adjacency,
            "coalition": self.coalition,
            "messages": self.messages,
            "bytes": self.bytes,
            "forecast": {**asdict(self.forecast), "excess_risk": self.forecast.excess_risk},
            "reasons": list(self.reasons),
        }

    def __repr__(self) -> str:
        return (
            f"Plan({self.algorithm.name}, rounds={self.rounds}, output={self.output!r}, finish_mixing={self.finish_mixing}, "
            f"excess_risk~{self.forecast.excess_risk:.3g})"
        )


def _hyperparameters(algorithm: Algorithm) -> str:
    if algorithm.name == "gossipgd":
        values = algorithm.to_plain()
        return f"step {values['step_size']:.4g}, {values['mixings']} mixings a round, edge noise {values['correlation']:g} times the own"
    return f"offset {getattr(algorithm, 'offset', 0.0):.4g}, independent noise"


def _method(p: Plan) -> str:
    if p.coalition is None:
        return (
            "Dual averaging with independent noise: neighbours mix every released value, so that the nodes' noises average out; the "
            f"whole noise of the average model is set by the total step, {p.forecast.step:.4g}, and not by the number of rounds."
        )
    trust = "an eavesdropper, but no curious member" if p.coalition == 0 else (
        f"an eavesdropper and up to {p.coalition} curious member{'s' if p.coalition > 1 else ''} pooling what they know"
    )  # fmt: skip
    return (
        "GossipGD with noise shared by neighbours: what one adds the other subtracts, so that the large noise which hides each message "
        f"cancels in the network's average. The guarantee holds against {trust}; larger coalitions may learn more. "
        "coalition=None plans noise that needs no such trust."
    )


def _reasons(p: Plan) -> list[str]:
    k, f = p.facts.constants, p.forecast
    found = [
        _method(p),
        f"The total step balances what would be left unlearnt against noise of standard deviation {f.average_noise_std:.3g} in the "
        "network's average gradient.",
        "Full gradients: at equal privacy a batch adds sampling noise and saves only computation.",
    ]
    if f.wanted_rounds > p.rounds:
        short = "" if f.step == f.wanted_step else f", and the step is cut from {f.wanted_step:.4g} to stay stable"
        found.append(f"{f.wanted_rounds} rounds would be better; {p.rounds} are allowed{short}.")
    else:
        found.append(
            f"{p.rounds} rounds, so that no step overshoots and one node's scores stay within {f.node_spread:.2g} of the average's."
        )
    if p.finish_mixing:
        found.append(
            f"{p.finish_mixing} closing mixings bring every node to nearly the average model (the mixing matrix's second eigenvalue "
            f"is {f.second_eigenvalue:.3f})."
        )
    if k.strong_convexity == 0 and p.coalition is None:
        found.append(
            f"The regulariser {k.regulariser.name!r} is not strongly convex, so the constant offset alone damps the steps."
        )
    sizes = p.facts.sizes
    if sizes.max() > 3 * sizes.min():
        found.append(
            f"Node sizes differ ({sizes.min():.0f} to {sizes.max():.0f}); every node weighs alike in the objective, so the smallest "
            "ones bring most of the noise."
        )
    return found
