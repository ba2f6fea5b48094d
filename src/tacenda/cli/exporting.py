"""`tacenda export`: a released model as a file that another program predicts with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tacenda import checks
from tacenda.cli import flags, show
from tacenda.cli.predicting import Folder, Node, Run
from tacenda.errors import InputError, UnsupportedError
from tacenda.evaluation.outcome_measures import is_outcome
from tacenda.exports.portable import Output, Portable, Term, lines_of, terms_of

STACKED = {"PrivateOrdinalClassifier": "ordered", "PrivateDiscreteHazard": "hazards"}
# Of a statement: all but the charges, which the run folder keeps
PROMISED = (
    "epsilon", "delta", "adjacency", "unit", "mode", "accountant", "exact", "coalition", "n_nodes",
)  # fmt: skip


def export(
    folder: Folder,
    to: Annotated[
        str,
        typer.Option(
            help="onnx; sklearn (a .skops file); json; pmml (4.4); r (a script for base R)."
        ),
    ],
    run: Run = None,
    node: Node = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file; by default `model` with the format's ending."),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Write a released model as a file that another program predicts with.

    The file takes raw columns: bounds, logarithms, levels and curves are in it. Its metadata hold
    the promise and, where the model's file has one, the signed certificate. Predictions agree with
    `tacenda predict` to 1e-7. Costs no privacy: the model was released already.

    onnx and sklearn need `pip install 'tacenda[export]'`.

    Example: tacenda export runs/fit-treegd-20300101-120000 --to onnx -o ill.onnx

    Example: tacenda export runs/fit-treegd-20300101-120000 --to r && Rscript model.R new.csv
    """
    from tacenda.exports import FORMATS, write

    checks.one_of("--to", to, FORMATS)
    path = write(portable(folder, run, node), to, out)
    if as_json:
        show.as_json({"file": str(path), "format": to, "bytes": path.stat().st_size})
        return
    print(f"{path}: {path.stat().st_size:,} bytes.")


def portable(folder: Path, run: str | None = None, node: int | None = None) -> Portable:
    """The model in a run folder, or in an exported folder, as terms."""
    if (folder / "model.json").is_file() and not (folder / "manifest.json").is_file():
        about = json.loads((folder / "model.json").read_text("utf-8"))
        promise, source = about["privacy"], _source(folder / "model.safetensors")
        if about["kind"] in STACKED:
            return _stacked(folder, node, promise, source)
        return _linear(folder, run, node, promise, source)
    from tacenda.runtime.result import load
    from tacenda.runtime.run_folder import RunFolder, run_name

    home = RunFolder.open(folder)
    files = {run_name(entry): entry["file"] for entry in home.manifest()["results"]}
    name = next(iter(files)) if run is None else checks.one_of("--run", run, files)
    privacy = load(home.path / files[name]).privacy
    promise = None if privacy is None else privacy.to_plain()
    return _linear(folder, run, node, promise, _source(home.path / files[name]))


def _linear(
    folder: Path, run: str | None, node: int | None, promise: Any, source: dict[str, Any]
) -> Portable:
    from tacenda.cli.models import open_model

    model = open_model(folder, run, node)
    constant = np.asarray(model.intercept, float)
    if is_outcome(model.loss):
        return _outcome(folder, model, promise, source)
    label = "label"
    empty: tuple[str, ...] = ()
    terms: tuple[Term, ...]
    if model.schema is not None:
        terms, own = terms_of(model.schema, model.weights)
        constant = constant + own
        label, empty = model.schema.label.name, model.schema.missing_values
    else:
        terms = _lines(folder, model.features, model.weights, model.feature_map)
    output = Output(
        "number" if model.classes is None else "classes",
        label,
        model.classes or (),
        model.probabilities and model.classes is not None,
        units=model.units,
    )
    return Portable(model.name, terms, constant, output, empty, _promised(promise), source)


def _outcome(folder: Path, model: Any, promise: Any, source: dict[str, Any]) -> Portable:
    """A run's model of ordered classes or of times: one score, and a cut for each question."""
    assert model.schema is not None  # such labels are declared in a schema
    own = terms_of(model.schema, model.weights)[1]
    terms = terms_of(model.schema, model.weights[:1])[0]
    schema, cuts = model.schema, -np.asarray(own, float)
    kind: Any = "hazards" if schema.label.survival else "ordered"
    if kind == "hazards":
        output = Output(kind, schema.label.name, cuts=cuts, periods=tuple(schema.survival.points))
    else:
        output = Output(kind, schema.label.name, model.classes, True, np.sort(cuts))
    named, empty = model.name, schema.missing_values
    return Portable(named, terms, np.zeros(1), output, empty, _promised(promise), source)


def _lines(
    folder: Path, names: tuple[str, ...] | None, weights: Any, feature_map: Any
) -> tuple[Term, ...]:
    if feature_map is None:
        raise UnsupportedError(
            f"{folder} holds no schema, so no other program knows its columns; fit on a file with "
            "--schema."
        )
    if feature_map.shortens:
        raise UnsupportedError(
            f"the model in {folder} shortens rows to a norm, so a cell's effect depends on all "
            "others; fit with bounds=(low, high)."
        )
    every = names or tuple(f"x{j}" for j in range(weights.shape[1]))
    return lines_of(every, np.asarray(weights, float), feature_map.low, feature_map.high)


def _stacked(folder: Path, node: int | None, promise: Any, source: dict[str, Any]) -> Portable:
    """A model of ordered classes or of hazards: one score, and a cut for each of its rows."""
    from tacenda.estimators.export import load_model

    model = load_model(folder)
    if node is not None:
        if not 0 <= node < len(model.node_coef_):
            last = len(model.node_coef_) - 1
            raise InputError(f"--node must be a position from 0 to {last}, not {node}.")
        model.coef_, model.intercept_ = model.node_coef_[node], model.node_intercept_[node]
    kind: Any = STACKED[type(model).__name__]
    names = getattr(model, "feature_names_in_", None)
    terms = _lines(
        folder,
        None if names is None else tuple(map(str, names)),
        np.atleast_2d(model.coef_),
        model.feature_map_,
    )
    if kind == "ordered":
        output = Output(
            kind, "label", tuple(map(str, model.classes_)), True, np.asarray(model.thresholds_)
        )
    else:
        cuts = -np.asarray(model.intercept_, float)
        output = Output(kind, "survival", cuts=cuts, periods=tuple(map(float, model.periods)))
    name = f"{type(model).__name__} in {folder}"
    return Portable(name, terms, np.zeros(1), output, (), _promised(promise), source)


def _promised(statement: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if statement is None else {key: statement[key] for key in PROMISED}


def _source(path: Path) -> dict[str, Any]:
    """The model's file: its hash, and its certificate where it carries one."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        header = file.metadata() or {}
    found: dict[str, Any] = {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    if "certificate" in header:
        found["certificate"] = json.loads(header["certificate"])
    return found
