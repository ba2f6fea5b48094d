"""The marks of records, hash by hash, and the accounts that they lead to, by hand."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tacenda.errors import PrivacyError
from tacenda.privacy.accounting.events import Gaussian
from tacenda.privacy.lasting import fingerprints
from tacenda.privacy.lasting.fingerprints import Marks, marks_of
from tacenda.privacy.lasting.ledger_store import LedgerStore

KEY = b"k" * 32


def by_hand(rows: Any, labels: Any, kept: int = 1024) -> tuple[str, list[int]]:
    """(digest, sketch) of dense rows."""
    total, heads = 0, set()
    for row, label in zip(rows, labels, strict=True):
        there = [j for j, v in enumerate(row) if v != 0]
        text = struct.pack("<dq", float(label), len(there))
        text += b"".join(struct.pack("<d", float(row[j])) for j in there)
        if there != list(range(len(there))):
            text += b"".join(struct.pack("<i", j) for j in there)
        one = hashlib.blake2b(text, key=KEY, digest_size=32).digest()
        total += int.from_bytes(one, "little")
        heads.add(int.from_bytes(one[:8], "little"))
    return (total % 2**256).to_bytes(32, "big").hex(), sorted(heads)[:kept]


def shuffled(rows: Any, rng: Any) -> tuple[Any, Any, Any]:
    """CSR with the entries of each row in any order, and a few zeros written out."""
    data, indices, indptr = [], [], [0]
    for row in rows:
        places = [j for j, v in enumerate(row) if v != 0 or rng.random() < 0.3]
        rng.shuffle(places)
        data += [row[j] for j in places]
        indices += places
        indptr.append(len(data))
    return np.array(data, float), np.array(indices, np.int32), np.array(indptr)


@pytest.mark.parametrize("filled", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("chunk", [1 << 22, 7, 1])
def test_every_record_is_hashed_by_itself(
    filled: float, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprints, "_CHUNK", chunk)
    rng = np.random.default_rng(int(10 * filled))
    for n, p in ((1, 1), (13, 4), (6, 9)):
        rows = rng.normal(size=(n, p)) * (rng.random((n, p)) < filled)
        rows[n // 2] = 0.0
        rows[-1, : p // 2 + 1] = 1.5  # the first features alone, in dense and sparse form
        rows[-1, p // 2 + 1 :] = 0.0
        labels = rng.integers(0, 3, size=n)
        digest, sketch = by_hand(rows, labels)
        csr = sp.csr_matrix(rows)
        for form in (rows, (csr.data, csr.indices, csr.indptr), shuffled(rows, rng)):
            found = marks_of(form, labels, KEY)
            assert (found.digest, found.sketch.tolist()) == (digest, sketch)
            assert found.sketch.dtype == np.uint64
    assert marks_of(rows, labels, b"other key").digest != digest


def test_the_sketch_keeps_the_smallest_of_distinct_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "KEPT", 5)
    monkeypatch.setattr(fingerprints, "_CHUNK", 6)
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.normal(size=(9, 2)), 3, axis=0)
    found = marks_of(rows, np.ones(27), KEY)
    assert (found.digest, found.sketch.tolist()) == by_hand(rows, np.ones(27), 5)
    once = marks_of(rows[::3], np.ones(9), KEY)
    assert once.digest != found.digest and np.array_equal(once.sketch, found.sketch)


def test_no_records_share_nothing() -> None:
    none, some = np.zeros(0, np.uint64), np.arange(9, dtype=np.uint64)
    assert Marks("", none).share(some) == 0.0 == Marks("", some).share(none)
    assert marks_of(np.zeros((0, 3)), np.zeros(0), KEY).digest == "0" * 64
    assert Marks("", some[:2]).share(some) == 1.0  # of so few all must be there
    assert Marks("", some[:2]).share(some[1:3]) == 0.0
    assert Marks("", some[:1]).share(some) == 1.0


# ---- accounts
def people(first: int, last: int) -> tuple[Any, Any]:
    """Records number first, ..., last - 1 of one population."""
    rows = np.random.default_rng(0).normal(size=(900, 3))[first:last]
    return rows, np.ones(last - first)


def test_accounts_join_through_others_and_once(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "book") as store:
        for k, name in enumerate("abcd"):
            assert store.account(*people(100 * k, 100 * k + 100), name).notes == ()
        assert store.join("a", "b") and store.join("d", "c")
        assert not store.join("b", "a") and not store.join("a", "b")
        assert sorted(store.spent("a").names) == ["a", "b"]
        assert store.join("c", "a") and not store.join("b", "d")
        for name in "abcd":
            assert store.spent(name).names[0] == name
            assert sorted(store.spent(name).names) == list("abcd")


def test_records_without_a_name_go_to_the_nearest_account_and_join_the_others(
    tmp_path: Path,
) -> None:
    with LedgerStore(tmp_path / "book") as store:
        store.account(*people(0, 200), "first")
        store.account(*people(200, 300), "second")
        found = store.account(*people(50, 250))  # 150 of the first, 50 of the second
        assert found.name == "first"
        (note,) = found.notes
        assert note.startswith("about 7") and "those of 'first' are in both" in note
        assert " to 'first' (which now adds up with 'second')." in note
        assert sorted(store.spent("second").names) == ["first", "second"]
        again = store.account(*people(50, 250))
        assert (again.name, again.notes) == ("first", ())  # known from now on
        other = store.account(*people(600, 700))
        assert other.notes == () and other.name.startswith("records-")
        assert other.name == f"records-{marks_of(*people(600, 700), store._file.salt).digest[:16]}"


def test_only_one_overlap_joins_nothing(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "book") as store:
        store.account(*people(0, 200), "first")
        (note,) = store.account(*people(100, 300)).notes
        assert " to 'first'. If these" in note and "about 50% of" in note


def test_names_apart_are_warned_of_unless_they_add_up(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "book") as store:
        store.account(*people(0, 200), "first")
        (note,) = store.account(*people(100, 300), "second").notes
        assert "tacenda ledger join LEDGER 'second' 'first'" in note and "about 50%" in note
        store.join("first", "second")
        assert store.account(*people(110, 300), "second").notes == ()
        (same,) = store.account(*people(0, 200), "third").notes
        assert "'third' are also" in same and "as 'first': from now on the two add up." in same
        assert store.account(*people(0, 200), "third").notes == ()


def test_accounts_of_two_relations_do_not_join(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "book") as store:
        for name, relation in (("a", "replace-one"), ("b", "add-remove")):
            store.open_run(name, name, "a run", relation)
            store.charge(name, 0, Gaussian(3.0))
        store.open_run("c", "c", "a run", "add-remove")
        with pytest.raises(PrivacyError, match=r"relations \(add-remove, replace-one\)"):
            store.join("a", "b")
        assert store.join("b", "c")
        with pytest.raises(PrivacyError, match="do not add up"):
            store.join("c", "a")
        assert store.spent("a").names == ["a"] or store.spent("a").names == ("a",)


def test_where_there_is_a_budget_unknown_records_need_a_name(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "book") as store:
        assert store.account(*people(300, 350)).name.startswith("records-")
        for name in ("z", "y"):
            store.set_budget(name, 1.0, 1e-5)
        with pytest.raises(PrivacyError, match=r"budget for 'y', 'z', .* dataset='y'"):
            store.account(*people(0, 50))
        store.account(*people(0, 50), "y")
        store.account(*people(200, 250), "z")
        assert store.account(*people(0, 50)).name == "y"
        # Also where every budget has met its records: these may be the same people's
        with pytest.raises(PrivacyError, match=r"these records have no name"):
            store.account(*people(100, 150))
        assert store.account(*people(100, 150), "others").name == "others"
        assert store.account(*people(100, 150)).name == "others"
        # Nor is an account enough that nobody named and no budget covers
        with pytest.raises(PrivacyError, match=r"these records have no name"):
            store.account(*people(300, 350))
