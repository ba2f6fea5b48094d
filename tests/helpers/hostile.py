"""Hostile floats: from bytes to a query of two neighbouring data sets, and how far its answer moved
against what was declared.

Hypothesis and the fuzzer share this: both make bytes, `case_of` makes a case of any bytes at all,
and `excess` judges it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from scipy import sparse

import tacenda as tc
from custom_parts import log_cosh, steep_margin
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_parts
from tacenda.questions.facts import Facts
from tacenda.questions.queries import NEAR, Queries

NAN, INF, MOST, LEAST = float("nan"), float("inf"), 1.7976931348623157e308, 5e-324
HOSTILE = (
    NAN,
    INF,
    -INF,
    MOST,
    -MOST,
    1.79e308,
    -1.79e308,
    1e300,
    -1e300,
    1e200,
    1.3e154,
    1e154,
    -1e154,
    1e39,
    3.4e38,
    -3.4e38,
    1e17,
    1e17 + 16,
    1e9,
    -1e9,
    1e9 + 0.5,
    1e4,
    -1e4,
    45.0,
    1.0,
    -1.0,
    0.5,
    0.1,
    -0.3,
    1e-8,
    1e-38,
    1e-45,
    1e-154,
    -1e-160,
    2.3e-308,
    1e-310,
    LEAST,
    -LEAST,
    0.0,
    -0.0,
)
LOSSES: tuple[tuple[Any, dict[str, Any]], ...] = (
    ("logistic", {}),
    ("multinomial", {}),
    ("hinge", {}),
    ("smoothed-hinge", {}),
    ("squared", {"clip_norm": 0.5}),
    (tc.losses.Huber(0.7), {}),
    ("absolute-deviation", {}),
    ("multinomial", {"clip_norm": 0.4}),
    ("logistic", {"clip_norm": 0.2}),
    (tc.losses.Huber(100.0), {"clip_norm": 0.01, "data_norm": 50.0}),
    ("squared", {"clip_norm": 1e-6, "data_norm": 1e6}),
    ("multiclass-hinge", {}),
    (tc.losses.MulticlassHinge(1e-6), {"clip_norm": 0.4}),
    (log_cosh(), {}),
    (steep_margin(), {"data_norm": 20.0}),
    (tc.losses.Poisson(3.0), {}),
    (tc.losses.Poisson(1e6), {"data_norm": 50.0, "clip_norm": 0.1}),
    (tc.losses.NegativeBinomial(3.0, 0.5), {}),
    (tc.losses.NegativeBinomial(0.1, 1e-6), {"data_norm": 20.0}),
    (tc.losses.Quantile(0.9), {}),
    (tc.losses.SmoothedQuantile(0.1, 1e-6), {}),
)
BOUNDS = (1.0, 3.0, 100.0, 1e-6)  # of weights
QUESTIONS = ("gradient", "batch", "lattice", "argmin", "kernel", "kernel batch", "kernel lattice")
GRID = 2.0**-24


class Bytes:
    """Reads choices and floats off bytes; when they run out it goes on with zeros."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        self._at += count
        return part + bytes(count - len(part))

    def choose(self, options: Any) -> Any:
        return options[self.take(1)[0] % len(options)]

    def number(self) -> float:
        """From the table of nasty ones, an ordinary one, or any eight bytes."""
        kind = self.take(1)[0]
        if kind < 120:
            return HOSTILE[kind % len(HOSTILE)]
        if kind < 200:
            return (self.take(1)[0] - 128) / 40.0
        return float(struct.unpack("<d", self.take(8))[0])

    def numbers(self, *shape: int) -> Any:
        return np.array([self.number() for _ in range(int(np.prod(shape)))]).reshape(shape)


@dataclass(frozen=True)
class Case:
    loss: Any
    settings: dict[str, Any]
    question: str
    dtype: Any
    csr: bool
    relation: str
    cut: bool  # many tasks and threads, as on a large table
    x: Any
    y: Any
    other: tuple[Any, Any]
    w: Any
    linear: Any
    quadratic: float
    strength: float = 0.1
    classes: Any = field(default=None)
    weights: Any = field(default=None)  # of all records and the other one
    weight_bound: float = 1.0


