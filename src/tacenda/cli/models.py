"""A fitted model for `predict`, `evaluate` and `coefficients`: of a run folder, or of a folder that
an estimator's `export` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda import checks, losses
from tacenda._types import Array, Floats
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda.evaluation.class_measures import class_probabilities, predicted_classes
from tacenda.evaluation.figures import cut_names
from tacenda.evaluation.outcome_measures import Outcomes, is_outcome
from tacenda.evaluation.units import Units
from tacenda.losses.registry import predicts
from tacenda.losses.stacked import stated_weights

if TYPE_CHECKING:
    from tacenda.evaluation.coefficients import CoefficientTable


LONGEST = 1e6  # norm of a record that any encoding may give


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model and its public description.

    weights (K, p) and intercept (K,) act on encoded features; classes is None for a regression,
    whose labels have these units.
    schema: how records are encoded, where there is one; features: the columns, where there is none.
    """

    name: str
    weights: Floats
    intercept: Floats
    classes: tuple[str, ...] | None
    probabilities: bool
    features: tuple[str, ...] | None
    schema: Schema | None
    units: Units
    coefficients: CoefficientTable | None = None
    config: Any = None
    loss: str | None = None
    level: float | None = None  # of a quantile
    feature_map: Any = None  # what shortens rows, as in training
    run: Any = None  # the RunResult that holds it, unless it is one node's model or exported

    def scores(self, rows: Any) -> Array:
        """(N,) for a regression or two classes, else (N, K); (N, T) for T questions."""
        if rows.shape[1] != self.weights.shape[1]:
            raise InputError(
                f"the records have {rows.shape[1]} features, and the model {self.name} has "
                f"{self.weights.shape[1]}; give the data with the columns that it was fitted on."
            )
        found = np.asarray(rows @ self.weights.T) + self.intercept
        one = found.shape[1] == 1 and not is_outcome(self.loss)
        return np.asarray(found[:, 0] if one else found)

    def check_threshold(self, threshold: float | None) -> None:
        """Refuse one that is no probability, or for a model that has none of two classes."""
        if threshold is None:
            return
        if not self.probabilities or len(self.weights) != 1:
            raise InputError(
                "--threshold is for models of two classes with probabilities, and "
                f"{self.name} is not one; leave it out."
            )
        checks.between("--threshold", threshold, 0.0, 1.0)

    def columns(self, scores: Array, threshold: float | None = None) -> dict[str, list[Any]]:
        """The prediction of every record, with probabilities where the loss has them, else the
        scores. threshold: of two classes, from which probability on the second is predicted."""
        self.check_threshold(threshold)
        if self.classes is None:
            return {"prediction": self.units.predictions(scores).tolist()}
        if is_outcome(self.loss):
            return self._outcomes(scores)
        guessed = predicted_classes(scores)
        if threshold is not None:
            guessed = (class_probabilities(scores) >= threshold).astype(int)
        found: dict[str, list[Any]] = {"prediction": [self.classes[k] for k in guessed]}
        if self.probabilities:
            chances = class_probabilities(scores)
            what, values = "probability", chances
            if chances.ndim == 1:
                return {**found, f"probability {self.classes[1]}": chances.tolist()}
        else:
            what, values = "score", scores
            if scores.ndim == 1:
                return {**found, "score": scores.tolist()}
        named = {f"{what} {c}": values[:, k].tolist() for k, c in enumerate(self.classes)}
        return {**found, **named}

    def _outcomes(self, scores: Array) -> dict[str, list[Any]]:
        """The most probable of ordered classes with the chance of each; of times the chance of no
        event by each point."""
        found = Outcomes.of_records(losses.by_name(str(self.loss)), scores, np.zeros(len(scores)))
        if found.survival:
            names = cut_names(str(self.loss), self.classes, found.cuts)
            return {name: found.beyond[:, k].tolist() for k, name in enumerate(names)}
        assert self.classes is not None
        chances = found.class_chances
        most = chances.argmax(axis=1)
        named = {f"probability {c}": chances[:, k].tolist() for k, c in enumerate(self.classes)}
        return {"prediction": [self.classes[k] for k in most], **named}


def open_model(folder: Path, run: str | None = None, node: int | None = None) -> Model:
    """The model in a run folder (run: label-seed; node: that of one node), or in an exported
    folder."""
    if (folder / "model.json").is_file() and not (folder / "manifest.json").is_file():
        if run is not None:
            raise InputError(
                f"--run is for a run folder, and {folder} holds one exported model; leave it out."
            )
        return _exported(folder, node)
    return _of_run(folder, run, node)


