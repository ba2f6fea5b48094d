"""`tacenda schema bounds`: where a file's numbers are, or private bounds for them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show
from tacenda.cli.schema_options import Names, SchemaFile, interval_text, listed, split
from tacenda.words import counted


def bounds(
    schema: SchemaFile,
    data: Annotated[str, typer.Option(help="The file whose numbers need bounds.")],
    private: Annotated[
        bool, typer.Option("--private", help="Private quantiles, charged to a ledger.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write the schema with bounds.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon", "-e", help="Budget for everything on these records, including the fit."
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", "-d", help="Probability that the bound fails.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger's SQLite file; it is made if missing.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="The records' name in the ledger; the fit names it too.")
    ] = None,
    share: Annotated[float, typer.Option(help="Share of the budget for the bounds.")] = 0.02,
    columns: Annotated[
        Names, typer.Option("--columns", help="Only these, as A,B; by default all unconfirmed.")
    ] = None,
    within: Annotated[
        Names, typer.Option("--within", help="A public range, as year=1900:2030; may be repeated.")
    ] = None,
    tail: Annotated[
        float | None, typer.Option(help="The lower quantile; by default as the noise allows.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Find bounds for numbers whose range is not publicly known.

    With --private, two quantiles of each number are released under the records' budget and become
    confirmed bounds: at most 2 % of the budget by default, booked in the ledger before anything is
    drawn, and judged together with the later fit. Categories and numbers that the schema calls
    two_valued are not asked. It is the query of one holder on one file.
    Without --private the command shows where 99 % of the values are: read from the data, for you
    alone.

    Example: tacenda schema bounds clinic.toml --data clinic.csv --private --epsilon 1 --delta 1e-5
    --ledger clinic.ledger --dataset clinic --out bounded.toml
    """
    from tacenda.data.schema import Schema
    from tacenda.errors import InputError

    found = Schema.read(schema)
    if not private:
        _show_spread(found, data, as_json)
        return
    needed = {"--ledger": ledger, "--dataset": dataset, "--out": out}
    missing = [flag for flag, value in needed.items() if value is None]
    if missing:
        raise InputError(
            f"--private needs {' and '.join(missing)}: what is released is charged, and kept."
        )
    assert ledger is not None and dataset is not None and out is not None
    if out.exists():
        raise InputError(f"{out} exists; remove it, or choose another --out.")
    from tacenda.data.quantiles import private_bounds
    from tacenda.formats.files import write_text

    got = private_bounds(
        found,
        data,
        ledger=ledger,
        dataset=dataset,
        epsilon=epsilon,
        delta=delta,
        share=share,
        columns=split(columns) or None,
        within=_ranges(within),
        tail=tail,
    )
    write_text(out, got.schema.to_toml())
    if as_json:
        values = {k: v for k, v in vars(got).items() if k != "schema"}
        show.as_json({**values, "schema": got.schema.model_dump(mode="json"), "file": str(out)})
        return
    parts = {part.name: part for part in (*got.schema.columns, got.schema.label)}
    rows = [[name, f"{parts[name].low:g}", f"{parts[name].high:g}"] for name in got.columns]  # type: ignore[union-attr]
    show.table(["column", "low", "high"], rows, title=f"{out}: private bounds", right=(1, 2))
    print(
        f"\nThey are near the {100 * got.tail:.3g} % and {100 * (1 - got.tail):.3g} % quantiles; "
        f"with a probability of 95 % no rank is off by more than "
        f"{counted(got.rank_error, 'record')}."
    )
    print(
        f"Spent: {counted(3 * len(rows), 'choice')}, each with an epsilon of at most "
        f"{got.epsilon_each:.3g}, together epsilon {got.epsilon:.3g} at delta {got.delta:g}; "
        f"booked to {got.dataset!r} in {ledger}."
    )
    if got.schema.unconfirmed:
        print(f"Not asked, so still yours to confirm: {listed(got.schema.unconfirmed)}.")
    show.note(
        f"Next: `tacenda fit --data {data} --schema {out} --epsilon {_down(got.epsilon_left)} "
        f"--delta {got.delta:g} --set run.ledger={ledger} --set run.ledger_dataset={dataset}`."
    )


def _down(value: float) -> str:
    """Four digits, rounded down: a budget must not be passed by rounding."""
    return f"{math.floor(value * 10_000) / 10_000:g}"


def _ranges(texts: list[str] | None) -> dict[str, tuple[float, float]]:
    from tacenda.errors import InputError

    found = {}
    for text in texts or ():
        name, equals, ends = text.rpartition("=")
        low, colon, high = ends.partition(":")
        try:
            found[name] = (float(low), float(high))
        except ValueError:
            colon = ""
        if not (equals and colon):
            raise InputError(f"--within must be column=low:high, as year=1900:2030, not {text!r}.")
    return found


def _show_spread(schema: Any, data: str, as_json: bool) -> None:
    from tacenda.data.draft import Draft

    names = [column.name for column in schema.columns if column.kind == "numeric"]
    numeric = [*names, schema.label.name] if schema.label.classes is None else names
    seen = [
        column
        for column in Draft.of(data, label=schema.label.name, numeric=names).columns
        if column.name in numeric
    ]
    if as_json:
        read = [
            {"column": c.name, "99_percent_within": c.most_within, "all_within": c.all_within}
            for c in seen
        ]
        show.as_json({"read_off_the_data": read})
        return
    rows = [[c.name, interval_text(c.most_within), interval_text(c.all_within)] for c in seen]
    header = ["column", "99 % are within", "all are within"]
    show.table(header, rows, title="Read off the data: for you alone, not for sharing")
