"""`tacenda contract`: what all members sign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.errors import InputError
from tacenda.node.commands.options import ContractFile, Folder, SchemaFile, contract_app


@contract_app.command("new")
def contract_new(
    terms: Annotated[
        Path,
        typer.Option(
            help="TOML file with the run's terms: title, rounds, problem, algorithm, privacy."
        ),
    ],
    cards: Annotated[
        list[Path], typer.Option("--card", help="A member's card; give one per member, in order.")
    ],
    schema: SchemaFile,
    contract: ContractFile = Path("contract.toml"),
    graph: Annotated[
        str | None,
        typer.Option(help="ring, path, star or complete; by default the terms', or a ring."),
    ] = None,
) -> None:
    """Draft a contract from the terms, the schema and the members' cards."""
    from tacenda.data.schema import Schema
    from tacenda.node import drafting
    from tacenda.node.identity import contract_files

    if contract.exists():
        raise InputError(
            f"{contract} exists; remove it first, or write to another file with --contract."
        )
    members = [drafting.read_card(card) for card in cards]
    drafted = drafting.draft(members, drafting.read_terms(terms), Schema.read(schema), graph)
    contract_files.write(drafted.contract, contract)
    if drafted.chosen is not None:
        typer.echo(drafted.chosen.explain())
    typer.echo(
        f"Drafted {contract}, hash {drafted.contract.hash()}. Each member checks and signs it: "
        "tacenda contract sign."
    )


@contract_app.command("check", short_help="Whether it is whole, who signed, what it costs.")
def contract_check(
    contract: ContractFile = Path("contract.toml"),
    other: Annotated[Path | None, typer.Option()] = None,
) -> None:
    """Whether all parts go together, who has signed, what the run will cost; with --other, where
    two contracts differ."""
    from tacenda.node.identity import contract_files
    from tacenda.node.identity.contract import differing_fields
    from tacenda.node.meaning import meaning
    from tacenda.node.run_plan import make_plan

    mine = contract_files.read(contract)
    if other is not None:
        fields = differing_fields(mine.field_hashes(), contract_files.read(other).field_hashes())
        typer.echo(
            "The contracts are the same." if not fields else f"They differ in: {', '.join(fields)}"
        )
        raise typer.Exit(1 if fields else 0)
    plan = make_plan(mine)
    for label, text in meaning(plan):
        typer.echo(f"{label:9} {text}")
    missing = contract_files.missing_signatures(contract)
    typer.echo("signed    by all" if not missing else f"signed    not yet by {', '.join(missing)}")
    raise typer.Exit(1 if missing else 0)


@contract_app.command("sign")
def contract_sign(
    contract: ContractFile = Path("contract.toml"), identity: Folder = Path("identity")
) -> None:
    """Sign the contract with this member's key."""
    from tacenda.node.identity import contract_files
    from tacenda.node.identity.certificates import Identity

    typer.echo(f"Signed: {contract_files.sign(contract, Identity.read(identity))}")
