"""The groups of commands, and the options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

certs_app = typer.Typer(
    help="Keys and certificates: made on site, checked by all.", no_args_is_help=True
)
contract_app = typer.Typer(help="The contract that all members sign.", no_args_is_help=True)
consortium_app = typer.Typer(
    help="Set up a federation: invite, join, agree, in two exchanges of files.",
    no_args_is_help=True,
)
node_app = typer.Typer(help="Take part in a run over the network.", no_args_is_help=True)

Folder = Annotated[
    Path, typer.Option("--identity", "-i", help="Folder of this member's keys and certificate.")
]
ContractFile = Annotated[Path, typer.Option("--contract", "-c", help="The contract (TOML).")]
SchemaFile = Annotated[
    Path, typer.Option("--schema", "-s", help="The schema of the records (TOML).")
]
MemberFolder = Annotated[
    Path | None,
    typer.Argument(help="The member's folder with its node.toml; by default the current one."),
]
