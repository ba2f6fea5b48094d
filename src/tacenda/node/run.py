"""`run_node`: one member of a federation, from its contract and its own data to the shared model.

The very same algorithm files as in a simulation, on a block with one node; the door draws keyed
noise, and the transport makes every release durable before it is sent.
"""

from __future__ import annotations

import hashlib
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacenda.data.schema import Schema
from tacenda.errors import InputError, StateError, TacendaError
from tacenda.node import logs
from tacenda.node.display import Display
from tacenda.node.identity import contract_files
from tacenda.node.identity.certificates import Identity
from tacenda.node.identity.contract import Contract
from tacenda.node.identity.edge_keys import EdgeKeys
from tacenda.node.member_records import checked_schema, read_records
from tacenda.node.membership.agreement import Agreement, Frozen, Phase
from tacenda.node.membership.amendments import Amendments
from tacenda.node.membership.votes import ConflictingVotes
from tacenda.node.observer import Observer
from tacenda.node.peer import Peer
from tacenda.node.policy import Approval, PolicyFile
from tacenda.node.policy import require as require_policy
from tacenda.node.protocol.contract_signatures import SignatureBook
from tacenda.node.protocol.handshake import Handshake
from tacenda.node.protocol.signed_rows import Witness
from tacenda.node.protocol.wire import Membership, Progress, frame_limit
from tacenda.node.run_plan import RunPlan, make_plan
from tacenda.node.settings import NodeSettings
from tacenda.node.state.accounts import claim, ledger_path
from tacenda.node.state.database import NodeState
from tacenda.node.state.spending import Spending
from tacenda.node.transport.endpoint import Endpoint
from tacenda.node.transport.exchange import Exchange, MemberCaught, PeerAbsent
from tacenda.node.transport.mailbox import Mailbox
from tacenda.node.transport.probe import dates
from tacenda.node.transport.relay import SCHEME
from tacenda.node.transport.streams import Proxy, read_secret
from tacenda.node.transport.tls_log import TlsLog
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.runtime.lasting_run import data_digest
from tacenda.runtime.places import row_forms
from tacenda.runtime.result import RunResult

# a peer that is connected but says nothing counts
# as absent after so many times the contract's limit
SILENCE = 3
NO_ROWS = 6  # and one that gives signs of life but no message, after so many
SHOWN = 3.0  # seconds for which a node that found a lie still shows its neighbours the proof
# notices of an agreement under way within the contract's limit:
# far fewer than would count as a flood
REMINDERS = 100
LOOK_AROUND = 0.5  # seconds between looks for a signal while signatures are missing


class Stopped(TacendaError):
    """The node was asked to stop; everything is saved."""

    to_do = "Start the node again to go on."


class LeftRun(Stopped):
    """This member has left the run for good, by an amendment that the others have signed."""

    to_do = "Nothing is to be done; take part in the next run under a new contract."


def run_node(options: NodeSettings) -> RunResult:
    """Take part in the run until its last round,
    and return this member's result (also saved in the state folder)."""
    contract = contract_files.read(options.contract)
    if contract.rehearsal_seed is not None and not options.rehearsal:
        raise InputError(
            "contract field rehearsal_seed: this contract is for a rehearsal with seeded noise; "
            "never for real data."
        )
    identity = Identity.read(options.identity)
    contract_files.require_own_signature(options.contract, identity.name)
    plan = make_plan(contract)
    policy = None if options.policy is None else PolicyFile.read(options.policy)
    if policy is not None:
        require_policy(policy, contract, identity.signing_key)
    schema = checked_schema(contract, options.schema)
    state = NodeState(options.state, row_bytes=8 * plan.spec.facts.dim)
    try:
        with logs.open_log(options.state / "log.jsonl", identity.name) as log:
            amendments = Amendments(options.contract, contract, identity.name, state, log)
            check_identity(amendments.texts, identity)
            return _run(options, plan, identity, schema, state, log, amendments, policy)
    finally:
        state.close()


