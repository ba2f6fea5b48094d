"""One member with one record makes the noise of all: `plan`, `contract new` and `contract check`
say what it costs and what helps, as a user runs them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from cli_tools import people, tacenda, write_people
from node_stage import small_schema

SIZES = {"north": 900, "east": 900, "south": 900, "tiny": 1}
SAID = "Small members raise the noise of all"
HELPS = ("What helps: leave it out, for", "weight members by size")


def drafted(folder: Path, sizes: dict[str, int]) -> tuple[str, str]:
    """What `contract new` and `contract check` say of members of these sizes."""
    small_schema().write(folder / "schema.toml")
    (folder / "terms.toml").write_text(
        'title = "study"\n[privacy]\nepsilon = 2.0\ndelta = 1e-6\n', "utf-8"
    )
    arguments: list[str | Path] = []
    for k, (name, size) in enumerate(sizes.items()):
        values = {
            "name": name,
            "size": size,
            "address": "localhost:1",
            "fingerprint": f"{k:064x}",
            "signing_key": base64.b64encode(k.to_bytes(32, "big")).decode(),
            "authority": "-----BEGIN CERTIFICATE-----",
        }
        card = folder / f"{name}.card"
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        card.write_text("\n".join(lines) + "\n", "utf-8")
        arguments += ["--card", card]
    contract = folder / "contract.toml"
    made = tacenda(
        "contract",
        "new",
        "--terms",
        folder / "terms.toml",
        "--schema",
        folder / "schema.toml",
        "--contract",
        contract,
        "--held-out",
        "0",
        *arguments,
    )
    assert made.exit_code == 0, made.output
    checked = tacenda("contract", "check", "--contract", contract)
    assert checked.exit_code == 1, checked.output  # nobody has signed yet
    return " ".join(made.output.split()), " ".join(checked.output.split())


def test_draft_and_check_name_the_small_member(tmp_path: Path) -> None:
    for said in drafted(tmp_path, SIZES):
        assert SAID in said and "tiny (1 record)" in said, said
        assert all(words in said for words in HELPS), said


def test_draft_and_check_are_silent_where_members_are_alike(tmp_path: Path) -> None:
    for said in drafted(tmp_path, {"north": 900, "east": 900, "south": 800}):
        assert SAID not in said


@pytest.mark.parametrize("small", [True, False])
def test_plan_names_the_small_node(tmp_path: Path, small: bool) -> None:
    lines = people(300)
    table, schema = write_people(tmp_path, [*lines, "50,red,no,D"] if small else lines)
    found = tacenda("plan", "--data", table, "--schema", schema, "--epsilon", "2", "--trials", "0")
    said = " ".join(found.output.split())
    assert found.exit_code == 0, said
    assert (SAID in said) is small, said
    assert all(words in said for words in HELPS) is small, said
