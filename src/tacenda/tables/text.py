"""A table as text: Markdown, and CSV with one line for each cell."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

from tacenda.evaluation.private_intervals import Estimate

if TYPE_CHECKING:
    from tacenda.tables.cells import TableCell, TableRow
    from tacenda.tables.description import Description

UNREADABLE = "–"
ENDS = ("value", "low", "high")
CSV_COLUMNS = ("column", "what", "group", *ENDS, "share", "share_low", "share_high", "known")


def number(value: float) -> str:
    """Four digits, and no exponent for usual sizes."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def cell_text(row: TableRow, cell: TableCell) -> tuple[str, str]:
    """(value, interval) of a cell; a count has its share beside it."""
    if not row.is_count:
        if not cell.known:
            return UNREADABLE, "too noisy"
        return number(cell.value), f"{number(cell.low)} to {number(cell.high)}"
    if cell.share is None or not cell.known:
        return f"{cell.value:,}", f"{cell.low:,} to {cell.high:,}"
    p = cell.share
    return (
        f"{cell.value:,} ({100 * p.value:.1f} %)",
        f"{cell.low:,} to {cell.high:,}; {100 * p.low:.1f} to {100 * p.high:.1f} %",
    )


def bracketed(texts: tuple[str, str]) -> str:
    """A value with its interval on one line."""
    value, ends = texts
    return f"{value} [{ends}]" if ends else value


def difference_text(found: Estimate) -> tuple[str, str]:
    """(value, interval) of a standardised difference."""
    if not math.isfinite(found.low):
        return UNREADABLE, "too noisy"
    return f"{found.value:.2f}", f"{found.low:.2f} to {found.high:.2f}"


def share_text(curve: Estimate, k: int) -> tuple[str, str]:
    """(value, interval) of a survival at point k, in per cent."""
    if math.isnan(curve.value[k]):
        return "–", "too few at risk for this noise"
    v, a, b = (100 * float(x[k]) for x in curve)
    return f"{v:.1f} %", f"{a:.1f} to {b:.1f} %"


def shown_groups(found: Description) -> list[int]:
    """Places of the groups that people read: not that of records without a group, where noise
    cannot tell it from an empty one."""
    empty = found.asked.by is not None and found.rows[0].cells[len(found.asked.groups) - 1].low <= 0
    gone = len(found.asked.groups) - 1 if empty else -1
    return [g for g in range(len(found.groups)) if g != gone]


def headings(found: Description) -> list[str]:
    """Of the cells, then of the differences."""
    groups = found.asked.groups
    by = found.asked.by
    names = [g if by is None else f"{by} = {g}" for g in groups]
    shown = [[*names, found.groups[-1]][g] for g in shown_groups(found)]
    return [*shown, *(f"{g} – {groups[0]}" for g in groups[1:-1])]


def lines(found: Description) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Each row: column, what, and texts of the cells and differences; missing values that noise
    cannot tell from none are left out of what people read."""
    made, shown = [], shown_groups(found)
    for row in found.rows:
        if row.what == "missing" and row.column and all(c.low <= 0 for c in row.cells):
            continue
        texts = [cell_text(row, row.cells[g]) for g in shown]
        texts += [difference_text(d) for d in row.differences]
        texts += [("", "")] * (len(headings(found)) - len(texts))
        made.append((row.column, row.what, texts))
    return made


def as_markdown(found: Description) -> str:
    """One table: the value, and its interval in brackets."""
    head = ["", *headings(found)]
    out = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for column, what, texts in lines(found):
        name = f"{column}: {what}" if column else what
        cells = [bracketed(t) for t in texts]
        out.append("| " + " | ".join(c.replace("|", "\\|") for c in [name, *cells]) + " |")
    return "\n".join(out) + "\n"


def as_csv(found: Description) -> str:
    """column, what, group, value, low, high, share, share_low, share_high, known."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in found.rows:
        for group, cell in zip(found.groups, row.cells, strict=True):
            share = ("", "", "") if cell.share is None else tuple(f"{x:.6g}" for x in cell.share)
            ends = [f"{x:.8g}" for x in (cell.value, cell.low, cell.high)]
            writer.writerow([row.column, row.what, group, *ends, *share, str(cell.known).lower()])
        for group, d in zip(found.asked.groups[1:-1], row.differences, strict=False):
            ends = [f"{x:.6g}" if math.isfinite(x) else "" for x in d]
            name = f"{group} - {found.asked.groups[0]}"
            known = str(math.isfinite(d.low)).lower()
            writer.writerow([row.column, f"{row.what} difference", name, *ends, "", "", "", known])
    return out.getvalue()
