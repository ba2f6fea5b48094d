"""The commands `consortium`, `certs`, `contract`, `node`, `doctor` and `relay`; thin: every one of
them calls a function of this package. One file for each group of commands."""

from __future__ import annotations

import sys
from typing import Any

import typer

from tacenda.errors import TacendaError
from tacenda.node.commands import certs, consortium, contracts, life, relaying, running, watching
from tacenda.node.commands.options import certs_app, consortium_app, contract_app, node_app
from tacenda.node.commands.relaying import relay
from tacenda.node.commands.running import doctor

__all__ = [
    "certs",
    "certs_app",
    "consortium",
    "consortium_app",
    "contract_app",
    "contracts",
    "doctor",
    "life",
    "main",
    "node_app",
    "relay",
    "relaying",
    "running",
    "watching",
]


def main(arguments: list[str] | None = None) -> Any:
    """All commands of this package; errors as one sentence, exit code 2."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
    app.add_typer(certs_app, name="certs")
    app.add_typer(consortium_app, name="consortium")
    app.add_typer(contract_app, name="contract")
    app.add_typer(node_app, name="node")
    app.command("doctor")(doctor)
    app.command("relay")(relay)
    try:
        app(arguments)
    except TacendaError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2)
