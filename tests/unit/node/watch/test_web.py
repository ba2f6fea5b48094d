"""The small web server: a closed list of paths, and no caller can hold it up."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import NetworkError
from tacenda_node.watch import web
from tacenda_node.watch.dashboard.page import _check_host
from tacenda_node.watch.web import MOST_CALLERS, Answer, WebServer


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    with WebServer("127.0.0.1", 0, "--x", {"/a": lambda _: Answer(b"yes")}) as made:
        yield made


def _ask(server: WebServer, method: str, path: str) -> tuple[int, bytes]:
    call = http.client.HTTPConnection(server.host, server.port, timeout=10)
    try:
        call.request(method, path)
        answer = call.getresponse()
        return answer.status, answer.read()
    finally:
        call.close()


def _tried(server: WebServer) -> int | None:
    try:
        return _ask(server, "GET", "/a")[0]
    except (ConnectionError, http.client.HTTPException):
        return None


def test_only_its_paths_are_answered_and_nothing_is_taken(server: WebServer) -> None:
    assert _ask(server, "GET", "/a") == (200, b"yes")
    assert _ask(server, "GET", "/a?b=c") == (200, b"yes")
    assert _ask(server, "HEAD", "/a") == (200, b"")
    for path in ("/", "/A", "/a/", "/../a", "/etc/passwd"):
        assert _ask(server, "GET", path)[0] == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert _ask(server, method, "/a")[0] == 501, method


def test_silent_callers_are_dropped_beyond_a_number(server: WebServer) -> None:
    held = [socket.create_connection((server.host, server.port), 5) for _ in range(MOST_CALLERS)]
    try:
        # One place may not be taken yet
        assert None in [_tried(server) for _ in range(3)]
    finally:
        for caller in held:
            caller.close()
    end = time.monotonic() + 10
    while _tried(server) != 200:
        assert time.monotonic() < end, "the places of callers that have gone were not given back"


def test_a_taken_port_is_named(server: WebServer) -> None:
    with pytest.raises(NetworkError, match=f"--x 127.0.0.1:{server.port} cannot be used"):
        WebServer("127.0.0.1", server.port, "--x", {})


def test_a_slow_caller_has_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that says something now and then, and so never keeps the server waiting for long."""
    assert web._handler({}, None).timeout == web.CALLER_SECONDS <= 10
    monkeypatch.setattr(web, "CALLER_SECONDS", 0.3)
    with (
        WebServer("127.0.0.1", 0, "--x", {}) as made,
        socket.create_connection((made.host, made.port), 5) as caller,
    ):
        begin = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - begin < 5:
                caller.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() - begin < 3


def test_one_address_leaves_places_for_others() -> None:
    assert web.MOST_OF_ONE_ADDRESS < MOST_CALLERS


@given(st.text(max_size=40))
def test_no_name_below_another_domain_is_this_machine(text: str) -> None:
    assert _check_host({"host": f"{text}.example"}) is not None
    assert _check_host({"host": f"{text}.example:8080"}) is not None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "evil.example:127.0.0.1",
        "127.0.0.1@evil.example",
        "evil.example#localhost",
        "127.0.0.2",
        "[::2]",
        "",
    ],
)
def test_other_names_are_refused(host: str) -> None:
    refused = _check_host({"host": host})
    assert refused is not None
    assert refused.code == 421
