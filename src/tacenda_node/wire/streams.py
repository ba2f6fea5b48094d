"""Byte streams out of this machine, straight or through a proxy, and two streams joined into one.

A name is looked up at every attempt, and all its addresses are tried, IPv6 and IPv4 in turn, so a
member may change its address while a run goes on. Nothing here reads what passes: members speak TLS
with each other from end to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Protocol

from tacenda.addresses import host_and_port
from tacenda.errors import NetworkError
from tacenda_node.wire.proxy import Proxy

NEXT_ADDRESS = 0.25  # seconds before the next address of a name is tried too
DIAL_SECONDS = 20.0
CHUNK = 1 << 16


class Pipe(Protocol):
    """Bytes both ways."""

    async def read(self) -> bytes:
        """What has come, or nothing at its end."""

    async def write(self, data: bytes) -> None:
        """Send; waits while too much is under way."""

    async def close(self) -> None:
        """End it."""


class Stream(NamedTuple):
    """A connection of this machine, as a pipe."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self) -> bytes:
        return await self.reader.read(CHUNK)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def close(self) -> None:
        await hang_up(self.writer)


async def dial(address: str, proxy: Proxy | None = None, seconds: float = DIAL_SECONDS) -> Stream:
    """A stream to host:port; NetworkError says in words why there is none."""
    host, port = host_and_port(address)
    async with reaching(address, proxy, seconds):
        if proxy is None:
            found = await asyncio.open_connection(host, port, happy_eyeballs_delay=NEXT_ADDRESS)
        else:
            found = await asyncio.open_connection(sock=await proxy.tunnel(host, port))
    return Stream(*found)


@contextlib.asynccontextmanager
async def reaching(address: str, proxy: Proxy | None, seconds: float) -> AsyncIterator[None]:
    """At most so many seconds for opening a stream; NetworkError where that fails."""
    at = address if proxy is None else f"the proxy {proxy.host}:{proxy.port}"
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise NetworkError(f"{at} does not answer within {seconds:g} s") from None
    except OSError as failed:
        raise NetworkError(f"{at} cannot be reached ({failed})") from None


async def join(
    first: Pipe, second: Pipe, passed: Callable[[int], Awaitable[None]] | None = None
) -> None:
    """Pass bytes both ways until one side ends; then both are closed.
    passed: told how many bytes have just come, and may wait."""
    ways = [
        asyncio.ensure_future(_pump(first, second, passed)),
        asyncio.ensure_future(_pump(second, first, passed)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        await first.close()
        await second.close()


async def _pump(source: Pipe, sink: Pipe, passed: Callable[[int], Awaitable[None]] | None) -> None:
    while data := await source.read():
        if passed is not None:
            await passed(len(data))
        await sink.write(data)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a stream; what is still under way is given a second."""
    writer.close()
    # The other end may have gone first, which is the same
    with contextlib.suppress(OSError, TimeoutError):
        await asyncio.wait_for(writer.wait_closed(), 1.0)


class Listener:
    """Serves every stream that comes in a task of its own, which ends with the listener."""

    def __init__(self, serve: Callable[[Stream], Awaitable[None]]) -> None:
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on an address; gives the port."""
        self._server: asyncio.AbstractServer = await asyncio.start_server(
            self._come, host, port, ssl=tls
        )
        assert isinstance(self._server, asyncio.Server)
        return int(self._server.sockets[0].getsockname()[1])

    async def start_local(self, path: str) -> None:
        """Listen on a socket of this machine."""
        self._server = await asyncio.start_unix_server(self._come, path)

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._host(Stream(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _host(self, stream: Stream) -> None:
        try:
            # Whoever called may go away at any moment, or say nothing; others cannot be reached
            with contextlib.suppress(OSError, EOFError, TimeoutError, NetworkError):
                await self._serve(stream)
        finally:
            await stream.close()

    async def stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def as_socket(pipe: Pipe) -> AsyncIterator[str]:
    """A local socket that leads, once, into a pipe: for a library that opens its own connections.
    Its folder is this user's alone."""
    with tempfile.TemporaryDirectory(prefix="tacenda-") as folder:
        path, taken = f"{folder}/s", False

        async def serve(local: Stream) -> None:
            nonlocal taken
            if not taken:
                taken = True
                await join(local, pipe)

        listener = Listener(serve)
        await listener.start_local(path)
        try:
            yield path
        finally:
            await listener.stop()
            await pipe.close()
