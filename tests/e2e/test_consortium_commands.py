"""`tacenda consortium` as people type it, and one sentence for what is wrong."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from node_stage import small_schema
from tacenda.cli.app import app
from tacenda.data.random_records import write_random_records
from tacenda_node.identity import contract_files

FIRST = ["--name", "north", "--title", "A study", "--member", "east", "--epsilon", "2"]
PLACE = ["--data", "north.csv", "--address", "localhost:17001"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    small_schema().write(tmp_path / "schema.toml")
    for k, name in enumerate(("north", "east")):
        write_random_records(small_schema(), 200 + k, k, tmp_path / f"{name}.csv")


def tacenda(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=typed)


def test_two_members_from_nothing_to_a_signed_contract() -> None:
    new = tacenda("consortium", "new", *FIRST, *PLACE, "--schema", "schema.toml", "--budget", "3")
    assert new.exit_code == 0, new.output
    assert "Send north/a-study.invite to east" in new.output
    assert "by telephone" in new.output
    join = ["consortium", "join", "north/a-study.invite", "--data", "east.csv"]
    joined = tacenda(*join, "--address", "relay://relay.example:7500", "--relay-token", "token")
    assert joined.exit_code == 0, joined.output
    assert "201 records, which becomes public" in joined.output
    assert "has no budget yet" in joined.output
    settings = tomllib.loads(Path("east/node.toml").read_text())
    assert settings["relay_token"] == str(Path("token").resolve())
    made = tacenda("consortium", "draft", "east/east.card", "--folder", "north")
    assert made.exit_code == 0, made.output
    assert "Why:" in made.output  # the planner's reasons
    asked = tacenda("consortium", "accept", "north/contract.toml", "--folder", "east")
    assert asked.exit_code == 2
    assert "epsilon 2" in asked.output
    assert not Path("east/contract.toml").exists()
    signed = tacenda("consortium", "accept", "north/contract.toml", "--folder", "east", "--yes")
    assert signed.exit_code == 0, signed.output
    assert contract_files.missing_signatures("east/contract.toml") == []
    kit = Path("north/kit/README.md").read_text()
    assert "east at relay.example port 7500" in kit
    assert "no incoming port" in Path("east/kit/README.md").read_text()
    check = tacenda("node", "check", "east", "--no-rehearsal", "--json")
    assert check.exit_code == 1  # there is no budget yet
    found = {finding["name"]: finding["ok"] for finding in json.loads(check.stdout)["findings"]}
    fits = {"contract": True, "warning": True, "records": True, "bounds": True}  # weak signal
    assert found == {**fits, "cost": False, "evaluation": False}  # drafted by default


def test_without_a_schema_one_is_drafted_and_waits_for_a_person() -> None:
    Path("schema.toml").unlink()
    refused = tacenda("consortium", "new", *FIRST, *PLACE)
    assert refused.exit_code == 2
    assert "set confirmed = true" in refused.output
    drafted = Path("schema.toml").read_text()
    assert "confirmed = false" in drafted
    again = tacenda("consortium", "new", *FIRST, *PLACE, "--schema", "schema.toml")
    assert again.exit_code == 3  # values read from records are not public
    assert not Path("north").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", *PLACE], "--name is missing"),
        (["new", "--name", "north"], "--title is missing"),
        (["new", *FIRST, *PLACE, "-s", "schema.toml", "--coalition", "x"], "--coalition must be"),
        (["new", *FIRST, *PLACE, "-s", "schema.toml", "--key", "k"], "belongs to --certificate"),
        (["new", *FIRST, *PLACE, "-s", "schema.toml", "--certificate", "c"], "needs --authority"),
        (["join", "none.invite"], "invitation none.invite is not there"),
        (["draft", "x.card"], "There is no node.toml|must hold one invitation"),
    ],
)
def test_what_is_missing_is_named(words: list[str], said: str) -> None:
    found = tacenda("consortium", *words)
    assert found.exit_code == 2, found.output
    assert re.search(said, found.output), found.output


def test_a_plans_terms_go_into_an_invitation() -> None:
    plan = ["plan", "--schema", "schema.toml", "--nodes", "2", "--records", "200", "--epsilon", "2"]
    made = tacenda(*plan, "--graph", "path", "--trials", "0", "--terms", "terms.toml")
    assert made.exit_code == 0, made.output
    assert "terms.toml" in made.output
    terms = tomllib.loads(Path("terms.toml").read_text())
    assert terms["rounds"] >= 1
    new = tacenda("consortium", "new", *FIRST, *PLACE, "-s", "schema.toml", "--terms", "terms.toml")
    assert new.exit_code == 0, new.output
    invited = tomllib.loads(Path("north/a-study.invite").read_text())["terms"]
    assert invited["evaluation"] == {"held_out": 0.2}
    twice = tacenda(*plan, "--trials", "0", "--terms", "terms.toml")
    assert "terms.toml exists" in twice.output
