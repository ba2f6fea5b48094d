"""Every snippet and command of docs/report.md runs, in order, on a folder made here."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from report_folders import A, make_folder

PAGE = Path(__file__).parents[3] / "docs" / "report.md"


@pytest.mark.slow
def test_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _folder(tmp_path, monkeypatch)
    names: dict[str, Any] = {}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(snippet, str(PAGE), "exec"), names)
    assert names["page"].stat().st_size > 4_000_000
    assert {p.suffix for p in names["files"]} == {".svg", ".pdf"}
    assert names["card"].startswith("# Model card: ipadmm")


def test_first_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from tacenda.cli.app import app

    _folder(tmp_path, monkeypatch)
    commands = re.search(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert commands is not None
    name, *words = shlex.split(commands.group(1).splitlines()[0])
    assert name == "tacenda"
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "runs" / "demo" / "report.html").is_file()


def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    choices = {"IPADMM": (A.IPADMM(penalty=0.1, proximal=0.5, inner_steps=1), 1.0)}
    make_folder(tmp_path / "runs" / "demo", choices, seeds=(0,), rounds=3, metrics=("objective",))
