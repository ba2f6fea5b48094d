"""What a run writes into the lasting ledger: the worst node's loss, wherever that node stands, at
least every node's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from privacy_checks import mu_of
from support import shards
from tacenda.errors import BudgetError
from tacenda.privacy.lasting.ledger_store import LedgerStore

A = tc.algorithms
SIZES = [31, 12, 25, 18, 9]
GRAPH = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)])
TARGETS = [0.5, 0.9, 3.0, 0.7, 1.5]


def run(
    book: Path, privacy: Any, algorithm: Any, turn: int = 0, rounds: int = 3, **more: Any
) -> Any:
    sizes = [int(m) for m in np.roll(SIZES, turn)]
    problem = tc.Problem(shards(sizes, 3), classes=("no", "yes"), strength=0.1)
    return tc.simulate(
        problem,
        GRAPH,
        algorithm,
        rounds,
        privacy,
        seed=1,
        ledger=book,
        dataset="d",
        **{"record_every": 0, **more},
    )


@pytest.mark.parametrize("turn", range(5))
def test_a_run_is_booked_at_its_worst_node(turn: int, tmp_path: Path) -> None:
    """Each node has its own target, so that any other node's loss would show."""
    said = run(tmp_path / "book", tc.Privacy(list(np.roll(TARGETS, turn)), 1e-5), A.DPDDA()).privacy
    assert said.worst_node == (2 + turn) % 5
    with LedgerStore(tmp_path / "book") as store:
        spent = store.spent("d")
    assert spent.curve.mu == pytest.approx(mu_of(3.0), rel=1e-6)
    assert spent.curve.epsilon(1e-5) == pytest.approx(said.epsilon, rel=1e-9)
    assert spent.reserved == []


@pytest.mark.parametrize("turn", range(5))
def test_shared_noise_is_booked_at_its_worst_node(turn: int, tmp_path: Path) -> None:
    """One scale for all: the node that is hidden least by its place and size decides, and the
    ledger has its mu."""
    said = run(
        tmp_path / "book", tc.Privacy(1.0, 1e-5, coalition=1), A.GossipGD(correlation=1.3), turn
    ).privacy
    losses = np.array([said.curve(i).mu for i in range(5)])
    assert np.sort(losses)[-2] < 0.99 * losses.max(), "one node must be worse off than all others"
    with LedgerStore(tmp_path / "book") as store:
        curve = store.spent("d").curve
    assert curve.mu == pytest.approx(losses.max(), rel=1e-9)
    assert curve.mu == pytest.approx(mu_of(1.0), rel=2e-5)
    assert curve.coalition == 1


@pytest.mark.parametrize(
    ("privacy", "algorithm"),
    [
        (tc.Privacy.from_noise(noise_multiplier=4.0), A.DPDDA(batch_size=4)),
        (tc.Privacy.from_noise(round_epsilon=0.4), A.DVP(penalty=0.1)),
        (tc.Privacy.from_noise(round_epsilon=0.4), A.PVP(penalty=0.1)),
        (tc.Privacy(list(TARGETS), 1e-5), A.CDPADMM(penalty=0.1, proximal=0.4)),
    ],
    ids=["samples", "objective", "l2-laplace", "shaped"],
)
def test_no_node_loses_more_than_the_ledger_holds(
    privacy: Any, algorithm: Any, tmp_path: Path
) -> None:
    said = run(tmp_path / "book", privacy, algorithm).privacy
    with LedgerStore(tmp_path / "book") as store:
        curve = store.spent("d").curve
    for epsilon in (0.1, 0.5, 1.5):
        losses = [said.curve(i).delta(epsilon) for i in range(5)]
        assert max(losses) <= curve.delta(epsilon) * (1 + 1e-9)
    # And no more than the worst one's
    assert curve.epsilon(1e-5) == pytest.approx(said.epsilon, rel=1e-6)


