"""The algorithm's side of a node: one block with one node, taken from round to round, saved and restored."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import StateError
from tacenda.graph.coalition import edge_streams
from tacenda.graph.topology import Topology
from tacenda.node.edge_keys import EdgeKeys
from tacenda.node.exchange import Exchange
from tacenda.node.lattice import LatticeQueries, grid_for
from tacenda.node.ledger import NodeLedger
from tacenda.node.plan import RunPlan, enough_noise, topology_of
from tacenda.node.state import NodeState
from tacenda.privacy.door import Door, SharedNoise
from tacenda.privacy.events import KINDS
from tacenda.privacy.ledger import Charge, Charges
from tacenda.privacy.noise import SimulatedNoise
from tacenda.privacy.noise_keyed import AtPosition, KeyedNoise
from tacenda.privacy.statement import Statement
from tacenda.problem.queries import Queries
from tacenda.runtime.block import Block
from tacenda.runtime.history import History
from tacenda.runtime.network import Network
from tacenda.runtime.result import RunResult

Array = NDArray[Any]
HERE = np.zeros(1, np.int64)  # the member's own store has one node


class Peer:
    """`turn` rounds are done of `total`; the last `finish_mixing` of them only mix what was released."""

    def __init__(
        self,
        plan: RunPlan,
        name: str,
        problem: Any,
        key: bytes,
        state: NodeState,
        exchange: Exchange,
        dtype: Any,
        edges: EdgeKeys | None = None,
    ) -> None:
        self._edges = edges
        self._plan, self._name, self._problem, self._state, self._exchange = plan, name, problem, state, exchange
        self._me, self._dtype = plan.contract.position(name), np.dtype(dtype)
        self.turn, self.total = 0, plan.contract.rounds + plan.contract.finish_mixing
        self._noise = self._source(key)
        at = np.array([self._me])
        mine = plan.calibration.reserved.rows(at)
        self.ledger = NodeLedger(mine, plan.contract.rounds, plan.on_lattice, exchange.book)
        self._facts = plan.facts.rows(at)
        self._queries = self._ask(mine)
        self.network: Network
        self._block = self.join(plan.topology)
        w = np.zeros((1, plan.facts.dim), self._dtype)
        self.s = plan.algorithm.init(self._block, w)
        self._sum = np.zeros_like(w) if plan.output == "average" else None
        self._weight = 0.0
        self._mixed: Array | None = None

    def _source(self, key: bytes) -> Any:
        contract = self._plan.contract
        if contract.rehearsal_seed is not None:
            return AtPosition(SimulatedNoise(contract.rehearsal_seed), self._me)
        run = f"{contract.run_id()}/{(self._state.get('data') or b'').hex()}"
        return KeyedNoise(key, run, floating_point=contract.privacy.floating_point_noise)

    def _ask(self, mine: Charges) -> Queries:
        counts = self._problem.sizes
        if not self._plan.on_lattice:
            return Queries(self._problem.store, counts, HERE, self._facts, self._noise)
        largest = max(float(charge.parameters["noise_multiplier"][0]) for charge, _ in mine)
        return LatticeQueries(self._problem.store, counts, HERE, self._facts, self._noise, grid_for(largest, self._facts))

    def join(self, topology: Topology) -> Block:
        """Take this member's place in a graph (all members at first; fewer when some have left)."""
        plan, me = self._plan, topology.position(self._name)
        parts = [np.array([k], np.int64) for k in range(topology.n)]
        self.network = Network(topology, parts, me, _Renamed(self._exchange, plan, topology), self._dtype, plan.contract.mixing)
        scale = plan.calibration.plan.rows(np.array([self._me]))
        if topology.n < plan.topology.n:
            scale = enough_noise(plan, scale, self._facts, topology, me, self._me)
        door = Door(HERE, self._problem.dim, scale, self.ledger, self._noise, self._shared(topology, me))
        self._block = Block(
            self._queries, door, self.network, degree=topology.degrees[[me]], is_hub=np.array([me == topology.hub()]),
            n_nodes=topology.n, rounds=plan.contract.rounds, noise_scale=scale.scale, weights=scale.weights, dtype=self._dtype,
        )  # fmt: skip
        return self._block

    def _shared(self, topology: Topology, me: int) -> SharedNoise | None:
        """The edges to those who take part, and whose key each one's noise is drawn from."""
        ratio = self._plan.algorithm.shared_noise
        if ratio is None:
            return None
        if self._edges is not None:
            keys, ends, labels = self._edges, topology.edges, topology.labels
            self._noise.share(
                lambda k: keys.of(str(labels[int(ends[k].sum()) - me])), f"{self._plan.contract.run_id()}/{','.join(labels)}"
            )
        return SharedNoise(edge_streams(topology, np.array([me])), ratio)

    def meet(self) -> None:
        """Wait for the neighbours who take part, and the keys of their edges."""
        peers = self._plan.contract.neighbours(self._name)
        self._exchange.meet(self._edges, [peer for peer in peers if peer not in self._exchange.absent])

    def advance(self) -> None:
        """One round; it counts only as a whole."""
        turn, algorithm = self.turn + 1, self._plan.algorithm
        if turn <= self._plan.contract.rounds:
            self._block.start(turn)
            self.s = algorithm.step(self.s, self._block)
            if self._sum is not None:
                weight = algorithm.averaging_weight(turn, self._plan.contract.rounds)
                iterate = algorithm.iterate(self.s)
                self._sum = self._sum + (iterate if weight == 1 else weight * iterate)
                self._weight += weight
        else:
            self._mixed = self.network.mix(self._output() if self._mixed is None else self._mixed, (turn, 0))
        self.turn = turn
        self._exchange.keep(self._exchange.epoch, turn, self.saved())

    def regroup(self, absent: frozenset[str], epoch: int, next_round: int) -> None:
        """Go on with the remaining members from round `next_round`: duals at zero, w kept, and no less noise per release."""
        self._block = self.join(topology_of(self._plan.contract, absent))
        self._noise.enter(epoch)
        if not hasattr(self.s, "z"):  # dual averaging has no dual variables: its z stays a mixture of past gradients
            self.s = self._plan.algorithm.init(self._block, np.array(self._plan.algorithm.last(self.s)))
        self.turn = min(next_round, self.total + 1) - 1
        self.ledger.go_to(min(self.turn, self._plan.contract.rounds) + 1, 0)
        self._exchange.drop()
        if self._state.checkpoint() is None:
            self._count_all_as_spent()
            self._state.note("began", epoch)
        self._exchange.epoch, self._exchange.absent = epoch, absent
        self._exchange.keep(epoch, self.turn, self.saved())
        self._exchange.flush()

    def _count_all_as_spent(self) -> None:
        """A member without a finished round either never took part or has lost its disk. Nobody can tell, so all is booked."""
        booked: dict[int, int] = {}
        for (_, turn, _), _ in self._state.charges():
            booked[turn] = booked.get(turn, 0) + 1
        for turn in range(1, min(self.turn, self._plan.contract.rounds) + 1):
            events = self.ledger.reserved_in(turn)
            for k in range(booked.get(turn, 0), len(events)):
                self._exchange.book(turn, -1 - k, events[k])

    def _output(self) -> Array:
        if self._sum is None or self._weight == 0:
            return np.asarray(self._plan.algorithm.last(self.s))
        return np.asarray(self._sum / self._dtype.type(self._weight))

    # ---- saved and restored ----------------------------------------------------------------------------------------------
    def saved(self) -> bytes:
        """Everything that the next round builds on: released values only."""
        from safetensors.numpy import save

        arrays = {f"state.{f.name}": getattr(self.s, f.name) for f in dataclasses.fields(self.s)}
        arrays = {k: v for k, v in arrays.items() if v is not None}
        if any(type(v) is not np.ndarray for v in arrays.values()):
            raise StateError("A state that holds an unreleased value is not saved; the algorithm cannot run on a real node.")
        if self._sum is not None:
            arrays |= {"average.sum": self._sum, "average.weight": np.array([self._weight])}
        if self._mixed is not None:
            arrays |= {"mixed.models": self._mixed}
        for name, values in self._problem.store.solver_state().items():
            if values.size:
                arrays[f"solver.{name}"] = values
        return save({k: np.ascontiguousarray(v) for k, v in arrays.items()})

    def restore(self) -> None:
        """Go on from the last durable round, if there is one."""
        from safetensors.numpy import load

        found = self._state.checkpoint()
        if found is None:
            return
        epoch, turn, data = found
        arrays = load(data)
        fields = {f.name: arrays[f"state.{f.name}"] for f in dataclasses.fields(self.s) if f"state.{f.name}" in arrays}
        self.s = dataclasses.replace(self.s, **fields)
        if self._sum is not None:
            self._sum, self._weight = arrays["average.sum"], float(arrays["average.weight"][0])
        if "mixed.models" in arrays:
            self._mixed = arrays["mixed.models"]
        solver = {k[7:]: v for k, v in arrays.items() if k.startswith("solver.")}
        if solver:
            self._problem.store.restore_solver_state(solver)
        self.turn, self._exchange.epoch = turn, epoch
        if epoch:
            self._noise.enter(epoch)
            self._exchange.absent = frozenset((self._state.noted("membership") or {}).get("absent", ()))
            self._block = self.join(topology_of(self._plan.contract, self._exchange.absent))
        made = sum(1 for (e, t, _), _ in self._state.charges() if (e, t) <= (epoch, turn))
        self.ledger.go_to(min(turn, self._plan.contract.rounds) + 1, made)

    # ---- the end ---------------------------------------------------------------------------------------------------------
    def result(self, seconds: float) -> RunResult:
        """This member's model and what was really spent on its records, by its own ledger."""
        plan, p = self._plan, self._problem
        models = self._output() if self._mixed is None else self._mixed
        last = np.asarray(plan.algorithm.last(self.s))
        shape = (1, p.dim) if p.n_outputs == 1 else (1, p.n_outputs, p.n_features)
        traffic = self.network.traffic
        history = History([{"round": self.turn, "seconds": seconds, "messages": traffic.messages, "bytes": traffic.bytes}])
        return RunResult(
            models.reshape(shape), last.reshape(shape), history, self.statement(), self._settings(), [], seconds,
            traffic.messages, traffic.bytes,
        )  # fmt: skip

    def statement(self) -> Statement:
        """The composition of everything booked."""
        charges = Charges()
        for _, event in self._state.charges():
            values = {k: np.array([float(v)]) for k, v in event.items() if k != "kind"}
            charges.add(Charge(KINDS[event["kind"]], values))
        terms = self._plan.contract.privacy
        return Statement(charges, 1, terms.delta, terms.adjacency, terms.mode, terms.epsilon, self._noise.kind)

    def _settings(self) -> dict[str, Any]:
        import tacenda

        plan, contract = self._plan, self._plan.contract
        terms, topology = contract.problem, plan.topology
        return {
            "algorithm": plan.algorithm.to_plain(), "rounds": contract.rounds, "output": plan.output,
            "finish_mixing": contract.finish_mixing, "seed": contract.rehearsal_seed, "privacy": plan.privacy.to_plain(),
            # The result has one model, so its graph has one node; the whole graph is public and stands beside it.
            "graph": {"name": f"{self._name} of {topology.name}", "n": 1, "labels": [self._name], "edges": []},
            "federation": {"labels": list(topology.labels), "edges": topology.edges.tolist()},
            "mixing": contract.mixing, "solver_tolerance": contract.solver_tolerance,
            "problem": {
                **terms.model_dump(exclude={"classes"}), "sizes": [contract.member(self._name).size],
                "n_outputs": self._problem.n_outputs, "classes": terms.classes, "dtype": str(self._problem.dtype),
            },
            "member": self._name, "contract": contract.hash(),
            "versions": {"tacenda": tacenda.__version__, "numpy": np.__version__},
        }  # fmt: skip


class _Renamed:
    """Blocks of a graph with fewer members, under their positions in the contract."""

    def __init__(self, exchange: Exchange, plan: RunPlan, topology: Topology) -> None:
        self._exchange = exchange
        self._to = [plan.contract.position(label) for label in topology.labels]

    def exchange(self, tag: tuple[int, int], outgoing: dict[int, Array]) -> dict[int, Array]:
        got = self._exchange.exchange(tag, {self._to[block]: rows for block, rows in outgoing.items()})
        return {block: got[self._to[block]] for block in outgoing}
