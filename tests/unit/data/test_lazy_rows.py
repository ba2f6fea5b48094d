"""Rows that are read later, for some nodes only: the same bits as if all had been read at once, of
every source, every partition and every kind of row; and nothing else is kept."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import issparse

import tacenda as tc
from tacenda import data
from tacenda.data import csv_files
from tacenda.data import table as tables
from tacenda.data.lazy_rows import LazyRows
from tacenda.errors import InputError, StateError

N = 700
SCHEMA: dict[str, Any] = {
    "columns": [
        {"kind": "numeric", "name": "age", "low": 0, "high": 90, "impute": 40},
        {"kind": "numeric", "name": "dose", "low": -3, "high": 3, "impute": 0},
        {"kind": "categorical", "name": "ward", "levels": ["n", "s", "e"], "impute": "n"},
    ],
    "label": {"name": "ill", "classes": ["no", "yes"]},
    "node_column": "site",
    "person": "who",
    "row_norm": 1.0,
    "intercept": True,
    "missing_values": ["?"],
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a file has many."""
    for module in (csv_files, tables):
        monkeypatch.setattr(module, "CHUNK_CELLS", 300)
    monkeypatch.setattr("tacenda.data.duck.CHUNK_CELLS", 300)
    monkeypatch.setattr("tacenda.data.libsvm.CHUNK_TEXT", 2000)


@pytest.fixture
def csv(tmp_path: Any) -> str:
    rng = np.random.default_rng(0)
    lines = ["age,dose,ward,ill,site,who,extra"]
    for k in range(N):
        age = "?" if k % 17 == 3 else f"{rng.uniform(0, 100):.3f}"
        ward, ill = rng.choice(["n", "s", "e"]), rng.choice(["no", "yes"])
        place = f"h{rng.integers(7)}"
        lines.append(
            f'{age},{rng.normal():.17g},{ward},{ill},{place},p{rng.integers(300)},"a, b\n{k}"'
        )
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def schema(**more: Any) -> data.Schema:
    return data.Schema.build(**{**SCHEMA, **more})


def same_rows(one: Any, other: Any) -> bool:
    """To the last bit."""
    if issparse(one) != issparse(other) or one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not issparse(one):
        return bool(np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes())
    pairs = ((one.data, other.data), (one.indices, other.indices), (one.indptr, other.indptr))
    return all(np.array_equal(a, b) for a, b in pairs)


def divided(kind: str, d: Any) -> data.partition.Shards:
    parts = data.partition
    return {
        "even": lambda: parts.even(d.X, d.y, 9, seed=4),
        "in order": lambda: parts.even(d.X, d.y, 9),
        "sizes": lambda: parts.by_sizes(d.X, d.y, "lognormal", 9, 0.7, seed=2),
        "labels": lambda: parts.by_label_skew(d.X, d.y, 9, 0.4, seed=1),
        "feature": lambda: parts.by_feature_shift(d.X, d.y, 9, feature=1, strength=0.8),
        "column": lambda: parts.by_column(d.X, d.y, d.nodes, d.persons),
        "person": lambda: parts.by_person(d.X, d.y, d.persons, 5),
    }[kind]()


def assert_same_parts(kind: str, whole: Any, lazy: Any) -> None:
    every, later = divided(kind, whole), divided(kind, lazy)
    assert every.labels == later.labels and every.kind == later.kind
    for nodes in ([1, 2], [4, 0, 3], list(range(len(every)))):
        found = later.of_nodes(nodes)
        assert found.labels == tuple(every.labels[k] for k in nodes)
        for k, (x, y) in zip(nodes, found, strict=True):
            assert same_rows(x, every[k][0]) and np.array_equal(y, every[k][1])
        if every.persons is not None:
            assert found.persons is not None
            for k, own in zip(nodes, found.persons, strict=True):
                assert np.array_equal(own, every.persons[k])
        else:
            own = tc.Problem(found, classes=(0, 1))
            assert own.sizes.tolist() == [len(every[k][1]) for k in nodes]


KINDS = ("even", "in order", "sizes", "labels", "feature", "column", "person")


