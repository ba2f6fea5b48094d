"""`node check`: it finds what is wrong, changes nothing, and shows no record."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from node_stage import small_schema
from tacenda.data.random_records import write_random_records
from tacenda.privacy.accounting.events import Gaussian
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.operate.settings import read_settings, write_settings
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.setup import consortium
from tacenda_node.setup.checking import check
from tacenda_node.setup.doctor import Finding

TERMS = {"title": "study", "privacy": {"epsilon": 1.0, "delta": 1e-6}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A member's folder after `consortium new`, with a ledger."""
    schema, home = small_schema(), tmp_path / "north"
    home.mkdir()
    data = write_random_records(schema, 300, 1, home / "records.csv")
    settings = {"budget": 3.0, "ledger": home / "ledger.sqlite", "dataset": "patients"}
    site = consortium.Site(data, "localhost:17001", settings=settings)
    consortium.new(home, "north", ["east", "south"], TERMS, schema, site)
    return home


def _found(home: Path, **options: Any) -> dict[str, Finding]:
    findings = check(home, read_settings(home), rehearsal=False, **options)
    return {finding.name: finding for finding in findings}


def _files(home: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(home.rglob("*")) if p.is_file()}


def test_all_is_well_and_nothing_is_changed(home: Path) -> None:
    before = _files(home)
    found = _found(home)
    assert list(found) == ["contract", "warning", "records", "bounds", "cost"]
    assert all(finding.ok for finding in found.values())
    assert "Weak signal" in found["warning"].found  # 900 records of three members at epsilon 1
    assert "members like this one" in found["contract"].found
    assert "300 records" in found["records"].found
    assert "charge epsilon 1 at delta 1e-06" in found["cost"].found
    assert "0 so far, 1 with this one, of a budget of 3" in found["cost"].found
    assert _files(home) == before


def test_what_earlier_runs_have_spent_counts_and_the_ledger_stays_as_it_is(home: Path) -> None:
    path = home / "ledger.sqlite"
    with LedgerStore(path) as store:
        store.set_budget("patients", 3.0, 1e-6, "replace-one")
        store.open_run("earlier", "patients", "an earlier run", "replace-one", [])
        store.charge("earlier", 0, Gaussian(noise_multiplier=1.6))
        store.close_run("earlier")
        head = store.head()
    found = _found(home)["cost"]
    assert not found.ok
    assert "2.883 so far, 3.106 with this one, of a budget of 3" in found.found
    assert "does not cover this run" in found.fix
    with LedgerStore(path) as store:
        assert store.head() == head


def test_a_run_that_has_begun_is_not_counted_twice(home: Path) -> None:
    contract = consortium.trial_contract(home)
    with LedgerStore(home / "ledger.sqlite") as store:
        store.set_budget("patients", 3.0, 1e-6, "replace-one")
        run = f"{contract.run_id()[:16]}-01234567-north"
        events = make_plan(contract).events("north")
        store.open_run(run, "patients", "study (north)", "replace-one", events)
    found = _found(home)["cost"]
    assert found.ok
    assert "in the ledger already" in found.found
    assert "1 so far, 1 with this one" in found.found


def test_without_a_budget_it_says_what_the_node_would_say(home: Path) -> None:
    values = {"schema": "schema.toml", "data": "records.csv", "ledger": "ledger.sqlite"}
    write_settings(home, values)
    found = _found(home)["cost"]
    assert not found.ok
    assert "--budget" in found.found
    assert "budget = EPSILON into node.toml" in (found.fix or "")
    assert not (home / "ledger.sqlite").exists()
    write_settings(home, {**values, "no_budget": True})
    assert "no budget, by your own word" in _found(home)["cost"].found


def test_records_that_do_not_fit_are_named_and_never_shown(home: Path) -> None:
    with open(home / "records.csv", newline="") as file:
        rows = list(csv.reader(file))
    rows[7][0] = "0.123456"
    rows[9][0], rows[10][0] = "77.25", "-3.5"
    with open(home / "records.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    found = _found(home)
    assert "2 of 900 numbers lie outside their bounds" in found["bounds"].found
    assert "2 of 'x0'" in found["bounds"].found
    assert "without noise" in found["bounds"].found
    text = " ".join(finding.found for finding in found.values())
    assert not any(cell in text for cell in ("77.25", "-3.5", "0.123456"))
    with open(home / "records.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows[:-1])
    fewer = _found(home)["records"]
    assert not fewer.ok
    assert "members.north.size" in fewer.found


@pytest.mark.slow
@pytest.mark.parametrize("own_records", [False, True])
def test_the_rehearsal_runs_real_processes_and_charges_nothing(
    home: Path, own_records: bool
) -> None:
    before = _files(home)
    findings = check(home, read_settings(home), own_records=own_records)
    last = findings[-1]
    assert last.name == "rehearsal"
    assert last.ok, last.found
    assert ("your own records" if own_records else "made-up records") in last.found
    assert "2 simulated neighbours" in last.found
    assert _files(home) == before
