"""`tacenda predict` and `tacenda coefficients`: what a released model says, at no cost; and what
its records are asked besides, for intervals and for `tacenda heterogeneity`, which is charged."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda import checks
from tacenda.cli import flags, show
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda.evaluation.shapes import Shape

Folder = Annotated[
    Path,
    typer.Argument(
        help="A run folder of `tacenda fit` or `compare`, a node's state folder after its last "
        "round, or a folder with an exported model."
    ),
]
Run = Annotated[
    str | None, typer.Option("--run", help="Which run, as label-seed; by default the first.")
]
Node = Annotated[
    int | None, typer.Option(help="The model of the node at this position, instead of the average.")
]


def predict(
    folder: Folder,
    data: Annotated[
        str,
        typer.Option(
            help="A CSV or Parquet file with the model's columns; the label may be absent."
        ),
    ],
    run: Run = None,
    node: Node = None,
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="A column of the file to write beside the predictions."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Of two classes: the positive one is predicted from this probability on (0.5); "
            "`tacenda evaluate --private --missed-cost 5` chooses one."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A CSV file; by default the screen.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Predict new records. Costs no privacy: the model was released already.

    Probabilities are given where the loss has them; a number is kept inside the label's declared
    bounds.

    Example: tacenda predict runs/fit-dpdda-20300101-120000 --data new.csv --id patient --out
    predictions.csv
    """
    from tacenda.cli.models import feature_rows, open_model
    from tacenda.formats.files import write_text

    model = open_model(folder, run, node)
    model.check_threshold(threshold)  # before the file is read
    rows = feature_rows(model, data, () if identifier is None else (identifier,))
    columns = model.columns(model.scores(rows), threshold)
    if identifier is not None:
        columns = {identifier: _ids(data, identifier), **columns}
    if as_json:
        show.as_json({"run": model.name, "records": int(rows.shape[0]), "predictions": columns})
        return
    text = _csv(columns)
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)
        print(f"{out}: {rows.shape[0]} predictions by {model.name}.")


Epsilon = Annotated[
    float | None,
    typer.Option(
        "--epsilon",
        "-e",
        help="Ask the run's records once more, for intervals, at this epsilon on top of the run's.",
    ),
]
Delta = Annotated[
    float | None, typer.Option("--delta", help="The delta of that question; by default the run's.")
]


def coefficients(
    folder: Folder,
    run: Run = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Number of effects to show, the largest first; by default all."),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    level: Annotated[
        float, typer.Option(help="With --epsilon: confidence level of the intervals.")
    ] = 0.95,
    covariance: Annotated[
        str,
        typer.Option(
            help="With --epsilon: 'robust' holds even if the model is wrong, 'model' assumes that "
            "it is right."
        ),
    ] = "robust",
    again: Annotated[
        bool, typer.Option("--again", help="Pay for intervals although the folder holds some.")
    ] = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway", help="Ask even if the forecast says that noise will hide everything."
        ),
    ] = False,
    as_json: flags.Json = False,
) -> None:
    """Show a model's coefficients by feature name, in original units, the largest effects first.

    The standard error is that of the privacy noise. Costs no privacy: the model was released
    already. If the run gives intervals (least squares in one round), or the folder keeps some, the
    population's coefficients are shown too, with intervals that cover sampling and privacy noise.

    With --epsilon the records of the run's configuration are asked once for such intervals. That is
    charged, also in the run's ledger if it has one, and kept in the folder. A forecast from public
    numbers says first which rows will show, and what epsilon the others need. If none will show,
    nothing is asked or charged, unless you add --anyway.

    Levels of a category are compared with its reference level (`reference` in the schema, else the
    first).

    Example: tacenda coefficients runs/fit-moments-20300101-120000 --top 10

    Example: tacenda coefficients runs/fit-treegd-20300101-120000 --epsilon 0.5
    """
    from tacenda.cli.models import open_model

    expected = None
    if epsilon is not None:
        from tacenda.runs.inferring import question

        asked = question(folder, run, epsilon, delta, again=again)
        expected = asked.forecast(covariance)
        if not as_json:
            print(f"Note: {asked.cost}", flush=True)
            if expected is not None and (anyway or expected.worth_asking):
                print(f"Forecast: {expected}", flush=True)
        asked.intervals(level, covariance, anyway)
    model = open_model(folder, run)
    table = model.coefficients
    if table is None:
        raise InputError(
            f"{folder} holds an additive model, which has curves and no coefficients; "
            "`tacenda shapes` shows them."
        )
    if as_json:
        shown = table.to_plain() if top is None else table.to_plain()[:top]
        found: dict[str, Any] = {
            "run": model.name,
            "coefficients": shown,
            "units": table.units,
            "standard_errors": table.errors,
            "notes": list(table.notes),
        }
        if table.positive is not None:
            found["positive"] = table.positive
        if table.level is not None:
            found["level"] = table.level
        if expected is not None:
            found["forecast"] = expected.to_plain()
        show.as_json(found)
        return
    show.coefficients(table, model.name, top)


