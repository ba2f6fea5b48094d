"""Partitions: every record exactly once, views instead of copies,
and the skew that was asked for."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, random_array

from tacenda.data import partition
from tacenda.errors import InputError


def data(rows=300, features=4, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, features)), rng.integers(classes, size=rows)


MAKERS = {
    "even": lambda X, y: partition.even(X, y, 7),
    "even shuffled": lambda X, y: partition.even(X, y, 7, seed=1),
    "column": lambda X, y: partition.by_column(X, y, np.arange(len(y)) % 5),
    "sizes": lambda X, y: partition.by_sizes(X, y, [len(y) - 5, 4, 1], seed=2),
    "power": lambda X, y: partition.by_sizes(X, y, "power", n=9),
    "lognormal": lambda X, y: partition.by_sizes(X, y, "lognormal", n=9, spread=2.0, seed=3),
    "label": lambda X, y: partition.by_label_skew(X, y, 8, 0.1),
    "shift": lambda X, y: partition.by_feature_shift(X, y, 6, strength=0.7),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_every_record_is_on_exactly_one_node(maker, sparse):
    X, y = data()
    X[:, 0] = np.arange(len(y)) + 1  # a serial number, never 0, so that CSR keeps it
    shards = maker(csr_matrix(X) if sparse else X, y)
    parts = [part.toarray() if sparse else part for part, _ in shards]
    serial = np.concatenate([part[:, 0] for part in parts]).astype(int) - 1
    assert sorted(serial.tolist()) == list(range(len(y)))
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in shards]), y[serial])
    np.testing.assert_array_equal(np.concatenate(parts), X[serial])
    assert min(len(labels) for _, labels in shards) >= 1


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_shards_are_consecutive_views_of_one_array(maker):
    X, y = data()
    shards = maker(X, y)
    base = shards[0][0].base
    address = shards[0][0].__array_interface__["data"][0]
    for part, _ in shards:
        assert part.base is base and part.flags.c_contiguous
        assert part.__array_interface__["data"][0] == address
        address += part.nbytes


def test_in_order_nothing_is_copied():
    X, y = data()
    assert partition.even(X, y, 7)[0][0].base is X
    assert partition.by_column(X, y, np.repeat(["a", "b", "c"], 100))[2][0].base is X
    S = csr_matrix(X)
    part = partition.even(S, y, 7)[3][0]
    assert np.shares_memory(part.data, S.data) and np.shares_memory(part.indices, S.indices)


def test_adult_sizes():
    X, y = np.zeros((45_222, 1)), np.zeros(45_222)
    sizes = [len(labels) for _, labels in partition.even(X, y, 100)]
    assert sizes.count(453) == 22 and sizes.count(452) == 78


def test_by_column_keeps_the_labels():
    X, y = data(6)
    shards = partition.by_column(X, y, np.array(["b", "a", "b", "c", "a", "b"], object))
    assert shards.labels == ("a", "b", "c") and [len(labels) for _, labels in shards] == [2, 3, 1]
    np.testing.assert_array_equal(shards.as_dict()["a"][0], X[[1, 4]])


def test_power_law_by_hand():
    # 12 records over 3 nodes: one each, then 9 split as 1 : 1/2 : 1/3, that is 4.91, 2.45, 1.64
    X, y = data(12)
    assert [len(labels) for _, labels in partition.by_sizes(X, y, "power", n=3)] == [6, 3, 3]
    assert [len(labels) for _, labels in partition.by_sizes(X, y, "power", n=3, spread=0)] == [
        4,
        4,
        4,
    ]


def spread_of_shares(shards):
    return np.std([np.mean(labels == 0) for _, labels in shards])


def test_label_skew_follows_the_concentration():
    X, y = data(3000, classes=2)
    skewed = spread_of_shares(partition.by_label_skew(X, y, 10, 0.1, seed=4))
    mild = spread_of_shares(partition.by_label_skew(X, y, 10, 1000.0, seed=4))
    assert skewed > 0.25 and mild < 0.05


def test_label_skew_never_leaves_a_node_empty():
    X, y = data(40, classes=2)
    for seed in range(20):
        for concentration in (1e-12, 1e-3):
            shards = partition.by_label_skew(X, y, 30, concentration, seed=seed)
            assert min(len(labels) for _, labels in shards) >= 1


def test_feature_shift_sorts_one_feature():
    X, y = data()
    shards = partition.by_feature_shift(X, y, 5, feature=2)
    tops = [(part[:, 2].min(), part[:, 2].max()) for part, _ in shards]
    assert all(before[1] <= after[0] for before, after in pairwise(tops))
    means = [
        part[:, 2].mean()
        for part, _ in partition.by_feature_shift(X, y, 5, feature=2, strength=0.0)
    ]
    assert np.ptp(means) < 0.6
    S = csr_matrix(X)
    np.testing.assert_array_equal(
        partition.by_feature_shift(S, y, 5, feature=2)[0][0].toarray(), shards[0][0]
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 3), st.integers(0, 99))
def test_sizes_sum_and_are_positive(n, extra, spread, seed):
    X, y = data(n + extra, 1)
    for law in ("power", "lognormal"):
        sizes = [
            len(labels)
            for _, labels in partition.by_sizes(X, y, law, n=n, spread=spread, seed=seed)
        ]
        assert sum(sizes) == n + extra and min(sizes) >= 1 and len(sizes) == n


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X, y: partition.even(X, y, 0), "n must be at least 1"),
        (lambda X, y: partition.even(X, y, 301), "at most the number of records 300"),
        (lambda X, y: partition.even(X[:5], y, 3), "X must be \\(records, features\\)"),
        (lambda X, y: partition.by_sizes(X, y, [1, 2]), "sum to the number of records 300, not 3"),
        (lambda X, y: partition.by_sizes(X, y, [300, 0]), r"sizes\[1\] must be at least 1"),
        (lambda X, y: partition.by_sizes(X, y, "power"), "n must be given"),
        (lambda X, y: partition.by_sizes(X, y, "powr", n=3), "Did you mean 'power'"),
        (lambda X, y: partition.by_column(X, y, ["a"]), "one node per record"),
        (lambda X, y: partition.by_label_skew(X, X[:, 0], 3, 1.0), "must hold classes"),
        (lambda X, y: partition.by_label_skew(X, y, 3, 0.0), "concentration must be"),
        (
            lambda X, y: partition.by_feature_shift(X, y, 3, feature=4),
            "below the number of features 4",
        ),
        (lambda X, y: partition.by_feature_shift(X, y, 3, strength=2), "between 0 and 1"),
        (lambda X, y: partition.describe([]), "at least one node"),
    ],
)
def test_errors(call, words):
    with pytest.raises(InputError, match=words):
        call(*data())


def test_describe_and_plot(tmp_path):
    X = np.zeros((6, 2))
    table = partition.describe(partition.by_column(X, np.array([0, 0, 1, 1, 1, 1]), list("ababab")))
    assert table.rows[0] == {
        "node": "a",
        "records": 3,
        "share 0": pytest.approx(1 / 3),
        "share 1": pytest.approx(2 / 3),
    }
    assert str(table).splitlines()[0].split() == ["node", "records", "share", "0", "share", "1"]
    real = partition.describe(partition.even(X, np.arange(6) / 7, 2))
    assert "share 0.0" in real.rows[0]
    many = partition.describe(partition.even(np.zeros((100, 1)), np.arange(100.0), 2))
    assert many.rows[0]["mean y"] == pytest.approx(24.5)
    pytest.importorskip("matplotlib")
    figure = partition.plot(partition.even(X, np.array([0, 0, 1, 1, 1, 1]), 3), tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights == [2, 0, 0, 0, 2, 2]


def test_empty_csr_rows():
    S = csr_matrix(random_array((50, 8), density=0.02, rng=np.random.default_rng(0)))
    shards = partition.even(S, np.zeros(50), 6, seed=0)
    assert sum(part.nnz for part, _ in shards) == S.nnz
