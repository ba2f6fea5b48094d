"""Run the cells of an experiment that are not stored yet, side by side in processes, with the time left; then join their rows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tacenda.errors import StateError
from tacenda.experiments import rows as tidy
from tacenda.experiments.rows import Rows
from tacenda.experiments.spec import Cell, Experiment, Size

DEFAULT_OUT = Path("runs/experiments")
LINE_SECONDS = 5.0


def folder_of(out: Path, experiment: Experiment, size: Size) -> Path:
    return out / size.name / experiment.name


def play(experiment: Experiment, size: Size, out: Path = DEFAULT_OUT, *, jobs: int = 1, show: bool = True) -> Rows:
    """All rows of the experiment; finished cells are read, the others run and are stored one by one."""
    folder = folder_of(out, experiment, size)
    cells = experiment.cells(size)
    missing = [c for c in cells if not _path(folder, c).is_file()]
    report = _Teller(f"{experiment.name} ({size.name})", len(missing), len(cells), show)
    if jobs > 1 and len(missing) > 1:
        _side_by_side(experiment.name, folder, missing, jobs, report)
    else:
        for cell in missing:
            _store(experiment.name, str(folder), cell)
            report(1)
    found = Rows(row for cell in cells for row in tidy.read(_path(folder, cell)))
    tidy.write(folder / "rows.csv", found)
    return found


def stored(experiment: Experiment, size: Size, out: Path = DEFAULT_OUT) -> Rows:
    """The joined rows of an earlier `play`."""
    path = folder_of(out, experiment, size) / "rows.csv"
    if not path.is_file():
        raise StateError(
            f"{experiment.name} has no {size.name} results in {out}; run `tacenda experiment run {experiment.name}` first."
        )
    return tidy.read(path)


def _path(folder: Path, cell: Cell) -> Path:
    return folder / "cells" / f"{cell.key()}.csv"


def _store(name: str, folder: str, cell: Cell) -> None:
    from tacenda.experiments.cells import carry_out

    tidy.write(_path(Path(folder), cell), carry_out(name, cell))


def _side_by_side(name: str, folder: Path, cells: list[Cell], jobs: int, report: Callable[[int], None]) -> None:
    from joblib import Parallel, delayed

    threads = max(1, (os.cpu_count() or 1) // jobs)
    work = (delayed(_store_elsewhere)(name, str(folder), cell, threads) for cell in cells)
    for _ in Parallel(n_jobs=jobs, return_as="generator_unordered")(work):
        report(1)


def _store_elsewhere(name: str, folder: str, cell: Cell, threads: int) -> None:
    import numba

    numba.set_num_threads(min(threads, numba.get_num_threads()))
    _store(name, folder, cell)


class _Teller:
    """Now and then a line on standard error: how many runs are done, and how long the rest will take."""

    def __init__(self, title: str, missing: int, total: int, show: bool) -> None:
        self.title, self.missing, self.show, self.done = title, missing, show, 0
        self.begin = self.line = time.monotonic()
        if show:
            known = total - missing
            print(
                f"{title}: {missing} runs to do" + (f", {known} already stored" if known else ""), file=sys.stderr, flush=True
            )

    def __call__(self, more: int) -> None:
        self.done += more
        now = time.monotonic()
        if self.show and (now - self.line > LINE_SECONDS or self.done == self.missing):
            self.line = now
            left = (now - self.begin) / self.done * (self.missing - self.done)
            print(f"{self.title}: {self.done} of {self.missing}, {left:.0f} s left", file=sys.stderr, flush=True)