def check_identity(contracts: list[Contract], identity: Identity) -> Identity:
    """Certificate and signing key are those in the contract, or in its next amendment, and the
    certificate is valid now."""
    members = [contract.member(identity.name) for contract in contracts]
    member = members[0]
    for field in ("fingerprint", "signing_key"):
        if all(getattr(each, field) != getattr(identity, field) for each in members):
            raise InputError(
                f"contract field members.{member.name}.{field} is not that of the identity in "
                f"{identity.folder}; use the folder whose card went into the contract, "
                "or sign a contract with the new card."
            )
    wrong = dates(identity.certificate, f"this member in {identity.folder}")
    if wrong:
        raise InputError(f"{wrong[0].upper()}{wrong[1:]}.")
    return identity


def _run(
    options: NodeSettings,
    plan: RunPlan,
    identity: Identity,
    schema: Schema,
    state: NodeState,
    log: Any,
    amendments: Amendments,
    policy: PolicyFile | None,
) -> RunResult:
    contract, name, book = plan.contract, identity.name, amendments.book
    forms = row_forms(plan.spec)
    mailbox = Mailbox(contract.neighbours(name), forms, contract.problem.radius)
    calls = frozenset(call for _, call in forms)
    witness = Witness(contract, name, state, identity.signer(), log, calls)
    handshake = Handshake(
        amendments.current, identity, witness, book=book, ready=False, former=amendments.former
    )
    # Seeded noise of a rehearsal needs no keys; everywhere else noise shared by neighbours is drawn
    # from the keys of the edges.
    if plan.spec.algorithm.shared_noise is not None and contract.rehearsal_seed is None:
        handshake.edges = EdgeKeys(contract, name, state)
    limit = frame_limit(max(form.nbytes for form in forms.values()), len(contract.members))
    bind = (
        (options.bind or _any_interface(contract.member(name).address))
        if contract.member(name).listens
        else None
    )
    endpoint = Endpoint(
        handshake,
        mailbox,
        limit,
        log,
        bind=bind,
        addresses=options.addresses,
        proxy=None if options.proxy is None else Proxy.read(options.proxy, options.proxy_login),
        relay_token=_relay_token(options, contract, name),
    )
    stop = _Signals()
    display = Display(contract, name, endpoint, log, quiet=options.quiet)
    watchdog = _Watchdog(contract, endpoint, stop, display, amendments)
    exchange = Exchange(contract, state, endpoint, watchdog)
    agreement = watchdog.agreement = Agreement(
        plan, name, state, endpoint.tell, log, identity.sign_text
    )
    agreement.left = amendments.left
    agreement.check()
    endpoint.on_membership = _heard(agreement, mailbox, contract.absence.policy == "continue")
    endpoint.greeting = agreement.greeting
    with ExitStack() as stack:
        stack.enter_context(display.open())
        observer = stack.enter_context(
            Observer(contract, identity, display, exchange, options.state, log)
        )
        if options.watch_tls:
            stack.enter_context(TlsLog(log, display.take))
        stack.enter_context(stop)
        stack.callback(endpoint.stop)
        _serve(options, stack, observer, log)
        _all_signed(book, endpoint, watchdog)
        # No record is read before all have signed
        problem = read_records(contract, name, schema, options.data)
        key = state.bind(contract.run_id(), name, data_digest(problem))
        handshake.state_id = hashlib.sha256(b"state id" + key).hexdigest()[:16]
        ledger, account = _account(options, contract, name, problem, log)
        allowed = _hold_budget(policy, contract, identity.signing_key, ledger, account, log)
        booked = Spending(ledger, plan, name, problem, key, account, rehearsal=options.rehearsal)
        spending = stack.enter_context(booked)
        observer.account(ledger, account)
        state.keep_mark(spending.mark)
        peer = Peer(plan, name, problem, key, state, exchange, handshake.edges)
        peer.restore()
        if peer.round < contract.rounds and name not in amendments.left:
            spending.require_open()
        handshake.view, handshake.done = witness.done
        handshake.started = witness.latest > (0, 0, 0)
        mailbox.advance(exchange.view, peer.round + 1)
        witness.advance(exchange.view, peer.round + 1)
        try:
            endpoint.ready()
            endpoint.start()
            exchange.resend()
            _rounds(peer, exchange, mailbox, agreement, display, watchdog, spending.anew, policy)
            result = peer.result(display.seconds)
            spending.settle(state.charges(), final=True)
            found = (witness.caught, allowed)
            save_folder(options.state, result, contract, schema, identity, *found)
            if not state.noted("all finished"):
                state.note(
                    "all finished", _linger(endpoint, contract, stop, display, exchange.absent)
                )
            if witness.caught.keys() - exchange.absent:  # found while the last digests went round
                save_folder(options.state, result, contract, schema, identity, *found)
                raise MemberCaught(list(witness.caught.values()))
            return result
        except BaseException as stopped:
            log.warning(
                "stopped",
                reason=type(stopped).__name__,
                message=str(stopped) if isinstance(stopped, TacendaError) else "",
            )
            left = isinstance(stopped, LeftRun)
            _settle_what_is_there(spending, state, log, final=left)
            if isinstance(stopped, (ConflictingVotes, MemberCaught)):
                time.sleep(min(SHOWN, contract.absence.limit_seconds))
            raise
        finally:
            endpoint.stop()


