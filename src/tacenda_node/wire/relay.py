"""`tacenda relay`: where two members meet who can both only call out.

Any member, or somebody else, runs it. A member that nobody can call (its address in the contract is
`relay://host:port`) waits at the relay in one room for each neighbour; the neighbour calls, and the
relay joins the two streams. Inside them the members speak their own mutual TLS, from end to end. So
the relay sees ciphertext, sizes and times, the callers' addresses, the name of the member that is
called (TLS 1.3 shows no more of who is there), and rooms: hashes of the run and the edge.

It is no open proxy: it connects nobody to any address, only two callers of one room who both know
its token, and the number of callers, their patience and, if wanted, their speed are bounded.

    relay  -> caller   GREETING, 32 random bytes
    caller -> relay    role (W waits, C calls), room (32), HMAC-SHA256 of all that by the token (32)
    relay  -> caller   '.' now and then while it waits; then 'J', and everything that follows is the
                       other member's; or 'N' and one letter that says why not
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tacenda.addresses import host_and_port
from tacenda.errors import InputError, NetworkError
from tacenda.formats.files import write_bytes
from tacenda_node.wire.streams import Listener, Proxy, Stream, dial, hang_up, join, read_secret

SCHEME = "relay://"
GREETING = b"tacenda relay 1\n"
WAITS, CALLS = b"W", b"C"
STILL, JOINED, REFUSED = b".", b"J", b"N"
REASONS = {
    b"T": "the relay's token is another one (--relay-token)",
    b"L": "the relay has too many callers",
    b"P": "no node waits there for this member: it is not running, it cannot reach the "
    "relay, or it holds another contract",
    b"R": "a newer stream of the same member waits there",
}
LEAST_TOKEN = 20
SAY_SECONDS = 1.0  # between two lines about refused callers
MOST_WAITING = 2  # streams of one member in a room: a new one, and one that may have died unseen


def room_of(run: str, caller: str, listener: str) -> bytes:
    """The name of the room in which `listener` waits for `caller`."""
    text = f"tacenda room v1\0{run}\0{caller}\0{listener}"
    return hashlib.sha256(text.encode()).digest()


def _mac(token: str, greeting: bytes, role: bytes, room: bytes) -> bytes:
    return hmac.new(token.encode(), greeting + role + room, hashlib.sha256).digest()


async def enter(
    relay: str, token: str, role: bytes, room: bytes, proxy: Proxy | None, patience: float
) -> Stream:
    """A stream to the other member through the relay at host:port; NetworkError says why not.
    patience: seconds without a sign of life from the relay."""
    reader, writer = await dial(relay, proxy)
    try:
        async with asyncio.timeout(patience):
            greeting = await reader.readexactly(2)
            if greeting[:1] == REFUSED:  # a full relay greets nobody
                raise _refusal(relay, greeting[1:])
            greeting += await reader.readexactly(len(GREETING) + 30)
        if not greeting.startswith(GREETING):
            raise NetworkError(f"there is no relay at {relay}: it answers in another protocol")
        writer.write(role + room + _mac(token, greeting, role, room))
        await writer.drain()
        while True:
            async with asyncio.timeout(patience):
                said = await reader.readexactly(1)
            if said == JOINED:
                return reader, writer
            if said != STILL:
                raise _refusal(relay, await reader.readexactly(1) if said == REFUSED else b"")
    except BaseException as failed:
        await hang_up(writer)
        if isinstance(failed, TimeoutError):
            raise NetworkError(f"relay {relay} is silent") from None
        if isinstance(failed, (OSError, asyncio.IncompleteReadError)):
            raise NetworkError(f"relay {relay} closed the stream") from None
        raise


def _refusal(relay: str, why: bytes) -> NetworkError:
    return NetworkError(f"relay {relay}: {REASONS.get(why, 'it speaks nonsense')}")


def greeted(relay: str, seconds: float = 5.0) -> str:
    """Why there is no relay at host:port, in words; empty if one answers."""

    async def look() -> None:
        reader, writer = await dial(relay, seconds=seconds)
        try:
            async with asyncio.timeout(seconds):
                said = await reader.readexactly(len(GREETING))
        finally:
            await hang_up(writer)
        if said != GREETING:
            raise NetworkError("what answers there is no relay")

    try:
        asyncio.run(look())
    except NetworkError as why:
        return str(why)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return f"{relay} closes the stream or says nothing"
    return ""


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

    stream: Stream
    partner: asyncio.Future[Stream | bytes]


@dataclass
class _Room:
    waiting: list[_Guest] = field(default_factory=list)
    calling: list[_Guest] = field(default_factory=list)


class Relay:
    """`await start(address)`, then `await stop()`."""

    def __init__(self, token: str, limits: Limits, tell: Callable[[str], None]) -> None:
        self._token, self._limits, self._tell = token, limits, tell
        self._rooms: dict[bytes, _Room] = {}
        self._here: Counter[str] = Counter()
        self._listener = Listener(self._host)
        self.joined = self.refused = self.bytes = 0
        self.port = 0
        self._said, self._unsaid = -SAY_SECONDS, 0

    async def start(self, address: str) -> None:
        """Listen on host:port."""
        host, port = host_and_port(address, "--listen", lowest=0)
        try:
            self.port = await self._listener.start(host, port)
        except OSError as failed:
            raise NetworkError(
                f"The relay cannot listen on {address} ({failed.strerror}); choose another "
                "address with --listen."
            ) from None

    async def stop(self) -> None:
        await self._listener.stop()

    @property
    def connections(self) -> int:
        return self._here.total()

    async def _host(self, stream: Stream) -> None:
        address = str((stream[1].get_extra_info("peername") or ["?"])[0])
        self._here[address] += 1
        try:
            await self._serve(stream, address)
        finally:
            self._here[address] -= 1
            self._here += Counter()  # without those of whom nothing is left

    async def _serve(self, stream: Stream, address: str) -> None:
        reader, writer = stream
        limits = self._limits
        if self.connections > limits.connections or self._here[address] > limits.of_one_address:
            await self._refuse(writer, b"L", address)
            return
        greeting = GREETING + os.urandom(32)
        writer.write(greeting)
        async with asyncio.timeout(limits.hello_seconds):
            said = await reader.readexactly(65)
        role, room, mac = said[:1], said[1:33], said[33:]
        if role not in (WAITS, CALLS) or not hmac.compare_digest(
            mac, _mac(self._token, greeting, role, room)
        ):
            await self._refuse(writer, b"T", address)
            return
        partner = await self._meet(stream, role, room)
        if isinstance(partner, bytes):
            await self._refuse(writer, partner, address)
        elif role == CALLS:
            await self._join(stream, partner)

    async def _refuse(self, writer: asyncio.StreamWriter, why: bytes, address: str) -> None:
        self.refused += 1
        if why in b"TL":
            self._say(f"{address} refused: {REASONS[why]}")
        writer.write(REFUSED + why)
        await writer.drain()

    def _say(self, words: str) -> None:
        """A line at most every second: strangers must not be able to fill a log."""
        if time.monotonic() - self._said < SAY_SECONDS:
            self._unsaid += 1
            return
        more = f" (and {self._unsaid} more)" if self._unsaid else ""
        self._said, self._unsaid = time.monotonic(), 0
        self._tell(words + more)

    async def _meet(self, stream: Stream, role: bytes, name: bytes) -> Stream | bytes:
        """The other end of the room, as soon as there is one. Who waits is told nothing but signs
        of life, and its task lasts until the pair has parted: the caller's task joins them."""
        room = self._rooms.setdefault(name, _Room())
        guest = _Guest(stream, asyncio.get_running_loop().create_future())
        mine, others = (
            (room.waiting, room.calling) if role == WAITS else (room.calling, room.waiting)
        )
        mine.append(guest)
        if len(mine) > MOST_WAITING:
            self._answer(mine.pop(0), b"R")
        while others and not guest.partner.done():
            one = others.pop()  # the newest: an older one may have died unseen
            if one.stream[0].at_eof():
                self._answer(one, b"R")
                continue
            self._answer(one, stream)
            self._answer(guest, one.stream)
        end = time.monotonic() + self._limits.call_seconds
        try:
            while not guest.partner.done():
                signs = self._limits.sign_seconds
                left = signs if role == WAITS else min(signs, max(0.0, end - time.monotonic()))
                await asyncio.wait({guest.partner}, timeout=left)
                if guest.partner.done():
                    break
                if stream[0].at_eof():
                    return b"R"
                if role == CALLS and time.monotonic() >= end:
                    return b"P"
                stream[1].write(STILL)
                await stream[1].drain()
            found = guest.partner.result()
        finally:
            if guest in mine:
                mine.remove(guest)
            if not room.waiting and not room.calling:
                self._rooms.pop(name, None)
        if role == WAITS and not isinstance(found, bytes):
            await stream[1].wait_closed()  # parted by the caller's task
        return found

    @staticmethod
    def _answer(guest: _Guest, what: Stream | bytes) -> None:
        if not guest.partner.done():
            guest.partner.set_result(what)

    async def _join(self, caller: Stream, waiter: Stream) -> None:
        for stream in (waiter, caller):
            stream[1].write(JOINED)
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

        pair = asyncio.ensure_future(join(caller, waiter, passed))
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


def token_of(path: Path) -> str:
    """The token in a file; a new one, readable by its owner only, if there is no file."""
    if not path.exists():
        write_bytes(path, f"{secrets.token_urlsafe(32)}\n".encode(), private=True)
    token = read_secret(path, "--token-file")
    if len(token) < LEAST_TOKEN:
        raise InputError(
            f"the token in {path} (--token-file) has {len(token)} characters and needs at least "
            f"{LEAST_TOKEN}; remove the file, and the relay makes a new one."
        )
    return token


async def serve(listen: str, token_file: Path, limits: Limits, tell: Callable[[str], None]) -> None:
    """A relay until SIGINT or SIGTERM."""
    relay, stopping = Relay(token_of(token_file), limits, tell), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await relay.start(listen)
    tell(f"relay on {listen}, port {relay.port}; members need the token in {token_file}.")
    await stopping.wait()
    await relay.stop()
    tell(f"relay stopped: {relay.joined} streams joined, {relay.bytes} bytes passed on.")
