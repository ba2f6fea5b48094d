"""Who learns together: the graph of the nodes, and how records are spread over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from tacenda.terms.setting import setting

_EDGES = {"contract": "its edges are listed one by one"}
_OWN_RECORDS = {"contract": "each member has its own records"}
_IN_THE_GRAPH = {
    "flag": "the graph's text says it, as in --graph random-regular:100,6,seed=3",
    **_EDGES,
}
_OF_THE_PARTITION = {"flag": "a detail of --partition; in a shell --set", **_OWN_RECORDS}


@dataclass(frozen=True)
class StatedNetwork:
    """All that a file or the flags may say about the network. It is a description only: runs take a
    graph and the records of each node."""

    graph: str = setting(
        "random-regular",
        kind=str,
        help="The network: a kind, or a kind with numbers: 'ring', 'random-regular:100,6,seed=3'.",
        left_out=_EDGES,
    )
    nodes: int | None = setting(
        None,
        kind=Annotated[int, Ge(1)],
        help="How many nodes hold the data.",
        about="How many nodes hold the data: 20, or as many as the graph or the schema's node "
        "column names.",
        left_out={"contract": "its members are listed"},
    )
    degree: int | None = setting(
        None,
        kind=Annotated[int, Ge(1)],
        help="Neighbours of each node, in a graph that takes this number.",
        left_out=_IN_THE_GRAPH,
    )
    probability: float | None = setting(
        None,
        kind=float,
        help="Probability of each edge, in a graph that takes it.",
        left_out=_IN_THE_GRAPH,
    )
    rows: int | None = setting(None, kind=int, help="Rows of a grid.", left_out=_IN_THE_GRAPH)
    columns: int | None = setting(None, kind=int, help="Columns of a grid.", left_out=_IN_THE_GRAPH)
    dimension: int | None = setting(
        None, kind=int, help="Dimension of a hypercube.", left_out=_IN_THE_GRAPH
    )
    seed: int = setting(
        0, kind=Annotated[int, Ge(0)], help="Seed of a random graph.", left_out=_IN_THE_GRAPH
    )
    partition: str = setting(
        "auto",
        kind=Literal["auto", "even", "column", "person", "sizes", "label-skew", "feature-shift"],
        help="Who holds which records: even, column, person, sizes, label-skew or feature-shift.",
        about='Who holds which records: "even", "column" (the schema\'s node column), "person" '
        '(all records of a person on one node), "sizes", "label-skew" or "feature-shift". "auto" '
        "follows the node column, then the persons, then `sizes`.",
        left_out=_OWN_RECORDS,
    )
    partition_seed: int = setting(
        0,
        kind=Annotated[int, Ge(0)],
        help="Seed with which records are spread over the nodes.",
        left_out=_OWN_RECORDS,
    )
    sizes: Literal["power", "lognormal"] | list[int] | None = setting(
        None,
        written='"power", "lognormal", list of int or None',
        kind=Literal["power", "lognormal"] | list[int],
        help="Nodes of different sizes: 'power' or 'lognormal'; in a file also a list.",
        left_out={"contract": "its members state their sizes"},
    )
    spread: float = setting(
        1.0, kind=float, help="How much sizes differ under a law.", left_out=_OF_THE_PARTITION
    )
    concentration: float = setting(
        0.5,
        kind=float,
        help="Of 'label-skew': how alike the nodes' labels are.",
        left_out=_OF_THE_PARTITION,
    )
    shift: float = setting(
        1.0,
        kind=float,
        help="Of 'feature-shift': how strongly the nodes differ.",
        left_out=_OF_THE_PARTITION,
    )
    feature: int | None = setting(
        None,
        kind=int,
        help="Of 'feature-shift': the column in which the nodes differ; by default a random "
        "direction.",
        left_out=_OF_THE_PARTITION,
    )
