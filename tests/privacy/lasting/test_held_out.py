"""A record is on one side for ever, held out or trained on, whatever it says and whoever looks; and
the ledger adds up wherever that could not be kept."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_stage import small_contract, small_schema
from tacenda.errors import BudgetError
from tacenda.privacy.accounting.events import Gaussian
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.units import Unit
from tacenda.privacy.noise.held_out import keyed_positions
from tacenda_node.peer.member_records import MemberRecords, read_records
from tacenda_node.state.accounts import claim, claim_held_out, require_covered

KEY = bytes(range(32))
SIZE = 60


def table(seed: int = 0, n: int = SIZE) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    numbers: dict[str, Any] = {f"x{k}": rng.random(n) for k in range(3)}
    return {**numbers, "y": rng.choice(["no", "yes"], n)}


def contract_of(share: float, adjacency: str = "replace-one", **more: Any) -> Any:
    privacy = {"epsilon": 5.0, "delta": 1e-5, "adjacency": adjacency}
    terms = {"evaluation": {"held_out": share}} if share else {}
    return small_contract(3, 3, finish_mixing="exact", privacy=privacy, **terms, **more)


def read(ledger: Path, share: float, data: Any, adjacency: str = "replace-one") -> MemberRecords:
    return read_records(contract_of(share, adjacency), "m0", _schema(ledger.parent), data, ledger)


def _schema(folder: Path) -> Path:
    path = folder / "schema.toml"
    if not path.exists():
        small_schema(4).write(path)
    return path


def rows(problem: Any) -> list[bytes]:
    return [row.tobytes() for row in np.asarray(problem.store.rows)]


@given(st.integers(0, 2000), st.floats(0, 1), st.binary(min_size=16, max_size=64))
def test_exactly_as_many_are_held_out_as_was_declared(n: int, share: float, key: bytes) -> None:
    kept = round(share * n)
    found = keyed_positions(key, n, kept)
    assert found.shape == (n,) and found.sum() == kept
    assert (found == keyed_positions(key, n, kept)).all()


def test_every_position_is_as_likely_as_any_other() -> None:
    """Over keys, each of 20 positions is held out in a quarter of the draws, and each pair as often
    as in a draw without replacement."""
    draws = np.array([keyed_positions(k.to_bytes(16, "big"), 20, 5) for k in range(4000)], float)
    assert np.abs(draws.mean(axis=0) - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 4000)
    together = draws.T @ draws / 4000
    off = together[~np.eye(20, dtype=bool)]
    expected = 5 * 4 / (20 * 19)
    assert np.abs(off - expected).max() < 5 * np.sqrt(expected / 4000)


def test_no_value_moves_a_record_to_the_other_side(tmp_path: Path) -> None:
    """Planted bug: a draw that looks at the records. Other values at any position, or at all of
    them, leave every position where it was."""
    ledger, data = tmp_path / "ledger", table()
    before = read(ledger, 0.25, data)
    assert before.held_out is not None
    assert len(rows(before.held_out)) == 15 and len(rows(before.trained)) == 45
    assert not set(rows(before.trained)) & set(rows(before.held_out))
    held = set(rows(before.held_out))
    for place in range(0, SIZE, 7):
        changed = {name: np.array(values) for name, values in data.items()}
        own = changed["x0"][place]
        changed["x0"][place] = 1.0 - own
        after = read(ledger, 0.25, changed)
        assert after.held_out is not None
        # One record differs, on the side on which it was
        moved = [len(held ^ set(rows(after.held_out))), 0]
        moved[1] = len(set(rows(before.trained)) ^ set(rows(after.trained)))
        assert sorted(moved) == [0, 2]


def test_a_second_draw_is_the_first_one_and_another_ledger_draws_another(tmp_path: Path) -> None:
    """Planted bug: drawing again after a look at the result."""
    ledger, data = tmp_path / "ledger", table()
    first = read(ledger, 0.25, data)
    again = read(ledger, 0.25, data)
    assert rows(first.held_out) == rows(again.held_out)
    other = read(tmp_path / "other", 0.25, data)
    assert rows(first.held_out) != rows(other.held_out)


def test_under_add_remove_a_record_that_goes_moves_no_other(tmp_path: Path) -> None:
    ledger, data = tmp_path / "ledger", table()
    whole = read(ledger, 0.25, data, "add-remove")
    fewer = {name: np.delete(values, 13) for name, values in data.items()}
    rest = read(ledger, 0.25, fewer, "add-remove")
    gone = set(rows(whole.trained)) ^ set(rows(rest.trained))
    gone |= set(rows(whole.held_out)) ^ set(rows(rest.held_out))
    assert len(gone) == 1


def booked(ledger: Path, records: MemberRecords, name: str | None = None) -> tuple[str, str, Any]:
    terms = SimpleNamespace(
        epsilon=5.0, delta=1e-5, adjacency="replace-one", records_per_person=None, person=(1, 1)
    )
    account, told = claim(ledger, records.trained, name, terms, 20.0, True)
    if records.held_out is None:
        return account, "", []
    held, notes = claim_held_out(
        ledger, account, records.trained, records.held_out, named=name is not None
    )
    return account, held, [*told[:-1], *notes]  # the last one says what was spent so far


def charge(ledger: Path, account: str, run: str) -> None:
    with LedgerStore(ledger) as store:
        store.open_run(run, account, adjacency="replace-one", reserve=[(Gaussian(2.0), 1)])
        store.charge(run, 0, Gaussian(2.0))


def cost(ledger: Path, account: str) -> float:
    with LedgerStore(ledger) as store:
        return store.spent(account).curve_with_reserved.epsilon(1e-5)


@pytest.mark.parametrize("name", [None, "ours"])
def test_each_side_pays_for_itself(tmp_path: Path, name: str | None) -> None:
    ledger = tmp_path / "ledger"
    for time in range(2):  # a second contract on the same data is split and booked alike
        account, held, notes = booked(ledger, read(ledger, 0.25, table()), name)
        assert held == f"{account}/held-out" and notes == []
        charge(ledger, account, f"training {time}")
        charge(ledger, held, f"evaluation {time}")
    both, one = cost(ledger, account), cost(ledger, held)
    assert both == one  # two releases each, not four
    with LedgerStore(ledger) as store:
        assert store.budget(held) == store.budget(account)


@pytest.mark.parametrize("name", [None, "ours"])
@pytest.mark.parametrize("before", ["everything", "another share", "other records"])
def test_sides_that_may_overlap_add_up(tmp_path: Path, before: str, name: str | None) -> None:
    """Planted bug: evaluation on records that were trained on, or a share chosen after looking."""
    ledger, data = tmp_path / "ledger", table()
    share = {"everything": 0.0, "another share": 0.4, "other records": 0.25}[before]
    changed = {k: np.array(v) for k, v in data.items()}
    if before == "other records":
        changed["x0"][:3] = 0.5
    account, held, _ = booked(ledger, read(ledger, share, changed), name)
    charge(ledger, account, "first")
    account, held, notes = booked(ledger, read(ledger, 0.25, data), name)
    assert re.search("adds? up", " ".join(notes))
    charge(ledger, held, "evaluation")
    assert cost(ledger, account) == cost(ledger, held)
    alone = tmp_path / "alone"
    charge(alone, "one", "first")
    assert cost(ledger, held) > 1.2 * cost(alone, "one")


def test_a_run_that_cannot_pay_its_evaluation_reserves_nothing(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    account, held, _ = booked(ledger, read(ledger, 0.25, table()))
    with LedgerStore(ledger) as store:
        store.set_budget(held, 1.0, 1e-5)
    quiet, loud = [(Gaussian(50.0), 1)], [(Gaussian(0.5), 1)]
    require_covered(ledger, account, held, ("t", Unit(), loud), ("e", Unit(), quiet))
    with pytest.raises(BudgetError, match="does not cover the evaluation, so the training does"):
        require_covered(ledger, account, held, ("t", Unit(), quiet), ("e", Unit(), loud))
    with LedgerStore(ledger) as store:
        assert store.runs() == []
        store.join(account, held)
    # Where the two add up, the training counts too
    with pytest.raises(BudgetError):
        require_covered(ledger, account, held, ("t", Unit(), loud), ("e", Unit(), quiet))
