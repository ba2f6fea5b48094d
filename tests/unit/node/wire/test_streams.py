"""Streams out of this machine: straight, over IPv6, and through an HTTP proxy."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from connect_proxy import ConnectProxy
from tacenda.addresses import host_and_port
from tacenda.errors import InputError, NetworkError
from tacenda_node.wire.proxy import Proxy
from tacenda_node.wire.streams import Listener, Stream, as_socket, dial, hang_up


async def echo(stream: Stream) -> None:
    while data := await stream[0].read(1000):
        stream[1].write(data)


@asynccontextmanager
async def serving(
    what: Callable[[Stream], Awaitable[None]] = echo, host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """The port of a server that lives for so long."""
    listener = Listener(what)
    yield await listener.start(host, 0)
    await listener.stop()


async def said_back(address: str, proxy: Proxy | None = None) -> None:
    reader, writer = await dial(address, proxy, seconds=5)
    writer.write(b"ciphertext")
    assert await reader.readexactly(10) == b"ciphertext"
    await hang_up(writer)


def login_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "login"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_straight_and_through_a_proxy(host: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with serving(host=host) as port:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            await said_back(address)
            await said_back(address, Proxy.read(open_proxy.url))
            login = login_file(tmp_path, "anna:s:ecret\n")
            await said_back(address, Proxy.read(closed.url, login))
            assert open_proxy.asked == closed.asked == [address]
            with pytest.raises(NetworkError, match=r"refuses a stream .*407.*--proxy-login"):
                await dial(address, Proxy.read(closed.url))

    open_proxy, closed = ConnectProxy(), ConnectProxy("anna:s:ecret")
    try:
        asyncio.run(play())
    finally:
        open_proxy.close()
        closed.close()


def test_a_password_goes_to_nobody_who_has_not_asked_for_one(tmp_path: Path) -> None:
    """The proxy is asked without it first; whether it keeps the connection does not matter."""

    async def play() -> None:
        async with serving() as port:
            for proxy in (free, strict, rude):
                await said_back(f"127.0.0.1:{port}", Proxy.read(proxy.url, login))
            wrong = Proxy("127.0.0.1", strict.port, "anna:other")
            with pytest.raises(NetworkError, match="407.*does not take this name and password"):
                await dial(f"127.0.0.1:{port}", wrong)

    login = login_file(tmp_path, "anna:secret\n")
    free, strict = ConnectProxy(), ConnectProxy("anna:secret")
    rude = ConnectProxy("anna:secret", hangs_up=True)
    try:
        asyncio.run(play())
    finally:
        for proxy in (free, strict, rude):
            proxy.close()
    assert free.logins == [""]
    assert strict.logins == ["", "Basic", "", "Basic"]
    assert rude.logins == ["", "Basic"]


def test_a_proxy_with_ntlm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy's side is pyspnego's own server, which checks the password."""
    users = tmp_path / "users"
    users.write_text("HOSPITAL:anna:secret\n")
    monkeypatch.setenv("NTLM_USER_FILE", str(users))

    async def play() -> None:
        async with serving() as port:
            good = Proxy("127.0.0.1", proxy.port, "HOSPITAL\\anna:secret")
            await said_back(f"127.0.0.1:{port}", good)
            wrong = Proxy("127.0.0.1", proxy.port, "HOSPITAL\\anna:other")
            with pytest.raises(NetworkError, match="407.*does not take this name and password"):
                await dial(f"127.0.0.1:{port}", wrong)
            monkeypatch.setitem(sys.modules, "spnego", None)
            with pytest.raises(NetworkError, match=r"tacenda\[ntlm\]"):
                await dial(f"127.0.0.1:{port}", good)

    proxy = ConnectProxy(ntlm=True)
    try:
        asyncio.run(play())
    finally:
        proxy.close()
    assert proxy.logins[:3] == ["", "NTLM", "NTLM"]  # asked, and two of the three messages
    assert len(proxy.asked) == 1


def test_a_name_with_a_dead_address_is_still_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address of the name never answers; the second one is tried soon after."""

    async def play() -> None:
        loop = asyncio.get_running_loop()

        async def names(host: str, port: int, **_: object) -> list[object]:
            asked.append(host)
            kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*kind, ("192.0.2.1", port)), (*kind, ("127.0.0.1", port))]

        monkeypatch.setattr(loop, "getaddrinfo", names)
        async with serving() as port:
            for _ in range(2):  # and it is looked up anew at every attempt
                await said_back(f"node.example:{port}")

    asked: list[str] = []
    asyncio.run(play())
    assert asked == ["node.example"] * 2


def test_reasons_are_in_words() -> None:
    async def play() -> None:
        with pytest.raises(NetworkError, match="127.0.0.1:9 cannot be reached"):
            await dial("127.0.0.1:9")
        with pytest.raises(NetworkError, match="the proxy 127.0.0.1:9 cannot be reached"):
            await dial("node.example:7443", Proxy("127.0.0.1", 9))

        async def silent(stream: Stream) -> None:
            await asyncio.sleep(3)

        async with serving(silent) as port:
            with pytest.raises(NetworkError, match="does not answer within 0.2 s"):
                await dial("node.example:7443", Proxy("127.0.0.1", port), seconds=0.2)

    asyncio.run(play())


@pytest.mark.parametrize(
    "wrong", ["node", "node:", "node:99999", "node:0", "::1:7443", "http://a:1", "a b:1", "x@y:1"]
)
def test_addresses_that_are_none(wrong: str) -> None:
    with pytest.raises(InputError, match=r"must be host:port, with brackets for IPv6"):
        host_and_port(wrong)


def test_addresses() -> None:
    assert host_and_port("node.example:7443") == ("node.example", 7443)
    assert host_and_port("[fe80::1%eth0]:7443") == ("fe80::1%eth0", 7443)
    assert host_and_port("localhost:0", lowest=0) == ("localhost", 0)


def test_a_proxy_is_read_with_care(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"proxy must be http://host:port.*--proxy-login"):
        Proxy.read("http://anna:secret@proxy.example:3128")
    with pytest.raises(InputError, match=r"proxy must be http://host:port"):
        Proxy.read("socks5://proxy.example:1080")
    with pytest.raises(InputError, match=r"must not be open to others.*mode 0644"):
        Proxy.read("http://p:1", login_file(tmp_path, "a:b", 0o644))
    with pytest.raises(InputError, match="no colon"):
        Proxy.read("http://p:1", login_file(tmp_path, "ab"))
    with pytest.raises(InputError, match="must hold one line, and has 2"):
        Proxy.read("http://p:1", login_file(tmp_path, "a:b\nInjected: header"))
    with pytest.raises(InputError, match="cannot be read"):
        Proxy.read("http://p:1", tmp_path / "none")


def test_a_local_socket_leads_into_a_stream_once() -> None:
    async def play() -> None:
        async with serving() as port, as_socket(await dial(f"127.0.0.1:{port}")) as path:
            assert Path(path).parent.stat().st_mode & 0o777 == 0o700
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"abc")
            assert await reader.readexactly(3) == b"abc"
            second, other = await asyncio.open_unix_connection(path)
            assert await second.read() == b""
            await hang_up(other)
            await hang_up(writer)
        assert not Path(path).exists()

    asyncio.run(play())
