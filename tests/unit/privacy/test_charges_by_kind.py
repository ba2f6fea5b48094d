"""Charges written by kinds of nodes say the same of every node as those written node by node."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda.errors import BudgetError
from tacenda.privacy.accounting.events import Gaussian, PoissonGaussian
from tacenda.privacy.secrets.ledger import Charge, Charges, Ledger
from tacenda.privacy.statement import Statement


def written_out(charges: Charges) -> Charges:
    return Charges((Charge(c.kind, dict(c.parameters)), n) for c, n in charges)


def said(charges: Charges, n: int, **more: Any) -> Statement:
    return Statement(charges, n, 1e-5, "replace-one", "sound", 1.0, "seeded", **more)


@st.composite
def by_kind(draw: Any) -> tuple[Charges, int]:
    kinds, n = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    nodes = np.array(draw(st.lists(st.integers(0, kinds - 1), min_size=n, max_size=n)))
    nodes = np.unique(nodes, return_inverse=True)[1].reshape(-1)
    kinds = int(nodes.max()) + 1
    levels = st.sampled_from([4.0, 5.0, 7.5])
    made = Charges()
    for _ in range(draw(st.integers(1, 3))):
        z = np.array(draw(st.lists(levels, min_size=kinds, max_size=kinds)))
        made.add(Charge(Gaussian, {"noise_multiplier": z}, nodes), draw(st.integers(1, 3)))
    return made, n


@settings(max_examples=60, deadline=None)
@given(by_kind(), st.integers(0, 2**31))
def test_same_as_node_by_node(found: tuple[Charges, int], seed: int) -> None:
    charges, n = found
    plain = written_out(charges)
    for row in range(n):
        assert charges.events(row) == plain.events(row)
    for mine, theirs in zip(charges.each(), plain.each(), strict=True):
        assert mine.same(theirs) and theirs.same(mine) and mine.worst() is not None
        assert mine.covered_by(theirs) and theirs.covered_by(mine)
        assert mine.n_nodes == theirs.n_nodes == n
    chosen = np.random.default_rng(seed).integers(0, n, 5)
    for row in range(5):
        assert charges.rows(chosen).events(row) == plain.events(int(chosen[row]))
        assert plain.rows(chosen).events(row) == plain.events(int(chosen[row]))
    for members in (1, 2):
        more = {"records_per_person": members, "members_per_person": members}
        mine_said, theirs_said = said(charges, n, **more), said(plain, n, **more)
        assert np.array_equal(mine_said.node_epsilons, theirs_said.node_epsilons)
        assert mine_said.worst_node == theirs_said.worst_node
        again = Statement.from_plain(json.loads(json.dumps(mine_said.to_plain())))
        assert np.array_equal(again.node_epsilons, theirs_said.node_epsilons)
        assert again.to_plain() == mine_said.to_plain()
    for count in range(len(charges) + 1):
        whole = list(charges.each())[:count]
        assert [c.same(w) for c, w in zip(charges.first(count).each(), whole, strict=True)] == (
            [True] * count
        )


def test_one_nodes_difference_is_seen() -> None:
    nodes = np.array([0, 1, 0, 1])
    reserved = Charge(Gaussian, {"noise_multiplier": np.array([4.0, 8.0])}, nodes)
    for k in range(4):
        z = reserved.parameters["noise_multiplier"]
        z[k] *= 0.99
        less = Charge(Gaussian, {"noise_multiplier": z})
        assert not less.same(reserved) and not less.covered_by(reserved)
        assert reserved.covered_by(less)
        with pytest.raises(BudgetError):
            Ledger(Charges([(reserved, 1)])).charge(1, 0, less, b"")
    rate = {"noise_multiplier": np.array([4.0, 8.0]), "rate": np.array([0.1, 0.1])}
    assert not Charge(PoissonGaussian, rate, nodes).same(reserved)
    assert not reserved.same(Charge(Gaussian, {"noise_multiplier": np.array([4.0])}))


def test_a_ledger_books_what_was_reserved_where_it_is_the_same() -> None:
    nodes = np.zeros(1000, np.int64)
    reserved = Charges([(Charge(Gaussian, {"noise_multiplier": np.array([4.0])}, nodes), 3)])
    ledger = Ledger(reserved)
    ledger.charge(1, 0, Charge(Gaussian, {"noise_multiplier": np.full(1000, 4.0)}), b"")
    ledger.charge(2, 0, Charge(Gaussian, {"noise_multiplier": np.full(1000, 4.0)}), b"")
    ((booked, count),) = list(ledger.charges)
    assert ledger.as_reserved and count == 2 and len(booked.entries["noise_multiplier"]) == 1
    more = np.full(1000, 4.0)
    more[7] = 5.0
    ledger.charge(3, 0, Charge(Gaussian, {"noise_multiplier": more}), b"")
    assert not ledger.as_reserved and len(ledger.charges) == 3
    assert ledger.charges.events(7) != ledger.charges.events(8)
    again = Ledger(reserved)
    again.restore(ledger.charges)
    assert not again.as_reserved
    with pytest.raises(BudgetError, match="budget is spent"):
        again.charge(4, 0, Charge(Gaussian, {"noise_multiplier": more}), b"")
