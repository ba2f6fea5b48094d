"""`tacenda node approve`: what an officer decides about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.node.commands.options import node_app


@node_app.command("approve", short_help="The officer's exception from policy.toml.")
def node_approve(
    by: Annotated[str, typer.Option(help="Who approves, in words.")],
    reason: Annotated[str, typer.Option(help="Why, in words; both are kept and signed.")],
    folder: Annotated[Path, typer.Argument(help="The member's folder with its node.toml.")] = Path(
        "."
    ),
    contract: Annotated[
        Path | None, typer.Option("--contract", "-c", help="The contract; by default the folder's.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="Folder of the officer's identity, where the policy names officer_key."),
    ] = None,
) -> None:
    """Allow one contract what the policy forbids: for this very text and these very lines.

    Example: tacenda node approve north --by "A. Example" --reason "board's decision of 3 May"
    """
    from datetime import UTC, datetime

    from tacenda.errors import InputError
    from tacenda.node.identity import contract_files
    from tacenda.node.identity.certificates import Identity
    from tacenda.node.policy import PolicyFile, approve
    from tacenda.node.settings import read_settings

    settings = read_settings(folder)
    if settings.policy is None:
        raise InputError(f"{folder} has no policy.toml, so that nothing needs an approval.")
    policy = PolicyFile.read(settings.policy)
    text = contract_files.read(contract or settings.contract)
    found = policy.forbids(text)
    if settings.no_budget or settings.budget is not None:
        found += policy.forbids_budget(settings.budget)
    for one in found:
        typer.echo(one.sentence(policy.path))
    signer = Identity.read(key or settings.identity)
    path = approve(policy, text, found, by=by, reason=reason, signer=signer, at=datetime.now(UTC))
    typer.echo(f"Approved for the contract {text.hash()[:16]}: {path}")
