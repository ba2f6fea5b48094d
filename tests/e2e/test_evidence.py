"""Evidence of a real run: members as processes, an evaluation on held-out records, a pack of each,
checked elsewhere with the other's contract, and changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import second_check
from node_stage import Crowd, small_contract
from tacenda.cli.app import app
from tacenda_node.evidence import check, make
from tacenda_node.operate.settings import write_settings


@pytest.mark.slow
def test_packs_of_a_real_run(tmp_path: Path) -> None:
    contract = small_contract(
        3,
        rounds=3,
        graph="complete",
        algorithm={"name": "treegd"},
        privacy={"epsilon": 2.0, "delta": 1e-6, "coalition": 1},
        finish_mixing="exact",
        evaluation={"held_out": 0.25},
    )
    own = {"budget": 20.0}
    crowd = Crowd(
        tmp_path, contract, ledgers=tmp_path / "ledgers", options=dict.fromkeys(contract.names, own)
    )
    crowd.keep_own_signatures()  # the others' travel between the nodes
    kept = ("contract", "schema", "data", "identity", "state", "ledger", "budget")
    for name in crowd.names:
        plain = crowd._options(name)
        write_settings(crowd.folder(name), {k: plain[k] for k in kept if plain.get(k) is not None})
    crowd.start()
    crowd.finish()
    packs = {}
    for name in crowd.names:
        packs[name] = make(crowd.folder(name), tmp_path / f"pack-{name}")
        # By the second implementation, which knows nothing of the project
        assert second_check.check_pack(packs[name])["releases"] > 0
    elsewhere = Path(shutil.copytree(packs["m0"], tmp_path / "auditor" / "pack"))
    own_copy = packs["m1"] / "contract" / "contract.toml"
    model = crowd.folder("m0") / "state"
    found = check(elsewhere, contract=own_copy, model=model)
    assert found.ok, [line for line in found.lines if not line.ok]
    assert found.facts["privacy"]["epsilon"] <= 2.0 * (1 + 1e-9)
    assert [m["held_out"] for m in found.facts["members"]] == [15, 18, 20]
    sums = [json.loads((p / "evaluation.json").read_text())["total"] for p in packs.values()]
    assert sums[0] == sums[1] == sums[2]  # every member's pack has the same figures
    records = [line for p in tmp_path.rglob("records.csv") for line in p.read_text().split()[1:]]
    held = "".join(p.read_text("utf-8") for p in elsewhere.rglob("*") if p.is_file())
    assert records and not any(line in held for line in records)
    page = elsewhere / "evidence.html"
    page.write_text(page.read_text("utf-8").replace("any single curious member", "everybody"))
    shown = CliRunner().invoke(app, ["evidence", "check", str(elsewhere)])
    assert shown.exit_code == 1 and "DIFFERENT  evidence.html" in shown.stdout
    shown = CliRunner().invoke(app, ["evidence", "check", str(model / "results")])
    assert shown.exit_code == 0, shown.output
