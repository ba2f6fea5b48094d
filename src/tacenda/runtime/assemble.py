"""The one place that makes a `Host`: the nodes of a run, joined with what they ask, the gate that
their releases pass and their neighbours.

                          questions                gate                    neighbours
    simulation            `ask`: records here      `open_door`, seeded     `connect`: memory or MPI
    peer                  `ask`: whole numbers     `open_door`, keyed      `connect`: gRPC
    audit                 `ask`, or an adversary   a tap round a door      `connect`: copies
    calibration, dry run  blank records            `rehearsal.Notebook`    `rehearsal.Silence`

Each kind of run says which of these it wants; nothing else differs between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tacenda._types import Array
from tacenda.graph.coalition import edge_streams
from tacenda.graph.groups import Groups
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.sources import NoiseSource
from tacenda.privacy.secrets.door import Door, SharedNoise
from tacenda.privacy.secrets.ledger import Charges, Ledger
from tacenda.questions.lattice import LatticeQueries
from tacenda.questions.queries import Kernels, Queries
from tacenda.questions.rules import Answers
from tacenda.runtime.host import Exits, Host, Seat
from tacenda.runtime.network import Network
from tacenda.runtime.spec import RunSpec
from tacenda.runtime.transport import NoTransport, Transport


@dataclass(frozen=True, eq=False)
class Records:
    """Private records that a host asks, and the source that draws its noise and samples.

    counts: how many records each node has; nodes (b,): which of `counts` and which streams of noise
    belong to each row of the host; at (b,): its place in the store, by default the same.
    """

    store: Kernels
    counts: Array
    nodes: Array
    noise: NoiseSource
    at: Array | None = None


@dataclass(frozen=True, eq=False)
class Placed:
    """Where a host's nodes are: block `me` of a graph whose nodes are divided into `parts`.

    groups: those of its nodes, where sums are made in groups.
    """

    topology: Topology
    parts: Sequence[Array]
    groups: Groups | None = None
    me: int = 0
    transport: Transport = field(default_factory=NoTransport)


def take_seat(spec: RunSpec, positions: Array) -> Seat:
    """Take the nodes at `positions`, with the noise that the run's calibration gives them."""
    found = spec.calibration
    if found is None:
        return Seat(spec, positions, None)
    # A million nodes are not picked out of themselves
    whole = has_all_nodes(spec, positions)
    return Seat(spec, positions, found.plan if whole else found.plan.rows(positions))


def has_all_nodes(spec: RunSpec, positions: Array) -> bool:
    """True if the positions are those of all nodes, in the graph's order."""
    return np.array_equal(positions, np.arange(spec.topology.n))


def reserved_for(seat: Seat) -> Charges | None:
    """The charges that the run has reserved for the nodes of a seat; None without privacy."""
    found = seat.spec.calibration
    if found is None:
        return None
    whole = has_all_nodes(seat.spec, seat.positions)
    return found.reserved if whole else found.reserved.rows(seat.positions)


def ask(
    seat: Seat, records: Records, *, grid: float | None = None, kind: type[Queries] = Queries
) -> Queries:
    """Choose the questions of a run: whole numbers on the plan's common grid or on this node's own
    `grid`, where there is one, and floats by `kind` otherwise."""
    spec, plan, at = seat.spec, seat.plan, records.at
    whole = has_all_nodes(spec, seat.positions)
    facts = spec.facts if whole else spec.facts.rows(seat.positions)
    own = (records.store, records.counts, records.nodes, facts, records.noise)
    if plan is not None and plan.grid is not None:
        return LatticeQueries(*own, plan.grid, common=True, at=at)
    if grid is not None:
        return LatticeQueries(*own, grid, at=at)
    return kind(*own, at=at, remembers=spec.privacy is None)


def open_door(
    seat: Seat, records: Records, ledger: Ledger, shared: SharedNoise | None = None
) -> Door:
    """Make the door of a seat; `shared` is the noise of its edges (`shared_noise`)."""
    return Door(records.nodes, seat.spec.facts.dim, seat.plan, ledger, records.noise, shared)


def shared_noise(spec: RunSpec, topology: Topology, rows: Array) -> SharedNoise | None:
    """The edges' noise of these rows of a graph (`RunSpec.masks_graph`), where the run's neighbours
    share noise."""
    ratio = spec.algorithm.traits.shared_noise
    return None if ratio is None else SharedNoise(edge_streams(topology, rows), ratio)


def connect(spec: RunSpec, placed: Placed, kind: type[Network] = Network) -> Network:
    """Connect a block of nodes to its neighbours, with the run's mixing and radius."""
    return kind(
        placed.topology,
        list(placed.parts),
        placed.me,
        placed.transport,
        spec.row_type,
        spec.method.mixing,
        spec.facts.constants.radius,
        placed.groups,
    )


def assemble(seat: Seat, questions: Answers, exits: Exits, start: Array) -> Host:
    """Make a host of the nodes of a seat, which begin at the public rows `start` (b, d)."""
    return Host(seat, questions, exits, start.astype(seat.spec.row_type))
