"""What an additive model says: one curve for each number, bars for levels, a map for a pair.

Values are on the scale of the score (log-odds, or the target's own unit), centred: 0 is the mean
over the records, as far as the released second moment tells it, else over the declared range. All
of it is post-processing of what was released, and costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from tacenda._types import Array, Floats
from tacenda.algorithms.whitening import MOMENT_FLOOR, STRENGTH, released_moment
from tacenda.data.basis import products
from tacenda.data.columns import CategoricalColumn, NumericColumn, Pair
from tacenda.data.schema import Schema
from tacenda.evaluation.score_bins import score_spread
from tacenda.losses.stacked import stated_weights
from tacenda.runtime.result import RunResult

POINTS = 101  # of a curve
PAIR_POINTS = 21  # along each side of a map
SHARING_STEPS = 20  # in which variances are shared out over directions
LEAST_MASS = 1e-3  # of a knot, where records are few or the noise hides them


@dataclass(frozen=True, eq=False)
class Shape:
    """What one column, or one pair, adds to the score.

    Attributes
    ----------
    column : str
        Name of the column; "a*b" of a pair.
    kind : str
        "curve", "levels" or "map".
    x : list
        Where the curve is told, in the column's own unit; for a map the two lists of its sides.
    y : ndarray of shape (n_outputs, n_points)
        The centred values there; of a map row by row, the first column's points being the rows.
    noise : ndarray of shape (n_outputs, n_points) or None
        Standard deviation of each value by the privacy noise; None where it is not known.
    steps : list of str
        The levels; of a number those values that have a step of their own: atoms, and missing.
    step_y : ndarray of shape (n_outputs, n_steps)
        Their centred values.
    step_noise : ndarray of shape (n_outputs, n_steps) or None
        Standard deviations of these.
    sampling : ndarray of shape (n_outputs, n_points) or None
        Standard deviation that the choice of the records gives each value, beside the noise; None
        where released numbers do not tell it (they do for two classes).
    step_sampling : ndarray of shape (n_outputs, n_steps) or None
        The same of the steps.
    importance : float
        Standard deviation of what the column adds, over the records; the largest of the outputs.
    typical : ndarray of shape (n_outputs,)
        The score of a typical record, to which all columns add 0.
    """

    column: str
    kind: str
    x: list[Any]
    y: Floats
    noise: Floats | None
    steps: list[str]
    step_y: Floats
    step_noise: Floats | None
    sampling: Floats | None
    step_sampling: Floats | None
    importance: float
    typical: Floats

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for files."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Shape:
        """Read back what `to_plain` wrote."""
        plain = ("column", "kind", "x", "steps", "importance")
        arrays: dict[str, Any] = {
            k: v if k in plain or v is None else np.array(v, float) for k, v in values.items()
        }
        return cls(**arrays)


@dataclass(frozen=True, eq=False)
class Spread:
    """Where the records lie: mean (p,) and covariance (p, p) of the features before their division;
    noise, sampling (K, p, p): covariance of the weights of these by the privacy noise, and by the
    choice of records, or None. told: whether the run's second moment says it, else an even spread
    is assumed."""

    mean: Floats
    covariance: Floats
    noise: Floats | None
    sampling: Floats | None
    told: bool

    @classmethod
    def of(cls, schema: Schema, result: RunResult | None) -> Spread:
        """schema: without a constant, or with; the run's rows have one as their last feature."""
        p, scale = _width(schema), row_scale(schema)
        moment = None if result is None else released_moment(result.released)
        if moment is None or len(moment) != p + 1:
            mean, covariance = _even(schema)
            return cls(mean, covariance, _independent(result, p, scale), None, False)
        whole = moment * scale**2
        mean = whole[:p, p]
        noise, sampling = _joint(result, moment, scale), _sampling(result, moment, scale)
        return cls(mean, whole[:p, :p] - np.outer(mean, mean), noise, sampling, True)


def row_scale(schema: Schema) -> float:
    """By what rows with a constant are divided."""
    return schema.model_copy(update={"intercept": True}).row_scale


