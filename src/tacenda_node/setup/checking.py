"""`tacenda node check`: a member's own data and settings, tried before anything is signed or
charged.

The records are read and encoded as the node would do it, and what would be charged is computed from
public facts; the ledger is looked at in a copy. Then the run is rehearsed as real processes on this
machine, with fresh keys, simulated neighbours and, unless asked otherwise, made-up records of the
same size. What is said of the records was read without noise: it is for this member alone.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.data.cells import column_numbers
from tacenda.data.columns import NumericColumn
from tacenda.data.readers import iter_tables
from tacenda.data.schema import Schema
from tacenda.data.usable import usable
from tacenda.errors import TacendaError
from tacenda.privacy.accounting.events import at_members
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.rosters import Roster
from tacenda.words import against, counted, noun
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.operate.policy import PolicyFile, require
from tacenda_node.operate.settings import NodeSettings
from tacenda_node.peer.evaluation_plan import closing_plan
from tacenda_node.peer.member_records import MemberRecords, read_records
from tacenda_node.peer.run_plan import RunPlan, make_plan
from tacenda_node.peer.taking_part import ByIds
from tacenda_node.setup.consortium import trial_contract
from tacenda_node.setup.doctor import Finding
from tacenda_node.setup.meaning import learnt, unfit_rule, warnings_before
from tacenda_node.setup.rehearse import rehearse, summary
from tacenda_node.state.accounts import claim, claim_held_out, default_ledger
from tacenda_node.state.spending import EVALUATION, is_run_of

FEW_ROUNDS = 3
MOST_MEMBERS = 5  # as processes on one machine
FOR_YOU_ALONE = "read from your records without noise: keep it on site"


def check(
    folder: Path,
    settings: NodeSettings,
    *,
    rehearsal: bool = True,
    own_records: bool = False,
    rounds: int = FEW_ROUNDS,
    seconds: float = 300.0,
) -> list[Finding]:
    """All findings in order; what depends on a failed one is left out.

    Before there is a contract, the invitation's is tried, as if all members were like this one.
    rounds: of the rehearsal. own_records: the rehearsal reads this member's records, too.
    """
    findings: list[Finding] = []
    try:
        identity = Identity.read(settings.identity)
        contract, what = _contract(folder, settings)
        plan = make_plan(contract)
    except TacendaError as wrong:
        return [Finding("contract", False, str(wrong), "correct it, then check again")]
    name = identity.name
    told = f"{what}: {plan.spec.algorithm.title}, {learnt(contract)}"
    findings.append(Finding("contract", True, told))
    findings += [Finding("warning", True, sentence) for sentence in warnings_before(plan)]
    if settings.policy is not None:
        findings.append(_policy(settings.policy, contract, identity.signing_key))
    try:
        records = records_as_split(settings, plan, name)
    except TacendaError as wrong:
        fix = "correct the records or the schema; nothing was sent or charged"
        return [*findings, Finding("records", False, str(wrong), fix)]
    said = counted(int(records.trained.sizes[0]), "record")
    if records.held_out is not None:
        said += f" to train on and {int(records.held_out.sizes[0])} held out"
    findings.append(Finding("records", True, f"{said} fit schema and contract ({FOR_YOU_ALONE})"))
    findings += _values(settings, contract)
    findings += costs(settings, plan, name, records)
    if rehearsal:
        findings.append(_rehearsal(settings, contract, name, own_records, rounds, seconds))
    return findings


def _policy(path: Path, contract: Contract, member_key: str) -> Finding:
    """Whether the member's own policy allows the contract."""
    try:
        used = require(PolicyFile.read(path), contract, member_key)
    except TacendaError as forbidden:
        fix = "ask the officer; `tacenda node approve --help` says how an exception is written"
        return Finding("policy", False, str(forbidden), fix)
    by = f", with the approval of {', '.join(one.by for one in used)}" if used else ""
    return Finding("policy", True, f"{path} allows it{by}")


