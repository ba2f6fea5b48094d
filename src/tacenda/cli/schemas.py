"""`tacenda schema draft | confirm | check | bounds | show`: the public description of a file."""

from __future__ import annotations

import math
import sys
from contextlib import redirect_stdout
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show
from tacenda.cli.schema_bounds import bounds
from tacenda.cli.schema_options import (
    Categorical,
    Cyclic,
    DataFile,
    Drop,
    Log,
    Names,
    Numeric,
    SchemaFile,
    interval_text,
    listed,
    split,
)
from tacenda.words import counted, noun

app = typer.Typer(
    no_args_is_help=True,
    help="The public description of a file: bounds, levels, label, node column.",
)


MOST_SHOWN = 60  # columns in the table of a draft


class Missing(StrEnum):
    """What a draft does with records that lack cells."""

    drop = "drop"
    indicator = "indicator"
    error = "error"


@app.command()
def draft(
    file: DataFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write it; by default the screen.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The column to predict; by default the last.")
    ] = None,
    node: Annotated[
        str | None, typer.Option(help="The column that names who holds a record.")
    ] = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    drop: Drop = None,
    log: Log = None,
    cyclic: Cyclic = None,
    dates: Annotated[
        bool, typer.Option("--dates", help="Use columns of dates, as years (2013.5).")
    ] = False,
    levels: Annotated[
        str | None,
        typer.Option(
            help="Texts of more than 60 levels: all of them, or most-frequent:50, where the rest "
            "share a column."
        ),
    ] = None,
    missing: Annotated[
        Missing | None,
        typer.Option(
            help="Records with missing cells: leave them out, keep them with a feature that says "
            "so, or refuse them."
        ),
    ] = None,
    ordered: Annotated[
        str | None, typer.Option(help="The label's classes from low to high, as none,some,much.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Predict the time until an event: its column; with --event, --points."),
    ] = None,
    event: Annotated[
        str | None, typer.Option(help="The column that tells whether the event was seen.")
    ] = None,
    happened: Annotated[
        str, typer.Option(help="Its values that mean that it was seen, with commas between.")
    ] = "1",
    points: Annotated[
        str | None, typer.Option(help="Public time points, rising, as 100,200,400.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file at --out.")] = False,
    as_json: flags.Json = False,
) -> None:
    """Propose a schema for a file. Everything in it was read from the data, and waits for you to
    confirm that it is public.

    The draft ends with its questions, each with the flag that answers it. Give the answers, and
    draft again with --force:

    Example: tacenda schema draft patients.csv --label outcome --drop name --out patients.toml

    Example: tacenda schema draft flights.csv --label late --cyclic hour=24,month=12 --dates
    --levels most-frequent:50 --missing indicator --out flights.toml --force

    Example: tacenda schema draft patients.csv --time days --event relapse --points 200,400,800
    """
    from tacenda.data.draft import Draft
    from tacenda.errors import InputError
    from tacenda.formats.files import checked_output, write_text

    if out is not None:
        checked_output(out)
    if out is not None and out.exists() and not force:
        raise InputError(
            f"{out} exists, and may hold confirmed values; choose another --out, or replace it "
            "with --force."
        )
    found = Draft.of(
        file,
        label=label,
        node=node,
        categorical=split(categorical),
        numeric=split(numeric),
        drop=split(drop),
        log=split(log),
        cyclic=_periods(cyclic),
        dates=dates,
        levels=levels,
        missing=None if missing is None else missing.value,
        ordered=[one.strip() for one in (ordered or "").split(",") if one.strip()],
        survival=_survival(time, event, happened, points),
    )
    schema = found.schema
    if out is not None:
        write_text(out, schema.to_toml())
    if as_json:
        show.as_json(_drafted(found, out))
    elif out is None:
        print(schema.to_toml(), end="")
    else:
        print(f"{out}: {_width(schema)}, label {schema.label.name!r}.")
    if not as_json:
        with redirect_stdout(sys.stderr if out is None else sys.stdout):
            _show_draft(found)
    waiting = len(schema.unconfirmed)
    show.note(
        f"note: {counted(waiting, 'column')} {noun(waiting, 'holds', 'hold')} bounds or levels "
        "read from the data. Used as they are, the guarantee does not cover what they tell about "
        "single records: replace them by what is publicly known, then set confirmed = true "
        "(or let `tacenda schema bounds --private` find bounds under a budget)."
    )
    if out is not None:
        show.note(
            f"Next: edit {out}, then `tacenda schema check {out} --data {file}`; where every value "
            f"is public, `tacenda schema confirm {out} --all`."
        )


