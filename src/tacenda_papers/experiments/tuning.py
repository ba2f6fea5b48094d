"""Choose a method's settings without touching private data: the same small number of trials for
every method, on generated records.

The generated set has the real one's public shape (nodes, records per node, features) and nothing
else of it. Each method has TRIALS candidates; the one with the lowest objective of the average
model, at the wanted (epsilon, delta), is taken. One noise seed each: this is a budget, not a
search. Where whitened methods stand beside plain ones the generated rows are "steep": on rows that
are alike in all directions there is nothing to whiten.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tacenda import Method, Privacy, Problem, algorithms, checks, simulate
from tacenda.data import make_classification, partition
from tacenda.errors import ConvergenceWarning
from tacenda.graph import Topology, parse
from tacenda.schedules import Geometric, to_plain
from tacenda.terms.setting import given
from tacenda_papers.experiments.generated import steep_rows

TRIALS, SEED, DIFFICULTY = 8, 7, 0.3
# part of every tuned cell: raise it when the candidates change, so that stored runs of older ones
# are not taken for new
TABLE = 3
WHITENED = ", whitened"  # after a method's name
NORM = 0.25
Settings = dict[str, Any]


def _each(
    name: str, turns: tuple[int, ...], choices: list[Settings], **fixed: Any
) -> list[Settings]:
    """Every number of rounds with every choice of hyperparameters."""
    return [
        {"algorithm": {"name": name, **choice, **fixed}, "rounds": rounds}
        for rounds in turns
        for choice in choices
    ]


def _values(field: str, *values: Any) -> list[Settings]:
    return [{field: v} for v in values]


def _weights(degree: float) -> list[Settings]:
    """Two penalties by two proximal weights, so that 2 rho deg + eta is 0.15 .. 0.6: a step of
    1/0.15 is the largest stable one."""
    return [
        {"penalty": weight / (2 * degree), "proximal": eta}
        for weight in (0.1, 0.3)
        for eta in (0.05, 0.3)
    ]


def _multistep(degree: float) -> list[Settings]:
    """IPADMM: 30 rounds of 2 steps or 40 of 5, two proximal weights,
    the average iterate or the last."""
    made = [
        _each(
            "ipadmm",
            (rounds,),
            _values("proximal", 0.05, 0.3),
            penalty=0.1 / (2 * degree),
            inner_steps=steps,
        )
        for rounds, steps in ((30, 2), (40, 5))
    ]
    return [
        {**s, "output": output} for part in made for s in part for output in ("average", "last")
    ]


def _gossip(noise: str, turns: tuple[int, int], mixings: int) -> list[Settings]:
    made = _each(
        "gossipgd", turns, _values("step_size", 1.0, 2.0, 4.0, 7.0), noise=noise, mixings=mixings
    )
    return [{**s, "finish_mixing": 10} for s in made]


def _tree(noise: str, turns: tuple[int, int]) -> list[Settings]:
    """TreeGD, whose steps are in units of one over the smoothness."""
    return _each("treegd", turns, _values("step_size", 0.5, 1.0, 2.0, 4.0), noise=noise)


def _whitened(method: str, degree: float, features: int) -> list[Settings]:
    """A method behind `Whitening`, with its plain settings and a third of the rounds.

    Rows are cut to sqrt(features), so that a mapped direction has about the energy which the plain
    rows' steepest one has, and steps and penalties, which are in units of curvature, mean the same.
    TreeGD needs no such unit: it follows the release.
    """
    inner = candidates(method, degree)
    own = {} if method.startswith("TreeGD") else {"norm": NORM * math.sqrt(features)}
    return [
        {
            **s,
            "algorithm": {"name": "whitened", **own, "algorithm": s["algorithm"]},
            "rounds": math.ceil(s["rounds"] / 3),
        }
        for s in inner
    ]


def candidates(method: str, degree: float, features: int = 1) -> list[Settings]:
    """The TRIALS settings of a method on a graph of that mean degree; a single node has none but
    GossipGD's. features: of a row, for whitened methods."""
    deg = max(degree, 1.0)
    if method.endswith(WHITENED):
        return _whitened(method.removesuffix(WHITENED), degree, features)
    kappas = (0.01, 0.05, 0.3, 1.0)
    exact = _values("penalty", *(kappa / (2 * deg) for kappa in kappas))
    growing = _values("penalty", *(to_plain(Geometric(kappa / (2 * deg), 1.1)) for kappa in kappas))
    known: dict[str, Callable[[], list[Settings]]] = {
        "IPADMM": lambda: _multistep(deg),
        "DDP-ADMM": lambda: _each("ddpadmm", (60, 120), _weights(deg)),
        "CDP-ADMM": lambda: _each("cdpadmm", (60, 120), _weights(deg)),
        "DP-ADMM": lambda: _each("dpadmm", (60, 120), _weights(0.5)),
        "DVP": lambda: _each("dvp", (3, 10), exact),
        "PVP": lambda: _each("pvp", (15, 40), exact),
        "M-ADMM-PP": lambda: _each("madmm", (3, 10), growing),
        "R-ADMM": lambda: _each("radmm", (3, 10), exact),
        # Gaussian noise in the objective, which composes better; and noise on the minimiser
        "DVP, Gaussian": lambda: _each("dvp", (10, 30), exact, noise="gaussian"),
        "M-ADMM-PP, Gaussian": lambda: _each("madmm", (10, 30), growing, noise="gaussian"),
        "R-ADMM, Gaussian": lambda: _each("radmm", (10, 30), exact, noise="gaussian"),
        "R-ADMM, output": lambda: _each("radmm", (15, 40), exact, perturb="output"),
        "DDA": lambda: _each("dda", (60, 120), _values("offset", 0.15, 0.5, 2.0, 8.0)),
        "DP-DDA": lambda: _each("dpdda", (60, 120), _values("offset", 4.0, 15.0, 60.0, 240.0)),
        "GossipGD, independent": lambda: _gossip("independent", (60, 120), 1),
        "GossipGD, correlated": lambda: _gossip("correlated", (120, 240), 5),
        "TreeGD, independent": lambda: _tree("independent", (60, 120)),
        "TreeGD, masked": lambda: _tree("masked", (60, 120)),
        # The reference lines, with as many rounds as the longest method
        "one node": lambda: _gossip("independent", (120, 240), 1),
    }
    return known[checks.one_of("method", method, known)]()


