"""What the tests of the command line share: a runner, small data, and a schema for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

SCHEMA = """
name = "people"
node_column = "site"

[label]
name = "ill"
classes = ["no", "yes"]

[[columns]]
kind = "numeric"
name = "age"
low = 0.0
high = 100.0

[[columns]]
kind = "categorical"
name = "colour"
levels = ["red", "green"]
"""
WITHOUT_COLOUR = SCHEMA[: SCHEMA.rindex("[[columns]]")]


def tacenda(*arguments: str | Path) -> Result:
    """One command in this process."""
    from tacenda.cli.app import app

    return CliRunner().invoke(app, [str(a) for a in arguments])


def answer(*arguments: str | Path) -> Any:
    """The JSON answer of a command that must succeed."""
    result = tacenda(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def people(rows: int = 60) -> list[str]:
    """CSV lines, header first: older people are ill; three sites hold them."""
    lines = ["age,colour,ill,site"]
    for k in range(rows):
        age = (37 * k) % 100
        lines.append(
            f"{age},{'red' if k % 2 else 'green'},{'yes' if age > 50 else 'no'},{'ABC'[k % 3]}"
        )
    return lines


def write_people(
    folder: Path, lines: list[str] | None = None, schema: str = SCHEMA
) -> tuple[Path, Path]:
    """(CSV, schema) in the folder."""
    table, description = folder / "people.csv", folder / "people.toml"
    table.write_text("\n".join(people() if lines is None else lines) + "\n", "utf-8")
    description.write_text(schema, "utf-8")
    return table, description


def run_main(*arguments: object) -> None:
    """A command of a member in this process, as the shell calls it; it must succeed."""
    from tacenda_node.commands import main

    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code
