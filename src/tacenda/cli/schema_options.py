"""Options that the commands about schemas share, and what they print alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

DataFile = Annotated[str, typer.Argument(help="A CSV or Parquet file, or an SQL query over files.")]
SchemaFile = Annotated[Path, typer.Argument(help="A schema in TOML.")]


Names = list[str] | None
Categorical = Annotated[
    Names, typer.Option("--categorical", help="Columns of levels or codes, as A,B.")
]
Numeric = Annotated[Names, typer.Option("--numeric", help="Columns of numbers, as A,B.")]
Drop = Annotated[Names, typer.Option("--drop", help="Columns to leave out, as A,B.")]
Log = Annotated[
    Names, typer.Option("--log", help="Amounts that are mostly small: a logarithmic scale.")
]
Cyclic = Annotated[
    Names,
    typer.Option(
        "--cyclic", help="Numbers that start again, with their period, as hour=24,month=12."
    ),
]


def split(names: list[str] | None) -> list[str]:
    """The names of `A,B` and of repeated options."""
    return [name.strip() for part in names or () for name in part.split(",") if name.strip()]


def listed(names: Sequence[str], most: int = 10) -> str:
    """At most so many names, and how many more there are."""
    more = f" and {len(names) - most} more" if names[most:] else ""
    return ", ".join(names[:most]) + more


def interval_text(bounds: tuple[float, float] | None) -> str:
    """`[low, high]`, or nothing."""
    return "" if bounds is None else f"[{bounds[0]:g}, {bounds[1]:g}]"