def _width(schema: Schema) -> int:
    return len(schema.feature_names) - int(schema.intercept)


def _independent(result: RunResult | None, p: int, scale: float) -> Floats | None:
    if result is None or result.noise_std is None:
        return None
    std = stated_weights(result.settings["problem"], result.noise_std)[:, :p] / scale
    return np.stack([np.diag(own**2) for own in std])


def _joint(result: RunResult | None, moment: Floats, scale: float) -> Floats | None:
    """The noise's covariance: its variances are those that the run forecasts, its directions those
    of the released moment, in which the noise was added.

    variance_j = sum_k V_jk^2 c_k, and the rows and columns of V^2 add up to 1, so the c_k >= 0 are
    found by repeated sharing out (Richardson and Lucy), which keeps them positive. It begins where
    whitened records have the same noise in all directions, c_k in proportion to 1/eigenvalue; a few
    steps keep that where the variances leave it open.
    """
    if result is None or result.noise_std is None:
        return None
    values, vectors = np.linalg.eigh(moment)
    usual = 1 / np.maximum(values, values.max() / 1e6)
    squares, found = vectors**2, []
    for std in np.asarray(result.noise_std, float).reshape(-1, len(moment)):
        along = usual * float((std**2).sum() / usual.sum())
        for _ in range(SHARING_STEPS if std.any() else 0):
            along *= squares.T @ (std**2 / np.maximum(squares @ along, 1e-300))
        found.append(((vectors * along) @ vectors.T)[:-1, :-1] / scale**2)
    return np.stack(found)


def _sampling(result: RunResult | None, moment: Floats, scale: float) -> Floats | None:
    """The covariance by the choice of records of a logistic model of two classes, from what was
    released: A^-1 (c M) A^-1 / n with A = c M + strength and c the mean of p (1 - p) over scores
    that are normal with the moment's mean and variance. The constant is the last feature."""
    about = {} if result is None else result.settings["problem"]
    if result is None or about.get("loss") != "logistic" or np.ndim(result.model) != 1:
        return None
    scores = score_spread(result)
    if scores is None:
        return None
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    at = scores.mean + scores.std * nodes
    curvature = float((expit(at) * expit(-at)) @ weights)
    curvature /= float(weights.sum())
    values, vectors = np.linalg.eigh(moment)
    floor = float(np.ravel(result.released.get(MOMENT_FLOOR, 0.0))[0])
    seen = curvature * np.maximum(values, max(floor, values.max() / 1e6))
    chosen = result.released.get(STRENGTH, about.get("strength") or 0.0)
    strength = float(np.ravel(chosen)[0])
    along = seen / (seen + strength) ** 2 / float(np.sum(about["sizes"]))
    return np.asarray(((vectors * along) @ vectors.T)[None, :-1, :-1] / scale**2)


def _even(schema: Schema) -> tuple[Floats, Floats]:
    """Mean and covariance for records spread evenly over what is declared."""
    mean, covariance, at = np.zeros(_width(schema)), np.zeros((_width(schema),) * 2), 0
    for block in blocks(schema):
        rows, steps = block.grid()[1], block.step_rows()
        rows = rows if len(rows) else steps
        own = slice(at, at + block.width)
        mean[own] = rows.mean(axis=0)
        covariance[own, own] = np.cov(rows.T, bias=True) if len(rows) > 1 else 0.0
        at += block.width
    return mean, covariance


