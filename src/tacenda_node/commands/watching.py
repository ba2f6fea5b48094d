"""`tacenda node status` and `tacenda node verify-statement`: a look at a node, during and after a
run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from tacenda.words import against
from tacenda_node.commands.options import ContractFile, node_app
from tacenda_node.watch.status import MemberStatus, NodeStatus, about, day, duration, size

Json = Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")]


@node_app.command("status", short_help="State of a node and of all members: rounds, waits.")
def node_status(
    folder: Annotated[
        Path | None,
        typer.Argument(help="The member's folder with node.toml, or the node's state folder."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh every two seconds, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the state of a node, while it runs and after it has stopped: rounds, neighbours,
    spending, certificates, warnings, why it stopped and what to do; and all members of the run,
    who waits for whom, and who holds up the others.

    The exit code is 0 if the node is in order, and 1 if not.

    Example: tacenda node status hospital-a --watch
    """
    from tacenda_node.watch.status_file import read_status, state_folder

    state = state_folder(folder)
    while True:
        status = read_status(state)
        text = json.dumps(status.to_plain()) if as_json else "\n".join(_lines(status))
        if watch and not as_json:
            typer.echo("\033[2J\033[H", nl=False)
        typer.echo(text)
        if not watch:
            raise typer.Exit(0 if status.in_order else 1)
        time.sleep(2)


def _lines(status: NodeStatus) -> list[str]:
    lines = [f"{status.member} in {status.title!r}: {status.state}; {status.summary}"]
    if status.stopped:
        lines.append(f"stopped      {status.stopped}")
    if status.to_do:
        lines.append(f"to do        {status.to_do}")
    lines += [f"PROBLEM      {sentence}" for sentence in status.problems]
    lines += [f"warning      {sentence}" for sentence in status.warnings]
    if status.run is not None:
        run = status.run
        lines.append(
            f"this run     epsilon {run.epsilon:.4g} of {run.limit:g} spent, delta {run.delta:g}, "
            f"{run.adjacency}, against {run.against}"
        )
    if status.lasting is not None:
        lasting = status.lasting
        limit = "no budget" if lasting.budget is None else f"budget {lasting.budget:g}"
        lines.append(
            f"all runs     epsilon {lasting.epsilon:.4g} spent or reserved for "
            f"{lasting.account!r}, delta {lasting.delta:g}; {limit}"
        )
    lines += _evaluation_lines(status)
    lines.append(
        f"traffic      {size(status.sent_bytes)} sent, {size(status.received_bytes)} received; "
        f"{status.refused_callers} callers refused"
    )
    lines.append(
        f"machine      {size(status.disk_free_bytes)} free; certificate valid until "
        f"{day(status.certificate_expires)}"
    )
    for peer in status.peers:
        lag = f", {peer.lag_rounds} behind" if peer.lag_rounds else ""
        away = f"{peer.since}: {peer.reason}" if peer.away_seconds else ""
        lines.append(
            f"neighbour    {peer.name}: {peer.state}{away}{lag}; {size(peer.sent_bytes)} sent, "
            f"{size(peer.received_bytes)} received"
        )
    lines += [f"federation   {root.words}" for root in status.roots]
    lines += [f"member       {_member(one)}" for one in status.members]
    lines.append(f"as of        {day(status.at)}")
    return lines


def _member(one: MemberStatus) -> str:
    """A member in a line, as its own signs of life tell."""
    parts = [f"{one.name}: {one.state}"]
    if one.heard_seconds is None:
        return parts[0]
    parts[0] += f", round {one.round}"
    if one.waits_for:
        parts.append(f"waits for {', '.join(one.waits_for)} since {duration(one.waits_seconds)}")
    parts.append(f"heard {duration(one.heard_seconds)} ago")
    if one.clock_seconds:
        where = "ahead" if one.clock_seconds > 0 else "behind"
        parts.append(f"its clock is {about(one.clock_seconds)} {where}")
    if one.disk_free_bytes is not None:
        parts.append(f"{size(one.disk_free_bytes)} free")
    if one.epsilon_left is not None:
        parts.append(f"epsilon {one.epsilon_left:g} left of its budget")
    parts.append(f"version {one.version}")
    return "; ".join(parts)


def _evaluation_lines(status: NodeStatus) -> list[str]:
    found = status.evaluation
    if found is None:
        return []
    lines = [
        f"evaluation   {found.state}; epsilon {found.spent:.4g} of {found.epsilon:g} spent of "
        f"{found.records} held-out records in {found.account!r}, delta {found.delta:g}, against "
        f"{found.against}"
    ]
    for one in found.measures:
        ends = f"{one['low']:.4g} to {one['high']:.4g} at {found.confidence:.0%}"
        note = f"; {one['note']}" if one["note"] else ""
        lines.append(f"             {one['name']} {one['value']:.4g} ({ends}{note})")
    return lines


@node_app.command("verify-statement", short_help="Check a member's signed privacy statement.")
def verify(
    statement: Annotated[
        Path, typer.Argument(help="A member's statement.json, or the state folder that holds it.")
    ],
    contract: ContractFile = Path("contract.toml"),
    as_json: Json = False,
) -> None:
    """Check that a member of the contract signed this statement, that it is about this contract,
    and that its epsilon follows from its charges; the exit code is 4 if not.

    Example: tacenda node verify-statement state/statement.json --contract contract.toml
    """
    from tacenda_node.evidence.signed_statement import COVERS, verify_statement
    from tacenda_node.identity import contract_files

    found = verify_statement(statement, contract_files.read(contract))
    privacy = found.statement
    if as_json:
        about = {"member": found.member, "title": found.title, "contract": found.contract}
        shown = {**about, "signed_at": found.signed_at, "privacy": privacy.to_plain()}
        if found.evaluation is not None:
            shown["evaluation"] = found.evaluation.to_plain()
        typer.echo(json.dumps(shown))
        return
    typer.echo(
        f"Signed by {found.member} at {found.signed_at}, for {found.title!r} (contract "
        f"{found.contract[:16]}): epsilon {privacy.epsilon:.4g} at delta {privacy.delta:g}, "
        f"{privacy.adjacency}, against {against(privacy.curve().coalition)}. "
        "The signature holds, and epsilon was composed again from the charges."
    )
    if found.evaluation is not None:
        other = found.evaluation
        typer.echo(
            f"Held-out records: epsilon {other.epsilon:.4g} at delta {other.delta:g}, "
            f"{other.adjacency}, against {against(other.curve().coalition)}; {COVERS}."
        )