def heterogeneity(
    folder: Folder,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="The price of the question.")],
    run: Run = None,
    delta: Delta = None,
    as_json: flags.Json = False,
) -> None:
    """Test privately whether the nodes' populations are alike. The test is charged.

    Each node releases the mean gradient of its own records at the run's model, with its own noise.
    Others then learn more about a node than from a masked sum, so it never happens by itself. If
    all nodes are alike, the statistic has a chi-square distribution.

    Example: tacenda heterogeneity runs/fit-treegd-20300101-120000 --epsilon 1
    """
    from tacenda.runs.inferring import question

    asked = question(folder, run, epsilon, delta, again=True)
    if not as_json:
        print(f"Note: {asked.cost}", flush=True)
    found = asked.heterogeneity()
    if as_json:
        show.as_json({"run": asked.run, **found.to_plain()})
        return
    print(found)


def _ids(data: str, column: str) -> list[Any]:
    from tacenda.checks import nearest
    from tacenda.data.readers import read_table

    columns = read_table(data).columns
    if column not in columns:
        raise InputError(
            f"--id {column!r} is no column of {data}; it has {', '.join(columns)}."
            f"{nearest(column, columns)}"
        )
    return [
        int(v) if isinstance(v, float) and v.is_integer() else v for v in columns[column].tolist()
    ]


def _csv(columns: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in row])
    return text.getvalue()


def shapes(folder: Folder, run: Run = None, as_json: flags.Json = False) -> None:
    """Show what each column adds to the score of an additive model, the most important first.

    Curves are shown at nine points of the declared range, levels one by one, each with the standard
    deviation of the privacy noise. Values are centred, on the scale of the score: log-odds, the
    logarithm of a rate, or the target's own unit. --json has all points, and the maps of pairs.
    Costs no privacy: the model was released already.

    Example: tacenda shapes runs/fit-treegd-20300101-120000 --json
    """
    name, found = _shapes_in(folder, run)
    if as_json:
        show.as_json({"run": name, "shapes": [shape.to_plain() for shape in found]})
        return
    show.shapes(found, name)


def _shapes_in(folder: Path, run: str | None) -> tuple[str, list[Shape]]:
    """Of a run, or of an exported model."""
    from tacenda.evaluation.shapes import run_shapes
    from tacenda.runtime.result import load
    from tacenda.runtime.run_folder import RunFolder, run_name

    refused = InputError(
        f"{folder} holds a linear model, which has coefficients and no shapes: "
        "`tacenda coefficients` shows them; `tacenda fit --model additive` learns curves."
    )
    if (folder / "model.json").is_file() and not (folder / "manifest.json").is_file():
        from tacenda.estimators.export import load_model

        model = load_model(folder)
        if not hasattr(model, "schema_"):
            raise refused
        return type(model).__name__, model.shapes_
    home = RunFolder.open(folder)
    files = {run_name(entry): entry["file"] for entry in home.manifest()["results"]}
    name = next(iter(files)) if run is None else checks.one_of("--run", run, files)
    schema = Schema.read(home.schema_path) if home.schema_path.is_file() else None
    if schema is None or not schema.additive:
        raise refused
    return name, run_shapes(load(home.path / files[name]), schema)
