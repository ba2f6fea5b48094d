"""A run of which nobody knows what it has released is spent in full: for good, in rows that verify,
and whatever the budget says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacenda.errors import BudgetError, StateError
from tacenda.privacy.accounting.events import Gaussian
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.ledger_store import LedgerStore

DELTA = 1e-5


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    plan=st.lists(st.tuples(st.sampled_from([2.0, 4.0, 8.0]), st.integers(1, 4)), min_size=1),
    done=st.integers(0, 6),
)
def test_it_costs_what_was_reserved_however_much_was_charged(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[float, int]], done: int
) -> None:
    events = [(Gaussian(sigma), count) for sigma, count in plan]
    places = [event for event, count in events for _ in range(count)]
    with LedgerStore(tmp_path_factory.mktemp("ledger") / "ledger.sqlite") as store:
        store.open_run("run", "records", reserve=events)
        store.charge_many("run", [((0, k), event) for k, event in enumerate(places[:done])])
        whole = store.spent("records").curve_with_reserved.epsilon(DELTA)
        left = store.close_as_spent("run")
        assert sum(count for _, count in left) == max(0, len(places) - done)
        after = store.spent("records")
        assert not after.reserved and store.verify().ok
        assert after.curve.epsilon(DELTA) == pytest.approx(whole, rel=1e-12)
        assert whole == pytest.approx(judge(events, "replace-one").epsilon(DELTA), rel=1e-12)
        with pytest.raises(StateError, match="closed"):
            store.close_as_spent("run")
        with pytest.raises(StateError, match="closed"):
            store.charge("run", (9, 9), Gaussian(8.0))


def test_what_has_happened_is_booked_beyond_the_budget_and_refuses_what_comes_after(
    tmp_path: Path,
) -> None:
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.set_budget("records", 0.5, DELTA)
        run = ("elsewhere", "records", "lost", "replace-one", [(Gaussian(1.0), 3)])
        assert store.book_spent(*run) and not store.book_spent(*run)
        spent = store.spent("records").curve.epsilon(DELTA)
        assert spent == pytest.approx(judge([(Gaussian(1.0), 3)], "replace-one").epsilon(DELTA))
        assert spent > 0.5 and store.verify().ok
        with pytest.raises(BudgetError, match="0.5"):
            store.open_run("next", "records", reserve=[(Gaussian(100.0), 1)])


def test_a_copy_is_whole_and_its_owners_alone(tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    with LedgerStore(tmp_path / "ledger.sqlite") as store:
        store.open_run("run", "records", reserve=[(Gaussian(2.0), 3)])
        store.copy_to(copy)
        assert copy.stat().st_mode & 0o777 == 0o600
        store.charge("run", 1, Gaussian(2.0))
        with LedgerStore(copy) as old:
            assert old.verify().ok and old.head() != store.head()
            assert store.verify(old.head()).ok and not old.verify(store.head()).ok
        with pytest.raises(FileExistsError):
            store.copy_to(copy)
