"""The table of commands: help comes from it alone, and a command's module is imported only when it
is called."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tacenda.cli.app import app
from tacenda.cli.table import COMMANDS, Command, commands

HEAVY = ("numpy", "pydantic", "scipy", "numba", "networkx", "sklearn", "grpc", "cryptography")
ORDER = (
    "demo fit compare predict evaluate describe survival hazards coefficients export shapes "
    "heterogeneity report algorithms datasets account calibrate plan audit doctor relay evidence "
    "examples schema cache ledger experiment consortium certs contract node"
)
CODE = """
import json, sys
from tacenda.cli import main
sys.argv[1:] = json.loads(sys.argv[1])
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(*words: str) -> set[str]:
    """The modules that a command line has imported when it ends."""
    line = [sys.executable, "-c", CODE, json.dumps(words)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "Usage: " in done.stdout
    return set(json.loads(done.stderr.splitlines()[-1]))


def modules(listed: Any) -> set[str]:
    return {one.target.partition(":")[0] for one in listed}


def test_help_imports_no_command_and_nothing_heavy() -> None:
    found = imported("--help")
    assert found.isdisjoint(HEAVY)
    assert found.isdisjoint(modules(commands().values()))
    own = {name for name in found if name.startswith(("tacenda_node.", "tacenda_papers."))}
    assert own == {"tacenda_node.command_table", "tacenda_papers.command_table"}


@pytest.mark.parametrize("name", ["fit", "schema", "evidence", "experiment"])
def test_help_of_a_command_imports_that_command_alone(name: str) -> None:
    here = commands()[name]
    found = imported(name, "--help")
    assert found & modules(commands().values()) == modules([here])
    assert found.isdisjoint(set(HEAVY) - {"pydantic"})  # with which typer reads parameters


def test_the_commands_stand_in_order_each_once() -> None:
    assert list(commands()) == ORDER.split()
    joined = [one.place for one in commands().values()]
    assert joined == sorted(set(joined))
    assert set(COMMANDS) < set(commands().values())


@pytest.mark.parametrize("one", commands().values(), ids=commands())
def test_a_target_is_a_command_with_a_summary_of_one_line(one: Command) -> None:
    module, _, attribute = one.target.partition(":")
    found = getattr(import_module(module), attribute)
    assert callable(found) or isinstance(found, typer.Typer)
    assert one.summary.endswith((".", "?")) and len(one.summary) < 60
    root: Any = typer.main.get_command(app)
    made = root.commands[one.name]
    assert (made.name, made.get_short_help_str(80)) == (one.name, one.summary)


def test_a_wrong_name_is_corrected_without_an_import() -> None:
    answer = CliRunner().invoke(app, ["fti"])
    assert answer.exit_code == 2
    assert "No such command 'fti'. Did you mean 'fit'?" in answer.output


def test_the_shell_completes_names_and_options() -> None:
    def completed(words: str) -> str:
        asked = {"_TACENDA_COMPLETE": "complete_bash", "COMP_WORDS": words}
        asked["COMP_CWORD"] = str(len(words.split(" ")) - 1)
        return CliRunner().invoke(app, [], prog_name="tacenda", env=asked).output

    assert completed("tacenda co").split() == [
        name for name in ORDER.split() if name.startswith("co")
    ]
    assert "--epsilon" in completed("tacenda fit --ep")
    assert "verify-archive" in completed("tacenda node verify")
