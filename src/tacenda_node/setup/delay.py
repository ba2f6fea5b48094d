"""A slow network for rehearsals on one machine: every byte between two members is held back for a
while, in both directions, as distance would. Needs no rights and no kernel module."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

from tacenda_node.wire.streams import CHUNK, Listener, Stream, dial, hang_up


class DelayedNetwork:
    """`with DelayedNetwork(addresses, delay_ms) as reached:` gives, for each member, the address
    at which it is reached through the delay; runs in a thread of its own."""

    def __init__(self, addresses: dict[str, str], delay_ms: float) -> None:
        self._addresses, self._delay = addresses, delay_ms / 1000

    def __enter__(self) -> dict[str, str]:
        self._reached: dict[str, str] = {}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        self._ready.wait(10)
        return self._reached

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        listeners = []
        for name, address in self._addresses.items():

            async def serve(near: Stream, address: str = address) -> None:
                await self._join(near, await dial(address))

            listeners.append(Listener(serve))
            self._reached[name] = f"127.0.0.1:{await listeners[-1].start('127.0.0.1', 0)}"
        self._ready.set()
        await self._over.wait()
        for listener in listeners:
            await listener.stop()

    async def _join(self, near: Stream, far: Stream) -> None:
        ways = [
            asyncio.ensure_future(self._pass_on(near, far)),
            asyncio.ensure_future(self._pass_on(far, near)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await hang_up(far[1])

    async def _pass_on(self, source: Stream, sink: Stream) -> None:
        """What comes leaves after the delay, in order, whatever comes in between."""
        while data := await source[0].read(CHUNK):
            self._loop.call_later(self._delay, sink[1].write, data)
        await asyncio.sleep(self._delay)
