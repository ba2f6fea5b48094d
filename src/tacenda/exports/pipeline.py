"""A model as a scikit-learn pipeline that needs no Tacenda: a transformer for each column, then a
linear model whose weights are all 1. Stored by skops, which loads no code."""

from __future__ import annotations

import json
from operator import methodcaller
from typing import Any

import numpy as np

from tacenda._types import Floats
from tacenda.errors import InputError, UnsupportedError
from tacenda.exports.portable import Curve, Levels, Portable, Term, Wave

PROMISE = "tacenda_promise"  # an attribute of the pipeline


def pipeline(model: Portable) -> Any:
    """The fitted pipeline. It takes a pandas frame with the model's columns."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    steps: list[tuple[str, Any, list[str]]] = []
    weights: list[Floats] = []
    constant = np.array(model.constant, float)
    cells: dict[str, list[Any]] = {}
    for place, term in enumerate(model.terms):
        cells[term.column] = [term.levels[0] if isinstance(term, Levels) else 0.0]
        for k, (one, own) in enumerate(_parts(model, term)):
            steps.append((f"{place} {k}", one, [term.column]))
            weights.append(own)
        strange = _strange(term)
        if strange is not None:
            constant += strange
    made = ColumnTransformer(steps)
    made.fit(pd.DataFrame(cells))
    found = Pipeline([("columns", made), ("model", _linear(model, np.hstack(weights), constant))])
    setattr(found, PROMISE, json.dumps({"promise": model.promise, "source": model.source}))
    return found


def skops_bytes(model: Portable) -> bytes:
    """The pipeline as skops stores it."""
    try:
        from skops import io
    except ImportError:
        raise InputError(
            "writing scikit-learn models needs the package skops: pip install 'tacenda[export]'."
        ) from None
    return bytes(io.dumps(pipeline(model)))


def _parts(model: Portable, term: Term) -> list[tuple[Any, Floats]]:
    """(transformer, weights (K, features of it))."""
    if isinstance(term, Levels):
        return [_encoder(term)]
    count = len(model.constant)
    return [
        (one, weight * np.eye(count)[:, [k]])
        for k in range(count)
        for one, weight in [_wave(term, k) if isinstance(term, Wave) else _curve(term, k)]
    ]


def _encoder(term: Levels) -> tuple[Any, Floats]:
    """A cell that is none of the levels adds what the constant holds for it."""
    from sklearn.preprocessing import OneHotEncoder

    if term.other is not None and term.missing is not None:
        raise UnsupportedError(
            f"scikit-learn's encoder cannot tell an undeclared level of {term.column!r} from an "
            "empty cell; use --to onnx, pmml, r or json."
        )
    base = _strange(term)
    one = OneHotEncoder(
        categories=[np.array(term.levels, object)],
        handle_unknown="error" if base is None else "ignore",
        sparse_output=False,
    )
    return one, term.values.T - (0.0 if base is None else base[:, None])


def _strange(term: Term) -> Floats | None:
    """What a cell that is none of the levels adds."""
    if not isinstance(term, Levels):
        return None
    return term.other if term.missing is None else term.missing


def _wave(term: Wave, k: int) -> tuple[Any, float]:
    """One sine of the right height and phase."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    height = float(np.hypot(term.sine[k], term.cosine[k]))
    phase = float(np.arctan2(term.cosine[k], term.sine[k]))
    ends = np.array([term.low, term.high])
    turned = {"xp": ends, "fp": 2 * np.pi * ends / term.period + phase}
    steps = [
        _numbers(),
        FunctionTransformer(np.interp, kw_args=turned),
        FunctionTransformer(np.sin),
    ]
    missing = None if term.missing is None else float(term.missing[k])
    if missing is not None and height > 0:
        missing /= height
    return make_pipeline(*steps, *_filled(missing)), height or 1.0


def _curve(term: Curve, k: int) -> tuple[Any, float]:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    from tacenda.estimators.plain_additive import with_atom

    missing = None if term.missing is None else float(term.missing[k])
    if not np.isfinite(term.low):  # a line without ends, from 0 to its slope at 1
        return make_pipeline(_numbers(), *_filled(missing)), float(term.values[1, k])
    steps = [_numbers(), FunctionTransformer(methodcaller("clip", term.low, term.high))]
    if term.log:
        steps.append(FunctionTransformer(np.log1p))
    x, values = term.at, term.values[:, [k]]
    for atom, there in zip(term.atoms, term.atom_values, strict=True):
        z = float(np.log1p(atom) if term.log else atom)
        x, values = with_atom(x, values, z, there[[k]])
    points = {"xp": x, "fp": np.ascontiguousarray(values[:, 0]), "period": term.period}
    curve = FunctionTransformer(np.interp, kw_args=points)
    return make_pipeline(*steps, curve, *_filled(missing)), 1.0


def _numbers() -> Any:
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(np.asarray, kw_args={"dtype": float})


def _filled(missing: float | None) -> list[Any]:
    from sklearn.impute import SimpleImputer

    if missing is None:
        return []
    return [SimpleImputer(strategy="constant", fill_value=missing, keep_empty_features=True)]


def _linear(model: Portable, weights: Floats, constant: Floats) -> Any:
    """The model behind the columns, fitted by hand."""
    from sklearn import linear_model, svm

    out, units = model.output, model.output.units
    made: Any
    if out.kind == "classes":
        made = linear_model.LogisticRegression() if out.probabilities else svm.LinearSVC()
        made.classes_ = np.array(out.classes)
    elif out.kind == "number" and units.log_scores:
        made = linear_model.PoissonRegressor()
        made._base_loss = made._get_loss()  # the link, which its own fit would set
        constant = constant + np.log(units.reach)
    elif out.kind == "number":
        made = linear_model.Ridge()
        weights, constant = weights * units.reach, constant * units.reach + units.centre
    else:
        said = {"ordered": "ordered classes", "hazards": "survival in periods"}[out.kind]
        raise UnsupportedError(
            f"scikit-learn has no model of {said}; use --to onnx, pmml, r or json."
        )
    one = out.kind == "number"
    made.coef_ = weights[0] if one else weights
    made.intercept_ = constant[0] if one else constant
    made.n_features_in_ = weights.shape[1]
    made.n_iter_ = 1
    return made
