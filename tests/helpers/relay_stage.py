"""A relay as a process, and members that nobody can call."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from node_stage import Crowd, small_contract
from tacenda_node.setup.rehearse import free_ports
from tacenda_node.wire.relay_files import RelayFiles
from tacenda_node.wire.rooms import WAITS, Token, enter


class RelayProcess:
    """`tacenda relay` as a process, which may be killed and started again on its port."""

    def __init__(self, folder: Path, *limits: str, plain: bool = False) -> None:
        self._limits = limits
        self.token, self._log = folder / "relay.token", folder / "relay.txt"
        RelayFiles(self.token).ready(print, plain=plain)
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.start()

    def start(self) -> None:
        words = ["relay", "--listen", self.address, "--token-file", str(self.token)]
        words += self._limits
        with open(self._log, "ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tacenda_node", *words], stdout=out, stderr=out
            )

    def stop(self, number: int = signal.SIGKILL) -> int:
        self._process.send_signal(number)
        return self._process.wait(20)

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8")


def behind_firewalls(folder: Path, at: str, token: Path, n: int, rounds: int, **more: Any) -> Crowd:
    """A federation none of whose members listens on any port."""
    crowd = Crowd(folder / "crowd", small_contract(n, rounds=rounds), seed=3, **more)
    through = f"relay://{at}"
    for name in crowd.names:
        crowd.options[name] = {"bind": through, "relay_token": token}
        crowd.addresses[name] = {other: through for other in crowd.names if other != name}
    return crowd


def take_places(at: str, token: Token, places: int) -> None:
    """Wait in so many rooms of a relay, where nobody comes, until this process is killed."""

    async def wait() -> None:
        rooms = [k.to_bytes(32, "big") for k in range(places)]
        await asyncio.gather(*(enter(at, token, WAITS, room, None, 30.0) for room in rooms))

    asyncio.run(wait())
