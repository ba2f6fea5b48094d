"""`Observer`: gathers what a node tells about itself (`NodeStatus`) and keeps it in the state
folder, so that it can be read after the node has ended."""

from __future__ import annotations

import json
import math
import shutil
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import tacenda
from tacenda.errors import TacendaError
from tacenda.formats.files import write_json
from tacenda.privacy.accounting.events import at_members, event_from_dict
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.words import against
from tacenda_node.identity.certificates import CERTIFICATE, Identity, read_certificate
from tacenda_node.identity.contract import Contract
from tacenda_node.operate import logs
from tacenda_node.proposals.box import Box
from tacenda_node.protocol.handshake import is_clone
from tacenda_node.protocol.lives import Health
from tacenda_node.state.looks import booked
from tacenda_node.watch import federation
from tacenda_node.watch.causes import FAULTS, WAITING_SECONDS, Cause
from tacenda_node.watch.display import Display
from tacenda_node.watch.status import (
    CauseStatus,
    EvaluationStatus,
    LastingSpending,
    NodeStatus,
    PeerStatus,
    RunSpending,
    day,
    duration,
    log_entry,
    size,
)
from tacenda_node.wire.link import Link

FILE = "status.json"
EVALUATION_FILE = "evaluation.json"  # what the evaluation found, in the state folder
EVALUATION_STATE = "evaluation"  # the folder in it with the closing run's own state
WRITE_SECONDS = 2.0
SLOW_SECONDS = 20.0  # between looks at the ledger and the certificate
SPENDING_SHARE = 0.02  # of the time at most goes into composing what was spent so far
LEAST_DISK = 200 * 2**20
LITTLE_DISK = 2**30
SOON_DAYS = 14.0
BUDGET_SHARE = 0.9
LOG_LINES = 40
GONE = ("away", "frozen", "cut off")
NO_SIGN = "connected, but its process gives no sign of life; it is frozen, or its line is cut"
CURVE = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)


