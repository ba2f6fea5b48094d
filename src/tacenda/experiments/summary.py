"""The committed summary: what was run, when, with which versions, and what was found."""

from __future__ import annotations

import datetime
import platform
from pathlib import Path

import numpy as np

from tacenda.experiments import player, tables
from tacenda.experiments.judging import count, first_sentence
from tacenda.experiments.registry import EXPERIMENTS
from tacenda.experiments.rows import Rows
from tacenda.experiments.spec import PUBLISHED, SOUND, Experiment, Size
from tacenda.report.charts import Column, TextTable

# in docs/results.md: what follows it is made by other commands, and stays
KEPT = "<!-- What follows is not made by this command, which keeps it. -->"
MOST_LINES = 12  # of a table; a longer one is folded up until somebody opens it
MOST_FINDINGS = 12  # more of them are counted, and only those that do not hold are listed


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


def kept(path: Path) -> str:
    """What a summary that is to be written anew holds from KEPT on."""
    text = path.read_text() if path.is_file() else ""
    return "\n" + text[text.index(KEPT) :] if KEPT in text else ""


def as_markdown(out: Path, size: Size) -> str:
    """docs/results.md: every experiment with stored rows of this size."""
    parts = [
        "# Results",
        f"Made by `tacenda experiment report --{size.name} --run --markdown docs/results.md`; "
        f"{made_with()}.",
        _WORDS[size.name],
        "Findings and numbers are computed from the stored rows; settings, "
        "reasons and what was tried before are written by hand. "
        "`Holds` and `Does not hold` refer to the statement as it is written, for these runs. "
        "± is the standard error of a mean over the seeds; "
        "a statement whose deciding difference is below two of them says so.",
    ]
    missing, sections, lines = [], [], []
    for e in EXPERIMENTS.values():
        if (player.folder_of(out, e, size) / "rows.csv").is_file():
            rows = player.stored(e, size, out)
            sections.append(_section(e, rows))
            lines.append(_line(e, rows))
        else:
            missing.append(e.name)
    titles = (
        "experiment",
        "source",
        "runs",
        "seeds",
        "hold as published",
        "hold when sound",
        "verdict",
    )
    parts += [
        tables.as_markdown(TextTable("Summary", [Column(t) for t in titles], lines)),
        *sections,
    ]
    if missing:
        parts.append(f"Not run at this size: {', '.join(missing)}.")
    return "\n\n".join(parts) + "\n"


def _line(e: Experiment, rows: Rows) -> list[str]:
    """One line of the summary table."""
    found = e.findings(rows)
    held = [count(found, mode) for mode in (PUBLISHED, SOUND)]
    numbers = [str(len(_runs(rows))), str(len(rows.distinct("seed")))]
    return [
        e.name,
        ", ".join(filter(None, (e.paper, e.figure))),
        *numbers,
        *held,
        first_sentence(e.survives(found, rows))[0],
    ]


def _runs(rows: Rows) -> dict[tuple[tuple[str, object], ...], float]:
    """The seconds of every run, by what tells it from the others."""
    hidden = ("round", "value", "metric", "seconds")
    return {tuple((k, v) for k, v in r.items() if k not in hidden): r["seconds"] for r in rows}


def _section(e: Experiment, rows: Rows) -> str:
    found = e.findings(rows)
    shown = found if len(found) <= MOST_FINDINGS else [f for f in found if not f.holds]
    lines = [f"- {f.mode}: {f.sentence}" for f in shown]
    if len(shown) < len(found):
        lines.append(
            f"- {len(found) - len(shown)} of {len(found)} statements hold; the report lists them."
        )
    source = ", ".join(filter(None, (e.paper, e.figure)))
    return "\n\n".join(
        [
            f"## {e.name} ({source})",
            e.question,
            f"**{e.survives(found, rows)}**",
            "\n".join(lines),
            *(_shown(t) for t in e.tables(rows)),
            f"Settings: {e.settings} {e.chosen} {ran(rows)}",
        ]
    )


def _shown(table: TextTable) -> str:
    text = tables.as_markdown(table)
    if len(table.rows) <= MOST_LINES:
        return f"{table.caption}:\n\n{text}"
    title = f"{table.caption} ({len(table.rows)} lines)"
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


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
