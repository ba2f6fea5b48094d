"""The command line as such: quick help that teaches, exit codes,
errors as one sentence or as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMANDS = [
    ["demo"],
    ["fit"],
    ["compare"],
    ["predict"],
    ["evaluate"],
    ["coefficients"],
    ["heterogeneity"],
    ["report"],
    ["algorithms"],
    ["datasets"],
    ["account"],
    ["calibrate"],
    ["plan"],
    ["audit"],
    ["schema", "draft"],
    ["schema", "check"],
    ["schema", "show"],
    ["ledger", "show"],
    ["ledger", "verify"],
    ["ledger", "budget"],
    ["ledger", "export"],
    ["evidence", "make"],
    ["evidence", "check"],
    ["evidence", "certify"],
    ["evidence", "form"],
]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tacenda.cli import main; main()", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_teaches_by_an_example(tools: Any, command: list[str]) -> None:
    result = tools.tacenda(*command, "--help")
    assert result.exit_code == 0
    assert f"tacenda {' '.join(command[:1])}" in " ".join(result.output.split())
    assert "Example:" in result.output


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("group", ["", "schema", "ledger", "evidence", "certs", "contract", "node"])
def test_no_line_of_a_list_of_commands_is_cut_off(group: str, width: int) -> None:
    from typer.testing import CliRunner

    from tacenda.cli.app import app

    shown = (
        CliRunner()
        .invoke(app, [*group.split(), "--help"], terminal_width=width, env={"COLUMNS": str(width)})
        .output
    )
    listed = shown.partition("Commands:")[2].split("\n\n")[0].strip("\n").splitlines()
    assert len(listed) >= 2 and all(
        len(line) <= width and "..." not in line and line.endswith(".") for line in listed
    ), shown
    assert all(line[2] != " " for line in listed), (
        f"a summary goes over more than one line:\n{shown}"
    )


def test_exit_codes_and_sentences(tools: Any, tmp_path: Path) -> None:
    unknown = run("fit", "--data", "adlt", "--nodes", "3")
    assert unknown.returncode == 2
    assert (
        "Did you mean 'adult'" in unknown.stderr
        and unknown.stderr.count("\n") == 1
        and "Traceback" not in unknown.stderr
    )
    assert tools.tacenda("fit", "--no-such-flag").exit_code == 2
    assert tools.tacenda("report", tmp_path).exit_code == 4
    debug = tools.tacenda("fit", "--data", "adlt", "--debug")
    assert debug.exit_code == 2 and "Traceback" in debug.stderr


def test_errors_are_json_where_json_was_asked_for(tools: Any) -> None:
    result = tools.tacenda("account", "--algorithm", "ipadm", "--noise-multiplier", "1", "--json")
    error = json.loads(result.stderr)["error"]
    assert (result.exit_code, error["exit_code"], error["kind"]) == (2, 2, "InputError")
    assert "ipadmm" in error["message"]


def test_codes_of_all_kinds_of_errors() -> None:
    from tacenda import errors
    from tacenda.cli.exits import code_of, sentence_of

    expected = {
        errors.InputError("x"): 2,
        errors.UnsupportedError("x"): 2,
        errors.PrivacyError("x"): 3,
        errors.BudgetError("x"): 3,
        errors.LeakError("x"): 3,
        errors.StateError("x"): 4,
        errors.NetworkError("x"): 5,
        KeyboardInterrupt(): 130,
        ZeroDivisionError("x"): 1,
        ImportError("pip install 'tacenda[plots]'"): 2,
        FileNotFoundError(2, "No such file", "f"): 2,
    }
    assert [code_of(error) for error in expected] == list(expected.values())
    assert "--debug" in sentence_of(ZeroDivisionError("x"))
    assert sentence_of(FileNotFoundError(2, "No such file", "f")) == "f: No such file."


def test_lists_name_every_algorithm_and_data_set(tools: Any) -> None:
    from tacenda.algorithms.registry import ALGORITHMS
    from tacenda.data.catalogue import NAMES

    assert [row["name"] for row in tools.answer("algorithms")] == list(ALGORITHMS)
    assert tools.answer("algorithms", "dvp")["verdict"]["verdict"] == "unsound"
    assert "zeta = ah/2" in tools.tacenda("algorithms", "dvp").output
    assert list(tools.answer("datasets")["datasets"]) == list(NAMES)
    assert tools.tacenda("--version").output.startswith("tacenda ")
