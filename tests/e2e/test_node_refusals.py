"""What a node and its commands refuse, as processes that end as the operator sees it: before any
message, with nothing spent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaos_members import with_clock
from deployed_stage import Deployed, deployed, refused, shell
from node_stage import Crowd, small_contract
from relay_stage import RelayProcess, behind_firewalls, take_places
from tacenda.data.columns import CategoricalColumn, NumericColumn
from tacenda.data.label import Label
from tacenda.data.schema import Schema
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.units import Unit
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.wire.proxy import read_secret
from tacenda_node.wire.rooms import Token

pytestmark = pytest.mark.slow


def visits(folder: Path, seed: int, columns: Sequence[str]) -> Path:
    """A member's CSV file: 90 visits of 45 persons, its columns in this order."""
    rng = np.random.default_rng(seed)
    values = {
        "x0": [f"{v:.3f}" for v in rng.uniform(0, 1, 90)],
        "x1": [f"{v:.3f}" for v in rng.uniform(0, 1, 90)],
        "y": ["yes" if v else "no" for v in rng.integers(0, 2, 90)],
        "person": [f"p{k // 2}" for k in range(90)],
    }
    lines = [columns, *zip(*(values[name] for name in columns), strict=True)]
    path = folder / f"{seed}.csv"
    path.write_text("".join(",".join(line) + "\n" for line in lines), "utf-8")
    return path


def persons_schema(names: Sequence[str], high: float, classes: tuple[str, str]) -> Schema:
    return Schema(
        columns=tuple(NumericColumn(name=name, low=0, high=high) for name in names),
        label=Label(name="y", classes=classes),
        person="person",
    )


def persons_study(
    folder: Path, schema: Schema, columns: Sequence[str], title: str, epsilon: float, **more: Any
) -> Deployed:
    """Masked, for persons with two records at each of three members."""
    folder.mkdir()
    privacy = {
        "epsilon": epsilon,
        "delta": 1e-5,
        "coalition": 1,
        "adjacency": "add-remove",
        "records_per_person": 2,
        "members_per_person": 3,
    }
    contract = small_contract(
        3,
        rounds=3,
        title=title,
        algorithm={"name": "treegd"},
        privacy=privacy,
        schema_hash=schema.hash(),
        problem={
            "n_features": 2,
            "classes": list(schema.label.classes or ()),
            "strength": 0.01,
            "row_scale": schema.row_scale,
        },
    )
    files = {name: visits(folder, k, columns) for k, name in enumerate(contract.names)}
    ledgers = folder.parent / "ledgers"
    return deployed(folder, ledgers, contract, schema=schema, data=files, **more)


def test_a_second_run_for_persons_at_several_members_is_refused_under_another_schema(
    tmp_path: Path,
) -> None:
    """The first run is worth what a person loses at all three members. The second one reads the
    same files with their columns in another order, other bounds and the classes turned round: it
    meets the same account, and nobody sends anything."""
    made = persons_schema(["x0", "x1"], 1.0, ("no", "yes"))
    columns = ["x0", "x1", "y", "person"]
    first = persons_study(tmp_path / "one", made, columns, "one", 5.0, budget=5.2)
    first.start()
    first.finish()
    turned = persons_schema(["x1", "x0"], 7.0, ("yes", "no"))
    other = ["person", "y", "x1", "x0"]
    second = persons_study(tmp_path / "two", turned, other, "two", 3.0)
    try:
        for name in second.names:
            said = refused(second, name, 3, "Nothing was charged: ", "is epsilon 5.2 at delta")
            assert "a person with at most 2 records at each of at most 3 nodes" in said
            with LedgerStore(tmp_path / "ledgers" / f"{name}.sqlite") as store:
                (account,) = store.datasets()
                spent = store.spent(account)
            assert spent.unit == Unit(2, 3)
            found = spent.curve_with_reserved.epsilon(1e-5)
            assert found == pytest.approx(5.0, rel=2e-3) and found <= 5.0 * (1 + 1e-9)
            assert not (second.folder(name) / "state" / "results").exists()
            assert "peer connected" not in second.log(name)
    finally:
        second.stop()


