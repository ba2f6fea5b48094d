"""Health and metrics on a local port: /healthz answers in words, /metrics in Prometheus' text form.
Public facts only."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tacenda.errors import NetworkError


class Monitor:
    """A small web server on 127.0.0.1; port 0 takes a free one."""

    def __init__(self, port: int, display: Any) -> None:
        from prometheus_client import CollectorRegistry

        self._registry = CollectorRegistry()
        self._registry.register(_Numbers(display))
        try:
            self._server = ThreadingHTTPServer(
                ("127.0.0.1", port), _handler(display, self._registry)
            )
        except OSError as taken:
            raise NetworkError(
                f"metrics_port {port} cannot be used ({taken.strerror}); choose another, "
                "or leave it out."
            ) from None
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="tacenda-health", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Numbers:
    """Collected when asked, so nothing is counted twice."""

    def __init__(self, display: Any) -> None:
        self._display = display

    def collect(self) -> Any:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        display, endpoint = self._display, self._display.endpoint
        yield GaugeMetricFamily("tacenda_round", "Rounds done", value=display.done)
        yield GaugeMetricFamily("tacenda_rounds", "Rounds of the run", value=display.total)
        yield GaugeMetricFamily(
            "tacenda_budget_share", "Share of the run's releases made", value=display.spent_share()
        )
        yield CounterMetricFamily(
            "tacenda_wait_seconds", "Seconds spent waiting for peers", value=display.wait_seconds
        )
        yield CounterMetricFamily(
            "tacenda_write_seconds", "Seconds spent on durable writes", value=display.write_seconds
        )
        yield CounterMetricFamily("tacenda_refused", "Callers refused", value=endpoint.refused)
        connected = GaugeMetricFamily(
            "tacenda_peer_connected", "Whether a peer is connected", labels=["peer"]
        )
        strikes = CounterMetricFamily(
            "tacenda_peer_strikes", "Times a peer was cut off", labels=["peer"]
        )
        for link in list(endpoint.links.values()):
            connected.add_metric([link.peer], float(link.connected))
            strikes.add_metric([link.peer], link.strikes)
        yield connected
        yield strikes


def _handler(display: Any, registry: Any) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            from prometheus_client import generate_latest

            if self.path == "/metrics":
                self._answer(200, generate_latest(registry), "text/plain; version=0.0.4")
            elif self.path == "/healthz":
                self._answer(200, display.line().encode(), "text/plain")
            else:
                self._answer(404, b"only /healthz and /metrics are here", "text/plain")

        def _answer(self, code: int, body: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The access log would only repeat the scraper's clock."""

    return Handler
