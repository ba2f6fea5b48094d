"""What the commands print: tables (rich on a terminal, plain when piped),
JSON, and notes on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

Cells = Sequence[Sequence[str]]


def table(
    header: Sequence[str], rows: Cells, *, title: str | None = None, right: Sequence[int] = ()
) -> None:
    """Print a table; columns whose positions are in `right` are aligned to the right."""
    if sys.stdout.isatty():
        _rich(header, rows, title, right)
        return
    if title:
        print(title)
    widths = [max(len(str(r[k])) for r in (header, *rows)) for k in range(len(header))]
    for line in (header, ["-" * w for w in widths], *rows):
        cells = [
            c.rjust(w) if k in right else c.ljust(w)
            for k, (c, w) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def _rich(header: Sequence[str], rows: Cells, title: str | None, right: Sequence[int]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for k, name in enumerate(header):
        made.add_column(name, justify="right" if k in right else "left", no_wrap=k == 0)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    Console().print(made)


def as_json(values: Any) -> None:
    """One JSON document on standard output."""
    from tacenda.formats.text import readable_json

    print(readable_json(values))


def note(text: str) -> None:
    """A line on standard error, so that what is piped stays clean."""
    print(text, file=sys.stderr)


def number(value: Any, digits: int = 4) -> str:
    """A number with so many decimals, or a dash."""
    return "-" if value is None else f"{float(value):.{digits}f}"


def short(value: Any, digits: int = 4) -> str:
    """A number with so many significant digits, or a dash."""
    return "-" if value is None else f"{float(value):.{digits}g}"


def size(count: Any) -> str:
    """Bytes in the nearest decimal unit."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return "-"


def with_range(row: dict[str, Any], key: str) -> str:
    """The mean over seeds, with [least, largest] behind it where there are several."""
    from tacenda.evaluation.measures import text

    if row.get(key) is None:
        return "-"
    low, high = (text(key, end) for end in row.get(f"{key}_range", (None, None)))
    return text(key, row[key]) + (f" [{low}, {high}]" if row.get("seeds", 1) > 1 else "")


def results(rows: Sequence[dict[str, Any]], title: str) -> None:
    """The table that a run shows first: the measures that people read, on test records where there
    are any."""
    from tacenda.evaluation import measures

    shown = measures.headline(list(rows)) or ["loss"]
    header = ["algorithm", *(measures.title(key) for key in shown)]
    header += ["(epsilon, delta, relation)", "rounds", "sent", "seconds"]
    cells = [
        [
            row["label"],
            *(with_range(row, key) for key in shown),
            promise(row),
            str(row.get("rounds", "-")),
            size(row.get("bytes")),
            number(row.get("seconds"), 2),
        ]
        for row in rows
    ]
    end = len(header)
    table(header, cells, title=title, right=(end - 3, end - 2, end - 1))


def coefficients(found: Any, name: str, top: int | None = None) -> None:
    """A `CoefficientTable`, or its first rows, with what must be known about it."""
    header, rows = found.cells()
    shown = rows if top is None or len(rows) <= top else rows[:top]
    texts = found.texts
    title = f"Coefficients of {name}, {found.units}"
    if len(shown) < len(rows):
        title += f" ({len(shown)} of {len(rows)}, the largest effects)"
    table(header, shown, title=title, right=range(texts, len(header)))
    for text in (found.errors, *found.notes):
        print(f"Note: {text}")


def shapes(found: Any, name: str, top: int | None = None) -> None:
    """The shapes of an additive model, or of the columns that matter most."""
    from tacenda.evaluation.shapes import table_rows

    header = ("Column", "Matters", "Where", "Adds", "Noise")
    title = f"Shapes of {name}"
    if top is not None and top < len(found):
        title += f" ({top} of {len(found)}, those that matter most; `tacenda shapes` has all)"
    table(header, table_rows(found[:top]), title=title, right=(1, 3, 4))
    if any(len(shape.typical) > 1 for shape in found):
        print("Note: of the several scores the first is shown; --json has all.")


def promise(row: dict[str, Any]) -> str:
    """(epsilon, delta, relation) of a row; as published,
    the claimed one is shown beside the accounted one, an upper bound as "at most"."""
    if row.get("algorithm") is None:
        return "-"
    if row.get("epsilon") is None:
        return "none"
    # Noise that neighbours share hides a record from so many pooled members only;
    # all other noise from everybody.
    limit = "" if row.get("coalition") is None else f", coalition {row['coalition']}"
    most = "at most " if row.get("exact") is False and not limit else ""
    true = f"({most}{short(row['epsilon'])}, {row['delta']:g}, {row['adjacency']}{limit})"
    unit = str(row.get("unit") or "")
    true += f" for {unit}" if unit.startswith("one person") else ""
    claimed = row.get("claimed")
    return f"{true} [claimed {short(claimed[0])}]" if claimed else true