@dataclass(frozen=True)
class Block:
    """The features of one column or pair."""

    part: NumericColumn | CategoricalColumn | Pair
    width: int

    def grid(self) -> tuple[list[Any], Floats]:
        """Points in the column's unit, and the features there; none of a category."""
        part = self.part
        if isinstance(part, Pair):
            sides = [_side(column) for column in (part.first, part.second)]
            n, m = (len(points) for points, _ in sides)
            first, second = np.repeat(sides[0][1], m, axis=0), np.tile(sides[1][1], (n, 1))
            return [sides[0][0], sides[1][0]], products(first, second) @ part.smoother
        if isinstance(part, CategoricalColumn):
            return [], np.zeros((0, self.width))
        x = _points(part, POINTS)
        rows = part.model_copy(update={"atoms": ()}).encoded(x)
        return x.tolist(), np.pad(rows, ((0, 0), (0, self.width - rows.shape[1])))

    def steps(self) -> list[str]:
        """Names of what has a step of its own."""
        part = self.part
        if isinstance(part, Pair):
            return []
        if isinstance(part, CategoricalColumn):
            named = [*part.levels, *(["other"] if part.unknown == "column" else [])]
        else:
            named = [f"{atom:g}" for atom in part.atoms] if part.basis is not None else []
        return [*named, *(["missing"] if part.missing_indicator else [])]

    def step_rows(self) -> Floats:
        """(n_steps, width) their features: indicators, the last ones of the block; a missing number
        may have a public stand-in besides."""
        count = len(self.steps())
        rows = np.eye(self.width)[self.width - count :]
        part = self.part
        if isinstance(part, NumericColumn) and part.missing_indicator and part.impute is not None:
            here = part.encoded(np.array([part.impute]))[0]
            rows[-1, : len(here)] += here
        return rows


def blocks(schema: Schema) -> Iterator[Block]:
    """The blocks of features, in order, without the constant."""
    for column in schema.columns:
        yield Block(column, len(column.features))
    for pair in schema.paired:
        yield Block(pair, len(pair.rules))


def _points(column: NumericColumn, count: int) -> Floats:
    """Points over the declared range, evenly where its knots are, with the breaks."""
    if column.transform == "log1p":
        low, high = np.log1p([column.low, column.high])
        points = np.expm1(np.linspace(low, high, count))
        points[[0, -1]] = column.low, column.high
        return points
    return np.linspace(column.low, column.high, count)


def _side(column: NumericColumn | CategoricalColumn) -> tuple[list[Any], Floats]:
    """One side of a map: points or levels, and the functions there."""
    if isinstance(column, NumericColumn):
        x = _points(column, PAIR_POINTS)
        return x.tolist(), column.hats_at(x, column.pair_basis)
    names = Block(column, len(column.features)).steps()
    return names, np.eye(len(names))


def shapes(
    schema: Schema, coef: Array, spread: Spread, unit: float = 1.0, constant: Any = 0.0
) -> list[Shape]:
    """The shapes of a model, those that matter most first.

    Parameters
    ----------
    schema : Schema
        How cells become features.
    coef : ndarray of shape (n_outputs, n_features)
        Weights of the features before their division by the row scale; those behind the last
        column's, such as a constant's, are not looked at.
    spread : Spread
        Where the records lie, and the noise of the weights.
    unit : float, default=1.0
        What one unit of the learnt score is, for the noise, which is told in learnt units.
    constant : float or ndarray of shape (n_outputs,), default=0.0
        The constant of the score.
    """
    found, at, w = [], 0, np.atleast_2d(coef)
    typical = w[:, : len(spread.mean)] @ spread.mean + np.asarray(constant, float)
    for block in blocks(schema):
        own = slice(at, at + block.width)
        at += block.width
        here, mean = w[:, own], spread.mean[own]
        (x, rows), steps = block.grid(), block.step_rows()
        noise, sampling = (
            None if whole is None else whole[:, own, own] * unit**2
            for whole in (spread.noise, spread.sampling)
        )
        variance = np.einsum("ka,ab,kb->k", here, spread.covariance[own, own], here)
        found.append(
            Shape(
                column=block.part.name,
                kind={Pair: "map", NumericColumn: "curve"}.get(type(block.part), "levels"),
                x=x,
                y=here @ (rows - mean).T,
                noise=_std(rows - mean, noise),
                steps=block.steps(),
                step_y=here @ (steps - mean).T,
                step_noise=_std(steps - mean, noise),
                sampling=_std(rows - mean, sampling),
                step_sampling=_std(steps - mean, sampling),
                importance=float(np.sqrt(np.maximum(variance, 0.0)).max()),
                typical=typical,
            )
        )
    return sorted(found, key=lambda shape: -shape.importance)


