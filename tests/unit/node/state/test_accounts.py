"""Which ledger and account a member's run is charged to, what the operator is told, and what is
refused before anything is sent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import shards
from tacenda.errors import InputError, PrivacyError, StateError
from tacenda.privacy.accounting.events import CorrelatedGaussian, Gaussian
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.runtime.lasting_run import data_digest
from tacenda_node.state.accounts import claim, default_ledger, ledger_path

TERMS = SimpleNamespace(
    epsilon=2.0, delta=1e-4, adjacency="add-remove", records_per_person=None, person=(1, 1)
)


def records(seed: int = 0, kind: Any = float) -> Any:
    return tc.Problem(shards([12], seed=seed, dtype=kind), classes=("no", "yes"))


def test_a_budget_is_set_once_and_at_the_contracts_terms(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    name, notes = claim(path, records(), "ours", TERMS, 6.0, True)
    assert name == "ours"
    assert notes[-1] == (
        f"ledger {path}: 'ours' has spent epsilon 0 at delta 0.0001 in all runs so far; "
        "a budget of 6."
    )
    with LedgerStore(path) as store:
        budget = store.budget("ours")
        assert budget is not None
        assert (budget.epsilon, budget.delta, budget.adjacency) == (6.0, 1e-4, "add-remove")
    assert claim(path, records(), None, TERMS, None, True)[0] == "ours"
    assert claim(path, records(), None, TERMS, 6.0, True)[0] == "ours"
    with pytest.raises(InputError, match=r"--budget is 7, .* budget of epsilon 6 for 'ours'"):
        claim(path, records(), None, TERMS, 7.0, True)


def test_without_a_budget_the_operator_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with pytest.raises(PrivacyError) as asked:
        claim(path, records(), "ours", TERMS, None, True)
    words = str(asked.value)
    assert "may add epsilon 2" in words and "no budget" in words and "--dataset" not in words
    assert claim(path, records(), "ours", TERMS, None, False)[1][-1].endswith("; no budget.")
    with LedgerStore(path) as store:
        store.open_run("r", "ours", adjacency="add-remove")
        store.charge("r", 0, Gaussian(2.0))
        store.charge("r", 1, CorrelatedGaussian(0.5, 3))
    said = claim(path, records(), "ours", TERMS, None, False)[1][-1]
    with LedgerStore(path) as store:
        epsilon = store.spent("ours").curve.epsilon(1e-4)
    assert f"has spent epsilon {epsilon:.4g} at delta 0.0001" in said and "3" in said
    with pytest.raises(PrivacyError, match="the records of 'ours' written in another way"):
        claim(path, records(5), "theirs", TERMS, None, True)


def test_where_the_ledger_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    state, given = tmp_path / "state", tmp_path / "given.sqlite"
    state.mkdir()
    assert ledger_path(given, "m0", state, True) == given == ledger_path(given, "m0", state, False)
    assert ledger_path(None, "m0", state, True) == state / "ledger.sqlite"
    usual = ledger_path(None, "m0", state, False)
    assert usual == default_ledger("m0") and usual.name == "m0.sqlite"
    assert usual.parent.name == "ledgers" and usual.parent.stat().st_mode & 0o777 == 0o700
    (state / "ledger.sqlite").write_bytes(b"")
    with pytest.raises(StateError, match="holds a ledger of its own"):
        ledger_path(None, "m0", state, False)
    assert ledger_path(None, "m0", state, True) == state / "ledger.sqlite"


def test_a_digest_of_records_tells_order_place_type_and_labels_apart() -> None:
    one = records()
    assert data_digest(one) == data_digest(records()) and len(data_digest(one)) == 32
    (x, y), *_ = shards([12])
    backwards = tc.Problem([(x[::-1], y[::-1])], classes=("no", "yes"))
    other_labels = tc.Problem([(x, np.where(y == "no", "yes", "no"))], classes=("no", "yes"))
    reshaped = tc.Problem([(x.reshape(24, 2), np.repeat(y, 2))], classes=("no", "yes"))
    found = {data_digest(p) for p in (one, backwards, other_labels, reshaped, records(1))}
    assert len(found | {data_digest(records(0, np.float32))}) == 6
    ones = [np.ones(12)], [np.linspace(1, 2, 12)], [np.linspace(2, 1, 12)]
    weighed = [tc.Problem([(x, y)], classes=("no", "yes"), weights=w, weight_bound=2) for w in ones]
    assert len(found | {data_digest(p) for p in weighed}) == len(found) + 3


def test_all_other_accounts_are_named_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for seed, name in enumerate(("first", "second", "third")):
        claim(path, records(seed), name, TERMS, None, False)
    with pytest.raises(PrivacyError, match="records of 'first', 'second' written in another way"):
        claim(path, records(2), "third", TERMS, None, True)