def _contract(folder: Path, settings: NodeSettings) -> tuple[Contract, str]:
    if settings.contract.exists():
        return contract_files.read(settings.contract), f"{settings.contract}"

    return trial_contract(folder), "the invitation's, with members like this one"


def _values(settings: NodeSettings, contract: Contract) -> list[Finding]:
    """How many records do not fit the schema, and how many numbers of the others lie outside the
    declared bounds and are moved to them."""

    schema = Schema.read(settings.schema)
    columns = [column for column in schema.columns if isinstance(column, NumericColumn)]
    outside = {column.name: 0 for column in columns}
    total = unfit = 0
    for table in iter_tables(settings.data, ragged="blank"):
        good = usable(schema, table)
        unfit += int(np.count_nonzero(~good))
        for column in columns:
            values, _ = column_numbers(schema, column, table, good)
            outside[column.name] += int(((values < column.low) | (values > column.high)).sum())
            total += len(values)
    found = []
    if unfit:
        told = f"{counted(unfit, 'record')} cannot be read by the schema; {unfit_rule(contract)}"
        found.append(Finding("records", True, f"{told} ({FOR_YOU_ALONE})"))
    many = {name: k for name, k in outside.items() if k}
    if not many:
        told = f"all numbers lie within their bounds ({FOR_YOU_ALONE})"
        return [*found, Finding("bounds", True, told)]
    worst = sorted(many, key=lambda name: -many[name])[:5]
    told = ", ".join(f"{many[name]} of {name!r}" for name in worst)
    told = (
        f"{sum(many.values())} of {total} numbers lie outside their bounds and are moved to them: "
        f"{told} ({FOR_YOU_ALONE})"
    )
    return [*found, Finding("bounds", True, told)]


def records_as_split(settings: NodeSettings, plan: RunPlan, name: str) -> MemberRecords:
    """The records, split as the run would split them, by a copy of the ledger."""
    contract = plan.contract
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "ledger.sqlite"
        if contract.evaluation is not None or contract.privacy.records_per_person is not None:
            _copy(settings.ledger or default_ledger(name), copy)
        by_ids = ByIds.of(copy, settings.dataset, plan, name)
        return read_records(contract, name, settings.schema, settings.data, copy, by_ids)


def costs(
    settings: NodeSettings, plan: RunPlan, name: str, records: MemberRecords
) -> list[Finding]:
    """What the run would charge, and what its evaluation would charge the held-out records."""
    rosters = (None, None) if records.chosen is None else records.chosen.rosters
    found = [cost(settings, plan, name, records.trained, roster=rosters[0])]
    if records.held_out is not None:
        closing = closing_plan(plan.contract)
        both = (records.trained, records.held_out)
        found.append(cost(settings, closing, name, *both, roster=rosters[1]))
    return found


