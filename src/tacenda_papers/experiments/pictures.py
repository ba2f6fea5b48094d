"""The figures of stored experiments as files, and their rows in a form that is small enough to be
kept beside them."""

from __future__ import annotations

from pathlib import Path

from tacenda.formats.files import write_text
from tacenda.report import Chart, write_charts
from tacenda_papers.experiments import rows as tidy
from tacenda_papers.experiments.player import Stored
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.slim_svg import slim
from tacenda_papers.experiments.spec import Experiment

Known = dict[str, Stored]
FIGURES, ROWS = "figures", "rows"


def drawn(experiment: Experiment, rows: Rows) -> list[Chart]:
    """The charts of an experiment that have anything to show."""
    return [chart for chart in experiment.charts(rows) if chart.series]


def for_papers(folder: Path, known: Known) -> list[Path]:
    """Every figure as SVG and PDF."""
    return write_charts(_all(known), folder, ("svg", "pdf"))


def beside(folder: Path, known: Known) -> list[Path]:
    """Every figure for light and dark pages, and the rows behind them; files of figures that are no
    longer there are removed."""
    charts = _all(known)
    target = folder / FIGURES
    kept = {f"{chart.key}.svg" for chart in charts}
    for old in target.glob("*.svg"):
        if old.name not in kept:
            old.unlink()
    written = write_charts(charts, target, ("svg",))
    for path in written:
        write_text(path, slim(path.read_text("utf-8")))
    for name, (_, rows, size) in known.items():
        written.append(tidy.write_compact(folder / ROWS / size.name / name / "rows.csv.gz", rows))
    return written


def in_markdown(one: Stored) -> str:
    """The figures of a page and where their rows are."""
    parts, size = [], one.size.name
    for chart in drawn(one.experiment, one.rows):
        words = chart.words.replace("[", "(").replace("]", ")")
        parts.append(f"**{chart.title}**")
        parts.append(f"![{words}]({FIGURES}/{chart.key}.svg)")
        if chart.note:
            parts.append(chart.note)
    data = f"{ROWS}/{size}/{one.experiment.name}/rows.csv.gz"
    parts.append(
        f"[The rows behind the figures and tables]({data}) (CSV, packed) were made by "
        f"`{one.command}`. Without a run, in a clone: `tacenda experiment report --full "
        f"--out docs/results/{ROWS} --to report.html --figures figures`."
    )
    return "\n\n".join(parts)


def _all(known: Known) -> list[Chart]:
    return [chart for e, rows, _ in known.values() for chart in drawn(e, rows)]
