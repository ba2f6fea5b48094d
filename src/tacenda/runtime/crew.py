"""The crew: all blocks of one process, taken through a round together, and asked for their rows between rounds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.algorithms.base import Algorithm
from tacenda.errors import NetworkError
from tacenda.graph.coalition import edge_streams
from tacenda.graph.topology import Topology
from tacenda.privacy.door import Door, SharedNoise
from tacenda.privacy.ledger import Charges, Ledger, Witness
from tacenda.privacy.noise import NoiseSource
from tacenda.problem.facts import Facts
from tacenda.problem.queries import Queries
from tacenda.runtime.block import Block
from tacenda.runtime.budget import Calibration
from tacenda.runtime.checkpoint import restore_state, state_arrays
from tacenda.runtime.network import Network
from tacenda.runtime.transport import Hall, HallTransport, NoTransport

Array = NDArray[Any]


def rows_dtype(algorithm: Algorithm, problem: Any) -> np.dtype[Any]:
    """Of the models in a run: the records' own, but float64 for exact minimisers."""
    return np.dtype(float) if algorithm.needs.smooth_loss else np.dtype(problem.dtype)


class Crew:
    """One block or several; `parts` lists each block's node positions, `start` (n, d) is where all begin."""

    def __init__(
        self,
        problem: Any,
        facts: Facts,
        topology: Topology,
        algorithm: Algorithm,
        parts: list[Array],
        calibration: Calibration | None,
        noise: NoiseSource,
        rounds: int,
        mixing: str,
        start: Array,
        averaging: bool,
        witness: Witness | None = None,
    ) -> None:
        self._algorithm, self._parts, self._n, self._store = algorithm, parts, topology.n, problem.store
        self._store.restore_solver_state({"ridges": np.zeros(0)})  # what an earlier run left there must not show
        self._dtype = rows_dtype(algorithm, problem)
        self._rounds = rounds
        self._hall = Hall() if len(parts) > 1 else None
        self._threads = ThreadPoolExecutor(len(parts)) if self._hall else None
        self._ledgers: list[Ledger] = []
        self._witness = witness  # told by the first block, whose releases are the same as everybody's
        self._networks: list[Network] = []
        self._blocks = [
            self._block(k, problem, facts, topology, calibration, noise, rounds, mixing) for k in range(len(parts))
        ]
        self._states = [
            algorithm.init(block, start[part].astype(self._dtype)) for block, part in zip(self._blocks, parts, strict=True)
        ]
        self._sums = [np.zeros_like(start[part], self._dtype) for part in parts] if averaging else None
        self._weight = 0.0

    def _block(
        self,
        k: int,
        problem: Any,
        facts: Facts,
        topology: Topology,
        calibration: Calibration | None,
        noise: NoiseSource,
        rounds: int,
        mixing: str,
    ) -> Block:
        part = self._parts[k]
        transport = NoTransport() if self._hall is None else HallTransport(self._hall, k)
        network = Network(topology, self._parts, k, transport, self._dtype, mixing, facts.constants.radius)
        plan = None if calibration is None else calibration.plan.rows(part)
        reserved = None if calibration is None else calibration.reserved.rows(part)
        ledger = Ledger(reserved, self._witness if k == 0 else None)
        mine = facts.rows(part)
        self._networks.append(network)
        self._ledgers.append(ledger)
        return Block(
            Queries(problem.store, problem.sizes, part, mine, noise),
            Door(part, problem.dim, plan, ledger, noise, self._shared(topology, part)),
            network,
            degree=topology.degrees[part],
            is_hub=part == topology.hub(),
            n_nodes=topology.n,
            rounds=rounds,
            noise_scale=None if plan is None else plan.scale,
            weights=None if plan is None else plan.weights,
            dtype=self._dtype,
        )

    def _shared(self, topology: Topology, part: Array) -> SharedNoise | None:
        ratio = self._algorithm.shared_noise
        return None if ratio is None else SharedNoise(edge_streams(topology, part), ratio)

    def step(self, turn: int) -> None:
        """One round of all blocks. It counts only as a whole: an interrupted one leaves the states as they were."""
        if self._hall is None or self._threads is None:
            states = [self._step_one(0, turn)]
        else:
            jobs = [self._threads.submit(self._step_in_hall, k, turn) for k in range(len(self._blocks))]
            states = [job.result() for job in jobs]
        self._refuse_divergence(self._blocks[0].facts.constants.radius)
        self._states = states
        if self._sums is not None:
            from tacenda.runtime import kernels

            weight = self._algorithm.averaging_weight(turn, self._rounds)
            for total, state in zip(self._sums, states, strict=True):
                if weight:
                    kernels.add_weighted(total, self._algorithm.iterate(state), weight)
            self._weight += weight

    def _refuse_divergence(self, radius: float) -> None:
        """A simulation has no liars: a message at the radius means settings that diverge. Seen from released values only."""
        if any(network.reached_radius is not None for network in self._networks):
            raise NetworkError(
                f"A message has reached the radius {radius:g}: the run diverges. Use a larger proximal weight or penalty, or a "
                "smaller step; or declare a larger Problem(radius=...), if such numbers are meant."
            )

    def _step_one(self, k: int, turn: int) -> Any:
        self._blocks[k].start(turn)
        return self._algorithm.step(self._states[k], self._blocks[k])

    def _step_in_hall(self, k: int, turn: int) -> Any:
        assert self._hall is not None
        with self._hall.turnstile:
            try:
                return self._step_one(k, turn)
            except BaseException as error:
                self._hall.fail(error)
                raise

    def outputs(self) -> Array:
        """(n, d) each node's output by the run's rule."""
        if self._sums is None or self._weight == 0:
            return self.last()
        return self._whole([total / self._dtype.type(self._weight) for total in self._sums])

    def last(self) -> Array:
        """(n, d) each node's newest iterate."""
        return self._whole([self._algorithm.last(state) for state in self._states])

    def mixed(self, models: Array, times: int) -> Array:
        """The models after closing rounds that only mix."""
        for k in range(times):
            if self._hall is None:
                models = self._networks[0].mix(models, (-1, k))
            else:
                models = self._mixed_in_hall(models, k)
        return models

    def _mixed_in_hall(self, models: Array, k: int) -> Array:
        def one(block: int) -> Array:
            assert self._hall is not None
            with self._hall.turnstile:
                return self._networks[block].mix(models[self._parts[block]], (-1, k))

        assert self._threads is not None
        return self._whole(list(self._threads.map(one, range(len(self._parts)))))

    def charges(self) -> list[Charges]:
        """What each block's ledger holds."""
        return [ledger.charges for ledger in self._ledgers]

    def traffic(self) -> tuple[int, int]:
        """Messages and bytes sent by all nodes."""
        return sum(n.traffic.messages for n in self._networks), sum(n.traffic.bytes for n in self._networks)

    def saved_arrays(self) -> dict[str, Array]:
        """State, running average and solver anchors of all nodes."""
        arrays = state_arrays(self._states, self._parts, self._n)
        if self._sums is not None:
            arrays["average.sum"] = self._whole(self._sums)
            arrays["average.weight"] = np.array([self._weight])
        for name, values in self._store.solver_state().items():
            arrays[f"solver.{name}"] = values
        return arrays

    def restore(self, arrays: dict[str, Array], charges: Charges) -> None:
        """Go on from what `saved_arrays` wrote."""
        self._states = [restore_state(s, arrays, part) for s, part in zip(self._states, self._parts, strict=True)]
        if self._sums is not None:
            self._sums = [arrays["average.sum"][part].copy() for part in self._parts]
            self._weight = float(arrays["average.weight"][0])
        self._store.restore_solver_state({k[7:]: v for k, v in arrays.items() if k.startswith("solver.")})
        for ledger, part in zip(self._ledgers, self._parts, strict=True):
            ledger.restore(charges.rows(part))

    def _whole(self, rows: list[Array]) -> Array:
        if len(rows) == 1 and len(self._parts[0]) == self._n:
            return rows[0]
        whole = np.empty((self._n, *rows[0].shape[1:]), rows[0].dtype)
        for part, values in zip(self._parts, rows, strict=True):
            whole[part] = values
        return whole
