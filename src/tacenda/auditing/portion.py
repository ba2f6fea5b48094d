"""Play many independent trials of an attack as one vectorised run of the production code.

A trial is a whole run of the network; trials with even numbers happen in world 0, odd ones in world
1. Trials are rows of one block: the algorithm's own `step`, the real queries, door, ledger and
network; nothing is simulated twice or shortened.
"""

from __future__ import annotations

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.robust import joined
from tacenda.auditing.keyed_rows import KeyedRows, floating
from tacenda.auditing.sampling import TrialNoise
from tacenda.auditing.wiretap import AskedQueries, Portion, Wiretap
from tacenda.auditing.worlds import Script, SharedStore, copies_of
from tacenda.privacy.accounting.events import Gaussian
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.questions.blank import BlankQueries
from tacenda.questions.facts import RecordMap
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
from tacenda.runtime.host import Exits, Seat
from tacenda.runtime.network import Network
from tacenda.runtime.rehearsal import Notebook, blank_host
from tacenda.runtime.transport import Tag

# copies of nodes in one go: long enough rows for the kernels, small enough for the cache
MOST_ROWS = 24_000
MOST_ENTRIES = 4_000_000  # of copied records, for queries that need their own


class Copies(Network):
    """Copies of one network side by side, in which trees and sums stay within a copy."""

    copies = 1

    def average(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        sent = self._sendable(shared, tag)
        if self._groups is None:
            return self._repeated(self._each(sent).mean(axis=1, dtype=sent.dtype))
        weights, each = self._groups.sizes / self._groups.topology.n, self._each(sent)
        means = np.stack([each[:, some].mean(axis=1) for some in self._groups.members], axis=1)
        rows = np.stack([joined(copy, weights) for copy in means.astype(float)])
        return self._repeated(rows.astype(sent.dtype, copy=False))

    def total(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        each = self._each(shared)
        parts = [slice(None)] if self._groups is None else self._groups.members
        sums = [each[:, some].sum(axis=1, dtype=np.uint64) for some in parts]
        return self._repeated(np.concatenate(sums, axis=1)).view(np.int64)

    def _each(self, rows: Array) -> Array:
        return rows.reshape(self.copies, -1, rows.shape[1])

    def _repeated(self, rows: Array) -> Array:
        return np.repeat(rows, len(self.nodes) // self.copies, axis=0)


def truth_of(first: int, count: int) -> Array:
    """(count,) the world of each trial."""
    return np.arange(first, first + count) % 2


def maps(script: Script) -> bool:
    """Whether the algorithm maps the records by what it has released: every trial then has a map of
    its own, and is played by itself."""
    seen: list[int] = []

    class Noticing(BlankQueries):
        def mapped(self, by: RecordMap) -> BlankQueries:
            seen.append(1)
            return super().mapped(by)

    spec = script.spec.changed(rounds=min(2, script.spec.rounds), output="last")
    notebook = Notebook(spec.facts.dim, spec.weights)
    host = blank_host(spec, np.arange(script.n), notebook, Noticing(spec.facts))
    for turn in range(1, spec.rounds + 1):
        host.step(turn)
    return bool(seen)


def trials_at_once(script: Script) -> int:
    """How many trials one call of `run_portion` should take: an even number, or one."""
    if maps(script):
        return 1
    rows = script.variants * script.n
    count = MOST_ROWS // rows
    if script.spec.algorithm.needs.smooth_loss:
        count = min(count, MOST_ENTRIES // max(1, script.variants * script.rows.size))
    return max(2, count // 2 * 2)


def own_grid(script: Script) -> float | None:
    """The grid of whole numbers of a real node, where the noise is keyed and the plan has none."""
    if not script.keyed or script.calibration.plan.grid is not None:
        return None
    charges = list(script.calibration.reserved)
    sampled = script.spec.algorithm.traits.sample != "all"
    if sampled or any(charge.kind is not Gaussian for charge, _ in charges):
        raise floating()
    largest = max(float(charge.parameters["noise_multiplier"].max()) for charge, _ in charges)
    return grid_for(largest, script.spec.facts)


def run_portions(script: Script, trials: int, rounds: int | None = None) -> list[Portion]:
    """The first trials, in this process."""
    size = trials_at_once(script)
    parts = [(first, min(size, trials - first)) for first in range(0, trials, size)]
    return [run_portion(script, first, count, rounds) for first, count in parts]


def run_portion(script: Script, first: int, count: int, rounds: int | None = None) -> Portion:
    """The trials first .. first + count - 1."""
    n, variants = script.n, script.variants
    copies = count * variants
    position = np.tile(np.arange(n), copies)
    owner = position.reshape(count, variants, n).copy()
    owner[:, 1, script.node] = n
    nodes, truth = np.arange(copies * n), truth_of(first, count)
    store = SharedStore(script, owner.reshape(-1))
    topology = copies_of(script.spec.topology, copies)
    masks = script.spec.algorithm.traits.masks
    source = KeyedRows(script.seed, masks) if script.keyed else SimulatedNoise(script.seed)
    edges = len(script.spec.masks_graph.edges)
    noise = TrialNoise(source, first, (count, variants, n), script.node, edges)
    spec = script.spec.changed(output="last")
    seat = Seat(spec, position, script.calibration.plan.rows(position))
    counts = np.diff(script.offsets)[owner.reshape(-1)]
    records = Records(store, counts, nodes, noise)
    questions = ask(seat, records, grid=own_grid(script), kind=AskedQueries)
    ledger = Ledger(script.calibration.reserved.rows(position))
    masked = copies_of(script.spec.masks_graph, copies)
    door = open_door(seat, records, ledger, shared_noise(spec, masked, nodes))
    tap = Wiretap(script, door, questions, store, noise, truth)
    network = connect(spec, Placed(topology, [nodes], script.spec.groups), Copies)
    assert isinstance(network, Copies)
    network.copies = copies
    host = assemble(seat, questions, Exits(tap, network), script.start[position])
    for turn in range(1, (spec.rounds if rounds is None else rounds) + 1):
        host.step(turn)
    return tap.portion()
