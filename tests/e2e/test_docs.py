"""Every Python snippet and every `$` command in the README and the docs runs as written,
in a fresh folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/start.md",
    "docs/researchers.md",
    "docs/tutorial.md",
    "docs/regression.md",
    "docs/models.md",
    "docs/additive.md",
    "docs/selection.md",
    "docs/adding-an-algorithm.md",
    "docs/planner.md",
    "docs/whitening.md",
    "docs/own-loss.md",
    "docs/what-epsilon-means.md",
    "docs/evaluation.md",
    pytest.param("docs/audit.md", marks=pytest.mark.slow),
    pytest.param("docs/bounds.md", marks=pytest.mark.slow),
    "docs/shared-noise-for-officers.md",
    pytest.param("docs/officers.md", marks=pytest.mark.slow),
    "docs/statisticians.md",
]
LONG = ["docs/planner.md", "docs/tutorial.md"]  # over ten seconds each
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.S | re.M)


def commands(text: str) -> list[str]:
    """The lines after `$`, a trailing backslash joining the next."""
    return [line[2:] for line in text.replace("\\\n", " ").splitlines() if line.startswith("$ ")]


def shell(line: str) -> None:
    words = shlex.split(line, comments=True)
    assert words[0] == "tacenda", f"only tacenda commands are expected in a console block: {line}"
    done = subprocess.run(
        [sys.executable, "-m", "tacenda", *words[1:]],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = re.search(r"# exit (\d+)", line)
    assert done.returncode == int(said[1] if said else 0), f"{line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.slow) if p in LONG else p for p in PAGES]
)
def test_page_runs_as_written(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    names: dict[str, Any] = {"__name__": "__main__"}
    found = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert found, f"{page} has no snippets; take it off the list"
    for kind, text in found:
        if kind == "console":
            for line in commands(text):
                shell(line)
            continue
        with warnings.catch_warnings():
            # The first snippets that people copy run without a warning; on other pages what a
            # user would see as a warning does not stop a snippet
            warnings.simplefilter("error" if page == "README.md" else "ignore")
            exec(compile(text, page, "exec", dont_inherit=True), names)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (
                    f"{os.path.relpath(page, ROOT)} links to {target}, which is not there"
                )


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_named_on_a_page_are_there(page: str) -> None:
    named = re.findall(r"`(?:src/)?([\w/]+/[\w]+\.py)`", (ROOT / page).read_text(encoding="utf-8"))
    assert named
    missing = [
        path
        for path in named
        if not any((ROOT / base / path).is_file() for base in ("src/tacenda", "src", "tests", ""))
    ]
    assert not missing, f"{page} names {missing}, which are not there"
