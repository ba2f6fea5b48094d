"""A small HTTP proxy that knows CONNECT only, for tests; asks for a name and a password if told
to."""

from __future__ import annotations

import asyncio
import base64
import threading

import spnego

from tacenda.errors import NetworkError
from tacenda_node.wire.streams import Listener, Stream, dial, join

BASIC = 'Basic realm="the test"'


class ConnectProxy:
    """Runs in a thread of its own; `asked` lists the places that callers wanted."""

    def __init__(self, login: str = "", *, ntlm: bool = False, hangs_up: bool = False) -> None:
        """ntlm: pyspnego's own server, with the users of NTLM_USER_FILE. hangs_up: after each
        refusal, without a word about it."""
        self._ntlm, self._hangs_up = ntlm, hangs_up
        self.logins: list[str] = []  # by scheme, of each request
        self._want = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        self.asked: list[str] = []
        ready = threading.Event()

        async def run() -> None:
            self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
            listener = Listener(self._serve)
            self.port = await listener.start("127.0.0.1", 0)
            ready.set()
            await self._over.wait()
            await listener.stop()

        self._thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
        self._thread.start()
        ready.wait(10)
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _serve(self, stream: Stream) -> None:
        server = None  # of NTLM, for one connection
        while True:
            head = (await stream.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, place, _ = head[0].split(" ")
            given = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
            if method != "CONNECT":
                await stream.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
                return
            login = given.get("Proxy-Authorization", "")
            self.logins.append(login.partition(" ")[0])
            if self._ntlm and login.startswith("NTLM "):
                server = server or spnego.server(protocol="ntlm")
                try:
                    token = server.step(base64.b64decode(login[5:]))
                except spnego.exceptions.SpnegoError:
                    server, token = None, None
                if server is None or not server.complete:
                    more = "" if token is None else " " + base64.b64encode(token).decode()
                    await stream.write(_wants("NTLM" + more))
                    continue
            elif self._ntlm or (self._want and login != self._want):
                await stream.write(_wants("Negotiate", "NTLM") if self._ntlm else _wants(BASIC))
                if self._hangs_up:
                    return
                continue
            break
        self.asked.append(place)
        try:
            far = await dial(place)
        except NetworkError:
            await stream.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        await stream.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        await join(stream, far)


def _wants(*offers: str) -> bytes:
    lines = "".join(f"Proxy-Authenticate: {offer}\r\n" for offer in offers)
    page = "a page of the proxy"
    return (
        f"HTTP/1.1 407 Proxy Authentication Required\r\n{lines}"
        f"Content-Length: {len(page)}\r\n\r\n{page}"
    ).encode()