def _all_signed(book: SignatureBook, endpoint: Endpoint, watchdog: _Watchdog) -> None:
    """Wait, for as long as it takes, until every member's signature of the contract is here; the
    neighbours are shown those that are."""
    said = ""
    while (words := book.current.sentence()) != "":
        endpoint.start()
        if words != said:
            watchdog.log.info("waiting for signatures", message=words)
            said = words
        watchdog.display.unsigned(words)
        watchdog.stop.check()
        watchdog.amend()
        endpoint.mailbox.take((0, 0, 0), list(endpoint.links), LOOK_AROUND)
    watchdog.display.unsigned("")
    watchdog.keep_signed()
    if said:
        watchdog.log.info("all members have signed", contract=book.current.hash)


def _settle_what_is_there(spending: Spending, state: NodeState, log: Any, *, final: bool) -> None:
    """Before the node stops for another reason, which the operator must read. Where it fails, the
    whole run stays reserved in the ledger: never less than was spent."""
    try:
        spending.settle(state.charges(), final=final)
    except (StateError, sqlite3.Error) as failed:
        log.warning("spending not settled yet", reason=type(failed).__name__)


def _hold_budget(
    policy: PolicyFile | None,
    contract: Contract,
    member_key: str,
    ledger: Path,
    account: str,
    log: Any,
) -> list[Approval]:
    """Hold contract and budget against the policy; the officer's exceptions that were used, which
    go into the log, too."""
    if policy is None:
        return []
    with LedgerStore(ledger) as store:
        budget = store.budget(account)
    found = policy.forbids_budget(None if budget is None else budget.epsilon)
    used = require_policy(policy, contract, member_key, found)
    for one in used:
        lines = "; ".join(one.lines)
        log.info("approved against the policy", by=one.by, message=f"{lines}: {one.reason}")
    return used


def _account(
    options: NodeSettings, contract: Contract, name: str, problem: Any, log: Any
) -> tuple[Path, str]:
    """The lasting ledger and the account in it; what they say so far is logged, and shown."""
    path = ledger_path(options.ledger, name, options.state, options.rehearsal)
    needs_budget = not (options.no_budget or options.rehearsal)
    account, notes = claim(
        path, problem, options.dataset, contract.privacy, options.budget, needs_budget
    )
    for note in notes:
        log.info("account", message=note)
        if not options.quiet:
            print(note, file=sys.stderr, flush=True)
    return path, account


