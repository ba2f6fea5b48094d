"""`tacenda consortium`: from nothing to a signed contract, in two exchanges of files."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.errors import InputError
from tacenda.formats.files import write_text
from tacenda.words import counted
from tacenda_node.commands.options import consortium_app

if TYPE_CHECKING:
    from tacenda_node.setup.consortium import Site

Name = Annotated[
    str | None,
    typer.Option(help="This member's name: letters, digits, hyphens and dots, as a host name."),
]
Data = Annotated[
    Path | None, typer.Option("--data", "-d", help="This member's records (CSV, Parquet, ...).")
]
Address = Annotated[
    str | None, typer.Option(help="host:port at which the other members reach this node.")
]
Size = Annotated[
    int | None,
    typer.Option(help="The public number of records; under replace-one they are counted."),
]
Listens = Annotated[
    bool, typer.Option("--listens/--no-listens", help="Whether this node accepts connections.")
]
Budget = Annotated[
    float | None, typer.Option(help="Epsilon that all runs on these records together may lose.")
]
Dataset = Annotated[str | None, typer.Option(help="The data's name in the lasting ledger.")]
Ledger = Annotated[
    Path | None,
    typer.Option(help="The lasting ledger; by default this member's own on this machine."),
]
OwnIdentity = Annotated[
    Path | None,
    typer.Option("--identity", "-i", help="A folder with keys and certificate, to use as it is."),
]
Certificate = Annotated[
    Path | None, typer.Option(help="An existing certificate (PEM, with its chain).")
]
Authority = Annotated[
    Path | None, typer.Option(help="With --certificate: the authority's certificate (PEM).")
]
Key = Annotated[Path | None, typer.Option(help="With --certificate: its private key (PEM).")]
KeyCommand = Annotated[
    str | None, typer.Option(help="With --certificate: a command that prints its private key.")
]
PasswordFile = Annotated[
    Path | None, typer.Option(help="With --key: a file with the password of the key.")
]
Proxy = Annotated[str | None, typer.Option(help="http://host:port, the proxy for all calls out.")]
RelayToken = Annotated[
    Path | None, typer.Option(help="With an --address relay://host:port: a file with its token.")
]
HomeFolder = Annotated[
    Path | None,
    typer.Option("--folder", "-f", help="The member's folder; by default one with its name."),
]
MadeFolder = Annotated[
    Path, typer.Option("--folder", "-f", help="The member's folder, with its node.toml.")
]


@consortium_app.command("new", short_help="The organiser: a folder, and an invitation to send.")
def consortium_new(
    name: Name = None,
    title: Annotated[str | None, typer.Option(help="What the study is called.")] = None,
    members: Annotated[
        list[str] | None, typer.Option("--member", help="Another member's name; repeat it.")
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", "-s", help="The schema; without one it is drafted from --data."),
    ] = None,
    data: Data = None,
    address: Address = None,
    terms: Annotated[
        Path | None,
        typer.Option(help="TOML file with terms (`tacenda plan --terms` writes one); flags win."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", "-e", help="Epsilon: what one record may lose in the run."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Probability that the bound fails; 1e-6 by default.")
    ] = None,
    coalition: Annotated[
        str | None,
        typer.Option(help="How many members may combine what they know, or 'all'; by default 1."),
    ] = None,
    adjacency: Annotated[
        str | None,
        typer.Option(
            help="replace-one (the numbers of records are public) or add-remove (they are private, "
            "and --size declares a stand-in); by default replace-one, with persons add-remove."
        ),
    ] = None,
    records_per_person: Annotated[
        int | None,
        typer.Option(
            help="The promise is for a person with at most this many records; the schema names the "
            "column of persons."
        ),
    ] = None,
    members_per_person: Annotated[
        int | None,
        typer.Option(
            help="Number of members at which the same person may have records; needed with "
            "--records-per-person."
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(help="By default 'auto': the planner chooses once all members have joined."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="By default the planner's.")] = None,
    graph: Annotated[
        str | None, typer.Option(help="ring, path, star or complete; by default a ring.")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            help="Share of every member's records that is never trained on: the finished model is "
            "evaluated on them. By default 0.2; 0 is no evaluation."
        ),
    ] = None,
    evaluation_epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon for a held-out record; by default that of --epsilon."),
    ] = None,
    folder: HomeFolder = None,
    size: Size = None,
    listens: Listens = True,
    budget: Budget = None,
    dataset: Dataset = None,
    ledger: Ledger = None,
    proxy: Proxy = None,
    relay_token: RelayToken = None,
    identity: OwnIdentity = None,
    certificate: Certificate = None,
    authority: Authority = None,
    key: Key = None,
    key_command: KeyCommand = None,
    password_file: PasswordFile = None,
) -> None:
    """Propose a study: title, members, schema and terms, by flags or by questions on a terminal.

    Writes this member's folder with keys and node.toml, and an invitation to send to the others.

    Example: tacenda consortium new --name north --title "Treatment study" --member east --member
    south --schema schema.toml --data records.csv --address north.example.org:7443 --epsilon 2
    """
    from tacenda.data.schema import Schema
    from tacenda_node.identity.certificates import spoken
    from tacenda_node.setup import consortium, drafting

    values = {} if terms is None else drafting.read_terms(terms)
    name = _asked(name, "--name", "Name of this member, as a host name")
    title = _asked(title or values.get("title"), "--title", "Title of the study")
    if not members:
        text = _asked(None, "--member", "Names of the other members, with spaces between")
        members = text.split()
    data = Path(_asked(data, "--data", "File with this member's records"))
    if schema is None:
        raise InputError(_drafted_schema(data))
    address = _asked(address, "--address", "host:port at which the others reach this node")
    if epsilon is not None and not epsilon > 0:
        raise InputError(f"--epsilon must be greater than 0, not {epsilon:g}; for example 2.")
    if delta is not None and not 0 < delta < 1:
        raise InputError(f"--delta must be between 0 and 1, not {delta:g}; for example 1e-6.")
    privacy = dict(values.get("privacy", {}))
    if epsilon is None and "epsilon" not in privacy:
        answer = _asked(None, "--epsilon", "Epsilon: what one record may lose in the run")
        epsilon = _number("--epsilon", answer)
    if records_per_person is not None and records_per_person > 1 and adjacency is None:
        adjacency = privacy.get("adjacency", "add-remove")
    given = {
        "epsilon": epsilon,
        "delta": delta,
        "coalition": _coalition(coalition),
        "adjacency": adjacency,
        "records_per_person": records_per_person,
        "members_per_person": members_per_person,
    }
    privacy |= {k: v for k, v in given.items() if v is not None}
    privacy.setdefault("delta", 1e-6)
    if "records_per_person" in privacy and "members_per_person" not in privacy:
        asked = f"At how many of the {len(members) + 1} members may the same person have records"
        answer = _asked(None, "--members-per-person", asked)
        privacy["members_per_person"] = int(_number("--members-per-person", answer))
    changes = {"title": title, "privacy": privacy, "graph": graph, "rounds": rounds}
    if algorithm is not None:
        changes["algorithm"] = {"name": algorithm}
    values = {"algorithm": {"name": "auto"}, **values}
    values |= {k: v for k, v in changes.items() if v is not None}
    values = drafting.usual_evaluation(values, held_out, evaluation_epsilon)
    home = Path(name) if folder is None else folder
    settings = {"dataset": dataset, "ledger": ledger, "proxy": proxy, "relay_token": relay_token}
    brought = _brought(certificate, authority, key, key_command, password_file)
    site = _site(data, address, size, listens, _budget(budget), settings, identity, brought)
    path = consortium.new(home, name, members, values, Schema.read(schema), site)
    mine = consortium.identity_of(home)
    _report_kit(home)
    typer.echo(
        f"{name}'s folder is {home}; its keys never leave it. Send {path} to {', '.join(members)}."
    )
    typer.echo(
        f"Codes to tell them by telephone: certificate {spoken(mine.fingerprint)}, "
        f"invitation {spoken(consortium.read_invitation(path).hash())}."
    )
    typer.echo(f"Next, with their cards: tacenda consortium draft *.card --folder {home}")
    _mind_budget(home)


@consortium_app.command("join", short_help="A member: a folder with keys, and a card to send.")
def consortium_join(
    invitation: Annotated[Path, typer.Argument(help="The invitation that the organiser sent.")],
    name: Name = None,
    data: Data = None,
    address: Address = None,
    later: Annotated[
        bool,
        typer.Option(
            "--later", help="You were not invited: a member proposes the next run with you."
        ),
    ] = False,
    folder: HomeFolder = None,
    size: Size = None,
    listens: Listens = True,
    budget: Budget = None,
    dataset: Dataset = None,
    ledger: Ledger = None,
    proxy: Proxy = None,
    relay_token: RelayToken = None,
    identity: OwnIdentity = None,
    certificate: Certificate = None,
    authority: Authority = None,
    key: Key = None,
    key_command: KeyCommand = None,
    password_file: PasswordFile = None,
) -> None:
    """Answer an invitation: check the records against its schema, make this member's keys on site
    (or use those that are given), and write its folder and the card to send back.

    Example: tacenda consortium join study.invite --name east --data records.csv --address
    east.example.org:7443
    """
    from tacenda_node.identity.certificates import spoken
    from tacenda_node.setup import consortium

    found = consortium.read_invitation(invitation)
    others = [member for member in found.members if member != found.organiser["name"]]
    if name is None and len(others) == 1 and not later:
        name = others[0]
    name = _asked(name, "--name", f"Which member are you: {', '.join(others)}")
    data = Path(_asked(data, "--data", "File with this member's records"))
    address = _asked(address, "--address", "host:port at which the others reach this node")
    home = Path(name) if folder is None else folder
    settings = {"dataset": dataset, "ledger": ledger, "proxy": proxy, "relay_token": relay_token}
    brought = _brought(certificate, authority, key, key_command, password_file)
    site = _site(data, address, size, listens, _budget(budget), settings, identity, brought)
    card = consortium.join(invitation, home, name, site, later=later)
    mine = consortium.identity_of(home)
    from tacenda_node.setup.drafting import read_card

    number = read_card(card)["size"]
    sent_to = "a member, who proposes the next run with you" if later else found.organiser["name"]
    _report_kit(home)
    typer.echo(
        f"{found.title}: {name}'s folder is {home}; its keys never leave it. The records fit the "
        f"schema. Send {card} to {sent_to}; it says {counted(number, 'record')}, "
        "which becomes public."
    )
    typer.echo(
        f"Codes to compare by telephone: your certificate {spoken(mine.fingerprint)}, "
        f"{found.organiser['name']}'s {spoken(found.organiser['fingerprint'])}, "
        f"invitation {spoken(found.hash())}."
    )
    typer.echo(f"Before the contract comes: tacenda node check {home}")
    _mind_budget(home)


@consortium_app.command("draft", short_help="The organiser: the contract from all cards.")
def consortium_draft(
    cards: Annotated[list[Path], typer.Argument(help="The cards that the members sent.")],
    folder: MadeFolder = Path("."),
) -> None:
    """Draft the contract from all members' cards, and sign it for the organiser.

    Example: tacenda consortium draft *.card --folder north
    """
    from tacenda_node.setup import consortium
    from tacenda_node.setup.meaning import in_plain_words

    made = consortium.draft(folder, cards)
    if made.chosen is not None:
        typer.echo(made.chosen.explain())
        typer.echo("")
    typer.echo("\n".join(in_plain_words(made.plan, consortium.identity_of(folder).name)))
    for sentence in made.words:
        typer.echo(f"Warning: {sentence}.")
    _queue(folder, folder / consortium.CONTRACT)
    _report_kit(folder)
    typer.echo(
        f"Send {folder / consortium.CONTRACT} to all; each runs `tacenda consortium accept`, "
        f"and then all run `tacenda node run`; here: tacenda node run {folder}"
    )


@consortium_app.command("accept", short_help="A member: what the contract means, and sign it.")
def consortium_accept(
    contract: Annotated[
        Path,
        typer.Argument(
            help="The contract that the organiser sent; or a proposal, its file or its number."
        ),
    ],
    folder: MadeFolder = Path("."),
    yes: Annotated[
        bool, typer.Option("--yes", help="Sign without the question, after you have read it.")
    ] = False,
) -> None:
    """Check the contract against the invitation, show what it means, and sign it; or accept what a
    member has proposed (`consortium proposals`).

    Example: tacenda consortium accept contract.toml --folder east
    """
    from tacenda_node.commands.proposing import accept_proposal, is_proposal

    if is_proposal(contract, folder):
        accept_proposal(contract, folder, yes)
        return
    from tacenda_node.identity import contract_files
    from tacenda_node.operate.policy import PolicyFile, require
    from tacenda_node.operate.settings import read_settings
    from tacenda_node.peer.run_plan import make_plan
    from tacenda_node.setup import consortium
    from tacenda_node.setup.meaning import in_plain_words

    found = contract_files.read(contract)
    consortium.review(folder, found)
    plan = make_plan(found)
    typer.echo("\n".join(in_plain_words(plan, consortium.identity_of(folder).name)))
    settings = read_settings(folder)
    if settings.policy is not None:
        key = consortium.identity_of(folder).signing_key
        require(PolicyFile.read(settings.policy), found, key, at=contract)
    if not yes and not (
        sys.stdin.isatty() and typer.confirm("Sign this contract for your organisation?")
    ):
        raise InputError(
            "The contract was not signed; read the lines above, then add --yes or answer y."
        )
    _queue(folder, consortium.accept(folder, contract))
    _report_kit(folder)
    typer.echo(
        f"Signed. The nodes show each other the signatures. Next: tacenda node run {folder}, or "
        "the kit's unit, which takes the run from the queue."
    )


def _queue(folder: Path, contract: Path) -> None:
    """What was signed is the next run of the unit that serves."""
    from tacenda_node.operate.queue import Queue

    queue = Queue(folder)
    if contract.resolve() not in {Path(one.what).resolve() for one in queue.entries()}:
        queue.add(contract)


def _site(
    data: Path,
    address: str,
    size: int | None,
    listens: bool,
    budget: float | None,
    settings: dict[str, Any],
    identity: Path | None,
    brought: dict[str, Any] | None,
) -> Site:
    from tacenda_node.setup.consortium import Site

    kept = {k: v for k, v in {"budget": budget, **settings}.items() if v is not None}
    return Site(data, address, size, listens, identity, brought, kept)


def _budget(given: float | None) -> float | None:
    """Asked on a terminal; an empty answer leaves it open."""
    if given is not None or not sys.stdin.isatty():
        return given
    question = "Epsilon that all runs on these records together may lose (empty: decide later)"
    text = typer.prompt(question, default="", show_default=False)
    return _number("--budget", text) if text else None


def _number(flag: str, text: Any) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{flag} must be a number, not {text!r}; for example 2.") from None


def _brought(
    certificate: Path | None,
    authority: Path | None,
    key: Path | None,
    key_command: str | None,
    password_file: Path | None,
) -> dict[str, Any] | None:
    others = {
        "--authority": authority,
        "--key": key,
        "--key-command": key_command,
        "--password-file": password_file,
    }
    if certificate is None:
        for flag, value in others.items():
            if value is not None:
                raise InputError(f"{flag} belongs to --certificate, which is missing; give both.")
        return None
    if authority is None or (key is None) == (key_command is None):
        raise InputError(
            "--certificate needs --authority, and one of --key and --key-command; give them."
        )
    tls: dict[str, Any] = {}
    if key is not None:
        tls["key"] = str(key.resolve())
    if key_command is not None:
        tls["key_command"] = shlex.split(key_command)
    if password_file is not None:
        tls["password_file"] = str(password_file.resolve())
    return {"certificate": certificate, "authority": authority, "tls": tls}


def _asked(value: Any, flag: str, question: str) -> Any:
    """A value that was given, or the answer of who sits at the terminal."""
    if value is not None:
        return value
    if not sys.stdin.isatty():
        raise InputError(
            f"{flag} is missing, and without a terminal it cannot be asked for; give it."
        )
    return typer.prompt(question)


def _coalition(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    if not text.isdigit():
        raise InputError(f"--coalition must be a whole number from 0, or 'all', not {text!r}.")
    return int(text)


def _drafted_schema(data: Path) -> str:
    """A schema drafted from the records, whose values must be confirmed by a person first."""
    from tacenda.data.draft import Draft

    target = Path("schema.toml")
    if target.exists():
        return (
            f"--schema is missing, and {target} exists; if it is the right one, give --schema "
            f"{target}."
        )
    write_text(target, Draft.of(data).schema.to_toml())
    return (
        f"--schema is missing; {target} was drafted from {data.name}, with bounds and levels read "
        "from private records: replace them by what is publicly known, set confirmed = true, "
        f"then run the same command with --schema {target}."
    )


def _report_kit(home: Path) -> None:
    from tacenda_node.setup.kit import write_kit

    typer.echo(f"For the person who runs the machine: {write_kit(home)}")


def _mind_budget(home: Path) -> None:
    from tacenda_node.operate.settings import FILE, read_settings

    if read_settings(home).budget is None:
        typer.echo(
            f"Note: {home / FILE} has no budget yet; the node does not start without one "
            "(budget = EPSILON: what all runs on these records together may lose)."
        )
