"""`tacenda plan`: what a budget achieves, what more of anything would buy, and how much data a
target needs; public facts only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.cli import accounting, flags, show
from tacenda.terms.method import SETTINGS

if TYPE_CHECKING:
    from tacenda.data.dataset import Dataset
    from tacenda.engines import Workers
    from tacenda.planning import Change, Needed, Plan, Prediction
    from tacenda.runs.sections import RunConfig

Trials = Annotated[
    int,
    typer.Option(
        help="Runs on generated data behind the prediction; 0 for the formula alone (quick)."
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        help="A named data set, or a file with --schema: only its records (and node column) are "
        "counted, unless --records says how many there are; --schema alone gives the other facts."
    ),
]
Public = Annotated[
    str | None,
    typer.Option(
        "--public",
        help="Records of the same kind that are public, to tune the step on and to predict from: "
        "a name of `tacenda datasets`, or a CSV, Parquet or LIBSVM file with --schema. "
        "They get no protection, and nothing is charged for them.",
    ),
]
Prevalence = Annotated[
    float | None,
    typer.Option(
        "--prevalence",
        help="The share of the second of two classes, if you know it: accuracy depends on it. "
        "Without it several shares are tried in turn.",
    ),
]
TargetExcess = Annotated[
    float | None, typer.Option(help="How many records does this excess risk need?")
]
TargetAccuracy = Annotated[
    float | None,
    typer.Option(help="How many records does this accuracy need? (With generated data.)"),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        help="Draw what the changes give and the privacy curve: a .svg, .png, .pdf or .html file."
    ),
]
Terms = Annotated[
    Path | None,
    typer.Option(
        "--terms", help="Write the choice as the terms of a contract: for `tacenda consortium new`."
    ),
]

TRUST_SHOWN = 150  # members up to which every coalition of two is tried within a second


@flags.takes(
    {
        "config": flags.Config,
        "epsilon": flags.PRIVACY["epsilon"],
        **accounting.RELATION,
        "rounds": flags.OF_RUN["rounds"],
        "data": Data,
        "schema": flags.OF_DATA["schema"],
        **accounting.SHAPE,
        "trials": Trials,
        "public": Public,
        "prevalence": Prevalence,
        "target_excess": TargetExcess,
        "target_accuracy": TargetAccuracy,
        "plot": Plot,
        "terms": Terms,
        "jobs": flags.OF_RUN["jobs"],
        "engine": flags.OF_RUN["engine"],
        "as_json": flags.Json,
        "quiet": flags.Quiet,
    },
    trials=3,
)
def plan(given: flags.Given) -> None:
    """Forecast what a budget achieves, before any data is read: algorithm, rounds, step and closing
    mixings, with the reasons.

    Example: tacenda plan --nodes 100 --records 452 --features 104 --epsilon 1

    Example: tacenda plan --data patients.csv --schema patients.toml --nodes 20 --epsilon 1
    """
    from tacenda.engines import Workers
    from tacenda.planning.predict import predict

    trials, plot = given["trials"], given["plot"]
    if plot is not None:
        from tacenda.formats.files import checked_output

        checked_output(plot)
    if given["terms"] is not None and given["terms"].exists():
        from tacenda.errors import InputError

        raise InputError(f"{given['terms']} exists; remove it, or choose another file for --terms.")
    known = _sample(given)
    # The sample is of the same kind, so it tells the width
    if known is not None and all(given[name] is None for name in ("config", "data", "schema")):
        given = {**given, "features": given["features"] or known.n_features}
        if given["classes"] is None:
            given["classes"] = 0 if known.classes is None else len(known.classes)
    sample = None if known is None else (known.X, known.y)
    found, notes = _config(given)
    chosen = _planned(found, whole_numbers=given["terms"] is not None)
    if sample is not None and trials:
        chosen = chosen.tuned(sample)
    changes = chosen.what_if()
    jobs = 1 if found.run.jobs == "auto" else found.run.jobs
    workers = Workers.of(found.run.engine, jobs)
    prediction = (
        predict(
            chosen,
            sample,
            trials,
            workers=workers,
            progress=not given["quiet"],
            prevalence=given["prevalence"],
        )
        if trials
        else None
    )
    targets = given["target_excess"], given["target_accuracy"]
    needed = _needed(chosen, *targets, trials, sample, workers, given["prevalence"])
    if plot is not None:
        from tacenda.planning.picture import draw

        draw(chosen, changes, plot)
    if given["terms"] is not None:
        _write_terms(chosen, given["terms"])
        notes.append(f"The terms of a contract are in {given['terms']}; give them a title.")
    if given["as_json"]:
        show.as_json({**_plain(chosen, changes, prediction, needed, plot), "notes": notes})
    else:
        _print(chosen, changes, prediction, needed, plot)
        for note in notes:
            print(f"Note: {note}")


def _write_terms(chosen: Plan, path: Path) -> None:
    from tacenda.formats.files import write_text
    from tacenda.formats.text import toml
    from tacenda.planning.contract_terms import plan_terms

    write_text(path, toml(plan_terms(chosen, "Title of the study")))


def _config(given: flags.Given) -> tuple[RunConfig, list[str]]:
    """The configuration whose public facts are planned with, and what was read for them."""
    data, schema, per_node = (given[name] for name in ("data", "schema", "records"))
    if data is None and (schema is None or given["config"] is not None):
        return _bare(given), []
    from tacenda.errors import InputError

    if given["features"] is not None or given["classes"] is not None:
        raise InputError(
            "--features and --classes must be left out of a plan with --data or --schema, "
            "which says both."
        )
    if data is None:
        return _of_schema(given), [
            f"The facts are those of {schema}; how many records there are is as declared."
        ]
    sections = flags.sections({k: v for k, v in given.items() if k != "public"})
    found = flags.assemble(
        given["config"], data=data, sections=sections, settings=given["settings"], algorithm="auto"
    )
    if per_node is None:
        return found, [_counted(found)]
    from tacenda.runs.shape import node_count

    declared = found.data.model_copy(update={"records": per_node * node_count(found.network)})
    if found.data.name is not None or _has_owners(found):
        raise InputError(
            f"--records must be left out with {data}, whose records are counted on every node."
        )
    return found.model_copy(update={"data": declared}), []


def _bare(given: flags.Given) -> RunConfig:
    return accounting.config_of(
        {**given, "public": None, "algorithm": "auto", "hyper": None, "inner": None}
    )


def _of_schema(given: flags.Given) -> RunConfig:
    """A bare shape with the width, classes and row scale of a schema."""
    from tacenda.data.schema import Schema

    bare = _bare({**given, "features": 1, "schema": None})
    schema = Schema.read(given["schema"]).as_model(bare.problem.model)
    shape = {"features": len(schema.feature_names), "classes": len(schema.label.classes or ())}
    found = _bare({**given, **shape, "schema": None})
    said: dict[str, Any] = {}
    if found.problem.row_scale is None:
        said["row_scale"] = schema.row_scale
    if found.problem.loss == "auto":
        said["loss"] = schema.label.usual_loss
    return found.model_copy(update={"problem": found.problem.model_copy(update=said)})


def _has_owners(config: RunConfig) -> bool:
    from tacenda.runs.shape import partition_of, schema_of_file

    if config.data.table_schema is None:
        return False
    column = schema_of_file(config.data).node_column
    return partition_of(config.network, column is not None) == "column"


def _counted(config: RunConfig) -> str:
    if config.data.name is not None:
        return f"The number of records is that of the data set {config.data.name}."
    what = "records of each node" if _has_owners(config) else "records"
    file = Path(str(config.data.file)).name
    if config.privacy.adjacency != "replace-one":
        return (
            "How many records a node has is as declared (problem.public_size); those of "
            f"{file} were counted to see who the nodes are, and no count was used."
        )
    return (
        f"The {what} were counted in {file}, and the counts are taken as public; nothing else of "
        "the records was read."
    )


def _planned(found: RunConfig, whole_numbers: bool) -> Plan:
    """whole_numbers: only methods that real nodes take without a word about their noise."""
    from tacenda.planning import plan_facts
    from tacenda.privacy.settings import Privacy
    from tacenda.runs.cost import public_run
    from tacenda.runs.form import with_form
    from tacenda.terms.border import stated
    from tacenda.terms.privacy import Promise

    found, taken = with_form(found)
    for sentence in taken:
        show.note(f"note: {sentence}")
    run, fixed = public_run(found), found.run.fixed_settings()
    plan = plan_facts(
        run.facts,
        run.topology,
        Privacy(**stated(Promise, found.privacy)),
        rounds=fixed.get("rounds"),
        whole_numbers=whole_numbers,
    )
    kept = {s.name: fixed[s.name] for s in SETTINGS if s.name in fixed and not s.planned}
    return replace(plan, method=replace(plan.method, **kept))


def _sample(given: flags.Given) -> Dataset | None:
    """The public sample, read as `tacenda fit` reads its records; of a file the configuration's own
    schema is the default."""
    from tacenda.errors import InputError
    from tacenda.formats.files import is_same_file
    from tacenda.runs.private_run import load as load_records

    public, schema, config, settings = (
        given[name] for name in ("public", "schema", "config", "settings")
    )
    if public is None:
        return None
    if given["data"] is not None and is_same_file(public, given["data"]):
        raise InputError(
            f"--public must be another file than --data ({public}), whose records it would leave "
            "without protection; leave it out, or set public records aside."
        )
    if not flags.is_file(public):
        if schema is not None and given["data"] is None:
            raise InputError(
                f"--schema belongs to a file, and --public {public} is a named data set; "
                "leave one of them out."
            )
        from tacenda.data import load

        return load(public)
    described = schema or flags.assemble(config, settings=settings).data.table_schema
    found = flags.assemble(
        config,
        data=public,
        sections=flags.sections({"schema": described, "features": given["features"]}),
        settings=settings,
    )
    return load_records(found.data)[0]


def _needed(
    chosen: Plan,
    excess: float | None,
    accuracy: float | None,
    trials: int,
    sample: Any,
    workers: Workers,
    prevalence: float | None,
) -> Needed | None:
    from tacenda.errors import InputError

    if excess is None and accuracy is None:
        return None
    from tacenda.planning.needed import records_for

    if not isinstance(chosen.epsilon, float):
        raise InputError(
            "--target-excess and --target-accuracy take one epsilon for all "
            "members, not one per node."
        )
    return records_for(
        chosen,
        target_excess=excess,
        target_accuracy=accuracy,
        trials=min(trials, 2),
        public=sample,
        workers=workers,
        prevalence=prevalence,
    )


def _plain(
    chosen: Plan,
    changes: list[Change],
    prediction: Prediction | None,
    needed: Needed | None,
    plot: Path | None,
) -> dict[str, Any]:
    from tacenda.planning.what_if import advice

    return {
        **chosen.to_plain(),
        "prediction": None if prediction is None else prediction.to_plain(),
        "what_if": [c.to_plain() for c in changes],
        "advice": advice(changes),
        "adversaries": [a.to_plain() for a in chosen.adversaries()]
        if chosen.facts.n <= TRUST_SHOWN
        else None,
        "groups": [o.to_plain() for o in _group_options(chosen)],
        "needed": None if needed is None else needed.to_plain(),
        "plot": None if plot is None else str(plot),
    }


def _print(
    chosen: Plan,
    changes: list[Change],
    prediction: Prediction | None,
    needed: Needed | None,
    plot: Path | None,
) -> None:
    from tacenda.planning.what_if import advice

    print(chosen.explain())
    if prediction is not None:
        print(prediction.explain())
    print()
    rows = [
        [
            c.name,
            f"{c.excess_risk:.3g}",
            f"{c.factor:.2f}",
            c.plan.algorithm.name,
            str(c.plan.rounds),
            show.size(c.plan.bytes),
        ]
        for c in changes
    ]
    header = ["what if", "excess risk (formula)", "times", "algorithm", "rounds", "sent"]
    show.table(header, rows, title="What more would give", right=(1, 2, 4, 5))
    print(f"\n{advice(changes)}")
    if chosen.coalition is not None and chosen.facts.n <= TRUST_SHOWN:
        _print_trust(chosen)
    _print_groups(chosen)
    if needed is not None:
        print(needed.explain())
    if plot is not None:
        print(f"Drawn in {plot}.")


def _group_options(chosen: Plan) -> list[Any]:
    return chosen.group_options() if chosen.facts.n <= TRUST_SHOWN else []


def _print_groups(chosen: Plan) -> None:
    options = _group_options(chosen)
    if len(options) < 2:
        return
    rows = [
        [
            f"{o.groups}" + (" (auto)" if o.proposed else ""),
            str(o.smallest),
            f"{o.noise:.2f}",
            f"{o.excess_risk:.3g}",
            str(o.liars),
        ]
        for o in options
    ]
    print()
    title = "What --groups would cost, and how many of them may have a liar in them"
    header = ["groups", "smallest", "noise, times", "excess risk (formula)", "with liars"]
    show.table(header, rows, title=title, right=(1, 2, 3, 4))


def _print_trust(chosen: Plan) -> None:
    rows = [
        [
            a.who,
            ("" if a.exact else "at most ") + f"{a.mu:.3g}",
            f"{a.epsilon:.3g}",
            "yes" if a.promised else "no",
        ]
        for a in chosen.adversaries()
    ]
    print()
    title = (
        "Who must not collude: one record's loss against those who combine what they know "
        f"(delta {chosen.delta:g})"
    )
    show.table(["who", "mu", "epsilon", "promised"], rows, title=title, right=(1, 2))
