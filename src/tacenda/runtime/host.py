"""`Host`: some nodes of a run, with their state, taken from round to round.

Every run is made of hosts and differs only in what is put into them: real records and a door
(`simulate`, a peer), a door that an adversary listens at (an audit), or blank records and a
notebook (calibration, a dry run).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.robust import Apart, said_of
from tacenda.errors import StateError
from tacenda.privacy.secrets.noise_plan import NoisePlan
from tacenda.questions.rules import Answers
from tacenda.rows import new_rows
from tacenda.runtime.block import Block, Gate, Neighbours
from tacenda.runtime.spec import RunSpec
from tacenda.threads import in_parts

APART = "common.apart."  # before the names of what is known of groups, in what is saved


@dataclass(frozen=True, eq=False)
class Seat:
    """The nodes of `spec` that one host takes: their positions (b,), one for each row, and their
    noise, None without privacy. An audit takes many copies of one node."""

    spec: RunSpec
    positions: Array
    plan: NoisePlan | None


@dataclass(frozen=True, eq=False)
class Exits:
    """The two ways out of a host: secrets leave through the gate, and what was released goes to the
    neighbours."""

    gate: Gate
    neighbours: Neighbours


class Moment(NamedTuple):
    """Where a host stood between two rounds."""

    state: Any
    sum: Array | None
    weight: float
    apart: dict[str, Array]


class Host:
    """The nodes of a seat with their state, which begin at the public rows `start` (b, d).

    `runtime.assemble` makes hosts, and nothing else does.
    """

    def __init__(self, seat: Seat, questions: Answers, exits: Exits, start: Array) -> None:
        self._questions = questions
        self.apart: Apart | None = None  # how far the groups are, where there are several
        self._begin_apart(seat)
        self._sit(seat, exits)
        self.state = self._algorithm.init(self.block, start)
        average = seat.spec.method.output == "average"
        self._sum = np.zeros(start.shape, start.dtype) if average else None
        self._weight = 0.0

    def _sit(self, seat: Seat, exits: Exits) -> None:
        self._seat = seat
        self._algorithm = seat.spec.algorithm.at_nodes(seat.positions)
        self.block = self._block(seat, exits)

    def _begin_apart(self, seat: Seat) -> None:
        self.apart = None if seat.spec.groups is None else Apart.of(seat.spec.groups.count)

    def _noted(self) -> dict[str, Array]:
        return {} if self.apart is None else self.apart.to_arrays()

    def _note_again(self, noted: dict[str, Array]) -> None:
        if self.apart is not None:
            self.apart.go_to(noted)

    @property
    def spec(self) -> RunSpec:
        return self._seat.spec

    def replay(self, turn: int, exits: Exits) -> None:
        """Make a round from totals that others have handed over: nothing is released or sent."""
        here, self.block = self.block, self._block(self._seat, exits)
        try:
            self.step(turn)
        finally:
            self.block = here

    def learn(self, seat: Seat, exits: Exits) -> None:
        """Learn from a handed total what round 1 of another seat's run began with
        (`Traits.learns`)."""
        block = self._block(seat, exits)
        block.start(1)
        self.state = seat.spec.algorithm.at_nodes(seat.positions).learn(self.state, block)

    def _block(self, seat: Seat, exits: Exits) -> Block:
        graph, at, plan = seat.spec.topology, seat.positions, seat.plan
        return Block(
            self._questions,
            exits.gate,
            exits.neighbours,
            degree=graph.degrees[at],
            is_hub=at == graph.hub(),
            n_nodes=graph.n,
            rounds=seat.spec.rounds,
            noise_scale=None if plan is None else plan.scale,
            weights=None if plan is None else plan.weights,
            reach=None if plan is None else plan.reach,
            groups=seat.spec.groups,
            apart=self.apart,
            dtype=seat.spec.row_type,
        )

    def regroup(self, seat: Seat, exits: Exits, *, restart: bool = True) -> None:
        """Take part in another graph from here on; restart=True forgets what belongs to the old
        neighbours."""
        if restart:
            self._begin_apart(seat)
        self._sit(seat, exits)
        if restart:
            self.state = self._algorithm.restart(self.state, self.block)

    def warnings(self) -> list[str]:
        """What is to be told of the groups, from released sums alone."""
        groups = self.spec.groups
        return [] if self.apart is None or groups is None else said_of(self.apart, groups)

    def moment(self) -> Moment:
        """Where the host stands now."""
        average = None if self._sum is None else self._sum.copy()
        return Moment(self.state, average, self._weight, self._noted())

    def go_back(self, moment: Moment) -> None:
        """Stand there again, as if the rounds since had not been made."""
        self.state, self._sum, self._weight, noted = moment
        self._note_again(noted)

    def forget_average(self) -> None:
        """Begin the average of the models anew: after a change of the members all have the same
        one again."""
        if self._sum is not None:
            self._sum, self._weight = np.zeros_like(self._sum), 0.0

    @property
    def has_learned(self) -> bool:
        """Whether the state holds what round 1 begins with (`Traits.learns`)."""
        return self._algorithm.traits.learns and self._algorithm.has_learned(self.state)

    def step(self, turn: int) -> None:
        """One round of these nodes; the state before it is still there if the round fails."""
        algorithm = self._algorithm
        self.block.start(turn)
        noted = self._noted()
        try:
            # What all rounds build on is kept also if the rest of the round fails
            self.state = algorithm.learn(self.state, self.block)
            noted = self._noted()
            self.state = algorithm.step(self.state, self.block)
        except BaseException:
            self._note_again(noted)  # the round may be made again
            raise
        if self._sum is not None:
            from tacenda.runtime import kernels  # here: it loads the compiler

            weight = algorithm.averaging_weight(turn, self.spec.rounds)
            if weight:
                kernels.add_weighted(self._sum, algorithm.iterate(self.state), weight)
            self._weight += weight

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
        if self.apart is not None:
            arrays |= {f"{APART}{name}": rows for name, rows in self.apart.to_arrays().items()}
        return arrays

    def restore(self, arrays: dict[str, Array]) -> None:
        """Go on from what `save` gave, rows of these nodes."""
        self.state = _filled(self.state, arrays)
        if self._sum is not None:
            self._sum = np.array(arrays["average.sum"])
            self._weight = float(arrays["average.weight"][0])
        if self.apart is not None:
            noted = {k[len(APART) :]: v for k, v in arrays.items() if k.startswith(APART)}
            self.apart.go_to(noted)


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
