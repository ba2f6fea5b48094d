"""An additive model as a scikit-learn pipeline of NumPy, SciPy and scikit-learn alone.

A curve is piecewise linear on its knots, so `np.interp` gives it exactly; an atom is a point of its
own between the two neighbouring floats. A level's step is a weight of `OneHotEncoder`; a cell that
is none of the levels counts as missing. A pair is linear in each of its two columns between knots:
`RegularGridInterpolator`. What each part adds to each score then has weight 1.
"""

from __future__ import annotations

from operator import methodcaller
from typing import Any

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

from tacenda._types import Array, Floats
from tacenda.data.columns import CategoricalColumn, NumericColumn, Pair
from tacenda.data.schema import Schema
from tacenda.errors import UnsupportedError
from tacenda.evaluation.shapes import Block, blocks


class Parts:
    """The transformers of a model, and the weights (K, features) of what they give."""

    def __init__(self, schema: Schema, coef: Array, levels: dict[str, Any]) -> None:
        self.levels = levels
        self.steps: list[tuple[str, Any, list[Any]]] = []
        self.weights: list[Floats] = []
        self.constant = np.zeros(len(coef))
        self.names = [column.name for column in schema.columns]
        at = 0
        for block in blocks(schema):
            own = coef[:, at : at + block.width]
            at += block.width
            if isinstance(block.part, Pair):
                self._pair(block.part, own)
            elif isinstance(block.part, NumericColumn):
                self._number(block, block.part, own)
            else:
                self._category(block.part, own)

    def _number(self, block: Block, column: NumericColumn, own: Floats) -> None:
        """One curve for each score: what it adds at every knot, and where it is missing."""
        x = _bends(column)
        raw = np.expm1(x) if column.transform == "log1p" else x
        rows = column.model_copy(update={"atoms": ()}).encoded(
            np.clip(raw, column.low, column.high)
        )
        values = np.pad(rows, ((0, 0), (0, block.width - rows.shape[1]))) @ own.T
        steps = block.step_rows() @ own.T
        for atom, step in zip(
            column.atoms if column.basis is not None else (), steps, strict=False
        ):
            x, values = with_atom(x, values, float(_shown(column, atom)), step)
        for k, curve in enumerate(values.T):
            period = column.period if column.transform == "cyclic" else None
            points = {"xp": x, "fp": np.ascontiguousarray(curve), "period": period}
            gone = SimpleImputer(
                strategy="constant", fill_value=float(steps[-1, k]), keep_empty_features=True
            )
            curve_at = FunctionTransformer(np.interp, kw_args=points)
            one = make_pipeline(_cells(column), curve_at, gone)
            self.steps.append((f"{column.name} {k}", one, [column.name]))
            self.weights.append(np.eye(len(own))[:, [k]])

    def _category(self, column: CategoricalColumn, own: Floats) -> None:
        one = OneHotEncoder(
            categories=[self._known(column)], handle_unknown="ignore", sparse_output=False
        )
        missing = own[:, -1]
        self.steps.append((column.name, one, [column.name]))
        self.weights.append(own[:, :-1] - missing[:, None])
        self.constant += missing

    def _known(self, column: CategoricalColumn) -> Array:
        """The levels as they were declared: text, or numbers."""
        declared = list(self.levels[column.name])
        kind = None if len({type(level) for level in declared}) == 1 else object
        return np.array(declared, kind)

    def _pair(self, pair: Pair, own: Floats) -> None:
        sides: list[Any] = []
        for column in (pair.first, pair.second):
            if isinstance(column, CategoricalColumn):
                known = self._known(column)
                code = OrdinalEncoder(
                    categories=[known],
                    handle_unknown="use_encoded_value",
                    unknown_value=len(known),
                    encoded_missing_value=len(known),
                )
                sides.append((code, np.arange(len(known) + 1.0)))
            elif column.transform == "cyclic":
                raise UnsupportedError(
                    f"to_sklearn cannot write the pair {pair.name!r}, whose column {column.name!r} "
                    "is cyclic; use export(path), or learn the pair without cyclic."
                )
            else:
                sides.append((_cells(column), np.asarray(column.pair_basis.knots)))
        (first, x), (second, z) = sides
        grid = (pair.smoother @ own.T).reshape(len(x), len(z), -1)
        both = ColumnTransformer(
            [("first", first, [pair.first.name]), ("second", second, [pair.second.name])]
        )
        # Where a number is missing the pair adds nothing: NaN in, NaN out, then 0
        # A logarithm of a bound may lie beyond its knot by its last bit
        plane = RegularGridInterpolator((x, z), grid, bounds_error=False, fill_value=None)
        surface = FunctionTransformer(plane)
        gone = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
        names = [pair.first.name, pair.second.name]
        self.steps.append((pair.name, make_pipeline(both, surface, gone), names))
        self.weights.append(np.eye(len(own)))


def _shown(column: NumericColumn, value: Any) -> Any:
    """On the scale on which the curve is piecewise linear."""
    return np.log1p(value) if column.transform == "log1p" else np.asarray(value, float)


def _cells(column: NumericColumn) -> Pipeline:
    """Numbers within their bounds, on the scale of the knots."""
    steps = [
        FunctionTransformer(np.asarray, kw_args={"dtype": float}),
        FunctionTransformer(methodcaller("clip", column.low, column.high)),
    ]
    if column.transform == "log1p":
        steps.append(FunctionTransformer(np.log1p))
    return make_pipeline(*steps)


def _bends(column: NumericColumn) -> Floats:
    """Between which points the curve is straight."""
    if column.basis is not None:
        return np.asarray(column.basis.knots, float)
    if column.transform == "cyclic":
        raise UnsupportedError(
            f"to_sklearn cannot write the linear cyclic column {column.name!r} as a curve of "
            "straight lines; leave it out of linear=[...], or use export(path)."
        )
    return np.asarray(_shown(column, np.array([column.low, column.high])))


def with_atom(x: Floats, values: Floats, atom: float, step: Floats) -> tuple[Floats, Floats]:
    """The curve with a point of its own at an atom, whose neighbours are the next floats."""
    below, above = np.nextafter(atom, -np.inf), np.nextafter(atom, np.inf)
    beside = np.array([[np.interp(p, x, curve) for curve in values.T] for p in (below, above)])
    keep = (x < below) | (x > above)
    points = np.concatenate([x[keep], [below, atom, above]])
    order = np.argsort(points)
    found = np.vstack([values[keep], beside[:1], step[None], beside[1:]])
    return points[order], found[order]


def pipeline_of(schema: Schema, coef: Array, levels: dict[str, Any]) -> tuple[Any, Floats, Floats]:
    """(transformer, weights (K, m), constants (K,)) of an additive model; fitted on one record of
    the declared range, since nothing in it is learnt."""
    import pandas as pd

    parts = Parts(schema, np.atleast_2d(coef), levels)
    made = ColumnTransformer(parts.steps)
    cells = {
        c.name: [c.low] if isinstance(c, NumericColumn) else [levels[c.name][0]]
        for c in schema.columns
    }
    made.fit(pd.DataFrame(cells))
    return made, np.hstack(parts.weights), parts.constant
