"""Run the cells of an experiment that are not stored yet, side by side in processes, with the time
left; then join their rows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tacenda.engines import LOCAL, Engine, run_calls
from tacenda.errors import StateError
from tacenda.experiments import rows as tidy
from tacenda.experiments.rows import Rows
from tacenda.experiments.spec import Cell, Experiment, Size
from tacenda.threads import limit_threads

DEFAULT_OUT = Path("runs/experiments")
LINE_SECONDS = 5.0


def folder_of(out: Path, experiment: Experiment, size: Size) -> Path:
    return out / size.name / experiment.name


def play(
    experiment: Experiment,
    size: Size,
    out: Path = DEFAULT_OUT,
    *,
    jobs: int = 1,
    show: bool = True,
    engine: Engine | None = None,
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
    where = engine or Engine(LOCAL)
    if missing and (not where.is_local or (jobs > 1 and len(families) > 1)):
        _side_by_side(out, list(families.values()), where, jobs, report)
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


def stored(experiment: Experiment, size: Size, out: Path = DEFAULT_OUT) -> Rows:
    """The joined rows of an earlier `play`."""
    path = folder_of(out, experiment, size) / "rows.csv"
    if not path.is_file():
        raise StateError(
            f"{experiment.name} has no {size.name} results in {out}; "
            f"run `tacenda experiment run {experiment.name}` first."
        )
    return tidy.read(path)


def _path(out: Path, key: str) -> Path:
    return out / "cells" / f"{key}.csv"


def _store(out: Path, cell: Cell) -> None:
    from tacenda.experiments.cells import carry_out

    tidy.write(_path(out, cell.key()), carry_out(cell, out / "promises"))


def _side_by_side(
    out: Path, families: list[list[Cell]], engine: Engine, jobs: int, report: Callable[[int], None]
) -> None:
    """One task per family, so that what its cells share is made once."""
    threads = max(1, (os.cpu_count() or 1) // jobs) if engine.is_local else 1
    work = [(_store_family, out.resolve(), cells, threads) for cells in families]
    for _, done in run_calls(engine, work, jobs, out):
        report(done)


def _store_family(out: Path, cells: list[Cell], threads: int) -> int:
    limit_threads(threads)
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
        if self.show and (now - self.line > LINE_SECONDS or self.done == self.missing):
            self.line = now
            left = (now - self.begin) / self.done * (self.missing - self.done)
            print(
                f"{self.title}: {self.done} of {self.missing}, {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
