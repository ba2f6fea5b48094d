"""Several runs of one member: a queue on the disk, and the process that works through it.

Every run is a process of its own, `tacenda node run`, with a state folder of its own; all of them
are booked in one ledger, in which each run is reserved whole before it begins. So the budget holds
whatever runs at once, and a run that it does not cover is refused before its process starts.

The queue is one file, `queue.json` in the member's folder, replaced as a whole. An entry says what
became of it last; what really happened is in the run's state. After kill -9 of everything the
entries that ran are started again, and continue where they stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from tacenda.addresses import host_and_port
from tacenda.errors import InputError, StateError, TacendaError
from tacenda.formats.files import write_json
from tacenda_node.identity import contract_files
from tacenda_node.identity.addresses import RELAY
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.operate.policy import PolicyFile, require
from tacenda_node.operate.settings import FILE as SETTINGS
from tacenda_node.operate.settings import NodeSettings, read_settings, settings_file
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.proposals.box import Kept
from tacenda_node.proposals.courier import Courier, latest_contract, runs
from tacenda_node.setup.checking import costs, records_as_split
from tacenda_node.state.accounts import default_ledger
from tacenda_node.state.locks import lock
from tacenda_node.state.looks import booked, in_use
from tacenda_node.watch.observer import FILE as STATUS
from tacenda_node.watch.status_file import read_status
from tacenda_node.watch.web import parse_address

FILE, FORMAT = "queue.json", "tacenda-queue-1"
OUTPUT = "output.txt"  # of a run's process, in its state folder
OVER = ("done", "refused", "stopped")
REFUSED, NETWORK = 3, 5  # exit codes of `node run`
LOOK_SECONDS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 900.0  # before a run is started again


@dataclass(frozen=True)
class Entry:
    """One run in the queue.

    what: a contract file, or a member's folder with its node.toml. state: waiting, running, done,
    refused (by budget or policy), stopped (an error that somebody must look at).
    """

    number: int
    what: str
    title: str
    added_at: str
    state: str = "waiting"
    reason: str = ""


class Queue:
    """The queue of a member's folder."""

    def __init__(self, place: str | Path | None = None) -> None:
        found = settings_file(place)
        if found is None:
            raise InputError(f"There is no {SETTINGS} here; give the member's folder.")
        self.home = found.parent.resolve()
        self._path = self.home / FILE

    def entries(self) -> list[Entry]:
        """All entries in their order."""
        try:
            values = json.loads(self._path.read_text("utf-8"))
            if values["format"] != FORMAT:
                raise KeyError(FORMAT)
            return [Entry(**one) for one in values["entries"]]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError):
            raise StateError(
                f"{self._path} is not a queue in the format {FORMAT!r}; move it away and add the "
                "contracts again: their runs continue from their state folders."
            ) from None

    def add(self, what: str | Path) -> Entry:
        """Put a contract or a folder at the end; one that is over begins anew where it stands."""
        path = Path(what).resolve()
        settings = self.settings(path)
        contract = self._checked(path, settings)
        with self._locked():
            entries = self.entries()
            mine = settings.state.resolve()
            for k, one in enumerate(entries):
                if self._state_of(one) != mine:
                    continue
                if one.state in ("refused", "stopped"):
                    entries[k] = replace(one, state="waiting", reason="")
                    self._write(entries)
                    return entries[k]
                raise InputError(f"{what} is in the queue already, as number {one.number}.")
            number = max((one.number for one in entries), default=0) + 1
            entry = Entry(number, str(path), contract.title, _now())
            self._write([*entries, entry])
        return entry

    def present_state(self) -> Path | None:
        """The state folder of the run that is under way, or else of the latest that was begun."""
        first = sorted(self.entries(), key=lambda one: (one.state != "running", -one.number))
        found = (self._state_of(one) for one in first)
        return next((state for state in found if state and (state / STATUS).exists()), None)

    def remove(self, number: int) -> Entry:
        """Take an entry out; its state folder and what it has spent stay."""
        with self._locked():
            entries = self.entries()
            found = next((one for one in entries if one.number == number), None)
            if found is None:
                known = ", ".join(str(one.number) for one in entries) or "none"
                raise InputError(f"The queue has no number {number}; there are {known}.")
            state = self._state_of(found)
            if found.state == "running" and state is not None and in_use(state):
                raise StateError(
                    f"Number {number} is running; stop `tacenda node serve` first, then remove it."
                )
            self._write([one for one in entries if one.number != number])
        return found

    def update(self, number: int, **changes: Any) -> None:
        """Note what became of an entry; one that was removed meanwhile stays removed."""
        with self._locked():
            self._write(
                [replace(one, **changes) if one.number == number else one for one in self.entries()]
            )

    def settings(self, what: Path) -> NodeSettings:
        """The settings of an entry's run: those of its own folder, or this folder's with another
        contract and a state folder of its own."""
        if what.is_dir() or what.name == SETTINGS:
            return read_settings(what)
        mine = read_settings(self.home)
        if what.resolve() == mine.contract.resolve():
            return mine
        run = contract_files.read(what).run_id()[:12]
        state = mine.state.with_name(f"{mine.state.name}-{run}")
        return read_settings(self.home, contract=what, state=state)

    def listing(self) -> list[dict[str, Any]]:
        """Every entry, with its round and why it waits, for people and programs."""
        found = []
        for one in self.entries():
            entry = asdict(one)
            try:
                settings = self.settings(Path(one.what))
                contract = contract_files.read(settings.contract)
                entry |= {
                    "state_folder": str(settings.state),
                    "contract": contract.hash(),
                    "round": booked(settings.state)[0],
                    "rounds": contract.total_rounds,
                    "epsilon": contract.privacy.epsilon,
                }
                if one.state == "waiting" and not one.reason:
                    entry["reason"] = not_allowed(settings, contract)
            except TacendaError as wrong:
                entry["reason"] = str(wrong)
            found.append(entry)
        return found

    def _state_of(self, entry: Entry) -> Path | None:
        """An entry's state folder; None where its files are gone."""
        try:
            return self.settings(Path(entry.what)).state.resolve()
        except TacendaError:
            return None

    def _checked(self, what: Path, settings: NodeSettings) -> Contract:
        """The entry's contract, which is this member's and is booked in this member's ledger."""
        mine = read_settings(self.home)
        name = Identity.read(settings.identity).name
        ledger, ours = (
            (one.ledger or default_ledger(Identity.read(one.identity).name)).resolve()
            for one in (settings, mine)
        )
        if ledger != ours:
            raise InputError(
                f"{what} is booked in the ledger {ledger}, and this queue's in {ours}; one queue "
                "has one ledger, so that its budget holds: correct `ledger` in its node.toml."
            )
        contract = contract_files.read(settings.contract)
        contract.member(name)
        return contract

    def _write(self, entries: list[Entry]) -> None:
        values = {"format": FORMAT, "entries": [asdict(one) for one in entries]}
        write_json(self._path, values, private=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _lock(self.home / ".queue.lock", wait=True):
            yield


def not_allowed(settings: NodeSettings, contract: Contract) -> str:
    """Why this member's run may not begin yet: its signature or its officer's approval is missing;
    empty if it may."""
    try:
        identity = Identity.read(settings.identity)
        contract_files.require_own_signature(settings.contract, identity.name)
        if settings.policy is not None:
            require(PolicyFile.read(settings.policy), contract, identity.signing_key)
    except TacendaError as missing:
        return str(missing)
    return ""


def not_covered(settings: NodeSettings, contract: Contract) -> str:
    """Why the budget does not cover the run, and what is left; empty if it does. The ledger is only
    looked at: the run itself reserves, in one step, and is refused if another was faster."""

    name = Identity.read(settings.identity).name
    plan = make_plan(contract)
    found = costs(settings, plan, name, records_as_split(settings, plan, name))
    return "; ".join(f"{one.found}: {one.fix}" for one in found if not one.ok)


@dataclass
class _Running:
    entry: Entry
    process: subprocess.Popen[bytes]
    ports: frozenset[str]
    begun: float = field(default_factory=time.monotonic)


class Server:
    """Works through a queue. at_once: how many runs side by side."""

    def __init__(self, queue: Queue, at_once: int = 1, say: Callable[[str], None] = print) -> None:
        self._queue, self._at_once, self._say = queue, at_once, say
        self._running: dict[int, _Running] = {}
        self._pauses: dict[int, tuple[float, float]] = {}  # (until, how long the next one is)
        self._told: dict[int, str] = {}
        self._stopping = False
        self._courier = Courier(queue.home, self._enqueue, say)

    def run(self, until_empty: bool = False) -> None:
        """Until SIGINT or SIGTERM, or until every entry is over; then the runs are asked to stop,
        and continue at the next start."""
        with _lock(self._queue.home / ".serve.lock", wait=False), self._signals():
            try:
                while not self._stopping:
                    self._collect()
                    self._look_at_proposals()
                    self._start()
                    entries = self._queue.entries()
                    if until_empty and all(one.state in OVER for one in entries):
                        return
                    time.sleep(LOOK_SECONDS)
            finally:
                self._stop_all()
                self._courier.close()

    def _look_at_proposals(self) -> None:
        """What members propose, between runs and beside them."""
        entries = self._queue.entries()
        mine = read_settings(self._queue.home)
        queued = [Path(one.what) for one in entries]
        busy = {port for run in self._running.values() for port in run.ports}
        try:
            self._courier.look(latest_contract(mine, queued), busy)
        except InputError:
            return  # no contract yet

    def _enqueue(self, kept: Kept) -> None:
        place = self._courier.box.place_of(kept)
        if runs(kept) and place is not None:
            self._queue.add(place)

    def _start(self) -> None:
        entries = self._queue.entries()
        # Those that ran when everything was killed go first
        for one in sorted(entries, key=lambda one: (one.state != "running", one.number)):
            if len(self._running) >= self._at_once:
                return
            if one.state in OVER or one.number in self._running:
                continue
            if time.monotonic() < self._pauses.get(one.number, (0.0, 0.0))[0]:
                continue
            try:
                self._try(one)
            except TacendaError as wrong:
                self._end(one, "stopped", str(wrong))

    def _try(self, one: Entry) -> None:
        settings = self._queue.settings(Path(one.what))
        contract = contract_files.read(settings.contract)
        if in_use(settings.state):
            self._wait(one, f"a node that was started elsewhere runs on {settings.state}")
            return
        if why := not_allowed(settings, contract):
            self._wait(one, why)
            return
        ports = _ports(settings, contract)
        if any(ports & other.ports for other in self._running.values()):
            self._wait(one, "another run uses the same port")
            return
        if one.state != "running" and (why := not_covered(settings, contract)):
            self._end(one, "refused", why)
            return
        self._courier.make_room(ports)
        settings.state.mkdir(parents=True, exist_ok=True)
        os.chmod(settings.state, 0o700)
        # Before the process: after kill -9 between the two it is started again, and not forgotten
        self._queue.update(one.number, state="running", reason="")
        place = one.what if Path(one.what).is_dir() else str(self._queue.home)
        files = ["--contract", str(settings.contract), "--state", str(settings.state)]
        command = [sys.executable, "-m", "tacenda", "node", "run", place, *files, "--quiet"]
        with (settings.state / OUTPUT).open("ab") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._running[one.number] = _Running(one, process, ports)
        self._told.pop(one.number, None)
        self._say(f"{one.number} {one.title!r}: started, process {process.pid}")

    def _collect(self) -> None:
        for number, run in list(self._running.items()):
            code = run.process.poll()
            if code is None:
                continue
            del self._running[number]
            if code == 0:
                early = read_status(self._queue.settings(Path(run.entry.what)).state).stopped
                self._end(run.entry, "done", early)
            elif code < 0 or code == NETWORK:  # killed, or a neighbour stayed away
                self._again(run, code)
            else:
                reason = _last_words(self._queue.settings(Path(run.entry.what)).state)
                self._end(run.entry, "refused" if code == REFUSED else "stopped", reason)

    def _again(self, run: _Running, code: int) -> None:
        long = time.monotonic() - run.begun > LONGEST_PAUSE
        number = run.entry.number
        pause = FIRST_PAUSE if long else self._pauses.get(number, (0.0, FIRST_PAUSE))[1]
        self._pauses[number] = (time.monotonic() + pause, min(2 * pause, LONGEST_PAUSE))
        why = "a neighbour stayed away" if code == NETWORK else f"killed by signal {-code}"
        # A run that waits for others lets the next one go first; a killed one goes on
        state = "waiting" if code == NETWORK else "running"
        self._queue.update(number, state=state, reason=f"{why}; is started again")
        self._say(f"{number} {run.entry.title!r}: {why}; started again in {pause:.0f} s")

    def _wait(self, one: Entry, why: str) -> None:
        if self._told.get(one.number) != why:
            self._told[one.number] = why
            self._say(f"{one.number} {one.title!r}: waits: {why}")

    def _end(self, one: Entry, state: str, reason: str) -> None:
        self._queue.update(one.number, state=state, reason=reason)
        self._say(f"{one.number} {one.title!r}: {state}{f': {reason}' if reason else ''}")

    def _stop_all(self) -> None:
        for run in self._running.values():
            run.process.send_signal(signal.SIGTERM)
        for run in self._running.values():
            run.process.wait()
        self._collect_stopped()

    def _collect_stopped(self) -> None:
        """Who was done in the last moment is done; all others are still running, in the queue."""
        for run in self._running.values():
            if run.process.returncode == 0:
                self._end(run.entry, "done", "")
        self._running.clear()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        before = {n: signal.signal(n, self._ask) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True


def _ports(settings: NodeSettings, contract: Contract) -> frozenset[str]:
    """The ports on which a run listens here."""
    member = contract.member(Identity.read(settings.identity).name)
    bind = settings.bind or member.address
    listens = member.listens and not bind.startswith(RELAY)
    found = [host_and_port(bind, lowest=0)[1]] if listens else []
    if settings.metrics_address:
        found.append(parse_address(str(settings.metrics_address), "metrics_address")[1])
    found += [settings.dashboard] if settings.dashboard else []
    return frozenset(str(port) for port in found)


def _last_words(state: Path) -> str:
    """Why a run's process ended, as it said."""
    try:
        lines = (state / OUTPUT).read_text("utf-8", "replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1][:2000] if lines else f"see {state / OUTPUT}"


@contextmanager
def _lock(path: Path, *, wait: bool) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock(handle, wait=wait)
    except OSError:
        os.close(handle)
        raise StateError(
            "Another `tacenda node serve` works through this queue; stop it first."
        ) from None
    try:
        yield
    finally:
        os.close(handle)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
