"""What `tacenda node serve` does about proposals: takes them between runs, shows them to the
others, and accepts those that the officer's policy lets it accept by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tacenda.addresses import host_and_port
from tacenda.errors import InputError, TacendaError
from tacenda_node.identity import contract_files
from tacenda_node.identity.addresses import RELAY
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.operate.policy import PolicyFile
from tacenda_node.operate.settings import NodeSettings, read_settings
from tacenda_node.proposals.box import Box, Kept, in_force
from tacenda_node.proposals.post import Post, call_all
from tacenda_node.proposals.proposal import NEXT, WITH
from tacenda_node.wire.proxy import Proxy

CALL_SECONDS = 20.0  # between calls to all others


class Courier:
    """`look(busy)` now and then, `make_room(ports)` before a run listens, `close()`.

    accepted: told of each proposal that was accepted by policy, or before, on the command line.
    """

    def __init__(
        self, home: Path, accepted: Callable[[Kept], None], say: Callable[[str], None]
    ) -> None:
        self._home, self._accepted, self._say = home, accepted, say
        self.box = Box(home)
        self._post: Post | None = None
        self._port = ""
        self._next = 0.0
        self._calling: threading.Thread | None = None
        self._told: set[str] = set()
        self._mutex = threading.Lock()

    def look(self, contract: Path, busy: Iterable[str]) -> None:
        """Listen where no run does, and call the others when it is time. contract: the latest one
        of this member."""
        try:
            settings = read_settings(self._home)
            text, identity = in_force(contract), Identity.read(settings.identity)
            if identity.name not in text.signatories:
                return
            self._listen(settings, text, identity, set(busy))
            self._answer(settings, identity)
            self._tell(identity.name)
        except TacendaError as wrong:
            self._once(f"proposals: {wrong}")
            return
        if time.monotonic() >= self._next and (
            self._calling is None or not self._calling.is_alive()
        ):
            self._next = time.monotonic() + CALL_SECONDS
            self._calling = threading.Thread(
                target=self._call, args=(settings, text, identity), daemon=True
            )
            self._calling.start()

    def make_room(self, ports: Iterable[str]) -> None:
        """A run is about to listen on these."""
        if self._post is not None and self._port in set(ports):
            self._post.stop()
            self._post = None

    def close(self) -> None:
        """Listen no more."""
        if self._post is not None:
            self._post.stop()
            self._post = None

    def _listen(
        self, settings: NodeSettings, text: Contract, identity: Identity, busy: set[str]
    ) -> None:
        member = text.member(identity.name)
        where = settings.bind or f"[::]:{host_and_port(member.address.removeprefix(RELAY))[1]}"
        if self._post is not None or not member.listens or where.startswith(RELAY):
            return
        port = str(host_and_port(where, lowest=0)[1])
        if member.address.startswith(RELAY) or port in busy:
            return
        post = Post(self.box, text, identity)
        if post.start(where):
            self._post, self._port = post, port

    def _tell(self, me: str) -> None:
        for number, why in list(self.box.refused.items()):
            self._once(f"The proposal {number} was not kept: {why}")
        for one in self.box.all():
            if asked := one.question(me):
                self._once(f"{asked} --folder {self._home}")
            elif one.in_effect:
                by = ", ".join(sorted(one.signatures))
                self._once(f"{one.proposal.words()}: in effect, accepted by {by}")

    def _answer(self, settings: NodeSettings, identity: Identity) -> None:
        """Accept what the policy allows."""
        if settings.policy is None:
            return
        policy = PolicyFile.read(settings.policy)
        for one in self.box.all():
            text = one.proposal.text()
            asked = identity.name in one.missing and not one.in_effect
            if not asked or one.proposal.kind not in (policy.policy.proposals or ()):
                continue
            if text is not None and (found := policy.forbids(text)):
                self._once(
                    f"{one.proposal.number} is left to a person: {found[0].sentence(policy.path)}"
                )
                continue
            if runs(one) and settings.no_budget:
                self._once(
                    f"{one.proposal.number} is left to a person: node.toml sets no_budget, and "
                    "members could propose one run after another; set a budget for all of them."
                )
                continue
            kept = self.box.accept(one.proposal.number, identity)
            self._accepted(kept)
            self._next = 0.0
            self._say(f"{one.proposal.words()}: accepted by the policy {policy.path}")

    def _call(self, settings: NodeSettings, text: Contract, identity: Identity) -> None:
        proxy = None
        if settings.proxy is not None:
            proxy = Proxy.read(settings.proxy, settings.proxy_login)
        try:
            call_all(self.box, text, identity, settings.addresses, proxy)
        except TacendaError as wrong:
            self._once(f"proposals: {wrong}")

    def _once(self, words: str) -> None:
        with self._mutex:
            new = words not in self._told
            self._told.add(words)
        if new:
            self._say(words)


def runs(kept: Kept) -> bool:
    """Whether a proposal is of a run of its own, which goes into the queue."""
    return kept.proposal.kind in (NEXT, WITH)


def latest_contract(settings: NodeSettings, queued: Iterable[Path]) -> Path:
    """The latest contract of a member: the last one in its queue, or its folder's own."""
    found = [path for path in queued if path.is_file() and path.suffix == ".toml"]
    place = found[-1] if found else settings.contract
    contract_files.read(place)
    if not place.exists():
        raise InputError(f"There is no contract at {place}; accept one first.")
    return place
