"""The page of a result whose every number follows from one noisy release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacenda.formats.files import write_text
from tacenda.report import numbers
from tacenda.report.charts import Chart, TextTable


def released_page(
    template: str,
    found: Any,
    out: str | Path,
    *,
    what: str,
    among: str = "",
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    tables: Sequence[TextTable | None] = (),
    charts: Sequence[Chart | None] = (),
    **parts: Any,
) -> Path:
    """Write one HTML page that says first whether it is private.

    found: a result with `privacy`, `records` and `about`. what, among: what was released, and of
    which of the records. parts: what else the template shows.
    """
    from tacenda.report.html_page import asset, panels_of, render_page

    p = found.privacy
    headline = "This was computed without noise: the page is not private."
    if p is not None:
        headline = (
            f"Computed from {what} that were released once with noise: epsilon {p.epsilon:.4g}, "
            f"delta {p.delta:g} ({p.adjacency}), for {p.unit}{among}."
        )
    simulated = [f"It is {found.about['simulation']}."] if "simulation" in found.about else []
    page = render_page(
        asset(template),
        verdict="good" if p is not None and not warnings else "caution",
        word="Private" if p is not None else "Not private",
        headline=" ".join([headline, *warnings]),
        notes=[*notes, *simulated],
        tables=[table for table in tables if table],
        charts=panels_of([chart for chart in charts if chart]),
        **parts,
    )
    return write_text(Path(out), page)


def records_of(found: Any) -> str:
    """How many records there are, in words where it is private."""
    return "a private number of" if found.records is None else numbers.whole(found.records)
