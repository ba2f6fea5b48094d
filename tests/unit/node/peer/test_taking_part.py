"""Who takes part, on which side, by ids; what is refused, and how it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from months_stage import ids_of, months_contract
from tacenda.errors import InputError
from tacenda.privacy.accounting.events import Gaussian
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.rosters import Roster
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.run_plan import RunPlan, make_plan
from tacenda_node.peer.taking_part import ByIds, asked_for

KEY = b"the ledger's own"
PRIVACY = {"epsilon": 2.0, "delta": 1e-5, "coalition": 1, "members_per_person": 1}
CONTINUES = {"run": "0" * 64, "start": "1" * 64}


def plan_of(relation: str = "replace-one", **changes: Any) -> RunPlan:
    privacy = {**PRIVACY, "records_per_person": 1, "adjacency": relation}
    return make_plan(months_contract(3, 60, **{"privacy": privacy, **changes}))


def chosen(ledger: Path, plan: RunPlan, names: list[str], account: str = "north") -> Any:
    by_ids = ByIds.of(ledger, account, plan, "m0")
    assert by_ids is not None
    return by_ids.choose(np.array(names), KEY)


def begin(ledger: Path, plan: RunPlan, names: list[str], run: str) -> Any:
    """Take part, and note it."""
    found = chosen(ledger, plan, names)
    with LedgerStore(ledger) as store:
        relation = plan.contract.privacy.adjacency
        for side, account in zip(found.rosters, ("north", "north/held-out"), strict=True):
            if len(side.ids):
                events = plan.reservation("m0") if account == "north" else [(Gaussian(9.0), 1)]
                name = f"{run} {account}"
                store.open_run(name, account, "", relation, events, plan.unit, 1e-5, side)
    return found


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_an_id_stays_on_its_side_for_ever(tmp_path: Path, relation: str) -> None:
    """Whatever share the next contract holds out, and whoever comes and goes."""
    ledger = tmp_path / "ledger"
    exact = {"evaluation": {"held_out": 0.2}, "finish_mixing": "exact"}
    plan = plan_of(relation, **exact)
    names = ids_of("m0", 0, 60)
    first = begin(ledger, plan, names, "one")
    assert (first.trained ^ first.held_out).all()
    if relation == "replace-one":
        assert first.held_out.sum() == 12
    held = {n for n, h in zip(names, first.held_out, strict=True) if h}
    later = [*ids_of("m0", 20, 60), *ids_of("m0", 100, 120)][::-1]
    share = {**exact, "evaluation": {"held_out": 0.3}}
    second = begin(ledger, plan_of(relation, **share), later, "two")
    for name, trained, kept in zip(later, second.trained, second.held_out, strict=True):
        if name in names:
            assert kept == (name in held) and trained == (name not in held)
    if relation == "replace-one":
        assert second.held_out.sum() == 18
    # Without an evaluation those who were held out are left out
    if relation == "add-remove":
        third = chosen(ledger, plan_of(relation), names)
        assert {n for n, t in zip(names, third.trained, strict=True) if not t} == held
        assert not third.held_out.any()


def test_a_share_that_ids_cannot_give_is_refused(tmp_path: Path) -> None:
    exact = {"evaluation": {"held_out": 0.2}, "finish_mixing": "exact"}
    begin(tmp_path / "ledger", plan_of(**exact), ids_of("m0", 0, 60), "one")
    fewer = plan_of(**{**exact, "evaluation": {"held_out": 0.1}})
    with pytest.raises(InputError, match="12 were held out before and 48 were trained on") as said:
        chosen(tmp_path / "ledger", fewer, ids_of("m0", 0, 60))
    assert "agree on a share that gives 12 to 12" in str(said.value)


def test_who_has_used_up_the_budget_takes_no_part(tmp_path: Path) -> None:
    """Under replace-one the size is public, and the refusal says the one to propose."""
    ledger, plan = tmp_path / "ledger", plan_of()
    with LedgerStore(ledger) as store:
        store.set_budget("north", 2.5, 1e-5, unit=plan.unit)
    begin(ledger, plan, ids_of("m0", 0, 60), "one")
    later = ids_of("m0", 45, 105)
    with pytest.raises(InputError, match="size is 60, and 45 of 60 records take part") as said:
        chosen(ledger, plan, later)
    assert "15 have used up their budget" in str(said.value)
    assert "propose the run with --size m0=45" in str(said.value)
    smaller = plan.contract.to_plain()
    smaller["members"][0]["size"] = 45
    found = chosen(ledger, make_plan(Contract.build(smaller)), later)
    assert found.trained.tolist() == [False] * 15 + [True] * 45


def test_nobody_elses_part_changes_with_one_id(tmp_path: Path) -> None:
    """add-remove: the coins, the caps and the words of others are the same without it."""
    plan = plan_of("add-remove", evaluation={"held_out": 0.3}, finish_mixing="exact")
    whole = chosen(tmp_path / "one", plan, ids_of("m0", 0, 60))
    one_less = chosen(tmp_path / "one", plan, ids_of("m0", 1, 60))
    assert whole.held_out[1:].tolist() == one_less.held_out.tolist()


def test_new_ids_old_ones_and_a_window(tmp_path: Path) -> None:
    ledger, plan = tmp_path / "ledger", plan_of("add-remove")
    for month in range(3):
        begin(ledger, plan, ids_of("m0", 20 * month, 20 * month + 30), f"month {month}")
    names = ids_of("m0", 0, 90)

    def part(**asked: Any) -> list[int]:
        contract = plan_of("add-remove", continues={**CONTINUES, **asked})
        trained = chosen(ledger, contract, names).trained
        return [k for k in range(90) if trained[k]]

    assert part() == list(range(90))
    assert part(records="new") == list(range(70, 90))
    assert part(records="old") == list(range(70))
    assert part(window=1) == list(range(70, 90))
    assert part(window=2) == list(range(50, 90))  # and those who came in the month before
    assert part(window=2, records="old") == list(range(50, 70))


def test_a_run_that_was_begun_goes_on_with_the_same_ids(tmp_path: Path) -> None:
    """Also where its own reservation has used up what they had."""
    ledger, plan = tmp_path / "ledger", plan_of()
    with LedgerStore(ledger) as store:
        store.set_budget("north", 2.1, 1e-5, unit=plan.unit)
        names = ids_of("m0", 0, 60)
        run = f"{plan.contract.run_id()[:16]}-state-m0"
        roster = Roster(store.hashed(names))
        events = plan.reservation("m0")
        store.open_run(run, "north", "", None, events, plan.unit, 1e-5, roster)
        assert not store.covered("north", roster.ids, [(plan.unit, events)]).any()
    assert chosen(ledger, plan, names).trained.all()


def test_without_ids_or_a_name_the_whole_account_pays(tmp_path: Path) -> None:
    plan, ledger = plan_of(), tmp_path / "ledger"
    assert ByIds.of(ledger, None, plan, "m0") is None
    assert ByIds.of(None, "north", plan, "m0") is None
    privacy = {k: v for k, v in PRIVACY.items() if k != "members_per_person"}
    without = make_plan(months_contract(3, 60, privacy=privacy))
    assert ByIds.of(ledger, "north", without, "m0") is None
    assert asked_for(plan.contract, np.array([0, 3])).all()


def test_nobody_left_is_refused(tmp_path: Path) -> None:
    ledger, plan = tmp_path / "ledger", plan_of("add-remove", continues=CONTINUES)
    begin(ledger, plan, ids_of("m0", 0, 60), "one")
    new = plan_of("add-remove", continues={**CONTINUES, "records": "new"})
    with pytest.raises(InputError, match="No record of m0 takes part"):
        chosen(ledger, new, ids_of("m0", 0, 60))
