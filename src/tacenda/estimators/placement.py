"""Which node holds which record, and who talks to whom."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda import checks
from tacenda.data import partition
from tacenda.errors import InputError
from tacenda.graph import generators, registry
from tacenda.graph.topology import Topology

MANY_NODES, RECORDS_EACH = 10, 50  # by default so many nodes, as long as each gets so many records
DEGREE = 6
SHUFFLE = 0  # the seed of the even split: fixed and public, independent of the data


def place(
    X: Any, y: Any, nodes: Any, n_nodes: int | None, graph: Any
) -> tuple[partition.Shards, Topology]:
    """Shards in the graph's order, and the graph.

    nodes    the node of each record, or None for an even split over n_nodes
    graph    None (complete up to 7 nodes, else random 6-regular), a text such as "ring:20" or
             "ring", a networkx.Graph or Topology
    """
    if nodes is not None:
        shards = partition.by_column(X, y, nodes)
        if n_nodes is not None and n_nodes != len(shards):
            raise InputError(
                f"n_nodes must be left out or be the number of different nodes ({len(shards)}), "
                f"not {n_nodes}."
            )
        return _ordered(shards, chosen_topology(graph, len(shards)))
    if n_nodes is None:
        declared = _declared_size(graph)
        count = max(1, min(MANY_NODES, len(y) // RECORDS_EACH)) if declared is None else declared
    else:
        count = checks.whole("n_nodes", n_nodes, least=1)
    if count > len(y):
        raise InputError(
            f"n_nodes must be at most the number of records {len(y)}, not {count}: "
            "every node needs a record."
        )
    topology = chosen_topology(graph, count)
    return partition.even(X, y, count, seed=SHUFFLE), topology


def chosen_topology(graph: Any, n: int) -> Topology:
    """The topology on n nodes that `graph` asks for."""
    if graph is None:
        graph = (
            generators.complete(n)
            if n <= DEGREE + 1
            else generators.random_regular(n, DEGREE, seed=0)
        )
    elif isinstance(graph, str):
        graph = registry.parse(graph) if ":" in graph else registry.parse(f"{graph}:{n}")
    topology = Topology.of(graph)
    if topology.n != n:
        raise InputError(
            f"graph must have one node for each of the {n} data holders, not {topology.n}."
        )
    return topology


def _declared_size(graph: Any) -> int | None:
    """The number of nodes of a graph that knows it by itself."""
    if graph is None or (isinstance(graph, str) and ":" not in graph):
        return None
    return Topology.of(registry.parse(graph) if isinstance(graph, str) else graph).n


def _ordered(shards: partition.Shards, topology: Topology) -> tuple[partition.Shards, Topology]:
    """Shards put into the graph's order where both use the same labels; else sorted labels meet
    nodes in order."""
    if set(shards.labels) == set(topology.labels):
        number = {label: k for k, label in enumerate(shards.labels)}
        order = np.array([number[label] for label in topology.labels])
        return partition.Shards((shards[k] for k in order), topology.labels, shards.kind), topology
    if set(topology.labels) == set(range(topology.n)):
        return shards, topology
    raise InputError(
        "graph must be labelled by the values of nodes, or by 0 .. n-1 for their sorted order."
    )