def _of_run(folder: Path, run: str | None, node: int | None) -> Model:
    from tacenda.evaluation.of_runs import kept_intervals, run_coefficients
    from tacenda.runs import read
    from tacenda.runtime.result import load
    from tacenda.runtime.run_folder import RunFolder, run_name

    home = RunFolder.open(folder)
    manifest = home.manifest()
    files = {run_name(entry): entry["file"] for entry in manifest["results"]}
    name = next(iter(files)) if run is None else checks.one_of("--run", run, files)
    result = load(home.path / files[name])
    about, dataset = result.settings["problem"], manifest["dataset"]
    schema = Schema.read(home.schema_path) if home.schema_path.is_file() else None
    weights = stated_weights(about, _one_of(np.asarray(result.models, float), node))
    if schema is not None and schema.additive:
        from tacenda.evaluation.shapes import Spread, monotone

        weights = monotone(schema, weights, Spread.of(schema, result))
    classes = None if dataset["classes"] is None else tuple(map(str, dataset["classes"]))
    names = dataset.get("feature_names") or [f"x{k}" for k in range(weights.shape[1])]
    return Model(
        name,
        weights,
        np.zeros(len(weights)),
        classes,
        predicts(about["loss"]) == "log-odds",
        None,
        schema,
        Units.of(None if schema is None else schema.label).of_loss(about["loss"]),
        run_coefficients(result, names, schema, classes, kept_intervals(home, name)),
        # A node's folder holds the contract in place of a configuration
        None if "contract" in manifest else read.build(read.read_file(home.path), str(home.path)),
        about["loss"],
        about.get("loss_options", {}).get("level"),
        run=result if node is None else None,
    )


def _exported(folder: Path, node: int | None) -> Model:
    from tacenda.estimators.export import load_model

    model = load_model(folder)
    classes = getattr(model, "classes_", None)
    kind = type(model).__name__
    bounds = getattr(model, "target_bounds", None)
    if getattr(model, "count_bound", None) is not None:
        bounds = (0.0, model.count_bound)
    coef, intercept = (
        (model.coef_, model.intercept_)
        if node is None
        else (_one_of(model.node_coef_, node), _one_of(model.node_intercept_, node))
    )
    names = getattr(model, "feature_names_in_", None)
    if kind in ("PrivateOrdinalClassifier", "PrivateDiscreteHazard"):
        raise InputError(
            f"{folder} holds a {kind}, whose predictions are not one linear score; use "
            "tacenda.estimators.load_model(folder).predict(X) in Python."
        )
    about = model.result_settings_["problem"]
    schema, scale = getattr(model, "schema_", None), 1.0
    if schema is not None:  # an additive one, whose weights are of features before the division
        names, scale = None, schema.row_scale
    return Model(
        f"{kind} in {folder}",
        np.atleast_2d(np.asarray(coef, float)) * scale,
        np.atleast_1d(np.asarray(intercept, float)),
        None if classes is None else tuple(str(c) for c in classes),
        hasattr(model, "predict_proba"),
        None if names is None else tuple(str(n) for n in names),
        schema,
        (
            Units() if bounds is None else Units(0.0, 1.0, float(bounds[0]), float(bounds[1]))
        ).of_loss(about["loss"]),
        coefficients=getattr(model, "coef_table_", None),
        loss=about["loss"],
        level=about.get("loss_options", {}).get("level"),
        feature_map=model.feature_map_,
    )


def _one_of(models: Array, node: int | None) -> Array:
    """The average of the nodes' models, or that of one node."""
    if node is not None and not 0 <= node < len(models):
        raise InputError(f"--node must be a position from 0 to {len(models) - 1}, not {node}.")
    return np.asarray(models.mean(axis=0) if node is None else models[node], float)


# ---- records for a model
def feature_rows(model: Model, data: str, leave_out: Sequence[str] = ()) -> Any:
    """The encoded features of a file's records, without labels."""
    if model.schema is not None:
        from tacenda.data.encoding import encode_features

        return encode_features(model.schema, data)
    if model.config is not None:
        raise InputError(
            f"{model.name} holds no schema, because its data was not encoded by a public "
            "schema; fit on a file with --schema to predict new records."
        )
    return _columns_of(model, _table(data), leave_out)


