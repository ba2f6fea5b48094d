"""`tacenda predict`: the model of a run folder on new records,
encoded by the run's own public schema."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show


def predict(
    folder: Annotated[
        Path, typer.Argument(help="A run folder of `tacenda fit` or `tacenda compare`.")
    ],
    data: Annotated[
        str,
        typer.Option(
            help="A CSV or Parquet file with the schema's columns; the label may be absent."
        ),
    ],
    run: Annotated[
        str | None, typer.Option("--run", help="Which run, as label-seed; by default the first.")
    ] = None,
    node: Annotated[
        int | None,
        typer.Option(help="The model of the node at this position, instead of the average."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A CSV file; by default the screen.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Predict new records with a model of a run folder. Costs no privacy: the model was released
    already.

    Example: tacenda predict runs/fit-dpdda-20300101-120000 --data new.csv --out predictions.csv
    """
    import numpy as np

    from tacenda.data.encoding import encode_features
    from tacenda.data.schema import Schema
    from tacenda.errors import InputError
    from tacenda.formats.files import write_text
    from tacenda.runtime.run_folder import RunFolder

    home = RunFolder.open(folder)
    if not home.schema_path.is_file():
        raise InputError(
            f"{folder} holds no schema.toml, because its data was not encoded by a public "
            "schema; fit on a file with --schema to predict new records."
        )
    name, result = _result(home, run)
    model = _model(result, node)
    schema = Schema.read(home.schema_path)
    rows = encode_features(schema, data)
    centre, reach = schema.label.centre_and_reach
    scores = centre + reach * np.asarray(rows @ model.T)
    columns = outputs(result.settings["problem"], home.manifest()["dataset"]["classes"], scores)
    if as_json:
        show.as_json({"run": name, "records": int(rows.shape[0]), "predictions": columns})
        return
    text = _csv(columns)
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)
        print(f"{out}: {rows.shape[0]} predictions by {name}.")


def _result(home: Any, run: str | None) -> tuple[str, Any]:
    from tacenda import checks
    from tacenda.runtime.result import load

    files = {f"{r['label']}-{r['seed']}": r["file"] for r in home.manifest()["results"]}
    name = next(iter(files)) if run is None else checks.one_of("--run", run, files)
    return name, load(home.path / files[name])


def _model(result: Any, node: int | None) -> Any:
    """(K, p), or (1, p) for a single output."""
    import numpy as np

    from tacenda.errors import InputError

    n = len(result.models)
    if node is not None and not 0 <= node < n:
        raise InputError(f"--node must be a position from 0 to {n - 1}, not {node}.")
    chosen = result.model if node is None else np.asarray(result.models[node], float)
    return np.atleast_2d(chosen)


def outputs(
    problem: dict[str, Any], classes: list[str] | None, scores: Any
) -> dict[str, list[Any]]:
    """Columns of the answer: the prediction, and probabilities where the loss has them."""
    if classes is None:
        return {"prediction": scores[:, 0].tolist()}
    if len(classes) == 2 and scores.shape[1] == 1:
        codes = (scores[:, 0] > 0).astype(int)
        found: dict[str, list[Any]] = {"prediction": [classes[k] for k in codes]}
        if problem["loss"] == "logistic":
            from scipy.special import expit

            found[f"probability {classes[1]}"] = expit(scores[:, 0]).tolist()
        else:
            found["score"] = scores[:, 0].tolist()
        return found
    from scipy.special import softmax

    shares = softmax(scores, axis=1)
    found = {"prediction": [classes[k] for k in scores.argmax(axis=1)]}
    return {**found, **{f"probability {c}": shares[:, k].tolist() for k, c in enumerate(classes)}}


def _csv(columns: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in row])
    return text.getvalue()
