"""The algorithm's side of a node: one block with one node, taken from round to round,
saved and restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import tacenda
from tacenda._types import Array
from tacenda.errors import NetworkError, StateError
from tacenda.graph.groups import Groups
from tacenda.graph.topology import Topology
from tacenda.privacy.accounting.events import KINDS
from tacenda.privacy.noise.keyed import AtPosition, KeyedNoise
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import Bounded
from tacenda.privacy.secrets.door import Door, SharedNoise
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.privacy.secrets.noise_plan import NoisePlan
from tacenda.privacy.statement import Statement
from tacenda.questions.lattice import grid_for
from tacenda.runtime.assemble import (
    Placed,
    Records,
    ask,
    assemble,
    connect,
    open_door,
    shared_noise,
)
from tacenda.runtime.history import History
from tacenda.runtime.host import Exits, Moment, Seat
from tacenda.runtime.network import average_of
from tacenda.runtime.places import OpenGate
from tacenda.runtime.result import RunResult, with_strength
from tacenda.runtime.spec import RunSpec
from tacenda_node.identity.edge_keys import EdgeKeys
from tacenda_node.membership.decisions import OTHER_MODEL, Decision
from tacenda_node.peer.run_plan import RunPlan, enough_noise, smaller_run, topology_of
from tacenda_node.protocol import frames
from tacenda_node.state.charges import NodeLedger
from tacenda_node.state.database import NodeState
from tacenda_node.state.secrets import NOISE
from tacenda_node.wire.exchange import Exchange

HERE = np.zeros(1, np.int64)  # the member's own store has one node
REACHED_RADIUS = (
    "reached radius"  # note: the first round in which a message had to be cut to the radius
)


class Peer:
    """`round` rounds are done of `total`; the closing ones only mix, or average, what was
    released."""

    def __init__(
        self,
        plan: RunPlan,
        name: str,
        problem: Any,
        state: NodeState,
        exchange: Exchange,
        edges: EdgeKeys | None = None,
        start: Array | None = None,
    ) -> None:
        """start (dim,): the public model at which the run begins; zeros by default."""
        self._edges = edges
        self._plan = plan
        self._name = name
        self._problem = problem
        self._state = state
        self._exchange = exchange
        self._me = plan.contract.position(name)
        self.round, self.total = 0, plan.contract.total_rounds
        self._noise = self._source()
        at = np.array([self._me])
        mine = plan.calibration.reserved.rows(at)
        self.ledger = NodeLedger(
            mine,
            plan.releases,
            plan.on_lattice,
            exchange.book,
            plan.booked.rows(at),
            plan.spare.rows(at),
            plan.contract.absence.reserved_losses,
        )
        self.ledger.releases = _Stored(exchange, problem.store)
        self._facts = plan.spec.facts.rows(at)
        self._records = Records(problem.store, problem.sizes, HERE, self._noise)
        seat, exits = self._take_seat(plan.spec, plan.spec.topology)
        begin = np.zeros((1, plan.spec.facts.dim))
        if start is not None:
            begin[0] = start
        questions = ask(seat, self._records, grid=self._own_grid(mine))
        self._host = assemble(seat, questions, exits, begin)
        self._untaught = self._host.state
        self._mixed: Array | None = None
        self._before: tuple[Moment, Array | None] | None = None  # the last round, while it runs on
        self._reached_radius: int | None = state.noted(REACHED_RADIUS)

    def _source(self) -> Any:
        contract = self._plan.contract
        if contract.rehearsal_seed is not None:
            return AtPosition(SimulatedNoise(contract.rehearsal_seed), self._me)
        run = f"{contract.run_id()}/{(self._state.get('data') or b'').hex()}"
        doubles = contract.privacy.floating_point_noise and not self._plan.on_lattice
        masked = self._plan.spec.algorithm.traits.masks
        return KeyedNoise(self._state.keys(NOISE), run, floating_point=doubles, masked=masked)

    def _own_grid(self, mine: Charges) -> float | None:
        """The grid of this member's whole numbers, unless the plan has one for all members."""
        if not self._plan.on_lattice or self._plan.calibration.plan.grid is not None:
            return None
        largest = max(float(charge.parameters["noise_multiplier"][0]) for charge, _ in mine)
        return grid_for(largest, self._facts)

    def _take_seat(self, spec: RunSpec, topology: Topology) -> tuple[Seat, Exits]:
        """This member's place in a graph, its door and its network: all members at first; fewer
        when some have left."""
        me = topology.position(self._name)
        parts = [np.array([k], np.int64) for k in range(topology.n)]
        transport = _Renamed(self._exchange, self._plan, topology)
        self.network = connect(self._plan.spec, Placed(topology, parts, spec.groups, me, transport))
        seat = Seat(spec, np.array([me]), self._noise_in(topology, me))
        door = open_door(seat, self._records, self.ledger, self._shared(spec, me))
        return seat, Exits(door, self.network)

    def _noise_in(self, topology: Topology, here: int) -> NoisePlan:
        """This member's noise at position `here` of a graph: more of it where fewer members hide
        its records less well."""
        plan = self._plan
        own = plan.calibration.plan.rows(np.array([self._me]))
        if topology.n < plan.spec.topology.n:
            return enough_noise(plan, own, topology, here, self._me)
        return own

    def _join(self, absent: frozenset[str], *, restart: bool) -> None:
        """Go on in the graph without the absent members."""
        topology = topology_of(self._plan.contract, absent)
        seat, exits = self._take_seat(smaller_run(self._plan, topology), topology)
        self._host.regroup(seat, exits, restart=restart)

    def _shared(self, spec: RunSpec, me: int) -> SharedNoise | None:
        """The edges to those who take part, in one's own group where there are several, and whose
        key each one's noise is drawn from."""
        topology = spec.masks_graph
        if spec.algorithm.traits.shared_noise is not None and self._edges is not None:
            keys, ends, labels = self._edges, topology.edges, topology.labels
            self._noise.share(
                lambda k: keys.chain(str(labels[int(ends[k].sum()) - me])),
                f"{self._plan.contract.run_id()}/{','.join(labels)}",
            )
        return shared_noise(spec, topology, np.array([me]))

    def meet(self) -> None:
        """Wait for the neighbours who take part, and the keys of their edges."""
        peers = self._plan.contract.neighbours(self._name)
        self._exchange.meet(
            self._edges, [peer for peer in peers if peer not in self._exchange.absent]
        )

    def advance(self) -> None:
        """One round; it counts only as a whole."""
        self._step()
        due = self.round == self.total or self._exchange.due(self.round)
        self._exchange.keep(self._exchange.view, self.round, self.saved() if due else None)
        if self._reached_radius is None and self.network.reached_radius is not None:
            self._reached_radius = self.network.reached_radius
            self._state.note(REACHED_RADIUS, self._reached_radius)

    def _step(self) -> None:
        round, before = self.round + 1, (self._host.moment(), self._mixed)
        if round <= self._plan.contract.rounds:
            self._host.step(round)
        elif self._plan.spec.method.ends_exactly:
            self._mixed = self.network.average(self._output(), (round, 0))
        else:
            self._mixed = self.network.mix(self._output(), (round, 0), closing=True)
        self.round, self._before = round, before

    def warnings(self) -> list[str]:
        """What is wrong with the run so far, from released values only;
        also of rounds before a restart."""
        said = self._host.warnings()
        if self._reached_radius is None:
            return [*self._at_radius(), *said]
        radius = self._facts.constants.radius
        return [
            f"the run diverges: in round {self._reached_radius} this member's message reached "
            f"the contract's problem.radius of {radius:g} and was cut to it. "
            "Do not use the model; agree on a contract with a larger proximal weight or penalty, "
            "a smaller step, or a larger radius. A neighbour may also have pushed it.",
            *said,
        ]

    def _at_radius(self) -> list[str]:
        """A warning where the finished model is at the radius, though no message was cut to it."""
        radius = self._facts.constants.radius
        if self.round < self.total or np.abs(self._output()).max() < radius * (1 - 1e-6):
            return []
        return [
            f"the model is at the contract's problem.radius of {radius:g}, so the run has not "
            "converged. Do not use the model; agree on a contract with more rounds, a smaller "
            "step, a larger strength or a larger radius."
        ]

    def needs(self, decision: Decision) -> list[frames.Claim]:
        """The totals that this member must be handed before it goes on."""
        found = []
        if decision.map is not None and not (self._host.has_learned and self._holds(decision.map)):
            found.append(decision.map)
        if self._plan.spec.one_model:
            lasts = [claim for claim in decision.lasts if claim.view == self._exchange.view]
            end = self.round + 1
            while end in {claim.round for claim in lasts}:
                end += 1
            found += [claim for claim in lasts if self.round < claim.round < end]
            found += [claim for claim in lasts if self._has_another(claim)]
        return [claim for claim in found if self._exchange.total(claim) is None]

    def _has_another(self, claim: frames.Claim) -> bool:
        """Whether another total was used here: the root has signed both."""
        same_round = (claim.view, claim.round) == (self._exchange.view, self.round)
        return same_round and self._exchange.has_another(claim)

    def _use_agreed(self, decision: Decision) -> None:
        """Undo the last round if it was made with another total than the members have agreed on."""
        another = [claim for claim in decision.lasts if self._has_another(claim)]
        if another and self._before is None:
            raise StateError(f"In round {self.round} {another[0].member} {OTHER_MODEL}")
        for claim in decision.lasts:
            if claim.view == self._exchange.view and claim.round >= self.round:
                self._exchange.use(claim)
        if another and self._before is not None:
            host, self._mixed = self._before
            self._host.go_back(host)
            self.round, self._before = self.round - 1, None

    def _holds(self, map: frames.Claim) -> bool:
        """True if this member's own map is this one."""
        mine = self._exchange.map_total
        return mine is not None and mine.claim.digest == map.digest

    def _forget_map(self) -> None:
        """Forget a map that is void: the others have made round 1 without this member."""
        if self._exchange.map_total is not None:
            self._exchange.keep_map(None)
        if self._host.has_learned:
            if self.round > 0:
                raise StateError(
                    "The members have agreed on another public map than the one with which this "
                    "member has finished rounds; leave the run."
                )
            self._host.state = self._untaught

    def give_up(self) -> None:
        """Stop in this round; where all totals of it are here already, it counts as made."""
        self._exchange.give_up()
        self._catch_up()

    def _catch_up(self) -> None:
        """Finish the round under way, and those after it, of which all totals are held."""
        while self._plan.spec.one_model and self.round < self.total and self._finished_by_totals():
            pass

    def _finished_by_totals(self) -> bool:
        round, private = self.round + 1, self._plan.contract.rounds
        held = {
            (total.claim.round, total.claim.call): total
            for total in self._exchange.held
            if total.claim.key[:2] == (self._exchange.view, round)
        }
        groups = self._host.spec.groups
        replayed, before = _Replay(held, groups), (self._host.moment(), self._mixed)
        try:
            if round > private:
                count = 1 if groups is None else groups.count
                self._mixed = replayed.average(self._output(), (round, 0), count)
            elif self._plan.spec.algorithm.traits.reaches_consensus:
                self._host.replay(round, Exits(_Unspent(self._plan.spec.row_type), replayed))
            else:
                return False
        except _Lacking:
            return False
        self.round, self._before = round, before
        self._exchange.keep(self._exchange.view, round, self.saved())
        self._exchange.flush()
        return True

    def _learn(self, total: frames.Total, absent: frozenset[str]) -> None:
        """The public map, from the total that others had in round 1 of a view without the absent
        members."""
        plan, topology = self._plan, topology_of(self._plan.contract, absent)
        here = topology.position(self._name) if self._name not in absent else 0
        held = {(total.claim.round, total.claim.call): total}
        smaller = smaller_run(plan, topology)
        self._host.learn(
            Seat(smaller, np.array([here]), self._noise_in(topology, here)),
            Exits(_Unspent(plan.spec.row_type), _Replay(held, smaller.groups)),
        )

    def regroup(self, decision: Decision, map_absent: frozenset[str] | None = None) -> None:
        """Continue with the remaining members, with the totals that all of them hold: duals at
        zero, w kept, and no less noise per release. map_absent: who was absent when the map was
        made."""
        absent, view = decision.absent, decision.view
        if decision.map is None:
            self._forget_map()
        else:
            total = self._exchange.total(decision.map)
            if total is None or map_absent is None:
                raise StateError("The public map of the run is not here; start the node again.")
            if not self._holds(decision.map):
                self._forget_map()
                self._exchange.keep_map(total)
            self._exchange.keep_total(total)
            if not self._host.has_learned:
                self._learn(total, map_absent)
        self._use_agreed(decision)
        self._catch_up()
        self._join(absent, restart=True)
        self._noise.enter(view)
        self.round = min(decision.next_round, self.total + 1) - 1
        if (
            self.round < self._plan.contract.rounds
            and self._plan.spec.algorithm.traits.reaches_consensus
        ):
            self._host.forget_average()
        self.ledger.enter(view, self._state.charges())
        self._go_on()
        self._exchange.drop()
        if self._state.checkpoint() is None:
            self._count_all_as_spent(decision.losses)
            self._state.note("began", view)
        self._exchange.view, self._exchange.absent = view, absent
        self._exchange.keep(view, self.round, self.saved())
        self._exchange.flush()

    def _go_on(self) -> None:
        """Stand before the next round's releases; where the map is known, round 1 has one less."""
        known = self.round == 0 and self._host.has_learned
        self.ledger.go_to(min(self.round, self._plan.contract.rounds) + 1, int(known))

    def _count_all_as_spent(self, losses: int) -> None:
        """A member without a finished round either never took part or has lost its disk. Nobody can
        tell, so all is booked: the rounds so far, and those that were made again after losses."""
        booked: dict[int, int] = {}
        for (_, round, _), _ in self._state.charges():
            booked[round] = booked.get(round, 0) + 1
        for round in range(1, min(self.round, self._plan.contract.rounds) + 1):
            events = self.ledger.reserved_in(round)
            for k in range(booked.get(round, 0), len(events)):
                self._exchange.book(round, -1 - k, events[k])
        if booked:  # this state is no new one: it knows what was made again
            return
        first = -1 - len(self.ledger.reserved_in(1))
        for k, event in enumerate(self.ledger.spare_for(losses)):
            self._exchange.book(1, first - k, event)

    def _output(self) -> Array:
        return self._host.output() if self._mixed is None else self._mixed

    # ---- saved and restored
    def saved(self) -> bytes:
        """Everything that the next round builds on: released values only."""
        arrays = self._host.save()
        if self._mixed is not None:
            arrays |= {"mixed.models": self._mixed}
        return _packed(arrays, self._problem.store)

    def restore(self, absent_in: Callable[[int], frozenset[str] | None]) -> None:
        """Go on from the last durable round, if there is one: from its checkpoint, or an earlier
        one and the rows received since. absent_in: who is absent in a view, by the members' votes;
        with anybody else in the graph the noise would be too small, and masks would not cancel."""
        found = self._state.checkpoint()
        if found is None:
            return
        view, round, data = found
        arrays = _unpacked(data, self._problem.store)
        self._host.restore(arrays)
        self._mixed = arrays.get("mixed.models")
        self.round, self._exchange.view = round, view
        if view:
            absent = absent_in(view)
            if absent is None:
                raise StateError(
                    f"The state {self._state.folder} is damaged: the votes for view {view} are "
                    "gone; restore the folder from a backup, or leave the run."
                )
            self._noise.enter(view)
            self._exchange.absent = absent
            self._join(absent, restart=False)
        done, private = self._state.done() or (view, round), self._plan.contract.rounds
        learns = self._plan.spec.algorithm.traits.learns
        self.ledger.resume(self._state.charges(), view, min(done[1], private), learned=learns)
        self._go_on()
        while self.round < done[1]:  # once more, from what was received and released; none is sent
            self._step()
            self._exchange.drop()  # their charges are there

    # ---- the end
    def result(self, seconds: float) -> RunResult:
        """This member's model and what was really spent on its records, by its own ledger."""
        models, last = self.models(), self._host.last()
        traffic = self.network.traffic
        history = History(
            [
                {
                    "round": self.round,
                    "seconds": seconds,
                    "messages": traffic.messages,
                    "bytes": traffic.bytes,
                }
            ]
        )
        released = self._plan.spec.algorithm.released(self._host.state)
        return RunResult(
            models,
            last.reshape(models.shape),
            history,
            self.statement(),
            with_strength(self._settings(), released),
            self.warnings(),
            seconds,
            traffic.messages,
            traffic.bytes,
            released,
            self._noise_std(),
        )

    def models(self) -> Array:
        """This member's model, as in `RunResult.models`."""
        p = self._problem
        shape = (1, p.dim) if p.n_outputs == 1 else (1, p.n_outputs, p.n_features)
        return self._output().reshape(shape)

    def _noise_std(self) -> Array | None:
        spec = self._plan.spec
        if spec.method.output != spec.algorithm.default_output:
            return None
        return spec.algorithm.noise_std(self._host.state, spec.facts, spec.rounds)

    def statement(self) -> Statement:
        """The composition of everything booked."""
        charges = Charges()
        for _, event in self._state.charges():
            values = {k: np.array([float(v)]) for k, v in event.items() if k != "kind"}
            charges.add(Charge(KINDS[event["kind"]], values))
        found = self._plan.spec.statement(charges, self._noise.kind, n_nodes=1)
        assert found is not None
        return found

    def _settings(self) -> dict[str, Any]:
        contract, plain, p = self._plan.contract, self._plan.spec.to_plain(), self._problem
        graph = plain["graph"]
        return {
            **plain,
            "seed": contract.rehearsal_seed,
            # The result has one model, so its graph has one node; the whole graph is public and
            # stands beside it.
            "graph": {
                "name": f"{self._name} of {graph['name']}",
                "n": 1,
                "labels": [self._name],
                "edges": [],
            },
            "federation": {"labels": graph["labels"], "edges": graph["edges"]},
            "problem": {
                **plain["problem"],
                "sizes": [contract.trained_size(self._name)],
                "classes": contract.problem.classes,
                "dtype": str(p.dtype),
            },
            "member": self._name,
            "contract": contract.hash(),
            "versions": {"tacenda": tacenda.__version__, "numpy": np.__version__},
        }


