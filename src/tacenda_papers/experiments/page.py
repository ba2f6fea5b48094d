"""One self-contained HTML page of all stored experiments: figures, findings, verdicts, the papers'
accounted epsilon, and which method when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from tacenda.formats.files import write_text
from tacenda.report import Chart, Column, TextTable, render_page
from tacenda_papers.experiments import advice, equal_privacy, summary
from tacenda_papers.experiments.headline import Headline
from tacenda_papers.experiments.judging import count, first_sentence
from tacenda_papers.experiments.papers import OURS, PAPERS
from tacenda_papers.experiments.player import Stored
from tacenda_papers.experiments.registry import EXPERIMENTS
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import PUBLISHED, SOUND, Experiment, Finding, Size


@dataclass(frozen=True, eq=False)
class Shown:
    """One experiment as the page shows it."""

    name: str
    figure: str
    question: str
    settings: str
    chosen: str
    ran: str
    verdict: str
    reasons: str
    level: str
    counts: list[str]
    findings: list[str]
    charts: list[dict[str, Any]]
    tables: list[TextTable]


def build(known: dict[str, Stored], size: Size, path: Path, truths: Sequence[Headline]) -> Path:
    """Write the page of these experiments with their rows, whole or not at all. truths: the papers'
    accounted epsilon (`headlines`)."""
    content = _content(known, size, truths)
    return write_text(
        path, render_page(_asset("page.html.j2"), **content, pages=_asset("pages.js"))
    )


def _content(known: dict[str, Stored], size: Size, truths: Sequence[Headline]) -> dict[str, Any]:
    statements = summary.all_findings(known, truths)
    found = [one.experiment for one in known.values()]
    shown = {e.name: _shown(e, rows, statements[e.name]) for e, rows, _ in known.values()}
    groups = [
        {
            "paper": paper,
            "experiments": [shown[e.name] for e in found if e.paper == paper.key],
            "headline": _headline_table([h for h in truths if h.paper == paper.key]),
        }
        for paper in PAPERS
        if any(e.paper == paper.key for e in found)
    ]
    smaller = sum(one.size.name != size.name for one in known.values())
    about = (
        f"{len(found)} of {len(EXPERIMENTS)} experiments, size {size.name}"
        f"{f' ({smaller} of them reduced)' if smaller else ''}, {summary.made_with()}"
    )
    return {
        "groups": groups,
        "claims": summary.claim_tables(statements),
        "missing": [name for name in EXPERIMENTS if name not in shown],
        "about": about,
        "summary": _summary_table(found, shown),
        "headline": _headline_table(truths),
        "which": advice.lines(),
        "ranking": [
            equal_privacy.overall(rows)
            for e, rows, _ in known.values()
            if e.name == "equal-privacy"
        ],
    }


def _shown(e: Experiment, rows: Rows, found: list[Finding]) -> Shown:
    charts = [_panel(chart) for chart in e.charts(rows) if chart.series]
    verdict, reasons = first_sentence(e.survives(found, rows))
    return Shown(
        e.name,
        e.figure,
        e.question,
        e.settings,
        f"{e.chosen} {summary.favoured(rows)}".strip(),
        summary.ran(rows),
        verdict,
        reasons,
        level(found, verdict),
        [count(found, mode) for mode in (PUBLISHED, SOUND)],
        [f"{f.mode.capitalize()}. {f.sentence}" for f in found],
        charts,
        e.tables(rows) if e.paper == OURS else [],
    )


def level(found: Sequence[Finding], verdict: str) -> str:
    """The colour of a verdict: something does not survive;
    else all sound findings hold, or only some."""
    kept = [f for f in found if f.mode == SOUND] or list(found)
    if "not survive" in verdict:
        return "bad"
    return "good" if all(f.holds for f in kept) else "caution"


def _panel(chart: Chart) -> dict[str, Any]:
    return {
        "key": chart.key,
        "title": chart.title,
        "tab": chart.tab or chart.title,
        "words": chart.words,
        "note": chart.note,
        "spec": chart.figure(),
        "table": chart.table(),
    }


def _summary_table(found: Sequence[Experiment], shown: dict[str, Shown]) -> TextTable:
    columns = [
        Column("experiment"),
        Column("paper"),
        Column("as published"),
        Column("sound"),
        Column("verdict"),
    ]
    rows = []
    for e in found:
        one = shown[e.name]
        rows.append(
            [
                e.name,
                ", ".join(filter(None, (e.paper, e.figure))).replace(" ", "\u00a0"),
                *one.counts,
                one.verdict,
            ]
        )
    return TextTable(
        "What was found: statements that hold, of those that were checked", columns, rows
    )


def _headline_table(rows: Sequence[Headline]) -> TextTable:
    columns = [
        Column("paper"),
        Column("setting"),
        Column("claimed", True),
        Column("accounted", True),
        Column("delta", True),
        Column("adjacency"),
        Column("remark"),
    ]
    cells = [
        [
            h.paper,
            h.setting,
            f"{h.claimed:.4g}",
            h.shown,
            f"{h.delta or 1e-5:g}",
            h.adjacency,
            h.remark,
        ]
        for h in rows
    ]
    return TextTable("Claimed and accounted epsilon of the papers' own settings", columns, cells)


def _asset(name: str) -> str:
    return (files(__package__) / "template" / name).read_text(encoding="utf-8")
