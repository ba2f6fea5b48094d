"""Groups on real processes: the simulator's bits, a member that lies within the range and moves the
model little, kills and losses, and roots that hand down false sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groups_stage import (
    live_with_a_false_concatenation,
    live_with_a_lie,
    live_with_sums_of_its_own,
    live_with_two_group_sums,
    lying_root,
)
from liars_stage import live_as_false_relay
from losses_stage import TERMS, absent_sets, changed_views, check_spent, check_the_rest, live_until
from node_stage import Crowd, simulated, small_contract
from tacenda.data.encoding import encode
from tacenda.data.schema import Schema
from tacenda.runtime.result import load
from tacenda_node.peer.run_plan import make_plan

WHITENED: dict[str, Any] = {
    "algorithm": {"name": "treegd"},
    "prepare": {"name": "whitening", "share": 0.2},
    "privacy": TERMS,
}


def grouped_contract(n: int = 6, groups: int = 3, rounds: int = 6, **more: Any) -> Any:
    return small_contract(n, rounds, graph="complete", groups=groups, **{**WHITENED, **more})


def test_a_contract_without_groups_keeps_its_hash() -> None:
    one = small_contract(6, 4, **WHITENED)
    assert "groups" not in one.to_plain()
    assert one.hash() == small_contract(6, 4, groups=1, **WHITENED).hash()
    assert one.run_id() != small_contract(6, 4, groups=3, **WHITENED).run_id()


@pytest.mark.parametrize(
    ("n", "groups", "more"),
    [
        (6, 3, {}),
        pytest.param(4, 4, {}, marks=pytest.mark.slow),
        pytest.param(6, 2, {"finish_mixing": "exact"}, marks=pytest.mark.slow),
    ],
)
def test_peers_have_the_simulators_bits(
    tmp_path: Path, n: int, groups: int, more: dict[str, Any]
) -> None:
    crowd = Crowd(tmp_path / "crowd", grouped_contract(n, groups, **more), seed=5)
    crowd.start()
    found = crowd.finish()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    np.testing.assert_array_equal(found, simulated(crowd.stage, seed=5))


@pytest.mark.slow
def test_own_keys_and_a_kill(tmp_path: Path) -> None:
    """Masks of a group cancel in its sum, whichever keys they are drawn from."""
    crowd = Crowd(tmp_path / "crowd", grouped_contract(rounds=40))
    try:
        crowd.start()
        crowd.until("m2", "round one done")
        crowd.kill("m2")
        crowd.start("m2")
        found = crowd.finish()
    finally:
        crowd.stop()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    plan = make_plan(crowd.stage.contract)
    for name, result in crowd.stage.results().items():
        own = plan.calibration.reserved.rows(np.array([plan.contract.position(name)]))
        planned = plan.spec.statement(own, "keyed", n_nodes=1)
        assert planned is not None and result.privacy is not None
        assert result.privacy.epsilon == pytest.approx(planned.epsilon, rel=1e-9), name
        assert result.privacy.groups == 3
    check_spent(crowd, crowd.names)


def log_loss(crowd: Crowd, model: np.ndarray) -> float:
    """Of all members' records."""
    schema = Schema.read(crowd.stage.schema)
    sets = [encode(schema, crowd.stage.data[name]) for name in crowd.names]
    y = np.concatenate([one.y for one in sets])
    scores = np.vstack([one.X for one in sets]) @ model.reshape(-1)
    return float(np.mean(np.logaddexp(0, -np.where(y == y.max(), 1, -1) * scores)))


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.1, 10.0])
def test_a_member_that_lies_moves_the_model_little(tmp_path: Path, size: float) -> None:
    """Over 20 rounds it costs at most 0.02 in log loss, all others have one model, and all of them
    name the group."""
    honest = Crowd(tmp_path / "honest", grouped_contract(8, 4, rounds=20))
    honest.start()
    usual = log_loss(honest, honest.finish()[0])
    crowd = Crowd(tmp_path / "crowd", grouped_contract(8, 4, rounds=20))
    liar, rest = "m5", [name for name in crowd.names if name != "m5"]
    try:
        crowd.start(*rest)
        crowd.start_as(liar, live_with_a_lie, size)
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    folders = {name: crowd.folder(name) / "state" / "results" for name in rest}
    results = {name: load(folders[name] / f"treegd-{name}.safetensors") for name in rest}
    models = [result.models for result in results.values()]
    assert all(model.tobytes() == models[0].tobytes() for model in models)
    assert log_loss(crowd, models[0]) <= usual + 0.02
    for result in results.values():
        said = [word for word in result.warnings if "differ" in word]
        assert len(said) == 1 and liar in said[0], result.warnings


PLACES = [(1, 1), (1, 3), (1, 5), (1, 8), (3, 7), (3, 9), (3, 11)]


@pytest.mark.slow
@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_lost_member_leaves_new_groups(
    tmp_path: Path, place: tuple[int, int], sent: bool
) -> None:
    """Its machine loses power at one message: on the way up in its group, at a group's sum or at
    the row of all groups."""
    contract = grouped_contract(7, absence={"policy": "continue", "limit_seconds": 6.0})
    crowd = Crowd(tmp_path / "crowd", contract)
    crowd.keep_own_signatures()
    lost = lying_root(contract)  # which sends something in nearly every place
    rest = [name for name in crowd.names if name != lost]
    try:
        crowd.start(*rest)
        crowd.start_as(lost, live_until, *place, sent)
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    check_the_rest(crowd, rest, 6)
    check_spent(crowd, rest)


