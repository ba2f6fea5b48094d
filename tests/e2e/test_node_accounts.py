"""On a node what the records lose adds up over contracts: one ledger for each member and machine,
and a budget that is asked for."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deployed_stage import Deployed, deployed, refused
from node_stage import small_contract
from tacenda.errors import BudgetError, InputError, PrivacyError, StateError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.operate.settings import NodeSettings
from tacenda_node.peer.run import run_node
from tacenda_node.state.accounts import default_ledger, ledger_path

EPSILON = 5.0  # of every contract here


def federation(folder: Path, ledgers: Path, title: str, **more: Any) -> Deployed:
    return deployed(folder, ledgers, small_contract(3, rounds=3, title=title), **more)


def here(crowd: Deployed, name: str, **changes: Any) -> Any:
    """Run one member in this process, up to its refusal."""
    return run_node(NodeSettings(**{**crowd._options(name), **changes}))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    home = tmp_path_factory.mktemp("first")
    crowd = federation(home, home / "ledgers", "spring", budget=6.0)
    crowd.start()
    crowd.finish()
    return crowd


def spent(ledger: Path) -> float:
    with LedgerStore(ledger) as store:
        (name,) = store.datasets()
        return store.spent(name).curve_with_reserved.epsilon(1e-5)


def test_a_second_run_on_the_same_records_adds_up_and_is_refused_over_budget(
    first: Deployed, tmp_path: Path
) -> None:
    """Found by attack: each state folder had a ledger of its own,
    and a second run was accepted in silence."""
    second = federation(tmp_path, first.ledgers, "autumn")
    said = refused(second, "m0", 3, "the budget of data set 'records-", "Nothing was charged: ")
    assert "is epsilon 6 " in said
    for name in second.names:
        assert second.stage.data[name].read_text() == first.stage.data[name].read_text()
        with pytest.raises(BudgetError, match="budget of data set 'records-.* is epsilon 6 "):
            here(second, name)
        assert spent(first.ledgers / f"{name}.sqlite") == pytest.approx(EPSILON, rel=1e-4)
        assert not list((second.folder(name) / "state").glob("results/*"))


def test_another_budget_than_the_ledgers_is_refused(first: Deployed, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already holds a budget of epsilon 6 "):
        here(federation(tmp_path, first.ledgers, "autumn", budget=60.0), "m0")


def test_without_a_budget_the_node_says_what_was_spent_and_asks(
    first: Deployed, tmp_path: Path
) -> None:
    fresh = federation(tmp_path, tmp_path / "ledgers", "autumn")
    with pytest.raises(PrivacyError) as asked:
        here(fresh, "m0")
    words = str(asked.value)
    assert "has spent epsilon 0 " in words and "--budget" in words and "--no-budget" in words
    assert "may add epsilon 5" in words
    with LedgerStore(tmp_path / "ledgers" / "m0.sqlite") as store:
        assert not store.runs()


def test_records_written_in_another_way_are_pointed_to_the_accounts_there_are(
    first: Deployed, tmp_path: Path
) -> None:
    other = federation(tmp_path, first.ledgers, "autumn")
    text = other.stage.data["m0"].read_text().splitlines()
    changed = [
        ",".join(
            f"{float(c) * 0.5:.6f}" if re.fullmatch(r"[\d.e+-]+", c) else c for c in row.split(",")
        )
        for row in text[1:]
    ]
    other.stage.data["m0"].write_text("\n".join([text[0], *changed]) + "\n")
    refused(other, "m0", 3, "the ledger holds a budget for 'records-", "--dataset")
    with LedgerStore(first.ledgers / "m0.sqlite") as store:
        name = next(n for n in store.datasets() if store.budget(n) is not None)
    other.more["dataset"] = name
    refused(other, "m0", 3, f"the budget of data set {name!r} is epsilon 6 ")


def test_the_default_ledger_is_the_members_own_and_outside_every_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    one, other = (
        ledger_path(None, "m0", tmp_path / state, rehearsal=False) for state in ("one", "other")
    )
    assert one == other == default_ledger("m0") != default_ledger("m1")
    assert one.parent.is_dir() and tmp_path / "one" not in one.parents
    own = ledger_path(None, "m0", tmp_path / "one", rehearsal=True)
    assert own.parent == tmp_path / "one"
    own.parent.mkdir()
    LedgerStore(own).close()  # what was spent there must not be forgotten
    with pytest.raises(StateError, match="--ledger"):
        ledger_path(None, "m0", tmp_path / "one", rehearsal=False)


def test_the_command_asks_too(first: Deployed, tmp_path: Path) -> None:
    from tacenda.cli.app import app

    crowd = federation(tmp_path, tmp_path / "ledgers", "autumn")
    home = crowd.folder("m1")
    arguments = [
        "node",
        "run",
        "--contract",
        crowd.stage.contract_path,
        "--schema",
        crowd.stage.schema,
        "--data",
        crowd.stage.data["m1"],
        "--identity",
        home / "identity",
        "--state",
        home / "state",
        "--ledger",
        tmp_path / "ledgers" / "m1.sqlite",
    ]
    refused = CliRunner().invoke(app, [*map(str, arguments), "--quiet"])
    assert refused.exit_code == 3 and "--no-budget" in refused.stderr
    refused = CliRunner().invoke(app, [*map(str, arguments), "--budget", "2", "--dataset", "mine"])
    assert refused.exit_code == 3 and "the budget of data set 'mine' is epsilon 2" in refused.stderr


def test_a_contract_that_was_begun_is_not_begun_anew(first: Deployed) -> None:
    """The same contract in empty folders would have two rows signed in one place of one run, and
    the first one would convict an honest member."""
    name = "m1"
    before = spent(first.ledgers / f"{name}.sqlite")
    first.options[name] = {"state": first.folder(name) / "another-state", "budget": None}
    try:
        words = refused(first, name, 4, "has begun this contract before", "sign a new contract")
    finally:
        first.options.clear()
    assert str(first.ledgers / f"{name}.sqlite") in words
    assert spent(first.ledgers / f"{name}.sqlite") == pytest.approx(before, rel=1e-12)
    with LedgerStore(first.ledgers / f"{name}.sqlite") as store:
        assert len([run for run in store.runs() if run["run"] in words]) == 1


@pytest.mark.slow
def test_nor_where_members_may_join_again(tmp_path: Path) -> None:
    """Under "continue" one empty state may join the others later; all of them together, in empty
    folders, would be a second beginning."""
    (tmp_path / "ledgers").mkdir()
    absence = {"policy": "continue", "limit_seconds": 60.0}
    crowd = Deployed(tmp_path, small_contract(3, rounds=3, absence=absence))
    crowd.ledgers, crowd.more = tmp_path / "ledgers", {"budget": 20.0}
    crowd.start()
    crowd.finish()
    for name in crowd.names:
        shutil.rmtree(crowd.folder(name) / "state")
    try:
        crowd.start()
        assert set(crowd.wait(60).values()) == {2}
    finally:
        crowd.stop()
    for name in crowd.names:
        assert "StateError" in crowd.output(name) and "sign a new contract" in crowd.output(name)
