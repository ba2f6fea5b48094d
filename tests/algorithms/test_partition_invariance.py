"""States and ledgers do not depend on which block hosts which node:
the first contract of the runtime."""

from __future__ import annotations

import dataclasses
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import tacenda as tc
from support import (
    TUNED,
    WHITENED,
    graph_for,
    privacy_for,
    problem,
    same_statement,
    shards,
    simulate,
    uneven,
)

A = tc.algorithms


def assert_same(a: Any, b: Any) -> None:
    """Equal to the last bit, which is more than the 1e-12 that is promised;
    same ledger, same traffic."""
    assert np.array_equal(a.models, b.models)
    assert np.array_equal(a.last, b.last)
    assert same_statement(a.privacy, b.privacy)
    assert (a.messages, a.bytes) == (b.messages, b.bytes)


@st.composite
def connected_graphs(draw: Any, n: int) -> nx.Graph:
    """A random tree and any further edges."""
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    for k in range(1, n):
        graph.add_edge(k, draw(st.integers(0, k - 1)))
    for _ in range(draw(st.integers(0, n))):
        u, v = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))
        if u != v:
            graph.add_edge(u, v)
    return graph


@st.composite
def placements(draw: Any, n: int) -> list[list[int]]:
    """Any placement: nodes in any order, cut anywhere."""
    owner = [draw(st.integers(0, min(n, 4) - 1)) for _ in range(n)]
    return [part for k in range(4) if (part := [i for i in range(n) if owner[i] == k])]


@st.composite
def cases(draw: Any) -> tuple[int, nx.Graph, list[list[int]]]:
    n = draw(st.integers(2, 7))
    return n, draw(connected_graphs(n)), draw(placements(n))


NAMES = [name for name in TUNED if name != "dpadmm"]  # any graph; the star has its own test below


@pytest.mark.filterwarnings("ignore::tacenda.runtime.simulate.GraphWarning")
@given(case=cases(), seed=st.integers(0, 2**63), name=st.sampled_from(NAMES), private=st.booleans())
@settings(max_examples=40)
def test_any_placement_gives_the_same_run(case: Any, seed: int, name: str, private: bool) -> None:
    n, graph, parts = case
    data = tc.Problem(
        shards(uneven(n, seed % 1000), 3, seed % 1000), strength=0.1, classes=("no", "yes")
    )
    chosen = privacy_for(name) if private else None
    one, many = (simulate(data, graph, TUNED[name], 4, chosen, seed, blocks=b) for b in (1, parts))
    assert_same(one, many)


@pytest.mark.parametrize("name", WHITENED)
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        "dense",
        pytest.param("sparse", marks=pytest.mark.slow),
        "single",
        "classes",
        pytest.param("regression", marks=pytest.mark.slow),
    ],
)
def test_whitened_records_on_blocks(name: str, private: bool, kind: str) -> None:
    if kind != "dense" and "treegd" not in name and "cdpadmm" not in name:
        pytest.skip("one method of each kind of noise is enough")
    task = kind if kind in ("classes", "regression") else "binary"
    dtype = np.float32 if kind == "single" else float
    parts = shards(uneven(6), 4, 0, task=task, dtype=dtype)
    if kind == "sparse":
        parts = [(csr_array(x), y) for x, y in parts]
    loss = {"classes": "multinomial", "regression": "huber"}.get(kind, "logistic")
    known = {"classes": (0, 1, 2), "regression": None}.get(kind, ("no", "yes"))
    data = tc.Problem(parts, loss=loss, strength=0.1, classes=known)
    chosen = privacy_for(name) if private else None
    runs = [
        simulate(data, tc.graph.ring(6), WHITENED[name], 4, chosen, 11, blocks=b)
        for b in (1, 6, [[5, 0, 2], [1], [4, 3]])
    ]
    for other in runs[1:]:
        assert_same(runs[0], other)


@pytest.mark.parametrize("name", TUNED)
@pytest.mark.parametrize("private", [False, True])
def test_every_algorithm_on_blocks(name: str, private: bool) -> None:
    data, graph = problem(6), graph_for(name)
    chosen = privacy_for(name) if private else None
    runs = [
        simulate(data, graph, TUNED[name], 5, chosen, 11, blocks=b)
        for b in (1, 3, 6, [[5, 0, 2], [1], [4, 3]])
    ]
    for other in runs[1:]:
        assert_same(runs[0], other)


@pytest.mark.parametrize(
    "algorithm",
    [
        A.IPADMM(penalty=0.1, proximal="theory", inner_steps=2),
        A.IPADMM(penalty=0.1, proximal=0.3, batch_size=3, radius=0.5),
        A.DPDDA(batch_size=4),
        A.DPDDA(batch_size=1, sampling="one"),
        A.CDPADMM(penalty=tc.schedules.geometric(0.1, 1.01), batch_size=2),
    ],
    ids=["theory", "batch", "dda-batch", "one-record", "schedule"],
)
def test_samples_and_schedules_on_blocks(algorithm: Any) -> None:
    data, chosen = problem(6), tc.Privacy.from_noise(noise_multiplier=2.0)
    a, b = (
        simulate(data, tc.graph.ring(6), algorithm, 5, chosen, 7, blocks=k)
        for k in (1, [[0, 3], [1, 5], [2, 4]])
    )
    assert_same(a, b)