def _rounds(
    peer: Peer,
    exchange: Exchange,
    mailbox: Mailbox,
    agreement: Agreement,
    display: Display,
    watchdog: _Watchdog,
    anew: str,
    policy: PolicyFile | None,
) -> None:
    """anew: why this state may only join a view that the others have agreed on without it."""
    while peer.round < peer.total:
        mailbox.advance(exchange.view, peer.round + 1)
        watchdog.witness.advance(exchange.view, peer.round + 1)
        try:
            watchdog.keep_hours(policy)
            peer.meet()
            if anew and exchange.view == 0:
                raise StateError(anew)
            peer.advance()
        except Frozen:
            _agree(peer, agreement, watchdog)
            continue
        display.round(peer.round, peer.total, exchange)
        display.warn(peer.warnings())
    exchange.flush()
    display.finished()


def _agree(peer: Peer, agreement: Agreement, watchdog: _Watchdog) -> None:
    """Wait until all remaining members have stopped, then go on together; who stays silent for too
    long is left out too."""
    agreement.freeze(peer.round + 1)
    begin = said = time.monotonic()
    pending = agreement.pending
    while (found := agreement.decided()) is None:
        watchdog.stop.check()
        # The others have just heard of another set, too, and need their time
        if agreement.pending != pending:
            pending, begin = agreement.pending, time.monotonic()
        watchdog.display.waiting(sorted(agreement.silent()))
        if time.monotonic() - said > watchdog.limit / REMINDERS:
            agreement.announce()
            said = time.monotonic()
        if time.monotonic() - begin > watchdog.limit:
            watchdog.require_present(agreement.silent())
            agreement.propose(agreement.without(agreement.silent()))
        time.sleep(0.1)
    view, absent, next_round = found
    # First the checkpoint, then the note:
    # after a crash in between the same decision is simply enacted again.
    peer.regroup(absent, view, next_round)
    agreement.enact(view, absent)
    watchdog.forget()


