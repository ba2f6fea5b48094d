"""Byte streams out of this machine: straight, through an HTTP proxy (CONNECT), or to a relay; and
two streams joined into one.

A name is looked up at every attempt, and all its addresses are tried, IPv6 and IPv4 in turn, so a
member may change its address while a run goes on. Nothing here reads what passes: members speak TLS
with each other from end to end.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tacenda.addresses import host_and_port
from tacenda.errors import InputError, NetworkError

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
NEXT_ADDRESS = 0.25  # seconds before the next address of a name is tried too
DIAL_SECONDS = 20.0
CHUNK = 1 << 16


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy that passes bytes on after CONNECT; login: `user:password`, or empty."""

    host: str
    port: int
    login: str = ""

    @classmethod
    def read(cls, url: str, login: Path | None = None) -> Proxy:
        """From `http://host:port` and a file with one line, `user:password`."""
        kind, sign, rest = url.partition("://")
        if not sign or kind != "http" or "@" in rest:
            raise InputError(
                f"proxy must be http://host:port, not {url!r}; "
                "a user's name and password go into a file of their own (--proxy-login)."
            )
        host, port = host_and_port(rest.rstrip("/"), "proxy")
        word = "" if login is None else read_secret(login, "--proxy-login")
        if word and ":" not in word:
            raise InputError(
                f"the file {login} (--proxy-login) must hold one line user:password; "
                "it has no colon."
            )
        return cls(host, port, word)

    def request(self, host: str, port: int) -> bytes:
        """The words that ask for a stream to host:port."""
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if self.login:
            word = base64.b64encode(self.login.encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {word}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def read_secret(path: Path, option: str) -> str:
    """The one line of a file that nobody but its owner may read."""
    try:
        mode, text = stat.S_IMODE(path.stat().st_mode), path.read_text("utf-8").strip()
    except OSError as failed:
        raise InputError(
            f"the file {path} ({option}) cannot be read: {failed.strerror}; write it, "
            "one line, mode 0600."
        ) from None
    if mode & 0o077:
        raise InputError(
            f"the file {path} ({option}) holds a secret and must not be open to others, and has "
            f"mode {mode:04o}; run chmod 600 {path}."
        )
    if not text or "\n" in text:
        raise InputError(
            f"the file {path} ({option}) must hold one line, and has "
            f"{len(text.splitlines())}; correct it."
        )
    return text


async def dial(address: str, proxy: Proxy | None = None, seconds: float = DIAL_SECONDS) -> Stream:
    """A stream to host:port; NetworkError says in words why there is none."""
    host, port = host_and_port(address)
    first = (host, port) if proxy is None else (proxy.host, proxy.port)
    at = address if proxy is None else f"the proxy {proxy.host}:{proxy.port}"
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(
                *first, happy_eyeballs_delay=NEXT_ADDRESS
            )
            if proxy is not None:
                try:
                    await _ask_proxy(reader, writer, proxy, host, port)
                except BaseException:
                    writer.close()
                    raise
    except TimeoutError:
        raise NetworkError(f"{at} does not answer within {seconds:g} s") from None
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as failed:
        raise NetworkError(f"{at} cannot be reached ({failed})") from None
    return reader, writer


async def _ask_proxy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: Proxy, host: str, port: int
) -> None:
    writer.write(proxy.request(host, port))
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ", 2)
    code = words[1] if len(words) > 1 and words[0].startswith("HTTP/") else "no status"
    if code == "200":
        return
    hint = {
        "407": "; it wants a name and a password (--proxy-login)",
        "403": "; it does not allow this address or port: ask its operator",
    }.get(code, "")
    raise NetworkError(
        f"the proxy {proxy.host}:{proxy.port} refuses a stream to {host}:{port} ({code[:20]}){hint}"
    )


async def join(
    first: Stream, second: Stream, passed: Callable[[int], Awaitable[None]] | None = None
) -> None:
    """Pass bytes both ways until one side ends; then both are closed.
    passed: told how many bytes have just come, and may wait."""
    ways = [
        asyncio.ensure_future(_pump(first[0], second[1], passed)),
        asyncio.ensure_future(_pump(second[0], first[1], passed)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        await hang_up(first[1])
        await hang_up(second[1])


async def _pump(
    source: asyncio.StreamReader,
    sink: asyncio.StreamWriter,
    passed: Callable[[int], Awaitable[None]] | None,
) -> None:
    while data := await source.read(CHUNK):
        if passed is not None:
            await passed(len(data))
        sink.write(data)
        await sink.drain()


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

    async def start(self, host: str, port: int) -> int:
        """Listen on an address; gives the port."""
        self._server: asyncio.AbstractServer = await asyncio.start_server(self._come, host, port)
        assert isinstance(self._server, asyncio.Server)
        return int(self._server.sockets[0].getsockname()[1])

    async def start_local(self, path: str) -> None:
        """Listen on a socket of this machine."""
        self._server = await asyncio.start_unix_server(self._come, path)

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._host((reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _host(self, stream: Stream) -> None:
        try:
            # Whoever called may go away at any moment, or say nothing; others cannot be reached
            with contextlib.suppress(OSError, EOFError, TimeoutError, NetworkError):
                await self._serve(stream)
        finally:
            await hang_up(stream[1])

    async def stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def as_socket(stream: Stream) -> AsyncIterator[str]:
    """A local socket that leads, once, into a stream: for a library that opens its own connections.
    Its folder is this user's alone."""
    with tempfile.TemporaryDirectory(prefix="tacenda-") as folder:
        path, taken = f"{folder}/s", False

        async def serve(local: Stream) -> None:
            nonlocal taken
            if not taken:
                taken = True
                await join(local, stream)

        listener = Listener(serve)
        await listener.start_local(path)
        try:
            yield path
        finally:
            await listener.stop()
            await hang_up(stream[1])