def cost(
    settings: NodeSettings,
    plan: RunPlan,
    name: str,
    problem: Any,
    held_out: Any = None,
    roster: Roster | None = None,
) -> Finding:
    """What the run would charge and what would be left, in a copy of the ledger. held_out: the
    plan is that of the evaluation, and these are its records. roster: the ids that take part, where
    each has a budget of its own."""

    terms, events = plan.contract.privacy, plan.reservation(name)
    real = settings.ledger or default_ledger(name)
    run = judge(at_members(events, terms.person[1]), terms.adjacency)
    pooled = None if plan.spec.algorithm.traits.shared_noise is None else plan.coalition
    which = "cost" if held_out is None else "evaluation"
    what = "run" if held_out is None else "evaluation"
    says = (
        f"the {what} would charge epsilon {run.epsilon(terms.delta):.4g} at delta {terms.delta:g}, "
        f"against {against(pooled)}"
    )
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "ledger.sqlite"
        try:
            _copy(real, copy)
        except sqlite3.Error as wrong:
            fix = "restore the ledger from a backup; do not delete it"
            return Finding(which, False, f"{says}; the ledger {real} cannot be read: {wrong}", fix)
        try:
            account, _ = claim(
                copy, problem, settings.dataset, terms, settings.budget, not settings.no_budget
            )
        except TacendaError as wrong:
            told = str(wrong).replace(str(copy), str(real))
            fix = "write budget = EPSILON into node.toml: what all runs together may lose"
            return Finding(which, False, f"{says}; {told}", fix)
        if held_out is not None:
            named = settings.dataset is not None
            account, _ = claim_held_out(copy, account, problem, held_out, named=named)
        with LedgerStore(copy) as store:
            ids = None if roster is None else roster.ids
            spent = store.spent(account, ids=ids)
            with_it = store.spent(account, more=[(plan.unit, events)], ids=ids)
            begun = any(_is_begun(run["run"], plan.contract, name) for run in store.runs())
    if begun:
        says, with_it = f"{says}, and has begun: it is in the ledger already", spent
    if spent.budget is None:
        return Finding(which, True, f"{says}; these records have no budget, by your own word")
    delta, limit = spent.budget.delta, spent.budget.epsilon
    so_far = spent.curve_with_reserved.epsilon(delta)
    after = with_it.curve_with_reserved.epsilon(delta)
    allowed = spent.budget.allows([*with_it.events, *with_it.reserved])
    return Finding(
        which,
        allowed,
        f"{says}; all runs on these records: {so_far:.4g} so far, {after:.4g} with this one, of "
        f"a budget of {limit:g} at delta {delta:g}; {max(0.0, limit - so_far):.4g} is left",
        "the budget does not cover this run: ask for a contract with a smaller epsilon, or raise "
        "the budget by `tacenda ledger budget` if your officer agrees",
    )


def _is_begun(run: str, contract: Contract, name: str) -> bool:
    if contract.evaluates is None:
        return is_run_of(run, contract, name)
    return run.startswith(f"{contract.evaluates.run[:16]}-") and EVALUATION in run


def _copy(real: Path, copy: Path) -> None:
    """The ledger's content, without a touch on the ledger itself."""
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL, 0o600))
    if not real.exists():
        return
    with (
        closing(sqlite3.connect(f"{real.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)


def _rehearsal(
    settings: NodeSettings,
    contract: Contract,
    name: str,
    own_records: bool,
    rounds: int,
    seconds: float,
) -> Finding:
    smaller = _smaller(contract, name, rounds)
    data = {name: Path(settings.data)} if own_records else None
    records = "your own records" if own_records else "made-up records"
    begun, worked = time.monotonic(), _children_seconds()
    with tempfile.TemporaryDirectory() as place:  # and nothing of it is kept
        try:
            stage = rehearse(smaller, settings.schema, place, data=data, seconds=seconds)
            rehearsed = summary(stage)
        except TacendaError as wrong:
            fix = "the message names the member's process; `tacenda doctor` checks this machine"
            return Finding("rehearsal", False, str(wrong), fix)
    others, took = rehearsed["members"] - 1, time.monotonic() - begun
    return Finding(
        "rehearsal",
        True,
        f"{counted(rehearsed['rounds'], 'round')} with {others} simulated "
        f"{noun(others, 'neighbour')}, {records}, real TLS and noise, "
        f"in {took:.0f} s ({_children_seconds() - worked:.0f} s of processor, most of it to start "
        f"{rehearsed['members']} processes; the rounds took {rehearsed['seconds']:.2g} s); "
        "nothing was charged",
    )


def _children_seconds() -> float:
    """The processor's time of the processes that were started here and have ended."""
    used = os.times()
    return used.children_user + used.children_system


def _smaller(contract: Contract, name: str, rounds: int) -> Contract:
    """The same run with few rounds, and with this member and a few of the others."""
    kept = [name, *contract.neighbours(name)]
    kept = (kept + [n for n in contract.names if n not in kept])[:MOST_MEMBERS]
    values = contract.to_plain()
    for amended in ("amendment", "follows", "left"):
        values.pop(amended, None)
    values["rounds"] = min(contract.rounds, rounds)
    if len(contract.names) > len(kept):
        values["edges"] = contract_files.named_edges("complete", kept)
    values["members"] = [m for m in values["members"] if m["name"] in kept]
    return Contract.build(values)
