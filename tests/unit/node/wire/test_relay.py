"""A relay joins two callers of one room, and nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tacenda.errors import InputError, NetworkError
from tacenda_node.wire.proxy import read_secret
from tacenda_node.wire.relay import Limits, Relay
from tacenda_node.wire.relay_files import RelayFiles, make_certificate, token_of
from tacenda_node.wire.rooms import (
    CALLS,
    CHALLENGE,
    PATH,
    WAITS,
    Token,
    WebPipe,
    enter,
    greeted,
    room_of,
)
from tacenda_node.wire.streams import Listener, Stream

ROOM = room_of("run", "m0", "m1")
with tempfile.TemporaryDirectory() as _folder:
    TOKEN, TLS = RelayFiles(Path(_folder) / "relay.token").ready(print, plain=False)
SECRET = TOKEN.secret
QUICK = Limits(call_seconds=0.3, sign_seconds=0.1)


def with_relay(
    scene: Callable[[Relay, str], Awaitable[None]], limits: Limits = QUICK
) -> tuple[Relay, list[str]]:
    told: list[str] = []

    async def play() -> Relay:
        relay = Relay(TOKEN, limits, told.append, TLS)
        await relay.start("127.0.0.1:0")
        try:
            async with asyncio.timeout(10):
                await scene(relay, f"127.0.0.1:{relay.port}")
        finally:
            await relay.stop()
        return relay

    return asyncio.run(play()), told


async def come(at: str, role: bytes, room: bytes = ROOM, token: Token | None = None) -> WebPipe:
    return await enter(at, token or TOKEN, role, room, None, 5.0)


async def exactly(pipe: WebPipe, size: int) -> bytes:
    found = b""
    while len(found) < size and (data := await pipe.read()):
        found += data
    return found


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def bare(port: int) -> ClientConnection:
    """A caller that speaks WebSocket, and no more of this protocol than it is told here."""
    return await connect(f"wss://127.0.0.1:{port}{PATH}", ssl=_trusting(), proxy=None)


def test_two_of_one_room_are_joined_byte_by_byte() -> None:
    async def scene(relay: Relay, at: str) -> None:
        for first, second in ((WAITS, CALLS), (CALLS, WAITS)):
            one, two = await asyncio.gather(come(at, first), come(at, second))
            for sender, receiver in ((one, two), (two, one)):
                data = bytes(range(256)) * 1000
                await asyncio.gather(sender.write(data), exactly(receiver, len(data)))
                await sender.write(b"end")
                assert await receiver.read() == b"end"
            await one.close()
            assert await two.read() == b""  # the pair ends together
            await two.close()

    relay, _ = with_relay(scene)
    assert relay.joined == 2
    assert relay.bytes == 4 * 256_003
    assert not relay._rooms  # nothing stays behind


def test_other_rooms_and_equal_roles_do_not_meet() -> None:
    async def scene(relay: Relay, at: str) -> None:
        others = [room_of("run", "m1", "m0"), room_of("other", "m0", "m1")]
        waiting = [asyncio.ensure_future(come(at, WAITS, room)) for room in others]
        with pytest.raises(NetworkError, match="no node waits there"):
            await come(at, CALLS)
        results = await asyncio.gather(come(at, CALLS), come(at, CALLS), return_exceptions=True)
        assert all(isinstance(r, NetworkError) for r in results)
        for task in waiting:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    relay, _ = with_relay(scene)
    assert relay.joined == 0


def test_another_token_is_refused_and_told() -> None:
    async def scene(relay: Relay, at: str) -> None:
        with pytest.raises(NetworkError, match="token is another one"):
            await come(at, CALLS, token=Token("not-that-one,-but-quite-as-long", TOKEN.pin))
        # What one caller said opens no second stream: the challenge is another one each time
        seen = set()
        for _ in range(2):
            web = await bare(relay.port)
            seen.add(await web.recv())
            await web.close()
        assert len(seen) == 2 and {len(one) for one in seen} == {CHALLENGE}

    relay, told = with_relay(scene)
    assert relay.refused == 1
    assert "token" in told[0]


def test_the_number_of_connections_is_bounded_and_freed() -> None:
    async def scene(relay: Relay, at: str) -> None:
        held = [asyncio.ensure_future(come(at, WAITS, bytes([k]) * 32)) for k in range(4)]
        while relay.connections < 4:
            await asyncio.sleep(0.01)
        with pytest.raises(NetworkError, match="the relay has too many callers"):
            await come(at, CALLS)
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        while relay.connections:  # found at the next sign of life
            await asyncio.sleep(0.02)

    with_relay(scene, Limits(of_one_address=4, sign_seconds=0.05))


def test_the_newest_of_several_that_wait_is_called_and_dead_ones_are_passed_over() -> None:
    async def scene(relay: Relay, at: str) -> None:
        tasks = []
        for k in range(3):
            tasks.append(asyncio.ensure_future(come(at, WAITS)))
            while relay.connections <= k and not tasks[0].done():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
        with pytest.raises(NetworkError, match="newer stream"):
            await tasks[0]
        tasks[2].cancel()  # the newest dies
        await asyncio.gather(tasks[2], return_exceptions=True)
        await asyncio.sleep(0.05)
        caller, waiter = await asyncio.gather(come(at, CALLS), tasks[1])
        await caller.write(b"x")
        assert await waiter.read() == b"x"
        await caller.close()
        await waiter.close()

    with_relay(scene, Limits(sign_seconds=5.0, call_seconds=2.0))


def test_a_silent_pair_is_parted_and_speed_is_bounded() -> None:
    async def scene(relay: Relay, at: str) -> None:
        one, two = await asyncio.gather(come(at, WAITS), come(at, CALLS))
        begin = time.monotonic()
        await one.write(bytes(60_000))
        await exactly(two, 60_000)
        assert time.monotonic() - begin > 0.25  # 60 kB at 200 kB a second
        assert await two.read() == b""
        assert 0.5 < time.monotonic() - begin < 5
        await one.close()
        await two.close()

    with_relay(scene, Limits(bytes_per_second=200_000, idle_seconds=0.4))


def test_rubbish_and_silence_end_in_nothing() -> None:
    async def scene(relay: Relay, at: str) -> None:
        for said in (b"GET / HTTP/1.1\r\n" + bytes(100), b"", b"W" + bytes(64), b"X" + bytes(64)):
            web = await bare(relay.port)
            assert len(await web.recv()) == CHALLENGE
            if said:
                await web.send(said)
            with contextlib.suppress(ConnectionClosed):
                assert await web.recv() == b"NT"
                await web.recv()
            await web.wait_closed()
        with pytest.raises(InvalidStatus, match="404"):
            await connect(f"wss://127.0.0.1:{relay.port}/", ssl=_trusting(), proxy=None)
        for said in (b"no TLS at all\r\n\r\n", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(said)
            assert len(await reader.read()) < CHALLENGE  # at most an alert of TLS
            writer.close()
        while relay.connections:
            await asyncio.sleep(0.01)

    relay, told = with_relay(scene, Limits(hello_seconds=0.5))
    assert relay.joined == 0
    assert 1 <= len(told) < 3  # a line at most every second


def test_something_else_than_a_relay_is_named(tmp_path: Path) -> None:
    async def play() -> None:
        async def mail(stream: Stream) -> None:
            await stream.write(b"220 mail.example ready, and then some more words to fill it\r\n")

        async def site(stream: Stream) -> None:
            await stream.reader.readuntil(b"\r\n\r\n")
            await stream.write(answer)

        for serve, tls, words in (
            (mail, None, "cannot be reached"),
            (mail, TLS, "it answers in another protocol"),
            (site, TLS, f"knows no {PATH}"),
            (site, TLS, "does not reach its relay"),
            (site, TLS, "it answers 302, not as a relay"),  # and nobody follows
        ):
            code = {"knows": 404, "does": 502}.get(words.split(" ")[0], 302)
            answer = f"HTTP/1.1 {code} x\r\nLocation: https://127.0.0.1:9/\r\n".encode()
            answer += b"Content-Length: 0\r\n\r\n"
            listener = Listener(serve)
            port = await listener.start("127.0.0.1", 0, tls)
            with pytest.raises(NetworkError, match=words):
                await come(f"127.0.0.1:{port}", CALLS)
            await listener.stop()

    asyncio.run(play())


def test_a_certificate_must_be_ordinary_or_the_one_of_the_token_file(tmp_path: Path) -> None:
    async def scene(relay: Relay, at: str) -> None:
        with pytest.raises(NetworkError, match=r"not trusted here \(self.signed certificate\)"):
            await come(at, CALLS, token=Token(SECRET))
        with pytest.raises(NetworkError, match="another certificate than its token file names"):
            await come(at, CALLS, token=Token(SECRET, "0" * 64))
        assert await asyncio.to_thread(greeted, at, TOKEN, None) == ""

    relay, _ = with_relay(scene)
    assert relay.refused == 0


def test_behind_a_web_server_callers_are_counted_by_where_they_come_from() -> None:
    """The last address of the header is what the server in front saw; those before it anybody
    may write."""
    answers = []

    async def play() -> None:
        relay = Relay(TOKEN, Limits(of_one_address=1), lambda _: None, None)
        await relay.start("127.0.0.1:0")
        webs = []
        for passed in ("192.0.2.1", "192.0.2.2", "192.0.2.9, 192.0.2.1"):
            try:
                webs.append(
                    await connect(
                        f"ws://127.0.0.1:{relay.port}{PATH}",
                        additional_headers={"X-Forwarded-For": passed},
                        proxy=None,
                    )
                )
                answers.append(101)
            except InvalidStatus as answer:
                answers.append(answer.response.status_code)
        for web in webs:
            await web.close()
        await relay.stop()

    asyncio.run(play())
    assert answers == [101, 101, 503]


def test_a_renewed_certificate_is_taken_up(tmp_path: Path) -> None:
    files = RelayFiles(tmp_path / "t", tmp_path / "a.crt", tmp_path / "a.key")
    make_certificate(tmp_path / "a.crt", tmp_path / "a.key")
    told: list[str] = []
    token, tls = files.ready(told.append, plain=False)
    assert tls is not None and not token.pin and not told
    files.renew(tls, told.append)
    assert not told
    make_certificate(tmp_path / "a.crt", tmp_path / "a.key")
    os.utime(tmp_path / "a.crt", (1, 1))
    files.renew(tls, told.append)
    assert told == ["the renewed certificate is in use."]
    (tmp_path / "a.key").unlink()
    files.renew(tls, told.append)
    assert "the former one stays" in told[1]


def test_a_token_file_is_made_once_and_must_be_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = token_of(path)
    assert len(token.secret) >= 40
    assert token_of(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(InputError, match="mode 0644; run chmod 600"):
        token_of(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(InputError, match="has 5 characters"):
        token_of(path)
    path.write_text("two words\n")
    with pytest.raises(InputError, match="is one word"):
        token_of(path)


def test_the_token_file_names_the_certificate_that_the_relay_made(tmp_path: Path) -> None:
    path, told = tmp_path / "relay.token", list[str]()
    own = RelayFiles(path)
    token, _ = own.ready(told.append, plain=False)
    assert len(token.pin) == 64 and not told
    assert own.ready(told.append, plain=False)[0] == token
    assert Token.read(read_secret(path, "")) == token
    behind, tls = own.ready(told.append, plain=True)
    assert behind == Token(token.secret) and tls is None
    assert "give it to all members again" in told[0]
    with pytest.raises(InputError, match="belong together"):
        RelayFiles(path, tmp_path / "a.crt")


def test_rooms_of_other_runs_and_edges_have_other_names() -> None:
    names = {
        room_of(*words)
        for words in (
            ("run", "a", "b"),
            ("run", "b", "a"),
            ("run2", "a", "b"),
            ("run", "ab", ""),
            ("run", "", "ab"),
        )
    }
    assert len(names) == 5
