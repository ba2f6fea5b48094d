"""Strangers at the port: no certificate, a wrong, expired or self-made one, plaintext, fuzz,
floods. None gets in, none does harm."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import random
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes, serialization

from node_stage import Crowd, introduction, made_identity, signed_by, small_contract
from tacenda.runtime.places import row_forms
from tacenda_node.identity import certificates as identity
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.protocol import frames
from tacenda_node.setup.rehearse import free_ports
from tacenda_node.wire.endpoint import METHOD, MOST_CONNECTIONS

FUZZ = 500
PROTOCOL_START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    """m0, m1 and m2, of whom only m2 runs: it waits for the others, and strangers knock."""
    made = Crowd(
        tmp_path_factory.mktemp("strangers"), small_contract(3, rounds=3), metrics=free_ports(1)[0]
    )
    made.start("m2")
    end = time.monotonic() + 120
    for place in (_address(made), ("127.0.0.1", made.metrics)):
        while True:
            try:
                socket.create_connection(place, 1).close()
                break
            except OSError:
                assert time.monotonic() < end, made.output("m2")
                time.sleep(0.05)
    yield made
    made.stop()


def _address(crowd: Crowd) -> tuple[str, int]:
    host, _, port = crowd.stage.contract.member("m2").address.partition(":")
    return host, int(port)


def _alive(crowd: Crowd) -> bool:
    return bool(crowd.processes["m2"].is_alive())


def _refused(crowd: Crowd) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{crowd.metrics}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return int(float(re.search(r"^tacenda_refused_callers_total (\S+)", text, re.M)[1]))


def _memory(crowd: Crowd) -> int:
    text = Path(f"/proc/{crowd.processes['m2'].pid}/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _talk(
    crowd: Crowd, folder: Path, messages: list[bytes], roots: str | None = None, linger: float = 5.0
) -> Any:
    """Open a stream with the certificate in `folder` and send frames: the answers, or the error.

    Where the server's refusal comes while a frame is written, gRPC may lose its word and report the
    failed write instead: then it is asked again."""
    for _ in range(10):
        answers, error = asyncio.run(_conversation(crowd, folder, messages, roots, linger))
        if answers or "Internal error from Core" not in error:
            break
    return answers, error


def _channel(crowd: Crowd, folder: Path, roots: str | None = None) -> Any:
    key = (folder / identity.TLS_KEY).read_bytes()
    certificate = (folder / identity.CERTIFICATE).read_bytes()
    credentials = grpc.ssl_channel_credentials(
        (roots or crowd.stage.contract.authorities[0]).encode(), key, certificate
    )
    options = (("grpc.ssl_target_name_override", "m2"), ("grpc.use_local_subchannel_pool", 1))
    return grpc.aio.secure_channel(
        crowd.stage.contract.member("m2").address, credentials, options=options
    )


async def _conversation(
    crowd: Crowd, folder: Path, messages: list[bytes], roots: str | None, linger: float
) -> Any:
    async with _channel(crowd, folder, roots) as channel:
        call = channel.stream_stream(METHOD)(timeout=linger)
        answers = []
        try:
            for frame in messages:
                await call.write(frame)
            while isinstance(answer := await call.read(), bytes):
                answers.append(frames.decode(answer, 10**6))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            # a stream that ends while it is written to fails with INTERNAL: the server's own word
            # is the call's status
            return answers, f"{await call.code()} {await call.details()} {error}"
        return answers, str(await call.code())


def _hello(crowd: Crowd, name: str = "m0", **changes: Any) -> bytes:
    contract = crowd.stage.contract
    me = introduction(crowd, name if name in crowd.names else "m0", "m2")
    fields: dict[str, Any] = {
        "protocol": frames.PROTOCOL,
        "sender": name,
        "receiver": "m2",
        "contract": contract.hash(),
        "fields": contract.field_hashes(),
        "done": 0,
        "view": 0,
        "started": False,
        "nonce": bytes(32),
        "latest": (0, 50, 0),
        "me": me,
    }
    return frames.encode(frames.Hello(**{**fields, **changes}))


def test_health_and_metrics_tell_public_facts(crowd: Crowd) -> None:
    base = f"http://127.0.0.1:{crowd.metrics}"
    with urllib.request.urlopen(f"{base}/healthz", timeout=5) as answer:
        assert b"round 0 of 3" in answer.read()
    with urllib.request.urlopen(f"{base}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    assert "tacenda_rounds 3.0" in text
    assert "tacenda_rounds_done 0.0" in text
    assert 'tacenda_peer_connected{peer="m0"} 0.0' in text
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{base}/records", timeout=5)


def test_no_certificate_is_refused_by_tls(crowd: Crowd) -> None:
    context = ssl.create_default_context(cadata=crowd.stage.contract.authorities[0])
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    heard = b""
    with contextlib.suppress(OSError), socket.create_connection(_address(crowd), 5) as raw:
        with context.wrap_socket(raw, server_hostname="m2") as tls:
            tls.sendall(PROTOCOL_START)
            while part := tls.recv(100):
                heard += part
    assert heard == b""
    assert _alive(crowd)
    _wait_for_words(crowd, "PEER_DID_NOT_RETURN_A_CERTIFICATE")


def test_plaintext_learns_nothing(crowd: Crowd) -> None:
    with socket.create_connection(_address(crowd), 5) as raw:
        raw.settimeout(5)
        raw.sendall(b"GET / HTTP/1.1\r\nHost: m2\r\n\r\n")
        answer = b""
        try:
            while part := raw.recv(1000):
                answer += part
        except OSError:
            pass
    assert len(answer) < 64
    assert b"m2" not in answer
    assert b"tacenda" not in answer.lower()
    assert _alive(crowd)
    _wait_for_words(crowd, "HTTP_REQUEST")


def test_a_certificate_of_another_authority_is_refused(crowd: Crowd, tmp_path: Path) -> None:
    made_identity(tmp_path / "m0", "m0", tmp_path / "own-ca")
    answers, error = _talk(crowd, tmp_path / "m0", [_hello(crowd)])
    assert not answers
    assert "UNAVAILABLE" in error


def test_an_expired_certificate_is_refused(crowd: Crowd, tmp_path: Path) -> None:
    """m0's own key, and the right authority, but yesterday."""
    authority = crowd.stage.folder / "authority"
    request = identity.init(tmp_path / "m0", "m0")
    certificate = identity.sign(authority, request, tmp_path / "m0", 1)
    key = serialization.load_pem_private_key(
        (authority / identity.AUTHORITY_KEY).read_bytes(), None
    )
    from cryptography import x509

    builder = (
        x509.CertificateBuilder().subject_name(certificate.subject).issuer_name(certificate.issuer)
    )
    builder = builder.public_key(certificate.public_key()).serial_number(
        x509.random_serial_number()
    )
    now = dt.datetime.now(dt.UTC)
    builder = builder.not_valid_before(now - dt.timedelta(days=3)).not_valid_after(
        now - dt.timedelta(days=1)
    )
    for extension in certificate.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    old = builder.sign(key, hashes.SHA256())
    (tmp_path / "m0" / identity.CERTIFICATE).write_bytes(
        old.public_bytes(serialization.Encoding.PEM)
    )
    answers, error = _talk(crowd, tmp_path / "m0", [_hello(crowd)])
    assert not answers
    assert "UNAVAILABLE" in error
    _wait_for_words(crowd, "CERTIFICATE_VERIFY_FAILED")