class Observer:
    """`with Observer(...)` around a node's life; `status()` from any thread, at any time.

    What takes long (composing what was spent, the lasting ledger) is looked at now and then by a
    thread of its own.
    """

    def __init__(
        self,
        contract: Contract,
        identity: Identity,
        display: Display,
        exchange: Any,
        folder: Path,
        log: Any,
    ) -> None:
        self._contract, self._identity, self._display = contract, identity, display
        self._endpoint, self._exchange = display.endpoint, exchange
        self._folder, self._log = folder, log
        self.shares_budget = False
        self._endpoint.health = self._health
        self._ledger: tuple[Path, str] | None = None
        self._run: RunSpending | None = None
        self._closing: tuple[Contract, str] | None = None
        self._evaluating = self._ended_without = False
        self._about_result: list[str] = []
        self._box: Box | None = None
        self._asked: list[str] = []  # proposals that this member has not answered
        self._evaluation: EvaluationStatus | None = None
        self._lasting: LastingSpending | None = None
        self._expires = identity.certificate.not_valid_after_utc.timestamp()
        self._next_slow = self._next_spending = 0.0
        self._failed: dict[str, str] = {}  # what could not be looked at, and why
        self._end: tuple[str, str, str] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tacenda-observer", daemon=True)

    def held_out(self, plan: Any, account: str) -> None:
        """The closing run that is to follow, and the account of its records."""
        self._closing = (plan.contract, account)

    def watch(self, display: Display, exchange: Any) -> None:
        """Look at the closing run from now on."""
        self._evaluating = True
        self._display, self._endpoint, self._exchange = display, display.endpoint, exchange
        self._endpoint.health = self._health

    def no_evaluation(self, why: str) -> str:
        """Say, also in a sentence that is returned, that the evaluation ended without a result."""
        words = f"There is no evaluation: {why}. The model is there, unevaluated."
        self._ended_without = True
        self.warn([words])
        return words

    def warn(self, sentences: list[str]) -> None:
        """Show these about the result from now on."""
        self._about_result += sentences

    def proposals(self, box: Box) -> None:
        """Where members' proposals are kept."""
        self._box = box
        self._next_slow = 0.0

    def account(self, ledger: Path, name: str) -> None:
        """Where the lasting spending of these records stands."""
        self._ledger = (ledger, name)
        self._next_slow = 0.0

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(10)
        self._end = _ending(error, self._folder)
        self._next_spending = self._next_slow = 0.0
        self._look()
        self._write(durable=True)

    # ---- the observer's thread
    def _watch(self) -> None:
        while True:
            self._look()
            self._write(durable=False)
            if self._over.wait(WRITE_SECONDS):
                return

    def _look(self) -> None:
        """At what takes longer."""
        now = time.monotonic()
        if now >= self._next_spending:
            self._try("what was spent", self._look_at_spending)
            took = time.monotonic() - now
            self._next_spending = now + max(WRITE_SECONDS, took / SPENDING_SHARE)
        if now >= self._next_slow:
            self._next_slow = now + SLOW_SECONDS
            self._try("the ledger", self._look_at_ledger)
            self._try("the certificate", self._look_at_certificate)
            self._try("the proposals", self._look_at_proposals)

    def _try(self, what: str, look: Any) -> None:
        try:
            look()
            self._failed.pop(what, None)
        except (TacendaError, OSError) as failed:
            self._failed[what] = str(failed)

    def _look_at_spending(self) -> None:
        self._run = run_spending(self._folder, self._contract)
        if self._closing is not None:
            self._evaluation = self._look_at_evaluation(*self._closing)

    def _look_at_evaluation(self, closing: Contract, account: str) -> EvaluationStatus:
        terms = self._contract.evaluation
        assert terms is not None
        spent = run_spending(self._folder / EVALUATION_STATE, closing)
        path, measures = self._folder / EVALUATION_FILE, []
        if path.is_file():
            measures = list(json.loads(path.read_text("utf-8"))["measures"].values())
        state = "under way" if self._evaluating else "after the training"
        if self._ended_without:
            state = "ended without a result"
        return EvaluationStatus(
            state="done" if measures else state,
            records=closing.member(self._identity.name).size,
            account=account,
            spent=spent.epsilon,
            epsilon=spent.limit,
            delta=spent.delta,
            against=spent.against,
            confidence=terms.confidence,
            measures=measures,
        )

    def _look_at_ledger(self) -> None:
        if self._ledger is None or not self._ledger[0].is_file():
            return
        path, name = self._ledger
        with LedgerStore(path) as store:
            spent = store.spent_by_id(name)
        delta = self._contract.privacy.delta if spent.budget is None else spent.budget.delta
        budget = None if spent.budget is None else spent.budget.epsilon
        epsilon = spent.curve_with_reserved.epsilon(delta)
        self._lasting = LastingSpending(name, epsilon, budget, delta)

    def _look_at_proposals(self) -> None:
        kept = [] if self._box is None else self._box.all()
        questions = [one.question(self._identity.name) for one in kept]
        self._asked = [f"{words}." for words in questions if words]

    def _look_at_certificate(self) -> None:
        # It may have been renewed; the keys, which a key store may hold, are not asked for
        found = read_certificate(self._identity.folder / CERTIFICATE)
        self._expires = found.not_valid_after_utc.timestamp()

    def _write(self, *, durable: bool) -> None:
        try:
            status = self.status().to_plain()
            write_json(self._folder / FILE, status, private=True, durable=durable)
        except OSError as failed:
            self._log.warning("status not written", reason=str(failed))

    # ---- the status
    def status(self) -> NodeStatus:
        """Everything that this node tells about itself, now."""
        display, endpoint = self._display, self._endpoint
        now, wall = time.monotonic(), time.time()
        peers = [self._peer(link, now, wall) for link in list(endpoint.links.values())]
        state, stopped, to_do = self._state()
        since_round = now - display.advanced
        days = (self._expires - wall) / 86400
        free = shutil.disk_usage(self._folder).free
        over = self._end is not None
        waits = not over and display.waiting_seconds > WAITING_SECONDS
        lives = endpoint.lives.heard()
        members = federation.members(
            self._contract, display.name, lives, peers, self._exchange.absent
        )
        causes = endpoint.causes() if waits else []
        problems = [] if over else self._problems(peers, causes, since_round, days, free)
        ready = not over and endpoint.started and days > 0
        said = "evaluation: " if self._evaluating else ""
        ended = f"{state} after the evaluation" if said else f"{state} after round {display.done}"
        summary = ended if over else f"{said}{display.line()}"
        return NodeStatus(
            member=display.name,
            title=self._contract.title,
            contract=self._contract.hash(),
            version=tacenda.__version__,
            at=wall,
            state=state,
            summary=summary,
            alive=not over and endpoint.alive,
            ready=ready,
            in_order=not problems and (not over or state == "finished"),
            problems=problems,
            warnings=self._warnings(peers, days, free),
            round=display.done,
            rounds=display.total,
            rounds_per_second=display.rate,
            seconds_left=display.seconds_left,
            seconds_running=display.seconds,
            seconds_since_round=since_round,
            waiting_for=[] if over else list(display.waiting_for),
            waiting_seconds=0.0 if over else display.waiting_seconds,
            causes=[
                CauseStatus(c.member, c.state, c.seconds, list(c.chain), c.words) for c in causes
            ],
            absence_limit_seconds=self._contract.absence.limit_seconds,
            absence_policy=self._contract.absence.policy,
            wait_seconds_total=self._exchange.waited,
            write_seconds_total=self._exchange.written,
            sent_bytes=sum(peer.sent_bytes for peer in peers),
            received_bytes=sum(peer.received_bytes for peer in peers),
            refused_callers=endpoint.refused,
            peers=peers,
            run=self._run,
            lasting=self._lasting,
            certificate_expires=self._expires,
            certificate_days=days,
            disk_free_bytes=free,
            log=[log_entry(e) for e in logs.tail(self._folder / logs.FILE, LOG_LINES)],
            stopped=stopped,
            to_do=to_do,
            evaluation=self._evaluation,
            members=members,
            roots=[] if over else federation.roots(members),
            edges=[(a, b) for a, b in self._contract.edges],
        )

    def _health(self) -> Health:
        """What all members are told of this one."""
        state = self._state()[0]
        state = "finished" if self._display.all_done else "paused" if self._display.pause else state
        lasting, left = self._lasting, None
        if self.shares_budget and lasting is not None and lasting.budget is not None:
            left = max(0.0, lasting.budget - lasting.epsilon)
        return Health(state, shutil.disk_usage(self._folder).free, left)

    def _state(self) -> tuple[str, str, str]:
        if self._end is not None:
            return self._end
        display = self._display
        if display.all_done:
            return "finishing", "", ""
        if display.lacking or display.waiting_seconds > WAITING_SECONDS:
            return "waiting", "", ""
        return ("running" if self._endpoint.started else "starting"), "", ""

    def _peer(self, link: Link, now: float, wall: float) -> PeerStatus:
        left_out = link.peer in self._exchange.absent
        state = "connected" if link.connected else "away"
        if link.frozen or (link.hung and not link.connected):
            state = "frozen"
        if link.finished:
            state = "finished"
        if link.banned:
            state = "cut off"
        if left_out:
            state = "left out"
        view, done = link.done
        known = done if view == self._exchange.view else 0
        lag = 0 if link.finished else max(0, self._display.done - known)
        expires = link.certificate_expires
        away = 0.0 if link.connected or link.finished else now - link.left
        # Without the transport's own words, which are in the log
        reason = "" if link.connected else link.reason.split(" (failed to connect")[0]
        if state == "frozen":
            away, reason = now - link.seen, NO_SIGN
        return PeerStatus(
            name=link.peer,
            state=state,
            reason=reason,
            lag_rounds=lag,
            away_seconds=away,
            silent_seconds=now - link.seen,
            sent_bytes=link.sent_bytes,
            received_bytes=link.received_bytes,
            sent_again=link.resent,
            cut_off=link.strikes,
            certificate_expires=expires,
            certificate_days=None if expires is None else (expires - wall) / 86400,
            heard=link.sessions > 0,
        )

    def _problems(
        self,
        peers: list[PeerStatus],
        causes: list[Cause],
        since_round: float,
        days: float,
        free: int,
    ) -> list[str]:
        """Why the node is not in order, each with what to do; empty if it is."""
        found, limit = [], self._contract.absence.limit_seconds
        if not self._endpoint.alive:
            found.append("The network thread has ended; start the node again.")
        if days <= 0:
            found.append(
                f"This member's certificate expired on {day(self._expires)}; renew it: "
                "tacenda certs request."
            )
        if free < LEAST_DISK:
            found.append(
                f"Only {size(free)} are free on the disk of {self._folder}; free some space, "
                "because nothing is sent that cannot be stored first."
            )
        unsigned = bool(self._display.lacking or self._display.pause)
        if not self._display.all_done and not unsigned and since_round > limit:
            found.append(
                f"No round was completed for {duration(since_round)}, and the contract's limit is "
                f"{duration(limit)}; {_what_to_do(causes)}."
            )
        for peer in peers:
            if is_clone(peer.reason):
                found.append(f"{peer.reason}.")
            elif peer.state in GONE and peer.away_seconds > limit:
                been = "has been" if peer.heard else "is"
                found.append(
                    f"{peer.name} {been} {peer.state}{peer.since}, longer than the contract's "
                    f"limit of {duration(limit)} ({peer.reason}); call its operator."
                )
        return found

    def _warnings(self, peers: list[PeerStatus], days: float, free: int) -> list[str]:
        """What needs a look before it becomes a problem."""
        told = dict.fromkeys([*self._about_result, *self._display.warnings])
        found = [f"{words[0].upper()}{words[1:]}" for words in told]
        found += [] if self._end is not None else self._asked
        if self._display.lacking:
            found.append(f"The run has not begun: {self._display.lacking}.")
        troubles = [self._endpoint.handshake.clock_trouble(peer.name) for peer in peers]
        found += [f"{words[0].upper()}{words[1:]}." for words in troubles if words]
        found += [f"{what} cannot be looked at: {why}" for what, why in self._failed.items()]
        if 0 < days <= SOON_DAYS:
            found.append(
                f"This member's certificate expires on {day(self._expires)}; renew it: "
                "tacenda certs request."
            )
        if LEAST_DISK <= free < LITTLE_DISK:
            found.append(f"{size(free)} are free on the disk of {self._folder}.")
        lasting, budget = self._lasting, None if self._lasting is None else self._lasting.budget
        if lasting is not None and budget is not None and lasting.epsilon >= BUDGET_SHARE * budget:
            found.append(
                f"All runs on these records together have spent or reserved epsilon "
                f"{lasting.epsilon:.4g} of the budget of {budget:g}."
            )
        for peer in peers:
            if peer.state == "left out":
                found.append(f"The members continue without {peer.name}.")
            elif peer.state in GONE and self._end is None and not is_clone(peer.reason):
                found.append(f"{peer.name} is {peer.state}: {peer.reason}.")
            if peer.certificate_days is not None and peer.certificate_days <= SOON_DAYS:
                assert peer.certificate_expires is not None
                found.append(
                    f"The certificate of {peer.name} expires on {day(peer.certificate_expires)}; "
                    "tell its operator."
                )
        return found


