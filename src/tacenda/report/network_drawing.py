"""The network drawn as a graph: where the nodes stand, how large, how coloured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.report import numbers
from tacenda.report.charts import Column, TextTable
from tacenda.report.reading import Folder, Group
from tacenda.words import counted, noun

MOST_DRAWN, MOST_EDGES, MOST_LISTED = 600, 6000, 500
ROUND = ("ring", "complete", "exponential")


@dataclass(frozen=True, eq=False)
class NetworkDrawing:
    """The nodes of one group, and where each is drawn: positions (n, 2), edges (e, 2), sizes and
    shade (n,).

    bound: the largest epsilon of a node, also where the nodes' own (epsilons) would take too long
    to judge.
    """

    label: str
    labels: Sequence[Any]
    edges: Array
    positions: Array | None
    sizes: Array
    degrees: Array
    shade: Array
    shade_name: str
    percent: bool
    edge_messages: float
    edge_bytes: float
    epsilons: Array | None
    distances: Array
    accuracy: Array | None
    objective: Array | None
    bound: float | None = None

    @property
    def n(self) -> int:
        return len(self.labels)

    @property
    def even(self) -> bool:
        """Whether the shades could not be told apart by their shown numbers,
        so that a scale would only mislead."""
        show = numbers.percent if self.percent else numbers.short
        return show(self.shade.min()) == show(self.shade.max())

    @property
    def legend(self) -> str:
        """What the shade means, in words."""
        show = numbers.percent if self.percent else numbers.short
        return (
            f"{self.shade_name}: {show(self.shade[0])} at every node"
            if self.even
            else f"shade: {self.shade_name}"
        )

    @property
    def words(self) -> str:
        """For a reader who cannot see the drawing."""
        show = numbers.percent if self.percent else numbers.short
        fewest, most = (numbers.whole(int(k)) for k in (self.sizes.min(), self.sizes.max()))
        return (
            f"Drawing of the network of {counted(self.n, 'node')} and "
            f"{counted(len(self.edges), 'edge')}. Nodes hold {fewest} to {most} "
            f"{noun(self.sizes.max(), 'record')} and have {int(self.degrees.min())} to "
            f"{counted(int(self.degrees.max()), 'neighbour')}; "
            f"{self.shade_name} runs from {show(self.shade.min())} to {show(self.shade.max())}."
        )

    def hover(self, node: int) -> str:
        """One node in words."""
        lines = [
            f"node {self.labels[node]}",
            f"{numbers.whole(int(self.sizes[node]))} {noun(self.sizes[node], 'record')}, "
            f"{counted(int(self.degrees[node]), 'neighbour')}",
        ]
        if self.accuracy is not None:
            lines.append(f"accuracy {numbers.percent(self.accuracy[node])}")
        if self.objective is not None:
            lines.append(f"objective {numbers.short(self.objective[node])}")
        lines.append(f"{numbers.size(self.edge_bytes * self.degrees[node])} sent and received")
        return "\n".join(lines)


def drawing(folder: Folder, group: Group | None = None) -> NetworkDrawing:
    """The lead group's network; per-node numbers are means over its seeds."""
    chosen = folder.lead if group is None else group
    graph, problem = chosen.settings["graph"], chosen.settings["problem"]
    edges = np.asarray(graph["edges"], int).reshape(-1, 2)
    n = int(graph["n"])
    degrees = np.bincount(edges.ravel(), minlength=n)
    accuracy = _mean(chosen, "node_accuracy")
    objective = _mean(chosen, "node_objective")
    apart = _distances(chosen)
    shade, name, percent = apart, "distance from the average model", False
    if accuracy is not None:
        shade, name, percent = accuracy, "accuracy of the node's own model", True
    elif objective is not None:
        shade, name = objective, "objective of the node's own model"
    drawn = n <= MOST_DRAWN and len(edges) <= MOST_EDGES
    first = chosen.runs[0].result
    epsilons = None if chosen.account is None else chosen.account.node_epsilons
    positions = layout(n, edges, str(graph.get("name", ""))) if drawn else None
    return NetworkDrawing(
        chosen.label,
        graph["labels"],
        edges,
        positions,
        np.asarray(problem["sizes"], float),
        degrees,
        shade,
        name,
        percent,
        first.messages / max(len(edges), 1),
        first.bytes / max(len(edges), 1),
        epsilons,
        apart,
        accuracy,
        objective,
        None if chosen.account is None else chosen.account.epsilon,
    )


def layout(n: int, edges: Array, name: str) -> Array:
    """(n, 2) positions in the unit square; the same graph is always drawn the same way."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges.tolist())
    if any(name.startswith(word) for word in ROUND) or n < 3:
        placed = nx.circular_layout(graph)
    elif n <= 120:
        placed = nx.kamada_kawai_layout(graph)
    else:
        placed = nx.spring_layout(graph, seed=0, iterations=60)
    at = np.array([placed[k] for k in range(n)], float)
    low, high = at.min(axis=0), at.max(axis=0)
    return np.asarray((at - low) / np.maximum(high - low, 1e-9))


def node_table(net: NetworkDrawing) -> TextTable:
    """One row per node; where there are many, those with the fewest records,
    which need the most noise."""
    columns = [Column("Node"), Column("Records", True), Column("Neighbours", True)]
    numeric: list[tuple[Array, Any]] = [
        (net.sizes, lambda v: numbers.whole(int(v))),
        (net.degrees, lambda v: str(int(v))),
    ]
    optional = (
        ("ε", net.epsilons, numbers.epsilon),
        ("Accuracy", net.accuracy, numbers.percent),
        ("Objective", net.objective, numbers.short),
        ("Distance from average", net.distances, numbers.short),
        ("Traffic", net.degrees * net.edge_bytes, numbers.size),
    )
    for title, values, show in optional:
        if values is not None:
            columns.append(Column(title, True))
            numeric.append((values, show))
    shown = (
        np.arange(net.n)
        if net.n <= MOST_LISTED
        else np.argsort(net.sizes, kind="stable")[:MOST_LISTED]
    )
    rows = [[str(net.labels[k]), *(show(values[k]) for values, show in numeric)] for k in shown]
    sort = [[int(k), *(float(values[k]) for values, _ in numeric)] for k in shown]
    caption = f"Nodes of {net.label}"
    if net.n > MOST_LISTED:
        caption += f": the {MOST_LISTED} of {net.n} with the fewest records"
    if net.bound is not None and net.epsilons is None:
        caption += f"; none has more than ε = {numbers.epsilon(net.bound)}"
    return TextTable(caption, columns, rows, sort)


def _mean(group: Group, name: str) -> Array | None:
    found = [values for run in group.runs if (values := run.per_node(name)) is not None]
    return np.mean(found, axis=0) if found else None


def _distances(group: Group) -> Array:
    """(n,) distance of each node's model from the average of all, mean over the seeds."""
    found = []
    for run in group.runs:
        models = run.result.models.reshape(len(run.result.models), -1).astype(float)
        found.append(np.linalg.norm(models - models.mean(axis=0), axis=1))
    return np.asarray(np.mean(found, axis=0))
