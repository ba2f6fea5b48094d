"""Networks: generators, and `Topology`, the form in which they give a network and algorithms run on
it. Graphs of networkx and SciPy sparse arrays are taken everywhere.

tacenda.graph.ring(20)
tacenda.graph.by_name("random_regular", n=100, degree=6, seed=0)
tacenda.graph.parse("random-regular:100,6")
"""

from tacenda.graph.generators import (
    complete,
    erdos_renyi,
    exponential,
    grid,
    hypercube,
    path,
    random_regular,
    ring,
    small_world,
    star,
    torus,
)
from tacenda.graph.registry import KINDS, by_name, parse
from tacenda.graph.topology import MIXINGS, Topology
from tacenda.graph.varying import (
    PeriodicEdges,
    RandomEdges,
    check_mixing,
    mixing_from_plain,
    mixing_to_plain,
)

__all__ = [
    "KINDS",
    "MIXINGS",
    "PeriodicEdges",
    "RandomEdges",
    "Topology",
    "by_name",
    "check_mixing",
    "complete",
    "erdos_renyi",
    "exponential",
    "grid",
    "hypercube",
    "mixing_from_plain",
    "mixing_to_plain",
    "parse",
    "path",
    "random_regular",
    "ring",
    "small_world",
    "star",
    "torus",
]
