"""The life of a member beyond one run: `tacenda node approve`, `queue`, `serve`, `backup`,
`restore`, `drill`, `archive`, `verify-archive` and `delete`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacenda.errors import InputError
from tacenda.words import counted
from tacenda_node.commands.options import MemberFolder, node_app
from tacenda_node.wire.proxy import read_secret

if TYPE_CHECKING:
    from tacenda_node.operate.settings import NodeSettings

queue_app = typer.Typer(
    help="Several runs of this member, one after another, under one budget.", no_args_is_help=True
)
node_app.add_typer(queue_app, name="queue", short_help="Runs that wait for their turn.")
Json = Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")]
Home = Annotated[
    Path | None,
    typer.Option("--folder", "-f", help="The member's folder; by default the current one."),
]
ContractOfQueue = Annotated[
    Path | None,
    typer.Option("--contract", "-c", help="A contract of the queue; by default the folder's."),
]
Passphrase = Annotated[
    Path | None,
    typer.Option("--passphrase-file", help="File with the passphrase, one line, mode 0600."),
]


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

    from tacenda_node.identity import contract_files
    from tacenda_node.identity.certificates import Identity
    from tacenda_node.operate.policy import PolicyFile, approve
    from tacenda_node.operate.settings import read_settings

    settings = read_settings(folder)
    if settings.policy is None:
        raise InputError(f"{folder} has no policy.toml, so nothing needs an approval.")
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


@queue_app.command("add", short_help="Put a contract or a folder at the end.")
def queue_add(
    what: Annotated[
        Path, typer.Argument(help="A contract (TOML), or a folder with a node.toml of its own.")
    ],
    folder: Home = None,
    as_json: Json = False,
) -> None:
    """Put a run into the queue: a contract that is run with this folder's settings, or another
    folder of the same member with the same ledger. One that was refused or stopped waits again.

    Example: tacenda node queue add spring.toml --folder north
    """
    from dataclasses import asdict

    from tacenda_node.identity import contract_files
    from tacenda_node.operate.queue import Queue, not_allowed

    queue = Queue(folder)
    entry = queue.add(what)
    settings = queue.settings(Path(entry.what))
    why = not_allowed(settings, contract_files.read(settings.contract))
    if as_json:
        typer.echo(json.dumps({**asdict(entry), "reason": why}))
        return
    typer.echo(f"{entry.number} {entry.title!r}: in the queue.")
    if why:
        typer.echo(f"It waits: {why}")


@queue_app.command("list", short_help="All runs and their outcomes.")
def queue_list(
    place: Annotated[Path | None, typer.Argument(help="The same folder, as a word.")] = None,
    folder: Home = None,
    as_json: Json = False,
) -> None:
    """List all runs of the queue in their order, with state, round and reason.

    Example: tacenda node queue list north
    """
    from tacenda_node.operate.queue import Queue

    if place is not None and folder is not None and place.resolve() != folder.resolve():
        raise InputError(f"FOLDER is {place} and --folder is {folder}; give one of the two.")
    listed = Queue(place or folder).listing()
    if as_json:
        typer.echo(json.dumps({"entries": listed}))
        return
    for one in listed:
        at = f", round {one['round']} of {one['rounds']}" if "round" in one else ""
        typer.echo(f"{one['number']} {one['title']!r}: {one['state']}{at}  {one['what']}")
        if one["reason"]:
            typer.echo(f"  {one['reason']}")
    if not listed:
        typer.echo("The queue is empty.")


@queue_app.command("remove", short_help="Take a run out of the queue.")
def queue_remove(
    number: Annotated[int, typer.Argument(help="Its number in `queue list`.")],
    folder: Home = None,
    as_json: Json = False,
) -> None:
    """Take a run out of the queue; its state folder stays, and so does what it has reserved.

    Example: tacenda node queue remove 2 --folder north
    """
    from dataclasses import asdict

    from tacenda_node.operate.queue import Queue

    entry = Queue(folder).remove(number)
    typer.echo(
        json.dumps(asdict(entry))
        if as_json
        else f"{entry.number} {entry.title!r} is out of the queue. If it had begun, its run stays "
        "reserved in the ledger: `tacenda node delete --force-spent` gives it up."
    )


@node_app.command("serve", short_help="Work through the queue, until Ctrl-C.")
def node_serve(
    folder: MemberFolder = None,
    at_once: Annotated[
        int, typer.Option(min=1, help="How many runs side by side, as separate processes.")
    ] = 1,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="End when every run is over.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the contracts of the queue that this member has signed and its officer allows, each as a
    process of its own. Stopped or killed, it continues with the same runs when it is started again.

    Example: tacenda node serve north --at-once 2
    """
    from tacenda_node.operate.queue import Queue, Server

    queue = Queue(folder)

    def say(text: str) -> None:
        typer.echo(json.dumps({"event": text}) if as_json else text)

    Server(queue, at_once, say).run(until_empty)
    entries = queue.entries()
    if as_json:
        typer.echo(json.dumps({"entries": queue.listing()}))
    if until_empty:
        raise typer.Exit(0 if all(one.state == "done" for one in entries) else 1)
    raise typer.Exit(130)


