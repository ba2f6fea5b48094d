"""What a run is compared with is what it is called: no optimum lies below the floor, a trusted
server does better than one node alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.data import sources
from tacenda.runs import read, references, simulations, table
from tacenda.runs.private_run import private_run
from tacenda.runtime.held_out import HeldOutRecords
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.ranks import ALONE

SETS: dict[str, dict[str, Any]] = {
    "breast_cancer": {},
    "digits": {},
    "wine": {},
    "iris": {},
    "diabetes": {},
    "classification": {"options": {"n": 600, "features": 5, "classes": 3}},
    "sparse-regression": {},
    "epsilon-like": {"options": {"rows": 300, "features": 40}},
}


def measure(shards: Any, test: Any, models: Any) -> dict[str, Any]:
    return table.evaluate(shards, test, models, "replace-one")


def rows(data: dict[str, Any], **sections: Any) -> tuple[dict[str, Any], dict[str, Any], Any]:
    config = read.build({"data": data, "network": {"nodes": 4, "partition": "even"}, **sections})
    made = private_run(config)
    names = made.dataset.feature_names
    intercept = len(names) - 1 if names[-1] == "intercept" else None
    floor = references.floor(made.shards, made.test_records, intercept, measure, "replace-one")
    return references.ceiling(made.shards, made.graph, made.test_records, measure), floor, made


def known() -> list[str]:
    from tacenda.data.catalogue import NAMES

    return [name for name in SETS if name in NAMES]


def test_most_named_sets_are_here() -> None:
    assert len(known()) >= 4


@pytest.mark.parametrize("name", known())
def test_no_ceiling_lies_below_its_floor(name: str) -> None:
    ceiling, floor, made = rows({"name": name, **SETS[name]}, problem={"on_large_rows": "scale"})
    assert ceiling["objective"] <= floor["objective"] + 1e-6
    assert floor.get("roc_auc", 0.5) == 0.5  # a constant ranks nobody
    if made.problem.loss.kind != "regression":
        assert ceiling["accuracy"] >= floor["accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "a9a"])
def test_no_ceiling_lies_below_its_floor_on_large_sets(name: str) -> None:
    try:
        ceiling, floor, _ = rows({"name": name})
    except sources.Unavailable as reason:
        pytest.skip(str(reason))
    assert ceiling["objective"] < floor["objective"]
    assert ceiling["accuracy"] > floor["accuracy"]


def test_rare_classes_in_sparse_rows_have_a_ceiling_above_the_floor() -> None:
    """Without a constant feature no model can say that a class is rare."""
    import scipy.sparse as sp

    rng = np.random.default_rng(1)
    x = sp.random(800, 60, 0.05, random_state=1, format="csr")
    y = (rng.random(800) < 0.03).astype(int)
    ones = sp.csr_array(sp.hstack([x, np.ones((800, 1))]))
    ones = sp.csr_array(sp.diags_array(1 / np.sqrt(ones.multiply(ones).sum(axis=1))) @ ones)
    parts = tc.data.partition.even(ones, y, 4)
    problem = tc.Problem(parts, classes=(0, 1), strength=1e-4)
    shards = LocalShards.alone(problem)
    floor = references.floor(shards, None, 60, measure, "replace-one")
    ceiling = references.ceiling(shards, tc.graph.ring(4), None, measure)
    assert ceiling["objective"] <= floor["objective"]
    assert ceiling["accuracy"] >= floor["accuracy"] - 1e-9 and floor["accuracy"] > 0.95


def test_the_floor_without_an_intercept_is_the_base_rates_by_hand() -> None:
    y = np.array([0] * 30 + [1] * 10)
    x = np.random.default_rng(0).normal(size=(40, 2)) / 10
    problem = tc.Problem(tc.data.partition.even(x, y, 2, seed=0), classes=(0, 1))
    test_records = HeldOutRecords.of((x, y), problem, ALONE)
    floor = references.floor(LocalShards.alone(problem), test_records, None, measure, "replace-one")
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert floor["accuracy"] == floor["test_accuracy"] == 0.75
    assert floor["loss"] == pytest.approx(entropy, abs=1e-6)
    numbers = np.linspace(-1, 1, 40) ** 2
    problem = tc.Problem(
        tc.data.partition.even(x, numbers, 2, seed=0), loss="squared", clip_norm=1.0
    )
    floor = references.floor(LocalShards.alone(problem), None, None, measure, "replace-one")
    assert floor["label"] == references.MEAN
    assert floor["loss"] == pytest.approx(np.var(numbers) / 2, abs=1e-6)


def test_a_server_a_node_and_all_between(tmp_path: Any) -> None:
    values = {
        "data": {"name": "classification", "options": {"n": 4000, "features": 6, "seed": 1}},
        "network": {"nodes": 20},
        "privacy": {"epsilon": 1.0},
        "run": {"folder": str(tmp_path / "run"), "jobs": 1},
    }
    fitted = tc.fit(values, progress=False)
    found = {row["label"]: row for row in fitted.table}
    names = [references.CEILING, references.SERVER, references.ALONE, references.FLOOR]
    server, alone = found[references.SERVER], found[references.ALONE]
    best, floor = found[references.CEILING], found[references.FLOOR]
    assert [row["label"] for row in fitted.table if row["algorithm"] is None] == names
    assert best["objective"] < server["objective"] < alone["objective"]
    assert server["objective"] < floor["objective"] and alone["nodes"] == 5
    own = fitted.table[2]
    assert own["suboptimality"] == pytest.approx(own["objective"] - best["objective"])
    assert references.NOTE in fitted.notes
    values["run"] = {"folder": str(tmp_path / "bare"), "jobs": 1, "references": False}
    bare = tc.fit(values, progress=False)
    assert [row["algorithm"] for row in bare.table] == [own["algorithm"]]


@pytest.mark.parametrize("sparse", [False, True])
def test_parts_of_a_problem_hold_its_records(sparse: bool) -> None:
    import scipy.sparse as sp

    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 3)) / 5, rng.integers(0, 2, 30)
    table_of: Any = sp.csr_array if sparse else np.asarray
    shards = [(table_of(x[a:b]), y[a:b]) for a, b in ((0, 5), (5, 18), (18, 30))]
    problem = tc.Problem(shards, classes=(0, 1), strength=0.1)
    w = rng.normal(size=3)
    for k, (rows_of, labels) in enumerate(shards):
        one = tc.Problem([(rows_of, labels)], classes=(0, 1), strength=0.1)
        assert problem.of_node(k).objective(w) == pytest.approx(one.objective(w))
    whole = tc.Problem([(table_of(x), y)], classes=(0, 1), strength=0.1)
    assert problem.pooled().objective(w) == pytest.approx(whole.objective(w))
    assert np.allclose(problem.pooled().solve(), whole.solve())
    one = problem.with_one_feature(1)
    assert one.objective(w[1:2]) == pytest.approx(problem.objective(np.array([0, w[1], 0])))


def test_private_fits_to_compare_with_are_left_out_of_large_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(references, "MOST_CELLS", 1000.0)

    def labels(**run: Any) -> tuple[set[str], str]:
        options = {"options": {"n": 300, "features": 4}}
        folder = str(tmp_path / f"run{len(list(tmp_path.iterdir()))}")
        fitted = tc.fit(
            {
                "data": {"name": "classification", **options},
                "network": {"nodes": 3, "graph": "ring"},
                "run": {"folder": folder, **run},
            },
            progress=False,
        )
        return {row["label"] for row in fitted.table}, " ".join(fitted.notes)

    few, said = labels()
    assert few >= {references.CEILING, references.FLOOR} and "--references" in said
    assert not few & {references.SERVER, references.ALONE}
    every, said = labels(references=True)
    assert every >= few | {references.SERVER, references.ALONE} and "--references" not in said
    assert len(labels(references=False)[0]) == 1


def test_how_often_a_run_is_measured_tells_no_private_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulations, "HISTORY_WORK", 600.0)
    found = set()
    for count in (20, 25, 40):
        data = {"name": "classification", "options": {"n": count, "features": 2}}
        own = {"public_size": 30.0, "on_large_rows": "scale"}
        config = read.build({"data": data, "network": {"nodes": 1}, "problem": own})
        found.add(simulations._history_rows(private_run(config)))
    assert len(found) == 1 and found.pop() in range(6, 50)  # neither the fewest nor the most
