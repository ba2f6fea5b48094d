"""`tacenda contract`: what all members sign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.errors import InputError
from tacenda.node.commands.options import ContractFile, Folder, SchemaFile, contract_app
from tacenda.words import against, counted


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
        str, typer.Option(help="ring, path, star or complete; or `edges` in the terms.")
    ] = "ring",
) -> None:
    """Draft a contract from the terms, the schema and the members' cards."""
    import tomllib

    from tacenda.data.schema import Schema
    from tacenda.node.identity import contract_files

    if contract.exists():
        raise InputError(
            f"{contract} exists; remove it first, or write to another file with --contract."
        )
    values = tomllib.loads(terms.read_text("utf-8"))
    found = Schema.read(schema)
    problem = {
        "n_features": len(found.feature_names),
        "data_norm": found.row_norm,
        **values.get("problem", {}),
    }
    if found.label.classes is not None:
        problem.setdefault("classes", list(found.label.classes))
    edges = values.pop("edges", None)
    full = contract_files.draft(
        list(cards), {**values, "problem": problem, "schema_hash": found.hash()}, edges, graph
    )
    contract_files.write(full, contract)
    typer.echo(
        f"Drafted {contract}, hash {full.hash()}. Each member checks and signs it: "
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
    from tacenda.node.run_plan import make_plan

    mine = contract_files.read(contract)
    if other is not None:
        fields = differing_fields(mine.field_hashes(), contract_files.read(other).field_hashes())
        typer.echo(
            "The contracts are the same." if not fields else f"They differ in: {', '.join(fields)}"
        )
        raise typer.Exit(1 if fields else 0)
    plan = make_plan(mine)
    noise = (
        "exact discrete Gaussian on whole numbers"
        if plan.on_lattice
        else "floating point, accepted by name"
    )
    pooled = None
    if plan.spec.algorithm.shared_noise is not None:
        noise += (
            ", under masks that cancel in the sum"
            if plan.spec.algorithm.masks
            else ", shared by neighbours"
        )
        pooled = plan.coalition
    if mine.rehearsal_seed is not None:
        noise = "SEEDED: for a rehearsal only"
    typer.echo(
        f"hash      {mine.hash()}\nmembers   {', '.join(mine.names)}\n"
        f"algorithm {plan.spec.algorithm.title}, {counted(mine.rounds, 'round')}"
    )
    typer.echo(
        f"noise     {noise}\n"
        f"privacy   epsilon {mine.privacy.epsilon:g}, delta {mine.privacy.delta:g}, "
        f"{mine.privacy.adjacency}\n"
        f"against   {against(pooled)}"
    )
    for sentence in plan.spec.cut_advice():
        typer.echo(f"mind      {sentence}")
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