def test_the_right_authority_but_not_a_member(crowd: Crowd, tmp_path: Path) -> None:
    authority = crowd.stage.folder / "authority"
    made_identity(tmp_path / "z", "z", authority)
    answers, error = _talk(crowd, tmp_path / "z", [_hello(crowd, "z")])
    assert not answers
    assert "PERMISSION_DENIED" in error
    assert "names no neighbour of this member" in crowd.log("m2")


def test_a_second_certificate_for_a_members_name(crowd: Crowd, tmp_path: Path) -> None:
    """Signed by the right authority for the right name,
    but not the certificate that the contract pins."""
    made_identity(tmp_path / "m0", "m0", crowd.stage.folder / "authority")
    answers, error = _talk(crowd, tmp_path / "m0", [_hello(crowd)])
    assert not answers
    assert "PERMISSION_DENIED" in error
    assert "not the one in the contract" in crowd.log("m2")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([(1, 0)] * 600, "a flood of messages that change nothing"),
        ([(5, 0)], "no member can have reached"),
        ([(1, 1)], "in which the algorithm sends none"),
    ],
    ids=["flood", "ahead", "elsewhere"],
)
def test_a_member_that_lies_is_cut_off(
    crowd: Crowd, messages: list[tuple[int, int]], words: str
) -> None:
    """m1's own certificate, and a program that lies: the stream ends,
    the reason is in the log, the node lives."""
    hello = _hello(crowd, "m1")
    who = identity.Identity.read(crowd.stage.folder / "m1" / "identity")
    sent = max(call for _, call in row_forms(make_plan(crowd.stage.contract).spec))
    made = [frames.rows_frame(0, turn, sent + more, np.ones((1, 4))) for turn, more in messages]
    rows = [
        frames.encode(frames.replaced(row, signature=signed_by(who, crowd.stage.contract, row)))
        for row in made
    ]
    end = time.monotonic() + 20
    while words not in crowd.log("m2"):
        _talk(crowd, crowd.stage.folder / "m1" / "identity", [hello, *rows], linger=3.0)
        assert time.monotonic() < end, crowd.log("m2")[-2000:]
        time.sleep(0.3)
    assert _alive(crowd)