@pytest.mark.parametrize(
    "settings_", [{"noise": "gaussian"}, {"closing_dvp": True}, {"centre": "hidden"}], ids=str
)
def test_primal_perturbation_forms_on_blocks(settings_: dict[str, Any]) -> None:
    gaussian = settings_.get("noise") == "gaussian"
    chosen = (
        tc.Privacy.from_noise(noise_multiplier=2.0)
        if gaussian
        else tc.Privacy.from_noise(round_epsilon=1.0)
    )
    data, algorithm = problem(6), A.PVP(penalty=0.2, **settings_)
    a, b = (
        simulate(data, tc.graph.ring(6), algorithm, 5, chosen, 7, blocks=k)
        for k in (1, [[0, 3], [1, 5], [2, 4]])
    )
    assert_same(a, b)


@pytest.mark.parametrize("name", ["ipadmm", "ddpadmm", "cdpadmm", "gossipgd", "dpdda"])
def test_numbers_of_numpy_in_the_settings_change_no_bit(name: str) -> None:
    """Settings may come out of an array; on a float32 table, in blocks on both sides of the size
    from which sums are compiled."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(8):
        x = rng.normal(size=(10, 700))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.01
        parts.append((x.astype(np.float32), rng.integers(0, 2, 10)))
    problem = tc.Problem(parts, strength=1e-3, classes=(0, 1))
    numbers = {
        f.name: getattr(TUNED[name], f.name)
        for f in dataclasses.fields(TUNED[name])
        if type(getattr(TUNED[name], f.name)) is float
    }
    assert numbers
    of_numpy = dataclasses.replace(TUNED[name], **{k: np.float64(v) for k, v in numbers.items()})
    runs = [
        tc.simulate(
            problem,
            tc.graph.ring(8),
            algorithm,
            5,
            tc.Privacy.from_noise(noise_multiplier=5.0),
            seed=0,
            blocks=blocks,
            progress=False,
        ).models
        for algorithm in (TUNED[name], of_numpy)
        for blocks in (1, 8)
    ]
    assert runs[0].dtype == np.float32
    assert all(np.array_equal(runs[0], other) for other in runs[1:])


def test_float32_sparse_and_three_classes_on_blocks() -> None:
    from scipy.sparse import csr_array

    parts = shards(uneven(6), 5, dtype=np.float32)
    sparse = [(csr_array(x), y) for x, y in parts]
    classes = tc.Problem(
        shards(uneven(6), 3, task="classes"), loss="multinomial", strength=0.1, classes=(0, 1, 2)
    )
    named = ("no", "yes")
    for data in (tc.Problem(parts, classes=named), tc.Problem(sparse, classes=named), classes):
        runs = [
            simulate(data, tc.graph.ring(6), TUNED["ipadmm"], 5, privacy_for("ipadmm"), 3, blocks=b)
            for b in (1, 4)
        ]
        assert_same(*runs)
        assert runs[0].models.dtype == data.dtype


def test_calibrated_budgets_per_node_are_the_same_on_blocks() -> None:
    data, budget = problem(6), tc.Privacy(epsilon=[0.5, 1, 2, 3, 4, 5], delta=1e-5)
    a, b = (
        simulate(data, tc.graph.ring(6), TUNED["cdpadmm"], 6, budget, 2, blocks=k)
        for k in (1, [[4, 1], [0, 2, 3, 5]])
    )
    assert_same(a, b)
    assert np.allclose(a.privacy.node_epsilons, budget.epsilon, rtol=1e-6)


def test_relabelled_nodes_keep_their_places() -> None:
    """Labels are names: shards by name on a graph with those names give the run
    of the plain graph."""
    parts, names = shards(uneven(5), 3), ["oslo", "rome", "bern", "kyiv", "bonn"]
    named = tc.graph.ring(5).relabelled(names)
    labels = ("no", "yes")
    a = simulate(
        tc.Problem(parts, classes=labels),
        tc.graph.ring(5),
        TUNED["ipadmm"],
        5,
        privacy_for("ipadmm"),
        3,
    )
    b = simulate(
        tc.Problem(dict(zip(names, parts, strict=True)), classes=labels),
        named,
        TUNED["ipadmm"],
        5,
        privacy_for("ipadmm"),
        3,
    )
    assert_same(a, b)


def test_closing_mixing_on_blocks() -> None:
    data = problem(6)
    a, b = (
        simulate(data, tc.graph.ring(6), TUNED["dda"], 5, None, 3, blocks=k, finish_mixing=7)
        for k in (1, [[0, 2, 4], [1, 3, 5]])
    )
    assert_same(a, b)
