"""Private additive models: one curve for each number, one step for each level, still convex.

A schema made of the declarations turns a record into hat functions (`tacenda.data.basis`); what is
fitted on them is the linear model of the same loss, with all that it promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from tacenda._types import Array
from tacenda.data.as_read import fingerprints, label_cells
from tacenda.data.coded import words_of
from tacenda.data.encoding import encode_features
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError, UnsupportedError
from tacenda.estimators.base import PrivateLinearModel
from tacenda.estimators.scaling import CONSTANT, Scaling, Shortening, declared_bounds
from tacenda.estimators.warnings import warn_of_curves
from tacenda.evaluation.shapes import Shape, Spread, monotone, shapes
from tacenda.runtime.result import RunResult

UNDECLARED = (-1.0, 1.0)  # of numbers without bounds


class AdditiveModel(PrivateLinearModel):
    """What additive estimators share: a schema from their parameters, and rows of it."""

    fit_intercept = True
    data_norm: float | None = None
    _form = "additive"  # "linear": every number is a straight line

    def _schema(self, names: Sequence[str]) -> Schema:
        """The public description of the columns, without the constant, which stands beside."""
        levels = dict(self.levels or {})
        numbers = [name for name in names if name not in levels]
        if self.bounds is None:
            low, high = (np.full(len(numbers), end) for end in UNDECLARED)
            if numbers:
                warn_of_curves(*UNDECLARED)
        else:
            low, high = declared_bounds(self.bounds, numbers)
        bounds = dict(zip(numbers, zip(low.tolist(), high.tolist(), strict=True), strict=True))
        self._check_named(names, numbers)
        columns = [
            {"kind": "categorical", "name": name, "levels": words(levels[name])}
            if name in levels
            else {"name": name, **self._number(name, *bounds[name])}
            for name in names
        ]
        schema = Schema.build(
            columns=[{**column, "missing_indicator": True} for column in columns],
            label={"name": _free_name(names), **self._label_kind},
            pairs=[tuple(map(str, pair)) for pair in self.pairs or ()],
            missing="impute",
            missing_values=[],
        )
        made = schema.as_model("additive", self.functions)
        return made.model_copy(update={"intercept": False})

    @property
    def _label_kind(self) -> dict[str, Any]:
        """Of what kind the label is; more about it is not said by the schema."""
        return {"classes": ["0", "1"]} if hasattr(self, "classes") else {"low": 0.0, "high": 1.0}

    def _number(self, name: str, low: float, high: float) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": "numeric", "low": low, "high": high}
        if low == high:  # it says nothing, but has its place
            return {**found, "high": low + 1.0, "hats": 0}
        if name in (self.cyclic or {}):
            found |= {"transform": "cyclic", "period": float((self.cyclic or {})[name])}
        elif name in (self.log or ()):
            found |= {"transform": "log1p"}
        if self._form == "linear" or name in (self.linear or ()):
            found |= {"hats": 0}
            found |= {"scale_to": "symmetric"} if found.get("transform") != "cyclic" else {}
        for field in ("breaks", "atoms", "monotone"):
            declared = getattr(self, field) or {}
            if name in declared:
                found[field] = declared[name]
        return found

    def _check_named(self, names: Sequence[str], numbers: Sequence[str]) -> None:
        """Refuse a declaration about a column that is not there, or that is no number."""
        for field in ("levels", "breaks", "atoms", "cyclic", "monotone", "log", "linear"):
            known = names if field == "levels" else numbers
            for name in getattr(self, field) or ():
                if name not in known:
                    kind = "a column of X" if field == "levels" else "a column of numbers of X"
                    raise InputError(
                        f"{field} names {name!r}, which is not {kind} ({list(known)[:8]}); "
                        "correct the name."
                    )

    def _table(self, X: Any, *, reset: bool) -> tuple[Table, list[str]]:
        """The cells of a frame or of an array, by the names of their columns."""
        names = getattr(X, "columns", None)
        if names is not None and all(isinstance(name, str) for name in names):
            validate_data(self, X, skip_check_array=True, reset=reset)
            if not len(X) or not len(X.columns):
                raise InputError(f"X has 0 sample(s) or 0 feature(s) (shape={X.shape}).")
            columns = dict(Table.of(X).columns)
        else:
            X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
            columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
        for name, cells in columns.items():
            if name in (self.levels or {}):
                columns[name] = np.array([None if _absent(c) else word(c) for c in cells], object)
            elif cells.dtype.kind == "f" and np.isinf(cells).any():
                raise InputError(
                    f"column {name!r} contains infinity, which no bound can hold; "
                    "fill it with a public value, or leave it missing."
                )
        return Table(columns, source="X"), list(columns)

    def _rows(self, table: Table) -> Array:
        """(n, p) the features before the division by the row scale."""
        rows = encode_features(self.schema_, table)
        rows *= self.schema_.row_scale
        return np.asarray(rows)

    def _checked_rows(self, X: Any, y: Any, **how: Any) -> tuple[Any, Any, Scaling]:
        table, names = self._table(X, reset=True)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        _, y = check_X_y(np.zeros((len(table), 1)), y, **how)
        self.schema_ = self._schema(names)
        self._as_read = fingerprints(table.columns, label_cells(y))
        p, norm = len(self.schema_.feature_names), self.schema_.largest_norm
        plain = Shortening(np.zeros(p), np.ones(p), None, None, norm)
        return self._rows(table), y, Scaling(plain, CONSTANT, norm)

    def _public_rows(self, public: Any) -> tuple[Any, Any]:
        X, y = public
        return self._rows(self._table(X, reset=False)[0]), np.asarray(y)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        rows = self._rows(self._table(X, reset=False)[0])
        return np.asarray(rows @ np.atleast_2d(self.coef_).T + np.atleast_1d(self.intercept_))

    def _keep(self, result: RunResult, scaling: Scaling, topology: Any) -> None:
        self._spread = Spread.of(self.schema_, result)
        self.__dict__.pop("_kept_shapes", None)
        super()._keep(result, scaling, topology)

    def _set_coef(self, node_coef: Array, node_intercept: Array) -> None:
        super()._set_coef(monotone(self.schema_, node_coef, self._spread), node_intercept)

    @property
    def shapes_(self) -> list[Shape]:
        """What each column adds to the score, those that matter most first: curves, levels and
        maps, centred, with the standard deviation that the privacy noise gives them."""
        check_is_fitted(self)
        if hasattr(self, "_kept_shapes"):  # of a model that was read from its folder
            return list(self._kept_shapes)
        unit = self._score_unit
        coef, constant = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        return shapes(self.schema_, coef, self._spread, unit, constant)

    def _feature_names(self, p: int) -> list[str]:
        return list(self.schema_.feature_names)

    @property
    def coef_table_(self) -> Any:
        """An additive model has shapes in place of coefficients."""
        raise AttributeError(
            f"{type(self).__name__} has no coef_table_: its weights have no unit; shapes_ shows "
            "one curve for each column."
        )

    def intervals(self, *args: Any, **how: Any) -> Any:
        """Refuse: the weights of an additive model have no meaning of their own.

        args: not looked at. how: not looked at.
        """
        raise UnsupportedError(
            "intervals are of coefficients, which an additive model does not have; declare "
            "linear=[...] in a linear model of the same columns, or read shapes_ with its bands."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def word(cell: Any) -> str:
    """A level as a word: whole numbers without a decimal point, however they are kept."""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    return str(words_of(np.array([cell], object))[0]).strip()


def words(levels: Any) -> list[str]:
    """Declared levels as words."""
    return [word(level) for level in levels]


def _absent(cell: Any) -> bool:
    return cell is None or bool(cell != cell)


def _free_name(names: Sequence[str]) -> str:
    """A name for the label, which the schema of an estimator does not use."""
    name = "label"
    while name in names:
        name += "_"
    return name