def _std(rows: Floats, noise: Floats | None) -> Floats | None:
    """(K, n) standard deviations of rows @ w, whose weights have this covariance."""
    if noise is None:
        return None
    return np.sqrt(np.maximum(np.einsum("na,kab,nb->kn", rows, noise, rows), 0.0))


def monotone(schema: Schema, coef: Array, spread: Spread) -> Floats:
    """The weights (..., p) with every declared curve made to rise or fall: the nearest such curve,
    each knot counting as much as records lie near it. Post-processing."""
    from sklearn.isotonic import isotonic_regression

    made, at = np.array(coef, float), 0
    for block in blocks(schema):
        column, first = block.part, at
        at += block.width
        if not isinstance(column, NumericColumn) or column.monotone is None:
            continue
        rising = column.monotone == "increasing"
        if column.basis is None:  # a straight line goes one way: the other way it is level
            own = made[..., first]
            made[..., first] = np.maximum(own, 0.0) if rising else np.minimum(own, 0.0)
            continue
        k = len(column.basis.knots)
        S = column.basis.smoother
        # The mean of the hats: S' E[h] is the mean of the features
        mass = np.maximum(np.linalg.solve(S.T, spread.mean[first : first + k]), LEAST_MASS)
        own = made[..., first : first + k].reshape(-1, k)
        knots = [isotonic_regression(S @ w, sample_weight=mass, increasing=rising) for w in own]
        found = np.linalg.solve(S, np.array(knots).T).T
        made[..., first : first + k] = found.reshape(made[..., first : first + k].shape)
    return made


def run_shapes(result: RunResult, schema: Schema) -> list[Shape]:
    """The shapes of a run's average model, in the label's own unit where it is a number."""
    label, about = schema.label, result.settings["problem"]
    w = stated_weights(about, result.model) / schema.row_scale
    w = w[:1] if label.stacked else w  # the questions about a record share the shapes
    centre, reach = label.centre_and_reach
    if label.typical is not None:  # a count, whose score is the logarithm of a multiple of it
        centre, reach = math.log(label.typical), 1.0
    spread = Spread.of(schema, result)
    constant = w[:, -1] * reach + centre if schema.intercept else centre
    return shapes(schema, monotone(schema, w, spread) * reach, spread, reach, constant)


def table_rows(found: list[Shape], points: int = 9) -> list[list[str]]:
    """Rows of text for a table: column, importance, where, value and noise of the first output."""
    rows = []
    for shape in found:
        places: list[tuple[str, float, Any]] = []
        if shape.kind == "map":
            best = [int(at(shape.y[0])) for at in (np.argmin, np.argmax)]
            first, second = shape.x
            for k in best:
                here = (first[k // len(second)], second[k % len(second)])
                noise = None if shape.noise is None else shape.noise[0, k]
                places.append((", ".join(_word(v) for v in here), shape.y[0, k], noise))
        for k in (
            np.linspace(0, len(shape.x) - 1, points).astype(int) if shape.kind == "curve" else ()
        ):
            noise = None if shape.noise is None else shape.noise[0, k]
            places.append((_word(shape.x[k]), shape.y[0, k], noise))
        for k, step in enumerate(shape.steps):
            noise = None if shape.step_noise is None else shape.step_noise[0, k]
            places.append((step, shape.step_y[0, k], noise))
        for k, (where, value, noise) in enumerate(places):
            head = [shape.column, f"{shape.importance:.3g}"] if k == 0 else ["", ""]
            rows.append([*head, where, f"{value:+.3f}", "-" if noise is None else f"{noise:.3f}"])
    return rows


def _word(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def shapes_words(found: list[Shape]) -> str:
    """A section of a model card: what each column adds at most and at least."""
    lines = [
        "",
        "## Shapes",
        "",
        "| column | varies by | least | most |",
        "| --- | --- | --- | --- |",
    ]
    for shape in found:
        ends = np.concatenate([shape.y.ravel(), shape.step_y.ravel()])
        lines.append(
            f"| {shape.column} | {shape.importance:.3g} | {ends.min():+.3g} | {ends.max():+.3g} |"
        )
    return "\n".join([*lines, ""])
