"""The hosts of a run in this process: one block with all nodes, several that hand each other their
rows, or one of the blocks of a run on several ranks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.privacy.noise.sources import NoiseSource
from tacenda.privacy.secrets.ledger import Charge, Charges, Ledger, Witness
from tacenda.runtime.assemble import (
    Placed,
    Records,
    ask,
    assemble,
    connect,
    has_all_nodes,
    open_door,
    reserved_for,
    shared_noise,
    take_seat,
)
from tacenda.runtime.host import Exits, Host, is_common
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.network import Network
from tacenda.runtime.spec import RunSpec
from tacenda.runtime.transport import InProcess, InProcessEnd, NoTransport, Tag, Transport


class LocalHosts:
    """One host for each block whose shards are here; `start` (n, d) is where all begin."""

    def __init__(
        self,
        spec: RunSpec,
        shards: LocalShards,
        noise: NoiseSource,
        start: Array,
        witness: Witness | None = None,
    ) -> None:
        problem, parts, ranks = shards.problem, shards.parts, shards.ranks
        self._spec, self._shards, self._ranks, self._store = spec, shards, ranks, problem.store
        over_ranks = ranks.size > 1
        blocks = [ranks.rank] if over_ranks else range(len(parts))
        self._parts = [parts[k] for k in blocks]  # of the blocks here
        # Whether one block has all nodes: then nothing is picked out of anything
        self._one = len(parts) == 1 and has_all_nodes(spec, parts[0])
        # What an earlier run left there must not show
        self._store.restore_solver_state({"ridges": np.zeros(0)})
        self._meeting = InProcess() if len(self._parts) > 1 else None
        self._threads = ThreadPoolExecutor(len(parts)) if self._meeting else None
        self._ledgers: list[Ledger] = []
        self._networks: list[Network] = []
        self._hosts: list[Host] = []
        for k, part in zip(blocks, self._parts, strict=True):
            transport: Transport = NoTransport()
            if over_ranks:
                transport = ranks.end()
            elif self._meeting is not None:
                transport = InProcessEnd(self._meeting, k)
            seat = take_seat(spec, part)
            # Every block makes the same releases: one tells of them
            ledger = Ledger(reserved_for(seat), witness if over_ranks or k == 0 else None)
            at = np.arange(len(part)) if over_ranks else part  # places in the store
            records = Records(problem.store, shards.sizes, part, noise, at)
            network = connect(spec, Placed(spec.topology, parts, spec.groups, k, transport))
            door = open_door(seat, records, ledger, shared_noise(spec, spec.masks_graph, part))
            begin = start if self._one else start[part]
            self._networks.append(network)
            self._ledgers.append(ledger)
            self._hosts.append(assemble(seat, ask(seat, records), Exits(door, network), begin))
        self.agree()

    def step(self, turn: int) -> None:
        """One round of all nodes."""
        try:
            self._each(lambda k: self._hosts[k].step(turn))
        except Exception as error:
            self._ranks.stop(error, f"in round {turn}")
            raise

    def agree(self, asked: bool = False) -> bool:
        """After a round, and at the start: whether anybody has asked to stop. Sets `converged`,
        whether a run without privacy has come to its end before its last round; an error where a
        message has reached the radius, wherever that was."""
        reached = any(network.reached_radius is not None for network in self._networks)
        known = self._spec.privacy is None
        ends = known and self._spec.algorithm.finished(self._hosts[0].state)
        stop, diverges, self.converged = map(bool, self._ranks.most(asked, reached, ends))
        if diverges:
            # There are no liars here: a message at the radius means settings that diverge. Seen
            # from released values only.
            raise InputError(
                f"A message has reached the radius {self._spec.facts.constants.radius:g}: "
                "the run diverges. Use a larger proximal weight or penalty, or a smaller step; "
                "or declare a larger Problem(radius=...), if such numbers are meant."
            )
        return stop

    def _each(self, work: Callable[[int], Any]) -> list[Any]:
        """work(k) of every block: one after the other where they meet, so that compiled kernels
        never run at once."""
        if self._meeting is None or self._threads is None:
            return [work(0)]
        meeting = self._meeting

        def alone(k: int) -> Any:
            with meeting.lock:
                try:
                    return work(k)
                except BaseException as error:
                    meeting.fail(error)
                    raise

        return [
            job.result()
            for job in [self._threads.submit(alone, k) for k in range(len(self._parts))]
        ]

    def outputs(self) -> Array:
        """(n, d) each node's output by the run's rule."""
        return self._whole([host.output() for host in self._hosts])

    def last(self) -> Array:
        """(n, d) each node's newest model."""
        return self._whole([host.last() for host in self._hosts])

    def released(self) -> dict[str, Array]:
        """What the algorithm leaves beside the models; the same at every node."""
        return self._spec.algorithm.released(self._hosts[0].state)

    def warnings(self) -> list[str]:
        """What is to be told of the rounds, the same at every node."""
        return self._hosts[0].warnings()

    def noise_std(self, rounds: int) -> Array | None:
        """(d,) what the noise gives each coordinate of the output, where the algorithm knows it."""
        spec = self._spec
        if spec.method.output != spec.algorithm.default_output:
            return None
        return spec.algorithm.noise_std(self._hosts[0].state, spec.facts, rounds)

    def finished(self, models: Array) -> Array:
        """(n, d) the models after the closing mixings, or after one exact average."""
        if self._spec.method.ends_exactly:
            return self._sent(models, (-1, 0), exact=True)
        for k in range(self._spec.method.closing_mixings):
            models = self._sent(models, (-1, k))
        return models

    def _sent(self, models: Array, tag: Tag, *, exact: bool = False) -> Array:
        def of(block: int) -> Array:
            network = self._networks[block]
            rows = models if self._one else models[self._parts[block]]
            return network.average(rows, tag) if exact else network.mix(rows, tag, closing=True)

        return self._whole(self._each(of))

    def charges(self) -> Charges:
        """What was charged to each node; every block made the same releases in the same order."""
        if self._one:
            return self._ledgers[0].charges
        found = self._spec.calibration
        if found is not None and all(
            self._ranks.each(all(ledger.as_reserved for ledger in self._ledgers))
        ):
            return found.reserved.first(len(self._ledgers[0].charges))
        # Blocks may count as equal what others do not: the ends of all counts cut all of them
        ends = [np.cumsum([count for _, count in one.charges], dtype=int) for one in self._ledgers]
        cuts = np.unique(np.concatenate([e for some in self._ranks.each(ends) for e in some]))
        joined, before = Charges(), 0
        for end in cuts.tolist():
            same = [
                [charge for charge, _ in one.charges][int(np.searchsorted(mine, end))]
                for one, mine in zip(self._ledgers, ends, strict=True)
            ]
            values = {
                name: self._whole([charge.parameters[name] for charge in same])
                for name in same[0].parameters
            }
            joined.add(Charge(same[0].kind, values), end - before)
            before = end
        return joined

    def traffic(self) -> tuple[int, int]:
        """Messages and bytes sent by all nodes."""
        own = [(n.traffic.messages, n.traffic.bytes) for n in self._networks]
        messages, size = self._ranks.total(np.array(own, np.int64).sum(axis=0))
        return int(messages), int(size)

    def save(self) -> dict[str, Array]:
        """State, running average and solver anchors of all nodes, in the graph's order."""
        saved = [host.save() for host in self._hosts]
        arrays = {
            name: rows if is_common(name) else self._whole([s[name] for s in saved])
            for name, rows in saved[0].items()
        }
        solver = self._store.solver_state()
        if self._ranks.size > 1:  # the nodes of some ranks may have left nothing there
            kept, remembered = self._ranks.most(len(solver["ridges"]) > 0, "memory" in solver)
            if kept:
                own = self._store.solver_state(kept=True, remembered=bool(remembered))
                solver = {name: self._shards.gathered(rows) for name, rows in own.items()}
        return {**arrays, **{f"solver.{name}": values for name, values in solver.items()}}

    def restore(self, arrays: dict[str, Array], charges: Charges) -> None:
        """Go on from what `save` gave."""
        for host, ledger, part in zip(self._hosts, self._ledgers, self._parts, strict=True):
            own = {
                name: rows if is_common(name) else rows[part]
                for name, rows in arrays.items()
                if name[:6] != "solver"
            }
            host.restore(own)
            ledger.restore(charges.rows(part))
        solver = {k[7:]: v for k, v in arrays.items() if k.startswith("solver.")}
        if self._ranks.size > 1 and len(solver["ridges"]):
            solver = {name: rows[self._shards.here] for name, rows in solver.items()}
        self._store.restore_solver_state(solver)
        self.agree()

    def _whole(self, rows: list[Array]) -> Array:
        n = self._spec.topology.n
        if self._ranks.size > 1:
            return self._shards.gathered(rows[0])
        if self._one:
            return rows[0]
        whole = np.empty((n, *rows[0].shape[1:]), rows[0].dtype)
        for part, values in zip(self._parts, rows, strict=True):
            whole[part] = values
        return whole
