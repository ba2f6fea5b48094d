"""The commands of a peer and of its operator; thin: every one of them calls a function of this
package. One file for each group of commands (`tacenda_node.command_table` lists them)."""

from __future__ import annotations

import sys
from typing import Any

import typer

from tacenda.cli.group import add
from tacenda.errors import TacendaError
from tacenda_node.command_table import COMMANDS


def main(arguments: list[str] | None = None) -> Any:
    """All commands of this package; errors as one sentence, exit code 2."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
    for command in COMMANDS:
        add(app, command)
    try:
        app(arguments)
    except TacendaError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2)