class _Watchdog:
    """What a node looks at before it sends and while it waits: signals, agreements, and who has
    been away for too long."""

    def __init__(
        self,
        contract: Contract,
        endpoint: Endpoint,
        stop: _Signals,
        display: Display,
        amendments: Amendments,
    ) -> None:
        self._amendments = amendments
        self._endpoint, self.stop, self.display = endpoint, stop, display
        self.log = endpoint.log
        self.limit = contract.absence.limit_seconds
        self._goes_on = contract.absence.policy == "continue"
        self._away: dict[str, float] = {}
        self._missing: dict[str, float] = {}
        self._said = 0.0
        self.agreement: Agreement
        self.witness = endpoint.handshake.witness

    def __call__(self, missing: list[str]) -> None:
        self.stop.check()
        self.amend()
        self._judge()
        if self._goes_on or self._amendments.left:
            self._without_those_who_left()
            self.agreement.check()
            # A sign of life after the decision, not just a stream that was left open
            since = self.agreement.enacted
            self.agreement.returned(
                {
                    k.peer
                    for k in self._endpoint.links.values()
                    if k.connected and not k.waiting and k.seen > since
                }
            )
            if self.agreement.phase is not Phase.TAKING_PART:
                raise Frozen("The members are about to agree on who takes part.")
        if not missing:
            self._missing.clear()
            return
        self.display.waiting(missing)
        now = time.monotonic()
        self._missing = {peer: self._missing.get(peer, now) for peer in missing}
        for peer in missing:
            if self._endpoint.links[peer].connected:
                self._away.pop(peer, None)
            else:
                self._away.setdefault(peer, now)
        if now - max(self._said, *self._missing.values()) > self.limit:
            self._said = (
                now  # a sign of life for those who wait for this node while it waits for others
            )
            self._endpoint.tell(
                Progress(self._endpoint.handshake.done, self._endpoint.handshake.view)
            )
        absent = [
            p for p in missing if self._silent(p, now) or now - self._away.get(p, now) > self.limit
        ]
        if absent and self._goes_on:
            self.forget()
            self.agreement.propose(self.agreement.without(frozenset(absent)))
            raise Frozen("A member stayed away.")
        if absent:
            raise PeerAbsent(
                absent, self.limit, [self._endpoint.links[peer].reason for peer in absent]
            )

    def keep_hours(self, policy: PolicyFile | None) -> None:
        """Wait while the policy lets this node neither compute nor send, with its connections open
        and a sign of life now and then."""
        said = ""
        while policy is not None and (pause := policy.pause(datetime.now(UTC))) is not None:
            if pause[1] != said:
                said = pause[1]
                self.log.info("paused", message=said)
            self.display.paused(said)
            self([])
            if time.monotonic() - self._said > self.limit:
                self._said = time.monotonic()
                handshake = self._endpoint.handshake
                self._endpoint.tell(Progress(handshake.done, handshake.view))
            time.sleep(min(LOOK_AROUND, pause[0].total_seconds()))
        self.display.paused("")

    def amend(self) -> None:
        """Take up the next amendment of the contract, if it is there and all have signed."""
        news = self._amendments.look()
        if news:
            self._endpoint.share(news)
        if self._amendments.adopted():
            handshake = self._endpoint.handshake
            handshake.contract = self._amendments.current
            self.agreement.left = self._amendments.left
            self.keep_signed()
        me = self._endpoint.handshake.identity.name
        if me in self._amendments.left:
            raise LeftRun(
                f"{me} has left the run by amendment {self._amendments.current.amendment} of the "
                "contract. What was released stays charged; the rest of the reservation is free "
                "again."
            )

    def keep_signed(self) -> None:
        """Keep the signed text in force where it can be looked up later."""
        self._amendments.keep_signed()

    def _without_those_who_left(self) -> None:
        """All who remain agree on a view without those who have left for good."""
        left = self._amendments.left
        if left - self.agreement.absent and self.agreement.phase is Phase.TAKING_PART:
            self.agreement.propose(self.agreement.without(left))
            raise Frozen("A member has left.")

    def require_present(self, silent: frozenset[str]) -> None:
        """Where the contract says `stop`, nobody is left out for being away."""
        if silent and not self._goes_on:
            links = self._endpoint.links
            raise PeerAbsent(
                sorted(silent), self.limit, [links[name].reason for name in silent if name in links]
            )

    def forget(self) -> None:
        """The members have agreed anew: who was away before has its time again."""
        self._away.clear()
        self._missing.clear()

    def _judge(self) -> None:
        """A member that its own signatures convict counts as absent at once,
        whoever's neighbour it is."""
        caught = dict(self.witness.caught)
        if caught and not self._goes_on:
            raise MemberCaught(list(caught.values()))
        news = frozenset(caught) - (self.agreement.absent if self._goes_on else frozenset())
        if news and self.agreement.phase is Phase.TAKING_PART:
            self.agreement.propose(self.agreement.without(news))
            raise Frozen("A member was caught.")

    def _silent(self, peer: str, now: float) -> bool:
        """A peer that is connected and sends no rows may itself be waiting for somebody: it says so
        now and then, but not for ever."""
        since, seen = self._missing[peer], self._endpoint.links[peer].seen
        return now - max(since, seen) > SILENCE * self.limit or now - since > NO_ROWS * self.limit


def _heard(agreement: Agreement, mailbox: Mailbox, goes_on: bool) -> Any:
    def hear(peer: str, frame: Membership) -> None:
        # Where the contract says `stop`, only who has left by an amendment is left out; a neighbour
        # may hold the amendment earlier.
        if goes_on or agreement.left >= set(frame.absent):
            agreement.hear(peer, frame)
            mailbox.wake()

    return hear


def _linger(
    endpoint: Endpoint, contract: Contract, stop: _Signals, display: Display, absent: frozenset[str]
) -> bool:
    """A neighbour may still need the last message: stay until all have finished (then True), or as
    long as one may be away."""
    end, said = time.monotonic() + contract.absence.limit_seconds, False
    witness, handshake = endpoint.handshake.witness, endpoint.handshake
    links = [link for link in endpoint.links.values() if link.peer not in absent]
    while True:
        heard = witness.news()
        # The last digests go round while the members take leave of each other
        if heard or not said:
            endpoint.tell(Progress(handshake.done, handshake.view, True, heard))
            said = True
        if all(link.finished for link in links) or time.monotonic() >= end:
            break
        if stop.asked:
            return False
        display.waiting([link.peer for link in links if not link.finished])
        time.sleep(0.02)
    return all(link.finished for link in links)


