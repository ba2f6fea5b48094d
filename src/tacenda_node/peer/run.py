"""`run_node`: one member of a federation, from its contract and its own data to the shared model.

The very same algorithm files as in a simulation, on a block with one node; the door draws keyed
noise, and the transport makes every release durable before it is sent.
"""

from __future__ import annotations

import gc
import mmap
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacenda._types import Array
from tacenda.errors import InputError, StateError, TacendaError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.runtime.lasting_run import data_digest
from tacenda.runtime.result import RunResult, load
from tacenda_node.evidence import model_signatures
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.amendments import Amendments
from tacenda_node.membership.votes import ConflictingVotes
from tacenda_node.operate import logs
from tacenda_node.operate.policy import Approval, PolicyFile
from tacenda_node.operate.policy import require as require_policy
from tacenda_node.operate.settings import NodeSettings
from tacenda_node.peer import agreed_tables
from tacenda_node.peer.evaluation_plan import model_digest
from tacenda_node.peer.evaluation_run import EvaluationRun, FinishedModel
from tacenda_node.peer.member import Member
from tacenda_node.peer.member_records import checked_schema, read_records
from tacenda_node.peer.peer import Peer
from tacenda_node.peer.public_start import PublicStart, find_start
from tacenda_node.peer.run_plan import RunPlan, make_plan
from tacenda_node.peer.saving import result_file, save_evaluation, save_folder
from tacenda_node.peer.session import Session
from tacenda_node.peer.taking_part import ByIds
from tacenda_node.peer.watchdog import LeftRun, Signals
from tacenda_node.proposals.box import Box
from tacenda_node.state.accounts import claim, ledger_path
from tacenda_node.state.database import NodeState
from tacenda_node.state.spending import Spending
from tacenda_node.watch.dashboard import Dashboard
from tacenda_node.watch.health import Monitor
from tacenda_node.watch.observer import Observer
from tacenda_node.wire.exchange import MemberCaught, PeerAbsent
from tacenda_node.wire.probe import dates
from tacenda_node.wire.tls_log import TlsLog

PROOF_DISPLAY_SECONDS = 3.0  # for which a node that found a lie still shows the proof
# Address space that a node takes up after its program is loaded: 730 MB with three members
LEAST_ROOM = 600 * 10**6
ALL_FINISHED = "all finished"  # note: no neighbour needs a message of this run any more
SAVED = "result saved"  # note: the run folder is whole, and never changes


def run_node(options: NodeSettings) -> RunResult:
    """Take part in the run until its last round,
    and return this member's result (also saved in the state folder)."""
    _require_room()
    contract = contract_files.read(options.contract)
    if contract.rehearsal_seed is not None and not options.rehearsal:
        raise InputError(
            "contract field rehearsal_seed: this contract is for a rehearsal with seeded noise; "
            "never for real data."
        )
    identity = Identity.read(options.identity)
    contract_files.require_own_signature(options.contract, identity.name)
    begun = find_start(contract, Path(options.contract), options.state)
    plan = make_plan(contract, None if begun is None else begun.taken_by(contract))
    policy = None if options.policy is None else PolicyFile.read(options.policy)
    if policy is not None:
        require_policy(policy, contract, identity.signing_key)
    schema = checked_schema(contract, options.schema)
    if not gc.isenabled():  # a process of its own: what is loaded is never looked through again
        gc.freeze()
        gc.enable()
    state = NodeState(options.state, row_bytes=8 * plan.spec.facts.dim)
    try:
        with logs.open_log(options.state / "log.jsonl", identity.name) as log:
            amendments = Amendments(options.contract, contract, identity.name, state, log)
            check_identity(amendments.texts, identity)
            stop = Signals()
            box = Box(Path(options.contract).parent)
            member = Member(options, contract, identity, schema, policy, amendments, log, stop, box)
            return _run(member, plan, state, begun)
    finally:
        state.close()


def _require_room() -> None:
    """Refuse to begin where the process may not have the memory: numba and gRPC would end it
    without a word."""
    if hasattr(mmap, "MAP_PRIVATE"):
        mmap.mmap(-1, LEAST_ROOM, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ).close()


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


def _run(member: Member, plan: RunPlan, state: NodeState, begun: PublicStart | None) -> RunResult:
    """Pay for both runs, train, then evaluate. begun: where the training starts, if not at 0."""
    with ExitStack() as stack:
        training = _begin(member, plan, state, stack, None if begun is None else begun.model)
        with _stopping(member, training):
            result = _train(member, training)
            if training.closing is not None:
                _evaluate(member, training, training.closing, result)
            return result


