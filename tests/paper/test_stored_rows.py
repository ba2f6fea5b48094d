"""The rows behind docs/results are those that today's program makes: of every experiment the two
quickest private runs, made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacenda_papers.experiments import player
from tacenda_papers.experiments.cells import carry_out
from tacenda_papers.experiments.registry import EXPERIMENTS
from tacenda_papers.experiments.rows import Row, Rows
from tacenda_papers.experiments.spec import Cell, Experiment, Size

OUT = Path(__file__).parents[2] / "docs" / "results" / "rows"
MADE_AGAIN = 2


def of_cell(experiment: Experiment, rows: Rows, cell: Cell) -> Rows:
    """The stored rows of one cell; labels come back from CSV as numbers of seven digits."""
    wanted = player._about(experiment, cell)

    def alike(row: Row) -> bool:
        return all(
            str(row.get(k)) == str(v)
            or (isinstance(v, float) and row.get(k) == pytest.approx(v, rel=1e-6))
            for k, v in wanted.items()
        )

    return rows.where(alike)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_stored_rows_are_what_the_program_makes(name: str) -> None:
    experiment = EXPERIMENTS[name]
    size = next(s for s in map(Size, ("full", "reduced")) if player.rows_file(OUT, experiment, s))
    rows = player.stored(experiment, size, OUT)
    cells = [c for c in experiment.cells(size) if c.seed == 0]
    private = [c for c in cells if c.privacy is not None] or cells
    stored = {c.key(): (c, of_cell(experiment, rows, c)) for c in private}
    quickest = sorted(
        (pair for pair in stored.values() if len(pair[1])),
        key=lambda pair: pair[1].rows[0]["seconds"],
    )
    assert quickest
    for cell, before in quickest[:MADE_AGAIN]:
        now = {(r["round"], r["metric"]): r for r in carry_out(cell)}
        assert len(now) == len(before)
        for row in before:
            made = now[row["round"], row["metric"]]
            wanted = pytest.approx(row["value"], rel=1e-4, abs=1e-9, nan_ok=True)
            assert made["value"] == wanted, cell
            for column in ("claimed_epsilon", "true_epsilon", "delta"):
                told = row[column]
                told = told if told is None else pytest.approx(told, rel=1e-4)
                assert made[column] == told, (column, cell)
