"""Small problems, graphs and doors for the tests of the core."""

from __future__ import annotations

import ast
import math
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms.base import Algorithm
from tacenda.errors import ConvergenceWarning
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.door import Door
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.privacy.secrets.noise_plan import ScaledPlan
from tacenda.questions.facts import Facts
from tacenda.questions.queries import Queries
from tacenda.runtime.assemble import Placed, Records, assemble, connect, open_door
from tacenda.runtime.block import Block
from tacenda.runtime.host import Exits, Seat
from tacenda.runtime.local import LocalHosts
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.spec import RunSpec
from tacenda.terms.method import Method

A = tc.algorithms


def shards(
    sizes: list[int],
    p: int = 4,
    seed: int = 0,
    *,
    task: str = "binary",
    noise: float = 0.3,
    dtype: Any = float,
) -> list[tuple[Any, Any]]:
    """Random records in the unit ball with a linear truth behind their labels; `task` binary,
    classes or regression."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(3, p))
    found = []
    for m in sizes:
        x = rng.normal(size=(m, p))
        x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-9))
        score = x @ truth.T + noise * rng.normal(size=(m, 3))
        y: Any = score[:, 0]
        if task == "binary":
            y = np.where(score[:, 0] > 0, "yes", "no")
        elif task == "classes":
            y = score.argmax(axis=1)
        found.append((x.astype(dtype), y))
    return found


def uneven(n: int, seed: int = 0, low: int = 8, high: int = 40) -> list[int]:
    """n different node sizes."""
    return [int(m) for m in np.random.default_rng(seed).integers(low, high, size=n)]


def problem(n: int = 6, p: int = 4, seed: int = 0, *, task: str = "binary", **settings: Any) -> Any:
    """A small problem with uneven nodes; logistic with l2 of strength 0.1 unless told otherwise."""
    chosen = {"strength": 0.1, **settings}
    return tc.Problem(shards(uneven(n, seed), p, seed, task=task), classes=_classes(task), **chosen)


def _classes(task: str) -> Any:
    return {"binary": ("no", "yes"), "classes": (0, 1, 2), "regression": None}[task]


# Every algorithm with settings that converge in a few hundred rounds on small problems.
TUNED: dict[str, Algorithm] = {
    "admm": A.ADMM(penalty=0.1),
    "madmm": A.MADMM(penalty=0.1),
    "dvp": A.DVP(penalty=0.1),
    "pvp": A.PVP(penalty=0.1),
    "radmm": A.RADMM(penalty=0.1, recycle_proximal=0.2),
    "dpadmm": A.DPADMM(penalty=0.2, proximal=0.3),
    "ipadmm": A.IPADMM(penalty=0.1, proximal=0.3, inner_steps=3),
    "ddpadmm": A.DDPADMM(penalty=0.1, proximal=0.3),
    "cdpadmm": A.CDPADMM(penalty=0.1, proximal=0.3),
    "dda": A.DDA(),
    "dpdda": A.DPDDA(offset=0.0),
    "gossipgd": A.GossipGD(step_size=1.0),
    "treegd": A.TreeGD(),
    "optimum": A.Optimum(),
}

# Methods of every kind of question and noise, on whitened records.
WHITENED: dict[str, Algorithm] = {
    f"whitened {name}": A.Whitened(TUNED[name])
    for name in ("treegd", "gossipgd", "ipadmm", "ddpadmm", "cdpadmm", "dpdda", "pvp", "dvp")
}
WHITENED |= {
    f"whitened {name}, diagonal": A.Whitened(TUNED[name], tc.Whitening(kind="diagonal"))
    for name in ("treegd", "cdpadmm", "ddpadmm")
}

# Those that serve the squared loss alone; tests/algorithms/test_moment_regression.py has them.
LEAST_SQUARES = ("moments",)

GAUSSIAN = ("dpadmm", "ipadmm", "ddpadmm", "cdpadmm", "dda", "dpdda", "gossipgd")
PURE = ("madmm", "dvp", "pvp", "radmm")


def privacy_for(name: str, level: float = 1.0) -> Any:
    """A budget by its noise, so that no test waits for a calibration:
    z = 1/level, or `level` a round. Of whitened runs a large one, since half the noise would hide
    all."""
    if name in WHITENED and name.split()[1].rstrip(",") not in PURE:
        return tc.Privacy(epsilon=20.0 * level)
    name = name.removeprefix("whitened ")
    # Noise shared by neighbours has no multiplier of one node; its calibration is quick
    if name in ("gossipgd", "treegd"):
        return tc.Privacy(epsilon=level)
    if name in GAUSSIAN:
        return tc.Privacy.from_noise(noise_multiplier=1.0 / level)
    return None if name in ("admm", "optimum") else tc.Privacy.from_noise(round_epsilon=level)


def graph_for(name: str, n: int = 6) -> Any:
    """A graph that the algorithm can use."""
    return tc.graph.star(n) if name == "dpadmm" else tc.graph.ring(n)


def run_spec(
    algorithm: Any,
    topology: Any,
    facts: Facts,
    rounds: int,
    privacy: Any = None,
    output: str | None = None,
    *,
    row_type: Any = np.float64,
    **settings: Any,
) -> RunSpec:
    """A run as tests write it: the algorithm and its rounds first."""
    method = Method.of(algorithm, rounds=rounds, output=output, **settings)
    return RunSpec(method, topology, facts, privacy, row_type)


def simulate(*arguments: Any, **settings: Any) -> Any:
    """`tc.simulate` without curves; conditions that suffice for convergence need not hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return tc.simulate(*arguments, **{"record_every": 0, **settings})