def case_of(data: bytes, weighted: bool = False) -> Case:
    """Any bytes are a case; weighted: of records with weights."""
    read = Bytes(data)
    loss, settings = read.choose(LOSSES)
    kind = tc.losses.by_name(loss).kind
    question, dtype = read.choose(QUESTIONS), read.choose((np.float64, np.float64, np.float32))
    if question == "argmin" and ("clip_norm" in settings or not tc.losses.by_name(loss).smooth):
        question = "gradient"
    csr = read.choose((False, True))
    relation = read.choose(("replace-one", "add-remove"))
    cut = read.choose((False, True))
    quadratic, strength = read.choose((0.5, 20.0, 1e-3, 300.0)), read.choose((0.1, 0.0, 1e-9, 5.0))
    m, p = 2 + read.choose(range(5)), 1 + read.choose(range(4))
    outputs = 3 if kind == "multiclass" else 1
    w, linear = read.numbers(1, p * outputs), read.numbers(1, p * outputs)
    rows, labels = _records(read, m + 1, p, kind, dtype)
    if kind == "regression":  # labels of counts have bounds
        labels = np.clip(labels, *tc.losses.by_name(loss).label_range)
    weight_bound = read.choose(BOUNDS) if weighted else 1.0
    weights = _weights(read, m + 1, weight_bound) if weighted else None
    classes = {"binary": (-1, 1), "multiclass": (0, 1, 2), "regression": None}[kind]
    return Case(
        loss,
        settings,
        question,
        dtype,
        csr,
        relation,
        cut,
        rows[:m],
        labels[:m],
        (rows[m:], labels[m:]),
        w,
        linear,
        quadratic,
        strength,
        classes,
        weights,
        weight_bound,
    )


def _weights(read: Bytes, count: int, bound: float) -> Any:
    """What a Problem accepts: every float from 0 to the bound, both ends among them."""
    chosen = (bound, 0.0, np.nextafter(bound, 0), LEAST, bound / 3, -0.0)
    return np.array([read.choose(chosen) for _ in range(count)])


def _records(read: Bytes, count: int, p: int, kind: str, dtype: Any) -> tuple[Any, Any]:
    """What a Problem accepts (it refuses NaN and infinity): rows of any finite size, which it
    scales down, and any labels."""
    most = 1e150 if dtype == np.float64 else 1e25
    rows = np.clip(np.nan_to_num(read.numbers(count, p)), -most, most).astype(dtype)
    if kind == "regression":
        return rows, np.nan_to_num(read.numbers(count))
    return rows, np.array(
        [read.choose((-1, 1) if kind == "binary" else (0, 1, 2)) for _ in range(count)]
    )


def problems(case: Case) -> tuple[Any, Any]:
    """The data set, and its neighbour."""
    replaced = (
        np.vstack([case.x[:-1], case.other[0]]),
        np.concatenate([case.y[:-1], case.other[1]]),
    )
    m, weights = len(case.x), case.weights
    mine = others = None
    if weights is not None:
        mine = weights[:m]
        others = np.append(weights[: m - 1], weights[m:])
        others = others if case.relation == "replace-one" else weights[: m - 1]
    pair = (
        (case.x, case.y, mine),
        (*replaced, others)
        if case.relation == "replace-one"
        else (case.x[:-1], case.y[:-1], others),
    )
    with (
        mock.patch("tacenda.questions.store.table._TASK_ELEMENTS", 2 if case.cut else 1 << 17),
        mock.patch("tacenda.questions.store.table._TASK_RECORDS", 1 if case.cut else 64),
    ):
        return tuple(_problem(case, *part) for part in pair)


def _problem(case: Case, x: Any, y: Any, weights: Any) -> Any:
    table = sparse.csr_matrix(x) if case.csr else x
    return tc.Problem(
        [(table, y)],
        loss=case.loss,
        strength=case.strength,
        on_large_rows="scale",
        classes=case.classes,
        public_sizes=float(len(case.x)),
        weights=None if weights is None else [weights],
        weight_bound=case.weight_bound,
        **case.settings,
    )


