"""A TCP proxy between two members that breaks things on purpose: resets, pauses, changed, doubled
and swapped bytes."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from typing import Any


def between(crowd: Any) -> dict[tuple[str, str], ChaosProxy]:
    """A proxy on every edge; the earlier member calls the later one."""
    proxies = {}
    for a, b in crowd.stage.contract.edges:
        caller, listener = sorted((a, b), key=crowd.stage.contract.position)
        proxy = proxies[caller, listener] = ChaosProxy(
            crowd.stage.contract.member(listener).address, len(proxies)
        )
        crowd.addresses.setdefault(caller, {})[listener] = proxy.address
    return proxies


class ChaosProxy:
    """Listens on a free local port and passes bytes to `target`;
    `fault` names what happens to the next bytes."""

    def __init__(self, target: str, seed: int) -> None:
        host, _, port = target.rpartition(":")
        self._target, self._rng = (host, int(port)), random.Random(seed)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._fault, self._closed, self._cut = "", False, False
        threading.Thread(target=self._accept, daemon=True).start()

    def strike(self, fault: str) -> None:
        """drop, delay, corrupt, double or swap."""
        if fault == "drop":
            for pair in self._pairs:
                _close(pair)
        else:
            self._fault = fault

    def cut(self, cut: bool = True) -> None:
        """Let nothing through any more, or let connections through again."""
        self._cut = cut
        if cut:
            self.strike("drop")

    def close(self) -> None:
        self._closed = True
        self._server.close()
        for pair in self._pairs:
            _close(pair)

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if self._cut:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target, 5)
            except OSError:
                near.close()
                continue
            pair = (near, far)
            self._pairs = [*self._pairs[-8:], pair]
            if self._cut:  # meanwhile
                _close(pair)
            for a, b in (pair, pair[::-1]):
                threading.Thread(target=self._pump, args=(a, b, pair), daemon=True).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, pair: tuple[socket.socket, socket.socket]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(self._broken(data))
        _close(pair)

    def _broken(self, data: bytes) -> bytes:
        fault, self._fault = self._fault, ""
        if fault == "delay":
            time.sleep(0.3)
        elif fault == "corrupt":
            place = self._rng.randrange(len(data))
            return data[:place] + bytes([data[place] ^ 0x5A]) + data[place + 1 :]
        elif fault == "double":
            return data + data
        elif fault == "swap":
            half = len(data) // 2
            return data[half:] + data[:half]
        return data


def _close(pair: tuple[socket.socket, socket.socket]) -> None:
    for one in pair:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
