"""A relay joins two callers of one room, and nobody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tacenda.errors import InputError, NetworkError
from tacenda_node.wire.relay import CALLS, GREETING, WAITS, Limits, Relay, enter, room_of, token_of
from tacenda_node.wire.streams import Listener, Stream, hang_up

TOKEN = "a token of more than twenty characters"
ROOM = room_of("run", "m0", "m1")
QUICK = Limits(call_seconds=0.3, sign_seconds=0.1)


def with_relay(
    scene: Callable[[Relay, str], Awaitable[None]], limits: Limits = QUICK
) -> tuple[Relay, list[str]]:
    told: list[str] = []

    async def play() -> Relay:
        relay = Relay(TOKEN, limits, told.append)
        await relay.start("127.0.0.1:0")
        try:
            async with asyncio.timeout(10):
                await scene(relay, f"127.0.0.1:{relay.port}")
        finally:
            await relay.stop()
        return relay

    return asyncio.run(play()), told


async def come(at: str, role: bytes, room: bytes = ROOM, token: str = TOKEN):
    return await enter(at, token, role, room, None, 5.0)


def test_two_of_one_room_are_joined_byte_by_byte() -> None:
    async def scene(relay: Relay, at: str) -> None:
        for first, second in ((WAITS, CALLS), (CALLS, WAITS)):
            one, two = await asyncio.gather(come(at, first), come(at, second))
            for sender, receiver in ((one, two), (two, one)):
                data = bytes(range(256)) * 1000
                sender[1].write(data)
                assert await receiver[0].readexactly(len(data)) == data
            await hang_up(one[1])
            assert await two[0].read() == b""  # the pair ends together
            await hang_up(two[1])

    relay, _ = with_relay(scene)
    assert relay.joined == 2
    assert relay.bytes == 4 * 256_000
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
            await come(at, CALLS, token="not that one, but quite as long")
        # What one caller said opens no second stream: the greeting is another one each time
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        first = await reader.readexactly(len(GREETING) + 32)
        await hang_up(writer)
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        assert await reader.readexactly(len(GREETING) + 32) != first
        await hang_up(writer)

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
        caller[1].write(b"x")
        assert await waiter[0].readexactly(1) == b"x"
        await hang_up(caller[1])
        await hang_up(waiter[1])

    with_relay(scene, Limits(sign_seconds=5.0, call_seconds=2.0))


def test_a_silent_pair_is_parted_and_speed_is_bounded() -> None:
    async def scene(relay: Relay, at: str) -> None:
        one, two = await asyncio.gather(come(at, WAITS), come(at, CALLS))
        begin = time.monotonic()
        one[1].write(bytes(60_000))
        await two[0].readexactly(60_000)
        assert time.monotonic() - begin > 0.25  # 60 kB at 200 kB a second
        assert await two[0].read() == b""
        assert 0.5 < time.monotonic() - begin < 5
        await hang_up(one[1])
        await hang_up(two[1])

    with_relay(scene, Limits(bytes_per_second=200_000, idle_seconds=0.4))


def test_rubbish_and_silence_end_in_nothing() -> None:
    async def scene(relay: Relay, at: str) -> None:
        for said in (b"GET / HTTP/1.1\r\n" + bytes(100), b"", b"W" + bytes(64), b"X" + bytes(64)):
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(said)
            answer = await reader.read()
            assert answer.startswith(GREETING)
            assert answer[len(GREETING) + 32 :] in (b"NT", b"")
            await hang_up(writer)

    relay, _ = with_relay(scene, Limits(hello_seconds=0.2))
    assert relay.joined == 0
    assert relay.connections == 0


def test_something_else_than_a_relay_is_named() -> None:
    async def play() -> None:
        async def other(stream: Stream) -> None:
            stream[1].write(b"220 mail.example ready, and then some more words to fill it\r\n")

        listener = Listener(other)
        port = await listener.start("127.0.0.1", 0)
        with pytest.raises(NetworkError, match="no relay at"):
            await come(f"127.0.0.1:{port}", CALLS)
        await listener.stop()

    asyncio.run(play())


def test_a_token_file_is_made_once_and_must_be_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = token_of(path)
    assert len(token) >= 40
    assert token_of(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(InputError, match="mode 0644; run chmod 600"):
        token_of(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(InputError, match="has 5 characters"):
        token_of(path)


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
