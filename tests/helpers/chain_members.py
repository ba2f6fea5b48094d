"""Runs of real members in one process, of which one is lost and comes back, played on two
neighbouring data sets: each member's own `Peer`, state folder, ledger and keyed noise, with a
switchboard in place of the network and the members' decisions given.

The second data set's members hear the releases of the first one's, as in `chain_tape`. What is
drawn is read off the sampler: the secret before it in whole steps, and its scale in steps.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacenda.privacy.noise import keyed
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.secrets.bounded import open_parts
from tacenda.privacy.secrets.door import Door
from tacenda_node.membership.decisions import Decision
from tacenda_node.peer.peer import Peer
from tacenda_node.peer.run_plan import RunPlan
from tacenda_node.protocol.signed_rows import Witness
from tacenda_node.state.database import NodeState
from tacenda_node.wire.exchange import Exchange

Place = tuple[str, int, int, int, int]  # member, life, view, round, call
PATIENCE = 60.0


class PowerCut(Exception):
    """This member's machine is gone."""


class Stopped(Exception):
    """Somebody stayed away, and the round is given up."""


@dataclass
class Release:
    """What left one door: the secret and the scale of its noise in whole steps, and the rows."""

    secret: np.ndarray
    scale: float
    out: Any


@dataclass
class Board:
    """Rows between members, and who waits for which."""

    rows: dict[Any, np.ndarray] = field(default_factory=dict)
    waiting: dict[str, Any] = field(default_factory=dict)
    given_up: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def post(self, key: Any, row: np.ndarray, sender: str, receivers: list[str]) -> None:
        with self.changed:
            self.rows |= {(key, sender, receiver): row.copy() for receiver in receivers}
            self.changed.notify_all()

    def take(self, key: Any, sender: str, receiver: str) -> np.ndarray:
        with self.changed:
            self.waiting[receiver] = wanted = (key, sender, receiver)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: wanted in self.rows or self.given_up, PATIENCE), (
                f"{receiver} waits for {sender} under {key}"
            )
            del self.waiting[receiver]
            if wanted not in self.rows:
                raise Stopped
            return self.rows[wanted]

    def give_up(self, threads: dict[str, threading.Thread]) -> None:
        """End the waiting once everybody who lives waits for a row that never comes."""

        def stuck() -> bool:
            alive = {name for name, thread in threads.items() if thread.is_alive()}
            mine = {name: row for name, row in self.waiting.items() if row not in self.rows}
            return alive <= set(mine)

        with self.changed:
            while not stuck():
                self.changed.wait(0.05)
            self.given_up = True
            self.changed.notify_all()


class Wired(Exchange):
    """A real node's transport up to the network: durable first, then onto the board."""

    def __init__(self, plan: RunPlan, name: str, state: NodeState, board: Board) -> None:
        witness = Witness(plan.contract, name, state, lambda text: "A" * 86 + "==")
        shake = SimpleNamespace(
            view=0, done=0, started=False, witness=witness, identity=SimpleNamespace(name=name)
        )
        nobody = SimpleNamespace(links={}, handshake=shake)
        super().__init__(plan.contract, state, nobody, lambda missing: None)
        self.name, self.board = name, board
        self.cut: tuple[int, int] | None = None  # round at whose first row, and how many get it

    def due(self, round: int) -> bool:
        return True

    def exchange(self, tag: Any, outgoing: dict[int, Any], awaited: Any) -> dict[int, Any]:
        key = (self.view, *tag)
        if outgoing:
            self.flush()  # its charges are durable before a row leaves
            receivers = [self._names[block] for block in outgoing]
            if self.cut is not None and self.cut[0] == tag[0]:
                receivers = receivers[: self.cut[1]]
                self.board.post(key, self._own_row(outgoing), self.name, receivers)
                raise PowerCut
            self.board.post(key, self._own_row(outgoing), self.name, receivers)
        return {
            block: self.board.take(key, self._names[block], self.name) for block in list(awaited)
        }


class Edges:
    """The keys of a member's edges, the same at both ends."""

    def __init__(self, name: str) -> None:
        self._name = name

    def chain(self, peer: str) -> KeyChain:
        ends = ",".join(sorted([self._name, peer]))
        return KeyChain.begin(hashlib.sha256(ends.encode()).digest())


