"""The lasting ledger against a plain dictionary: whatever is done to it, in whatever order, it says
what a child's account book would say, refuses what that one refuses, and its chain is whole."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda.errors import BudgetError, InputError, PrivacyError, StateError
from tacenda.privacy.accounting.events import Gaussian, Pure
from tacenda.privacy.lasting.database import verify_lines
from tacenda.privacy.lasting.ledger_store import LedgerStore

EVENTS = [Pure(0.25), Pure(0.5), Pure(1.0)]
DATA, RUNS = ("wards", "clinics", "labs"), ("r1", "r2", "r3")


class Book:
    """Pure epsilons simply add up, so a budget is a comparison of two sums."""

    def __init__(self) -> None:
        self.budgets: dict[str, float] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.groups: list[set[str]] = [{name} for name in DATA]

    def group(self, data: str) -> set[str]:
        return next(g for g in self.groups if data in g)

    def held(self, run: dict[str, Any]) -> Counter[Any]:
        return run["reserved"] - run["charged"] if run["open"] else Counter()

    def total(self, data: str, what: str) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for run in self.runs.values():
            if run["data"] in self.group(data):
                found += run["charged"] if what == "charged" else self.held(run)
        return found

    def fits(self, data: str, more: Counter[Any]) -> bool:
        both = self.total(data, "charged") + self.total(data, "held") + more
        spent = sum(e.epsilon * n for e, n in both.items())
        limits = [self.budgets[d] for d in self.group(data) if d in self.budgets]
        return all(spent <= limit * (1 + 1e-9) for limit in limits)

    # ---- each answers what the ledger should answer, or the error that it should raise
    def budget(self, data: str, epsilon: float) -> Any:
        self.budgets[data] = epsilon

    def open(self, run: str, data: str) -> Any:
        known = self.runs.get(run)
        if known is not None:
            if known["data"] not in self.group(data) or not known["open"]:
                return StateError
            return False
        blank = {"open": True, "reserved": Counter(), "charged": Counter(), "keys": {}, "at": {}}
        self.runs[run] = {"data": data, **blank}
        return True

    def reserve(self, run: str, events: list[Any], key: str) -> Any:
        known = self.runs.get(run)
        if known is None or not known["open"]:
            return StateError
        wanted = Counter(events)
        if key in known["keys"]:
            return False if list(known["keys"][key].items()) == list(wanted.items()) else StateError
        if not self.fits(known["data"], wanted):
            return BudgetError
        known["keys"][key] = wanted
        known["reserved"] += wanted
        return True

    def charge(self, run: str, charges: list[tuple[int, Any]]) -> Any:
        known = self.runs.get(run)
        if known is None:
            return StateError
        fresh: dict[int, Any] = {}
        for index, event in charges:
            if known["at"].get(index, fresh.get(index, event)) != event:
                return PrivacyError
            if index not in known["at"]:
                fresh[index] = event
        if fresh and not known["open"]:
            return StateError
        beyond = Counter(fresh.values()) - self.held(known)
        if beyond and not self.fits(known["data"], beyond):
            return BudgetError
        known["at"] |= fresh
        known["charged"] += Counter(fresh.values())
        return len(fresh)

    def close(self, run: str) -> Any:
        known = self.runs.get(run)
        if known is None or not known["open"]:
            return StateError
        left = self.held(known)
        known["open"] = False
        return dict(left)

    def join(self, one: str, other: str) -> Any:
        seen = {*self.budgets, *(run["data"] for run in self.runs.values())}
        if one not in seen or other not in seen:
            return InputError
        if other in self.group(one):
            return False
        both = self.group(one) | self.group(other)
        self.groups = [g for g in self.groups if not g <= both] + [both]
        return True


def done(store: LedgerStore, step: tuple[Any, ...]) -> Any:
    what, *with_ = step
    try:
        if what == "budget":
            return store.set_budget(with_[0], with_[1], 0.0)
        if what == "open":
            return store.open_run(*with_)
        if what == "reserve":
            return store.reserve(with_[0], [(e, 1) for e in with_[1]], with_[2])
        if what == "charge":
            return store.charge_many(*with_)
        if what == "close":
            return dict(store.close_run(*with_))
        return store.join(*with_)
    except (BudgetError, StateError, InputError, PrivacyError) as refused:
        return type(refused)


run, data, event = (st.sampled_from(x) for x in (RUNS, DATA, EVENTS))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("budget"), data, st.sampled_from([0.75, 1.5, 3.0])),
        st.tuples(st.just("open"), run, data),
        st.tuples(
            st.just("reserve"),
            run,
            st.lists(event, min_size=1, max_size=4),
            st.sampled_from(["", "more"]),
        ),
        st.tuples(
            st.just("charge"),
            run,
            st.lists(st.tuples(st.integers(0, 3), event), min_size=1, max_size=3),
        ),
        st.tuples(st.just("close"), run),
        st.tuples(st.just("join"), data, data),
    ),
    min_size=4,
    max_size=25,
)
OPENING = [("open", "r1", "wards"), ("open", "r2", "clinics"), ("open", "r3", "wards")]


@settings(max_examples=60)
@given(steps=STEPS, opened=st.booleans())
def test_whatever_happens_the_ledger_says_what_the_book_says(
    steps: list[Any], opened: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, book = tmp_path_factory.mktemp("ledger") / "ledger.sqlite", Book()
    heads = []
    for step in [*(OPENING if opened else []), *steps]:
        with LedgerStore(path) as store:  # opened anew each time: all of it is in the file
            before = store.head()
            wanted = getattr(book, step[0])(*step[1:])
            assert done(store, step) == wanted, step
            if isinstance(wanted, type) or wanted is False or wanted == 0:
                assert store.head() == before or step[0] == "charge", "something was charged"
            heads.append(store.head())
            _same(store, book)
    with LedgerStore(path) as store:
        assert store.verify().ok and store.verify(heads[0]).ok and store.verify(heads[-1]).ok
        lines = list(store.export())
        assert len(lines) == store.head()[0] == store.verify().rows
        assert verify_lines(lines, heads[-1]).ok
        if lines:
            assert not verify_lines(lines[:-1], store.head()).ok
            assert not verify_lines(lines, (len(lines), "0" * 64)).ok


def _same(store: LedgerStore, book: Book) -> None:
    assert [(r["run"], r["dataset"], r["open"]) for r in store.runs()] == [
        (name, known["data"], known["open"]) for name, known in book.runs.items()
    ]
    for name, known in book.runs.items():
        assert store.holds(name) == bool(known["reserved"] or known["charged"])
    for name in DATA:
        assert [r["run"] for r in store.runs(name)] == [
            run for run, known in book.runs.items() if known["data"] == name
        ]
        if name not in store.datasets():
            continue
        spent = store.spent(name)
        charged, held = book.total(name, "charged"), book.total(name, "held")
        assert dict(spent.events) == dict(charged) and dict(spent.reserved) == dict(held)
        assert set(spent.names) == book.group(name) and spent.names[0] == name
        assert spent.coalition is None
        assert spent.curve.pure_epsilon == math.fsum(e.epsilon * n for e, n in charged.items())
        assert spent.curve_with_reserved.pure_epsilon == math.fsum(
            e.epsilon * n for e, n in (charged + held).items()
        )
        if name in book.budgets:
            assert store.budget(name).epsilon == book.budgets[name]


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_budget_is_met_to_the_last_digit_and_not_beyond(delta: float, tmp_path: Path) -> None:
    """A run that was calibrated to exactly the budget fits; a millionth more does not."""
    from tacenda.privacy.accounting.calibration import gaussian_mu

    event = Pure(0.7) if delta == 0 else Gaussian(1 / gaussian_mu(0.7, delta))
    with LedgerStore(tmp_path / "ledger") as store:
        store.set_budget("wards", 0.7, delta)
        store.set_budget("clinics", 0.7 * (1 - 1e-6), delta)
        for name, fits in (("wards", True), ("clinics", False)):
            store.open_run(name, name)
            if fits:
                assert store.reserve(name, [(event, 1)])
            else:
                with pytest.raises(BudgetError, match="0 is spent or reserved"):
                    store.reserve(name, [(event, 1)])
