"""Choose a method's settings without touching private data: the same small number of trials for every method, on generated records.

The generated set has the real one's public shape (nodes, records per node, features) and nothing else of it. Each method has TRIALS candidates; the
one with the lowest objective of the average model, at the wanted (epsilon, delta), is taken. One noise seed each: this is a budget, not a search.
"""

from __future__ import annotations

import json
import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from tacenda.algorithms import registry
from tacenda.data import make_classification, partition
from tacenda.graph import parse
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.runtime.simulate import ConvergenceWarning, simulate

TRIALS, SEED, DIFFICULTY = 4, 7, 0.3
Settings = dict[str, Any]


def _grid(name: str, rounds: int, field: str, values: tuple[float, ...], **fixed: Any) -> list[Settings]:
    return [{"algorithm": {"name": name, field: v, **fixed}, "rounds": rounds} for v in values]


def _linearised(name: str, **fixed: Any) -> list[Settings]:
    return [
        {"algorithm": {"name": name, "penalty": rho, "proximal": eta, **fixed}, "rounds": 40}
        for rho in (0.02, 0.1) for eta in (0.2, 1.0)
    ]  # fmt: skip


def _gossip(noise: str, rounds: int, mixings: int) -> list[Settings]:
    made = _grid("gossipgd", rounds, "step_size", (1.0, 2.0, 4.0, 7.0), noise=noise, mixings=mixings)
    return [{**s, "finish_mixing": 10} for s in made]


CANDIDATES: dict[str, list[Settings]] = {
    "IPADMM": [{**s, "rounds": 8} for s in _linearised("ipadmm", inner_steps=5)],
    "DDP-ADMM": _linearised("ddpadmm"),
    "CDP-ADMM": _linearised("cdpadmm"),
    "DP-ADMM": [
        {"algorithm": {"name": "dpadmm", "penalty": r, "proximal": e}, "rounds": 40} for r in (0.1, 0.5) for e in (0.2, 1.0)
    ],
    "DVP": _grid("dvp", 15, "penalty", (0.01, 0.05, 0.2, 1.0)),
    "PVP": _grid("pvp", 15, "penalty", (0.01, 0.05, 0.2, 1.0)),
    "M-ADMM-PP": _grid("madmm", 15, "penalty", (0.01, 0.05, 0.2, 1.0)),
    "R-ADMM": _grid("radmm", 10, "penalty", (0.01, 0.05, 0.2, 1.0)),
    "DDA": _grid("dda", 60, "offset", (2.0, 8.0, 30.0, 120.0)),
    "DP-DDA": _grid("dpdda", 60, "offset", (2.0, 15.0, 100.0, 800.0)),
    "GossipGD, independent": _gossip("independent", 60, 1),
    "GossipGD, correlated": _gossip("correlated", 120, 5),
}


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
    scores = [_score(stand_in, graph, candidate, budget) for candidate in CANDIDATES[method]]
    return CANDIDATES[method][int(np.nanargmin(scores))]


def _score(problem: Problem, graph: str, candidate: Settings, privacy: Privacy | None) -> float:
    settings = {**candidate, "algorithm": registry.from_plain(candidate["algorithm"])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = simulate(problem, parse(graph), privacy=privacy, seed=SEED, record_every=0, progress=False, **settings)
    return float(problem.objective(result.model))