def test_silent_streams_of_one_member_keep_nobody_out(crowd: Crowd) -> None:
    """m0 opens 40 streams over ten connections and says nothing; m1 is welcome all the same, and
    nobody is blamed for it."""

    async def go() -> Any:
        channels = [_channel(crowd, crowd.stage.folder / "m0" / "identity") for _ in range(10)]
        calls = [channel.stream_stream(METHOD)() for channel in channels for _ in range(4)]
        begin = time.monotonic()
        # A newer stream ends the member's oldest
        while await asyncio.to_thread(_refused, crowd) < before + len(calls) - 8:
            assert time.monotonic() < begin + 8, crowd.log("m2")[mark:]
            await asyncio.sleep(0.1)
        for _ in range(20):  # it may still be cut off for what it did in another test
            home = crowd.stage.folder / "m1" / "identity"
            found = await _conversation(crowd, home, [_hello(crowd, "m1")], None, 1.0)
            if found[0]:
                break
            await asyncio.sleep(0.5)
        for channel in channels:
            await channel.close()
        return found

    mark, before = len(crowd.log("m2")), _refused(crowd)
    answers, error = asyncio.run(go())
    assert answers, error
    assert isinstance(answers[0], frames.Welcome)
    assert not [
        line for line in crowd.log("m2")[mark:].splitlines() if '"m1"' in line and "refused" in line
    ]
    assert _alive(crowd)


def test_idle_connections_are_bounded_in_number_and_memory(crowd: Crowd) -> None:
    """900 connections that never speak: not all are taken, what is taken costs little, and a member
    is let in afterwards."""
    before, files = _memory(crowd), Path(f"/proc/{crowd.processes['m2'].pid}/fd")
    with contextlib.ExitStack() as stack:
        for _ in range(900):
            stack.enter_context(socket.create_connection(_address(crowd), 5))
        time.sleep(1.0)
        assert len(list(files.iterdir())) < MOST_CONNECTIONS + 100
        assert _memory(crowd) - before < 60 * 2**20
    end = time.monotonic() + 30
    while not _talk(
        crowd, crowd.stage.folder / "m1" / "identity", [_hello(crowd, "m1")], linger=1.0
    )[0]:
        assert time.monotonic() < end
        time.sleep(0.3)
    assert _alive(crowd)


def test_a_member_with_another_contract_is_told_the_field(crowd: Crowd) -> None:
    fields = {**crowd.stage.contract.field_hashes(), "rounds": "0" * 16}
    home = crowd.stage.folder / "m0" / "identity"
    other = _talk(crowd, home, [_hello(crowd, contract="0" * 64, fields=fields, done=0)])
    assert isinstance(other[0][0], frames.Refusal)
    assert "differ in: rounds" in other[0][0].reason


