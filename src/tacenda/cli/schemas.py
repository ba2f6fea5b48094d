"""`tacenda schema draft | check | show`: the public description of a user's own file."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show
from tacenda.words import counted, noun

app = typer.Typer(
    no_args_is_help=True,
    help="The public description of a file: bounds, levels, label, node column.",
)

DataFile = Annotated[str, typer.Argument(help="A CSV or Parquet file, or an SQL query over files.")]
SchemaFile = Annotated[Path, typer.Argument(help="A schema in TOML.")]


MOST_SHOWN = 60  # columns in the table of a draft

_Names = list[str] | None
Categorical = Annotated[
    _Names, typer.Option("--categorical", help="Columns of levels or codes, as A,B.")
]
Numeric = Annotated[_Names, typer.Option("--numeric", help="Columns of numbers, as A,B.")]
Drop = Annotated[_Names, typer.Option("--drop", help="Columns to leave out, as A,B.")]
Log = Annotated[
    _Names, typer.Option("--log", help="Amounts of which most are small: a logarithmic scale.")
]


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
    as_json: flags.Json = False,
) -> None:
    """Propose a schema for a file. Everything in it was read from the data, and waits for you to
    confirm that it is public.

    Example: tacenda schema draft patients.csv --label outcome --drop name --out patients.toml
    """
    from tacenda.data.draft import Draft
    from tacenda.errors import InputError
    from tacenda.formats.files import write_text

    if out is not None and out.exists():
        raise InputError(
            f"{out} exists, and may hold confirmed values; remove it, or choose another --out."
        )
    found = Draft.of(
        file,
        label=label,
        node=node,
        categorical=_split(categorical),
        numeric=_split(numeric),
        drop=_split(drop),
        log=_split(log),
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
        show.note(f"Next: edit {out}, then `tacenda schema check {out} --data {file}`.")


def _split(names: list[str] | None) -> list[str]:
    return [name.strip() for part in names or () for name in part.split(",") if name.strip()]


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
    }


def _show_draft(found: Any) -> None:
    """What was seen, for the holder of the data alone, and what only they can answer."""
    shown = found.columns[:MOST_SHOWN]
    rows = [
        [c.name, c.proposal, _interval(c.most_within), _interval(c.all_within), c.reason]
        for c in shown
    ]
    header = ["column", "proposed as", "99 % lie within", "all lie within", "why"]
    show.table(header, rows, title="\nRead off the data: for you alone, not for sharing")
    if found.columns[MOST_SHOWN:]:
        print(f"... and {len(found.columns) - MOST_SHOWN} more columns (--json shows all)")
    for question in found.questions[:MOST_SHOWN]:
        print(f"question: {question}")


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f"[{bounds[0]:g}, {bounds[1]:g}]"


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
    """Check a schema, and a file against it. Nothing is printed of any record.

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
        print(f"{data} fits it: {counted(records, 'record')}.")
    if found.unconfirmed:
        print(f"Not yet confirmed as public: {', '.join(found.unconfirmed)}.")


@app.command("show")
def show_schema(schema: SchemaFile, as_json: flags.Json = False) -> None:
    """Show what a schema declares, and its hash, which nodes compare.

    Example: tacenda schema show patients.toml
    """
    from tacenda.data.schema import NumericColumn, Schema

    found = Schema.read(schema)
    if as_json:
        show.as_json(_about(found))
        return
    rows = []
    for column in found.columns:
        if isinstance(column, NumericColumn):
            values = f"{column.low:g} to {column.high:g}, {_scaling(column)}"
        else:
            values = f"{counted(len(column.levels), 'level')}, others: {column.unknown}"
        values += ", missing: a feature" if column.missing_indicator else ""
        rows.append(
            [column.name, column.kind, values, "yes" if column.confirmed else "to be confirmed"]
        )
    label = found.label
    kind = (
        f"classes {', '.join(label.classes)}"
        if label.classes
        else f"{label.low:g} to {label.high:g}"
    )
    kind += ", scaled to [-1, 1]" if label.scale_to else ""
    rows.append([label.name, "label", kind, "yes" if label.confirmed else "to be confirmed"])
    show.table(["column", "kind", "values", "public"], rows, title=found.name)
    print(
        f"\n{counted(len(found.feature_names), 'feature')}, "
        f"rows clipped to norm {found.row_norm:g}, missing values: {found.missing}."
    )
    print(f"hash {found.hash()}")


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
