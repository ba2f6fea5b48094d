"""The examples that come with the package are listed, copied as they are, and never over a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cli_tools as tools
from tacenda.cli import examples

ROOT = Path(__file__).parents[3]


def test_every_example_of_the_repository_is_listed_with_what_it_shows() -> None:
    files = {path.name for path in (ROOT / "examples").iterdir() if path.suffix in examples.KINDS}
    listed = tools.answer("examples")
    assert {row["file"] for row in listed} == files and len(listed) == len(files)
    assert all(len(row["title"]) > 10 and "\n" not in row["title"] for row in listed)


def test_an_example_is_copied_byte_for_byte_and_never_over_a_file(tmp_path: Path) -> None:
    done = tools.answer("examples", "copy", "adult", tmp_path)
    target = tmp_path / "adult.toml"
    assert done == {"file": str(target), "run": f"tacenda fit {target}"}
    assert target.read_bytes() == (ROOT / "examples" / "adult.toml").read_bytes()
    target.write_text("mine")
    for wrong, words in (
        (["adult", tmp_path], "exists already"),
        (["adult.toml", tmp_path / "missing"], "no folder"),
        (["adlt", tmp_path], "Did you mean 'adult'"),
    ):
        refused = tools.tacenda("examples", "copy", *wrong)
        assert refused.exit_code == 2 and words in refused.stderr, refused.output
    assert target.read_text() == "mine"


def test_names_leave_out_numbers_and_keep_the_ending_where_two_would_be_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("01_first.py", "02_first.toml", "03_other.py", "notes.md"):
        (tmp_path / name).write_text('"""A title\n=======\n"""\n')
    monkeypatch.setattr(examples, "place", lambda: tmp_path)
    found: dict[str, Any] = examples.found()
    assert list(found) == ["01_first.py", "02_first.toml", "other"]
    assert examples.title_of(found["other"]) == "A title"
