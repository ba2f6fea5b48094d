"""The commands `certs`, `contract`, `node` and `doctor`; thin: every one of them calls a function
of this package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.errors import InputError, TacendaError
from tacenda.words import against, counted

certs_app = typer.Typer(
    help="Keys and certificates: made on site, checked by all.", no_args_is_help=True
)
contract_app = typer.Typer(help="The contract that all members sign.", no_args_is_help=True)
node_app = typer.Typer(help="Take part in a run over the network.", no_args_is_help=True)

Folder = Annotated[
    Path, typer.Option("--identity", "-i", help="Folder of this member's keys and certificate.")
]
ContractFile = Annotated[Path, typer.Option("--contract", "-c", help="The contract (TOML).")]
SchemaFile = Annotated[
    Path, typer.Option("--schema", "-s", help="The schema of the records (TOML).")
]


@certs_app.command("init", short_help="Make this member's keys and a certificate request.")
def certs_init(name: str, identity: Folder = Path("identity")) -> None:
    """Make this member's keys, and a certificate request for the member who signs."""
    from tacenda.node.identity import certificates as identities

    path = identities.init(identity, name)
    typer.echo(f"Keys are in {identity} and never leave it. Send {path} to who signs certificates.")


@certs_app.command("request", short_help="Ask for a new certificate, or one for a new key.")
def certs_request(
    name: str,
    identity: Folder = Path("identity"),
    new_key: Annotated[
        bool, typer.Option(help="Rotate: make a new TLS key; the old one is kept beside it.")
    ] = False,
) -> None:
    """A new certificate request, before the old certificate expires or with a new key."""
    from tacenda.node.identity import certificates as identities

    typer.echo(
        f"Send {identities.request(identity, name, new_key=new_key)} to who signs certificates."
    )


@certs_app.command("authority")
def certs_authority(
    name: str, folder: Annotated[Path, typer.Option("--authority", "-a")] = Path("authority")
) -> None:
    """Create an authority that signs the members' requests."""
    from tacenda.node.identity import certificates as identities

    typer.echo(
        f"Authority made: {identities.make_authority(folder, name)}. Its key never leaves {folder}."
    )


@certs_app.command("sign")
def certs_sign(
    request: Path,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the certificate, to be sent back.")
    ],
    authority: Annotated[Path, typer.Option("--authority", "-a")] = Path("authority"),
    days: Annotated[int, typer.Option(help="How long it is valid.")] = 365,
) -> None:
    """Sign a member's request; send the two files in OUT back."""
    from tacenda.node.identity import certificates as identities

    certificate = identities.sign(authority, request, out, days)
    name, mark = identities.name_of(certificate), identities.fingerprint(certificate)
    typer.echo(
        f"Signed for {name}, fingerprint {mark}. Compare it with {name} by telephone before "
        "the contract is signed."
    )


@certs_app.command("show", short_help="Name, dates and fingerprint; the contract's card.")
def certs_show(
    identity: Folder = Path("identity"),
    card: Annotated[
        Path | None, typer.Option(help="Write the public card for the contract here.")
    ] = None,
    address: Annotated[
        str, typer.Option(help="host:port at which others reach this node.")
    ] = "localhost:7443",
    size: Annotated[int, typer.Option(help="The public number of records (replace-one).")] = 0,
    listens: Annotated[bool, typer.Option(help="Whether this node accepts connections.")] = True,
) -> None:
    """Name, dates and fingerprint; with --card also the file that goes into the contract."""
    from tacenda.node.identity import contract_files
    from tacenda.node.identity.certificates import Identity

    mine = Identity.read(identity)
    typer.echo(
        f"name         {mine.name}\nfingerprint  {mine.fingerprint}\n"
        f"signing key  {mine.signing_key}"
    )
    typer.echo(
        f"valid until  {mine.certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC "
        f"({counted(round(mine.days_left()), 'day')} left)"
    )
    if card is not None:
        if size < 1:
            raise InputError(
                "--size must be the public number of records of this member, at least 1."
            )
        typer.echo(
            f"card         {contract_files.write_card(mine, address, size, card, listens=listens)}"
        )


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


