"""Pairs of neighbouring problems on which one unit moves every answer as far as it may.

A scene has a few nodes of unequal declared sizes. The records beside the unit's are zeros, which
move nothing; the unit's are at the bound, so that slopes stay at theirs. Under add-remove the
second problem lacks the unit; under replace-one it has another one there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

import tacenda as tc
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.whitened import Whitened
from tacenda.auditing.stage import FAR_COSINE, FAR_MARGIN, beside_start

HOUSE = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 2), (0, 5)])  # node 5 is a leaf
STAR = nx.star_graph(5)
SMALL = 1e-3  # of records behind gradients: their margins hardly move
OTHERS = (4, 2, 5, 3, 6, 3)  # records of zeros of each node
WEIGHT_BOUND = 2.5


@dataclass(frozen=True)
class Unit:
    """Whose data the promise is about: `records` of each of `members` nodes; exactly: everybody has
    as many, so that replace-one holds for them."""

    name: str
    records: int = 1
    members: int = 1
    exactly: bool = False


RECORD = Unit("record")
PERSON = Unit("person, 3 records", 3)
ROWS = Unit("record of 2 rows", 2, exactly=True)
TRAVELLER = Unit("person at 3 nodes", 1, 3)
BOTH = Unit("person, 2 records at 2 nodes", 2, 2)
UNITS = (RECORD, PERSON, ROWS, TRAVELLER, BOTH)
RELATIONS = ("replace-one", "add-remove")


def allowed(unit: Unit, relation: str) -> bool:
    """Persons with several records are add-remove, unless all have exactly as many."""
    several = unit.records * unit.members > 1
    return not several or (relation == "replace-one") == unit.exactly


@dataclass(frozen=True)
class Pair:
    """The unit's record in the first problem and in the second: rows (p,) and labels."""

    name: str
    x: np.ndarray
    y: float
    x_other: np.ndarray
    y_other: float


@dataclass(frozen=True)
class Family:
    """Problems of one kind: settings of `Problem`, a filling record, and the pairs to try."""

    settings: dict[str, Any]
    pairs: tuple[Pair, ...]
    filler: tuple[np.ndarray, float]
    start: np.ndarray | None = None
    classes: tuple[Any, ...] | None = (-1, 1)
    # Of tables beside a training: the rows of a filling record, and of the unit's two
    beside: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Scene:
    """Everything that is varied about the records. at: the first node of the unit;
    public_size: that is declared for all nodes."""

    unit: Unit = RECORD
    relation: str = "replace-one"
    at: int = 1
    weighted: bool = False
    sparse: bool = False
    public_size: int | None = None

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple((self.at + 2 * k) % len(OTHERS) for k in range(self.unit.members))


def _axis(size: float, k: int = 0, p: int = 2) -> np.ndarray:
    found = np.zeros(p)
    found[k] = size
    return found


def slopes(loss: str, norm: float, p: int = 2, **settings: Any) -> Family:
    """Two labels of one record, whose slopes pull at their bound in opposite directions; and for
    second moments two records at right angles."""
    x = _axis(norm, 0, p)
    pairs = [Pair("both labels", x, -1, x, 1)]
    if p > 1:
        pairs.append(Pair("at right angles", x, 1, _axis(norm, 1, p), 1))
    every = {"loss": loss, "data_norm": norm, "strength": 0.01, "regulariser": "l2", **settings}
    return Family(every, tuple(pairs), (np.zeros(p), -1))


def objectives(strength: float = 1e-9) -> Family:
    """Logistic slopes are near their bound only far out: the start lies there."""
    start = _axis(FAR_MARGIN / FAR_COSINE)
    sides = beside_start(start, 1.0, _axis(1.0, 1))
    assert sides is not None
    pair = Pair("either side of the start", sides[0], 1, sides[1], 1)
    settings = {"loss": "logistic", "data_norm": 1.0, "strength": strength, "loss_scale": 0.01}
    return Family({**settings, "regulariser": "l2"}, (pair,), (np.zeros(2), -1), start)