def cards(folder: Path, crowd: Crowd) -> list[str | Path]:
    """Each member's card, as arguments."""
    found: list[str | Path] = []
    for member in crowd.stage.contract.members:
        who = Identity.read(crowd.folder(member.name) / "identity")
        place = folder / "cards" / member.name
        place.parent.mkdir(exist_ok=True)
        found += ["--card", contract_files.write_card(who, member.address, member.size, place)]
    return found


@pytest.mark.parametrize("field", ["missing", "unknown"])
def test_a_schema_by_which_one_record_stops_a_node_is_refused(tmp_path: Path, field: str) -> None:
    """At the draft, by `contract check`, and by every node at its start."""
    colour = CategoricalColumn(
        name="colour",
        levels=("red", "green"),
        **({"unknown": "error"} if field == "unknown" else {}),
    )
    made = Schema(
        columns=(NumericColumn(name="x0", low=0, high=1), colour),
        label=Label(name="y", classes=("no", "yes")),
        **({"missing": "error"} if field == "missing" else {}),
    )
    said = "the schema's missing is 'error'" if field == "missing" else "unknown = 'error'"
    problem = {"classes": ["no", "yes"], "strength": 0.01, "row_scale": made.row_scale}
    problem["n_features"] = 3
    contract = small_contract(2, rounds=2, schema_hash=made.hash(), problem=problem, graph="path")
    crowd = Crowd(tmp_path, contract, schema=made)
    try:
        refused(crowd, "m0", 2, said)
        assert not (crowd.folder("m0") / "state" / "results").exists()
    finally:
        crowd.stop()
    (tmp_path / "terms.toml").write_text(
        'title = "study"\n[privacy]\nepsilon = 2.0\ndelta = 1e-6\n', "utf-8"
    )
    schema = crowd.stage.schema
    terms = ["--terms", tmp_path / "terms.toml", "--schema", schema]
    out = tmp_path / "drafted.toml"
    drafts = shell("contract", "new", *terms, "--contract", out, *cards(tmp_path, crowd))
    checks = shell("contract", "check", "-c", crowd.stage.contract_path, "--schema", schema)
    for found in (drafts, checks):
        assert found.returncode == 2, found.stdout + found.stderr
        assert said in found.stderr
    assert not out.exists()


def test_a_draft_about_persons_asks_at_how_many_members_they_may_be(tmp_path: Path) -> None:
    """`consortium new` and `contract new`, where nobody sits at a terminal."""
    schema = persons_schema(["x0", "x1"], 1.0, ("no", "yes"))
    schema.write(tmp_path / "schema.toml")
    data = visits(tmp_path, 0, ["x0", "x1", "y", "person"])
    home = tmp_path / "north"
    words: list[str | Path] = ["consortium", "new", "--name", "north", "--title", "study"]
    words += ["--member", "east", "--schema", tmp_path / "schema.toml", "--data", data]
    words += ["--address", "localhost:1", "--epsilon", "2", "--records-per-person", "2"]
    found = shell(*words, "--folder", home)
    assert found.returncode == 2 and "--members-per-person" in found.stderr, found.stderr
    assert not home.exists()
    crowd = Crowd(tmp_path / "crowd", small_contract(2, rounds=2, graph="path"))
    privacy = 'epsilon = 2.0\ndelta = 1e-6\nadjacency = "add-remove"\nrecords_per_person = 2\n'
    (tmp_path / "terms.toml").write_text(f'title = "study"\n[privacy]\n{privacy}', "utf-8")
    words = ["contract", "new", "--terms", tmp_path / "terms.toml", "--held-out", "0"]
    words += ["--schema", tmp_path / "schema.toml", "--contract", tmp_path / "out.toml"]
    found = shell(*words, *cards(tmp_path, crowd))
    assert found.returncode == 2 and not (tmp_path / "out.toml").exists()
    assert "contract field privacy.members_per_person: say at how many members" in found.stderr


