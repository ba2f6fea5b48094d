"""Totals that a member makes up or hides while the members agree anew: all others end with
one model, or name who has signed what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from liars_stage import (
    live_as_false_root,
    live_as_root_that_runs_ahead,
    live_with_a_false_total,
    live_with_a_moment,
)
from losses_stage import absent_sets, changed_views, check_spent, check_the_rest, contract_of
from node_stage import Crowd
from tacenda.graph.tree import spanning_tree
from tacenda_node.peer.run_plan import topology_of


def crowd_with_root(folder: Path, **terms: Any) -> tuple[Crowd, str, list[str]]:
    """Members, the root among them, and the others."""
    crowd = Crowd(folder, contract_of(rounds=6, **{"whitened": False, **terms}))
    crowd.keep_own_signatures()
    topology = topology_of(crowd.stage.contract, frozenset())
    root = str(topology.labels[spanning_tree(topology).root])
    return crowd, root, [name for name in crowd.names if name != root]


@pytest.mark.slow
@pytest.mark.parametrize("turn", [3, 5])
def test_a_root_that_hides_a_total_behind_a_later_one(tmp_path: Path, turn: int) -> None:
    """One member has the total of a round. The root shows one of the next round, which cannot be,
    and also is the last one; the others are handed both, and all end with one model."""
    crowd, root, rest = crowd_with_root(tmp_path)
    try:
        crowd.start(*rest)
        crowd.start_as(root, live_with_a_false_total, "later", turn, rest[0])
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    assert changed_views(crowd, rest[-1])
    check_the_rest(crowd, rest, 4)
    check_spent(crowd, rest)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [3, 5])
def test_a_made_up_total_that_cannot_be_stops_all(tmp_path: Path, turn: int) -> None:
    """A total that is handed over is checked as any other one: nobody computes from it."""
    crowd, root, rest = crowd_with_root(tmp_path)
    try:
        crowd.start(*rest)
        crowd.start_as(root, live_with_a_false_total, "large", turn, rest[0])
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {2}, {name: crowd.output(name) for name in rest}
    for name in rest:
        assert "a row or a mask of this sum is wrong" in crowd.output(name)
        assert not list((crowd.folder(name) / "state").glob("results/*"))
    check_spent(crowd, rest)


@pytest.mark.parametrize("turn", [6, pytest.param(3, marks=pytest.mark.slow)])
def test_a_root_that_shows_another_total_in_its_vote_is_named(tmp_path: Path, turn: int) -> None:
    """Two signatures of the root meet in the votes: all name it, go on without it, and use the
    total that was used."""
    crowd, root, rest = crowd_with_root(tmp_path)
    try:
        crowd.start(*rest)
        crowd.start_as(root, live_with_a_false_total, "other", turn, rest[0])
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, [crowd.output(name) for name in rest]
    for name in rest:
        assert f"{root} has signed two different messages for round {turn}" in crowd.log(name)
        assert list((crowd.folder(name) / "state").glob(f"evidence-{root}-view-0-round-*.json"))
    check_the_rest(crowd, rest, 4)
    check_spent(crowd, rest)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [3, 6])
def test_a_handed_total_of_another_length_is_refused(tmp_path: Path, turn: int) -> None:
    """The root has handed over nothing, and is left out."""
    crowd, root, rest = crowd_with_root(tmp_path)
    try:
        crowd.start(*rest)
        crowd.start_as(root, live_with_a_false_total, "long", turn, root)
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    assert absent_sets(crowd, rest[0])[0] == root  # it may try to come back
    check_the_rest(crowd, rest, 4)
    check_spent(crowd, rest)


LAST, MIDDLE, MAP = (6, 3), (3, 3), (1, 2)  # (round, call)


@pytest.mark.parametrize(
    ("place", "more"),
    [
        (LAST, {}),
        pytest.param(LAST, {"graph": "ring", "n": 5}, marks=pytest.mark.slow),
        pytest.param(MIDDLE, {}, marks=pytest.mark.slow),
        pytest.param(MAP, {"whitened": True}, marks=pytest.mark.slow),
    ],
)
def test_a_root_that_gives_two_totals_is_left_out_and_all_end_with_one_model(
    tmp_path: Path, place: tuple[int, int], more: dict[str, Any]
) -> None:
    """Also in the last round, when all have finished with two models, and of the total from which
    the public map follows."""
    crowd, root, rest = crowd_with_root(tmp_path, **more)
    heir = next(k for k in rest if k in crowd.stage.contract.neighbours(root))
    try:
        crowd.start(*rest)
        crowd.start_as(root, live_as_false_root, [heir], place)
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    for name in rest:
        assert f"{root} has signed two different messages for round {place[0]}" in crowd.log(name)
    check_the_rest(crowd, rest, 6)
    check_spent(crowd, rest)


@pytest.mark.slow
@pytest.mark.parametrize("turns", [(5, 6), (3, 4, 5, 6)])
@pytest.mark.parametrize("n", [4, 5])
def test_a_root_that_runs_ahead_with_one_member_spoils_nothing(
    tmp_path: Path, n: int, turns: tuple[int, ...]
) -> None:
    """It gives one member totals of several rounds before the others have the first of them. That
    member uses no second one, and nobody is blamed but the root."""
    crowd, root, rest = crowd_with_root(tmp_path, n=n)
    try:
        crowd.start(*rest)
        crowd.start_as(root, live_as_root_that_runs_ahead, rest[0], turns)
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    for name in rest:
        assert f"{root} has signed two different messages for round {turns[0]}" in crowd.log(name)
        assert absent_sets(crowd, name) == [root]
    check_the_rest(crowd, rest, 6)
    check_spent(crowd, rest)


OPEN = {"whitened": True, "algorithm": {"name": "treegd", "noise": "independent"}}


@pytest.mark.slow
@pytest.mark.parametrize("variance", [1e9, 1e300])
def test_a_moment_with_an_enormous_deviation_stops_nobody(tmp_path: Path, variance: float) -> None:
    """Where each member's noise stands by itself, the standard deviation travels with the moment:
    as large as the radius lets pass, or larger, and then its member is left out."""
    crowd, root, rest = crowd_with_root(tmp_path, **OPEN)
    liar = rest.pop()
    try:
        crowd.start(root, *rest)
        crowd.start_as(liar, live_with_a_moment, variance)
        codes = crowd.wait(150, [root, *rest])
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    for name in [root, *rest]:
        assert absent_sets(crowd, name) == ([liar] if variance > 1e9 else [])
        caught = f"{liar} has signed rows with values beyond" in crowd.log(name)
        assert caught == (variance > 1e9)  # all are shown the row, which only the root was sent
    check_the_rest(crowd, [root, *rest], 6)