def make_block(
    data: Any,
    *,
    scale: float | None = None,
    rounds: int = 50,
    seed: int = 0,
    adjacency: str = "replace-one",
    reserved: Any = None,
    source: Any = None,
    ledger: Any = None,
) -> tuple[Block, Door, Ledger]:
    """A block of all nodes of a problem on a ring, with its door and ledger;
    scale=None is a run without noise."""
    n = data.n_nodes
    topology = tc.graph.Topology.of(
        tc.graph.ring(n) if n > 2 else tc.graph.path(n) if n > 1 else tc.graph.complete(1)
    )
    nodes = np.arange(n)
    source = SimulatedNoise(seed) if source is None else source
    spec = run_spec(A.GossipGD(), topology, Facts.of(data, adjacency), rounds, row_type=data.dtype)
    plan = None if scale is None else ScaledPlan(np.full(n, float(scale)), spec.weights)
    ledger = Ledger(reserved) if ledger is None else ledger
    seat, records = Seat(spec, nodes, plan), Records(data.store, data.sizes, nodes, source)
    door = open_door(seat, records, ledger)
    network = connect(spec, Placed(topology, [nodes]))
    questions = Queries(data.store, data.sizes, nodes, spec.facts, source)
    host = assemble(seat, questions, Exits(door, network), np.zeros((n, data.dim)))
    host.block.start(1)
    return host.block, door, ledger


def listened(
    spec: RunSpec, data: Any, start: Any, rounds: int, seed: int = 4
) -> tuple[list[Any], list[Any], LocalHosts]:
    """(the state after each round, what each release gave, the hosts) of a run on one block."""
    released: list[Any] = []
    honest = Door.release

    def listening(self: Door, *asked: Any) -> Any:
        released.append(np.array(honest(self, *asked)))
        return released[-1]

    states = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Door, "release", listening)
        shards = LocalShards(data, [np.arange(data.n_nodes)])
        hosts = LocalHosts(spec, shards, SimulatedNoise(seed), start)
        for turn in range(1, rounds + 1):
            hosts.step(turn)
            states.append(hosts._hosts[0].state)
    return states, released, hosts


def packed_matrix(row: Any, width: int) -> Any:
    """The symmetric matrix of a packed row, entry by entry."""
    matrix, place = np.zeros((width, width)), 0
    for a in range(width):
        for b in range(a, width):
            matrix[a, b] = matrix[b, a] = row[place] / (1 if a == b else math.sqrt(2))
            place += 1
    return matrix


def same_statement(a: Any, b: Any) -> bool:
    """Whether two runs charged the same to every node, in the same order."""
    if a is None or b is None:
        return a is b
    left, right = list(a.charges), list(b.charges)
    return len(left) == len(right) and all(
        ca.kind is cb.kind
        and na == nb
        and all(np.array_equal(v, cb.parameters[k]) for k, v in ca.parameters.items())
        for (ca, na), (cb, nb) in zip(left, right, strict=True)
    )


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Names of the functions at the top of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