@pytest.mark.slow
def test_a_root_that_hands_down_false_sums_is_named(tmp_path: Path) -> None:
    """Every member holds the groups' own signed sums, so that nobody computes from others."""
    crowd = Crowd(tmp_path / "crowd", grouped_contract(rounds=6))
    root = lying_root(crowd.stage.contract)
    rest = [name for name in crowd.names if name != root]
    try:
        crowd.start(*rest)
        crowd.start_as(root, live_with_a_false_concatenation, 3)
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert 0 not in codes.values(), {name: crowd.output(name) for name in rest}
    for name in rest:
        assert f"{root} has signed other sums of the groups" in crowd.log(name)
        assert list((crowd.folder(name) / "state").glob(f"evidence-{root}-view-0-round-3.json"))


@pytest.mark.slow
def test_a_member_that_hands_on_another_sum_of_a_group_is_named(tmp_path: Path) -> None:
    """In the last round, between a group's root and a member of another group."""
    crowd = Crowd(tmp_path / "crowd", small_contract(6, 4, groups=3, **WHITENED))
    contract = crowd.stage.contract
    groups = make_plan(contract).spec.groups
    assert groups is not None
    tree, names = groups.handing[0], contract.names
    child = next(k for k in range(tree.n) if tree.level[k] == 2)
    relay = names[tree.parent[child]]
    rest = [name for name in names if name != relay]
    try:
        crowd.start(*rest)
        crowd.start_as(relay, live_as_false_relay, names[child], 4, "root")
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert 0 not in codes.values(), {name: crowd.output(name) for name in rest}
    for name in rest:
        assert f"{relay} has passed on another total of round 4 than" in crowd.log(name)


@pytest.mark.slow
def test_false_sums_that_one_member_was_handed_convict_the_root_with_all(tmp_path: Path) -> None:
    """It shows the others the root's signature beside those of the groups' roots; or they would
    take the root in again, and it them not, until no loss is left."""
    contract = grouped_contract(7, absence={"policy": "continue", "limit_seconds": 8.0})
    crowd = Crowd(tmp_path / "crowd", contract)
    crowd.keep_own_signatures()
    root = lying_root(contract)
    rest = [name for name in crowd.names if name != root]
    try:
        crowd.start(*rest)
        crowd.start_as(root, live_with_a_false_concatenation, 3, ["m5"])
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    for name in rest:
        assert f"{root} has signed other sums of the groups" in crowd.log(name)
        assert absent_sets(crowd, name) == [root]
    check_the_rest(crowd, rest, 6)
    check_spent(crowd, rest)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["stop", "continue"])
def test_a_groups_root_with_two_sums_is_named_and_nobody_else(tmp_path: Path, policy: str) -> None:
    """Its two signatures meet. The root of the whole tree, which joined one of the sums, is not to
    blame."""
    contract = grouped_contract(7, absence={"policy": policy, "limit_seconds": 8.0})
    crowd = Crowd(tmp_path / "crowd", contract)
    crowd.keep_own_signatures()
    root, plan = lying_root(contract), make_plan(contract)
    groups = plan.spec.groups
    assert groups is not None
    roots = [contract.names[k] for k in groups.trees.roots]
    liar = next(name for name in roots if name != root)
    rest = [name for name in crowd.names if name != liar]
    heirs = [name for name in rest if name != root][:2]
    try:
        crowd.start(*rest)
        crowd.start_as(liar, live_with_two_group_sums, 3, heirs)
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    for name in rest:
        assert f"{liar} has signed two different messages for round 3" in crowd.log(name)
    if policy == "continue":
        assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
        check_the_rest(crowd, rest, 6)
    else:
        assert 0 not in codes.values()


@pytest.mark.slow
@pytest.mark.parametrize("place", [(1, 5), (3, 11)])
def test_a_root_cannot_make_up_the_sums_of_all_groups_in_a_vote(
    tmp_path: Path, place: tuple[int, int]
) -> None:
    """What it hands over is no total without the signatures of the groups' own roots: it has handed
    over nothing, and is left out."""
    contract = grouped_contract(7, absence={"policy": "continue", "limit_seconds": 8.0})
    crowd = Crowd(tmp_path / "crowd", contract)
    crowd.keep_own_signatures()
    root = lying_root(contract)
    rest = [name for name in crowd.names if name != root]
    try:
        crowd.start(*rest)
        crowd.start_as(root, live_with_sums_of_its_own, place, 1000)
        codes = crowd.wait(150, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    assert absent_sets(crowd, rest[0]) == [root]
    check_the_rest(crowd, rest, 6)
    check_spent(crowd, rest)


@pytest.mark.slow
def test_fewer_members_than_groups_wait_for_who_is_away(tmp_path: Path) -> None:
    """They stop in words, decide nothing, and go on when it is back."""
    absence = {"policy": "continue", "limit_seconds": 6.0}
    crowd = Crowd(tmp_path / "crowd", grouped_contract(4, 4, rounds=40, absence=absence))
    rest = [name for name in crowd.names if name != "m2"]
    try:
        crowd.start()
        crowd.until("m2", "round one done")
        crowd.kill("m2")
        codes = crowd.wait(100, rest)
        assert set(codes.values()) == {2}, {name: crowd.output(name) for name in rest}
        for name in rest:
            assert "groups must be at most the number of members (3), not 4" in crowd.output(name)
            assert not changed_views(crowd, name)
        crowd.start()
        found = crowd.finish()
    finally:
        crowd.stop()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    check_spent(crowd, crowd.names)
