"""Network namespaces for a rehearsal: every member on a machine of its own, as far as the network
can tell (Linux, root).

Each member's process lives in its own namespace with one address, joined to the others by a bridge;
nothing else of this machine's network is reachable from there. `delay_ms` adds a delay to every
packet, as a real network would.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from types import TracebackType

from tacenda.errors import InputError

NET = "10.77.{}.{}"


def available() -> bool:
    """Whether this machine lets us make namespaces, bridges and joined devices."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"tc{secrets.token_hex(3)}"
    made = (
        subprocess.run(
            ["ip", "link", "add", name, "type", "bridge"], capture_output=True, check=False
        ).returncode
        == 0
    )
    if made:
        subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)
    space = (
        subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode
        == 0
    )
    if space:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made and space


class Namespaces:
    """`with Namespaces(names) as spaces:` then `spaces.address(name)`
    and `spaces.prefix(name)` for command lines."""

    def __init__(self, names: list[str], delay_ms: float = 0.0) -> None:
        if len(names) > 250:
            raise InputError(
                f"a rehearsal in namespaces takes at most 250 members, not {len(names)}; "
                "run it without them."
            )
        self._names, self._delay, self._mark = names, delay_ms, secrets.token_hex(3)
        self._part = int(self._mark[:2], 16)
        self._bridge = f"tc{self._mark}b"

    def address(self, name: str) -> str:
        """The member's own address."""
        return NET.format(self._part, self._names.index(name) + 1)

    def prefix(self, name: str) -> list[str]:
        """What stands before a command that is to run at this member's place."""
        return ["ip", "netns", "exec", self._space(name)]

    def _space(self, name: str) -> str:
        return f"tc{self._mark}n{self._names.index(name)}"

    def __enter__(self) -> Namespaces:
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("link", "set", self._bridge, "up")
            for k, name in enumerate(self._names):
                self._join(k, name)
        except subprocess.CalledProcessError as failed:
            self._remove()
            raise InputError(
                "network namespaces cannot be made here "
                f"({failed.stderr.decode(errors='replace').strip()}); rehearse without them."
            ) from None
        return self

    def _join(self, k: int, name: str) -> None:
        """A pair of joined devices: one end at the bridge,
        the other inside with the member's address."""
        outer, inner, space = f"tc{self._mark}o{k}", f"tc{self._mark}i{k}", self._space(name)
        _ip("netns", "add", space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        _ip("link", "set", inner, "netns", space)
        _ip("link", "set", outer, "master", self._bridge)
        _ip("link", "set", outer, "up")
        _ip("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", inner)
        _ip("-n", space, "link", "set", inner, "up")
        _ip("-n", space, "link", "set", "lo", "up")
        if self._delay:
            command = [
                "tc",
                "qdisc",
                "add",
                "dev",
                inner,
                "root",
                "netem",
                "delay",
                f"{self._delay}ms",
            ]
            subprocess.run([*self.prefix(name), *command], check=True, capture_output=True)

    def _remove(self) -> None:
        for name in self._names:
            subprocess.run(
                ["ip", "netns", "del", self._space(name)], capture_output=True, check=False
            )
        for k in range(len(self._names)):
            subprocess.run(
                ["ip", "link", "del", f"tc{self._mark}o{k}"], capture_output=True, check=False
            )
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
