"""What a simulation reads from all records: node by node, as the problem's own measures say, and a
fingerprint that tells other records apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import tacenda as tc
from support import problem, shards, uneven
from tacenda.errors import InputError
from tacenda.privacy.lasting.fingerprints import joined_marks, marks_of
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.ranks import ALONE

N = 5


def parts_of(kind: str) -> tuple[list[Any], dict[str, Any]]:
    task = kind if kind in ("classes", "regression") else "binary"
    dtype = np.float32 if kind == "single" else float
    parts = shards(uneven(N), 4, 0, task=task, dtype=dtype)
    if kind == "sparse":
        parts = [(csr_array(x), y) for x, y in parts]
    settings: dict[str, Any] = {"strength": 0.1, "classes": ("no", "yes")}
    if kind == "classes":
        settings |= {"loss": "multinomial", "classes": (0, 1, 2)}
    if kind == "regression":
        settings |= {"loss": "huber", "classes": None}
    if kind == "weighted":
        settings |= {"weights": [np.linspace(0, 1, len(y)) for _, y in parts]}
    return parts, settings


KINDS = ["dense", "sparse", "single", "classes", "regression", "weighted"]


@pytest.mark.parametrize("kind", KINDS)
def test_measures_are_those_of_the_problem(kind: str) -> None:
    parts, settings = parts_of(kind)
    data = tc.Problem(parts, **settings)
    here = LocalShards(data, [np.arange(N)])
    models = np.random.default_rng(1).normal(size=(N, data.dim))
    w = models.mean(axis=0)
    assert here.objective(w) == pytest.approx(data.objective(w), rel=1e-6)
    assert here.loss(w) == pytest.approx(data.loss_of(w), rel=1e-6)
    assert np.allclose(here.objectives(models), data.objective(models), rtol=1e-12)
    assert np.allclose(here.losses(models), data.loss_of(models), rtol=1e-12)
    if kind != "regression":
        assert here.accuracy(w) == pytest.approx(data.accuracy(w))
        assert np.allclose(here.accuracies(models), data.accuracy(models), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_some_nodes_are_a_problem_of_those_nodes(kind: str) -> None:
    parts, settings = parts_of(kind)
    whole = tc.Problem(parts, **settings)
    for chosen in ([1, 2, 3], [4, 0, 2]):
        weights = settings.get("weights")
        own = {**settings, **({"weights": [weights[k] for k in chosen]} if weights else {})}
        alone, found = tc.Problem([parts[k] for k in chosen], **own), whole.of_nodes(chosen)
        assert np.array_equal(found.sizes, alone.sizes)
        nodes, rows = np.arange(3), np.random.default_rng(2).normal(size=(3, whole.dim))
        rows = rows.astype(whole.dtype)
        want = alone.store.gradient(nodes, rows)
        assert found.store.gradient(nodes, rows).tobytes() == want.tobytes()
        assert LocalShards(found, [nodes]).digest() == LocalShards(alone, [nodes]).digest()


@pytest.mark.parametrize("kind", KINDS)
def test_another_record_order_or_place_has_another_digest(kind: str) -> None:
    def digest(parts: Any, **settings: Any) -> str:
        return LocalShards(tc.Problem(parts, **settings), [np.arange(len(parts))]).digest()

    parts, settings = parts_of(kind)
    first = digest(parts, **settings)
    assert first == digest(parts, **settings)
    (x, y), (other, labels) = parts[0], parts[1]
    changed = [(x * 0.5, y), *parts[1:]]
    swapped = [(other, labels), (x, y), *parts[2:]]
    if kind == "weighted":
        weights = settings["weights"]
        less = [weights[0] * 0.5, *weights[1:]]
        assert digest(parts, **{**settings, "weights": less}) != first
        settings = {**settings, "weights": [weights[1], weights[0], *weights[2:]]}
        assert digest(swapped, **settings) != first
        return
    assert len({first, digest(changed, **settings), digest(swapped, **settings)}) == 3


def test_marks_of_parts_are_those_of_the_whole() -> None:
    data = problem(N)
    key = b"k" * 32
    parts = [data.of_nodes([0, 3]), data.of_nodes([1]), data.of_nodes([2, 4])]
    found = joined_marks([marks_of(p.store.rows, p.store.labels, key) for p in parts])
    whole = marks_of(data.store.rows, data.store.labels, key)
    assert found.digest == whole.digest and np.array_equal(found.sketch, whole.sketch)


def test_the_transport_is_mpi_or_none() -> None:
    with pytest.raises(InputError, match=r"transport must be tacenda.MPI\(\) or None, not 'mpi'"):
        tc.simulate(problem(N), tc.graph.ring(N), "admm", 1, transport="mpi")  # type: ignore[arg-type]
    assert ALONE.root and ALONE.size == 1
