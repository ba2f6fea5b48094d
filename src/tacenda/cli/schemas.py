"""`tacenda schema draft | confirm | check | bounds | show`: the public description of a file."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from enum import StrEnum
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
    _Names, typer.Option("--log", help="Amounts that are mostly small: a logarithmic scale.")
]


Cyclic = Annotated[
    _Names,
    typer.Option(
        "--cyclic", help="Numbers that start again, with their period, as hour=24,month=12."
    ),
]


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
        categorical=_split(categorical),
        numeric=_split(numeric),
        drop=_split(drop),
        log=_split(log),
        cyclic=_periods(cyclic),
        dates=dates,
        levels=levels,
        missing=None if missing is None else missing.value,
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


def _periods(texts: list[str] | None) -> dict[str, float]:
    """{column: period} of NAME=PERIOD; the period of an hour, a month, ... need not be said."""
    from tacenda.data.draft import PERIODS
    from tacenda.errors import InputError

    found = {}
    for text in _split(texts):
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
        _Names, typer.Argument(help="Columns (or the label) whose values are public.")
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
    answer for that. What was read from the data and is not public stays out of the guarantee.

    Example: tacenda schema confirm patients.toml age ward --source 'census of 2021'

    Example: tacenda schema confirm patients.toml --all
    """
    from tacenda.data.schema import Schema
    from tacenda.data.schema_toml import confirmed
    from tacenda.errors import InputError
    from tacenda.formats.files import write_text

    before = Schema.read(schema)
    named = _split(columns)
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
        "missing": list(found.missing),
    }


def _show_draft(found: Any) -> None:
    """What was seen, for the holder of the data alone, and what only they can answer."""
    shown = found.columns[:MOST_SHOWN]
    rows = [
        [c.name, c.proposal, _interval(c.most_within), _interval(c.all_within), c.reason]
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
            f"{_names(found.missing)}. If so: --missing drop; to keep them, with a feature that "
            "says so: --missing indicator."
        )


def _names(names: Sequence[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if names[most:] else ""
    return ", ".join(names[:most]) + more


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
        dropped = "" if found.missing != "drop" else ", without those that have missing cells"
        print(f"{data} fits it: {counted(records, 'record')}{dropped}.")
    if found.unconfirmed:
        print(f"Not yet confirmed as public: {', '.join(found.unconfirmed)}.")


@app.command(short_help="Where a file's numbers are, or private bounds for them (--private).")
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
        typer.Option("--epsilon", "-e", help="Budget of all on these records, the fit included."),
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
    share: Annotated[float, typer.Option(help="Part of the budget that the bounds take.")] = 0.02,
    columns: Annotated[
        _Names, typer.Option("--columns", help="Only these, as A,B; by default all unconfirmed.")
    ] = None,
    within: Annotated[
        _Names, typer.Option("--within", help="A public range, as year=1900:2030; may be repeated.")
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
    Without --private it is shown where 99 % of the values are: read from the data, for you alone.

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
        columns=_split(columns) or None,
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
        f"with a chance of 95 % no rank is off by more than {counted(got.rank_error, 'record')}."
    )
    print(
        f"Spent: {counted(3 * len(rows), 'choice')}, each with an epsilon of at most "
        f"{got.epsilon_each:.3g}, together epsilon {got.epsilon:.3g} at delta {got.delta:g}; "
        f"booked to {got.dataset!r} in {ledger}."
    )
    if got.schema.unconfirmed:
        print(f"Not asked, so still yours to confirm: {_names(got.schema.unconfirmed)}.")
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
    rows = [[c.name, _interval(c.most_within), _interval(c.all_within)] for c in seen]
    header = ["column", "99 % are within", "all are within"]
    show.table(header, rows, title="Read off the data: for you alone, not for sharing")


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
