"""Which ledger and which account a member's run is charged to, and that it has a budget.

One ledger for each member and machine, outside every run's state folder: what its records lose in
all runs together is the sum over contracts, which no contract bounds. So a run needs a budget for
its account, or the operator's word that there shall be none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacenda.errors import BudgetError, InputError, PrivacyError, StateError
from tacenda.privacy.lasting.budgets import Spent
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.units import Unit
from tacenda.runtime.lasting_run import account_of, marks_of_problem
from tacenda.words import against

REHEARSAL_LEDGER = "ledger.sqlite"  # in the state folder


def default_ledger(member: str) -> Path:
    """Where this member's ledger lies on this machine unless --ledger says otherwise."""
    import platformdirs

    return platformdirs.user_data_path("tacenda", appauthor=False) / "ledgers" / f"{member}.sqlite"


def ledger_path(given: Path | None, member: str, state: Path, rehearsal: bool) -> Path:
    """The ledger's file (the default one's folder is made); a rehearsal has a ledger of its own in
    its state folder."""
    if given is not None:
        return given
    if rehearsal:
        return state / REHEARSAL_LEDGER
    if (state / REHEARSAL_LEDGER).exists():
        raise StateError(
            f"the state folder {str(state)!r} holds a ledger of its own, as a rehearsal made it; "
            f"to continue with it pass --ledger {state / REHEARSAL_LEDGER}, "
            "or move it to where the ledger of all your runs should be and pass that path."
        )
    path = default_ledger(member)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def claim(
    path: Path,
    problem: Any,
    dataset: str | None,
    privacy: Any,
    budget: float | None,
    needs_budget: bool,
) -> tuple[str, list[str]]:
    """The account of the member's records, and what to tell the operator; refused, before anything
    is sent, without a budget.

    privacy: the contract's terms. budget: epsilon for all runs together, set where the account has
    none yet.
    """
    with LedgerStore(path) as store:
        account = account_of(store, problem, dataset)
        known = store.budget(account.name)
        if budget is not None and known is None:
            unit = Unit(privacy.records_per_person, privacy.person[1])
            store.set_budget(account.name, budget, privacy.delta, privacy.adjacency, unit)
        elif budget is not None and known is not None and known.epsilon != budget:
            raise InputError(
                f"--budget is {budget:g}, and the ledger {str(path)!r} already holds a budget of "
                f"epsilon {known.epsilon:g} for {account.name!r}; leave --budget (and budget in "
                f"node.toml) out, or change the ledger's: tacenda ledger budget {path} --dataset "
                f"{account.name!r} --delta {known.delta:g} --epsilon {budget:g}"
            )
        spent = store.spent_by_id(account.name)
        if needs_budget and spent.budget is None:
            raise PrivacyError(
                _missing(
                    path, spent, privacy, [n for n in store.datasets() if n not in spent.names]
                )
            )
    return account.name, [*account.notes, _so_far(path, spent, privacy.delta)]


def claim_held_out(
    path: Path, account: str, trained: Any, held_out: Any, *, named: bool
) -> tuple[str, list[str]]:
    """The account of the held-out records beside that of those trained on, under the same budget,
    and what to tell the operator. named: the data set's name was given by its holder."""
    with LedgerStore(path) as store:
        mine, others = (marks_of_problem(problem, store.salt) for problem in (trained, held_out))
        found = store.held_out_account(account, mine, others, apart=named)
        budget = store.budget(account)
        if budget is not None and store.budget(found.name) is None:
            store.copy_budget(account, found.name)
    return found.name, list(found.notes)


def require_covered(
    path: Path, account: str, held_out: str, trains: Any, evaluates: Any, ids: Any = None
) -> None:
    """Refuse a run whose evaluation could not be paid, before anything is reserved. trains,
    evaluates: (name of the run in the ledger, its unit, what it would reserve). ids: those that are
    held out, where each has a budget of its own; none of them is trained on."""
    with LedgerStore(path) as store:
        known = {run["run"] for run in store.runs()}
        budget = store.budget(held_out)
        if budget is None or evaluates[0] in known:
            return
        more = [evaluates[1:]]
        together = account in store.spent(held_out).names
        if ids is None and together and trains[0] not in known:
            more.append(trains[1:])
        spent = store.spent(held_out, more=more, ids=ids)
        if not budget.allows([*spent.events, *spent.reserved]):
            raise BudgetError(
                f"the budget of epsilon {budget.epsilon:g} for {held_out!r} in the ledger "
                f"{str(path)!r} does not cover the evaluation, so the training does not begin; ask "
                "for a contract with a smaller evaluation.epsilon, or raise the budget if your "
                f"officer agrees: tacenda ledger budget {path} --dataset {held_out!r} --delta "
                f"{budget.delta:g} --epsilon EPSILON"
            )


def _so_far(path: Path, spent: Spent, delta: float) -> str:
    limit = "no budget" if spent.budget is None else f"a budget of {spent.budget.epsilon:g}"
    at = delta if spent.budget is None else spent.budget.delta
    epsilon, whom = spent.curve_with_reserved.epsilon(at), against(spent.coalition)
    said = f"has spent epsilon {epsilon:.4g} at delta {at:g} in all runs so far"
    if spent.unit.size > 1:
        said = f"{said}, for {spent.unit}"
    if epsilon > 0:
        said = f"{said}, against {whom}"
    return f"ledger {path}: {spent.dataset!r} {said}; {limit}."


def _missing(path: Path, spent: Spent, privacy: Any, others: list[str]) -> str:
    known = ", ".join(map(repr, others))
    also = (
        f" If these are the records of {known} written in another way, "
        "pass --dataset with that name."
        if others
        else ""
    )
    return (
        f"{_so_far(path, spent, privacy.delta)} This run may add epsilon {privacy.epsilon:g}, "
        "and the contract does not bound the sum over runs: "
        "say what all runs on these records together may lose (budget = EPSILON in node.toml, or "
        f"--budget EPSILON), or --no-budget if they shall have no limit.{also}"
    )