def _survival(
    time: str | None, event: str | None, happened: str, points: str | None
) -> dict[str, Any] | None:
    """What the flags say of times and events; None where they say nothing."""
    from tacenda.errors import InputError

    given = {"--time": time, "--event": event, "--points": points}
    if not any(given.values()):
        return None
    if absent := [flag for flag, value in given.items() if value is None]:
        raise InputError(f"--time, --event and --points go together; give {', '.join(absent)} too.")
    try:
        ends = tuple(float(point) for point in str(points).split(","))
    except ValueError:
        raise InputError(f"--points must be numbers with commas between, not {points!r}.") from None
    seen = tuple(word.strip() for word in happened.split(","))
    return {"time": time, "event": event, "happened": seen, "points": ends}


def _periods(texts: list[str] | None) -> dict[str, float]:
    """{column: period} of NAME=PERIOD; the period of an hour, a month, ... need not be said."""
    from tacenda.data.draft_columns import PERIODS
    from tacenda.errors import InputError

    found = {}
    for text in split(texts):
        name, equals, period = text.rpartition("=")
        name = name if equals else text
        usual = PERIODS.get(name.lower().rpartition("_")[2])
        try:
            found[name] = float(period if equals else usual)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise InputError(f"--cyclic must be column=period, as hour=24, not {text!r}.") from None
        if not 0 < found[name] < math.inf:
            raise InputError(f"--cyclic needs a period above 0, not {text!r}.")
    return found