def test_another_token_of_the_relay_is_refused_until_it_is_the_right_one(tmp_path: Path) -> None:
    relay = RelayProcess(tmp_path)
    crowd = behind_firewalls(tmp_path, relay.address, relay.token, 3, 4)
    wrong = tmp_path / "wrong.token"
    pin = Token.read(read_secret(relay.token, "--relay-token")).pin
    wrong.write_text(str(Token("not-that-one,-but-quite-as-long-as-it", pin)), "utf-8")
    wrong.chmod(0o600)
    crowd.options["m1"]["relay_token"] = wrong
    try:
        crowd.start()
        crowd.until("m1", "the relay's token is another one (--relay-token)")
        assert "refused" in relay.said
        crowd.kill("m1")
        crowd.options["m1"]["relay_token"] = relay.token
        crowd.start("m1")
        crowd.finish()
    finally:
        crowd.stop()
        relay.stop()


def test_a_relay_that_is_full_lets_members_in_as_soon_as_there_is_a_place(tmp_path: Path) -> None:
    """Members of other runs at the same address take all its places."""
    relay = RelayProcess(tmp_path, "--of-one-address", "8")
    crowd = behind_firewalls(tmp_path, relay.address, relay.token, 3, 4)
    while "relay on" not in relay.said:
        time.sleep(0.05)
    token = Token.read(read_secret(relay.token, "--relay-token"))
    others = crowd.process(take_places, relay.address, token, 8)
    try:
        time.sleep(3)
        crowd.start()
        crowd.until("m1", "the relay has too many callers")
        others.kill()
        crowd.finish()
    finally:
        others.kill()
        crowd.stop()
        relay.stop()


def test_a_clock_ten_minutes_apart_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path / "crowd", small_contract(3, rounds=4), seed=3)
    clock = tmp_path / "clock"
    clock.write_text("600\n")
    crowd.start("m0", "m2")
    node = with_clock(crowd.stage, "m1", clock)
    try:
        said = node.communicate(timeout=180)[0].decode()
        assert node.returncode == 0, said
        assert crowd.wait(120, ["m0", "m2"]) == {"m0": 0, "m2": 0}
    finally:
        node.kill()
        crowd.stop()
    for name in crowd.names:
        assert '"clocks differ"' in crowd.log(name)


def test_a_member_that_joins_late_takes_part_in_the_next_run(tmp_path: Path) -> None:
    """Two members run without it. `contract amend --add` drafts the next run from its card, under
    another title; all sign, and three end with their models."""
    crowd = Crowd(tmp_path / "crowd", small_contract(3, rounds=3))
    stage = crowd.stage
    plain = stage.contract.to_plain()
    plain["members"] = [m for m in plain["members"] if m["name"] != "m2"]
    plain["edges"] = [["m0", "m1"]]
    first = Contract.build(plain)
    place, after = tmp_path / "first.toml", tmp_path / "next.toml"
    contract_files.write(first, place)
    people = {name: Identity.read(crowd.folder(name) / "identity") for name in crowd.names}
    for name in first.names:
        contract_files.sign(place, people[name])
        crowd.contracts[name] = place
    try:
        crowd.start(*first.names)
        assert crowd.wait(120, first.names) == {"m0": 0, "m1": 0}
        card = cards(tmp_path, crowd)[-1]
        found = shell(
            "contract", "amend", "-c", place, "--add", card, "--title", "later", "--out", after
        )
        assert found.returncode == 0, found.stderr
        for name in crowd.names:
            contract_files.sign(after, people[name])
            crowd.contracts[name] = after
            crowd.options[name] = {"state": crowd.folder(name) / "later"}
        crowd.start()
        assert crowd.wait(120) == {"m0": 0, "m1": 0, "m2": 0}, crowd.output("m2")
    finally:
        crowd.stop()
    made = {
        name: list((crowd.folder(name) / "later" / "results").glob("*")) for name in crowd.names
    }
    assert all(made.values())
