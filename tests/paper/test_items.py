"""The table of the papers' items in docs/papers.md: every row names a file and a test that are
there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from support import functions_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text("utf-8").partition("## Item by item")[2]
LINES = [
    [cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| item", "| ---"))
]
BY_PAPER = {part.partition("**")[0]: part.count("\n| ") - 2 for part in PAGE.split("\n**")[1:]}


def test_no_item_is_lost_or_told_twice() -> None:
    """The numbers of items that were found in each paper when all five were read for this."""
    assert BY_PAPER == {
        "Huang and Gong (2020)": 21,
        "Zhang et al. (2018)": 22,
        "Liu et al. (2022)": 15,
        "Zhang and Zhu (2016)": 22,
        "Gauthier et al. (2020)": 13,
    }
    assert len(LINES) == 93 and {len(line) for line in LINES} == {4}
    at = 0
    for number in BY_PAPER.values():
        told = Counter(line[0] for line in LINES[at : at + number])
        assert max(told.values()) == 1
        at += number


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0][:40])
def test_a_row_names_its_file_and_its_test(line: list[str]) -> None:
    _, file, state, test = line
    assert state
    assert (ROOT / file.strip("`")).is_file(), file
    path, _, name = test.strip("`").partition("::")
    assert name.startswith("test_") and name in functions_of(ROOT / "tests" / path), test