def test_every_release_is_in_the_ledger_before_its_noise_is_drawn(tmp_path: Path) -> None:
    from tacenda.privacy.noise.sources import SimulatedNoise

    honest, seen = SimulatedNoise.add_gaussian, []

    def spy(source: Any, nodes: Any, turn: int, call: int, parts: Any, std: Any) -> Any:
        with LedgerStore(tmp_path / "book") as store:
            seen.append(sum(count for _, count in store.spent("d").events))
        return honest(source, nodes, turn, call, parts, std)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedNoise, "add_gaussian", spy)
        run(tmp_path / "book", tc.Privacy(1.0, 1e-5), A.DPDDA(), rounds=4)
    assert seen == [1, 2, 3, 4]


def test_a_budget_below_the_worst_nodes_loss_refuses_the_run_before_any_draw(
    tmp_path: Path,
) -> None:
    from tacenda.privacy.noise.sources import SimulatedNoise

    def drawn(*_: Any) -> Any:
        raise AssertionError("noise was drawn")

    with LedgerStore(tmp_path / "book") as store:
        store.set_budget("d", 2.9, 1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedNoise, "add_gaussian", drawn)
        with pytest.raises(BudgetError):
            run(tmp_path / "book", tc.Privacy(list(TARGETS), 1e-5), A.DPDDA())
    with LedgerStore(tmp_path / "book") as store:
        assert store.spent("d").events == []
        store.set_budget("d", 3.0, 1e-5)
    run(tmp_path / "book", tc.Privacy(list(TARGETS), 1e-5), A.DPDDA())


def test_a_run_that_is_refused_leaves_the_ledger_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is held: neither the file nor any room in the budget."""
    with LedgerStore(tmp_path / "book") as store:
        store.set_budget("d", 0.1, 1e-5)
    opened: list[LedgerStore] = []
    closed: list[LedgerStore] = []
    begin, end = LedgerStore.__init__, LedgerStore.close

    def noting(self: LedgerStore, *asked: Any, **more: Any) -> None:
        opened.append(self)
        begin(self, *asked, **more)

    monkeypatch.setattr(LedgerStore, "__init__", noting)
    monkeypatch.setattr(LedgerStore, "close", lambda self: (closed.append(self), end(self))[1])
    for privacy in (tc.Privacy(5.0), None):
        with pytest.raises(BudgetError):
            run(tmp_path / "book", privacy, A.DPDDA())
    assert len(opened) == 2 and closed == opened
    monkeypatch.undo()
    with LedgerStore(tmp_path / "book") as store:
        assert store.spent("d").reserved == [] and store.spent("d").events == []


def test_a_run_that_goes_on_books_the_releases_that_are_left(tmp_path: Path) -> None:
    """Every round has its own share, so that a release booked in another's place would show."""
    from tacenda.runtime import loop

    privacy = tc.Privacy(2.0, spread=[1.0, 2.0, 3.0, 4.0])

    def die(turn: int, models: Any) -> bool:
        if turn == 3:
            raise KeyboardInterrupt
        return False

    whole = run(tmp_path / "whole", privacy, A.DPDDA(), rounds=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "SAVE_SECONDS", -1.0)
        with pytest.raises(KeyboardInterrupt):
            run(
                tmp_path / "parts",
                privacy,
                A.DPDDA(),
                rounds=4,
                checkpoint=tmp_path / "saved",
                callback=die,
                record_every=1,
            )
    again = run(
        tmp_path / "parts", privacy, A.DPDDA(), rounds=4, checkpoint=tmp_path / "saved", resume=True
    )
    assert np.array_equal(again.models, whole.models)
    booked = []
    for name in ("whole", "parts"):
        with LedgerStore(tmp_path / name) as store:
            spent = store.spent("d")
            assert spent.reserved == []
            booked.append(sorted(spent.events, key=str))
    assert booked[0] == booked[1] and len(booked[0]) == 4
