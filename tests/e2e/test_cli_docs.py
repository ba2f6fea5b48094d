"""Every command in docs/cli.md and every file in examples/ works as it is written;
the demo too, on a small stand-in."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONFIRM = "confirmed = false"


def commands() -> list[str]:
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("tacenda ")]
    return [line for line in lines if line != "tacenda demo"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_command_of_the_guide(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table, schema = tools.write_people(tmp_path)
    schema.unlink()
    assert len(commands()) > 10
    for line in commands():
        result = tools.tacenda(*shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}\n{result.output}"
        # The guide asks the reader to confirm here, and predictions allow no gaps
        if "schema draft" in line:
            schema.write_text(schema.read_text().replace(CONFIRM, "confirmed = true"))
    assert (tmp_path / "predictions.csv").is_file() and (tmp_path / "curve.svg").is_file()
    assert table.is_file()


@pytest.mark.parametrize("name", ["adult", pytest.param("compare", marks=pytest.mark.slow)])
def test_examples_are_good_configurations(tools: Any, name: str) -> None:
    command = "compare" if name == "compare" else "fit"
    found = tools.answer(command, ROOT / "examples" / f"{name}.toml", "--dry-run")
    for run in found["runs"]:
        assert run["privacy"]["epsilon"] <= (2.0 if name == "compare" else 1.0) * (1 + 1e-9)


def test_the_example_for_an_own_file_finds_its_files(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.write_people(tmp_path)
    example = tmp_path / "own-file.toml"
    example.write_text((ROOT / "examples" / "own-file.toml").read_text("utf-8"))
    monkeypatch.chdir(ROOT.parent)
    found = tools.answer("fit", example, "--dry-run")
    assert (found["records"], found["nodes"]) == (48, 3)


def test_the_demo_says_when_a_stand_in_was_used(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacenda.cli import demo
    from tacenda.data import sources

    monkeypatch.setattr(sources, "folders", lambda: [tmp_path])
    monkeypatch.setattr(demo, "STAND_IN", {"n": 2000, "features": 6, "difficulty": 0.1})
    folder = tmp_path / "demo"
    result = tools.tacenda("demo", "--offline", "-o", folder, "-e", 20, "-q")
    assert result.exit_code == 0, result.output
    assert "is used instead" in result.stderr and "100 nodes" in result.output
    manifest = json.loads((folder / "manifest.json").read_text())
    labels = [row["label"] for row in manifest["table"]]
    assert [name for name in labels if " " not in name] == ["auto", "cdpadmm", "ipadmm"]
    assert (folder / "report.html").is_file()
    again = tools.tacenda("demo", "--offline", "-o", folder, "-e", 20, "-q")
    assert again.exit_code == 0 and f"{folder}-2" in again.output
