"""A fitted model as files that anybody can read: weights, facts, and a model card for people.

    folder/model.safetensors    coef, intercept, node_coef, node_intercept; coef_std and
                                intercept_std, the standard errors by noise, where they are known
    folder/model.json           kind, classes, feature names, settings, the map before the weights
                                (where any is), the privacy statement with its charges, conditions
    folder/MODEL_CARD.md        the same in words

Nothing that was computed from private data without noise (the history, training scores) is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import estimators
from tacenda.errors import StateError
from tacenda.estimators.additive import AdditiveModel, words
from tacenda.estimators.scaling import Shortening
from tacenda.evaluation.shapes import Shape, Spread, shapes_words
from tacenda.formats.files import write_bytes, write_json, write_text
from tacenda.privacy.statement import Statement
from tacenda.report.card import card
from tacenda.terms.method import SETTINGS

FORMAT = "tacenda-model-1"
_ERRORS = ("coef_std", "intercept_std")  # by the privacy noise, where they are known


def export(estimator: Any, path: str | Path) -> Path:
    """Write the three files into the folder `path`, made if missing."""
    from safetensors.numpy import save

    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    about = facts(estimator)
    arrays = {
        "coef": estimator.coef_,
        "intercept": np.atleast_1d(estimator.intercept_),
        "node_coef": estimator.node_coef_,
        "node_intercept": estimator.node_intercept_,
    }
    for name in _ERRORS:
        if getattr(estimator, f"_{name}") is not None:
            arrays[name] = getattr(estimator, f"_{name}")
    tensors = {k: np.ascontiguousarray(v, dtype=float) for k, v in arrays.items()}
    write_bytes(folder / "model.safetensors", save(tensors))
    write_json(folder / "model.json", about)
    write_text(folder / "MODEL_CARD.md", _card(estimator, about))
    return folder


def _card(estimator: Any, about: dict[str, Any]) -> str:
    problem = {**about["problem"], "n_features": about["n_features"]}
    if "shapes" in about:
        problem["model"] = "additive"
    settings = {**about["settings"], "problem": problem, "graph": about["graph"]}
    shape = estimator.node_coef_.shape
    text = card(
        about["kind"], settings, estimator.privacy_, shape, about["classes"], about["conditions"]
    )
    return text + shapes_words(estimator.shapes_) if "shapes" in about else text


def facts(estimator: Any) -> dict[str, Any]:
    """Everything public about a fitted estimator, as plain values."""
    settings = estimator.result_settings_
    names = getattr(estimator, "feature_names_in_", None)
    classes = getattr(estimator, "classes_", None)
    additive = isinstance(estimator, AdditiveModel)
    shapes = [shape.to_plain() for shape in estimator.shapes_] if additive else []
    curves = {"shapes": shapes, "form": estimator._form} if additive else {}
    return {
        **curves,
        "format": FORMAT,
        "kind": type(estimator).__name__,
        "parameters": _plain_parameters(estimator),
        "classes": None if classes is None else np.asarray(classes).tolist(),
        "class_type": None if classes is None else np.asarray(classes).dtype.str,
        "feature_names": None if names is None else [str(n) for n in names],
        "n_features": int(estimator.n_features_in_),
        "feature_map": estimator.feature_map_.to_plain(),
        "node_labels": [str(label) for label in estimator.node_labels_],
        "privacy": None if estimator.privacy_ is None else estimator.privacy_.to_plain(),
        "conditions": list(estimator.conditions_),
        "standard_errors": estimator._errors,
        # A seed lets anybody who holds it subtract the noise, so it never leaves.
        "settings": {
            # One that was added later is there only where it was used
            k: settings[k]
            for k in ("algorithm", *(s.name for s in SETTINGS), "versions")
            if k in settings
        },
        "problem": {k: v for k, v in settings["problem"].items() if k != "classes"},
        "graph": {k: settings["graph"][k] for k in ("name", "n")},
    }


def load_model(path: str | Path) -> Any:
    """Load the estimator that `export` wrote, ready to predict; it has no history.

    Parameters
    ----------
    path : path
        The folder that `export` wrote.

    Returns
    -------
    model : estimator
        Of the class that was exported, with its weights, `privacy_` and `conditions_`.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    folder = Path(path)
    try:
        about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        arrays = load_file(str(folder / "model.safetensors"))
    except FileNotFoundError as missing:
        raise StateError(
            f"There is no exported model at {folder} ({missing.filename} is missing); export(path) "
            "writes one."
        ) from None
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as damaged:
        raise StateError(f"The exported model at {folder} is damaged: {damaged}.") from None
    if about.get("format") != FORMAT:
        raise StateError(
            f"{folder} is not an exported model (format {about.get('format')!r}, not {FORMAT!r})."
        )
    return _restored(about, arrays)


