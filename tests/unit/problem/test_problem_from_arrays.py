"""`Problem.from_arrays` is `Problem` of the shards that the sizes cut out of one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tacenda as tc
from tacenda.errors import InputError


def cut(table: Any, sizes: list[int]) -> list[Any]:
    ends = np.cumsum(sizes)
    return [table[b - m : b] for m, b in zip(sizes, ends, strict=True)]


def same(a: tc.Problem, b: tc.Problem) -> None:
    for name in ("sizes", "divisors"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
    assert (a.classes, a.dim, a.dtype, a.constants) == (b.classes, b.dim, b.dtype, b.constants)
    mine, theirs = a.store, b.store
    assert np.array_equal(mine.labels, theirs.labels)
    assert np.array_equal(mine.offsets, theirs.offsets)
    assert (mine.weights is None) == (theirs.weights is None)
    if mine.weights is not None:
        assert np.array_equal(mine.weights, theirs.weights)
    rows: tuple[Any, ...] = mine.rows if isinstance(mine.rows, tuple) else (mine.rows,)
    others: tuple[Any, ...] = theirs.rows if isinstance(theirs.rows, tuple) else (theirs.rows,)
    for x, z in zip(rows, others, strict=True):
        assert x.dtype == z.dtype and np.array_equal(x, z)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=9),
    st.sampled_from([np.float64, np.float32]),
    st.booleans(),
    st.sampled_from([("logistic", 2), ("multinomial", 3), ("multinomial", 12), ("huber", 0)]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_same_as_shards(
    sizes: list[int], dtype: Any, as_sparse: bool, task: tuple[str, int], words: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    loss, classes = task
    X = rng.normal(size=(sum(sizes), 4)).astype(dtype)
    X /= 2 * np.linalg.norm(X, axis=1, keepdims=True)
    labels = np.array([f"c{k}" for k in range(classes)]) if words else np.arange(classes)
    y = rng.choice(labels, len(X)) if classes else rng.normal(size=len(X))
    options: dict[str, Any] = {"loss": loss, "weights": rng.random(len(X)), "weight_bound": 2.0}
    if classes:
        options["classes"] = labels
    table = sparse.csr_array(X) if as_sparse else X
    whole = tc.Problem.from_arrays(table, y, sizes, **options)
    options["weights"] = cut(options["weights"], sizes)
    parts = [(x, z) for x, z in zip(cut(table, sizes), cut(y, sizes), strict=True)]
    same(whole, tc.Problem(parts, **options))


def test_one_number_for_all_and_no_copy() -> None:
    X, y = np.full((12, 3), 0.1), np.arange(12) % 2
    problem = tc.Problem.from_arrays(X, y, 4, classes=(0, 1))
    assert problem.sizes.tolist() == [4, 4, 4]
    assert np.shares_memory(problem.store.rows, X)
    same(problem, tc.Problem.from_arrays(X, y, [4, 4, 4], classes=(0, 1)))


def test_persons_are_capped_as_in_shards() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)) / 10, np.arange(30) % 2
    ids, sizes = np.repeat(np.arange(15), 2), [10, 12, 8]
    options: dict[str, Any] = {"classes": (0, 1), "records_per_person": 1}
    whole = tc.Problem.from_arrays(X, y, sizes, persons=ids, **options)
    parts = list(zip(cut(X, sizes), cut(y, sizes), strict=True))
    same(whole, tc.Problem(parts, persons=cut(ids, sizes), **options))
    assert whole.sizes.sum() == 15


GOOD = {"X": np.full((6, 2), 0.1), "y": np.array([0, 1, 0, 1, 0, 1]), "sizes": 2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sizes": 4}, "sizes must divide the number of records \\(6\\), not 4"),
        ({"sizes": [3, 2]}, "sizes must add up to the number of records \\(6\\), not to 5"),
        ({"sizes": [6, 0]}, "sizes must be whole numbers of at least 1"),
        ({"sizes": 0}, "sizes must be whole numbers of at least 1"),
        ({"sizes": 2.0}, "sizes must be whole numbers"),
        ({"sizes": []}, "sizes must be whole numbers"),
        ({"y": [0, 1]}, "X has 6 rows and y 2 labels"),
        ({"X": np.zeros(6)}, "X must have two axes"),
        ({"X": np.empty((0, 2)), "y": []}, "sizes must divide the number of records \\(0\\)"),
        (
            {"weights": [np.ones(2)] * 3},
            "weights must be one array with an entry for each of the 6",
        ),
        ({"persons": np.arange(5)}, "persons must be one array with an entry for each of the 6"),
        ({"y": [0, 1, 0, 2, 0, 1]}, "Node 1 has a label which is not one of the 2 declared"),
        ({"y": np.array(list("aaaaaa"))}, "Node 0 has a label"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], words: str) -> None:
    given_ = {**GOOD, **change}
    arrays = [given_.pop(name) for name in ("X", "y", "sizes")]
    with pytest.raises(InputError, match=words):
        tc.Problem.from_arrays(*arrays, classes=(0, 1), **given_)


def test_bad_records_name_their_node() -> None:
    X, y = np.full((6, 2), 0.1), np.array([0.0, 1, 0, 1, 0, 1])
    large, missing, label = X.copy(), X.copy(), y.copy()
    large[5], missing[2, 1], label[3] = 7.0, np.nan, np.inf
    for table, labels, words in (
        (large, y, "Node 2 has a row"),
        (missing, y, "Node 1: column 1"),
        (X, label, "Node 1: y holds NaN"),
    ):
        with pytest.raises(InputError, match=words):
            tc.Problem.from_arrays(table, labels, 2, loss="huber")
    with pytest.raises(InputError, match="Node 1: y holds NaN"):
        tc.Problem.from_arrays(X, label, 2)
