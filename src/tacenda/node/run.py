"""`run_node`: one member of a federation, from its contract and its own data to the shared model.

The very same algorithm files as in a simulation, on a block with one node; the door draws keyed
noise, and the transport makes every release durable before it is sent.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tacenda.data.schema import Schema
from tacenda.errors import InputError, StateError, TacendaError
from tacenda.node import logs
from tacenda.node.evaluation_plan import model_digest
from tacenda.node.evaluation_run import Evaluated, EvaluationRun
from tacenda.node.identity import contract_files
from tacenda.node.identity.certificates import Identity
from tacenda.node.identity.contract import Contract
from tacenda.node.member_records import checked_schema, read_records
from tacenda.node.membership.amendments import Amendments
from tacenda.node.membership.votes import ConflictingVotes
from tacenda.node.observer import EVALUATION_FILE, Observer
from tacenda.node.peer import Peer
from tacenda.node.policy import Approval, PolicyFile
from tacenda.node.policy import require as require_policy
from tacenda.node.run_plan import RunPlan, make_plan
from tacenda.node.session import Session
from tacenda.node.settings import NodeSettings
from tacenda.node.state.accounts import claim, ledger_path
from tacenda.node.state.database import NodeState
from tacenda.node.state.spending import Spending
from tacenda.node.transport.exchange import MemberCaught, PeerAbsent
from tacenda.node.transport.probe import dates
from tacenda.node.transport.tls_log import TlsLog
from tacenda.node.watchdog import LeftRun, Signals
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.runtime.lasting_run import data_digest
from tacenda.runtime.result import RunResult, load
from tacenda.runtime.run_folder import RunFolder

SHOWN = 3.0  # seconds for which a node that found a lie still shows its neighbours the proof
ALL_FINISHED = "all finished"  # note: no neighbour needs a message of this run any more
SAVED = "result saved"  # note: the run folder is whole, and never changes


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
    contract, name, stop = plan.contract, identity.name, Signals()
    former = amendments.former
    session = Session(
        options, plan, identity, state, log, stop, amendments.current, former, amendments
    )
    with ExitStack() as stack:
        stack.enter_context(session.display.open())
        observer = stack.enter_context(
            Observer(contract, identity, session.display, session.exchange, options.state, log)
        )
        if options.watch_tls:
            stack.enter_context(TlsLog(log, session.display.take))
        stack.enter_context(stop)
        stack.callback(session.stop)
        _serve(options, stack, observer, log)
        session.all_signed(amendments.book)
        ledger = ledger_path(options.ledger, name, options.state, options.rehearsal)
        # No record is read before all have signed
        records = read_records(contract, name, schema, options.data, ledger)
        problem = records.trained
        key = state.bind(contract.run_id(), name, data_digest(problem))
        session.show_state(key)
        account = _account(options, contract, ledger, problem, log)
        booked = Spending(ledger, plan, name, key, account, rehearsal=options.rehearsal)
        closing = None
        if contract.evaluation is not None:
            closing = stack.enter_context(
                EvaluationRun(options, contract, identity, log, stop, policy, schema.label)
            )
            _tell(options, log, closing.claim(ledger, account, records))
            closing.require_covered(account, booked, plan)
        accounts = [account] if closing is None else [account, closing.account]
        allowed = _hold_budget(policy, contract, identity.signing_key, ledger, accounts, log)
        spending = stack.enter_context(booked)
        if closing is not None:
            closing.reserve()
            observer.held_out(closing.plan, closing.account)
        observer.account(ledger, account)
        state.keep_mark(spending.mark)
        peer = Peer(plan, name, problem, key, state, session.exchange, session.handshake.edges)
        peer.restore()
        if peer.round < contract.rounds and name not in amendments.left:
            spending.require_open()
        session.meet(peer)
        try:
            session.run(peer, spending.anew, policy)
            spending.settle(state.charges(), final=True)
            caught = session.witness.caught
            saved = result_file(options.state, contract, name)
            if state.noted(SAVED) and saved.is_file():  # a finished node, started again
                result = load(saved)
            else:
                result = peer.result(session.display.seconds)
                save_folder(options.state, result, contract, schema, identity, caught, allowed)
                state.note(SAVED, True)
            observer.warn(result.warnings)
            absent = session.exchange.absent
            if closing is not None:
                texts = closing.texts(amendments, model_digest(result.models[0]), absent)
                session.handshake.closed_by = frozenset(text.hash() for text in texts)
            if not state.noted(ALL_FINISHED):
                model = bytes.fromhex(model_digest(result.models[0]))
                _take_leave(session, state, stop, model, closing is not None)
            # found while the last digests went round
            if caught.keys() - session.exchange.absent:
                save_folder(options.state, result, contract, schema, identity, caught, allowed)
                raise MemberCaught(list(caught.values()))
            if closing is None:
                return result
            session.stop()
            session.display.take_down()
            evaluated = closing.run(result, amendments, absent, observer)
            if isinstance(evaluated, str):
                result.warnings.append(observer.no_evaluation(evaluated))
                return result
            save_evaluation(options.state, result, evaluated, contract, identity)
            observer.warn(evaluated.found.warnings)
            return result
        except BaseException as stopped:
            log.warning(
                "stopped",
                reason=type(stopped).__name__,
                message=str(stopped) if isinstance(stopped, TacendaError) else "",
            )
            left = isinstance(stopped, LeftRun)
            _settle_what_is_there(spending, state, log, final=left)
            if left and closing is not None:
                closing.give_back()
            if isinstance(stopped, (ConflictingVotes, MemberCaught)):
                time.sleep(min(SHOWN, contract.absence.limit_seconds))
            raise
        finally:
            session.stop()


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
    accounts: list[str],
    log: Any,
) -> list[Approval]:
    """Hold contract and budgets against the policy; the officer's exceptions that were used, which
    go into the log, too."""
    if policy is None:
        return []
    with LedgerStore(ledger) as store:
        budgets = [store.budget(account) for account in accounts]
    most = None if None in budgets else max(budget.epsilon for budget in budgets if budget)
    found = policy.forbids_budget(most)
    used = require_policy(policy, contract, member_key, found)
    for one in used:
        lines = "; ".join(one.lines)
        log.info("approved against the policy", by=one.by, message=f"{lines}: {one.reason}")
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


def _take_leave(
    session: Session, state: NodeState, stop: Signals, model: bytes, evaluates: bool
) -> None:
    """Stay until no neighbour needs a message of the training any more, or as long as one may be
    away; where an evaluation follows, half as long, because others may be in it and wait."""
    contract = session.contract
    limit = contract.absence.limit_seconds
    signed = model if session.plan.spec.one_model else None
    missing = session.take_leave(limit / 2 if evaluates else limit, signed)
    state.note(ALL_FINISHED, not missing)
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
        from tacenda.node.health import Monitor

        stack.enter_context(Monitor(str(options.metrics_address), observer, log))
    if options.dashboard is not None:
        from tacenda.node.dashboard import Dashboard

        stack.enter_context(
            Dashboard(options.dashboard, observer, options.state, log, quiet=options.quiet)
        )


def save_evaluation(
    folder: Path, result: RunResult, evaluated: Evaluated, contract: Contract, identity: Identity
) -> None:
    """What the evaluation found, and both statements signed anew, in the state folder."""
    from tacenda.formats.files import write_json
    from tacenda.node.signed_statement import write_statement

    write_json(folder / EVALUATION_FILE, evaluated.found.to_plain())
    assert result.privacy is not None and evaluated.found.privacy is not None
    found = (evaluated.model, evaluated.found.privacy)
    write_statement(folder, result.privacy, contract, identity, found)


def result_file(folder: Path, contract: Contract, name: str) -> Path:
    """Where a member's result lies in its state folder."""
    return RunFolder(folder).result_path(f"{contract.algorithm.name}-{name}")


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