def _restored(about: dict[str, Any], arrays: dict[str, Any]) -> Any:
    base = estimators.PrivateLinearModel
    kinds = {
        name: kind
        for name in estimators.__all__
        if isinstance(kind := getattr(estimators, name), type)
        and issubclass(kind, base)
        and kind is not base
    }
    if about["kind"] not in kinds:
        raise StateError(
            f"An exported model of kind {about['kind']!r} is unknown; known are {', '.join(kinds)}."
        )
    model: Any = kinds[about["kind"]](**about["parameters"])
    model.node_coef_, model.node_intercept_ = arrays["node_coef"], arrays["node_intercept"]
    model.coef_ = arrays["coef"]
    model._coef_std, model._intercept_std = (arrays.get(name) for name in _ERRORS)
    model._errors = about.get("standard_errors", "The standard errors are not known.")
    several = about["classes"] is not None or len(arrays["intercept"]) > 1
    model.intercept_ = arrays["intercept"] if several else float(arrays["intercept"][0])
    if about["classes"] is not None:
        model.classes_ = np.array(
            about["classes"], dtype=None if about["class_type"] == "|O" else about["class_type"]
        )
    if about["feature_names"] is not None:
        model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    if isinstance(model, AdditiveModel):
        every = [f"x{j}" for j in range(about["n_features"])]
        model._form = about["form"]
        model.schema_ = model._schema(about["feature_names"] or every)
        model._spread = Spread.of(model.schema_, None)
        model._kept_shapes = [Shape.from_plain(plain) for plain in about["shapes"]]
    model.feature_map_ = Shortening.from_plain(about["feature_map"])
    model.n_features_in_, model.node_labels_ = about["n_features"], tuple(about["node_labels"])
    plain = about["privacy"]
    model.privacy_ = None if plain is None else Statement.from_plain(plain)
    model.conditions_ = about["conditions"]
    model.n_iter_ = about["settings"]["rounds"]
    model.strength_ = about["problem"]["strength"]
    model.result_settings_ = {
        **about["settings"],
        "problem": about["problem"],
        "graph": about["graph"],
    }
    return model


# Declared, hence public;
# what is left out is not a plain value or must not travel (random_state, ledger).
_KEPT = (
    "epsilon",
    "delta",
    "adjacency",
    "coalition",
    "data_norm",
    "clip_norm",
    "strength",
    "fit_intercept",
    "l1_ratio",
    "weight_bound",
    "threshold",
    "quantile",
    "width",
    "count_bound",
    "typical_count",
    "dispersion",
)


def _plain_parameters(estimator: Any) -> dict[str, Any]:
    values = estimator.get_params(deep=False)
    promise = estimator._promise()
    if promise is not None:
        values |= {k: v for k, v in promise.to_plain().items() if k in values}
    kept = {k: _plain(values[k]) for k in _KEPT if k in values}
    for name in ("bounds", "target_bounds"):
        if values.get(name) is not None:
            given = values[name]
            kept[name] = given if isinstance(given, str) else _numbers(given)
    for name in _CURVES:
        if values.get(name) is not None:
            kept[name] = _of_curves(name, values[name])
    if "periods" in values:
        kept["periods"] = [float(end) for end in values["periods"]]
    return kept


def _numbers(given: Any) -> Any:
    """Bounds in any of their forms, with plain numbers."""
    if isinstance(given, Mapping):
        return {str(k): np.asarray(v, float).tolist() for k, v in given.items()}
    return [np.asarray(b, float).tolist() for b in given]


# What is declared of an additive model's columns
_CURVES = (
    "levels", "breaks", "atoms", "log", "cyclic", "pairs", "monotone", "linear", "functions",
)  # fmt: skip


def _of_curves(name: str, given: Any) -> Any:
    if name in ("breaks", "atoms"):
        return _numbers(given)
    if name == "levels":
        return {str(k): words(levels) for k, levels in given.items()}
    if isinstance(given, Mapping):
        return {str(k): _plain(v) for k, v in given.items()}
    if name == "pairs":
        return [[str(first), str(second)] for first, second in given]
    return _plain(given) if name == "functions" else [str(column) for column in given]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


__all__ = ["FORMAT", "export", "facts", "load_model"]