def labelled_rows(model: Model, data: str, label: str | None) -> tuple[Any, Array, str]:
    """(features, labels, which records): class numbers, or numbers in the label's own units."""
    return labelled(model, data, label)[:3]


def labelled(
    model: Model, data: str, label: str | None, most: int | None = None
) -> tuple[Any, Array, str, Array | None, Array | None]:
    """labelled_rows, whose they are, and their fingerprints; of each person so many at most."""
    if model.config is None and model.schema is None:
        rows, y, marks = _labelled_table(model, data, label)
        return rows, y, data, None, marks
    if label is not None:
        raise InputError(
            "--label is for exported models; a run folder's schema names the label, "
            "so leave it out."
        )
    if model.schema is not None and Path(data).suffix and Path(data).exists():
        from tacenda.data.encoding import encode

        # New records need not say which node they would belong to
        schema = model.schema.model_copy(update={"node_column": None})
        found, part = encode(schema, data, records_per_person=most), data
    else:
        found, part = named(model, data)
    X, y = (found.X, found.y) if found.test is None else found.test
    if found.test is not None:
        part = f"the test part of {data}"
    persons = found.persons if found.test is None else found.test_persons
    marks = found.fingerprints if found.test is None else found.test_fingerprints
    return X, y if model.classes is not None else model.units.labels(y), part, persons, marks


def named(model: Model, data: str) -> tuple[Any, str]:
    """A named data set, or a LIBSVM file, read as the run's own data was."""
    from tacenda.runs.private_run import load

    if model.config is None:
        raise InputError(
            f"DATA must be a file with the columns of the model's schema, but {data!r} is not "
            "there; check its name and folder."
        )
    own = model.config.data
    if Path(data).exists():
        update = {"file": data, "name": None}
    elif Path(data).suffix or len(Path(data).parts) > 1:
        raise InputError(
            f"DATA must be a file or a name of `tacenda datasets`, but {data!r} is not there; "
            "check its name and folder."
        )
    else:
        update = {"name": data, "file": None, "table_schema": None}
    model_kind = model.config.problem.model
    return load(own.model_copy(update=update), model=model_kind)[0], data


def _labelled_table(model: Model, data: str, label: str | None) -> tuple[Any, Array, Array | None]:
    """(features, labels, fingerprints); these are by name, as those of the frame that the model was
    fitted on."""
    from tacenda.data.as_read import fingerprints
    from tacenda.data.coded import words_of

    if label is None:
        raise InputError("--label must name the column to predict, for an exported model.")
    table = _table(data)
    if label not in table.columns:
        raise InputError(
            f"--label {label!r} is no column of {data}; it has {', '.join(table.columns)}."
            f"{checks.nearest(label, table.columns)}"
        )
    cells = table.columns[label]
    rows = _columns_of(model, table, (label,))
    marks = None
    if model.features is not None:
        marks = fingerprints({name: table.columns[name] for name in model.features}, cells)
    if model.classes is None:
        return rows, _numbers(label, cells), marks
    place = {word: k for k, word in enumerate(model.classes)}
    codes = np.array([place.get(word, -1) for word in words_of(cells)])
    if (codes < 0).any():
        raise InputError(
            f"column {label!r} of record {int(np.argmax(codes < 0)) + 1} holds a class that the "
            f"model does not know; its classes are {', '.join(model.classes)}."
        )
    return rows, codes, marks


def _table(data: str) -> Any:
    from tacenda.data.readers import read_table

    return read_table(data)


def _columns_of(model: Model, table: Any, leave_out: Sequence[str]) -> Floats:
    """The model's features by name; without names, all columns but those in order."""
    names = model.features
    if names is None:
        names = tuple(name for name in table.columns if name not in leave_out)
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise InputError(
            f"{table.source} lacks the model's features {absent}, it has "
            f"{', '.join(table.columns)}; rename either."
        )
    rows = np.column_stack([_numbers(name, table.columns[name]) for name in names])
    if model.feature_map is None or rows.shape[1] != model.weights.shape[1]:
        return rows
    return np.asarray(model.feature_map(rows))


def _numbers(name: str, cells: Array) -> Floats:
    try:
        found = np.asarray(cells, dtype=float)
    except (TypeError, ValueError):
        raise InputError(
            f"column {name!r} must hold numbers only, for an exported model."
        ) from None
    if not np.isfinite(found).all():
        raise InputError(
            f"column {name!r} must hold no missing value, but record "
            f"{int(np.argmax(~np.isfinite(found))) + 1} lacks one; fill it or leave the record out."
        )
    return found
