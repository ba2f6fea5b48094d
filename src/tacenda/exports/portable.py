"""A released model as a sum of one term for each column, which any program can compute.

    scores = constant + sum over the columns of term(cell)

A term is a curve of straight lines on knots (a linear coefficient has two of them), a wave, or a
table of levels. What follows from the scores is the `Output`. Every writer starts from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tacenda._types import Array, Floats
from tacenda.data.columns import CategoricalColumn, NumericColumn, Pair
from tacenda.data.schema import Schema
from tacenda.errors import UnsupportedError
from tacenda.evaluation.shapes import Block, blocks
from tacenda.evaluation.units import Units

Kind = Literal["number", "classes", "ordered", "hazards"]
FORMAT = "tacenda-portable-1"


@dataclass(frozen=True, eq=False)
class Curve:
    """What a number adds to each of K scores: straight lines between knots.

    The cell is clipped to [low, high], then log(1 + x) if `log`, then taken modulo `period`. at
    (n,): the knots, rising. values (n, K). atoms (a,): cells with a value of their own, atom_values
    (a, K). missing (K,): of an empty cell; None where there must be none."""

    column: str
    low: float
    high: float
    at: Floats
    values: Floats
    log: bool = False
    period: float | None = None
    atoms: Floats = field(default_factory=lambda: np.zeros(0))
    atom_values: Floats = field(default_factory=lambda: np.zeros((0, 1)))
    missing: Floats | None = None


@dataclass(frozen=True, eq=False)
class Wave:
    """sine * sin(a) + cosine * cos(a), a = 2 pi clip(x, low, high) / period; (K,) each."""

    column: str
    low: float
    high: float
    period: float
    sine: Floats
    cosine: Floats
    missing: Floats | None = None


@dataclass(frozen=True, eq=False)
class Levels:
    """What each level adds, values (L, K). other: of an undeclared level; missing: of an empty
    cell; None where there must be none."""

    column: str
    levels: tuple[str, ...]
    values: Floats
    other: Floats | None = None
    missing: Floats | None = None


Term = Curve | Wave | Levels


@dataclass(frozen=True, eq=False)
class Output:
    """What follows from the scores.

    number: centre + reach * score, of exp(score) if `log`, clipped to [low, high] where declared.
    classes: one score (positive for the second class) or one for each; probabilities where the
    scores are log odds.
    ordered: one score and rising `cuts`; P(class above k) = expit(score - cuts[k]).
    hazards: one score and a `cut` for each period; hazard = expit(score - cuts[t])."""

    kind: Kind
    name: str
    classes: tuple[str, ...] = ()
    probabilities: bool = False
    cuts: Floats = field(default_factory=lambda: np.zeros(0))
    periods: tuple[float, ...] = ()
    units: Units = Units()


@dataclass(frozen=True, eq=False)
class Portable:
    """A model, what it was promised, and where it comes from.

    promise: epsilon, delta and their conditions, as plain values; None without privacy. source: the
    file, its hash, and its signed certificate if it has one."""

    name: str
    terms: tuple[Term, ...]
    constant: Floats
    output: Output
    missing_values: tuple[str, ...] = ()
    promise: dict[str, Any] | None = None
    source: dict[str, Any] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """Numbers, strings, lists and dictionaries only."""
        units = self.output.units
        return {
            "format": FORMAT,
            "name": self.name,
            "promise": self.promise,
            "source": self.source,
            "missing_values": list(self.missing_values),
            "constant": self.constant.tolist(),
            "terms": [_plain(term) for term in self.terms],
            "output": {**_plain(self.output), "units": units._asdict()},
        }


def _plain(part: Any) -> dict[str, Any]:
    names = {Curve: "curve", Wave: "wave", Levels: "levels"}
    found: dict[str, Any] = {"term": names[type(part)]} if type(part) in names else {}
    for name in part.__dataclass_fields__:
        value = getattr(part, name)
        if name != "units":
            found[name] = value.tolist() if isinstance(value, np.ndarray) else value
    for name in ("low", "high"):  # a number without bounds: JSON has no infinity
        if name in found and not np.isfinite(found[name]):
            found[name] = None
    return found


# ---- from a schema
def terms_of(schema: Schema, weights: Array) -> tuple[tuple[Term, ...], Floats]:
    """(terms, constant (K,)) of weights (K, p) on rows that the schema encodes."""
    if schema.shortened_by > 1.0:
        raise UnsupportedError(
            f"schema {schema.name!r} shortens rows to row_norm = {schema.row_norm:g}, so a cell's "
            "effect depends on all others and no other program can predict; learn the model "
            "without row_norm."
        )
    own = np.asarray(weights, float) / schema.row_scale
    return tuple(_terms(schema, own)), own[:, -1] if schema.intercept else np.zeros(len(own))


def _terms(schema: Schema, weights: Floats) -> Iterator[Term]:
    at = 0
    for block in blocks(schema):
        part, own = block.part, weights[:, at : at + block.width]
        at += block.width
        if isinstance(part, Pair):
            raise UnsupportedError(
                f"the pair {part.name!r} is a surface, which only `--to sklearn` of an exported "
                "estimator can write; learn the model without pairs."
            )
        if isinstance(part, CategoricalColumn):
            yield _levels(schema, part, own)
        else:
            yield _number(schema, block, part, own)


def _levels(schema: Schema, column: CategoricalColumn, own: Floats) -> Levels:
    count = len(column.levels)
    other = own[:, count] if column.unknown == "column" else None
    missing = own[:, -1] if column.missing_indicator else None
    if missing is None and schema.missing == "impute" and column.impute is not None:
        missing = own[:, column.levels.index(column.impute)]
    return Levels(column.name, column.levels, own[:, :count].T, other, missing)


def _number(schema: Schema, block: Block, column: NumericColumn, own: Floats) -> Curve | Wave:
    missing = None
    if column.missing_indicator:
        missing = block.step_rows()[-1] @ own.T
    elif schema.missing == "impute" and column.impute is not None:
        rows = column.encoded(np.array([column.impute]))
        missing = rows[0] @ own[:, : rows.shape[1]].T
    name, low, high = column.name, column.low, column.high
    log = column.transform == "log1p"
    basis = column.basis
    if basis is not None:
        x, values = basis.knots, basis.smoother @ own[:, : len(basis.knots)].T
        if column.period is not None:
            x, values = np.append(x, x[0] + column.period), np.vstack([values, values[:1]])
        atoms = np.array(column.atoms)
        steps = own[:, len(basis.knots) : len(basis.knots) + len(atoms)].T
        return Curve(name, low, high, x, values, log, column.period, atoms, steps, missing)
    if column.transform == "cyclic":
        assert column.period is not None
        return Wave(name, low, high, column.period, own[:, 0], own[:, 1], missing)
    ends = np.array([low, high])
    values = column.encoded(ends) @ own[:, :1].T
    return Curve(name, low, high, np.log1p(ends) if log else ends, values, log, missing=missing)


def lines_of(
    names: tuple[str, ...], weights: Floats, low: Floats | None, high: Floats | None
) -> tuple[Curve, ...]:
    """Terms of weights (K, p) on raw numbers, clipped to bounds where there are any."""
    found = []
    for j, name in enumerate(names):
        a, b = (-np.inf, np.inf) if low is None or high is None else (low[j], high[j])
        ends = np.array([a, b]) if np.isfinite(a) and np.isfinite(b) and a < b else np.array([0, 1])
        found.append(
            Curve(name, float(a), float(b), ends.astype(float), np.outer(ends, weights[:, j]))
        )
    return tuple(found)
