"""Choose a method's settings without touching private data: the same small number of trials for every method, on generated records.

The generated set has the real one's public shape (nodes, records per node, features) and nothing else of it. Each method has
TRIALS candidates; the one with the lowest objective of the average model, at the wanted (epsilon, delta), is taken. One noise
seed each: this is a budget, not a search.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tacenda import checks
from tacenda.algorithms import registry
from tacenda.data import make_classification, partition
from tacenda.graph import parse
from tacenda.graph.topology import Topology
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.runtime.simulate import ConvergenceWarning, simulate

TRIALS, SEED, DIFFICULTY = 4, 7, 0.3
TABLE = (
    2  # part of every tuned cell: raise it when the candidates change, so that stored runs of older ones are not taken for new
)
Settings = dict[str, Any]


def _grid(name: str, rounds: int, field: str, values: tuple[float, ...], **fixed: Any) -> list[Settings]:
    return [{"algorithm": {"name": name, field: v, **fixed}, "rounds": rounds} for v in values]


def _linearised(name: str, degree: float, rounds: int, **fixed: Any) -> list[Settings]:
    """Two penalties by two proximal weights, so that 2 rho deg + eta is 0.15 .. 0.6: a step of 1/0.15 is the largest stable one."""
    return [
        {"algorithm": {"name": name, "penalty": weight / (2 * degree), "proximal": eta, **fixed}, "rounds": rounds}
        for weight in (0.1, 0.3)
        for eta in (0.05, 0.3)
    ]


def _gossip(noise: str, rounds: int, mixings: int) -> list[Settings]:
    made = _grid("gossipgd", rounds, "step_size", (1.0, 2.0, 4.0, 7.0), noise=noise, mixings=mixings)
    return [{**s, "finish_mixing": 10} for s in made]


def candidates(method: str, degree: float) -> list[Settings]:
    """The TRIALS settings of a method on a graph of that mean degree; a single node has none but GossipGD's."""
    deg = max(degree, 1.0)
    exact = tuple(kappa / (2 * deg) for kappa in (0.03, 0.1, 0.3, 1.0))
    known: dict[str, Callable[[], list[Settings]]] = {
        "IPADMM": lambda: _linearised("ipadmm", deg, 12, inner_steps=5),
        "DDP-ADMM": lambda: _linearised("ddpadmm", deg, 60),
        "CDP-ADMM": lambda: _linearised("cdpadmm", deg, 60),
        "DP-ADMM": lambda: _linearised("dpadmm", 0.5, 60),
        "DVP": lambda: _grid("dvp", 15, "penalty", exact),
        "PVP": lambda: _grid("pvp", 15, "penalty", exact),
        "M-ADMM-PP": lambda: _grid("madmm", 15, "penalty", exact),
        "R-ADMM": lambda: _grid("radmm", 10, "penalty", exact),
        "DDA": lambda: _grid("dda", 60, "offset", (0.15, 0.5, 2.0, 8.0)),
        "DP-DDA": lambda: _grid("dpdda", 60, "offset", (4.0, 15.0, 60.0, 240.0)),
        "GossipGD, independent": lambda: _gossip("independent", 60, 1),
        "one node": lambda: _gossip("independent", 120, 1),  # the reference lines, with as many rounds as the longest method
        "GossipGD, correlated": lambda: _gossip("correlated", 120, 5),
    }
    return known[checks.one_of("method", method, known)]()


METHODS = (
    "IPADMM", "DDP-ADMM", "CDP-ADMM", "DP-ADMM", "DVP", "PVP", "M-ADMM-PP", "R-ADMM", "DDA", "DP-DDA", "GossipGD, independent",
    "GossipGD, correlated",
)  # fmt: skip


def best(
    method: str, *, nodes: int, records: int, features: int, graph: str, problem: Settings, privacy: Settings | None
) -> Settings:
    """{"algorithm": plain, "rounds": ..., "finish_mixing": ...} of the best trial; `records` are those of one node."""
    return dict(
        _best(method, nodes, records, features, graph, json.dumps(problem, sort_keys=True), json.dumps(privacy, sort_keys=True))
    )


@lru_cache(maxsize=512)
def _best(method: str, nodes: int, records: int, features: int, graph: str, problem: str, privacy: str) -> Settings:
    made = make_classification(nodes * records, features, DIFFICULTY, SEED)
    stand_in = Problem(partition.even(made.X, made.y, nodes), classes=(0, 1), **json.loads(problem))
    budget = None if privacy == "null" else Privacy(**json.loads(privacy))
    tried = candidates(method, float(Topology.of(parse(graph)).degrees.mean()))
    scores = [_score(stand_in, graph, candidate, budget) for candidate in tried]
    return tried[int(np.nanargmin(scores))]


def _score(problem: Problem, graph: str, candidate: Settings, privacy: Privacy | None) -> float:
    settings = {**candidate, "algorithm": registry.from_plain(candidate["algorithm"])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = simulate(problem, parse(graph), privacy=privacy, seed=SEED, record_every=0, progress=False, **settings)
    return float(problem.objective(result.model))
