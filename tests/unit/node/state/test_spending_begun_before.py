"""A contract is one run of each member: a second beginning, in an empty folder, is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node_stage import small_contract
from tacenda.errors import StateError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.peer.evaluation_plan import closing_plan
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.state.spending import Spending, is_evaluation_of, is_run_of

PLAN = make_plan(small_contract(3, 2))
OTHER = make_plan(small_contract(3, 2, title="another date"))
KEY, NEW = bytes(32), b"another state".ljust(32)


def begun(folder: Path, plan: Any = PLAN, name: str = "m0", key: bytes = KEY, **more: Any) -> str:
    with Spending(folder / "ledger", plan, name, key, "ours", **more) as spending:
        assert spending.mark == folder / "marks" / f"{spending.run}.mark"
        return spending.anew


def test_the_same_state_goes_on_and_another_one_is_refused(tmp_path: Path) -> None:
    assert begun(tmp_path) == begun(tmp_path) == ""
    with pytest.raises(StateError, match="m0 has begun this contract before, with another state"):
        begun(tmp_path, key=NEW)
    with LedgerStore(tmp_path / "ledger") as store:
        assert len(store.runs()) == 1
    assert begun(tmp_path) == ""  # the first one is not harmed


def test_other_contracts_members_and_rehearsals_are_other_runs(tmp_path: Path) -> None:
    begun(tmp_path)
    assert begun(tmp_path, plan=OTHER, key=NEW) == ""
    assert begun(tmp_path, name="m1", key=NEW) == ""
    assert begun(tmp_path, key=NEW, rehearsal=True) == ""


def test_a_run_that_never_reserved_anything_has_not_begun(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "ledger") as store:
        spending = Spending(tmp_path / "ledger", PLAN, "m0", KEY, "ours")
        store.open_run(spending.run, "ours", "stopped between two steps", "replace-one")
        assert not store.holds(spending.run)
    assert begun(tmp_path, key=NEW) == ""
    with LedgerStore(tmp_path / "ledger") as store:
        assert [store.holds(run["run"]) for run in store.runs()] == [False, True]


def test_where_members_may_join_again_only_the_beginning_is_closed(tmp_path: Path) -> None:
    """Under "continue" an empty state may join a later view; why it must not send anything in the
    first one is kept for `node.run`."""
    plan = make_plan(small_contract(3, 2, absence={"policy": "continue", "limit_seconds": 5.0}))
    assert begun(tmp_path, plan) == ""
    assert "sign a new contract" in begun(tmp_path, plan, key=NEW)


def test_a_closed_run_releases_nothing_more(tmp_path: Path) -> None:
    """Who left a run and puts a copy of the state back would spend what the ledger has freed."""
    events = [event.to_dict() for event, count in PLAN.events("m0") for _ in range(count)]
    charges = [((0, k, 0), event) for k, event in enumerate(events, 1)]
    with Spending(tmp_path / "ledger", PLAN, "m0", KEY, "ours") as spending:
        spending.require_open()
        spending.settle(charges[:1], final=True)
    with Spending(tmp_path / "ledger", PLAN, "m0", KEY, "ours") as copy:
        with pytest.raises(StateError, match="nothing more is released from it"):
            copy.require_open()
        copy.settle(charges[:1], final=True)  # nothing new: a finished run may start again
        with pytest.raises(StateError, match="was closed and can release nothing more"):
            copy.settle(charges, final=True)


def test_the_closing_run_is_a_run_of_its_own(tmp_path: Path) -> None:
    """Reserved beside the training, begun once, known to be the evaluation, and free again where it
    is not made."""
    contract = small_contract(3, 2, finish_mixing="exact", evaluation={"held_out": 0.5})
    training, closing = make_plan(contract), closing_plan(contract)
    smaller = closing_plan(contract, absent=["m2"])
    ledger = tmp_path / "ledger"

    def booked(plan: Any, key: bytes = KEY, closes: Any = contract) -> Spending:
        return Spending(ledger, plan, "m0", key, "held-out", closes=closes)

    runs = [booked(training, closes=None), booked(closing), booked(smaller)]
    assert len({one.run for one in runs}) == 3
    assert [is_run_of(one.run, contract, "m0") for one in runs] == [True, False, False]
    assert [is_evaluation_of(one.run, contract, "m0") for one in runs] == [False, True, True]
    assert not is_evaluation_of(runs[1].run, contract, "m")
    with runs[0], runs[1], LedgerStore(ledger) as store:
        assert all(store.holds(one.run) for one in runs[:2])
    with (
        pytest.raises(StateError, match="m0 has begun this contract before, with another state"),
        booked(closing, NEW),
    ):
        pass
    with booked(closing) as spending:
        spending.require_open()
        spending.give_back()
    with LedgerStore(ledger) as store:
        assert {run["run"]: run["open"] for run in store.runs()} == {
            runs[0].run: True,
            runs[1].run: False,
        }
        assert store.spent("held-out").reserved == training.events("m0")
    with booked(closing) as spending, pytest.raises(StateError, match="is closed in the ledger"):
        spending.require_open()
