"""`tacenda contract`: what all members sign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.errors import InputError
from tacenda_node.commands.options import ContractFile, Folder, SchemaFile, contract_app


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
    held_out: Annotated[
        float | None,
        typer.Option(
            help="Share of every member's records for the closing evaluation; by default the "
            "terms', or 0.2; 0 is no evaluation."
        ),
    ] = None,
) -> None:
    """Draft a contract from the terms, the schema and the members' cards.

    Example: tacenda contract new --terms terms.toml --schema schema.toml --card a.card
    --card b.card
    """
    from tacenda.data.schema import Schema
    from tacenda_node.identity import contract_files
    from tacenda_node.setup import drafting
    from tacenda_node.setup.meaning import warnings_before

    if contract.exists():
        raise InputError(
            f"{contract} exists; remove it first, or write to another file with --contract."
        )
    members = [drafting.read_card(card) for card in cards]
    said = drafting.usual_evaluation(drafting.read_terms(terms), held_out)
    drafted = drafting.draft(members, said, Schema.read(schema), graph)
    contract_files.write(drafted.contract, contract)
    if drafted.chosen is not None:
        typer.echo(drafted.chosen.explain())
    for sentence in [*warnings_before(drafted.plan), *(f"{said}." for said in drafted.words)]:
        typer.echo(f"Warning: {sentence}")
    typer.echo(
        f"Drafted {contract}, hash {drafted.contract.hash()}. Each member checks and signs it: "
        "tacenda contract sign."
    )


@contract_app.command(
    "check", short_help="Check whether it is complete, who signed, and what it costs."
)
def contract_check(
    contract: ContractFile = Path("contract.toml"),
    other: Annotated[Path | None, typer.Option(help="Another contract, to compare with.")] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", "-s", help="The schema; schema.toml beside the contract if any."),
    ] = None,
) -> None:
    """Check whether all parts go together, who has signed, and what the run will cost; with
    --other, show where two contracts differ.

    Example: tacenda contract check --contract contract.toml --other theirs.toml
    """
    from tacenda_node.identity import contract_files
    from tacenda_node.identity.contract import differing_fields
    from tacenda_node.peer.member_records import checked_schema
    from tacenda_node.peer.run_plan import make_plan
    from tacenda_node.setup.meaning import meaning

    mine = contract_files.read(contract)
    if other is not None:
        fields = differing_fields(mine.field_hashes(), contract_files.read(other).field_hashes())
        typer.echo(
            "The contracts are the same." if not fields else f"They differ in: {', '.join(fields)}"
        )
        raise typer.Exit(1 if fields else 0)
    beside = contract.parent / "schema.toml"
    if schema is not None or beside.exists():
        checked_schema(mine, schema or beside)
    plan = make_plan(mine)
    for label, text in meaning(plan):
        typer.echo(f"{label:9} {text}")
    if mine.amendment is not None:
        typer.echo(
            f"amendment {mine.amendment}, follows the text with hash {str(mine.follows)[:16]}; "
            f"left: {', '.join(mine.left or ()) or 'nobody'}"
        )
    missing = contract_files.missing_signatures(contract)
    typer.echo("signed    by all" if not missing else f"signed    not yet by {', '.join(missing)}")
    raise typer.Exit(1 if missing else 0)


@contract_app.command("sign")
def contract_sign(
    contract: ContractFile = Path("contract.toml"), identity: Folder = Path("identity")
) -> None:
    """Sign the contract with this member's key.

    Example: tacenda contract sign --contract contract.toml --identity east/identity
    """
    from tacenda_node.identity import contract_files
    from tacenda_node.identity.certificates import Identity

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
    title: Annotated[
        str | None, typer.Option(help="The next run's title: the same members, and those of --add.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --title: where the new contract goes.")
    ] = None,
) -> None:
    """Write the next amendment beside the contract (--replace, --remove), or the contract of the
    next run (--title, --add). All members who have not left then sign it.

    Example: tacenda contract amend --contract contract.toml --replace east-new.card --remove west
    """
    from tacenda_node.identity import contract_files
    from tacenda_node.membership import amendments
    from tacenda_node.membership.decisions import check_remaining
    from tacenda_node.peer.run_plan import make_plan
    from tacenda_node.setup import drafting

    later = bool(add) or title is not None
    if later == bool(replace or remove):
        raise InputError(
            "Give --replace or --remove for an amendment of the run, or --title and --out (with "
            "--add for new members) for the contract of the next run, and not both."
        )
    base = contract_files.read(contract)
    mine, number = base, 0
    while amendments.amendment_path(contract, number + 1).exists():
        number += 1
        text = contract_files.read(amendments.amendment_path(contract, number))
        amendments.check_amendment(mine, text)
        mine = text
    if later:
        if title is None or out is None:
            raise InputError("The next run needs --title and --out: it has a contract of its own.")
        if out.exists():
            raise InputError(f"{out} exists; remove it first, or write to another file with --out.")
        cards = [drafting.read_card(path) for path in add or ()]
        made = amendments.next_run(mine, title, cards, joined_to or [])
        make_plan(made)
    else:
        cards = [drafting.read_card(path) for path in replace or []]
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
