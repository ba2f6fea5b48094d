"""`tacenda relay`: where two members meet who can both only call out.

Any member, or somebody else, runs it. A member that nobody can call (its address in the contract is
`relay://host:port`) waits at the relay in one room for each neighbour; the neighbour calls, and the
relay joins the two streams. Inside them the members speak their own mutual TLS, from end to end. So
the relay sees ciphertext, sizes and times, the callers' addresses, the name of the member that is
called (TLS 1.3 shows no more of who is there), and rooms: hashes of the run and the edge.

It is reached like a web site (`rooms`): by itself with an ordinary certificate, behind a web server
that has one, or with a certificate of its own, whose fingerprint is then in the token file.

It is no open proxy: it connects nobody to any address, only two callers of one room who both know
its token, and the number of callers, their patience and, if wanted, their speed are bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import signal
import ssl
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.protocol import State

from tacenda.addresses import host_and_port
from tacenda.errors import NetworkError
from tacenda_node.wire.relay_files import RelayFiles
from tacenda_node.wire.rooms import (
    CALLS,
    CHALLENGE,
    FULL,
    JOINED,
    PATH,
    REASONS,
    REFUSED,
    STILL,
    WAITS,
    WEB,
    Token,
    WebPipe,
)
from tacenda_node.wire.streams import join

SAY_SECONDS = 1.0  # between two lines about refused callers
MOST_WAITING = 2  # streams of one member in a room: a new one, and one that may have died unseen
STRANGERS = 64  # connections above the limit that are told so; further ones are cut off
RENEWAL_SECONDS = 60.0  # between looks for a renewed certificate


@dataclass(frozen=True)
class Limits:
    """What a relay gives to its callers.

    connections: at once; of_one_address: at once from one address. bytes_per_second: of one pair,
    both ways together, None for no limit. idle_seconds: a pair that sends nothing for so long is
    parted. call_seconds: for which a caller waits for somebody to be there.
    """

    connections: int = 1000
    of_one_address: int = 200
    bytes_per_second: float | None = None
    idle_seconds: float = 300.0
    call_seconds: float = 10.0
    hello_seconds: float = 10.0
    sign_seconds: float = 10.0


@dataclass(eq=False)
class _Guest:
    """One stream before it is joined; `partner` is told the other one, or a letter that refuses."""

    web: ServerConnection
    partner: asyncio.Future[ServerConnection | bytes]


@dataclass
class _Room:
    waiting: list[_Guest] = field(default_factory=list)
    calling: list[_Guest] = field(default_factory=list)


class _Caller(ServerConnection):
    """One connection, counted from its beginning to its end."""

    relay: Relay
    place: str = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.relay.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.relay.ended(self)


class Relay:
    """`await start(address)`, then `await stop()`.

    tls: with which certificate; None for plain HTTP from a web server in front, which says in
    X-Forwarded-For who calls.
    """

    def __init__(
        self,
        token: Token,
        limits: Limits,
        tell: Callable[[str], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._token, self._limits, self._tell, self._tls = token, limits, tell, tls
        self._rooms: dict[bytes, _Room] = {}
        self._here: Counter[str] = Counter()
        self.joined = self.refused = self.bytes = self.connections = 0
        self.port = 0
        self._said, self._unsaid = -SAY_SECONDS, 0
        # What strangers send wrongly is nothing to write down
        self._log = logging.getLogger("tacenda.relay.strangers")
        self._log.disabled = True

    async def start(self, address: str) -> None:
        """Listen on host:port."""
        host, port = host_and_port(address, "--listen", lowest=0)

        class Caller(_Caller):
            relay = self

        try:
            self._server: Server = await serve(
                self._host,
                host,
                port,
                ssl=self._tls,
                process_request=self._judge,
                create_connection=Caller,
                open_timeout=self._limits.hello_seconds,
                server_header=None,
                logger=self._log,
                **WEB,
            )
        except OSError as failed:
            raise NetworkError(
                f"The relay cannot listen on {address} ({failed.strerror}); choose another "
                "address with --listen."
            ) from None
        self.port = int(next(iter(self._server.sockets)).getsockname()[1])

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    def opened(self, caller: _Caller) -> None:
        """A connection has begun."""
        self.connections += 1
        if self.connections > self._limits.connections + STRANGERS:
            caller.transport.abort()

    def ended(self, caller: _Caller) -> None:
        """A connection is over."""
        self.connections -= 1
        if caller.place:
            self._here[caller.place] -= 1
            self._here += Counter()  # without those of whom nothing is left

    def _judge(self, web: ServerConnection, request: Request) -> Response | None:
        """The answer to a request that is not let in; None lets it in."""
        assert isinstance(web, _Caller)
        if request.path != PATH:
            return web.respond(404, "This is a relay of Tacenda.\n")
        address = str((web.remote_address or ["?"])[0])
        if self._tls is None and (passed := request.headers.get("X-Forwarded-For")):
            # The last one is what the server in front saw itself
            address = passed.rpartition(",")[2].strip()[:100]
        web.place = address
        self._here[address] += 1
        limits = self._limits
        if self.connections > limits.connections or self._here[address] > limits.of_one_address:
            self.refused += 1
            self._say(f"{address} refused: {FULL}")
            return web.respond(503, f"{FULL}\n")
        return None

    async def _host(self, web: ServerConnection) -> None:
        assert isinstance(web, _Caller)
        # Whoever called may go away at any moment, or say nothing; others cannot be reached
        with contextlib.suppress(OSError, TimeoutError, ConnectionClosed):
            await self._serve(web, web.place)

    async def _serve(self, web: ServerConnection, address: str) -> None:
        challenge = os.urandom(CHALLENGE)
        await web.send(challenge)
        async with asyncio.timeout(self._limits.hello_seconds):
            said = await web.recv(decode=False)
        role, room, mac = said[:1], said[1:33], said[33:]
        if role not in (WAITS, CALLS) or not hmac.compare_digest(
            mac, self._token.mac(challenge, role, room)
        ):
            await self._refuse(web, b"T", address)
            return
        partner = await self._meet(web, role, room)
        if isinstance(partner, bytes):
            await self._refuse(web, partner, address)
        elif role == CALLS:
            await self._join(web, partner)

    async def _refuse(self, web: ServerConnection, why: bytes, address: str) -> None:
        self.refused += 1
        if why == b"T":
            self._say(f"{address} refused: {REASONS[why]}")
        await web.send(REFUSED + why)

    def _say(self, words: str) -> None:
        """A line at most every second: strangers must not be able to fill a log."""
        if time.monotonic() - self._said < SAY_SECONDS:
            self._unsaid += 1
            return
        more = f" (and {self._unsaid} more)" if self._unsaid else ""
        self._said, self._unsaid = time.monotonic(), 0
        self._tell(words + more)

    async def _meet(
        self, web: ServerConnection, role: bytes, name: bytes
    ) -> ServerConnection | bytes:
        """The other end of the room, as soon as there is one. Who waits is told nothing but signs
        of life, and its task lasts until the pair has parted: the caller's task joins them."""
        room = self._rooms.setdefault(name, _Room())
        guest = _Guest(web, asyncio.get_running_loop().create_future())
        mine, others = (
            (room.waiting, room.calling) if role == WAITS else (room.calling, room.waiting)
        )
        mine.append(guest)
        if len(mine) > MOST_WAITING:
            self._answer(mine.pop(0), b"R")
        while others and not guest.partner.done():
            one = others.pop()  # the newest: an older one may have died unseen
            if one.web.state is not State.OPEN:
                self._answer(one, b"R")
                continue
            self._answer(one, web)
            self._answer(guest, one.web)
        end = time.monotonic() + self._limits.call_seconds
        try:
            while not guest.partner.done():
                signs = self._limits.sign_seconds
                left = signs if role == WAITS else min(signs, max(0.0, end - time.monotonic()))
                await asyncio.wait({guest.partner}, timeout=left)
                if guest.partner.done():
                    break
                if web.state is not State.OPEN:
                    return b"R"
                if role == CALLS and time.monotonic() >= end:
                    return b"P"
                await web.send(STILL)
            found = guest.partner.result()
        finally:
            if guest in mine:
                mine.remove(guest)
            if not room.waiting and not room.calling:
                self._rooms.pop(name, None)
        if role == WAITS and not isinstance(found, bytes):
            await web.wait_closed()  # parted by the caller's task
        return found

    @staticmethod
    def _answer(guest: _Guest, what: ServerConnection | bytes) -> None:
        if not guest.partner.done():
            guest.partner.set_result(what)

    async def _join(self, caller: ServerConnection, waiter: ServerConnection) -> None:
        for web in (waiter, caller):
            await web.send(JOINED)
        self.joined += 1
        begin = last = time.monotonic()
        count, rate = 0, self._limits.bytes_per_second

        async def passed(size: int) -> None:
            nonlocal count, last
            count, last = count + size, time.monotonic()
            self.bytes += size
            if rate is not None and (ahead := count / rate - (last - begin)) > 0:
                await asyncio.sleep(ahead)
                last = time.monotonic()

        pair = asyncio.ensure_future(join(WebPipe(caller), WebPipe(waiter), passed))
        idle = self._limits.idle_seconds
        try:
            while not pair.done():
                left = last + idle - time.monotonic()
                if left <= 0:
                    break
                await asyncio.wait({pair}, timeout=left)
        finally:
            pair.cancel()
            await asyncio.gather(pair, return_exceptions=True)


async def run(
    listen: str, files: RelayFiles, limits: Limits, tell: Callable[[str], None], *, plain: bool
) -> None:
    """A relay until SIGINT or SIGTERM."""
    token, tls = files.ready(tell, plain=plain)
    relay, stopping = Relay(token, limits, tell, tls), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await relay.start(listen)
    tell(f"relay on {listen}, port {relay.port}; members need the token file {files.token}.")
    while not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), RENEWAL_SECONDS)
        if tls is not None:
            files.renew(tls, tell)
    await relay.stop()
    tell(f"relay stopped: {relay.joined} streams joined, {relay.bytes} bytes passed on.")
