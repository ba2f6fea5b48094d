"""The way to a peer: its address, a proxy, or a room of a relay; and what is wrong on it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc

from tacenda.errors import NetworkError
from tacenda_node.identity.addresses import RELAY
from tacenda_node.protocol.handshake import Handshake
from tacenda_node.wire import probe
from tacenda_node.wire.link import Link
from tacenda_node.wire.proxy import Proxy
from tacenda_node.wire.reasons import reason_of
from tacenda_node.wire.rooms import CALLS, WAITS, Token, enter, room_of
from tacenda_node.wire.streams import Pipe, Stream, as_socket, dial, join

PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds before the next attempt
RELAY_PATIENCE = 35.0  # seconds without a sign of life from a relay
MOST_PASSED_ON = 8  # streams of one peer through the relay at once
LOOK_SECONDS = 5.0  # for a look at a peer that cannot be reached
LOOK_AGAIN = 30.0  # seconds until the next look at the same one


class Routes:
    """The ways from one member to its peers. addresses: those that replace the contract's."""

    def __init__(
        self,
        handshake: Handshake,
        addresses: dict[str, str],
        proxy: Proxy | None,
        token: Token | None,
    ) -> None:
        self._handshake, self._addresses = handshake, addresses
        self._proxy, self._token = proxy, token
        self._me, self._run_id = handshake.identity.name, handshake.contract.run_id()
        self._looks: dict[str, tuple[float, str]] = {}

    def _address(self, peer: str) -> str:
        return self._addresses.get(peer, self._handshake.contract.member(peer).address)

    def _need_token(self, relay: str) -> Token:
        if self._token is None:
            raise NetworkError(f"relay {relay} wants a token, and none is set (--relay-token)")
        return self._token

    @contextlib.asynccontextmanager
    async def target(self, peer: str) -> AsyncIterator[str]:
        """Where gRPC finds a peer: its address, or a local socket that leads through proxy and
        relay."""
        address = self._address(peer)
        if address.startswith(RELAY):
            room = room_of(self._run_id, self._me, peer)
            at = address.removeprefix(RELAY)
            pipe: Pipe = await enter(
                at, self._need_token(at), CALLS, room, self._proxy, RELAY_PATIENCE
            )
        elif self._proxy is not None:
            pipe = await dial(address, self._proxy)
        else:
            yield address
            return
        async with as_socket(pipe) as path:
            yield f"unix:{path}"

    async def let_in(self, relay: str, link: Link, door: str, log: Any) -> None:
        """Let one neighbour in through the relay, again and again; door: the local socket to which
        its streams are passed on."""
        room = room_of(self._run_id, link.peer, self._me)
        failures, told, inside = 0, "", set[asyncio.Task[None]]()
        try:
            while True:
                while len(inside) >= MOST_PASSED_ON:
                    await asyncio.wait(inside, return_when=asyncio.FIRST_COMPLETED)
                try:
                    pipe = await enter(
                        relay, self._need_token(relay), WAITS, room, self._proxy, RELAY_PATIENCE
                    )
                    failures, told = 0, ""
                    task = asyncio.ensure_future(_pass_on(pipe, door))
                    inside.add(task)
                    task.add_done_callback(inside.discard)
                except NetworkError as why:
                    failures += 1
                    if not link.connected:
                        link.reason = str(why)
                    if told != str(why):
                        told = str(why)
                        log.warning("relay not reached", peer=link.peer, reason=told)
                await asyncio.sleep(PAUSES[min(failures, len(PAUSES) - 1)])
        finally:
            for task in inside:
                task.cancel()

    async def explained(self, peer: str, why: Exception) -> str:
        """Why a call failed; where gRPC has no clear words, after a look at the peer now and
        then."""
        reason = reason_of(why)
        clear = not isinstance(why, (TimeoutError, grpc.aio.AioRpcError)) or "refused)" in reason
        if clear:
            return reason
        looked, found = self._looks.get(peer, (-LOOK_AGAIN, ""))
        if time.monotonic() - looked >= LOOK_AGAIN:
            address, me = self._address(peer), self._handshake.identity
            direct = self._proxy is None and not address.startswith(RELAY)
            found = (
                await asyncio.to_thread(probe.look_at, address, peer, me, LOOK_SECONDS)
                if direct
                else ""
            )
            self._looks[peer] = (time.monotonic(), found)
        return found or reason


async def _pass_on(pipe: Pipe, door: str) -> None:
    try:
        inner = await asyncio.open_unix_connection(door)
    except OSError:
        await pipe.close()  # the server stops
        return
    await join(pipe, Stream(*inner))
