"""`tacenda certs`: keys and certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.errors import InputError
from tacenda.words import counted
from tacenda_node.commands.options import Folder, certs_app

Name = Annotated[
    str,
    typer.Argument(help="This member's name: letters, digits, hyphens and dots, as a host name."),
]
AuthorityFolder = Annotated[
    Path, typer.Option("--authority", "-a", help="Folder of the authority's key and certificate.")
]


@certs_app.command("init", short_help="Make this member's keys and a certificate request.")
def certs_init(name: Name, identity: Folder = Path("identity")) -> None:
    """Make this member's keys, and a certificate request for the member who signs.

    Example: tacenda certs init east --identity east/identity
    """
    from tacenda_node.identity import certificates as identities

    path = identities.init(identity, name)
    typer.echo(
        f"Keys are in {identity} and never leave it. Send {path} to whoever signs certificates."
    )


@certs_app.command("request", short_help="Ask for a new certificate, or one for a new key.")
def certs_request(
    name: Name,
    identity: Folder = Path("identity"),
    new_key: Annotated[
        bool, typer.Option(help="Rotate: make a new TLS key; the old one is kept beside it.")
    ] = False,
    self_signed: Annotated[
        bool | None,
        typer.Option(
            help="No authority: sign it with the member's own key. By default as the present "
            "certificate was."
        ),
    ] = None,
) -> None:
    """Write a new certificate request, before the old certificate expires or with a new key.

    A member that signs its own certificate gets the new one at once. The others learn of it by a
    new card in the contract: `tacenda certs show --card`, then `tacenda contract amend --replace`.

    Example: tacenda certs request east --identity east/identity --new-key --self-signed
    """
    from tacenda_node.identity import certificates as identities

    own = identities.is_self_signed(identity) if self_signed is None else self_signed
    path = identities.request(identity, name, new_key=new_key)
    if not own:
        typer.echo(f"Send {path} to whoever signs certificates.")
        return
    identities.self_sign(identity, name)
    mine = identities.Identity.read(identity)
    typer.echo(
        f"A new certificate is in {path.parent}, fingerprint {mine.fingerprint}.\n"
        f"Next, a card for the contract: tacenda certs show --identity {identity} "
        f"--card {name}.card --address HOST:PORT --size RECORDS"
    )


@certs_app.command("authority")
def certs_authority(
    name: Annotated[str, typer.Argument(help="The authority's name in its certificates.")],
    folder: AuthorityFolder = Path("authority"),
) -> None:
    """Create an authority that signs the members' requests.

    Example: tacenda certs authority north --authority authority
    """
    from tacenda_node.identity import certificates as identities

    typer.echo(
        f"Authority made: {identities.make_authority(folder, name)}. Its key never leaves {folder}."
    )


@certs_app.command("sign")
def certs_sign(
    request: Annotated[Path, typer.Argument(help="The request that the member sent.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the certificate, to be sent back.")
    ],
    authority: AuthorityFolder = Path("authority"),
    days: Annotated[int, typer.Option(help="How long it is valid.")] = 365,
) -> None:
    """Sign a member's request; send the two files in OUT back.

    Example: tacenda certs sign east.csr --out for-east
    """
    from tacenda_node.identity import certificates as identities

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
    """Show name, dates and fingerprint; with --card also write the file for the contract.

    Example: tacenda certs show --identity east/identity --card east.card --size 2100
    """
    from tacenda_node.identity import contract_files
    from tacenda_node.identity.certificates import Identity

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
