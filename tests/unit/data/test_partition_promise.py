"""A promise about one record of a table holds only if the record cannot move others from node to
node: one rule, asked everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import support
import tacenda as tc
from cli_tools import SCHEMA
from tacenda.data import partition
from tacenda.errors import DeclarationWarning, InputError
from tacenda.runs import read
from tacenda.runs.cost import public_run
from tacenda.runs.private_run import private_run

N = 60
OWNERS = np.arange(N) % 3
WAYS = {
    "even": lambda X, y, owners: partition.even(X, y, 3, seed=1),
    "sizes": lambda X, y, owners: partition.by_sizes(X, y, "power", 3, seed=1),
    "column": lambda X, y, owners: partition.by_column(X, y, owners),
    "label-skew": lambda X, y, owners: partition.by_label_skew(X, y, 3, 0.5, seed=1),
    "feature-shift": lambda X, y, owners: partition.by_feature_shift(X, y, 3, seed=1),
}


def held(shards: Any) -> list[set[tuple[float, ...]]]:
    return [
        {(*row, label) for row, label in zip(np.asarray(X).tolist(), y.tolist(), strict=True)}
        for X, y in shards
    ]


def moves_others(way: str, relation: str) -> bool:
    """By trial: whether changing or removing one record can put another record on another node, or
    more than one node's records change."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 3)), rng.integers(0, 2, N).astype(float)
    before = held(WAYS[way](X, y, OWNERS))
    for k in range(N):
        if relation == "replace-one":
            other, label = X.copy(), y.copy()
            other[k], label[k] = rng.normal(size=3) * 3, 1 - y[k]
            after = held(WAYS[way](other, label, OWNERS))
        else:
            keep = np.arange(N) != k
            after = held(WAYS[way](X[keep], y[keep], OWNERS[keep]))
        lost = [a - b for a, b in zip(before, after, strict=True)]
        won = [b - a for a, b in zip(before, after, strict=True)]
        if sum(map(len, lost)) > 1 or sum(map(len, won)) > (relation == "replace-one"):
            return True
        if relation == "replace-one" and [bool(s) for s in lost] != [bool(s) for s in won]:
            return True
    return False


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("way", WAYS)
def test_the_rule_says_what_trials_find(way: str, relation: str) -> None:
    assert WAYS[way](np.eye(N), np.arange(N) % 2.0, OWNERS).kind == way
    assert (partition.broken_promise(way, relation, 3) is not None) == moves_others(way, relation)
    assert partition.broken_promise(way, relation, 1) is None
    # Lists of shards: the user's own nodes
    assert partition.broken_promise(None, relation, 3) is None


def configured(network: dict[str, Any], relation: str, **more: Any) -> Any:
    values = {
        "data": {"name": "breast_cancer"},
        "network": {"nodes": 4, **network},
        "problem": {"public_size": 100},
        "privacy": {"adjacency": relation},
    }
    return read.build(read.merged(values, more))


@pytest.mark.parametrize("build", [public_run, private_run])
@pytest.mark.parametrize(
    "network", [{}, {"sizes": "power"}, {"partition": "label-skew"}, {"partition": "feature-shift"}]
)
def test_a_configured_run_refuses_what_the_estimator_refuses(
    network: dict[str, Any], build: Any
) -> None:
    """Found by attack: `fit --adjacency add-remove` on an even split printed a promise."""
    with pytest.raises(InputError, match=r"network\.partition.*add-remove.*node_column"):
        build(configured(network, "add-remove"))
    build(configured({"nodes": 1, "graph": "complete"}, "add-remove"))
    build(configured(network, "add-remove", privacy={"private": False}))


@pytest.mark.parametrize("build", [public_run, private_run])
def test_a_test_part_drawn_by_count_is_refused_too(build: Any) -> None:
    with pytest.raises(InputError, match=r"data\.test_fraction.*add-remove"):
        build(
            configured({"nodes": 1, "graph": "complete"}, "add-remove", data={"test_fraction": 0.2})
        )


@pytest.mark.parametrize("way", ["label-skew", "feature-shift"])
def test_a_split_by_contents_is_said_on_public_data_and_refused_on_a_file(
    way: str, tmp_path: Path
) -> None:
    config = configured({"partition": way}, "replace-one")
    assert any(
        way in note and "not for the table" in note for note in public_run(config).shape.notes
    )
    assert any(
        way in note and "not for the table" in note for note in private_run(config).dataset.notes
    )
    (tmp_path / "people.toml").write_text(SCHEMA)
    rows = [
        f"{20 + k},{'red' if k % 2 else 'green'},s{k % 3},{'yes' if k % 5 else 'no'}"
        for k in range(40)
    ]
    (tmp_path / "people.csv").write_text("\n".join(["age,colour,site,ill", *rows]))
    mine = {"file": str(tmp_path / "people.csv"), "schema": str(tmp_path / "people.toml")}
    for build in (public_run, private_run):
        with pytest.raises(InputError, match=rf"network\.partition '{way}'.*node_column"):
            build(read.build({"data": mine, "network": {"partition": way, "nodes": 4}}))
        build(read.build({"data": mine}))


def problem(shards: Any) -> Any:
    return tc.Problem(shards, classes=("no", "yes"), strength=0.1, public_sizes=20)


def run(shards: Any, relation: str) -> Any:
    privacy = tc.Privacy(1.0, adjacency=relation)
    return tc.simulate(
        problem(shards), tc.graph.ring(3), tc.algorithms.DPDDA(), 2, privacy, seed=0, record_every=0
    )


def test_a_simulation_knows_how_its_records_were_spread() -> None:
    ((X, y),) = support.shards([N])
    with pytest.raises(InputError, match="even split"):
        run(partition.even(X, y, 3), "add-remove")
    run(partition.even(X, y, 3), "replace-one")
    run(partition.by_column(X, y, OWNERS), "add-remove")
    run(list(partition.even(X, y, 3)), "add-remove")  # shards by themselves are whoever's they are
    with pytest.warns(DeclarationWarning, match="label-skew split reads the labels"):
        run(partition.by_label_skew(X, y, 3, 1.0), "replace-one")


@pytest.mark.parametrize("n", [1, 3])
def test_positions_held_out_keep_no_promise_under_add_remove(n: int) -> None:
    data = tc.data.make_classification(60, 3, seed=0)
    shards = list(tc.data.partition.even(data.X, data.y, n, seed=0))
    drawn, tossed = (
        tc.data.hold_out(shards, 0.3, seed=1, adjacency=relation)
        for relation in ("replace-one", "add-remove")
    )
    for side in drawn:
        why = partition.broken_promise(side.kind, "add-remove", n)
        assert why is not None and "from side to side" in why
        assert partition.broken_promise(side.kind, "replace-one", n) is None
        problem = tc.Problem(side, strength=1e-2, classes=(0, 1), public_sizes=40)
        with pytest.raises(tc.errors.InputError, match="from side to side"):
            tc.simulate(
                problem,
                tc.graph.complete(n),
                "dpdda",
                2,
                tc.Privacy(1.0, adjacency="add-remove"),
                seed=0,
            )
    assert all(partition.broken_promise(side.kind, "add-remove", n) is None for side in tossed)