@dataclass(frozen=True)
class _Training:
    """The training once it is paid for. closing: the evaluation that follows, paid for too;
    allowed: the officer's exceptions that were used."""

    session: Session
    peer: Peer
    state: NodeState
    spending: Spending
    observer: Observer
    closing: EvaluationRun | None
    allowed: list[Approval]


def _begin(
    member: Member, plan: RunPlan, state: NodeState, stack: ExitStack, start: Array | None
) -> _Training:
    """Wait for all signatures, read the records, and reserve what both runs cost."""
    options, contract, name, log = member.options, member.contract, member.name, member.log
    amendments = member.amendments
    session = Session(member, plan, state, [*amendments.former, amendments.current])
    stack.enter_context(session.display.open())
    observer = stack.enter_context(
        Observer(contract, member.identity, session.display, session.exchange, options.state, log)
    )
    observer.shares_budget = options.share_budget
    observer.proposals(member.box)
    if options.watch_tls:
        stack.enter_context(TlsLog(log, session.display.take))
    stack.enter_context(member.stop)
    stack.callback(session.stop)
    _serve(options, stack, observer, log)
    session.all_signed(amendments.book)
    member.box.signed(amendments.current, amendments.book.current.frame().signatures)
    ledger = ledger_path(options.ledger, name, options.state, options.rehearsal)
    # No record is read before all have signed
    by_ids = ByIds.of(ledger, options.dataset, plan, name)
    records = read_records(contract, name, member.schema, options.data, ledger, by_ids)
    chosen = records.chosen
    if chosen is not None and chosen.words:
        _tell(options, log, [chosen.words])
    key = state.bind(contract.run_id(), name, data_digest(records.trained))
    session.show_state(key)
    account = _account(options, contract, ledger, records.trained, log)
    roster = None if chosen is None else chosen.rosters[0]
    booked = Spending(ledger, plan, name, key, account, rehearsal=options.rehearsal, roster=roster)
    closing = None
    if contract.evaluation is not None:
        closing = stack.enter_context(EvaluationRun(member))
        _tell(options, log, closing.claim(ledger, account, records))
        closing.require_covered(account, booked, plan)
    accounts = [account] if closing is None else [account, closing.account]
    allowed = _hold_budget(member, ledger, accounts)
    spending = stack.enter_context(booked)
    if closing is not None:
        closing.reserve()
        observer.held_out(closing.plan, closing.account)
    observer.account(ledger, account)
    state.keep_mark(spending.mark)
    edges = session.handshake.edges
    peer = Peer(plan, name, records.trained, state, session.exchange, edges, start)
    peer.restore(session.agreement.absent_in)
    if peer.round < contract.rounds and name not in amendments.left and not member.ended():
        spending.require_open()
    session.meet(peer)
    return _Training(session, peer, state, spending, observer, closing, allowed)


def _train(member: Member, training: _Training) -> RunResult:
    """Make all rounds, save the result, and stay until no neighbour needs this member."""
    session, peer, state = training.session, training.peer, training.state
    session.run(peer, training.spending.anew, member.policy)
    state.destroy_keys()
    training.spending.settle(state.charges(), final=True)
    folder, caught = member.options.state, session.witness.caught
    saved = result_file(folder, member.contract, member.name)
    if state.noted(SAVED) and saved.is_file():  # a finished node, started again
        result = load(saved)
    else:
        result = peer.result(session.display.seconds)
        _save(member, training, result)
        state.note(SAVED, True)
    training.observer.warn(result.warnings)
    digest = model_digest(result.models[0])
    _name_evaluation(training, result)
    if not state.noted(ALL_FINISHED):
        _take_leave(training, member.stop)
    if session.plan.spec.one_model and model_digest(peer.models()[0]) != digest:
        # A root had signed two totals, and the members have agreed on the one that was not used
        result = peer.result(session.display.seconds)
        _save(member, training, result)
        _name_evaluation(training, result)
    model_signatures.keep(saved, session.witness.models(session.exchange.view))
    # found while the last digests went round
    if caught.keys() - session.exchange.absent:
        _save(member, training, result)
        raise MemberCaught(list(caught.values()))
    return result


def _name_evaluation(training: _Training, result: RunResult) -> None:
    """Tell the neighbours by which contracts the evaluation of this model goes on."""
    if training.closing is not None:
        model = FinishedModel.of(result)
        texts = training.closing.texts(model, training.session.exchange.absent)
        training.session.handshake.closed_by = frozenset(text.hash() for text in texts)