@app.command(short_help="Say that bounds, levels or classes are public.")
def confirm(
    schema: SchemaFile,
    columns: Annotated[
        Names, typer.Argument(help="Columns (or the label) whose values are public.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every value of the schema is public.")
    ] = False,
    source: Annotated[
        str | None, typer.Option(help="Where the values come from, as 'census of 2021'.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Say that bounds, levels or classes are public: known without looking at the records. You
    are responsible for that. What was read from the data and is not public is not covered by the
    guarantee.

    Example: tacenda schema confirm patients.toml age ward --source 'census of 2021'

    Example: tacenda schema confirm patients.toml --all
    """
    from tacenda.data.schema import Schema
    from tacenda.data.schema_toml import confirmed
    from tacenda.errors import InputError
    from tacenda.formats.files import write_text

    before = Schema.read(schema)
    named = split(columns)
    if bool(named) == every:
        waiting = ", ".join(before.unconfirmed) or "none"
        raise InputError(f"name the columns to confirm, or give --all; not confirmed: {waiting}.")
    text = confirmed(schema.read_text("utf-8"), before.unconfirmed if every else named, source)
    write_text(schema, text)
    left = Schema.from_toml(text).unconfirmed
    done = [name for name in before.unconfirmed if name not in left]
    if as_json:
        show.as_json({"file": str(schema), "confirmed": done, "unconfirmed": list(left)})
        return
    print(f"{schema}: confirmed as public: {', '.join(done) or 'nothing new'}.")
    if left:
        print(f"Not yet confirmed: {', '.join(left)}.")


@app.command("from-table")
def from_table(
    schema: SchemaFile,
    table: Annotated[
        Path, typer.Argument(help="What `tacenda describe -o table.json` wrote, or a contract.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write it; by default the screen.")
    ] = None,
    outside: Annotated[
        float, typer.Option(help="The largest share of records beyond each new bound.")
    ] = 0.02,
    knots: Annotated[
        int, typer.Option(help="Number of knots of each curve, at quantiles of the table; 0: none.")
    ] = 0,
) -> None:
    """Declare what a private table tells.

    Numbers get narrower bounds, missing cells stand-ins, and on request curves knots. The table was
    charged when it was made; its numbers cost nothing more.

    Example: tacenda schema from-table patients.toml table.json -o narrow.toml
    """
    import json

    from tacenda.data.schema import Schema
    from tacenda.formats.files import write_text
    from tacenda.tables.declaring import declared
    from tacenda.tables.description import Description

    before = Schema.read(schema)
    found = Description.from_plain(json.loads(table.read_text("utf-8")))
    made = declared(found, before, outside, knots)
    if out is None:
        print(made.to_toml(), end="")
        return
    write_text(out, made.to_toml())
    changed = [a.name for a, b in zip(made.columns, before.columns, strict=True) if a != b]
    print(f"{out}: declared from the table: {', '.join(changed) or 'nothing'}.")


def _drafted(found: Any, out: Path | None) -> dict[str, Any]:
    return {
        "schema": found.schema.model_dump(mode="json"),
        "file": None if out is None else str(out),
        "read_off_the_data": [
            {
                "column": column.name,
                "proposal": column.proposal,
                "reason": column.reason,
                "question": column.question,
                "99_percent_within": column.most_within,
                "all_within": column.all_within,
            }
            for column in found.columns
        ],
        "questions": list(found.questions),
        "missing": list(found.missing),
    }


def _show_draft(found: Any) -> None:
    """What was seen, for the holder of the data alone, and what only they can answer."""
    shown = found.columns[:MOST_SHOWN]
    rows = [
        [c.name, c.proposal, interval_text(c.most_within), interval_text(c.all_within), c.reason]
        for c in shown
    ]
    header = ["column", "proposed as", "99 % are within", "all are within", "why"]
    show.table(header, rows, title="\nRead off the data: for you alone, not for sharing")
    if found.columns[MOST_SHOWN:]:
        print(f"... and {len(found.columns) - MOST_SHOWN} more columns (--json shows all)")
    for question in found.questions[:MOST_SHOWN]:
        print(f"question: {question}")
    if found.missing and found.asks_about_missing:
        print(
            "question: May records with missing cells be left out? There are some in "
            f"{listed(found.missing)}. If so: --missing drop; to keep them, with a feature that "
            "says so: --missing indicator."
        )


@app.command()
def check(
    schema: SchemaFile,
    data: Annotated[
        str | None, typer.Option(help="Also check that this file can be encoded by it.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse values that are not confirmed as public.")
    ] = False,
    as_json: flags.Json = False,
) -> None:
    """Check a schema, and a file against it. No cell of any record is printed.

    Example: tacenda schema check patients.toml --data patients.csv --strict
    """
    from tacenda.data.encoding import encode
    from tacenda.data.schema import Schema

    found = Schema.read(schema)
    if strict:
        found.require_confirmed()
    records = None if data is None else encode(found, data, sparse=True).n_records
    if as_json:
        show.as_json({**_about(found), "ok": True, "records": records})
        return
    print(f"{schema} is a good schema: {_width(found)}.")
    if records is not None:
        dropped = "" if found.missing != "drop" else ", without those that have missing cells"
        print(f"{data} fits it: {counted(records, 'record')}{dropped}.")
    if found.unconfirmed:
        print(f"Not yet confirmed as public: {', '.join(found.unconfirmed)}.")


app.command(short_help="Find bounds for a file's numbers, or private ones (--private).")(bounds)


@app.command("show")
def show_schema(schema: SchemaFile, as_json: flags.Json = False) -> None:
    """Show what a schema declares, and its hash, which nodes compare.

    Example: tacenda schema show patients.toml
    """
    from tacenda.data.columns import NumericColumn
    from tacenda.data.schema import Schema

    found = Schema.read(schema)
    if as_json:
        show.as_json(_about(found))
        return
    rows = []
    for column in found.columns:
        if isinstance(column, NumericColumn):
            values = f"{column.low:g} to {column.high:g}, {_scaling(column)}"
        else:
            values = f"{counted(len(column.levels), 'level')}, others: {column.unknown or 'error'}"
        values += ", missing: a feature" if column.missing_indicator else ""
        rows.append([column.name, column.kind, values, _public(column)])
    label = found.label
    kind = (
        f"classes {', '.join(label.classes)}"
        if label.classes
        else f"{label.low:g} to {label.high:g}"
    )
    if label.scale_to is not None:
        kind += ", scaled to [-1, 1]"
    elif label.typical is not None:
        kind += f", in units of {label.typical:g}"
    rows.append([label.name, "label", kind, _public(label)])
    show.table(["column", "kind", "values", "public"], rows, title=found.name)
    print(
        f"\n{counted(len(found.feature_names), 'feature')}, "
        f"{_rows(found)}, missing values: {found.missing}."
    )
    print(f"hash {found.hash()}")


def _rows(schema: Any) -> str:
    if schema.shortened_by == 1.0:
        return f"rows divided by {schema.row_scale:.4g}"
    return (
        f"rows shortened to norm {schema.row_scale:.4g}, by a factor of up to "
        f"{schema.shortened_by:.3g}"
    )


def _public(part: Any) -> str:
    if not part.confirmed:
        return "to be confirmed"
    return f"yes: {part.source}" if part.source else "yes"


def _scaling(column: Any) -> str:
    if column.transform == "standardise":
        return f"less {column.centre:g}, divided by {column.scale:g}"
    if column.transform == "cyclic":
        return f"sine and cosine of period {column.period:g}"
    to = "[0, 1]" if column.scale_to == "unit" else "[-1, 1]"
    return f"{'log1p, ' if column.transform == 'log1p' else ''}scaled to {to}"


def _about(schema: Any) -> dict[str, Any]:
    return {
        "schema": schema.model_dump(mode="json"),
        "features": list(schema.feature_names),
        "unconfirmed": list(schema.unconfirmed),
        "hash": schema.hash(),
    }


def _width(schema: Any) -> str:
    return (
        f"{counted(len(schema.columns), 'column')}, {counted(len(schema.feature_names), 'feature')}"
    )
