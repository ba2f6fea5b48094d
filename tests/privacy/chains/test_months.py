"""The chain of two months on two neighbouring data sets: what one id really loses in both, by the
releases' noise as it was drawn, against what the member's ledger says that this id has lost.

Records, rosters, plans and charges are those of the node's code. The second month takes over the
first one's moment and model, and its records are others.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from chain_loss import losses, true_epsilon
from chain_tape import Tape, taped
from months_stage import ids_of, months_contract, schema_with_ids, write_records
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.membership.amendments import next_run
from tacenda_node.peer.member_records import read_records
from tacenda_node.peer.public_start import PublicStart
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.peer.taking_part import ByIds

DELTA = 1e-5
WINDOWS = ((0, 60), (20, 80))  # ids of each month
CHANGED = {"stays": "m0-30", "leaves": "m0-5", "comes": "m0-70"}


class World:
    """One data set and its members' ledgers. changed: the id whose values are others."""

    def __init__(self, place: Path, changed: str | None, relation: str) -> None:
        self.place, self.changed, self.relation = place, changed, relation
        terms = {
            "epsilon": 2.0,
            "delta": DELTA,
            "coalition": 1,
            "adjacency": relation,
            "records_per_person": 1,
            "members_per_person": 1,
        }
        self.contract = months_contract(3, 60, privacy=terms)
        self.start: PublicStart | None = None

    def month(self, number: int, heard: Tape | None) -> tuple[Tape, Any, Any]:
        """(tape, result, the rosters of m0)."""
        if number:
            assert self.start is not None
            continues = {"run": self.contract.run_id(), "start": self.start.digest}
            title = f"month {number}"
            self.contract = next_run(self.contract, title, [], [], continues=continues)
        taken = None if self.start is None else self.start.taken_by(self.contract)
        plan, shards, persons = make_plan(self.contract, taken), [], []
        for name in self.contract.names:
            salts = {} if self.changed is None else {self.changed: 1}
            names = ids_of(name, *WINDOWS[number])
            if self.relation == "add-remove" and self.changed in names:
                names.remove(str(self.changed))
            file = write_records(self.place / f"{name}-{number}.csv", names, salts)
            ledger = self.place / f"{name}.sqlite"
            by_ids = ByIds.of(ledger, name, plan, name)
            found = read_records(self.contract, name, schema_with_ids(), file, ledger, by_ids)
            assert found.chosen is not None
            with LedgerStore(ledger) as store:
                events, run = plan.reservation(name), f"month {number}"
                roster = found.chosen.rosters[0]
                store.open_run(run, name, "", self.relation, events, plan.unit, DELTA, roster)
            problem = found.trained
            shards.append((np.asarray(problem.store.rows), np.asarray(problem.store.labels) > 0))
            persons.append(problem._persons)
        sizes = None if self.relation == "replace-one" else [60.0] * len(shards)
        p = plan.contract.problem
        merged = tc.Problem(
            shards, classes=[False, True], strength=p.strength, persons=persons, public_sizes=sizes
        )
        with taped(heard) as tape, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = tc.simulate(
                merged,
                plan.spec.topology,
                plan.spec.algorithm,
                plan.contract.rounds,
                plan.contract.privacy.promise,
                seed=7 + number,
                init=None if self.start is None else self.start.model,
                record_every=0,
            )
        self.start = PublicStart.of(result)
        return tape, result, len(shards[0][1])

    def said(self, name: str) -> float:
        """What m0's ledger says that this id has lost."""
        with LedgerStore(self.place / "m0.sqlite") as store:
            spent = store.spent("m0", ids=store.hashed([name]))
            return float(spent.curve_with_reserved.epsilon(DELTA))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("which", list(CHANGED))
def test_an_id_loses_no_more_than_its_ledger_says(
    tmp_path: Path, which: str, relation: str
) -> None:
    name, worlds = CHANGED[which], []
    for k, changed in enumerate((None, name)):
        (tmp_path / str(k)).mkdir()
        worlds.append(World(tmp_path / str(k), changed, relation))
    lost, graph = [], nx.complete_graph(3)
    for number in range(2):
        tape, one, size = worlds[0].month(number, None)
        other, two, same = worlds[1].month(number, tape)
        # All that is public follows from the releases: models, map, the next month's contract
        np.testing.assert_array_equal(one.models, two.models)
        np.testing.assert_array_equal(one.released["for_next"], two.released["for_next"])
        assert worlds[0].contract.hash() == worlds[1].contract.hash()
        there = name in ids_of("m0", *WINDOWS[number])
        assert size - same == int(there and relation == "add-remove")
        each = [o for several in losses(tape, other, None, (0,), graph, 1) for o in several]
        assert len(each) == 5 - number  # the moment is released in the first month alone
        if not there:
            assert all(o.size == pytest.approx(0.0, abs=1e-9) for o in each)
        lost += [o for o in each if o.size > 1e-9]
    said = worlds[0].said(name)
    assert 0.1 * said < true_epsilon(lost, DELTA) <= said * (1 + 1e-6)
    # An id that took part once has lost half of the squares of one that took part twice
    both, once = worlds[0].said(CHANGED["stays"]), worlds[0].said(CHANGED["leaves"])
    assert once < both and said == (both if which == "stays" else once)
