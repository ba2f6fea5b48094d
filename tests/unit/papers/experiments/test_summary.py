"""The committed summary of the experiments: long tables fold up, short ones do not."""

from __future__ import annotations

from tacenda.report import Column, TextTable
from tacenda_papers.experiments.summary import MOST_LINES, _shown


def table(lines: int) -> TextTable:
    columns = [Column("round"), Column("objective")]
    return TextTable("Means", columns, [[str(k), f"{1 / (k + 1):.3f}"] for k in range(lines)])


def test_a_short_table_is_open() -> None:
    text = _shown(table(MOST_LINES))
    assert text.startswith("Means:\n\n| round | objective |") and "<details>" not in text


def test_a_long_table_folds_up_and_keeps_every_line() -> None:
    text = _shown(table(MOST_LINES + 1))
    head, _, body = text.partition("\n\n")  # Markdown inside needs the empty line
    assert head == f"<details>\n<summary>Means ({MOST_LINES + 1} lines)</summary>"
    assert body.endswith("\n\n</details>")
    assert body.count("\n| ") == MOST_LINES + 2 and "| 12 | 0.077 |" in body