@node_app.command("run", short_help="Take part until the last round; goes on if restarted.")
def node_run(
    schema: SchemaFile,
    data: Annotated[
        Path, typer.Option("--data", "-d", help="This member's records (CSV, Parquet, ...).")
    ],
    contract: ContractFile = Path("contract.toml"),
    identity: Folder = Path("identity"),
    state: Annotated[
        Path, typer.Option(help="Folder of the run's state; keep it, a restart continues from it.")
    ] = Path("state"),
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
    bind: Annotated[str | None, typer.Option(help="Address to listen on, host:port.")] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="name=host:port, where a neighbour is reached instead.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Health and metrics on 127.0.0.1.")
    ] = None,
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
    """Take part in the run until its last round; started again, it continues where it stopped."""
    import os

    from tacenda.node.transport.tls_log import VERBOSITY

    os.environ.setdefault(VERBOSITY, "INFO")
    from tacenda.node.run import NodeOptions, Stopped, run_node

    try:
        result = run_node(
            NodeOptions(
                contract,
                schema,
                data,
                identity,
                state,
                ledger,
                bind,
                _addresses(peer),
                metrics_port,
                rehearsal,
                quiet,
                watch_tls=True,
                dataset=dataset,
                budget=budget,
                no_budget=no_budget,
            )
        )
    except Stopped as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(130) from None
    spent = (
        ""
        if result.privacy is None
        else f"; spent epsilon {result.privacy.epsilon:.4g} at delta {result.privacy.delta:g}"
    )
    if result.privacy is not None:
        spent += f", against {against(result.privacy.curve().coalition)}"
    typer.echo(
        f"Done: {counted(result.rounds, 'round')}{spent}. The model is in {state / 'results'}."
    )


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
    seconds: Annotated[float, typer.Option(help="Stop after so many seconds.")] = 600.0,
    namespaces: Annotated[
        bool, typer.Option(help="Every member in a network namespace of its own (Linux, root).")
    ] = False,
    delay_ms: Annotated[
        float, typer.Option(help="With --namespaces: delay of every packet.")
    ] = 0.0,
) -> None:
    """The whole federation as processes on this machine, with real TLS and durable writes."""
    from tacenda.node.identity import contract_files
    from tacenda.node.rehearse import rehearse, summary

    drafted = contract_files.read(contract)
    found = {
        n: data / f"{n}.csv"
        for n in drafted.names
        if data is not None and (data / f"{n}.csv").exists()
    }
    facts = summary(
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
    worst = max(facts["epsilon"].values())
    typer.echo(
        f"{facts['members']} members, {counted(facts['rounds'], 'round')} in "
        f"{facts['seconds']:.1f} s, epsilon at most {worst:.4g}."
    )


def doctor(
    contract: ContractFile = Path("contract.toml"),
    identity: Folder = Path("identity"),
    schema: Annotated[Path | None, typer.Option("--schema", "-s")] = None,
    state: Annotated[Path, typer.Option()] = Path("state"),
    ledger: Annotated[
        Path | None, typer.Option(help="The lasting ledger; by default this member's own.")
    ] = None,
) -> None:
    """Check clock, ports, certificate, contract, schema, disk, versions, ledger and peers; each
    with the fix."""
    from tacenda.node.doctor import examine

    findings = examine(contract, identity, schema, state, ledger)
    for finding in findings:
        typer.echo(f"{'ok  ' if finding.ok else 'FAIL'} {finding.name:12} {finding.found}")
        if not finding.ok:
            typer.echo(f"     fix: {finding.fix}")
    raise typer.Exit(0 if all(f.ok for f in findings) else 1)


def _addresses(peers: list[str] | None) -> dict[str, str]:
    found = {}
    for text in peers or ():
        name, sign, address = text.partition("=")
        if not sign or ":" not in address:
            raise InputError(f"--peer must be name=host:port, not {text!r}.")
        found[name] = address
    return found


def main(arguments: list[str] | None = None) -> Any:
    """All commands of this package; errors as one sentence, exit code 2."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
    app.add_typer(certs_app, name="certs")
    app.add_typer(contract_app, name="contract")
    app.add_typer(node_app, name="node")
    app.command("doctor")(doctor)
    try:
        app(arguments)
    except TacendaError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2)
