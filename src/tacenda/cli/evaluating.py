"""`tacenda evaluate`: how good a model is on labelled records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show
from tacenda.cli.predicting import Folder, Node, Run
from tacenda.errors import InputError

NOT_PRIVATE = "reads these records without noise: not private unless the data is public"


def evaluate(
    folder: Folder,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A CSV or Parquet file with the model's columns and the label, a LIBSVM file, "
            "or a named data set (its test part, where it has one). With --private it may be left "
            "out: the records that `tacenda fit --test-fraction 0.2` set aside are taken."
        ),
    ] = None,
    run: Run = None,
    node: Node = None,
    label: Annotated[
        str | None, typer.Option(help="The column to predict; for exported models.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="These records are public, so nothing is private here.")
    ] = False,
    private: Annotated[
        bool,
        typer.Option(
            "--private", help="Release noisy counts once, and print measures with intervals."
        ),
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", "-e", help="With --private: budget of these records."),
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of that budget.")] = 1e-5,
    nodes: Annotated[
        int,
        typer.Option(
            min=1, help="With --private: number of simulated members that share the records."
        ),
    ] = 1,
    public_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --private, under add-remove: a public number in place of the number of "
            "records.",
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(help="With --private: confidence level of the intervals.")
    ] = 0.95,
    ledger: Annotated[
        Path | None, typer.Option(help="With --private: lasting ledger to charge first.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Data set in the ledger: its account NAME/held-out is charged."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the simulated noise; random by default.")
    ] = None,
    missed_cost: Annotated[
        float | None,
        typer.Option(
            help="With --private: how much worse a missed positive is than a false alarm; chooses "
            "the threshold with the least cost."
        ),
    ] = None,
    flagged: Annotated[
        float | None,
        typer.Option(
            help="With --private: choose the lowest threshold that flags at most this share of "
            "the records."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write the figures as one HTML page.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Measure a model on labelled records: accuracy, ROC AUC and others, confusion matrix,
    calibration; R2, RMSE, MAE and residuals for a regression.

    Without --private it reads the records without noise: what it prints is not private unless they
    are public. With --private it releases one vector of noisy counts, charged before it is drawn;
    each measure then has an interval that covers the noise and the choice of held-out records.
    Records that were trained on are refused. It is a simulation on this machine: its noise is
    floating-point and seeded. Real members use [evaluation] in their contract.

    Example: tacenda evaluate runs/fit-dpdda-20300101-120000 test.csv --private --epsilon 1
    """
    from tacenda.cli.models import labelled_rows, open_model

    model = open_model(folder, run, node)
    if private:
        asked = (epsilon, delta, nodes, public_size, level, ledger, dataset, seed)
        _private(model, data, label, asked, public, report, as_json, (missed_cost, flagged))
        return
    if missed_cost is not None or flagged is not None:
        raise InputError(
            "--missed-cost and --flagged are for --private: a threshold is chosen on released "
            "counts."
        )
    if data is None:
        raise InputError(
            "DATA must name the labelled records; only with --private it may be left out."
        )
    if epsilon is not None or ledger is not None:
        raise InputError(
            "--epsilon and --ledger are for --private; without it the records are read without "
            "noise."
        )
    rows, labels, which = labelled_rows(model, data, label)
    values, drawn = _measured(model, rows, labels)
    note = "the records were declared public" if public else NOT_PRIVATE
    found = {
        "run": model.name,
        "data": which,
        "records": len(labels),
        "public": public,
        "note": note,
        "positive": drawn.get("positive"),
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


def _private(
    model: Any,
    data: str | None,
    label: str | None,
    asked: tuple[Any, ...],
    public: bool,
    report: Path | None,
    as_json: bool,
    wanted: tuple[float | None, float | None],
) -> None:
    """One charged release, and what follows from it; wanted: by what to choose a threshold."""
    from tacenda.cli.held_out import held_out_problem, held_out_size, private_records
    from tacenda.evaluation.private_run import evaluate_privately
    from tacenda.graph import complete
    from tacenda.privacy.settings import Privacy

    epsilon, delta, nodes, public_size, level, ledger, dataset, seed = asked
    if public or epsilon is None:
        raise InputError(
            "--private needs --epsilon, the budget of these records, and no --public: "
            "public records need no noise."
        )
    missed_cost, flagged = wanted
    choosing = wanted != (None, None)
    if choosing and (None not in wanted or model.classes is None or len(model.classes) != 2):
        raise InputError(
            "give either --missed-cost or --flagged, and only for a model of two classes."
        )
    size = held_out_size(model, data, nodes, public_size)
    price = Privacy(epsilon, delta, adjacency="replace-one" if size is None else "add-remove")
    rows, labels, which, persons, marks = private_records(model, data, label)
    problem, counts, weights = held_out_problem(model, rows, labels, nodes, persons, size, marks)
    found = evaluate_privately(
        weights,
        problem,
        complete(nodes),
        price,
        counts=counts,
        noise="independent" if nodes == 1 else "masked",
        level=level,
        seed=seed,
        ledger=ledger,
        dataset=dataset,
        units=model.units,
    )
    found.about.update({"name": model.name, "data": which, "charged": ledger is not None})
    found.about["loss"] = model.loss or found.about["loss"]
    if model.classes is not None:
        found = replace(found, classes=model.classes)
    plain = found.to_plain()
    if choosing:
        plain["threshold"] = found.threshold(missed_cost=missed_cost, flagged=flagged)
    if report is not None:
        plain["report"] = str(found.report(report))
    if as_json:
        show.as_json(plain)
        return
    print(f"{model.name} on {which}")
    print(found.text)
    if ledger is None:
        print(
            "Note: without a ledger this cost is not remembered, and training records are "
            "recognised by their file only."
        )
    _print_private(found)
    if choosing:
        _print_threshold(plain["threshold"], str(found.positive))
    if report is not None:
        print(f"\nreport  {plain['report']}")


def _print_private(found: Any) -> None:
    """The tables of a private evaluation."""
    table = found.confusion
    if table is not None:
        names = table["classes"]
        rows = [
            [name, *(f"{v:.0f} ({a:.0f} to {b:.0f})" for v, a, b in zip(*cells, strict=True))]
            for name, *cells in zip(names, table["value"], table["low"], table["high"], strict=True)
        ]
        print()
        show.table(
            ["class", *(f"predicted {n}" for n in names)],
            rows,
            title="Confusion matrix: noisy counts with intervals",
            right=range(1, len(names) + 1),
        )
    if found.cuts:
        print()
        show.table(
            ["cut", "predicted", "observed", "Brier score"],
            [
                [c["cut"], f"{c['predicted']:.3f}", _ends(c["observed"]), _ends(c["brier"])]
                for c in found.cuts
            ],
            title="Shares of the records beyond each cut",
            right=(1, 2, 3),
        )
    if found.class_table:
        print()
        show.table(
            ["class", "share of records", "recall", "precision"],
            [
                [row["class"], *(_ends(row[what]) for what in ("share", "recall", "precision"))]
                for row in found.class_table
            ],
            title="Classes",
            right=(1, 2, 3),
        )
    bins = [row for row in found.calibration if row["observed"] is not None]
    if bins:
        predicted, observed = found.calibration_words
        print()
        show.table(
            [predicted, "records", observed],
            [
                [f"{b['low']:.4g} to {b['high']:.4g}", f"{b['records']:.0f}", _ends(b["observed"])]
                for b in bins
            ],
            title="Calibration: bins with enough records for this noise",
            right=(1, 2),
        )
    if found.residuals:
        print()
        show.table(
            ["size of label - prediction", "share of records with at most this"],
            [[f"{row['size']:.4g}", _ends(row["share"])] for row in found.residuals],
            title="Residuals",
            right=(0, 1),
        )


def _print_threshold(chosen: dict[str, Any], positive: str) -> None:
    print(
        f"\nThreshold {chosen['threshold']:g}: records with at least this probability of "
        f"{positive} count as {positive}.\n"
        f"  share of records  {_ends(chosen['flagged'])}\n"
        f"  recall            {_ends(chosen['recall'])}\n"
        f"  false alarms      {_ends(chosen['false'])} of the other class\n"
        f"Use it: tacenda predict ... --threshold {chosen['threshold']:g}"
    )


def _ends(row: dict[str, float]) -> str:
    return f"{row['value']:.3f} ({row['low']:.3f} to {row['high']:.3f})"


def _measured(model: Any, rows: Any, labels: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    from tacenda.evaluation import figures, measures
    from tacenda.evaluation.outcome_measures import is_outcome

    scores = model.scores(rows)
    if model.classes is None:
        guessed = model.units.predictions(scores)
        values = measures.regression(labels, guessed, loss=model.loss, level=model.level)
        return values, figures.regression(labels, guessed)
    if model.loss is not None and is_outcome(model.loss):
        return (
            measures.outcomes(labels, scores, model.loss),
            figures.outcomes(labels, scores, model.loss, model.classes),
        )
    how = {"probabilities": model.probabilities}
    return (
        measures.classification(labels, scores, **how),
        figures.classification(labels, scores, model.classes, **how),
    )


def _print(found: dict[str, Any]) -> None:
    from tacenda.evaluation import measures

    print(f"{found['run']} on {found['data']}: {found['records']} records")
    print(f"Note: {found['note']}.")
    print(f"Positive class: {found['positive']}.\n" if found["positive"] else "")
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
    if drawn.get("classes"):
        print()
        show.table(
            ["class", "recall", "precision"],
            [
                [c["class"], show.number(c["recall"], 3), show.number(c["precision"], 3)]
                for c in drawn["classes"]
            ],
            title="Classes",
            right=(1, 2),
        )
    if drawn.get("cuts"):
        print()
        show.table(
            ["cut", "predicted", "observed", "Brier score"],
            [
                [c["cut"], *(show.number(c[w], 3) for w in ("predicted", "observed", "brier"))]
                for c in drawn["cuts"]
            ],
            title="Shares of the records beyond each cut",
            right=(1, 2, 3),
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
