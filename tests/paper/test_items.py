"""The table of the papers' items in docs/papers.md: every row names a file and a test that are
there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from support import functions_of
from tacenda_papers.experiments import page, player
from tacenda_papers.experiments.registry import EXPERIMENTS
from tacenda_papers.experiments.spec import Size

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


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_page_shows_its_figures_its_rows_the_command_and_its_size(name: str) -> None:
    """docs/results has a page of every experiment, and what it links to is there."""
    folder = ROOT / "docs" / "results"
    page = (folder / f"{name}.md").read_text("utf-8")
    figures = re.findall(r"\]\((figures/[^)]+\.svg)\)", page)
    (rows,) = re.findall(r"\]\((rows/[^)]+/rows\.csv\.gz)\)", page)
    assert figures and all((folder / path).is_file() for path in (*figures, rows))
    size = rows.split("/")[1]
    assert f"`tacenda experiment run {name} --{size}" in page
    assert f" Shown: {size} size" in page
    assert f"results/{name}.md" in (ROOT / "docs" / "results.md").read_text("utf-8")


def test_a_report_of_full_size_says_how_many_are_reduced() -> None:
    out, two = ROOT / "docs" / "results" / "rows", {}
    for name, size in (("recycled-rates", Size("full")), ("dda-tradeoff", Size("reduced"))):
        rows = player.stored(EXPERIMENTS[name], size, out)
        two[name] = player.Stored(EXPERIMENTS[name], rows, size)
    about = page._content(two, Size("full"), [])["about"]
    assert about.startswith("2 of 22 experiments, size full (1 of them reduced), ")
