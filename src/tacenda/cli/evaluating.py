"""`tacenda evaluate`: how good a model is on labelled records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show
from tacenda.cli.predicting import Folder, Node, Run

NOT_PRIVATE = "reads these records without noise: not private unless the data is public"


def evaluate(
    folder: Folder,
    data: Annotated[
        str,
        typer.Argument(
            help="A CSV or Parquet file with the model's columns and the label, a LIBSVM file, "
            "or a named data set (its test part, where it has one)."
        ),
    ],
    run: Run = None,
    node: Node = None,
    label: Annotated[
        str | None, typer.Option(help="The column to predict; for exported models.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="These records are public, so nothing is private here.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Also write the figures as one HTML page.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Measures of a model on labelled records: accuracy, ROC AUC and others, confusion matrix,
    calibration; R2, RMSE, MAE and residuals for a regression.

    It reads the records without noise: what it prints is not private unless they are public.

    Example: tacenda evaluate runs/fit-dpdda-20300101-120000 test.csv --report evaluation.html
    """
    from tacenda.cli.models import labelled_rows, open_model

    model = open_model(folder, run, node)
    rows, labels, which = labelled_rows(model, data, label)
    values, drawn = _measured(model, rows, labels)
    note = "the records were declared public" if public else NOT_PRIVATE
    found = {
        "run": model.name,
        "data": which,
        "records": len(labels),
        "public": public,
        "note": note,
        "measures": values,
        "figures": drawn,
    }
    if report is not None:
        from tacenda.report import evaluation_page

        found["report"] = str(evaluation_page(found, report))
    if as_json:
        show.as_json(found)
        return
    _print(found)


def _measured(model: Any, rows: Any, labels: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    from tacenda.evaluation import figures, measures

    scores = model.scores(rows)
    if model.classes is None:
        guessed = model.units.predictions(scores)
        values = measures.regression(labels, guessed, loss=model.loss, level=model.level)
        return values, figures.regression(labels, guessed)
    how = {"probabilities": model.probabilities}
    return (
        measures.classification(labels, scores, **how),
        figures.classification(labels, scores, model.classes, **how),
    )


def _print(found: dict[str, Any]) -> None:
    from tacenda.evaluation import measures

    print(f"{found['run']} on {found['data']}: {found['records']} records")
    print(f"Note: {found['note']}.\n")
    values = found["measures"]
    show.table(
        ["measure", "value"],
        [[measures.title(name), measures.text(name, v)] for name, v in values.items()],
        right=(1,),
    )
    for text in measures.undefined(values):
        print(f"Note: {text}.")
    drawn = found["figures"]
    if "confusion" in drawn:
        names, counts = drawn["confusion"]["classes"], drawn["confusion"]["counts"]
        print()
        show.table(
            ["class", *(f"predicted {n}" for n in names)],
            [[n, *map(str, row)] for n, row in zip(names, counts, strict=True)],
            title="Confusion matrix: records of each class, by prediction",
            right=range(1, len(names) + 1),
        )
    if drawn.get("calibration"):
        print()
        show.table(
            ["probability", "records", "mean probability", "observed share"],
            [
                [
                    f"{b['low']:g} to {b['high']:g}",
                    str(b["records"]),
                    show.number(b["predicted"], 3),
                    show.number(b["observed"], 3),
                ]
                for b in drawn["calibration"]
            ],
            title="Calibration",
            right=(1, 2, 3),
        )
    if "residuals" in drawn:
        print()
        show.table(
            ["share of records below", "label - prediction"],
            [[f"{r['share']:g}", measures.text("mae", r["value"])] for r in drawn["residuals"]],
            title="Residuals",
            right=(0, 1),
        )
    if "report" in found:
        print(f"\nreport  {found['report']}")
