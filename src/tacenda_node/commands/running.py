"""`tacenda node run`, `tacenda node rehearse` and `tacenda doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacenda._compiled import keep_compiled
from tacenda.errors import InputError
from tacenda.formats.text import readable_json
from tacenda.words import against, counted
from tacenda_node.commands.options import ContractFile, MemberFolder, SchemaFile, node_app
from tacenda_node.wire.tls_log import VERBOSITY

if TYPE_CHECKING:
    from tacenda_node.operate.settings import NodeSettings


@node_app.command("run", short_help="Take part until the last round; goes on if restarted.")
def node_run(
    folder: MemberFolder = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", "-s", help="The schema of the records (TOML).")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="This member's records (CSV, Parquet, ...).")
    ] = None,
    contract: Annotated[
        Path | None,
        typer.Option("--contract", "-c", help="The contract; by default contract.toml."),
    ] = None,
    identity: Annotated[
        Path | None,
        typer.Option(
            "--identity",
            "-i",
            help="Folder of this member's keys and certificate; by default identity.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run's state (state); keep it, a restart continues from it."
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="The lasting ledger; by default this member's own in the user's data folder."
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="The data's name in the ledger; its budget covers all runs.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Epsilon that all runs on these records together may lose; kept in the ledger."
        ),
    ] = None,
    no_budget: Annotated[
        bool, typer.Option("--no-budget", help="Run although these records have no budget.")
    ] = False,
    bind: Annotated[
        str | None,
        typer.Option(help="Address to listen on, host:port; relay://host:port waits at a relay."),
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="name=host:port, where a neighbour is reached instead.")
    ] = None,
    proxy: Annotated[
        str | None, typer.Option(help="HTTP proxy for all calls out, http://host:port.")
    ] = None,
    proxy_login: Annotated[
        Path | None, typer.Option(help="File with user:password for the proxy, mode 0600.")
    ] = None,
    relay_token: Annotated[
        Path | None, typer.Option(help="File with the token of the relays, mode 0600.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="What this member's officer allows; by default FOLDER/policy.toml."),
    ] = None,
    metrics_address: Annotated[
        str | None,
        typer.Option(
            "--metrics-address",
            "--metrics-port",
            help="Health and metrics: a port of 127.0.0.1, or host:port, which shows the members' "
            "names, rounds, traffic and spending to anybody who can reach it.",
        ),
    ] = None,
    dashboard: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="A page to watch the node, on this port of 127.0.0.1; 0: any."
        ),
    ] = None,
    share_budget: Annotated[
        bool, typer.Option(help="Tell all members what is left of the budget.")
    ] = False,
    rehearsal: Annotated[
        bool,
        typer.Option(
            help=(
                "Never with others: seeded noise is allowed, the ledger is in the state folder, "
                "no budget is needed."
            )
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option(help="No progress on the terminal.")] = False,
) -> None:
    """Take part in the run until its last round; started again, it continues where it stopped.

    FOLDER holds this member's node.toml; flags override it.

    Example: tacenda node run north --dashboard 8080
    """
    import gc
    import os

    gc.disable()  # of what is loaded now nothing is garbage; `run_node` turns it on again
    os.environ.setdefault(VERBOSITY, "INFO")
    from tacenda_node.operate.settings import read_settings

    settings = read_settings(
        folder,
        schema=schema,
        data=data,
        contract=contract,
        identity=identity,
        state=state,
        ledger=ledger,
        dataset=dataset,
        budget=budget,
        no_budget=no_budget or None,
        bind=bind,
        addresses=_addresses(peer) or None,
        proxy=proxy,
        proxy_login=proxy_login,
        relay_token=relay_token,
        policy=policy,
        metrics_address=metrics_address,
        dashboard=dashboard,
        share_budget=share_budget or None,
        rehearsal=rehearsal,
        quiet=quiet,
        watch_tls=True,
    )
    keep_compiled(settings.state)  # before numba is imported
    from tacenda_node.peer.run import run_node
    from tacenda_node.peer.watchdog import LeftRun, Stopped

    try:
        result = run_node(settings)
    except Stopped as stopped:
        typer.echo(str(stopped), err=True)
        # Who has left the run is done: no supervisor is to start it again
        raise typer.Exit(0 if isinstance(stopped, LeftRun) else 130) from None
    spent = (
        ""
        if result.privacy is None
        else f"; spent epsilon {result.privacy.epsilon:.4g} at delta {result.privacy.delta:g}"
    )
    if result.privacy is not None:
        spent += f", against {against(result.privacy.curve().coalition)}"
    typer.echo(
        f"Done: {counted(result.rounds, 'round')}{spent}. "
        f"The model is in {settings.state / 'results'}."
    )
    for sentence in result.warnings:
        typer.echo(f"Warning: {sentence}", err=True)
    from tacenda_node.watch.observer import EVALUATION_FILE

    path = settings.state / EVALUATION_FILE
    if path.is_file():
        import json

        from tacenda.evaluation.private import PrivateEvaluation

        typer.echo(PrivateEvaluation.from_plain(json.loads(path.read_text("utf-8"))).text)


@node_app.command("rehearse", short_help="The whole federation on this machine, as processes.")
def node_rehearse(
    schema: SchemaFile,
    folder: Annotated[Path, typer.Option("--folder", "-f", help="A new folder for the rehearsal.")],
    contract: ContractFile = Path("contract.toml"),
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with <member>.csv; made-up records for members without one."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seeded noise, comparable with a simulation.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Stop after this many seconds.")] = 600.0,
    namespaces: Annotated[
        bool, typer.Option(help="Every member in a network namespace of its own (Linux, root).")
    ] = False,
    delay_ms: Annotated[
        float, typer.Option(help="Delay of every message from one member to another.")
    ] = 0.0,
) -> None:
    """Rehearse the whole federation as processes on this machine, with real TLS and durable writes.

    Example: tacenda node rehearse --contract contract.toml --schema schema.toml --folder trial
    """
    from tacenda_node.identity import contract_files
    from tacenda_node.setup.rehearse import rehearse, summary

    drafted = contract_files.read(contract)
    found = {
        n: data / f"{n}.csv"
        for n in drafted.names
        if data is not None and (data / f"{n}.csv").exists()
    }
    rehearsed = summary(
        rehearse(
            drafted,
            schema,
            folder,
            data=found,
            seed=seed,
            seconds=seconds,
            namespaces=namespaces,
            delay_ms=delay_ms,
        )
    )
    worst = max(rehearsed["epsilon"].values())
    typer.echo(
        f"{rehearsed['members']} members, {counted(rehearsed['rounds'], 'round')} in "
        f"{rehearsed['seconds']:.1f} s, epsilon at most {worst:.4g}."
    )
    if "evaluation" in rehearsed:
        typer.echo(f"The evaluation gave {', '.join(rehearsed['evaluation'])}.")


@node_app.command("check", short_help="Try your data and settings before anything is signed.")
def node_check(
    folder: Annotated[Path, typer.Argument(help="The member's folder with its node.toml.")] = Path(
        "."
    ),
    rehearsal: Annotated[
        bool, typer.Option(help="Also rehearse with simulated neighbours, as real processes.")
    ] = True,
    own_records: Annotated[
        bool, typer.Option(help="Rehearse with your own records, here only, not with made-up ones.")
    ] = False,
    rounds: Annotated[int, typer.Option(help="Rounds of the rehearsal.", min=1)] = 3,
    seconds: Annotated[float, typer.Option(help="Stop the rehearsal after this time.")] = 300.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Machine-readable output (errors too).")
    ] = False,
) -> None:
    """Try this member's own data with the schema, say what the run would cost, and rehearse with
    simulated neighbours. Nothing is signed, charged or sent.

    What it says about the records is read without noise: it is for this member alone.

    Example: tacenda node check north
    """
    from tacenda_node.operate.settings import read_settings
    from tacenda_node.setup.checking import check
    from tacenda_node.setup.doctor import as_text

    findings = check(
        folder,
        read_settings(folder),
        rehearsal=rehearsal,
        own_records=own_records,
        rounds=rounds,
        seconds=seconds,
    )
    good = all(finding.ok for finding in findings)
    if as_json:
        from dataclasses import asdict

        typer.echo(readable_json({"ok": good, "findings": [asdict(f) for f in findings]}))
    else:
        typer.echo(as_text(findings), nl=False)
    raise typer.Exit(0 if good else 1)


def doctor(
    folder: MemberFolder = None,
    contract: Annotated[
        Path | None, typer.Option("--contract", "-c", help="The contract (contract.toml).")
    ] = None,
    identity: Annotated[
        Path | None, typer.Option("--identity", "-i", help="Keys and certificate (identity).")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", "-s", help="The schema of the records.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Folder of the run's state (state).")] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The lasting ledger; by default this member's own.")
    ] = None,
) -> None:
    """Check clock, ports, certificate, contract, schema, disk, versions, ledger and peers, and say
    how to fix what is wrong.

    FOLDER holds this member's node.toml; flags override it.

    Example: tacenda doctor north
    """
    from tacenda_node.operate.settings import read_settings, settings_file
    from tacenda_node.setup.doctor import as_text, examine

    found: NodeSettings | None = None
    if settings_file(folder) is not None:
        found = read_settings(folder)
        contract, identity = contract or found.contract, identity or found.identity
        schema, state, ledger = (
            schema or found.schema,
            state or found.state,
            ledger or found.ledger,
        )
    findings = examine(
        contract or Path("contract.toml"),
        identity or Path("identity"),
        schema,
        state or Path("state"),
        ledger,
        settings=found,
    )
    typer.echo(as_text(findings), nl=False)
    raise typer.Exit(0 if all(f.ok for f in findings) else 1)


def _addresses(peers: list[str] | None) -> dict[str, str]:
    found = {}
    for text in peers or ():
        name, sign, address = text.partition("=")
        if not sign or ":" not in address:
            raise InputError(f"--peer must be name=host:port, not {text!r}.")
        found[name] = address
    return found