class _Stored:
    """A node's releases since its checkpoint (`state.charges.Releases`), each with where the solver
    stood behind it, which the next question names."""

    def __init__(self, exchange: Exchange, store: Any) -> None:
        self._exchange, self._store = exchange, store

    def find(self, turn: int, call: int) -> Array | None:
        data = self._exchange.released(turn, call)
        return None if data is None else _unpacked(data, self._store)["value"]

    def keep(self, turn: int, call: int, value: Array, places: int) -> None:
        self._exchange.store(turn, call, _packed({"value": value}, self._store), places)


def _packed(arrays: dict[str, Array], store: Any) -> bytes:
    """Released arrays, and where the solver stands."""
    from safetensors.numpy import save

    solver = {f"solver.{name}": v for name, v in store.solver_state().items() if v.size}
    return save({k: np.ascontiguousarray(v) for k, v in (arrays | solver).items()})


def _unpacked(data: bytes, store: Any) -> dict[str, Array]:
    """The arrays of `_packed`; the solver stands where it stood."""
    from safetensors.numpy import load

    arrays: dict[str, Array] = load(data)
    solver = {k[7:]: v for k, v in arrays.items() if k.startswith("solver.")}
    if solver:
        store.restore_solver_state(solver)
    return arrays


class _Lacking(NetworkError):
    """A total is not here."""