def answer(case: Case, data: Any) -> tuple[Any, Any, float]:
    """(secret part in long double or whole numbers, public part,
    declared sensitivity of the secret part)."""
    facts, one = Facts.of(data, case.relation), np.array([0])
    queries = Queries(data.store, data.sizes, one, facts, SimulatedNoise(3))
    w, clip = case.w.astype(case.dtype), facts.constants.clip_norm
    bound, batch = facts.gradient_sensitivity()[0], 2.0
    if case.question == "kernel":
        return data.store.gradient(one, w, clip, False), None, bound
    if case.question == "kernel batch":
        drawn = SimulatedNoise(3).poisson_records(one, 1, 0, data.sizes, np.array([0.7]))
        return (
            data.store.batch_gradient(one, w, *drawn, np.array([batch]), clip, False),
            None,
            facts.gradient_sensitivity(2)[0],
        )
    if "lattice" in case.question:
        found = lattice(queries, data, w) if case.question == "lattice" else None
        if found is None:
            whole = data.store.integer_gradient(one, w, GRID, facts.constants.gradient_bound)
            return whole, None, bound * len(case.x) / (facts.constants.loss_scale * GRID)
    elif case.question == "argmin":
        found = queries.argmin(case.linear.astype(case.dtype), np.full((1, 1), case.quadratic), w)
    else:
        found = queries.gradient(w, 1, 0, 2 if case.question == "batch" else None, False, True)
    core, factor, offset = open_parts(found)
    return core, offset, float(found.sensitivity[0] / np.abs(np.asarray(factor)).reshape(-1)[0])


def lattice(queries: Queries, data: Any, w: Any) -> Any:
    from tacenda.questions.lattice import LatticeQueries

    own = LatticeQueries(
        data.store, data.sizes, np.array([0]), queries.facts, SimulatedNoise(3), GRID
    )
    return own.gradient(w, 1, 0, None, False, True)


def excess(case: Case) -> float:
    """How far one record moved the answer, over what was declared (with floating point's stated
    slack, none on the lattice).

    Also checks what must not depend on the records: the declared sensitivity and the public part of
    the answer.
    """
    first, second = problems(case)
    steps = Facts.of(first, case.relation).solver_steps(np.full((1, 1), case.quadratic))
    if case.question == "argmin" and steps > Facts.MOST_STEPS:
        return 0.0  # refused by public numbers, before a record is read
    with (
        mock.patch("tacenda.threads.PARALLEL_ELEMENTS", 1 if case.cut else 1 << 18),
        mock.patch("tacenda.threads._cores", return_value=2),
        np.errstate(all="ignore"),
    ):
        (a, shift, bound), (b, other_shift, other_bound) = answer(case, first), answer(case, second)
    assert bound == other_bound and np.isfinite(bound)
    assert (shift is None) == (other_shift is None) and (
        shift is None or np.array_equal(shift, other_shift, equal_nan=True)
    )
    assert np.isfinite(a).all() and np.isfinite(b).all()
    if a.dtype.kind == "i":
        square = sum((int(u) - int(v)) ** 2 for u, v in zip(a[0], b[0], strict=True))
        return float(square**0.5 / bound)
    moved = float(np.linalg.norm((a.astype(np.longdouble) - b.astype(np.longdouble)).astype(float)))
    return moved / (bound * (1 + 1e-9) + slack(case, Facts.of(first, case.relation)))


def slack(case: Case, facts: Facts) -> float:
    """What rounding may add (docs/decisions/0011): a few units in the last place of the sums of m
    records, and of r R'(w)."""
    if case.question == "argmin":
        return 0.0  # the tolerance is charged, and rounding is inside it
    k, unit = facts.constants, 2.0**-53 if case.dtype == np.float64 else 2.0**-24
    near = (
        k.strength * NEAR[np.dtype(case.dtype)] * np.sqrt(facts.dim)
        if case.question in ("gradient", "batch")
        else 0.0
    )
    return float(unit * (4 * (len(case.x) + 8) * k.gradient_bound * k.loss_scale + 2 * near))
