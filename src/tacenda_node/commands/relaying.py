"""`tacenda relay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.errors import InputError


def relay(
    listen: Annotated[str, typer.Option(help="Address to listen on, host:port.")],
    token_file: Annotated[
        Path,
        typer.Option(
            help="File with the token that members need; made, with a new token, if missing."
        ),
    ],
    certificate: Annotated[
        Path | None,
        typer.Option(help="An ordinary certificate with its chain, PEM; else the relay makes one."),
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The key of --certificate, PEM.")] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Plain HTTP, behind a web server that does TLS.")
    ] = False,
    connections: Annotated[int, typer.Option(min=2, help="The most connections at a time.")] = 1000,
    of_one_address: Annotated[
        int, typer.Option(min=1, help="The most connections from one address.")
    ] = 200,
    bytes_per_second: Annotated[
        float | None, typer.Option(min=1.0, help="Most bytes per second of one pair of members.")
    ] = None,
    idle_seconds: Annotated[
        float, typer.Option(min=30.0, help="Disconnect a pair that sends nothing for this long.")
    ] = 300.0,
) -> None:
    """Join members who can only call out; they speak TLS with each other, so the relay reads
    nothing. It is reached by HTTPS, like a web site. Runs until it is stopped.

    Examples: tacenda relay --listen 0.0.0.0:7444 --token-file relay.token
    tacenda relay --listen 127.0.0.1:7444 --token-file relay.token --plain
    """
    import asyncio

    from tacenda_node.wire.relay import Limits, run
    from tacenda_node.wire.relay_files import RelayFiles

    if plain and certificate is not None:
        raise InputError("--plain leaves TLS to the web server in front; leave --certificate out.")
    limits = Limits(connections, of_one_address, bytes_per_second, idle_seconds)
    files = RelayFiles(token_file, certificate, key)

    def tell(text: str) -> None:
        typer.echo(text, err=True)

    asyncio.run(run(listen, files, limits, tell, plain=plain))
