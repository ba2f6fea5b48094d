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


@contract_app.command("amend", short_help="A change of the contract while its run goes on.")
def contract_amend(
    contract: ContractFile = Path("contract.toml"),
    replace: Annotated[
        list[Path] | None,
        typer.Option(help="A member's new card: renewed certificate, new TLS key, new address."),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="A member that leaves the run for good.")
    ] = None,
    add: Annotated[
        list[Path] | None,
        typer.Option(
            help="The card of a new member; it joins the next run, whose contract is made."
        ),
    ] = None,
    joined_to: Annotated[
        list[str] | None, typer.Option(help="With --add: a neighbour of the new member.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="With --add: the next run's title.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --add: where the new contract goes.")
    ] = None,
) -> None:
    """Write the next amendment beside the contract (--replace, --remove), or the contract of the
    next run (--add). All members who have not left then sign it."""
    from tacenda.node.identity import contract_files
    from tacenda.node.membership import amendments
    from tacenda.node.membership.agreement import check_remaining
    from tacenda.node.run_plan import make_plan

    if bool(add) == bool(replace or remove):
        raise InputError(
            "Give --replace or --remove for an amendment of the run, or --add for the contract of "
            "the next run, and not both."
        )
    base = contract_files.read(contract)
    mine, number = base, 0
    while amendments.amendment_path(contract, number + 1).exists():
        number += 1
        text = contract_files.read(amendments.amendment_path(contract, number))
        amendments.check_amendment(mine, text)
        mine = text
    if add:
        if title is None or out is None:
            raise InputError(
                "--add needs --title and --out: the next run has a contract of its own."
            )
        if out.exists():
            raise InputError(f"{out} exists; remove it first, or write to another file with --out.")
        cards = [contract_files.read_card(path) for path in add]
        made = amendments.next_run(mine, title, cards, joined_to or [])
        make_plan(made)
    else:
        cards = [contract_files.read_card(path) for path in replace or []]
        made = amendments.amended(mine, cards, remove or [])
        if made.left:
            gone = frozenset(made.left)
            check_remaining(make_plan(base), made.signatories[0], gone, gone)
        out = amendments.amendment_path(contract, number + 1)
    contract_files.write(made, out)
    typer.echo(
        f"Wrote {out}, hash {made.hash()}. {', '.join(made.signatories)} each put it beside their "
        f"contract, read it and sign it: tacenda contract sign --contract {out}"
    )
