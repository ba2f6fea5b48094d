"""What is spent on records adds up by itself: whatever their order, their split over nodes, their
format, or the run."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import support
import tacenda as tc
from tacenda.errors import BudgetError, InputError, LedgerWarning, PrivacyError
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.events import CorrelatedGaussian, Gaussian
from tacenda.privacy.lasting.fingerprints import KEPT, Marks, marks_of
from tacenda.privacy.lasting.ledger_store import LedgerStore

KEY = b"k" * 32


def records(n: int = 400, p: int = 4, seed: int = 0) -> tuple[Any, Any]:
    ((X, y),) = support.shards([n], p, seed)
    return X, y


def run(
    X: Any,
    y: Any,
    book: Path,
    nodes: int = 4,
    split: int = 0,
    epsilon: float = 1.0,
    seed: int = 0,
    **more: Any,
) -> Any:
    shards = tc.data.partition.even(X, y, nodes, seed=split)
    problem = tc.Problem(shards, classes=("no", "yes"), strength=0.1)
    privacy = more.pop("privacy", tc.Privacy(epsilon))
    return tc.simulate(
        problem,
        tc.graph.ring(nodes),
        tc.algorithms.DPDDA(),
        2,
        privacy,
        seed=seed,
        record_every=0,
        ledger=book,
        **more,
    )


def spent(book: Path) -> dict[str, float]:
    with LedgerStore(book) as store:
        assert store.verify().ok
        return {name: store.spent(name).curve.epsilon(1e-5) for name in store.datasets()}


def composed(*epsilons: float) -> float:
    """Gaussian runs of these epsilons together, by mu^2 = sum mu_i^2, solved by bisection."""
    mu = float(np.sqrt(sum(gaussian_mu(e, 1e-5) ** 2 for e in epsilons)))
    low, high = 0.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_mu(middle, 1e-5) < mu else (low, middle)
    return low


def test_partitions_orders_and_node_counts_are_one_account(tmp_path: Path) -> None:
    """Found by attack: three partition seeds of one data set were three accounts of epsilon 1."""
    X, y = records()
    book = tmp_path / "book"
    order = np.random.default_rng(1).permutation(len(y))
    for k, (a, b, nodes) in enumerate([(X, y, 4), (X, y, 5), (X[order], y[order], 4)]):
        run(a, b, book, nodes, split=k)
    assert list(spent(book).values()) == [pytest.approx(composed(1, 1, 1), rel=1e-3)]


def test_dense_sparse_and_float32_are_one_account(tmp_path: Path) -> None:
    X, y = records()
    X = (0.9 * X).astype(np.float32)
    X[np.abs(X) < 0.2] = 0
    book = tmp_path / "book"
    for form in (X, X.astype(float), sp.csr_matrix(X), sp.csr_matrix(X.astype(float))):
        run(form, y, book)
    assert len(spent(book)) == 1


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_marks_depend_on_the_multiset_of_records_alone(seed: int, n: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-1, 2, (n, p)).astype(float), rng.integers(0, 2, n).astype(float)
    order = rng.permutation(n)
    first = marks_of(X, y, KEY)
    loose = sp.csr_matrix(X[order])
    # An explicit zero at the end of the last row, at a place that is free
    loose.data = np.append(loose.data, 0.0)
    loose.indices = np.append(loose.indices, p).astype(np.int32)
    loose.indptr[-1] += 1
    for rows in (X[order], X[order].astype(np.float32), (loose.data, loose.indices, loose.indptr)):
        again = marks_of(rows, y[order], KEY)
        assert again.digest == first.digest and np.array_equal(again.sketch, first.sketch)
    assert len(first.sketch) == len(np.unique(np.column_stack([X, y]), axis=0))
    other = X.copy()
    other[rng.integers(n), rng.integers(p)] += 1.0
    assert marks_of(other, y, KEY).digest != first.digest
    assert marks_of(X, 1 - y, KEY).digest != first.digest
    # How often counts
    assert marks_of(np.vstack([X, X[:1]]), np.append(y, y[0]), KEY).digest != first.digest
    assert marks_of(X, y, b"l" * 32).digest != first.digest


def test_a_name_given_once_is_remembered(tmp_path: Path) -> None:
    X, y = records()
    book = tmp_path / "book"
    with LedgerStore(book) as store:
        store.set_budget("patients", 1.3, 1e-5)
    run(X, y, book, dataset="patients")
    with pytest.raises(BudgetError, match="patients"):
        run(X[::-1], y[::-1], book, nodes=5, seed=7)
    assert spent(book) == {"patients": pytest.approx(1.0, rel=1e-3)}


def test_a_budget_that_waits_for_its_records_asks_once(tmp_path: Path) -> None:
    """Records that nobody named might be those that the budget was set for."""
    X, y = records()
    book = tmp_path / "book"
    with LedgerStore(book) as store:
        store.set_budget("patients", 1.5, 1e-5)
    with pytest.raises(PrivacyError, match="dataset='patients'"):
        run(X, y, book)
    run(X, y, book, dataset="others")
    run(X, y, book, seed=1)
    assert spent(book) == {"others": pytest.approx(composed(1, 1), rel=1e-3), "patients": 0}


def test_the_same_records_under_two_names_add_up(tmp_path: Path) -> None:
    X, y = records()
    book = tmp_path / "book"
    run(X, y, book)
    with pytest.warns(LedgerWarning, match="'patients' are also charged as 'records-.*add up"):
        run(X, y, book, dataset="patients", seed=1)
    assert list(spent(book).values()) == [pytest.approx(composed(1, 1), rel=1e-3)] * 2
    with LedgerStore(book) as store:
        store.set_budget("patients", 1.8, 1e-5)
    with pytest.raises(BudgetError):
        # Booked to the first account, which the budget of the second covers
        run(X, y, book, seed=2)


def test_the_same_run_is_free_also_under_a_name_given_later(tmp_path: Path) -> None:
    X, y = records()
    book = tmp_path / "book"
    one = run(X, y, book)
    with pytest.warns(LedgerWarning, match="add up"):
        again = run(X, y, book, dataset="patients")
    np.testing.assert_array_equal(one.models, again.models)
    assert list(spent(book).values()) == [pytest.approx(1.0, rel=1e-3)] * 2
    with LedgerStore(book) as store:
        store.open_run("a node's run", store.datasets()[1])
        # A restart with a name goes on with its run
        assert not store.open_run("a node's run", "patients")


@pytest.mark.parametrize("part", [slice(0, 320), slice(80, 480), slice(0, 40)])
def test_a_strong_overlap_is_booked_to_the_same_account(part: slice, tmp_path: Path) -> None:
    X, y = records(480)
    book = tmp_path / "book"
    run(X[:400], y[:400], book, dataset="patients")
    with pytest.warns(LedgerWarning, match="charged to 'patients'.*dataset="):
        run(X[part], y[part], book)
    assert spent(book) == {"patients": pytest.approx(composed(1, 1), rel=1e-3)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(X[part], y[part], book, seed=5)  # known now: said once


def test_a_part_of_two_accounts_joins_them(tmp_path: Path) -> None:
    X, y = records(600)
    book = tmp_path / "book"
    run(X[:300], y[:300], book, dataset="north")
    run(X[300:], y[300:], book, dataset="south")
    with pytest.warns(LedgerWarning, match="now adds up with"):
        run(X, y, book)
    assert list(spent(book).values()) == [pytest.approx(composed(1, 1, 1), rel=1e-3)] * 2


def test_accounts_that_the_user_names_apart_stay_apart_with_a_warning(tmp_path: Path) -> None:
    X, y = records(480)
    book = tmp_path / "book"
    run(X[:400], y[:400], book, dataset="north")
    with pytest.warns(LedgerWarning, match="tacenda ledger join"):
        run(X[200:], y[200:], book, dataset="south")
    assert list(spent(book).values()) == [pytest.approx(1.0, rel=1e-3)] * 2
    with LedgerStore(book) as store:
        assert store.join("north", "south") and not store.join("south", "north")
        with pytest.raises(InputError, match="nobody"):
            store.join("north", "nobody")
    assert list(spent(book).values()) == [pytest.approx(composed(1, 1), rel=1e-3)] * 2


def test_other_people_have_another_account(tmp_path: Path) -> None:
    book = tmp_path / "book"
    for seed in (0, 1):
        run(*records(seed=seed), book)
    assert list(spent(book).values()) == [pytest.approx(1.0, rel=1e-3)] * 2


@given(st.integers(0, 10**6), st.floats(0.0, 1.0), st.integers(200, 6000), st.integers(200, 6000))
@settings(max_examples=30, deadline=None)
def test_the_sketch_measures_the_overlap(seed: int, share: float, few: int, many: int) -> None:
    few, many = sorted((few, many))
    shared = round(share * few)
    rng = np.random.default_rng(seed)
    pool = rng.normal(size=(few + many - shared, 3))
    one, other = pool[:few], pool[few - shared :]
    found = marks_of(one, np.zeros(few), KEY).share(marks_of(other, np.zeros(many), KEY).sketch)
    sampled = min(few, KEPT * few / max(few, many))
    error = 5 * np.sqrt(share * (1 - share) / sampled) + 0.02
    assert abs(found - share) < error or (found == 0 and share < 0.1 + error)


def test_a_run_without_privacy_is_refused_where_there_is_a_budget(tmp_path: Path) -> None:
    """Found by attack: it ran, and booked nothing."""
    X, y = records()
    book = tmp_path / "book"
    with LedgerStore(book) as store:
        store.set_budget("x", 100.0, 1e-5)
    with pytest.raises(BudgetError, match="privacy=None"):
        run(X, y, book, privacy=None, dataset="x")
    with LedgerStore(book) as store:
        assert store.runs() == []


def test_a_run_without_privacy_is_booked_as_an_infinite_loss(tmp_path: Path) -> None:
    X, y = records()
    book = tmp_path / "book"
    for _ in range(2):
        run(X, y, book, privacy=None, dataset="x")
    assert spent(book) == {"x": float("inf")}
    with LedgerStore(book) as store:
        assert [r["open"] for r in store.runs()] == [False]
        store.set_budget("x", 100.0, 1e-5)
    with pytest.raises(BudgetError):
        run(X, y, book, dataset="x", seed=1)


# -- the file


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with LedgerStore(tmp_path / "book") as store:
            store.set_budget("d", 1.0, 1e-5)
            assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {
                "book": 0o600,
                "book-wal": 0o600,
                "book-shm": 0o600,
            }
    finally:
        os.umask(before)
    (tmp_path / "book").chmod(0o644)
    with pytest.warns(LedgerWarning, match="mode 644.*closed now"):
        LedgerStore(tmp_path / "book").close()
    assert stat.S_IMODE((tmp_path / "book").stat().st_mode) == 0o600


def test_an_export_holds_no_key_and_no_sketch(tmp_path: Path) -> None:
    book = tmp_path / "book"
    X, y = records()
    run(X, y, book, dataset="d")
    with LedgerStore(book) as store:
        lines = "\n".join(store.export())
    database = sqlite3.connect(book)
    (salt,) = database.execute("SELECT value FROM meta WHERE name='salt'").fetchone()
    (sketch,) = database.execute("SELECT sketch FROM sketches").fetchone()
    database.close()
    assert len(sketch) == 8 * 400
    assert salt not in lines
    assert not any(
        sketch[k : k + 8].hex() in lines or sketch[k : k + 8][::-1].hex() in lines
        for k in range(0, len(sketch), 8)
    )


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM sketches",
        "UPDATE sketches SET sketch = x'00'",
        "UPDATE sketches SET dataset = 'other'",
    ],
)
def test_a_changed_sketch_is_found(harm: str, tmp_path: Path) -> None:
    book = tmp_path / "book"
    run(*records(), book, dataset="d")
    database = sqlite3.connect(book)
    with database:
        database.execute(harm)
    database.close()
    with LedgerStore(book) as store:
        assert not store.verify().ok
        assert "records noted" in store.verify().reason


def test_a_file_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    book = tmp_path / "book"
    LedgerStore(book).close()
    database = sqlite3.connect(book)
    with database:
        database.execute("UPDATE meta SET value='3' WHERE name='version'")
    database.close()
    with pytest.raises(tc.errors.StateError, match="version"):
        LedgerStore(book)


# -- whom the spending holds against


def test_every_line_says_whom_it_holds_against(tmp_path: Path) -> None:
    """Found by attack: noise that holds against an eavesdropper alone was shown
    as plain spending."""
    from typer.testing import CliRunner

    from tacenda.cli.app import app

    with LedgerStore(tmp_path / "book") as store:
        for name, events in {
            "weak": [Gaussian(5.0), CorrelatedGaussian(0.2, 2), CorrelatedGaussian(0.2, 0)],
            "one": [CorrelatedGaussian(0.2, 1)],
            "strong": [Gaussian(5.0)],
        }.items():
            store.open_run(name, name)
            for k, event in enumerate(events):
                store.charge(name, k, event)
        store.set_budget("weak", 1.5, 1e-5)
        with pytest.raises(BudgetError, match="against an eavesdropper only"):
            store.reserve("weak", [(Gaussian(1.0), 10)])
    shown = CliRunner().invoke(app, ["ledger", "show", str(tmp_path / "book")]).stdout
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert "an eavesdropper only" in lines["weak"]
    assert "any single curious member" in lines["one"]
    assert "everybody else together" in lines["strong"]
    found = json.loads(
        CliRunner().invoke(app, ["ledger", "show", str(tmp_path / "book"), "--json"]).stdout
    )
    assert {d["dataset"]: d["coalition"] for d in found["datasets"]} == {
        "weak": 0,
        "one": 1,
        "strong": None,
    }
    set_again = (
        CliRunner()
        .invoke(app, ["ledger", "budget", str(tmp_path / "book"), "--dataset", "weak", "-e", "4"])
        .stdout
    )
    assert "against an eavesdropper only" in set_again


def test_the_list_says_what_is_not_private(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from tacenda.cli.app import app

    run(*records(), tmp_path / "book", privacy=None, dataset="open")
    shown = CliRunner().invoke(app, ["ledger", "show", str(tmp_path / "book")]).stdout
    assert "not private" in next(line for line in shown.splitlines() if line.startswith("open"))


def test_an_overlap_counts_from_a_tenth_and_four_records() -> None:
    """Of the smaller set; of fewer than four records all must be shared."""

    def marks(*numbers: int) -> Marks:
        return Marks("", np.array(sorted(numbers), np.uint64))

    few, many = range(40), range(1000, 2000)
    for shared, found in ((3, 0.0), (4, 0.1), (5, 0.125)):
        other = marks(*few[:shared], *many[: 40 - shared])
        assert marks(*few).share(other.sketch) == pytest.approx(found)
        assert other.share(marks(*few).sketch) == pytest.approx(found)
    wide = marks(*range(50), *range(5000, 5050))
    assert wide.share(marks(*range(9), *many[:91]).sketch) == 0.0  # nine of a hundred
    assert wide.share(marks(*range(10), *many[:90]).sketch) == pytest.approx(0.1)
    for size in (1, 2, 3):
        assert marks(*few[:size]).share(marks(*few).sketch) == 1.0
        assert marks(*few[: size - 1], 77).share(marks(*few).sketch) == 0.0
    assert marks().share(marks(1).sketch) == marks(1).share(marks().sketch) == 0.0


def test_full_sketches_are_compared_below_the_smaller_end() -> None:
    """A sketch of 1024 hashes is a sample of the small ones: what lies beyond its end says
    nothing."""
    whole = Marks("", np.arange(KEPT, dtype=np.uint64))
    wider = Marks("", np.arange(0, 2 * KEPT, 2, dtype=np.uint64))
    assert whole.share(wider.sketch) == pytest.approx(
        1.0
    )  # up to 1023 the wider has 512, all shared
    assert wider.share(whole.sketch) == pytest.approx(1.0)
    short = Marks("", np.arange(10, 2 * KEPT, 100, dtype=np.uint64))
    below = [k for k in range(10, 2 * KEPT, 100) if k <= KEPT - 1]
    assert whole.share(short.sketch) == pytest.approx(len(below) / len(below))
