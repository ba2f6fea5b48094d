"""Chains of every built-in loss, and of trainings with tables beside: a loss without an example
here fails the test, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from chain_cases import Case
from chain_scenes import BOTH, PERSON, RECORD, Family, Pair, Scene, objectives, slopes, squares
from tacenda.algorithms import DPDDA, Tabled, TreeGD, Whitened
from tacenda.algorithms.base import Algorithm
from tacenda.auditing.stage import FAR_COSINE, FAR_MARGIN, beside_start
from tacenda.losses import NegativeBinomial, Poisson
from tacenda.losses.registry import BUILT_IN
from tacenda.questions.tables import ColumnCells, Tables, rows_of

X = np.array([1.0, 0.0])
AROUND = {"data_norm": 1.0, "strength": 0.01, "regulariser": "l2"}


def _numbers(loss: Any, low: float, high: float, **settings: object) -> Family:
    """Labels at both ends, and rows in opposite directions."""
    pairs = (Pair("both labels", X, low, X, high), Pair("both rows", X, high, -X, high))
    how = {"loss": loss, "clip_norm": 0.5, **AROUND, **settings}
    return Family(how, pairs, (np.zeros(2), 0.0), None, None)


def _cells(loss: str, cells: int, questions: int, asked: tuple[int, int]) -> Family:
    """Two outcomes of a record whose last feature is the constant; and two records of one outcome,
    on either side of a start far out, all of whose rows pull one way."""
    small = np.array([0.1])
    start = np.zeros(2 + questions)
    start[0] = FAR_MARGIN / FAR_COSINE
    sides = beside_start(start[:2], 0.99, np.array([0.0, 1.0]))
    assert sides is not None
    # A high class at a low score, or no event at a high one: all slopes are at their bound
    turned = -1.0 if loss == "discrete-hazard" else 1.0
    x, y = (np.concatenate([turned * one, small]) for one in sides)
    first, last = asked
    pairs = (Pair("two outcomes", x, first, x, last), Pair("two rows", x, last, y, last))
    how = {"loss": loss, **AROUND, "strength": 1e-9}
    return Family(how, pairs, (np.zeros(3), 0), start, tuple(range(cells)))


def _classes(loss: str) -> Family:
    pair = Pair("two classes", X, 0, X, 2)
    return Family({"loss": loss, **AROUND}, (pair,), (np.zeros(2), 1), None, (0, 1, 2))


def _far() -> Family:
    """Logistic slopes are near their bound only far from 0."""
    far = objectives()
    return replace(far, settings={"loss": "logistic", **AROUND, "strength": 1e-9})


EXAMPLES: dict[str, Callable[[], Family]] = {
    "squared": squares,
    "absolute-deviation": lambda: _numbers("absolute-deviation", -1.0, 1.0),
    "huber": lambda: _numbers("huber", -3.0, 3.0),
    "quantile": lambda: _numbers("quantile", -3.0, 3.0),
    "smoothed-quantile": lambda: _numbers("smoothed-quantile", -3.0, 3.0),
    "poisson": lambda: _numbers(Poisson(12.0), 0.0, 12.0),
    "negative-binomial": lambda: _numbers(NegativeBinomial(12.0), 0.0, 12.0),
    "logistic": _far,
    "hinge": lambda: slopes("hinge", 1.0),
    "smoothed-hinge": lambda: slopes("smoothed-hinge", 1.0),
    "multinomial": lambda: _classes("multinomial"),
    "multiclass-hinge": lambda: _classes("multiclass-hinge"),
    "ordinal": lambda: _cells("ordinal", 3, 2, (0, 2)),
    "discrete-hazard": lambda: _cells("discrete-hazard", 5, 2, (0, 4)),
}
ASKED = Tables(((2, (ColumnCells(3, (), False, 1.0), ColumnCells(0, (0.5,), True, 1.0)), 1.0),))


def with_tables(family: Family) -> Family:
    """The records with rows of a table beside them, the unit's at its ends."""
    group, level, place = np.array([0, 0, 1]), np.array([0, 0, 2]), np.array([0.0, 0.0, 0.573])
    rows = ASKED.together([rows_of(ASKED.sums[0], group, [level, place])])
    return replace(family, beside=(rows[0], rows[2], rows[1]))


def cases() -> list[Case]:
    """Each loss under masks and with noise of its own, whitened or not, for records and persons;
    then tables beside two of them."""
    missing = sorted(set(BUILT_IN) - set(EXAMPLES))
    assert not missing, f"give the losses {missing} an example in chain_losses.EXAMPLES"
    ways: list[tuple[Algorithm, Scene, int]] = [
        (TreeGD(), Scene(), 2),
        (DPDDA(), Scene(RECORD, "add-remove", 5, weighted=True), 1),
        (Whitened(TreeGD()), Scene(PERSON, "add-remove"), 1),
        (DPDDA(), Scene(BOTH, "add-remove", 5), 1),
        (Whitened(TreeGD()), Scene(RECORD, "replace-one", 1, sparse=True), 1),
    ]
    found = []
    for name, make in EXAMPLES.items():
        for k, (algorithm, scene, groups) in enumerate(ways):
            case = Case(f"loss {name}", algorithm, scene, family=make(), groups=groups)
            found.append(replace(case, blocks=1 + 5 * (k % 2)))
    beside: list[tuple[str, Algorithm, Scene]] = [
        ("logistic", TreeGD(), Scene()),
        ("logistic", Whitened(TreeGD()), Scene(PERSON, "add-remove", 5)),
        ("squared", Whitened(TreeGD()), Scene()),
        ("ordinal", Whitened(TreeGD()), Scene(RECORD, "add-remove", 5)),
        ("discrete-hazard", TreeGD(), Scene()),
        ("multinomial", DPDDA(), Scene(PERSON, "add-remove")),
        ("poisson", DPDDA(), Scene(RECORD, "add-remove", weighted=True)),
    ]
    for name, algorithm, scene in beside:
        family = with_tables(EXAMPLES[name]())
        made = Tabled(algorithm, ASKED, 0.3)
        found.append(Case(f"tables beside {name}", made, scene, family=family))
    return found