def _what_to_do(causes: list[Cause]) -> str:
    """Whom to call about a run that does not go on."""
    faults = [cause for cause in causes if cause.state in FAULTS]
    if not faults:
        return "look at the neighbours that are waited for"
    words, names = (", ".join(c.words for c in faults), ", ".join(c.member for c in faults))
    return f"it waits for {words}; call the operator of {names}"


def run_spending(folder: Path, contract: Contract) -> RunSpending:
    """What a run has spent so far, composed from what its state folder has booked; for a person at
    several members, as if each had booked the same."""

    terms = contract.privacy
    _, found = booked(folder)
    if not found:
        whom = against(terms.coalition)  # nothing is booked yet: what the contract promises
        return RunSpending(0.0, terms.epsilon, terms.delta, terms.adjacency, whom, [])
    events = [(event_from_dict(event), count) for event, count in found]
    curve = judge(at_members(events, terms.person[1]), terms.adjacency)
    deltas = sorted({*CURVE, terms.delta}, reverse=True)
    points = [(delta, curve.epsilon(delta)) for delta in deltas]
    return RunSpending(
        dict(points)[terms.delta],
        terms.epsilon,
        terms.delta,
        terms.adjacency,
        against(curve.coalition),
        [(delta, epsilon) for delta, epsilon in points if math.isfinite(epsilon)],
    )


def _ending(error: BaseException | None, folder: Path) -> tuple[str, str, str]:
    """(state, why, what to do) of a node that has ended."""
    if error is None:
        return (
            "finished",
            "",
            f"The model is in {folder / 'results'}; "
            f"`tacenda predict {folder} --data FILE` uses it.",
        )
    if isinstance(error, TacendaError):
        return "stopped", str(error), getattr(error, "to_do", "Do what the reason says.")
    return (
        "stopped",
        f"unexpected {type(error).__name__}",
        f"Start the node again; if it ends in the same way, report it with {folder / logs.FILE}.",
    )
