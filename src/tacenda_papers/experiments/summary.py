"""The committed summary: what was run, when, with which versions, and what was found."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tacenda.errors import StateError
from tacenda.formats.files import write_text
from tacenda.report import Column, TextTable
from tacenda_papers.experiments import claims, formulas, pictures, player, tables
from tacenda_papers.experiments.headline import Headline
from tacenda_papers.experiments.judging import count, first_sentence
from tacenda_papers.experiments.papers import PAPERS, Paper
from tacenda_papers.experiments.player import Stored
from tacenda_papers.experiments.registry import CLAIMS, EXPERIMENTS
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import PUBLISHED, SOUND, Finding, Size

MOST_LINES = 12  # of a table; a longer one is folded up until somebody opens it
MOST_FINDINGS = 12  # more of them are folded up too


def made_with() -> str:
    """Versions and date in one phrase."""
    import scipy

    from tacenda import __version__

    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f"tacenda {__version__}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, {day}"
    )


def ran(rows: Rows) -> str:
    """How many runs, seeds and seconds are behind the rows."""
    runs = _runs(rows)
    rounds = sorted({r["round"] for r in rows.last()})
    span = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    return (
        f"{len(runs)} runs, seeds 0 to {max(rows.distinct('seed'))}, {span} rounds, "
        f"{sum(runs.values()):.0f} s of computing in all."
    )


def stored_experiments(out: Path, size: Size) -> dict[str, Stored]:
    """Every experiment with stored rows of this size, or in a report of full size of the reduced
    one; refuses where none has any."""
    found: dict[str, Stored] = {}
    for e in EXPERIMENTS.values():
        for one in (size, Size("reduced")) if size.name == "full" else (size,):
            if e.name not in found and player.rows_file(out, e, one) is not None:
                found[e.name] = Stored(e, player.stored(e, one, out), one)
    if not found:
        raise StateError(
            f"There are no {size.name} results in {out}; "
            f"`tacenda experiment run --all --{size.name}` makes them."
        )
    return found


def all_findings(known: dict[str, Stored], truths: Sequence[Headline]) -> dict[str, list[Finding]]:
    """The findings by which claims are decided: of rows, of the accounted epsilon, of formulas."""
    return {
        **{name: one.experiment.findings(one.rows) for name, one in known.items()},
        claims.HEADLINE: claims.from_headlines(truths),
        claims.FORMULAS: formulas.findings(),
    }


def claim_tables(
    found: dict[str, list[Finding]], named: Callable[[str], str] = claims.in_words
) -> list[tuple[Paper, TextTable]]:
    """The table of claims of each paper that has any; named: how a source is written."""
    made = []
    for paper in PAPERS:
        decided = [claims.decide(c, found) for c in CLAIMS if c.paper == paper.key]
        if decided:
            made.append((paper, claims.table(decided, f"The claims of {paper.key}", named)))
    return made


def pages(
    known: dict[str, Stored], size: Size, truths: Sequence[Headline], older: Sequence[str] = ()
) -> dict[str, str]:
    """The summary, under "", and one page for each experiment with rows, under its name; older:
    experiments without rows whose page is there from before."""
    found = all_findings(known, truths)
    missing = [name for name in EXPERIMENTS if name not in known and name not in older]
    told = ", ".join(f"[{name}](results/{name}.md)" for name in older)
    shown = [name for name in EXPERIMENTS if name in known or name in older]
    parts = [
        "# Results",
        f"Made from the stored rows by `tacenda experiment report --{size.name} --out "
        f"docs/results/rows --to report.html --markdown docs/results.md`; {made_with()}.",
        f"{_WORDS[size.name]} {_smaller(known, size)}{_READING}",
        "## What the papers claim, and what was found",
    ]

    def link(source: str) -> str:
        word = claims.in_words(source)
        page = {claims.HEADLINE: "true-epsilon.md", claims.FORMULAS: "papers.md"}.get(source)
        there = page or source in shown
        return f"[{word}]({page or f'results/{source}.md'})" if there else word

    for paper, table in claim_tables(found, link):
        parts += [f"### {paper.key}", f"*{paper.title}.* {paper.about}", tables.as_markdown(table)]
    titles = (
        "experiment",
        "source",
        "size",
        "runs",
        "seeds",
        "hold as published",
        "hold when sound",
        "verdict",
    )
    lines = [_line(one, found[name]) for name, one in known.items()]
    parts += [
        "## The experiments",
        "Each has a page with its figures, statements, tables and settings.",
        tables.as_markdown(TextTable("Summary", [Column(t) for t in titles], lines)),
        *([f"Not run at this size: {', '.join(missing)}."] if missing else []),
        *([f"Not run again since, older pages without figures: {told}."] if told else []),
        "```{toctree}\n:hidden:\n\n" + "\n".join(f"results/{name}" for name in shown) + "\n```",
    ]
    sections = {name: _section(one, found[name]) for name, one in known.items()}
    return {"": "\n\n".join(parts) + "\n", **sections}


def older_pages(path: Path, known: dict[str, Stored]) -> list[str]:
    """The experiments without rows that have a page from before."""
    folder = path.with_suffix("")
    return [e for e in EXPERIMENTS if e not in known and (folder / f"{e}.md").is_file()]


def write_markdown(path: Path, made: dict[str, str]) -> list[Path]:
    """Write the summary to `path` and the pages of the experiments into the folder of its name
    beside it; pages of experiments that do not exist any more are removed."""
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if old.stem not in EXPERIMENTS:
            old.unlink()
    written = [write_text(path, made[""])]
    return written + [
        write_text(folder / f"{name}.md", text) for name, text in made.items() if name
    ]


def _smaller(known: dict[str, Stored], size: Size) -> str:
    """Which experiments are shown at a smaller size than the others."""
    names = [name for name, one in known.items() if one.size.name != size.name]
    return f"Reduced size, for time: {', '.join(names)}. {_WORDS['reduced']} " if names else ""


def _line(one: Stored, found: list[Finding]) -> list[str]:
    """One line of the summary table."""
    e, rows, size = one
    held = [count(found, mode) for mode in (PUBLISHED, SOUND)]
    numbers = [size.name, str(len(_runs(rows))), str(len(rows.distinct("seed")))]
    return [
        f"[{e.name}](results/{e.name}.md)",
        ", ".join(filter(None, (e.paper, e.figure))),
        *numbers,
        *held,
        first_sentence(e.survives(found, rows))[0],
    ]


def _runs(rows: Rows) -> dict[tuple[tuple[str, object], ...], float]:
    """The seconds of every run, by what tells it from the others."""
    hidden = ("round", "value", "metric", "seconds")
    return {tuple((k, v) for k, v in r.items() if k not in hidden): r["seconds"] for r in rows}


def _section(one: Stored, found: list[Finding]) -> str:
    e, rows = one.experiment, one.rows
    lines = "\n".join(f"- {f.mode}: {f.sentence}" for f in found)
    if len(found) > MOST_FINDINGS:
        lines = _folded(f"The {len(found)} statements that were checked", lines)
    source = ", ".join(filter(None, (e.paper, e.figure)))
    parts = [
        f"# {e.name} ({source})",
        e.question,
        f"**{e.survives(found, rows).strip()}**",
        pictures.in_markdown(one),
        lines,
        *filter(None, [favoured(rows)]),
        *(_shown(t) for t in e.tables(rows)),
        f"Settings: {e.settings} {e.chosen} Shown: {extent(one)}, {ran(rows)}",
        "[All results](../results.md)",
    ]
    return "\n\n".join(parts) + "\n"


def favoured(rows: Rows) -> str:
    """Which methods a comparison at equal epsilon favours: those whose epsilon is exact, where that
    of others is an upper bound; nothing where all have the same kind of account."""
    sound = rows.where(mode=SOUND)
    loose, sharp = (sound.where(exact=kind).distinct("method") for kind in (False, True))
    if not (loose and sharp):
        return ""
    told = [
        "; ".join(f"some runs of {name}" if name in other else name for name in names)
        for names, other in ((loose, sharp), (sharp, loose))
    ]
    return (
        f"At equal epsilon, the epsilon of these is an upper bound: {told[0]}. That of the others "
        f"is exact, so that a comparison of the two kinds favours them: {told[1]}."
    )


def extent(one: Stored) -> str:
    """Which size is shown, and where it is less than the full one, by how much and why."""
    whole = one.experiment.cells(Size("full"))
    usual, here = (len({c.seed for c in whole}), len(one.rows.distinct("seed")))
    if one.size.name == "reduced":
        runs = len({c.key() for c in whole})
        return f"reduced size, for time (the full one has {runs} runs, {usual} seeds)"
    if one.size.name == "full" and here < usual:
        return f"full size with {here} of its {usual} seeds, for time"
    return f"{one.size.name} size"


def _folded(title: str, text: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def _shown(table: TextTable) -> str:
    text = tables.as_markdown(table)
    if len(table.rows) <= MOST_LINES:
        return f"{table.caption}:\n\n{text}"
    return _folded(f"{table.caption} ({len(table.rows)} lines)", text)


_READING = (
    "Verdicts, findings and numbers are computed from the stored rows; settings, reasons and what "
    "was tried before are written by hand. *As published* is the paper's own noise, whose epsilon "
    "may differ from the stated one; *at equal epsilon* (or *sound*), every method has the same "
    "accounted epsilon over the whole run. **The epsilon of DVP, penalty perturbation (M-ADMM-PP) "
    "and R-ADMM, and of PVP with a closing round, is an upper bound** (≤): at an equal epsilon "
    "they may protect better than the others, so such a comparison favours the others. A claim "
    "*depends* where some of its statements hold and others do not, and is *undecided* where no "
    "deciding difference reaches two standard errors; *not all clear* means that one of them does "
    "not. ± is the standard error "
    "of a mean over the seeds."
)
_WORDS = {
    "quick": (
        "Quick size: generated data, a few seconds each; this shows that everything runs, "
        "not what the papers claim."
    ),
    "reduced": (
        "Reduced size: Adult, the papers' networks and generated data (Liu et al. 2022, "
        "Gauthier et al. (2020)), with fewer seeds, rounds and levels than the full size, "
        "as each section states."
    ),
    "full": (
        "Full size: the papers' settings where they give them; "
        "what was chosen here is said in each section."
    ),
}
