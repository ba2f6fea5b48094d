"""Mixing that changes from round to round: which edges are used in round t is public and known
beforehand.

Every round has its own symmetric doubly stochastic matrix W_t, the weights of `Topology.mixing` on
the edges that are active then; a node without an active edge keeps its own row. All mixings of one
round use the same matrix. What is needed for agreement is joint connectivity: the edges of some
rounds together join all nodes. It is checked before a run, over all its rounds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Flags
from tacenda.errors import InputError
from tacenda.graph.topology import MIXINGS, Topology

WEIGHTS = ("metropolis", "max-degree")  # "uniform" needs a regular graph, which no round has
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True)
class RandomEdges:
    """Every edge is active in every round with the same probability, from a public seed.

    Parameters
    ----------
    active : float, default=0.5
        The probability, above 0 and at most 1.
    seed : int, default=0
        Public, a whole number of at least 0.
    weights : {"metropolis", "max-degree"}, default="metropolis"
        The weights on the active edges.

    Examples
    --------
    >>> import tacenda as tc
    >>> ring = tc.graph.Topology.of(tc.graph.ring(5))
    >>> mixing = tc.graph.RandomEdges(0.5, seed=1)
    >>> mixing.active_edges(ring, 1).shape
    (5,)
    """

    name: ClassVar[str] = "random"
    active: float = 0.5
    seed: int = 0
    weights: str = "metropolis"

    def __post_init__(self) -> None:
        if checks.positive("RandomEdges.active", self.active) > 1:
            raise InputError(
                f"RandomEdges.active must be above 0 and at most 1, not {self.active!r}."
            )
        checks.whole("RandomEdges.seed", self.seed)
        checks.one_of("RandomEdges.weights", self.weights, WEIGHTS)

    def active_edges(self, topology: Topology, turn: int) -> Flags:
        """Which edges of the graph are used in a round.

        Result: shape (E,), in the order of `Topology.edges`.
        """
        # splitmix64: whole numbers alone, so that every machine has the same edges
        start = (_mixed(_mixed(self.seed) ^ turn)) & (2**64 - 1)
        x = np.uint64(start) + np.arange(1, len(topology.edges) + 1, dtype=np.uint64) * np.uint64(
            _GOLDEN
        )
        x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
        x = x ^ (x >> np.uint64(31))
        return np.asarray((x >> np.uint64(11)).astype(np.float64) * 2.0**-53 < self.active)


def _mixed(x: int) -> int:
    """One step of splitmix64."""
    x = (x + _GOLDEN) % 2**64
    x = (x ^ (x >> 30)) * _FIRST % 2**64
    x = (x ^ (x >> 27)) * _SECOND % 2**64
    return x ^ (x >> 31)


@dataclass(frozen=True)
class PeriodicEdges:
    """Given edges are active in each round, and after the last set the first one again.

    Parameters
    ----------
    period : sequence of sequences of pairs
        For each round of the period its active edges, pairs of the graph's nodes; a round may have
        none.
    weights : {"metropolis", "max-degree"}, default="metropolis"
        The weights on the active edges.

    Examples
    --------
    >>> import tacenda as tc
    >>> ring = tc.graph.Topology.of(tc.graph.ring(4))
    >>> mixing = tc.graph.PeriodicEdges([[(0, 1), (2, 3)], [(1, 2), (0, 3)]])
    >>> mixing.active_edges(ring, 1).tolist(), mixing.active_edges(ring, 4).tolist()
    ([True, False, False, True], [False, True, True, False])
    """

    name: ClassVar[str] = "periodic"
    period: tuple[tuple[tuple[Any, Any], ...], ...]
    weights: str = "metropolis"

    def __post_init__(self) -> None:
        try:
            sets = tuple(tuple((u, v) for u, v in edges) for edges in self.period)
        except (TypeError, ValueError):
            raise InputError(
                "PeriodicEdges.period must hold, for each round, pairs of nodes, "
                f"not {self.period!r}."
            ) from None
        if not sets:
            raise InputError("PeriodicEdges.period must hold at least one round, and holds none.")
        object.__setattr__(self, "period", sets)
        checks.one_of("PeriodicEdges.weights", self.weights, WEIGHTS)

    def active_edges(self, topology: Topology, turn: int) -> Flags:
        """Which edges of the graph are used in a round.

        Result: shape (E,), in the order of `Topology.edges`.
        """
        place = (turn - 1) % len(self.period)
        number = {(int(a), int(b)): k for k, (a, b) in enumerate(topology.edges)}
        found = np.zeros(len(topology.edges), bool)
        for u, v in self.period[place]:
            ends = sorted((topology.position(u), topology.position(v)))
            if (ends[0], ends[1]) not in number:
                raise InputError(
                    f"PeriodicEdges.period of round {place + 1} must hold edges of the graph, and "
                    f"{u!r} and {v!r} are not joined in {topology.name}."
                )
            found[number[ends[0], ends[1]]] = True
        return found


Varying = RandomEdges | PeriodicEdges
KINDS: dict[str, type] = {kind.name: kind for kind in (RandomEdges, PeriodicEdges)}


def check_mixing(mixing: Any, topology: Topology, rounds: int) -> None:
    """Refuse what is no mixing, and edges that do not join all nodes within a run.

    Parameters
    ----------
    mixing : str, RandomEdges or PeriodicEdges
        The mixing.
    topology : Topology
        The network.
    rounds : int
        Number of rounds of the run.

    Raises
    ------
    InputError
        If it is refused.

    Examples
    --------
    >>> import tacenda as tc
    >>> ring = tc.graph.Topology.of(tc.graph.ring(4))
    >>> tc.graph.check_mixing(tc.graph.RandomEdges(0.5), ring, 20)
    """
    if not isinstance(mixing, (RandomEdges, PeriodicEdges)):
        checks.one_of("mixing", mixing, MIXINGS)
        return
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n, together, turn = topology.n, np.zeros(len(topology.edges), bool), 0
    last = min(rounds, len(mixing.period)) if isinstance(mixing, PeriodicEdges) else rounds
    part, count = np.arange(n), n
    while count > 1 and turn < last:
        turn += 1
        before, together = together, together | mixing.active_edges(topology, turn)
        if together.sum() > before.sum():
            ends = topology.edges[together].T
            joined = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n, n))
            count, part = connected_components(joined, directed=False)
    if count > 1:
        outside = topology.labels[int(np.flatnonzero(part != part[0])[0])]
        raise InputError(
            f"mixing must join all nodes within the run's rounds ({rounds}), but the edges that "
            f"are active in them never join node {topology.labels[0]!r} to {outside!r}; use more "
            "rounds, or more active edges."
        )


def mixing_to_plain(mixing: Any) -> Any:
    """A mixing as plain values, for files.

    Parameters
    ----------
    mixing : str, RandomEdges or PeriodicEdges
        The mixing.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.mixing_to_plain(tc.graph.RandomEdges(0.3, seed=2))
    {'edges': 'random', 'active': 0.3, 'seed': 2, 'weights': 'metropolis'}
    """
    if not isinstance(mixing, (RandomEdges, PeriodicEdges)):
        return mixing
    plain = {"edges": mixing.name, **asdict(mixing)}
    if isinstance(mixing, PeriodicEdges):
        plain["period"] = [[list(pair) for pair in edges] for edges in mixing.period]
    return plain


def mixing_from_plain(value: Any) -> Any:
    """A mixing from its plain values; the inverse of `mixing_to_plain`.

    Parameters
    ----------
    value : str or dict
        A name, or a table with `edges` ("random" or "periodic") and its settings.

    Raises
    ------
    InputError
        If the table describes none.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.graph.mixing_from_plain({"edges": "random", "active": 0.3})
    RandomEdges(active=0.3, seed=0, weights='metropolis')
    """
    if not isinstance(value, dict):
        return value
    kind = KINDS[checks.one_of("mixing.edges", value.get("edges"), KINDS)]
    try:
        return kind(**{name: held for name, held in value.items() if name != "edges"})
    except TypeError as wrong:
        raise InputError(f"mixing of {value['edges']} edges is not made so: {wrong}.") from None