@pytest.mark.parametrize("missing", ["drop", "impute"])
@pytest.mark.parametrize("form", ["dense", "single", "sparse"])
def test_of_a_file(csv: str, missing: str, form: str) -> None:
    how: dict[str, Any] = {
        "sparse": form == "sparse",
        "dtype": np.float32 if form == "single" else float,
    }
    for most in (None, 2):
        s = schema(missing=missing)
        whole = data.encode(s, csv, records_per_person=most, **how)
        lazy = data.encode(s, csv, records_per_person=most, lazy=True, **how)
        assert isinstance(lazy.X, LazyRows) and lazy.X.shape == whole.X.shape
        assert np.array_equal(lazy.y, whole.y) and lazy.notes == whole.notes
        assert np.array_equal(lazy.nodes, whole.nodes)
        assert np.array_equal(lazy.persons, whole.persons)
        assert same_rows(lazy.X.read(), whole.X)
        for kind in KINDS:
            assert_same_parts(kind, whole, lazy)


def test_of_parquet_a_query_and_a_frame(csv: str, tmp_path: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = str(tmp_path / "t.parquet")
    with duckdb.connect() as connection:
        text = f"read_csv('{csv}', all_varchar=true)"
        typed = f"SELECT * REPLACE (CAST(dose AS DOUBLE) AS dose) FROM {text}"
        connection.execute(f"COPY ({typed}) TO '{path}' (FORMAT parquet)")
    table = data.read_table(path)
    for source in (path, f"SELECT * FROM '{path}'", table):
        s = schema(missing="drop")
        whole, lazy = data.encode(s, source), data.encode(s, source, lazy=True)
        for kind in ("even", "column"):
            assert_same_parts(kind, whole, lazy)


@pytest.mark.parametrize("dense", [False, True])
def test_of_a_libsvm_file(tmp_path: Any, dense: bool) -> None:
    rng = np.random.default_rng(1)
    lines = ["# a comment", ""]
    for _ in range(N):
        at = np.sort(rng.choice(30, size=rng.integers(0, 8), replace=False)) + 1
        pairs = " ".join(f"{j}:{rng.normal():.17g}" for j in at)
        lines.append(f"{rng.choice(['-1', '+1'])} {pairs} # note")
    path = tmp_path / "t.svm"
    path.write_text("\n".join(lines), encoding="utf-8")
    load = data.load_libsvm_dense if dense else data.load_libsvm
    for more in ({}, {"rows": 100}) if dense else ({},):
        settings: Any = {"classes": ("-1", "+1"), "norm": 1.0, **more}
        whole, lazy = load(path, 30, **settings), load(path, 30, lazy=True, **settings)
        assert np.array_equal(whole.y, lazy.y)
        assert same_rows(lazy.X.read(), whole.X)
        for kind in ("even", "labels", "feature"):
            assert_same_parts(kind, whole, lazy)
    for intercept in (False, True):
        wider, *more = data.features.within_unit_norm(
            lazy.X, lazy.feature_names, 1.0, intercept=intercept
        )
        other, *again = data.features.within_unit_norm(
            whole.X, whole.feature_names, 1.0, intercept=intercept
        )
        assert more == again and same_rows(wider.read(), other)
    if not dense:
        with pytest.raises(InputError, match="n_features must be declared"):
            data.load_libsvm(path, lazy=True)


@pytest.mark.parametrize("name", ["classification", "sparse-regression", "epsilon-like"])
def test_of_a_generator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data.features, "CHUNK_BYTES", 3000)  # many pieces
    options: dict[str, Any] = {"features": 12, "seed": 3}
    options |= {"classification": {"n": N, "classes": 3}, "epsilon-like": {"rows": N}}.get(name, {})
    whole, lazy = data.load(name, **options), data.load(name, lazy=True, **options)
    assert np.array_equal(whole.y, lazy.y) and np.array_equal(whole.truth, lazy.truth)
    assert same_rows(lazy.X.read(), whole.X)
    kinds = ("even", "feature") if name == "sparse-regression" else ("even", "labels", "feature")
    for kind in kinds:
        one, other = divided(kind, whole), divided(kind, lazy).of_nodes([7, 2])
        assert all(
            same_rows(x, one[k][0]) and np.array_equal(y, one[k][1])
            for k, (x, y) in zip([7, 2], other, strict=True)
        )


