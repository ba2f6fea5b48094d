"""A record that was trained on and evaluated on, or asked for bounds and evaluated on, pays for
both: in the ledger the accounts NAME and NAME/held-out then add up. And no record speaks for
another: not by its place in a split, nor in a statistic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array

import tacenda as tc
from tacenda.data.holding_out import hold_out
from tacenda.errors import LedgerWarning
from tacenda.evaluation.private_run import held_out_account
from tacenda.privacy.lasting.accounts import BOUNDS, HELD_OUT, joined
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.questions.statistics import Statistic
from tacenda.runtime.lasting_run import account_of, marks_of_problem

NAME = "us"


def problem(rows):
    return tc.Problem([(rows, np.arange(len(rows)) % 2)], classes=(0, 1))


@pytest.fixture
def rows():
    found = np.random.default_rng(0).normal(size=(400, 3))
    return found / np.linalg.norm(found, axis=1)[:, None]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


def train(path, rows):
    with LedgerStore(path) as store:
        account_of(store, problem(rows), NAME)
        run = f"run-{len(store.runs())}"
        store.open_run(run, NAME, "training", "replace-one")
        store.close_run(run)


def evaluate(path, rows):
    name = held_out_account(path, problem(rows), NAME)
    with LedgerStore(path) as store:
        account_of(store, problem(rows), name)
        run = f"run-{len(store.runs())}"
        store.open_run(run, name, "evaluation", "replace-one")
        store.close_run(run)


def add_up(path):
    with LedgerStore(path) as store:
        return NAME + HELD_OUT in joined(store._file, NAME)


def test_disjoint_sides_stay_apart(path, rows):
    train(path, rows[:300])
    evaluate(path, rows[300:])
    train(path, rows[:300])
    evaluate(path, rows[300:])
    assert not add_up(path)


def test_training_on_records_that_were_held_out_adds_up(path, rows):
    train(path, rows[:300])
    evaluate(path, rows[300:])
    train(path, rows)  # all of them: those held out before, too
    assert add_up(path)


def test_evaluating_on_some_records_that_were_trained_on_adds_up(path, rows):
    train(path, rows[:300])
    with pytest.warns(LedgerWarning, match="add up"):
        evaluate(path, rows[270:])  # 30 of 130
    assert add_up(path)


@pytest.mark.parametrize("first", [True, False])
def test_bounds_of_all_records_add_up_with_their_evaluation(path, rows, first):
    def bounds():
        with LedgerStore(path) as store:
            store.open_run(f"{BOUNDS}1", NAME, "private quantiles", "replace-one")
            store.close_run(f"{BOUNDS}1")

    if first:
        bounds()
    train(path, rows[:300])
    if first:
        with pytest.warns(LedgerWarning, match="add up"):
            evaluate(path, rows[300:])
    else:
        evaluate(path, rows[300:])
        bounds()
    assert add_up(path)


def test_bounds_add_up_with_an_evaluation_on_nodes(path, rows):
    with LedgerStore(path) as store:
        store.open_run(f"{BOUNDS}1", NAME, "private quantiles", "replace-one")
        store.close_run(f"{BOUNDS}1")
    train(path, rows[:300])
    with LedgerStore(path) as store:
        sides = [marks_of_problem(problem(part), store.salt) for part in (rows[:300], rows[300:])]
        found = store.held_out_account(NAME, *sides, apart=True)
    assert add_up(path)
    assert "add up" in " ".join(found.notes)


@pytest.mark.parametrize("sparse", [False, True])
def test_one_record_more_moves_no_other_under_add_remove(rows, sparse):
    """With an exact count of positions it would: 30 of 100 become 31 of 102."""

    def sides(part):
        shard = (csr_array(part) if sparse else part, np.zeros(len(part)))
        sets = hold_out([shard], 0.3, seed=3, adjacency="add-remove")
        dense = [x.toarray() if sparse else x for side in sets for x, _ in side]
        return [set(map(bytes, x)) for x in dense]

    trained, held = sides(rows[:100])
    for more in (rows[:101], rows[:102], np.vstack([rows[200:203], rows[:100]])):
        other_trained, other_held = sides(more)
        assert trained <= other_trained
        assert held <= other_held
    assert 15 <= len(held) <= 45


@dataclass(frozen=True)
class Gossip(Statistic):
    """A cheat: every record's vector tells the largest feature of its whole block."""

    name: ClassVar[str] = "gossip"
    length: ClassVar[int] = 1
    norm: ClassVar[float] = 1.0
    non_negative: ClassVar[bool] = True

    def vectors(self, records, model):
        return np.full((len(records), 1), float(records.dense[:, 0].max() > 0.999))


def test_vectors_of_foreign_code_cannot_depend_on_other_records(rows):
    rows = rows * 0.9
    store = problem(rows).store
    other = rows.copy()
    other[0] = [1.0, 0.0, 0.0]
    node, model = np.array([0]), np.zeros((1, 3))
    moved = problem(other).store.statistic(node, Gossip(), model) - store.statistic(
        node, Gossip(), model
    )
    assert abs(moved[0, 0]) <= 1.0
