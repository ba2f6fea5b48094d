"""`tacenda experiment ...`: only typer is imported here,
what a command needs is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.errors import InputError

experiment_app = typer.Typer(
    help="The five papers' experiments and three of our own, as published and at equal "
    "accounted privacy.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Out = Annotated[Path, typer.Option("--out", help="Folder of the stored results.")]
Quick = Annotated[bool, typer.Option("--quick", help="Generated data, seconds (the default).")]
Reduced = Annotated[
    bool,
    typer.Option(
        "--reduced", help="The papers' data with few seeds, rounds and levels: minutes each."
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="The papers' sizes: some two hours for all on two cores.")
]
Jobs = Annotated[
    int, typer.Option("--jobs", min=0, help="Processes side by side; 0 for all cores.")
]
Where = Annotated[
    str,
    typer.Option(
        "--engine",
        help="Where the runs are carried out: loky (processes of this machine), dask://host:port, "
        "ray://host:port, or ray (one on this machine).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OUT = Path("runs/experiments")


@experiment_app.command("list")
def list_(as_json: Json = False) -> None:
    """List all experiments: name, source, question. Example: tacenda experiment list"""
    from tacenda_papers.experiments.registry import EXPERIMENTS

    rows = [
        {"name": e.name, "paper": e.paper, "figure": e.figure, "question": e.question}
        for e in EXPERIMENTS.values()
    ]
    if as_json:
        _print_json(rows)
        return
    widths = {key: max(len(row[key]) for row in rows) + 2 for key in rows[0]}
    for row in rows:
        print("".join(f"{text:{widths[key]}}" for key, text in row.items()).rstrip())


@experiment_app.command()
def run(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names from `tacenda experiment list`.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every experiment.")] = False,
    quick: Quick = False,
    reduced: Reduced = False,
    full: Full = False,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="How many noise seeds instead of the size's own number."),
    ] = None,
    jobs: Jobs = 1,
    engine: Where = "loky",
    out: Out = OUT,
    as_json: Json = False,
) -> None:
    """Run experiments; finished runs are not repeated. Example: tacenda experiment run cdp-lasso
    --full --jobs 2"""
    from tacenda.engines import Workers
    from tacenda_papers.experiments import player
    from tacenda_papers.experiments.registry import EXPERIMENTS, by_name
    from tacenda_papers.experiments.summary import ran

    if bool(names) == everything:
        raise InputError(
            "experiment run needs names, or --all; `tacenda experiment list` shows the names."
        )
    size = _size(quick, reduced, full, seeds)
    workers = Workers.of(engine, player.cores(jobs))
    told: list[dict[str, Any]] = []
    for experiment in EXPERIMENTS.values() if everything else [by_name(n) for n in names or ()]:
        rows = player.play(experiment, size, out, workers=workers)
        found = experiment.findings(rows)
        folder = player.folder_of(out, experiment, size)
        told.append(
            {
                "name": experiment.name,
                "size": size.name,
                "verdict": experiment.survives(found, rows),
                "ran": ran(rows),
                "rows": str(folder / "rows.csv"),
                "findings": [
                    {"mode": f.mode, "claim": f.claim, "holds": f.holds, "detail": f.detail}
                    for f in found
                ],
            }
        )
        if not as_json:
            _tell(told[-1], [f"{f.mode}: {f.sentence}" for f in found])
    if as_json:
        _print_json(told)


@experiment_app.command()
def report(
    quick: Quick = False,
    reduced: Reduced = False,
    full: Full = False,
    out: Out = OUT,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="The HTML file to write; by default beside the results."),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            help="Also write the table of claims as Markdown, and a page for each experiment with "
            "its figures and rows into a folder of the same name beside it.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", help="Also write every figure as SVG and PDF into this folder."),
    ] = None,
    missing: Annotated[
        bool, typer.Option("--run", help="First make every run that is not stored yet.")
    ] = False,
    jobs: Jobs = 1,
    engine: Where = "loky",
) -> None:
    """Write all stored results as one self-contained HTML file. Example: tacenda experiment
    report --full --run --jobs 2"""
    from tacenda.engines import Workers
    from tacenda_papers.experiments import headline as headline_table
    from tacenda_papers.experiments import page, pictures, player, summary
    from tacenda_papers.experiments.registry import EXPERIMENTS

    size = _size(quick, reduced, full, None)
    if missing:
        workers = Workers.of(engine, player.cores(jobs))
        for experiment in EXPERIMENTS.values():
            player.play(experiment, size, out, workers=workers)
    known = summary.stored_experiments(out, size)
    truths = headline_table.headlines()
    print(page.build(known, size, to or out / size.name / "report.html", truths))
    if markdown is not None:
        older = summary.older_pages(markdown, known)
        written = summary.write_markdown(markdown, summary.pages(known, size, truths, older))
        for path in [*written, *pictures.beside(markdown.with_suffix(""), known)]:
            print(path)
    if figures is not None:
        for path in pictures.for_papers(figures, known):
            print(path)


@experiment_app.command()
def headline(as_json: Json = False) -> None:
    """Print the accounted epsilon of every paper's headline setting, as Markdown.
    Example: tacenda experiment headline"""
    from tacenda_papers.experiments.headline import as_markdown, headlines

    rows = headlines()
    if as_json:
        _print_json([row.to_plain() for row in rows])
    else:
        print(as_markdown(rows), end="")


@experiment_app.command("large", short_help="Time and memory of the epsilon-shaped run.")
def large(
    rows: Annotated[
        int, typer.Option("--rows", help="Records of 2,000 features; 400,000 is 3.2 GB.")
    ] = 400_000,
    batch: Annotated[
        str,
        typer.Option(
            "--batch", help="'plan' for the planner's choice, or records a round and node."
        ),
    ] = "plan",
    epsilon: Annotated[float, typer.Option("--epsilon", help="Budget of the run.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Measure the `epsilon`-shaped run: time, peak memory and where the time goes. Example: tacenda
    experiment large --rows 40000 --batch 1"""
    from tacenda_papers.experiments.large import measure

    told = measure(rows, batch, epsilon)
    if as_json:
        _print_json(told)
        return
    width = max(map(len, told)) + 2
    for name, value in told.items():
        lines = value if isinstance(value, list) else [value]
        print(f"{name:{width}}{lines[0]}", *(f"{'':{width}}{line}" for line in lines[1:]), sep="\n")


def _size(quick: bool, reduced: bool, full: bool, seeds: int | None) -> Any:
    from tacenda_papers.experiments.spec import Size

    asked = [
        name for name, given in (("quick", quick), ("reduced", reduced), ("full", full)) if given
    ]
    if len(asked) > 1:
        raise InputError(f"give one of --quick, --reduced and --full, not {' and '.join(asked)}.")
    return Size(asked[0] if asked else "quick", seeds)


def _tell(about: dict[str, Any], sentences: list[str]) -> None:
    print(f"\n{about['name']} ({about['size']}): {about['verdict']}")
    for sentence in sentences:
        print(f"  {sentence}")
    print(f"  {about['ran']} Rows: {about['rows']}")


def _print_json(value: Any) -> None:
    import json

    print(json.dumps(value, indent=2, default=str))
