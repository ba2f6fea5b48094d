"""Tables and labels as users give them, against what a plain loop over the records would make of
them; with tiny chunks, so that every seam between two chunks is crossed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import tacenda as tc
from tacenda import losses
from tacenda.errors import InputError
from tacenda.questions.validate import rows as module
from tacenda.questions.validate.labels import encode_labels
from tacenda.questions.validate.rows import bound_rows, join_arrays, read_shards, square_norms


@pytest.fixture(autouse=True, params=[1, 7, 1 << 18])
def _chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", request.param)


def table(sizes: list[int], p: int, seed: int, kind: Any = np.float64) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for m in sizes:
        x = rng.normal(size=(m, p)) * (rng.random((m, p)) < 0.6) * 2
        found.append((x.astype(kind), rng.integers(0, 2, m)))
    return found


def dense(rows: Any, p: int) -> Any:
    if not isinstance(rows, tuple):
        return np.asarray(rows)
    data, indices, indptr = rows
    return sparse.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, p)).toarray()


sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64])
@given(sizes=sizes, p=st.integers(1, 4), seed=st.integers(0, 999))
def test_joined_shards_are_the_records_one_after_the_other(
    csr: bool, kind: Any, sizes: list[int], p: int, seed: int
) -> None:
    parts = table(sizes, p, seed, kind)
    if csr and kind is np.float16:
        return
    given_ = {f"n{k}": (sparse.csr_matrix(x) if csr else x, y) for k, (x, y) in enumerate(parts)}
    joined = read_shards(given_)
    everything = np.concatenate([x for x, _ in parts])
    np.testing.assert_array_equal(dense(joined.rows, p), everything)
    stored = joined.rows[0] if csr else joined.rows
    assert stored.dtype == (np.float32 if kind in (np.float32, np.float16) else np.float64)
    assert joined.offsets.tolist() == [0, *np.cumsum(sizes).tolist()]
    assert joined.n_features == p and joined.node_labels == tuple(given_)
    assert joined.node_name(0) == "Node 'n0'" and read_shards(parts).node_name(0) == "Node 0"
    for mine, (_, y) in zip(joined.labels, parts, strict=True):
        assert mine.tolist() == y.tolist()
    wanted = [math.fsum(float(v) ** 2 for v in row) for row in everything.astype(float)]
    np.testing.assert_allclose(square_norms(joined.rows), wanted, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@given(sizes=sizes, p=st.integers(1, 4), seed=st.integers(0, 999), limit=st.floats(0.5, 4.0))
def test_large_rows_are_scaled_to_the_norm_and_the_others_left_alone(
    csr: bool, sizes: list[int], p: int, seed: int, limit: float
) -> None:
    parts = table(sizes, p, seed)
    joined = read_shards([(sparse.csr_matrix(x) if csr else x, y) for x, y in parts])
    before = dense(joined.rows, p).copy()
    norms = np.sqrt((before**2).sum(axis=1))
    large = norms > limit * (1 + 1e-9)
    found = bound_rows(joined, limit, "scale")
    np.testing.assert_array_equal(dense(joined.rows, p), before)  # the user's own is not touched
    wanted = np.where(large[:, None], before * (limit / np.maximum(norms, limit))[:, None], before)
    np.testing.assert_allclose(dense(found, p), wanted, rtol=1e-14)
    assert (found is joined.rows) == (not large.any())
    if large.any():
        node = int(np.searchsorted(joined.offsets, np.flatnonzero(large)[0], side="right")) - 1
        with pytest.raises(InputError, match=rf"^Node {node} has a row of X whose norm is above"):
            bound_rows(joined, limit, "error")
    else:
        assert bound_rows(joined, limit, "error") is joined.rows


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_none_is_named_by_node_and_column(csr: bool, bad: float) -> None:
    for record in range(6):
        for column in range(3):
            x = np.arange(1.0, 19.0).reshape(6, 3)
            x[record, column] = bad
            parts = [(x[:1], [1]), (x[1:4], [1] * 3), (x[4:], [1] * 2)]
            if csr:
                parts = [(sparse.csr_matrix(part), y) for part, y in parts]
            node = 0 if record < 1 else 1 if record < 4 else 2
            with pytest.raises(InputError, match=f"^Node {node}: column {column} of X holds NaN"):
                bound_rows(read_shards(parts), 1.0, "scale")


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
def test_a_norm_beyond_all_floats_is_refused(csr: bool) -> None:
    x = np.array([[1.0, 2.0], [1e200, 1e200]])
    part = sparse.csr_matrix(x) if csr else x
    with np.errstate(all="raise"), pytest.raises(InputError, match="^Node 0: .*norm overflows"):
        bound_rows(read_shards([(part, [0, 1])]), 1.0, "scale")


def test_the_slack_is_that_of_the_rows_own_floats() -> None:
    """1e-9 for doubles, 1e-6 for single floats: what lies above is not rounding any more."""
    for kind, slack in ((np.float64, 1e-9), (np.float32, 1e-6)):
        for factor, fits in ((1 + 0.5 * slack, True), (1 + 2.5 * slack, False)):
            joined = read_shards([(np.array([[factor]], kind), [0])])
            if fits:
                assert bound_rows(joined, 1.0, "error") is joined.rows
            else:
                with pytest.raises(InputError, match="above data_norm=1"):
                    bound_rows(joined, 1.0, "error")


def test_neighbouring_views_are_joined_without_a_copy_and_nothing_else_is() -> None:
    whole = np.arange(24.0).reshape(8, 3)
    cut = [whole[:2], whole[2:2], whole[2:7], whole[7:]]
    joined = join_arrays(cut, np.dtype(np.float64))
    np.testing.assert_array_equal(joined, whole)
    assert np.shares_memory(joined, whole) and not joined.flags.writeable
    for parts, kind in (
        ([whole[:2], whole[3:]], np.float64),  # a gap
        ([whole[3:], whole[:3]], np.float64),  # another order
        ([whole[:2].copy(), whole[2:]], np.float64),  # another array
        ([whole[:2], whole[2:]], np.float32),  # another type
        ([whole.copy(), whole.copy()], np.float64),  # two owners
    ):
        found = join_arrays(parts, np.dtype(kind))
        assert not np.shares_memory(found, whole) and found.dtype == kind
        np.testing.assert_array_equal(found, np.concatenate(parts).astype(kind))
    alone = join_arrays([whole], np.dtype(np.float64))
    assert alone is whole or np.shares_memory(alone, whole)
    empty = join_arrays([whole[:0], whole[:0]], np.dtype(np.float64))
    assert empty.shape == (0, 3)


@pytest.mark.parametrize(
    ("shards", "words"),
    [
        ("text", "must be a list of pairs"),
        (b"bytes", "must be a list of pairs"),
        (3, "must be a list of pairs"),
        ([], "at least one node"),
        ({}, "at least one node"),
        ([np.zeros((2, 2))], "Node 0 holds ndarray"),
        ([(np.zeros((2, 2)), [0, 1], 3)], "Node 0 holds tuple"),
        ([(np.zeros((2, 2)), [0, 1]), (np.zeros((2, 2)), [0])], "Node 1 has 2 rows in X and 1 lab"),
        ([(np.zeros((0, 2)), [])], "Node 0 has no records"),
        ([(np.zeros(2), [0, 1])], "two axes"),
        ([(np.zeros((2, 2, 2)), [0, 1])], "two axes"),
        ([(np.zeros((2, 0)), [0, 1])], "at least one feature"),
        ([(np.zeros((2, 2)), np.zeros((2, 2)))], "y must have one axis"),
        ([(np.zeros((2, 2)), [0, 1]), (np.zeros((2, 3)), [0, 1])], "Node 1: X has 3 features and"),
        ([(np.zeros((2, 2)), [0, 1]), (sparse.eye(2).tocsr(), [0, 1])], "Node 1: X must be dense"),
        ([(sparse.eye(2).tocsr(), [0, 1]), (np.zeros((2, 2)), [0, 1])], "Node 1: X must be sparse"),
        ([(np.array([["a"], ["b"]]), [0, 1])], "real numbers"),
        ([(np.array([[1j], [2j]]), [0, 1])], "real numbers, not complex"),
    ],
)
def test_what_is_no_table_is_refused(shards: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_shards(shards)


def test_what_is_a_table_in_another_dress_is_taken() -> None:
    column = read_shards([(np.eye(2), np.array([[3], [4]]))])
    assert column.labels[0].tolist() == [3, 4]
    for x in (
        np.eye(2, dtype=bool),
        np.eye(2, dtype=np.int8),
        np.eye(2, dtype=object),
        [[1, 0], [0, 1]],
    ):
        assert read_shards([(x, [0, 1])]).rows.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    twice = sparse.csr_matrix(([1.0, 2.0, 5.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    twice.has_canonical_format = False
    data, indices, _ = read_shards([(twice, [0, 1])]).rows
    assert data.tolist() == [3.0, 5.0] and indices.tolist() == [0, 1]
    assert twice.nnz == 3, "the user's own matrix is not ours to change"


# ---- labels


LABELS: list[Any] = [("no", "yes"), (0, 1), (1, 0), (2.5, -1.0), (False, True), ("b", "a")]


@pytest.mark.parametrize("classes", LABELS, ids=str)
@given(picks=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=5), min_size=1, max_size=3))
def test_labels_become_minus_one_and_one_in_the_order_of_the_classes(
    classes: Any, picks: list[list[int]]
) -> None:
    labels = [np.array([classes[k] for k in part]) for part in picks]
    joined = read_shards([(np.zeros((len(y), 1)), y) for y in labels])
    numbers, known = encode_labels(joined, losses.Logistic(), classes)
    assert numbers.tolist() == [2.0 * k - 1 for part in picks for k in part]
    assert known == tuple(classes)
    seen = sorted({classes[k] for part in picks for k in part})
    if len(seen) == 2:
        numbers, known = encode_labels(joined, losses.Logistic(), None)
        assert known == tuple(seen)
        assert numbers.tolist() == [2.0 * seen.index(classes[k]) - 1 for p in picks for k in p]
    else:
        with pytest.raises(InputError, match="y holds, over all nodes, 1; declare classes"):
            encode_labels(joined, losses.Logistic(), None)


def test_classes_are_numbered_and_targets_kept() -> None:
    joined = read_shards([(np.zeros((2, 1)), ["c", "a"]), (np.zeros((1, 1)), ["b"])])
    numbers, known = encode_labels(joined, losses.Multinomial(), ("b", "c", "a", "unused"))
    assert numbers.tolist() == [1.0, 2.0, 0.0] and known == ("b", "c", "a", "unused")
    targets = read_shards([(np.zeros((2, 1)), [3, -4]), (np.zeros((1, 1)), [0.5])])
    assert encode_labels(targets, losses.Huber(), None)[0].tolist() == [3.0, -4.0, 0.5]
    assert encode_labels(targets, losses.Huber(), None)[1] is None
    mixed = read_shards([(np.zeros((3, 1)), np.array([1, 2.5, True], object))])
    assert encode_labels(mixed, losses.Multinomial(), None)[1] == (1.0, 2.5)


@pytest.mark.parametrize(
    ("labels", "loss", "classes", "words"),
    [
        ([[0, 1], [2]], "logistic", (0, 1), "^Node 1 has a label which is not one of the 2"),
        ([[0, 1], ["a"]], "logistic", (0, 1), "^Node 1 has a label"),
        ([["x", "y"]], "logistic", (0, 1), "^Node 0 has a label"),
        ([[0, 1, 2]], "logistic", None, "over all nodes, 3; use loss='multinomial'"),
        ([[0, 1]], "logistic", (0, 1, 2), "classes declares 3; use loss='multinomial'"),
        ([[0, 0]], "logistic", (0,), "classes declares 1; declare classes="),
        ([[0, 0]], "multinomial", None, "two or more label values, and y holds"),
        ([[0.0, np.nan]], "logistic", None, "^Node 0: y holds NaN"),
        ([[0, 1], ["a"]], "logistic", None, "^Node 1: y must hold labels of one type at all"),
        ([[1 + 2j, 0]], "logistic", None, "^Node 0: y must hold labels"),
        ([np.array(["a", 1], object)], "logistic", None, "^Node 0: y must hold labels of one type"),
        ([np.array(["a", None], object)], "logistic", None, "without missing values"),
        ([[0, 1]], "logistic", (0, 0), "classes must be different labels"),
        ([[0, 1]], "logistic", (0.0, np.nan), "classes must be different labels"),
        ([[0, 1]], "logistic", ((0,), (1,)), "classes must be different labels"),
        ([[0, 1]], "logistic", (None, 1), "classes must be different labels"),
        ([[0, 1]], "huber", (0, 1), "classes belongs to classification"),
        ([["a", "b"]], "huber", None, "^Node 0: y must hold real numbers"),
        ([[0.0], [np.inf]], "huber", None, "^Node 1: y holds NaN"),
        ([np.array([1e4000], np.longdouble)], "huber", None, "^Node 0: y holds NaN"),
    ],
)
def test_labels_that_mean_nothing_are_refused(
    labels: Any, loss: str, classes: Any, words: str
) -> None:
    joined = read_shards([(np.zeros((len(y), 1)), y) for y in labels])
    with np.errstate(all="raise"), pytest.raises(InputError, match=words):
        encode_labels(joined, losses.by_name(loss), classes)


def test_a_problem_takes_them_as_they_are() -> None:
    data = tc.Problem(table([3, 4], 2, 0), classes=(0, 1), data_norm=50.0)
    assert data.sizes.tolist() == [3, 4] and data.n_features == 2
