"""The table of faults: every line names a test that exists, and a sentence that the program has."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from support import functions_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| fault", "| ---"))
]
SPOKEN = ["tacenda_node", *(f"tacenda/{p}" for p in ("cli", "privacy/lasting", "data", "runtime"))]


@cache
def program() -> str:
    """All that the program can say, with `…` for what it fills in."""
    found = []
    for part in SPOKEN:
        for path in sorted((ROOT / "src" / part).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    words = [
                        str(one.value) if isinstance(one, ast.Constant) else "…"
                        for one in node.values
                    ]
                    found.append("".join(words))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return "\n".join(found)


def test_there_are_enough_and_no_fault_twice() -> None:
    assert len(LINES) >= 60
    names = [line[0] for line in LINES]
    assert len(names) == len(set(names))
    assert {len(line) for line in LINES} == {6}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0][:40])
def test_a_line_names_its_test_and_the_programs_words(line: list[str]) -> None:
    _, happens, reads, lost, bits, test = line
    assert happens and lost and bits
    file, _, name = test.strip("`").partition("::")
    assert name in functions_of(ROOT / "tests" / file), test
    quoted = re.findall(r"`([^`]+)`", reads)
    assert quoted or reads == "-"
    for sentence in quoted:
        for words in filter(None, (part.strip(" .,") for part in sentence.split("…"))):
            assert words in program(), words


def test_the_threat_model_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
    named = re.findall(r"`([a-z0-9_/]+\.py)::(test_\w+)`", text)
    assert len(named) >= 9
    for file, name in named:
        assert name in functions_of(ROOT / "tests" / file), name
