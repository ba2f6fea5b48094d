"""`Host`: some nodes of a run, with their state, taken from round to round.

Every run is made of hosts and differs only in what is put into them: real records and a door
(`simulate`, a peer), a door that an adversary listens at (an audit), or blank records and a
notebook (calibration, a dry run).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import StateError
from tacenda.privacy.secrets.noise_plan import NoisePlan
from tacenda.problem.queries import Answers
from tacenda.rows import new_rows
from tacenda.runtime.block import Block, Gate, Neighbours
from tacenda.runtime.spec import RunSpec
from tacenda.threads import in_parts


class Host:
    """The nodes of `spec` at `positions` (b,), a position for each row; an audit hosts many copies
    of one node.

    plan: the noise of these rows, None without privacy; start (b, d): the public point where they
    begin.
    """

    def __init__(
        self,
        spec: RunSpec,
        positions: Array,
        queries: Answers,
        gate: Gate,
        neighbours: Neighbours,
        plan: NoisePlan | None,
        start: Array,
    ) -> None:
        self.spec, self._positions, self._queries = spec, positions, queries
        self._plan: NoisePlan | None = plan
        self._algorithm = spec.algorithm.at_nodes(positions)
        self.block = self._block(gate, neighbours, plan)
        self.state = self._algorithm.init(self.block, start)
        self._sum = np.zeros(start.shape, start.dtype) if spec.method.output == "average" else None
        self._weight = 0.0

    def replay(self, turn: int, gate: Gate, neighbours: Neighbours) -> None:
        """Make a round from totals that others have handed over: nothing is released or sent."""
        here, self.block = self.block, self._block(gate, neighbours, self._plan)
        try:
            self.step(turn)
        finally:
            self.block = here

    def learn(
        self,
        spec: RunSpec,
        positions: Array,
        gate: Gate,
        neighbours: Neighbours,
        plan: NoisePlan | None,
    ) -> None:
        """Learn from a handed total what round 1 of that run began with (`Algorithm.learns`)."""
        own = self.spec, self._positions, self._plan
        self.spec, self._positions = spec, positions
        try:
            block = self._block(gate, neighbours, plan)
            block.start(1)
            self.state = spec.algorithm.at_nodes(positions).learn(self.state, block)
        finally:
            self.spec, self._positions, self._plan = own

    def _block(self, gate: Gate, neighbours: Neighbours, plan: NoisePlan | None) -> Block:
        graph, at = self.spec.topology, self._positions
        self._plan = plan
        return Block(
            self._queries,
            gate,
            neighbours,
            degree=graph.degrees[at],
            is_hub=at == graph.hub(),
            n_nodes=graph.n,
            rounds=self.spec.rounds,
            noise_scale=None if plan is None else plan.scale,
            weights=None if plan is None else plan.weights,
            reach=None if plan is None else plan.reach,
            dtype=self.spec.row_type,
        )

    def regroup(
        self,
        spec: RunSpec,
        positions: Array,
        gate: Gate,
        neighbours: Neighbours,
        plan: NoisePlan | None,
        *,
        restart: bool = True,
    ) -> None:
        """Take part in another graph from here on; restart=True:
        what belongs to the old neighbours is forgotten."""
        self.spec, self._positions = spec, positions
        self._algorithm = spec.algorithm.at_nodes(positions)
        self.block = self._block(gate, neighbours, plan)
        if restart:
            self.state = self._algorithm.restart(self.state, self.block)

    def forget_average(self) -> None:
        """Begin the average of the models anew: after a change of the members all have the same
        one again."""
        if self._sum is not None:
            self._sum, self._weight = np.zeros_like(self._sum), 0.0

    @property
    def has_learned(self) -> bool:
        """Whether the state holds what round 1 begins with (`Algorithm.learns`)."""
        return self._algorithm.learns and self._algorithm.has_learned(self.state)

    def step(self, turn: int, *, keeps: bool = True) -> None:
        """One round of these nodes.

        keeps: whether the state before it is still there if the round fails, as a peer needs that
        goes on with other neighbours. If not, what the algorithm has no more use for serves the
        round as memory.
        """
        algorithm = self._algorithm
        self.block.start(turn)
        # What all rounds build on is kept also if the rest of the round fails
        self.state = algorithm.learn(self.state, self.block)
        self.state = algorithm.step(self.state if keeps else self._given_up(), self.block)
        if self._sum is not None:
            from tacenda.runtime import kernels  # here: it loads the compiler

            weight = algorithm.averaging_weight(turn, self.spec.rounds)
            if weight:
                kernels.add_weighted(self._sum, algorithm.iterate(self.state), weight)
            self._weight += weight

    def _given_up(self) -> Any:
        """The state, which belongs to the caller alone from here on."""
        state, self.state = self.state, None
        return state

    def output(self) -> Array:
        """(b, d) what each node would answer now, by the run's rule."""
        if self._sum is None or self._weight == 0:
            return self.last()
        total, weight = self._sum, self._sum.dtype.type(self._weight)
        out = new_rows(total.shape, total.dtype)
        in_parts(_divide, len(out), out.size, total, weight, out)
        return out

    def last(self) -> Array:
        """(b, d) each node's newest released model."""
        return np.asarray(self.spec.algorithm.last(self.state))

    @property
    def can_be_saved(self) -> bool:
        """Whether the state holds released values only."""
        return all(
            value is None or type(value) is np.ndarray for value in flat(self.state).values()
        )

    def save(self) -> dict[str, Array]:
        """Everything that the next round builds on: released values only."""
        if not self.can_be_saved:
            raise StateError(
                "A run as published keeps an unreleased value in its state, "
                "and is therefore not checkpointed."
            )
        arrays = {name: rows for name, rows in flat(self.state).items() if rows is not None}
        if self._sum is not None:
            arrays |= {"average.sum": self._sum, "average.weight": np.array([self._weight])}
        return arrays

    def restore(self, arrays: dict[str, Array]) -> None:
        """Go on from what `save` gave, rows of these nodes."""
        self.state = _filled(self.state, arrays)
        if self._sum is not None:
            self._sum = np.array(arrays["average.sum"])
            self._weight = float(arrays["average.weight"][0])


def _divide(begin: int, end: int, total: Array, weight: Any, out: Array) -> None:
    np.divide(total[begin:end], weight, out=out[begin:end])


def is_common(name: str) -> bool:
    """Whether what `Host.save` calls by this name is one and the same for all nodes, not a row for
    each."""
    return name == "average.weight" or name.startswith("common.")


def flat(state: Any, path: str = "") -> dict[str, Any]:
    """{name: value} of a state, states inside it included: "state.x" for rows of the nodes,
    "common.x" for a field that says so of itself (metadata {"common": True})."""
    found: dict[str, Any] = {}
    for f in dataclasses.fields(state):
        value = getattr(state, f.name)
        if dataclasses.is_dataclass(value):
            found |= flat(value, f"{path}{f.name}.")
        else:
            found[_name(f, path)] = value
    return found


def _filled(state: Any, arrays: dict[str, Array], path: str = "") -> Any:
    """The state with what `flat` named."""
    found: dict[str, Any] = {}
    for f in dataclasses.fields(state):
        value = getattr(state, f.name)
        if dataclasses.is_dataclass(value):
            found[f.name] = _filled(value, arrays, f"{path}{f.name}.")
        elif _name(f, path) in arrays:
            found[f.name] = np.ascontiguousarray(arrays[_name(f, path)])
    return dataclasses.replace(state, **found)


def _name(f: dataclasses.Field[Any], path: str) -> str:
    return f"{'common' if f.metadata.get('common') else 'state'}.{path}{f.name}"
