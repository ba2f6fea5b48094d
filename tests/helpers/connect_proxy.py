"""A small HTTP proxy that knows CONNECT only, for tests; asks for a name and a password if told
to."""

from __future__ import annotations

import asyncio
import base64
import threading

from tacenda.errors import NetworkError
from tacenda_node.wire.streams import Listener, Stream, dial, join


class ConnectProxy:
    """Runs in a thread of its own; `asked` lists the places that callers wanted."""

    def __init__(self, login: str = "") -> None:
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
        reader, writer = stream
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, place, _ = head[0].split(" ")
        given = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
        if method != "CONNECT":
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
        elif self._want and given.get("Proxy-Authorization") != self._want:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        else:
            self.asked.append(place)
            try:
                far = await dial(place)
            except NetworkError:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            await join(stream, far)
