"""The way into a relay: a WebSocket in TLS, as any web site has, and in it a room where another
member is met.

    relay  -> caller   32 random bytes
    caller -> relay    role (W waits, C calls), room (32), HMAC-SHA256 of all that by the token (32)
    relay  -> caller   '.' now and then while it waits; then 'J', and everything that follows is the
                       other member's; or 'N' and one letter that says why not

Each line is one binary message. A firewall that opens TLS sees these, and below them the members'
own TLS, which it cannot open. The token file holds the token, and where the relay made its own
certificate, also that certificate's fingerprint, which then counts instead of an authority.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

from tacenda.addresses import host_and_port
from tacenda.errors import InputError, NetworkError
from tacenda_node.wire.proxy import Proxy
from tacenda_node.wire.streams import CHUNK, DIAL_SECONDS, NEXT_ADDRESS, reaching

if TYPE_CHECKING:
    from websockets.asyncio.connection import Connection

PATH = "/tacenda-relay"
CHALLENGE = 32
WAITS, CALLS = b"W", b"C"
STILL, JOINED, REFUSED = b".", b"J", b"N"
FULL = "the relay has too many callers"
REASONS = {
    b"T": "the relay's token is another one (--relay-token)",
    b"P": "no node waits there for this member: it is not running, it cannot reach the "
    "relay, or it holds another contract",
    b"R": "a newer stream of the same member waits there",
}
STATUS = {
    404: f"a web server answers there, and knows no {PATH}: pass it on to the relay",
    502: "a web server answers there, and does not reach its relay: is it running?",
    503: FULL,
    504: "a web server answers there, and does not reach its relay: is it running?",
}
# Pings keep the way open: proxies and firewalls forget a connection that is silent, most after a
# minute or more
WEB: dict[str, Any] = {
    "compression": None,  # what passes is encrypted
    "max_size": 2 * CHUNK,
    "max_queue": 4,
    "ping_interval": 20.0,
    "ping_timeout": 60.0,
    "close_timeout": 1.0,
}
LEAST_TOKEN = 20
_LINE = re.compile(r"(?P<secret>\S+)(?: sha256:(?P<pin>[0-9a-f]{64}))?")


class Token(NamedTuple):
    """What a relay's token file says. pin: SHA-256 of the relay's own certificate in hex, or
    empty for one of an ordinary authority."""

    secret: str
    pin: str = ""

    @classmethod
    def read(cls, line: str) -> Token:
        found = _LINE.fullmatch(line)
        if found is None:
            raise InputError(
                "a relay's token (--relay-token) is one word, and for a relay with a "
                "certificate of its own also sha256:FINGERPRINT; ask its operator for the file."
            )
        return cls(found["secret"], found["pin"] or "")

    def __str__(self) -> str:
        return f"{self.secret} sha256:{self.pin}" if self.pin else self.secret

    def mac(self, challenge: bytes, role: bytes, room: bytes) -> bytes:
        """What shows that a caller knows the token."""
        text = b"tacenda relay 2\n" + challenge + role + room
        return hmac.new(self.secret.encode(), text, hashlib.sha256).digest()


class WebPipe:
    """A WebSocket as a pipe."""

    def __init__(self, web: Connection) -> None:
        self.web = web

    async def read(self) -> bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return await self.web.recv(decode=False)
        except ConnectionClosed:
            return b""

    async def write(self, data: bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            for begin in range(0, len(data), CHUNK):
                await self.web.send(data[begin : begin + CHUNK])
        except ConnectionClosed:
            raise ConnectionResetError("the stream through the relay ended") from None

    async def close(self) -> None:
        await self.web.close()


def room_of(run: str, caller: str, listener: str) -> bytes:
    """The name of the room in which `listener` waits for `caller`."""
    text = f"tacenda room v1\0{run}\0{caller}\0{listener}"
    return hashlib.sha256(text.encode()).digest()


async def enter(
    relay: str, token: Token, role: bytes, room: bytes, proxy: Proxy | None, patience: float
) -> WebPipe:
    """A pipe to the other member through the relay at host:port; NetworkError says why not.
    patience: seconds without a sign of life from the relay."""
    pipe, challenge = await _greeted(relay, token, proxy, min(patience, DIAL_SECONDS))
    try:
        await pipe.write(role + room + token.mac(challenge, role, room))
        while True:
            async with asyncio.timeout(patience):
                said = await pipe.read()
            if said == JOINED:
                return pipe
            if said != STILL:
                raise NetworkError(f"relay {relay}: {_refusal(said)}")
    except BaseException as failed:
        await pipe.close()
        if isinstance(failed, TimeoutError):
            raise NetworkError(f"relay {relay} is silent") from None
        if isinstance(failed, OSError):
            raise NetworkError(f"relay {relay} closed the stream") from None
        raise


def _refusal(said: bytes) -> str:
    if not said:
        return "it closed the stream"
    known = REASONS.get(said[1:]) if said[:1] == REFUSED else None
    return known or "it speaks nonsense"


def greeted(relay: str, token: Token, proxy: Proxy | None, seconds: float = 5.0) -> str:
    """Why no relay answers at host:port, in words; empty if one does."""

    async def look() -> None:
        pipe, _ = await _greeted(relay, token, proxy, seconds)
        await pipe.close()

    try:
        asyncio.run(look())
    except NetworkError as why:
        return str(why)
    return ""


async def _greeted(
    relay: str, token: Token, proxy: Proxy | None, seconds: float
) -> tuple[WebPipe, bytes]:
    """A pipe to the relay itself, and its challenge; NetworkError says in words why not."""
    from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

    host, port = host_and_port(relay)
    tunnel: socket.socket | None = None
    if proxy is not None:
        async with reaching(relay, proxy, seconds):
            tunnel = await proxy.tunnel(host, port)
    web: Connection | None = None
    try:
        async with asyncio.timeout(seconds):
            web = await _web(relay, host, token, tunnel)
            pipe = WebPipe(web)
            challenge = await pipe.read()
        if len(challenge) != CHALLENGE:
            raise NetworkError(f"there is no relay at {relay}: it answers in another protocol")
        return pipe, challenge
    except BaseException as failed:
        if web is not None:
            await web.close()
        elif tunnel is not None:
            tunnel.close()
        if isinstance(failed, InvalidStatus):
            code = failed.response.status_code
            why = STATUS.get(code, f"it answers {code}, not as a relay")
        elif isinstance(failed, (InvalidHandshake, WebSocketException, EOFError)):
            raise NetworkError(
                f"there is no relay at {relay}: it answers in another protocol"
            ) from None
        elif isinstance(failed, TimeoutError):
            why = f"it does not answer within {seconds:g} s"
        elif isinstance(failed, ssl.SSLCertVerificationError):
            why = (
                f"its certificate is not trusted here ({failed.verify_message}); it needs an "
                "ordinary one, or, where a firewall opens TLS, this machine must trust the "
                "firewall's authority (SSL_CERT_FILE)"
            )
        elif isinstance(failed, OSError):
            raise NetworkError(f"relay {relay} cannot be reached ({failed})") from None
        else:
            raise
        raise NetworkError(f"relay {relay}: {why}") from None


async def _web(relay: str, host: str, token: Token, tunnel: socket.socket | None) -> Connection:
    """Open a WebSocket, with the certificate checked."""
    from websockets.asyncio.client import connect

    class Connect(connect):
        def process_redirect(self, exc: Exception) -> Exception:
            return exc  # to where a firewall or a web site may send browsers

    way: dict[str, Any] = {"happy_eyeballs_delay": NEXT_ADDRESS, "host": host}
    if tunnel is not None:
        way = {"sock": tunnel}
    web = await Connect(
        f"wss://{relay}{PATH}",
        ssl=_context(bool(token.pin)),
        server_hostname=host,
        proxy=None,  # not what the environment says
        user_agent_header=None,
        open_timeout=None,
        **way,
        **WEB,
    )
    shown = web.transport.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
    if token.pin and hashlib.sha256(shown).hexdigest() != token.pin:
        await web.close()
        raise NetworkError(
            f"relay {relay} shows another certificate than its token file names: ask its operator "
            "for the present file; or a firewall on the way opens TLS, and then the relay needs "
            "an ordinary certificate"
        )
    return web


@functools.cache
def _context(pinned: bool) -> ssl.SSLContext:
    """The machine's own trust, or none, where a fingerprint is compared instead."""
    context = ssl.create_default_context()
    if pinned:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
