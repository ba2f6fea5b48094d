"""`tacenda evidence RUN -o FOLDER`, `evidence check`, `certify` and `form`: what a data-protection
officer signs, and how anybody checks it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tacenda.cli import flags, show
from tacenda.errors import InputError
from tacenda.formats.files import write_text
from tacenda.words import counted


class RunFirst(TyperGroup):
    """`tacenda evidence RUN` means `tacenda evidence pack RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["pack", *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    cls=RunFirst,
    no_args_is_help=True,
    help=(
        "What a data-protection officer signs and an auditor checks. `tacenda evidence RUN -o "
        "FOLDER` writes a pack about a finished run, `tacenda evidence check FOLDER` computes "
        "every number of it again."
    ),
)


@app.command("pack", short_help="Write the pack of a finished run (also without this word).")
def pack(
    run: Annotated[
        Path,
        typer.Argument(help="A member's folder with its node.toml; or a simulation's run folder."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.")],
    organisation: Annotated[
        Path | None,
        typer.Option(
            help="Answers that only your organisation has (TOML; `tacenda evidence form` "
            "prints the questions)."
        ),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="Result of an audit, as `tacenda audit --out` wrote it.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--run", help="Which run of a simulation's folder.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Write the evidence about a finished run: a page to print and sign, the same as JSON, an entry
    for the registry of deployments, contract, ledger rows, statement, certificate, software, and a
    signed list of all files. Records are not read, and no key is in it.

    Example: tacenda evidence north -o evidence-2026 --organisation organisation.toml
    """
    from tacenda_node.evidence import check
    from tacenda_node.evidence import make as write

    folder = write(run, output, organisation=organisation, audit=audit, name=name)
    found = check(folder)
    if as_json:
        show.as_json(found.to_plain())
    else:
        for line in found.lines:
            if not line.ok:
                print(_shown(f"DIFFERENT  {line.what}: {line.found}"))
        marked = " It is a SIMULATION and no evidence about real data." if _simulated(found) else ""
        print(
            f"{folder}: open evidence.html to read, print and sign.{marked}\n"
            f"Anybody checks it with `tacenda evidence check {folder}`."
        )
    raise typer.Exit(0 if found.ok else 1)


@app.command("check", short_help="Check a pack, or the certificate inside a model.")
def check_command(
    place: Annotated[
        Path, typer.Argument(help="The pack's folder; or a model: its file, or an exported folder.")
    ],
    contract: Annotated[
        Path | None,
        typer.Option("--contract", "-c", help="Your own copy of the contract, from elsewhere."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="NAME=KEY, a member's public key from elsewhere; may be repeated."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="For a pack: a model that claims to be the run's.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Compute every number of a pack again, check every hash and signature, and say line by line
    what was found; of a model, check the certificate in its file. Nothing else is needed. The exit
    code is 1 if anything differs.

    Example: tacenda evidence check evidence-2026 --contract contract.toml
    """
    from tacenda_node.evidence import check

    keys = {}
    for one in key or ():
        name, sign, value = one.partition("=")
        if not sign or not name or not value:
            raise InputError(f"--key must be NAME=KEY, with the key in base64, not {one!r}.")
        keys[name] = value
    found = check(place, contract=contract, keys=keys, model=model)
    if as_json:
        show.as_json(found.to_plain())
        raise typer.Exit(0 if found.ok else 1)
    for line in found.lines:
        print(_shown(f"{'ok        ' if line.ok else 'DIFFERENT '} {line.what}: {line.found}"))
    for text in found.facts.get("who_may_rely_on_what", ()):
        print(_shown(f"rely       {text}"))
    print("Not proved by this:")
    for text in found.not_proved:
        print(f"  - {text}")
    wrong = sum(not line.ok for line in found.lines)
    if wrong:
        print(f"{place}: {counted(wrong, 'difference')}. Do not rely on it.")
    elif _simulated(found):
        print(f"{place}: no difference, but a SIMULATION: no evidence about real people's data.")
    else:
        print(f"{place}: no difference in {counted(len(found.lines), 'check')}.")
    raise typer.Exit(1 if wrong else 0)


@app.command("certify", short_help="Sign a model's file, where a run has not done so.")
def certify_command(
    model: Annotated[
        Path, typer.Argument(help="A model: its file, or the folder an estimator exported.")
    ],
    identity: Annotated[
        Path, typer.Option("--identity", "-i", help="Folder with your keys (`tacenda certs init`).")
    ],
) -> None:
    """Put a signed certificate into a model's file: epsilon, delta, relation, unit, coalition, and
    a digest of every weight. The file stays readable as before. A node's run does this itself.

    Example: tacenda evidence certify exported --identity north/identity
    """
    from tacenda_node.evidence import certify
    from tacenda_node.identity.certificates import Identity

    path = certify(model, Identity.read(identity))
    print(f"{path}: signed. `tacenda evidence check {model}` checks it.")


@app.command("form", short_help="Questions that only the organisation can answer, as TOML.")
def form(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; by default the screen.")
    ] = None,
) -> None:
    """Print the questions whose answers go into the pack: controller, purpose, legal basis and so
    on. What stays empty is a marked blank on the page.

    Example: tacenda evidence form -o organisation.toml
    """
    from tacenda_node.evidence import organisation_form

    if output is None:
        print(organisation_form(), end="")
        return
    if output.exists():
        raise InputError(f"{output} exists already; choose another name with -o.")
    write_text(output, organisation_form())
    print(f"{output}: fill it in, and give it to `tacenda evidence RUN --organisation {output}`.")


def _shown(text: str) -> str:
    """Words of a file that anybody may have written, without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _simulated(found: Any) -> bool:
    facts = found.facts
    return bool(facts.get("simulation") or "simulation" in str(facts.get("noise", "")))