def squares() -> Family:
    """Least squares: clipped slopes in opposite directions, and rows (x, s y) at right angles."""
    x = _axis(1.0)
    pairs = (
        Pair("both labels", x, -1.0, x, 1.0),
        Pair("at right angles", x, 1.0, _axis(1.0, 1), 0.0),
        Pair("at right angles with labels", x, 1.0, -x, 1.0),
    )
    settings = {"loss": "squared", "clip_norm": 0.05, "strength": 0.01, "data_norm": 1.0}
    return Family({**settings, "regulariser": "l2"}, pairs, (np.zeros(2), 0.0), None, None)


def family_of(algorithm: Algorithm) -> Family:
    """The scene that shows the most of an algorithm, by what it needs."""
    inner = algorithm.algorithm if isinstance(algorithm, Whitened) else algorithm
    needs = inner.needs
    norm = 1.0 if isinstance(algorithm, Whitened) else SMALL
    if needs.squared_loss:
        return squares()
    if inner.traits.noise_in_objective:
        return objectives()
    if needs.smooth_loss:
        return slopes("smoothed-hinge", 1.0, loss_scale=0.01)
    if inner.traits.sample == "one":
        family = slopes("hinge", norm)
        first = family.pairs[0]
        return replace(family, filler=(first.x, first.y))
    return slopes("smoothed-hinge" if needs.bounded_curvature else "hinge", norm)


def problems(family: Family, pair: Pair, scene: Scene) -> tuple[Any, Any, Any, dict[int, list]]:
    """(first, second, the one without the unit, {node: the unit's records})."""
    k, unit = scene.unit.records, scene.unit
    replaced = scene.relation == "replace-one"

    def made(which: int) -> Any:
        shards, persons, weights, tables = [], [], [], []
        for node, count in enumerate(OTHERS):
            count *= k if unit.exactly else 1
            x = [family.filler[0]] * count
            y = [family.filler[1]] * count
            ids = [f"{node}/{j // k if unit.exactly else j}" for j in range(count)]
            v = [1.0] * count
            if family.beside is not None:
                more_rows = k if node in scene.nodes and (which < 2 or replaced) else 0
                tables += [family.beside[0]] * count + [family.beside[1 + which % 2]] * more_rows
            if node in scene.nodes and which < 2:
                x += [pair.x if which == 0 else pair.x_other] * k
                y += [pair.y if which == 0 else pair.y_other] * k
                ids += ["the person"] * k
                v += [WEIGHT_BOUND] * k
            elif node in scene.nodes and replaced:
                x, y = x + [np.zeros_like(pair.x)] * k, y + [family.filler[1]] * k
                ids, v = ids + ["the person"] * k, v + [WEIGHT_BOUND] * k
            rows: Any = np.array(x)
            if scene.sparse:
                from scipy.sparse import csr_array

                rows = csr_array(rows)
            shards.append((rows, np.array(y)))
            persons.append(np.array(ids))
            weights.append(np.array(v))
        more: dict[str, Any] = {}
        if unit.records * unit.members > 1:
            more = {"persons": persons, "records_per_person": k, "members_per_person": unit.members}
        if not replaced:
            more["public_sizes"] = [scene.public_size or m + k for m in OTHERS]
        if family.beside is not None:
            more["beside"] = np.array(tables)
        if scene.weighted:
            more |= {"weights": weights, "weight_bound": WEIGHT_BOUND}
        whole = tc.Problem(shards, classes=family.classes, **more, **family.settings)
        if unit.exactly:  # as where a loss makes k rows of each record
            whole.exactly = True
        return whole

    first = made(0)
    second = made(1) if replaced else made(2)
    forced = {
        node: [OTHERS[node] * (k if unit.exactly else 1) + j for j in range(k)]
        for node in scene.nodes
    }
    return first, second, made(2), forced
