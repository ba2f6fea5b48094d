"""A budget that holds for each declared id by itself: no id ever loses more than its cap, whatever
windows, joins and exits there are. Against a plain account book for each id."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from tacenda.errors import BudgetError, StateError
from tacenda.privacy.accounting.events import Gaussian, Pure
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.rosters import (
    HELD,
    TRAINED,
    Roster,
    first_seen,
    hashes_of,
    largest_sets,
    sides_of,
)
from tacenda.privacy.lasting.units import Unit

ONE = Unit(1, 1)


@pytest.mark.parametrize("seed", range(6))
def test_no_id_passes_its_cap(tmp_path: Path, seed: int) -> None:
    """Random windows, records that come and go, runs that stop early, and runs without ids."""
    rng, cap = np.random.default_rng(seed), 2.0
    lost: dict[str, float] = defaultdict(float)  # by id: pure epsilons simply add up
    everybody = {"north": 0.0, "north/held-out": 0.0}  # by runs without ids
    refused, left_out, joined = 0, 0, seed % 2 == 1
    with LedgerStore(tmp_path / "ledger") as store:
        for account in everybody:
            store.set_budget(account, cap, 0.0, unit=ONE)
        if joined:
            store.join("north", "north/held-out")
        for month in range(30):
            first = int(rng.integers(0, 40))
            names = [f"p{k}" for k in range(first, first + int(rng.integers(1, 25)))]
            price, side = float(rng.choice([0.25, 0.5, 1.0])), TRAINED
            account = "north"
            if rng.random() < 0.3:
                account, side = "north/held-out", HELD
            of_all = sum(everybody.values()) if joined else everybody[account]
            has_ids = rng.random() < 0.9
            roster = None
            if has_ids:
                ids = store.hashed(names)
                fits = store.covered(account, ids, [(ONE, [(Pure(price), 1)])])
                book = np.array([lost[name] + of_all + price <= cap for name in names])
                assert (fits == book).all()
                if rng.random() < 0.7:  # those whose cap is used up take no part
                    left_out += int((~fits).sum())
                    names = [name for name, fine in zip(names, fits, strict=True) if fine]
                if not names:
                    continue
                roster = Roster(store.hashed(names), side)
                allowed = all(lost[name] + of_all + price <= cap for name in names)
            else:  # all that was spent on either side's own account counts
                total = store.spent(account)
                spent = sum(e.epsilon * n for e, n in [*total.events, *total.reserved])
                allowed = spent + price <= cap
            run, events = f"run {month}", [(Pure(price), 1)]
            if not allowed:
                with pytest.raises(BudgetError, match="Nothing was charged"):
                    store.open_run(run, account, "", "replace-one", events, ONE, roster=roster)
                refused += 1
                continue
            store.open_run(run, account, "", "replace-one", events, ONE, roster=roster)
            if rng.random() < 0.8:  # else nothing is released, and all is free again
                store.charge(run, (1, 1), Pure(price))
                if roster is None:
                    everybody[account] += price
                for name in names if roster is not None else ():
                    lost[name] += price
                    assert lost[name] + of_all <= cap
            store.close_run(run)
        assert store.verify().ok
    assert refused and left_out


def test_ids_are_independent_of_order_and_known_again(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "ledger") as store:
        ids = store.hashed(["b", "a", "c"])
        assert store.hashed(["c", "b"]).tolist() == [ids[2], ids[0]]
        store.open_run("one", "north", "", reserve=[(Pure(1.0), 1)], unit=ONE, roster=Roster(ids))
        assert store.rosters_of("north")["one"].ids.tolist() == sorted(ids)
    with LedgerStore(tmp_path / "other") as other:
        assert not set(other.hashed(["a", "b", "c"])) & set(ids)  # under its own key


def test_the_largest_of_the_ids_counts_and_not_the_sum(tmp_path: Path) -> None:
    event = Gaussian(4.0)
    with LedgerStore(tmp_path / "ledger") as store:
        for month in range(6):
            roster = Roster(store.hashed([str(month), str(month + 1)]))
            store.open_run(str(month), "north", "", "replace-one", [(event, 1)], ONE, roster=roster)
            store.charge(str(month), 0, event)
        worst, whole = store.spent_by_id("north"), store.spent("north")
        assert worst.events == [(event, 2)] and whole.events == [(event, 6)]
        assert store.spent("north", ids=store.hashed(["0"])).events == [(event, 1)]
        assert store.spent("north", ids=store.hashed(["new"])).events == []


def test_a_run_without_ids_counts_for_every_id_and_for_the_whole_account(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "ledger") as store:
        store.set_budget("north", 1.0, 0.0)
        for month in range(3):
            roster = Roster(store.hashed([f"of month {month}"]))
            run = f"month {month}"
            store.open_run(run, "north", "", None, [(Pure(0.5), 1)], roster=roster)
            if month == 1:
                break
        with pytest.raises(BudgetError, match="1 is spent or reserved, and"):
            store.open_run("without", "north", "", None, [(Pure(0.25), 1)])
        store.close_run("month 0")
        store.open_run("without", "north", "", None, [(Pure(0.5), 1)])
        roster = Roster(store.hashed(["new"]))
        with pytest.raises(BudgetError, match="reserved by an id that takes part"):
            store.open_run("later", "north", "", None, [(Pure(0.75), 1)], roster=roster)


def test_joined_accounts_do_not_share_ids(tmp_path: Path) -> None:
    """Another account may number its records otherwise: its runs count for everybody."""
    with LedgerStore(tmp_path / "ledger") as store:
        for name in ("north", "south"):
            roster = Roster(store.hashed(["1" if name == "north" else "2"]))
            store.open_run(name, name, "", None, [(Pure(0.5), 1)], roster=roster)
        assert store.spent("north", ids=store.hashed(["9"])).reserved == []
        store.join("north", "south")
        assert store.spent("north", ids=store.hashed(["9"])).reserved == [(Pure(0.5), 1)]
        assert store.spent("north", ids=store.hashed(["1"])).reserved == [(Pure(0.5), 2)]


def test_a_roster_that_was_changed_is_seen(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "ledger") as store:
        store.open_run("one", "north", roster=Roster(store.hashed(["a", "b"])))
        assert store.verify().ok
        store._file.execute("UPDATE rosters SET ids = ?", b"\0" * 8)
        assert "ids noted for run 'one'" in store.verify().reason


def test_a_refused_run_leaves_no_roster(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "ledger") as store:
        store.set_budget("north", 1.0, 0.0)
        roster = Roster(store.hashed(["a"]))
        with pytest.raises(BudgetError):
            store.open_run("one", "north", "", None, [(Pure(2.0), 1)], roster=roster)
        assert store.rosters_of("north") == {} and store.runs() == []
        with pytest.raises(StateError):
            store.charge("one", 0, Pure(0.1))


def test_sides_and_months_of_entry() -> None:
    a, b, c, d = hashes_of("abcd", b"key")
    rosters = [
        Roster(np.array([a, b])),
        Roster(np.array([c]), HELD),
        Roster(np.array([b])),
        Roster(np.array([c]), HELD),
    ]
    ids = np.array([d, c, b, a])
    trained, held = sides_of(rosters, ids)
    assert trained.tolist() == [False, False, True, True]
    assert held.tolist() == [False, True, False, False]
    assert first_seen(rosters, ids).tolist() == [0, 2, 2, 2]  # an evaluation is of its training


def test_sets_that_another_one_holds_are_left_out() -> None:
    sets = [("a",), ("a", "b"), ("c",), ("b",), ()]
    assert sorted(largest_sets(sets)) == [("a", "b"), ("c",)]
    assert largest_sets([()]) == [()]
