"""Reasons of failed TLS handshakes, for the log: gRPC tells them on standard error only, so that is
listened to.

For the node's own process: standard error goes through a pipe, gRPC's lines about handshakes become
log entries (at most one a second for each reason, with a count), its other lines are dropped, and
everything else passes through.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any

VERBOSITY = "GRPC_VERBOSITY"  # must be INFO before gRPC is first imported
_GRPC_LINE = re.compile(rb"^[IWEF]\d{4} [\d:.]+ +\d+ [\w./]+:\d+\] ")
_HANDSHAKE = re.compile(rb"Handshake failed with error ([^\r\n]*)")


class TlsLog:
    """`with TlsLog(log):` around a node's life.

    pass_on: may take a line of standard error that is not gRPC's (True); otherwise it goes to where
    standard error went before.
    """

    def __init__(self, log: Any, pass_on: Callable[[bytes], bool] | None = None) -> None:
        self._log, self._pass_on = log, pass_on
        self._told: dict[str, float] = {}
        self.count = 0

    def __enter__(self) -> TlsLog:
        self._real = os.dup(2)
        read, write = os.pipe()
        os.dup2(write, 2)
        os.close(write)
        self._thread = threading.Thread(
            target=self._listen, args=(read,), name="tacenda-tls-log", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._real, 2)  # closes the pipe's last writer, so the listener ends
        self._thread.join(2)
        os.close(self._real)

    def _listen(self, read: int) -> None:
        with os.fdopen(read, "rb") as pipe:
            for line in pipe:
                self.hear(line)

    def hear(self, line: bytes) -> None:
        """One line of standard error."""
        if not _GRPC_LINE.match(line):
            if self._pass_on is None or not self._pass_on(line):
                os.write(self._real, line)
            return
        found = _HANDSHAKE.search(line)
        if not found:
            return
        self.count += 1
        text = found.group(1).decode("ascii", "replace")
        reason = text.split("OPENSSL_internal:")[-1].split(":")[0][:100]
        if time.monotonic() - self._told.get(reason, -1.0) >= 1.0 and len(self._told) < 200:
            self._told[reason] = time.monotonic()
            self._log.warning("stranger refused by TLS", reason=reason, so_far=self.count)