def test_rows_are_chosen_before_they_are_read() -> None:
    whole = data.make_classification(N, 4, seed=0)
    lazy = data.make_classification(N, 4, seed=0, lazy=True)
    some = np.random.default_rng(0).permutation(N)[:50]
    mask = np.arange(N) % 3 == 0
    assert same_rows(lazy.X[some][10:20].read(), whole.X[some][10:20])
    assert same_rows(lazy.X[mask][::-1].read(), whole.X[mask][::-1])
    assert lazy.X[some][:0].read().shape == (0, 4)
    assert np.array_equal(lazy.X[some].column(2), whole.X[some][:, 2])
    for wrong in (3, (slice(None), 2), [[1, 2]], ["a"]):
        with pytest.raises(InputError, match="a slice or by an array of positions"):
            lazy.X[wrong]


def test_what_was_not_read_does_not_pass_for_an_array(csv: str) -> None:
    lazy = data.encode(schema(missing="impute"), csv, lazy=True)
    shards = data.partition.even(lazy.X, lazy.y, 3)
    with pytest.raises(InputError, match="not read yet.*of_nodes"):
        tc.Problem(shards)
    with pytest.raises(InputError, match="feature must be given"):
        data.partition.by_feature_shift(lazy.X, lazy.y, 3)
    for wrong in ([], [3], [-1], [0.5], 2):
        with pytest.raises(InputError, match="nodes must be positions"):
            shards.of_nodes(wrong)


def test_a_file_that_changes_meanwhile_is_noticed(csv: str) -> None:
    lazy = data.encode(schema(missing="impute"), csv, lazy=True)
    text = Path(csv).read_text(encoding="utf-8")
    Path(csv).write_text(
        text.replace("yes", "NO").replace("no", "yes").replace("NO", "no"), encoding="utf-8"
    )
    with pytest.raises(StateError, match=r"t.csv gave other records when it was read again"):
        lazy.X[5:9].read()
    Path(csv).write_text("\n".join(text.split("\n")[:401]) + "\n", encoding="utf-8")
    with pytest.raises(StateError, match="of these records when it was first read"):
        lazy.X[100:].read()


def test_a_bad_cell_is_found_by_who_reads_it(csv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(csv).read_text(encoding="utf-8").split("\n")
    place = next(k for k, line in enumerate(text) if k > 600 and line[:1].isdigit())
    text[place] = "oops" + text[place][text[place].index(",") :]
    Path(csv).write_text("\n".join(text), encoding="utf-8")
    found = r"column 'age' must be numeric, but record 301 holds"
    with pytest.raises(InputError, match=found):  # by the look for squeezed columns
        data.encode(schema(missing="impute"), csv, lazy=True)
    monkeypatch.setattr("tacenda.data.encoding.CHUNK_ROWS", 100)
    lazy = data.encode(schema(missing="impute"), csv, lazy=True)
    assert lazy.X[:100].read().shape[0] == 100
    with pytest.raises(InputError, match=found):
        lazy.X.read()


def test_a_missing_column_or_value_is_told_as_ever(csv: str) -> None:
    text = Path(csv).read_text(encoding="utf-8").replace("who", "WHO", 1)
    Path(csv).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="lacks the schema's columns .'who'."):
        data.encode(schema(), csv, lazy=True)
    lazy = data.encode(schema(missing="error", person="WHO"), csv, lazy=True)
    with pytest.raises(InputError, match="record 4 has no value of"):
        lazy.X[:20].read()


def test_only_the_own_part_takes_memory(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # chunks as they are
    rng = np.random.default_rng(0)
    path = tmp_path / "big.csv"
    X = rng.random((40_000, 30))
    y = rng.integers(2, size=len(X))
    names = [f"c{j}" for j in range(30)]
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join([*names, "y"]) + "\n")
        for row, label in zip(X.round(6).tolist(), y.tolist(), strict=True):
            file.write(",".join(map(str, row)) + f",{label}\n")
    columns = [{"kind": "numeric", "name": name, "low": 0, "high": 1} for name in names]
    found = data.Schema.build(columns=columns, label={"name": "y", "classes": ["0", "1"]})

    def peak(work: Any) -> int:
        tracemalloc.start()
        work()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    def part() -> None:
        lazy = data.encode(found, path, lazy=True)
        data.partition.even(lazy.X, lazy.y, 8, seed=0).of_nodes([5])

    own, whole = X.nbytes // 8, X.nbytes
    assert peak(part) < own + 60 * 2**20
    assert peak(lambda: data.encode(found, path)) > whole + 60 * 2**20