def _save(member: Member, training: _Training, result: RunResult) -> None:
    save_folder(
        member.options.state,
        result,
        member.contract,
        member.schema,
        member.identity,
        training.session.witness.caught,
        training.allowed,
    )
    if member.contract.table_parts():
        absent = training.session.exchange.absent
        agreed_tables.save(member.options.state, result, member.contract, member.schema, absent)


def _evaluate(
    member: Member, training: _Training, closing: EvaluationRun, result: RunResult
) -> None:
    """Evaluate the model with those who ended the training, once its connections are closed."""
    session, observer = training.session, training.observer
    session.stop()
    session.display.take_down()
    evaluated = closing.run(result, session.exchange.absent, observer)
    if isinstance(evaluated, str):
        result.warnings.append(observer.no_evaluation(evaluated))
        return
    save_evaluation(member.options.state, result, evaluated, member.contract, member.identity)
    observer.warn(evaluated.found.warnings)


@contextmanager
def _stopping(member: Member, training: _Training) -> Iterator[None]:
    """Log why the node stops, book what was spent, and close all edges."""
    try:
        yield
    except BaseException as stopped:
        member.log.warning(
            "stopped",
            reason=type(stopped).__name__,
            message=str(stopped) if isinstance(stopped, TacendaError) else "",
        )
        left = isinstance(stopped, LeftRun)
        _settle_what_is_there(training.spending, training.state, member.log, final=left)
        if left:
            training.state.destroy_keys()
        if left and training.closing is not None:
            training.closing.give_back()
        if isinstance(stopped, (ConflictingVotes, MemberCaught)):
            time.sleep(min(PROOF_DISPLAY_SECONDS, member.contract.absence.limit_seconds))
        raise
    finally:
        training.session.stop()


def _settle_what_is_there(spending: Spending, state: NodeState, log: Any, *, final: bool) -> None:
    """Before the node stops for another reason, which the operator must read. Where it fails, the
    whole run stays reserved in the ledger: never less than was spent."""
    try:
        spending.settle(state.charges(), final=final)
    except (StateError, sqlite3.Error) as failed:
        log.warning("spending not settled yet", reason=type(failed).__name__)


def _hold_budget(member: Member, ledger: Path, accounts: list[str]) -> list[Approval]:
    """Hold contract and budgets against the policy; the officer's exceptions that were used, which
    go into the log, too."""
    policy = member.policy
    if policy is None:
        return []
    with LedgerStore(ledger) as store:
        budgets = [store.budget(account) for account in accounts]
    most = None if None in budgets else max(budget.epsilon for budget in budgets if budget)
    found = policy.forbids_budget(most)
    used = require_policy(policy, member.contract, member.identity.signing_key, found)
    for one in used:
        lines = "; ".join(one.lines)
        member.log.info("approved against the policy", by=one.by, message=f"{lines}: {one.reason}")
    return used


def _account(
    options: NodeSettings, contract: Contract, ledger: Path, problem: Any, log: Any
) -> str:
    """The account in the lasting ledger; what it says so far is logged, and shown."""
    needs_budget = not (options.no_budget or options.rehearsal)
    account, notes = claim(
        ledger, problem, options.dataset, contract.privacy, options.budget, needs_budget
    )
    _tell(options, log, notes)
    return account


def _tell(options: NodeSettings, log: Any, notes: list[str]) -> None:
    for note in notes:
        log.info("account", message=note)
        if not options.quiet:
            print(note, file=sys.stderr, flush=True)


def _take_leave(training: _Training, stop: Signals) -> None:
    """Stay until no neighbour needs a message of the training any more, or as long as one may be
    away; where an evaluation follows, half as long, because others may be in it and wait."""
    session, peer, evaluates = training.session, training.peer, training.closing is not None
    contract = session.contract
    limit = contract.absence.limit_seconds

    def model() -> bytes:
        return bytes.fromhex(model_digest(peer.models()[0]))

    signed = model if session.plan.spec.one_model else None
    missing = session.take_leave(limit / 2 if evaluates else limit, signed)
    training.state.note(ALL_FINISHED, not missing)
    if missing and evaluates:
        stop.check()
        # In the evaluation nobody could get the training's last rows from here any more
        if contract.absence.policy == "stop":
            links = session.endpoint.links
            reasons = [links[peer].reason for peer in missing if peer in links]
            raise PeerAbsent(missing, limit / 2, reasons)


def _serve(options: NodeSettings, stack: ExitStack, observer: Observer, log: Any) -> None:
    """Health, metrics and the page, where they were asked for."""
    if options.metrics_address is not None:
        stack.enter_context(Monitor(str(options.metrics_address), observer, log))
    if options.dashboard is not None:
        stack.enter_context(
            Dashboard(options.dashboard, observer, options.state, log, quiet=options.quiet)
        )
