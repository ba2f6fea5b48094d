"""An HTTP proxy that passes bytes on after CONNECT, with a login where it wants one.

The proxy is asked without the login first: what it answers says in which way it takes one, and a
password goes to nobody who has not asked. Basic is done here, NTLM by pyspnego (the extra `ntlm`),
in three steps on one connection.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tacenda.addresses import host_and_port
from tacenda.errors import InputError, NetworkError

MOST_HEAD = 1 << 14  # bytes of a proxy's answer, without its page
MOST_PAGE = 1 << 20
HINTS = {
    407: "; it wants a name and a password (--proxy-login)",
    403: "; it does not allow this address or port: ask its operator",
}


@dataclass(frozen=True)
class Proxy:
    """login: `user:password`, or empty; the user may be `DOMAIN\\user`."""

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

    async def tunnel(self, host: str, port: int) -> socket.socket:
        """A connected socket to host:port; NetworkError if the proxy gives none, OSError if it
        cannot be reached."""
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        sock = await self._connected()
        try:
            answer = await _asked(sock, place, "")
            login, sent = None, False
            if answer.code == 407 and self.login:
                login = _login(self.login, answer)
            while answer.code == 407 and login is not None:
                word = login(answer)
                if not word:
                    break
                if answer.closes:
                    sock = await self._again(sock)
                try:
                    answer = await _asked(sock, place, word)
                except OSError:  # it had closed the connection without a word
                    if sent:
                        raise
                    sock = await self._again(sock)
                    answer = await _asked(sock, place, word)
                sent = True
        except BaseException:
            sock.close()
            raise
        if answer.code == 200:
            return sock
        sock.close()
        wrong = HINTS.get(answer.code, "")
        if login is not None and answer.code == 407:
            wrong = "; it does not take this name and password (--proxy-login)"
        raise NetworkError(
            f"the proxy {self.host}:{self.port} refuses a stream to {place} "
            f"({answer.code or 'it does not speak HTTP'}){wrong}"
        )

    async def _again(self, sock: socket.socket) -> socket.socket:
        sock.close()
        return await self._connected()

    async def _connected(self) -> socket.socket:
        """A socket to the proxy itself, at the first of its addresses that answers."""
        loop, failed = asyncio.get_running_loop(), OSError("its name has no address")
        for kind, type_, number, _, place in await loop.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        ):
            sock = socket.socket(kind, type_, number)
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, place)
                return sock
            except OSError as why:
                sock.close()
                failed = why
            except BaseException:
                sock.close()
                raise
        raise failed


@dataclass(frozen=True)
class _Answer:
    """code: 0 if it is no HTTP. offers: what it says of logins, by scheme in small letters. closes:
    whether it says nothing more on this connection."""

    code: int
    offers: dict[str, str]
    closes: bool


async def _asked(sock: socket.socket, place: str, login: str) -> _Answer:
    """What the proxy answers to CONNECT; its page is read and dropped."""
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", "Proxy-Connection: keep-alive"]
    if login:
        lines.append(f"Proxy-Authorization: {login}")
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, ("\r\n".join(lines) + "\r\n\r\n").encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):  # byte by byte: what follows is not the proxy's
        byte = await loop.sock_recv(sock, 1)
        head += byte
        if not byte or len(head) > MOST_HEAD:
            raise OSError("it closed the stream" if not byte else "its answer has no end")
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    good = len(words) > 1 and words[0].startswith("HTTP/") and words[1].isdecimal()
    code = int(words[1]) if good else 0
    fields = [(n.strip().lower(), v.strip()) for n, _, v in (line.partition(":") for line in rest)]
    offers = dict[str, str]()
    for name, value in fields:
        if name == "proxy-authenticate":
            scheme, _, more = value.partition(" ")
            offers[scheme.lower()] = more.strip()
    values = dict(fields)
    kept = {w.strip().lower() for n, v in fields if n.endswith("connection") for w in v.split(",")}
    length = values.get("content-length", "")
    closes = "close" in kept or (words[0] == "HTTP/1.0" and "keep-alive" not in kept)
    if code != 200:
        left = int(length) if length.isdecimal() else MOST_PAGE + 1
        closes = closes or left > MOST_PAGE
        while left and not closes:
            page = await loop.sock_recv(sock, min(left, 1 << 16))
            left, closes = left - len(page), not page
    return _Answer(code, offers, closes)


def _login(login: str, answer: _Answer) -> Callable[[_Answer], str]:
    """What to say to each answer of the proxy, empty when there is nothing more to say."""
    if "basic" in answer.offers:
        words = ["Basic " + base64.b64encode(login.encode()).decode()]
        return lambda _: words.pop() if words else ""
    if "ntlm" not in answer.offers:
        raise NetworkError(
            f"the proxy offers no login that this node knows "
            f"({', '.join(sorted(answer.offers)) or 'none at all'}): ask its operator for basic "
            "or NTLM"
        )
    return _ntlm(login)


def _ntlm(login: str) -> Callable[[_Answer], str]:
    try:
        import spnego
    except ImportError:
        raise NetworkError(
            "the proxy wants an NTLM login: install pip install 'tacenda[ntlm]'"
        ) from None
    user, _, password = login.partition(":")
    side = spnego.client(user, password, protocol="ntlm", hostname="unspecified")

    def say(answer: _Answer) -> str:
        if side.complete:
            return ""
        token: bytes | None = None
        with contextlib.suppress(ValueError):
            token = base64.b64decode(answer.offers.get("ntlm", "")) or None
        try:
            word = side.step(token)
        except spnego.exceptions.SpnegoError as wrong:
            raise NetworkError(f"the proxy's NTLM login failed ({wrong})") from None
        return "" if word is None else "NTLM " + base64.b64encode(word).decode()

    return say


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
