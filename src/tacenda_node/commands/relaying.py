"""`tacenda relay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda_node.wire.relay import Limits, serve


def relay(
    listen: Annotated[str, typer.Option(help="Address to listen on, host:port.")],
    token_file: Annotated[
        Path,
        typer.Option(
            help="File with the token that members need; made, with a new token, if missing."
        ),
    ],
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
    nothing. Runs until it is stopped.

    Examples: tacenda relay --listen 0.0.0.0:7444 --token-file relay.token
    """
    import asyncio

    limits = Limits(connections, of_one_address, bytes_per_second, idle_seconds)
    asyncio.run(serve(listen, token_file, limits, lambda text: typer.echo(text, err=True)))
