"""Run the cells of an experiment that are not stored yet, side by side in processes, with the time
left; then join their rows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tacenda.engines import HERE, Call, Workers, run_calls
from tacenda.errors import StateError
from tacenda_papers.experiments import rows as tidy
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import Cell, Experiment, Size

DEFAULT_OUT = Path("runs/experiments")
LINE_SECONDS = 5.0


def folder_of(out: Path, experiment: Experiment, size: Size) -> Path:
    return out / size.name / experiment.name


def play(
    experiment: Experiment,
    size: Size,
    out: Path = DEFAULT_OUT,
    *,
    workers: Workers = HERE,
    show: bool = True,
) -> Rows:
    """All rows of the experiment; stored runs are read, the others are made and stored one by one.

    A run is stored once for all experiments, figures and sizes that use it, under its settings'
    digest.
    """
    cells = experiment.cells(size)
    distinct = {c.key(): c for c in cells}
    missing = [c for key, c in distinct.items() if not _path(out, key).is_file()]
    report = _Teller(f"{experiment.name} ({size.name})", len(missing), len(distinct), show)
    families: dict[str, list[Cell]] = {}
    for cell in missing:
        families.setdefault(cell.family(), []).append(cell)
    if missing and not workers.here(len(families)):
        _side_by_side(out, list(families.values()), workers, report)
    else:
        for cell in missing:
            _store(out, cell)
            report(1)
    found = Rows(
        {**_about(experiment, c), **row} for c in cells for row in tidy.read(_path(out, c.key()))
    )
    tidy.write(folder_of(out, experiment, size) / "rows.csv", found)
    return found


def _about(experiment: Experiment, cell: Cell) -> tidy.Row:
    return {
        "experiment": experiment.name,
        "mode": cell.mode,
        "method": cell.method,
        "seed": cell.seed,
        **cell.labels,
    }


def cores(jobs: int) -> int:
    """0 means all of them."""
    return jobs or os.cpu_count() or 1


def rows_file(out: Path, experiment: Experiment, size: Size) -> Path | None:
    """Where the rows of an experiment are, as they were made or packed; None if nowhere."""
    folder = folder_of(out, experiment, size)
    return next((f for f in (folder / "rows.csv", folder / "rows.csv.gz") if f.is_file()), None)


class Stored(NamedTuple):
    """An experiment with the rows of an earlier `play`, and their size."""

    experiment: Experiment
    rows: Rows
    size: Size

    @property
    def command(self) -> str:
        """What makes the rows."""
        name, size, seeds = self.experiment.name, self.size, len(self.rows.distinct("seed"))
        usual = len({c.seed for c in self.experiment.cells(size)})
        fewer = "" if seeds == usual else f" --seeds {seeds}"
        return f"tacenda experiment run {name} --{size.name}{fewer}"


def stored(experiment: Experiment, size: Size, out: Path = DEFAULT_OUT) -> Rows:
    """The joined rows of an earlier `play`."""
    path = rows_file(out, experiment, size)
    if path is None:
        raise StateError(
            f"{experiment.name} has no {size.name} results in {out}; "
            f"run `tacenda experiment run {experiment.name}` first."
        )
    return tidy.read(path)


def _path(out: Path, key: str) -> Path:
    return out / "cells" / f"{key}.csv"


def _store(out: Path, cell: Cell) -> None:
    from tacenda_papers.experiments.cells import carry_out

    tidy.write(_path(out, cell.key()), carry_out(cell, out / "promises"))


def _side_by_side(
    out: Path, families: list[list[Cell]], workers: Workers, report: Callable[[int], None]
) -> None:
    """One task per family, so that what its cells share is made once."""
    calls = [Call(_called(cells), _store_family, (out.resolve(), cells)) for cells in families]
    run_calls(
        workers.engine,
        calls,
        workers.jobs,
        lambda _, done: report(done),
        folder=out,
        beat=lambda: report(0),
    )


def _called(cells: list[Cell]) -> str:
    """A family as a sentence names it: "ipadmm (sound, epsilon 1), 3 seeds"."""
    first = cells[0]
    labels = [first.mode, *(f"{name} {value}" for name, value in first.labels.items())]
    seeds = "1 seed" if len(cells) == 1 else f"{len(cells)} seeds"
    return f"{first.method} ({', '.join(labels)}), {seeds}"


def _store_family(out: Path, cells: list[Cell]) -> int:
    for cell in cells:
        if not _path(out, cell.key()).is_file():  # a lost worker may have stored some
            _store(out, cell)
    return len(cells)


class _Teller:
    """Now and then a line on standard error: how many runs are done,
    and how long the rest will take."""

    def __init__(self, title: str, missing: int, total: int, show: bool) -> None:
        self.title, self.missing, self.show, self.done = title, missing, show, 0
        self.begin = self.line = time.monotonic()
        if show:
            known = total - missing
            print(
                f"{title}: {missing} runs to do" + (f", {known} already stored" if known else ""),
                file=sys.stderr,
                flush=True,
            )

    def __call__(self, more: int) -> None:
        self.done += more
        now = time.monotonic()
        if self.show and (now - self.line > LINE_SECONDS or (more and self.done == self.missing)):
            self.line = now
            rest = self.missing - self.done
            left = f", {(now - self.begin) / self.done * rest:.0f} s left" if self.done else ""
            print(f"{self.title}: {self.done} of {self.missing}{left}", file=sys.stderr, flush=True)