@node_app.command("backup", short_help="Keys, contract, settings and ledger, encrypted.")
def node_backup(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    folder: MemberFolder = None,
    passphrase_file: Passphrase = None,
    as_json: Json = False,
) -> None:
    """Write identity, contract, settings, policy and ledger into one encrypted file. No state of a
    run and no records are in it. Nodes may run meanwhile.

    Example: tacenda node backup north -o north.backup --passphrase-file passphrase
    """
    from tacenda_node.operate.backup import back_up

    report = back_up(folder, output, _passphrase(passphrase_file))
    if as_json:
        typer.echo(json.dumps(vars(report)))
        return
    typer.echo(
        f"{output}: {counted(len(report.files), 'file')} of {report.member} and its ledger with "
        f"{counted(report.ledger_rows, 'row')}, encrypted."
    )
    for run in report.open_runs:
        typer.echo(f"Run {run} is open: after a restore of the ledger it counts as spent in full.")
    for path in report.outside:
        typer.echo(f"Not included, because it is outside the folder: {path}")


@node_app.command("restore", short_help="Put a backup back; spends nothing twice.")
def node_restore(
    backup: Annotated[Path, typer.Argument(help="The file that `node backup` wrote.")],
    folder: Annotated[Path, typer.Option("--folder", "-f", help="The member's folder.")] = Path(
        "."
    ),
    passphrase_file: Passphrase = None,
    begun: Annotated[
        list[Path] | None,
        typer.Option(help="A contract whose run began after the backup; may be repeated."),
    ] = None,
    nothing_begun: Annotated[
        bool, typer.Option("--nothing-begun", help="Confirm that no run began after the backup.")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option(help="The ledger's name of the records of --begun.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Put a member's files back, and the ledger where it is missing or older: then every run that
    was open at the backup, and every one that began later, counts as spent in full.

    Example: tacenda node restore north.backup -f north --passphrase-file passphrase --nothing-begun
    """
    from tacenda_node.operate.backup import restore

    report = restore(
        backup,
        folder,
        _passphrase(passphrase_file),
        begun=begun or (),
        nothing_begun=nothing_begun,
        dataset=dataset,
    )
    if as_json:
        typer.echo(json.dumps(vars(report)))
        return
    typer.echo(f"{folder}: {counted(len(report.files), 'file')} of {report.member}, {report.at}.")
    for note in report.notes:
        typer.echo(note)


@node_app.command("drill", short_help="Rehearse losses on copies: key, disk, ledger, operator.")
def node_drill(
    folder: Annotated[Path, typer.Argument(help="The member's folder with its node.toml.")] = Path(
        "."
    ),
    only: Annotated[
        list[str] | None, typer.Option(help="One of key, disk, ledger, operator; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Rehearse the loss of a key, a disk, a ledger and an operator on copies of this member's
    files. The real ones are only read. The exit code is 1 if a drill fails.

    Example: tacenda node drill north
    """
    import tempfile

    from tacenda.checks import one_of
    from tacenda_node.operate.drill import KINDS, drill

    kinds = tuple(one_of("--only", kind, KINDS) for kind in only or KINDS)
    with tempfile.TemporaryDirectory() as place:
        found = drill(folder, Path(place), kinds)
    if as_json:
        typer.echo(json.dumps({"drills": [{**vars(one), "ok": one.ok} for one in found]}))
    for one in () if as_json else found:
        typer.echo(f"{one.kind}: {'ok' if one.ok else 'FAILED'}, {one.seconds:.1f} s")
        marks = (("did", one.did), ("to do", one.to_do), ("open", one.open))
        for mark, lines in (*marks, ("failed", [one.failed] if one.failed else [])):
            for line in lines:
                typer.echo(f"  {mark}: {line}")
    if not all(one.ok for one in found):
        raise typer.Exit(1)


@node_app.command("archive", short_help="Keep what must be kept of a run.")
def node_archive(
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.")],
    folder: MemberFolder = None,
    contract: ContractOfQueue = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Archive a run even if it has no result.")
    ] = False,
) -> None:
    """Archive contract, signatures, amendments, policy and approvals, the ledger's rows of the run,
    statement, model, log and versions, with a signed list of hashes. No key and no record.

    Example: tacenda node archive north -o archive-2026
    """
    from tacenda_node.operate.archive import archive, verify_archive

    archive(_settings(folder, contract), output, unfinished=unfinished)
    found = verify_archive(output)
    typer.echo(
        f"{output}: {counted(found.files, 'file')}. `tacenda node verify-archive {output}` checks "
        "them at any time."
    )


@node_app.command("verify-archive", short_help="Check that an archive is complete and unchanged.")
def node_verify_archive(
    folder: Annotated[Path, typer.Argument(help="The archive's folder.")], as_json: Json = False
) -> None:
    """Check that every file is as it was archived, that the member signed the list, that statement
    and ledger rows agree; the exit code is 4 if not.

    Example: tacenda node verify-archive archive-2026
    """
    from tacenda_node.operate.archive import verify_archive

    found = verify_archive(folder)
    if as_json:
        typer.echo(json.dumps(vars(found)))
        return
    cost = "" if found.epsilon is None else f"; the run has cost epsilon {found.epsilon:.4g}"
    typer.echo(
        f"In order: {counted(found.files, 'file')} of {found.title!r}, archived by {found.member} "
        f"at {found.archived_at}{cost}."
    )
    for note in found.notes:
        typer.echo(f"Note: {note}.")


@node_app.command("delete", short_help="Remove keys and checkpoints of a run that is over.")
def node_delete(
    folder: MemberFolder = None,
    contract: ContractOfQueue = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force_spent: Annotated[
        bool,
        typer.Option(
            "--force-spent", help="Give up an unfinished run: its whole price counts as spent."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove keys, checkpoint, outbox and caches of a run. The ledger, the model
    and what was agreed stay.

    Example: tacenda node delete north
    """
    from tacenda_node.operate.archive import delete, described, plan_deletion

    settings = _settings(folder, contract)
    plan = plan_deletion(settings, force_spent=force_spent)
    if not as_json:
        typer.echo("\n".join(described(plan)))
    if not yes:
        typer.confirm("Delete?", abort=True, err=as_json)
    delete(settings, plan)
    if as_json:
        typer.echo(json.dumps(vars(plan)))


def _settings(folder: Path | None, contract: Path | None) -> NodeSettings:
    from tacenda_node.operate.queue import Queue
    from tacenda_node.operate.settings import read_settings

    return read_settings(folder) if contract is None else Queue(folder).settings(contract)


def _passphrase(path: Path | None) -> str:

    if path is None:
        raise InputError(
            "--passphrase-file is needed, because a backup holds the member's keys and is only "
            "kept encrypted: write a long passphrase into a file of mode 0600, kept elsewhere."
        )
    return read_secret(path, "--passphrase-file")