class World:
    """All members on one data set. problem(name): its records; heard: the releases of the other
    data set's members, which these are made to hear."""

    def __init__(
        self,
        folder: Path,
        plan: RunPlan,
        problem: Callable[[str], Any],
        heard: dict[Place, Release] | None,
    ) -> None:
        self.plan, self.folder, self._problem, self._heard = plan, folder, problem, heard
        self.released: dict[Place, Release] = {}
        self.board = Board()
        self.lives: dict[str, int] = {}
        self.peers: dict[str, Peer] = {}
        self.booked: dict[str, list[Any]] = {}  # what each member's state says in the end
        self.losses = 0
        self._broken: list[BaseException] = []
        for name in plan.contract.names:
            self.begin(name)

    def begin(self, name: str, *, lost_disk: bool = False) -> None:
        """Start a member, or start it again on its state or, where that is lost, on none."""
        self.lives[name] = self.lives.get(name, -1) + 1
        if lost_disk:
            shutil.rmtree(self.folder / name)
        state = NodeState(self.folder / name)
        state.bind(self.plan.contract.run_id(), name, "records")
        state.keep_mark(self.folder / name / "mark")
        wired = Wired(self.plan, name, state, self.board)
        problem = self._problem(name)
        self.peers[name] = Peer(self.plan, name, problem, state, wired, Edges(name))
        self.peers[name].restore(lambda view: frozenset())

    def go(self, until: int, lost: str = "", cut: tuple[int, int] | None = None) -> None:
        """Everybody who takes part goes on up to this round, or until one is lost at `cut`."""
        self.board.given_up = False
        absent = {name for peer in self.peers.values() for name in peer._exchange.absent}
        there = [name for name in self.peers if name not in absent]
        for name in there:
            self.peers[name]._exchange.cut = cut if name == lost else None
        threads = {name: threading.Thread(target=self._live, args=(name, until), name=name)
                   for name in there}  # fmt: skip
        for thread in threads.values():
            thread.start()
        if lost:
            self.board.give_up(threads)
        for thread in threads.values():
            thread.join(PATIENCE)
        assert not self._broken, self._broken[0]
        if lost:
            self._leave(lost)
            del self.peers[lost]

    def _live(self, name: str, until: int) -> None:
        peer = self.peers[name]
        try:
            while peer.round < until:
                peer.advance()
        except (Stopped, PowerCut):
            pass
        except BaseException as broken:  # told by the thread that joins this one
            self._broken.append(broken)

    def regroup(self, view: int, absent: set[str], *, again: bool) -> int:
        """Go on as the members decide: the round that was given up is made again after a loss, and
        skipped where somebody comes back. Result: that round."""
        latest = max(peer.round + 1 for peer in self.peers.values())
        found = latest if again else latest + 1
        for peer in self.peers.values():
            peer.give_up()
        self.losses += again
        for peer in self.peers.values():
            peer.regroup(Decision(view, frozenset(absent), found, losses=self.losses))
        return found

    def close(self) -> None:
        """Make the last round durable, and let go of the files."""
        for name in list(self.peers):
            self.peers[name]._exchange.flush()
            self._leave(name)

    def _leave(self, name: str) -> None:
        state = self.peers[name]._state
        self.booked[name] = state.charges()
        state.close()

    def passes(self, door: Door, turn: int, call: int, value: Any, made: Callable[[], Any]) -> Any:
        """A release of the member whose thread this is."""
        name = threading.current_thread().name
        place = (name, self.lives[name], self.peers[name]._exchange.view, turn, call)
        secret = open_parts(value)[0].astype(float)
        _drawn.scales = []
        out = made()
        (scale,) = _drawn.scales
        assert place not in self.released, f"two releases at one place: {place}"
        self.released[place] = Release(secret, scale, out)
        return out if self._heard is None else self._heard[place].out


_drawn = threading.local()


@contextmanager
def listening(world: Callable[[], World]) -> Iterator[None]:
    """Hear all doors of the members of a world."""
    draw, release, masked = keyed.discrete_gaussian, Door.release, Door.release_masked

    def draws(scale: float, size: Any, stream: Any) -> Any:
        _drawn.scales.append(float(scale))
        return draw(scale, size, stream)

    def releases(door: Door, value: Any, turn: int, call: int, *rest: Any) -> Any:
        made = lambda: release(door, value, turn, call, *rest)  # noqa: E731
        return world().passes(door, turn, call, value, made)

    def masks(door: Door, value: Any, turn: int, call: int, *rest: Any) -> Any:
        made = lambda: masked(door, value, turn, call, *rest)  # noqa: E731
        return world().passes(door, turn, call, value, made)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "discrete_gaussian", draws)
        patch.setattr(Door, "release", releases)
        patch.setattr(Door, "release_masked", masks)
        yield