FALSE_SIGNATURE = "A" * 86 + "=="


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"done": 5}, "shows no message of this node"),
        (
            {"shown": frames.Shown(frames.Claim("m2", 0, 9, 0, bytes(32), FALSE_SIGNATURE))},
            "a message as this node's which",
        ),
        (
            {"shown": frames.Shown(None, frames.Introduction("another", 0, b"", FALSE_SIGNATURE))},
            "a state as this node's which",
        ),
        ({"half": b"1" * 32}, "an introduction that it has not signed"),
    ],
    ids=["far ahead", "a row", "a state", "a half"],
)
def test_one_false_hello_does_not_stop_a_node(
    crowd: Crowd, lie: dict[str, Any], words: str
) -> None:
    """m0's own certificate, and a claim that m2's state was lost: the claim ends the stream, names
    m0, and m2 goes on."""
    mark, end = len(crowd.log("m2")), time.monotonic() + 40
    while words not in crowd.log("m2")[mark:]:  # m0 is cut off for a while after each lie
        _talk(crowd, crowd.stage.folder / "m0" / "identity", [_hello(crowd, **lie)], linger=1.0)
        assert time.monotonic() < end, crowd.log("m2")[mark:]
        time.sleep(0.3)
    assert '"peer": "m0"' in crowd.log("m2")[mark:]
    time.sleep(0.3)
    assert _alive(crowd)
    assert "has itself signed" not in crowd.log("m2")


def test_fuzz_against_the_port(tmp_path: Path) -> None:
    _fuzz(tmp_path, FUZZ)


@pytest.mark.slow
def test_fuzz_against_the_port_at_length(tmp_path: Path) -> None:
    _fuzz(tmp_path, 10_000)


def _fuzz(tmp_path: Path, count: int) -> None:
    """Raw bytes, broken TLS, and broken frames from inside a member's stream; memory stays bounded
    and the node lives."""
    crowd = Crowd(tmp_path, small_contract(3, rounds=3))
    crowd.start("m2")
    try:
        _until_listening(crowd)
        before, rng = _memory(crowd), random.Random(7)
        for k in range(count):
            with socket.socket() as raw:
                raw.settimeout(2)
                raw.connect(_address(crowd))
                start = (b"", PROTOCOL_START, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")[
                    k % 3
                ]
                with contextlib.suppress(OSError):
                    raw.sendall(start + rng.randbytes(rng.randrange(1, 400)))
        home = crowd.stage.folder / "m0" / "identity"
        _fuzz_inside(crowd, home, 3 if count == FUZZ else 5, rng)
        assert _alive(crowd)
        # gRPC's allocator keeps what a burst of handshakes took: 117 MiB after 40,000 of them, and
        # no more after that.
        assert _memory(crowd) - before < 200 * 2**20
        crowd.start("m0", "m1")
        if crowd.wait(90, ["m0"]) == {"m0": 0}:
            crowd.finish(90)
        else:
            # The fuzzer had m0's key, and m2 took one of its greetings for m0's: a state of m0's
            # that m0 does not have. It must not go on.
            assert "has itself signed another state (m2 shows it)" in crowd.output("m0")
            assert _alive(crowd)
    finally:
        crowd.stop()


def _fuzz_inside(crowd: Crowd, home: Path, count: int, rng: random.Random) -> None:
    """A member whose program went mad: each stream is cut off at its first bad frame,
    and the ban grows."""
    hello, rows = _hello(crowd), frames.encode(frames.Rows(0, 1, 0, "f8", (1, 4), bytes(32)))
    for kind in range(count):
        bad = bytearray(hello if kind < 2 else rows)
        bad[rng.randrange(len(bad))] ^= 0xFF
        messages = [
            [bytes(bad)],
            [hello, rng.randbytes(300)],
            [hello, b"\0" * (1 << 20)],
            [hello, hello],
            [bytes(bad), bytes(bad)],
        ][kind]
        _talk(crowd, home, messages, linger=1.0)


def _wait_for_words(crowd: Crowd, words: str, since: int = 0) -> None:
    """The reason is in the node's log, a moment later."""
    end = time.monotonic() + 10
    while words not in crowd.log("m2")[since:]:
        assert time.monotonic() < end, crowd.log("m2")
        time.sleep(0.05)


def _until_listening(crowd: Crowd) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(_address(crowd), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
