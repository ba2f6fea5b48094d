"""The figures of stored experiments as files, and their rows in a form that is small enough to be
kept beside them."""

from __future__ import annotations

from pathlib import Path

from tacenda.report import Chart, write_charts
from tacenda_papers.experiments import rows as tidy
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import Experiment, Size

Known = dict[str, tuple[Experiment, Rows]]
FIGURES, ROWS = "figures", "rows"


def drawn(experiment: Experiment, rows: Rows) -> list[Chart]:
    """The charts of an experiment that have anything to show."""
    return [chart for chart in experiment.charts(rows) if chart.series]


def for_papers(folder: Path, known: Known) -> list[Path]:
    """Every figure as SVG and PDF."""
    return write_charts(_all(known), folder, ("svg", "pdf"))


def beside(folder: Path, known: Known, size: Size) -> list[Path]:
    """Every figure for light and for dark pages, and the rows behind them; files of figures that
    are no longer there are removed."""
    charts = _all(known)
    target = folder / FIGURES
    kept = {f"{chart.key}{end}.svg" for chart in charts for end in ("", "-dark")}
    for old in target.glob("*.svg"):
        if old.name not in kept:
            old.unlink()
    written = write_charts(charts, target, ("svg",))
    written += write_charts(charts, target, ("svg",), dark=True)
    for name, (_, rows) in known.items():
        written.append(tidy.write_compact(folder / ROWS / size.name / name / "rows.csv.gz", rows))
    return written


def in_markdown(experiment: Experiment, rows: Rows, size: Size) -> str:
    """The figures of a page, each for both kinds of page, and where their rows are."""
    parts = []
    for chart in drawn(experiment, rows):
        words = chart.words.replace("[", "(").replace("]", ")")
        parts.append(f"**{chart.title}**")
        parts.append(
            f"![{words}]({FIGURES}/{chart.key}.svg){{.only-light}}\n"
            f"![{words}]({FIGURES}/{chart.key}-dark.svg){{.only-dark}}"
        )
        if chart.note:
            parts.append(chart.note)
    data = f"{ROWS}/{size.name}/{experiment.name}/rows.csv.gz"
    parts.append(
        f"[The rows behind the figures and tables]({data}) (CSV, packed) were made by `tacenda "
        f"experiment run {experiment.name} --{size.name}`. Without a run, in a clone: `tacenda "
        f"experiment report --{size.name} --out docs/results/{ROWS} --to report.html --figures "
        "figures`."
    )
    return "\n\n".join(parts)


def _all(known: Known) -> list[Chart]:
    return [chart for e, rows in known.values() for chart in drawn(e, rows)]