METHODS = (
    "IPADMM",
    "DDP-ADMM",
    "CDP-ADMM",
    "DP-ADMM",
    "DVP",
    "PVP",
    "M-ADMM-PP",
    "R-ADMM",
    "DVP, Gaussian",
    "M-ADMM-PP, Gaussian",
    "R-ADMM, Gaussian",
    "R-ADMM, output",
    "DDA",
    "DP-DDA",
    "GossipGD, independent",
    "GossipGD, correlated",
)
# Those that stand beside their whitened forms
PAIRED = (
    "IPADMM",
    "CDP-ADMM",
    "PVP",
    "DP-DDA",
    "GossipGD, independent",
    "TreeGD, independent",
    "GossipGD, correlated",
    "TreeGD, masked",
)


def best(
    method: str,
    *,
    nodes: int,
    records: int,
    features: int,
    graph: str,
    problem: Settings,
    privacy: Settings | None,
    rows: str = "flat",
) -> Settings:
    """{"algorithm": plain, "rounds": ..., "finish_mixing": ...} of the best trial; `records` are
    those of one node. rows: "flat", alike in all directions, or "steep"."""
    return dict(
        _best(
            method,
            nodes,
            records,
            features,
            graph,
            json.dumps(problem, sort_keys=True),
            json.dumps(privacy, sort_keys=True),
            checks.one_of("rows", rows, ("flat", "steep")),
        )
    )


@lru_cache(maxsize=512)
def _best(
    method: str,
    nodes: int,
    records: int,
    features: int,
    graph: str,
    problem: str,
    privacy: str,
    rows: str,
) -> Settings:
    if rows == "steep":
        x, y = steep_rows(nodes * records, features, DIFFICULTY, SEED)
    else:
        made = make_classification(nodes * records, features, DIFFICULTY, SEED)
        x, y = made.X, made.y
    stand_in = Problem(partition.even(x, y, nodes), classes=(0, 1), **json.loads(problem))
    budget = None if privacy == "null" else Privacy(**json.loads(privacy))
    tried = candidates(method, float(Topology.of(parse(graph)).degrees.mean()), features)
    scores = [_score(stand_in, graph, candidate, budget) for candidate in tried]
    return tried[int(np.nanargmin(scores))]


def _score(problem: Problem, graph: str, candidate: Settings, privacy: Privacy | None) -> float:
    method = Method(algorithms.from_plain(candidate["algorithm"]), **given(Method, candidate))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = simulate(
            problem,
            parse(graph),
            method,
            privacy=privacy,
            seed=SEED,
            record_every=0,
            progress=False,
        )
    return float(problem.objective(result.model))