class _Signals:
    """SIGINT and SIGTERM ask for a stop; the state is always whole, so the node may stop between
    any two waits."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, *_: object) -> None:
        self.asked = True

    def check(self) -> None:
        if self.asked:
            raise Stopped(
                "The node was asked to stop. Everything is saved: start it again to go on."
            )

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _relay_token(options: NodeSettings, contract: Contract, name: str) -> str:
    """The relays' token, where this member or a neighbour of its is met through one."""
    if options.relay_token is not None:
        return read_secret(options.relay_token, "--relay-token")
    own = {name: options.bind} if options.bind else {}
    places = {
        n: ({**(options.addresses or {}), **own}).get(n, contract.member(n).address)
        for n in [name, *contract.neighbours(name)]
    }
    through = sorted(n for n, place in places.items() if place.startswith(SCHEME))
    if through:
        raise InputError(
            f"--relay-token is needed: {', '.join(through)} can be reached through a relay only; "
            "ask the relay's operator for the token, and put it into a file of mode 0600."
        )
    return ""


def _any_interface(address: str) -> str:
    if address.startswith(SCHEME):
        return address
    return f"[::]:{address.rpartition(':')[2]}"


def _serve(options: NodeSettings, stack: ExitStack, observer: Observer, log: Any) -> None:
    """Health, metrics and the page, where they were asked for."""
    if options.metrics_address is not None:
        from tacenda.node.health import Monitor

        stack.enter_context(Monitor(str(options.metrics_address), observer, log))
    if options.dashboard is not None:
        from tacenda.node.dashboard import Dashboard

        stack.enter_context(
            Dashboard(options.dashboard, observer, options.state, log, quiet=options.quiet)
        )


def save_folder(
    folder: Path,
    result: RunResult,
    contract: Contract,
    schema: Schema,
    identity: Identity,
    caught: dict[str, str],
    approvals: Sequence[Approval] = (),
) -> None:
    """The run folder that reports and predictions read, inside the state folder: what this member
    may know, who was caught lying and what its officer has approved; with the signed statement of
    what was spent, which is made to be shown and holds nothing of the policy."""
    from tacenda.formats.files import write_text
    from tacenda.formats.text import toml
    from tacenda.node.model_certificate import certify
    from tacenda.node.signed_statement import write_statement
    from tacenda.runtime.result import load
    from tacenda.runtime.run_folder import RunFolder

    home, run = RunFolder(folder).make(), f"{contract.algorithm.name}-{identity.name}"
    target = home.save(run, result)
    if load(target).models.shape != result.models.shape:
        raise StateError(
            f"The result {target} was not written whole; free disk space and start the node again."
        )
    if result.privacy is not None:
        certify(target, identity, contract)
    schema.write(home.schema_path)
    write_text(home.config_path, toml(contract.to_plain()))
    epsilon = None if result.privacy is None else result.privacy.to_plain()["epsilon"]
    if result.privacy is not None:
        write_statement(folder, result.privacy, contract, identity)
    manifest = {
        "contract": contract.hash(),
        "caught": caught,
        "approvals": [vars(one) for one in approvals],
        "warnings": result.warnings,
        "command": "node run",
        "versions": result.settings["versions"],
        "dataset": {
            "name": "this member's own records",
            "notes": ["nothing is shown of records that stay on site"],
            "classes": contract.problem.classes,
            "feature_names": list(schema.feature_names),
        },
        "table": [{"run": run, "epsilon": epsilon, "rounds": result.rounds}],
        "results": [
            {
                "label": run,
                "algorithm": contract.algorithm.name,
                "seed": None,
                "file": f"results/{run}.safetensors",
            }
        ],
    }
    home.finish({run: result}, manifest)