class _Replay:
    """Neighbours of whom all totals are known: {(round, call): total}."""

    def __init__(self, held: dict[tuple[int, int], frames.Total], groups: Groups | None) -> None:
        self._held, self._groups = held, groups

    def _row(self, shared: Array, tag: tuple[int, int], groups: int) -> Array:
        several = groups if groups > 1 else 0
        total = self._held.get((tag[0], tag[1] + 1 + several))
        if total is None:
            raise _Lacking("A total is not here.")
        return frames.rows_of(total, groups * shared.shape[1], shared.dtype, np.inf)

    def average(self, shared: Array, tag: tuple[int, int], groups: int = 1) -> Array:
        row = self._row(shared, tag, groups)
        return row if self._groups is None else average_of(row, self._groups, shared.dtype)

    def total(self, shared: Array, tag: tuple[int, int], groups: int = 1) -> Array:
        return self._row(shared, tag, groups).view(np.int64)

    def mix(self, shared: Array, tag: tuple[int, int]) -> Array:
        raise _Lacking("Rows of neighbours are not here.")

    def neighbour_sum(
        self, shared: Array, tag: tuple[int, int], senders: Array | None = None
    ) -> Array:
        raise _Lacking("Rows of neighbours are not here.")


class _Unspent(OpenGate):
    """A gate that releases nothing: what it gives is in the totals already."""

    def release_masked(
        self, value: Bounded, turn: int, call: int, weight: float
    ) -> tuple[Array, float]:
        return np.zeros(value.shape, np.uint64), Door.public_unit(value)


class _Renamed:
    """Blocks of a graph with fewer members, under their positions in the contract."""

    def __init__(self, exchange: Exchange, plan: RunPlan, topology: Topology) -> None:
        self._exchange = exchange
        self._to = [plan.contract.position(label) for label in topology.labels]
        self._topology = topology

    def from_root(self, tag: tuple[int, int], root: int, *, of_group: bool) -> None:
        self._exchange.from_root(tag, str(self._topology.labels[root]), of_group=of_group)

    def false_sums(self, tag: tuple[int, int]) -> None:
        self._exchange.false_sums(tag)

    def exchange(
        self, tag: tuple[int, int], outgoing: dict[int, Array], awaited: Iterable[int]
    ) -> dict[int, Array]:
        blocks = list(awaited)
        got = self._exchange.exchange(
            tag,
            {self._to[block]: rows for block, rows in outgoing.items()},
            [self._to[block] for block in blocks],
        )
        return {block: got[self._to[block]] for block in blocks}
