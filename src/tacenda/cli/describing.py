"""`tacenda describe`, `survival` and `hazards`: private tables of who is in the data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show
from tacenda.errors import InputError

SCHEMA = Path("schema.toml")
Data = Annotated[str, typer.Argument(help="A CSV or Parquet file.")]
DataOrPlan = Annotated[
    str | None, typer.Argument(help="A CSV or Parquet file. With --plan it may be left out.")
]
Schema = Annotated[Path, typer.Option(help="Public description of the columns.")]
By = Annotated[str | None, typer.Option(help="The categorical column that defines the groups.")]
Columns = Annotated[
    list[str] | None, typer.Option("--column", "-c", help="Only these columns; may be repeated.")
]
# Of one release: its budget, where it is charged, and where the result goes
RELEASE: flags.Options = {
    "epsilon": Annotated[
        float | None, typer.Option("--epsilon", "-e", help="Budget of the whole result.")
    ],
    "delta": Annotated[float, typer.Option(help="Delta of that budget.")],
    "public": Annotated[
        bool, typer.Option("--public", help="These records are public: no noise, no budget.")
    ],
    "nodes": Annotated[
        int, typer.Option(min=1, help="Number of simulated members that share the records.")
    ],
    "public_size": Annotated[
        int | None,
        typer.Option(
            "--public-size",
            min=1,
            help="The number of records is private (add-remove); this public number stands for it.",
        ),
    ],
    "level": Annotated[float, typer.Option(help="Confidence level of the intervals.")],
    "seed": Annotated[
        int | None, typer.Option(help="Seed of the simulated noise; random by default.")
    ],
    "ledger": Annotated[Path | None, typer.Option(help="Lasting ledger to charge first.")],
    "dataset": Annotated[str | None, typer.Option(help="Data set in the ledger.")],
    "out": Annotated[
        list[Path] | None,
        typer.Option(
            "--out",
            "-o",
            help="Write the result: .html, .csv, .md, .json, .svg, .pdf or .png. May be repeated.",
        ),
    ],
    "as_json": flags.Json,
}
DEFAULTS: dict[str, Any] = {
    "schema": SCHEMA,
    "noisy": "refuse",
    "delta": 1e-5,
    "nodes": 1,
    "level": 0.95,
}


@flags.takes(
    {
        "data": DataOrPlan,
        "schema": Schema,
        "by": By,
        "columns": Columns,
        "quantiles": Annotated[
            str, typer.Option(help="Quantiles of numeric columns; empty for none.")
        ],
        "bins": Annotated[
            int, typer.Option(min=2, help="Bins of a numeric column, for its quantiles.")
        ],
        "plan": Annotated[
            bool, typer.Option("--plan", help="Only say how readable each column will be.")
        ],
        "records": Annotated[
            int | None, typer.Option(min=1, help="With --plan: about how many records there are.")
        ],
        "noisy": Annotated[
            str, typer.Option(help="Unreadable columns: 'refuse', 'leave out' or 'keep'.")
        ],
        **RELEASE,
    },
    **{**DEFAULTS, "quantiles": "0.25,0.5,0.75", "bins": 20},
)
def describe(given: flags.Given) -> None:
    """A private Table 1: counts and shares of levels and of missing values, means, deviations and
    quantiles, by group and in all, with standardised differences.

    One budget pays for the whole table: one vector of counts and sums is released, charged before
    noise is drawn. Every number has an interval. --plan says first, from public numbers alone,
    which columns the noise would leave unreadable. It is a simulation on this machine: its noise
    is floating-point and seeded.

    Example: tacenda describe patients.csv --schema patients.toml --by arm -e 1 -o table.html
    """
    from tacenda.tables.asked import Asked
    from tacenda.tables.describing import describe as described

    schema, wanted = _schema(given), numbers("quantiles", given["quantiles"])
    asked: dict[str, Any] = {"by": given["by"], "columns": given["columns"] or None}
    if given["plan"]:
        privacy = _budget(given)
        if given["records"] is None or privacy is None:
            raise InputError("--plan needs --records, about how many there are, and --epsilon.")
        table = Asked.of(schema, **asked, quantiles=wanted, bins=given["bins"])
        _plan(table, given["records"], privacy, given["nodes"], given["as_json"])
        return
    if given["data"] is None:
        raise InputError("DATA must name the records; only with --plan it may be left out.")
    found = described(
        schema,
        given["data"],
        _budget(given),
        **asked,
        quantiles=wanted,
        bins=given["bins"],
        **_how(given),
    )
    _tell(found, given, _description)


@flags.takes(
    {
        "data": Data,
        "schema": Schema,
        "by": By,
        "points": Annotated[
            str, typer.Option(help="Other time points than the schema's, separated by commas.")
        ],
        "on_points": Annotated[
            bool,
            typer.Option("--on-points", help="All times are on the points, such as whole weeks."),
        ],
        "noisy": Annotated[str, typer.Option(help="Unreadable curves: 'refuse' or 'keep'.")],
        **RELEASE,
    },
    **{**DEFAULTS, "data": ..., "points": ""},
)
def survival(given: flags.Given) -> None:
    """Private survival: Kaplan-Meier and Nelson-Aalen curves with bands, numbers at risk, medians,
    restricted means, and a log-rank test, by group.

    The schema's [survival] names the columns of time and event, and the time points. One table of
    counts is released, charged before noise is drawn; everything follows from it. It is a
    simulation on this machine: its noise is floating-point and seeded.

    Example: tacenda survival patients.csv --schema patients.toml --by arm -e 1 -o curves.html
    """
    from tacenda.tables.survival_curves import TIMES
    from tacenda.tables.surviving import survival as estimated

    found = estimated(
        _schema(given),
        given["data"],
        _budget(given),
        by=given["by"],
        points=numbers("points", given["points"]) or None,
        times=TIMES[int(given["on_points"])],
        **_how(given),
    )
    _tell(found, given, _survival)


@flags.takes(
    {
        "data": Data,
        "schema": Schema,
        "columns": Columns,
        "points": Annotated[
            str,
            typer.Option(help="Other ends of the periods than the schema's, separated by commas."),
        ],
        "rounds": Annotated[int, typer.Option(min=4, help="Releases under the budget.")],
        "noisy": Annotated[str, typer.Option(help="Hidden effects: 'refuse' or 'keep'.")],
        "by_site": Annotated[
            str | None,
            typer.Option(
                help="An effect, such as arm=new: estimate it at each site (the schema's "
                "node_column) alone, and pool what may differ."
            ),
        ],
        **RELEASE,
    },
    **{**DEFAULTS, "data": ..., "points": "", "rounds": 6},
)
def hazards(given: flags.Given) -> None:
    """Private hazard ratios with intervals and p-values: Cox's model in groups, a baseline for each
    period of the schema's [survival].

    Newton's method releases a few sums under one budget, charged before noise is drawn. It is a
    simulation on this machine: its noise is floating-point and seeded.

    Example: tacenda hazards patients.csv --schema patients.toml -c arm -c age -e 2 -o ratios.html
    """
    from tacenda.tables.hazards import hazard_ratios
    from tacenda.tables.sites import site_effects

    asked: dict[str, Any] = {
        "schema": _schema(given),
        "data": given["data"],
        "privacy": _budget(given),
        "columns": given["columns"] or None,
        "rounds": given["rounds"],
        **_how(given),
    }
    if given["by_site"] is not None:
        of_one_node = {k: v for k, v in asked.items() if k not in ("nodes", "public_size")}
        _tell(site_effects(**of_one_node, effect=given["by_site"]), given, _sites)
        return
    points = numbers("points", given["points"]) or None
    _tell(hazard_ratios(**asked, points=points), given, _hazards)


def _schema(given: flags.Given) -> Any:
    from tacenda.data.schema import Schema

    return Schema.read(given["schema"])


def _budget(given: flags.Given) -> Any:
    return budget(given["epsilon"], given["delta"], given["public"], given["public_size"])


def _how(given: flags.Given) -> dict[str, Any]:
    """How all three releases are made."""
    names = ("noisy", "nodes", "public_size", "level", "seed", "ledger", "dataset")
    return {name: given[name] for name in names}


def _tell(found: Any, given: flags.Given, tables: Callable[[Any], None]) -> None:
    """Write the result where it is wanted, and print it."""
    written = [str(found.save(path)) for path in given["out"] or ()]
    if given["as_json"]:
        show.as_json({**found.to_plain(), "written": written})
        return
    tables(found)
    print_promise(found)
    for path in written:
        print(f"written  {path}")


def _description(found: Any) -> None:
    from tacenda.tables.text import bracketed, headings, lines

    rows = [
        [f"{column}: {what}" if column else what, *(bracketed(t) for t in texts)]
        for column, what, texts in lines(found)
    ]
    heads = headings(found)
    show.table(["", *heads], rows, title="Who is in the data", right=range(1, len(heads) + 1))


def _survival(found: Any) -> None:
    from tacenda.tables.text import bracketed, share_text

    head, lines = found.lines()
    rows = [[bracketed(texts) for texts in row] for row in lines]
    show.table(head, rows, title="Survival", right=range(1, len(head)))
    print(f"{found.test_text}\n" if found.test_text else "")
    curves = [found.survival(name) for name in found.names]
    rows = [
        [f"{point:g}", *(bracketed(share_text(curve, k)) for curve in curves)]
        for k, point in enumerate(found.points)
    ]
    show.table(["time", *found.names], rows, right=range(len(found.names) + 1))


def _hazards(found: Any) -> None:
    head = ["effect", "hazard ratio", f"{found.level:.0%} interval", "p"]
    show.table(head, found.lines(), title="Effects on the hazard", right=(1, 2, 3))


def _sites(found: Any) -> None:
    head = ["site", f"hazard ratio of {found.name}", f"{found.level:.0%} interval"]
    show.table(head, found.lines(), title="One effect at each site", right=(1, 2))
    print(found.words)


def budget(epsilon: float | None, delta: float, public: bool, public_size: int | None) -> Any:
    """The budget of one release, or None for public records."""
    from tacenda.privacy.settings import Privacy

    if public == (epsilon is not None):
        raise InputError("give either --epsilon, the budget of these records, or --public.")
    if epsilon is None:
        return None
    relation = "replace-one" if public_size is None else "add-remove"
    return Privacy(epsilon, delta, adjacency=relation)


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"--{name} must be numbers between commas, not {text!r}.") from None


def print_promise(found: Any) -> None:
    """What the release promises, and what it is."""
    p = found.privacy
    if p is None:
        print("No noise: these numbers are not private.")
        return
    print(
        f"Privacy of all of it: epsilon {p.epsilon:.4g}, delta {p.delta:g} ({p.adjacency}), "
        f"for {p.unit}. Intervals of {found.level:.0%}."
    )
    print(f"Note: {found.about['simulation']}.")
    if not found.about["charged"]:
        print("Note: no ledger was given, so nothing remembers this cost.")


def _plan(asked: Any, records: int, privacy: Any, nodes: int, as_json: bool) -> None:
    from dataclasses import asdict

    from tacenda.tables.forecasting import enough, forecast

    told = forecast(asked, records, privacy, nodes)
    if as_json:
        show.as_json({**asdict(told), "unreadable": told.unreadable})
        return
    rows = [
        [
            row.column,
            f"± {row.count:.3g}",
            f"± {100 * row.share:.2g} %",
            "" if row.mean is None else f"± {row.mean:.3g}",
            "" if row.readable else "too noisy to read",
        ]
        for row in told.rows
    ]
    show.table(
        ["column", "count", "share or rank", "mean", ""],
        rows,
        title=f"Noise (95 %) for a group of {told.group_size:.0f} records; nothing was spent",
        right=(1, 2, 3),
    )
    if told.unreadable:
        print(f"All would be readable at an epsilon of about {enough(privacy, told.factor):.2g}.")
