"""A small web server for what a node tells about itself: a closed list of paths, answers only.

Nothing is written, no path of a file is ever made from a request, and a caller that is slow or one
of too many is dropped.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, Self

from tacenda.addresses import split_address
from tacenda.errors import InputError, NetworkError

MOST_CALLERS = 32
MOST_OF_ONE_ADDRESS = 24  # so that one machine does not take the places of a supervisor elsewhere
CALLER_SECONDS = 10.0  # for the whole conversation, however slowly it goes on
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Answer:
    """What a path answers."""

    body: bytes
    kind: str = "text/plain; charset=utf-8"
    code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[Mapping[str, str]], Answer]  # from the request's headers


def parse_address(text: str, option: str) -> tuple[str, int]:
    """(host, port) of "host:port" or "[host]:port"; a port alone is one of 127.0.0.1."""
    found = split_address(f"{LOOPBACK}:{text}" if text.isdecimal() else text)
    if found is None:
        raise InputError(
            f"{option} must be a port, or host:port for other machines to see it, not {text!r}."
        )
    return found


class WebServer:
    """`with WebServer(...)`: answers `routes` in threads of its own; port 0 takes a free one.

    check: may refuse a request by its headers, before any path is looked at.
    """

    def __init__(
        self,
        host: str,
        port: int,
        option: str,
        routes: Mapping[str, Route],
        check: Callable[[Mapping[str, str]], Answer | None] | None = None,
    ) -> None:
        try:
            self._server = _Server(host, port, _handler(routes, check))
        except OSError as taken:
            raise NetworkError(
                f"{option} {host}:{port} cannot be used ({taken.strerror}); choose another, "
                "or leave it out."
            ) from None
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, name=f"tacenda-web-{self.port}", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(MOST_CALLERS)
        self._mutex, self._here = threading.Lock(), Counter[str]()
        super().__init__((host, port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        host = str(client_address[0])
        with self._mutex:
            there = self._here[host] < MOST_OF_ONE_ADDRESS and self._places.acquire(blocking=False)
            self._here[host] += there
        if there:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        over = threading.Timer(CALLER_SECONDS, _cut, [request])
        over.daemon = True
        over.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            over.cancel()
            with self._mutex:
                self._here[str(client_address[0])] -= 1
                self._here += Counter()  # without those of whom nothing is left
                self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that went away in the middle of its answer is no news."""


def _cut(request: socket.socket) -> None:
    """End a conversation whose time is over: its thread finds the stream closed."""
    with contextlib.suppress(OSError):  # it has gone by itself
        request.shutdown(socket.SHUT_RDWR)


def _handler(
    routes: Mapping[str, Route], check: Callable[[Mapping[str, str]], Answer | None] | None
) -> type[BaseHTTPRequestHandler]:
    paths = ", ".join(sorted(routes))

    class Handler(BaseHTTPRequestHandler):
        timeout = CALLER_SECONDS
        server_version, sys_version = "tacenda", ""

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            refused = None if check is None else check(headers)
            route = routes.get(self.path.partition("?")[0])
            if refused is not None:
                self._send(refused)
            elif route is None:
                self._send(Answer(f"only {paths} are here\n".encode(), code=404))
            else:
                self._send(route(headers))

        def do_HEAD(self) -> None:
            self.do_GET()

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.code)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """The access log would only repeat the scraper's clock."""

    return Handler
