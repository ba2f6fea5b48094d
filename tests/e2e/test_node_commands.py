"""The commands as a person types them: doctor's findings, the ledger's refusal, changed data, and
the run folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from node_stage import Crowd, made_identity, small_contract
from tacenda.errors import BudgetError, InputError, StateError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.identity import contract_files
from tacenda_node.operate.settings import NodeSettings
from tacenda_node.peer.run import run_node
from tacenda_node.setup.doctor import examine


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    crowd = Crowd(tmp_path_factory.mktemp("finished"), small_contract(3, rounds=4))
    crowd.start()
    crowd.finish()
    return crowd


def _options(crowd: Crowd, name: str = "m0", **changes: object) -> NodeSettings:
    home = crowd.folder(name)
    values = {
        "contract": crowd.stage.contract_path,
        "schema": crowd.stage.schema,
        "data": crowd.stage.data[name],
        "identity": home / "identity",
        "state": home / "state",
        "quiet": True,
        "bind": "127.0.0.1:0",
        "ledger": home / "state" / "ledger.sqlite",
        "no_budget": True,
    }
    return NodeSettings(**{**values, **changes})


def test_the_state_folder_is_a_run_folder(finished: Crowd) -> None:
    from tacenda.runtime.result import load

    state = finished.folder("m1") / "state"
    manifest = json.loads((state / "manifest.json").read_text())
    assert manifest["format"] == "tacenda-run-1"
    result = load(state / manifest["results"][0]["file"])
    assert result.models.shape == (1, 4)
    assert result.settings["member"] == "m1"
    ledger = json.loads((state / "ledger.json").read_text())
    assert ledger["ipadmm-m1"]["epsilon"] == pytest.approx(5.0, rel=1e-5)
    assert json.loads((state / "metrics.jsonl").read_text().splitlines()[0])["round"] == 4


def test_a_report_is_made_from_the_state_folder(finished: Crowd, tmp_path: Path) -> None:
    from tacenda.cli.app import app

    page = tmp_path / "report.html"
    made = CliRunner().invoke(
        app, ["report", str(finished.folder("m1") / "state"), "--out", str(page)]
    )
    assert made.exit_code == 0, made.output
    text = page.read_text("utf-8")
    assert "m1" in text
    first = finished.stage.data["m1"].read_text().splitlines()[1].split(",")[0]
    assert first not in text


def test_a_finished_node_started_again_gives_the_same_model_at_once(finished: Crowd) -> None:
    again = run_node(_options(finished, "m2"))
    before = finished.stage.results()["m2"]
    assert (again.models == before.models).all()
    assert again.privacy is not None
    assert before.privacy is not None
    assert again.privacy.epsilon == before.privacy.epsilon


def test_the_lasting_ledger_holds_the_run(finished: Crowd) -> None:
    with LedgerStore(finished.folder("m1") / "state" / "ledger.sqlite") as store:
        (dataset,) = store.datasets()
        spent = store.spent(dataset)
        assert spent.curve.epsilon(1e-5) == pytest.approx(5.0, rel=1e-5)
        assert not spent.reserved
        assert store.verify().ok


def test_logs_hold_no_record_and_no_number_array(finished: Crowd) -> None:
    for name in finished.names:
        for line in finished.log(name).splitlines():
            for value in json.loads(line).values():
                assert isinstance(value, str | int | float | bool | None)
    first = finished.stage.data["m0"].read_text().splitlines()[1].split(",")[0]
    assert first not in finished.log("m0")


def test_changed_data_is_refused(finished: Crowd, tmp_path: Path) -> None:
    text = finished.stage.data["m0"].read_text().splitlines()
    cells = text[1].split(",")
    cells[0] = "0.123456"
    other = tmp_path / "other.csv"
    other.write_text("\n".join([text[0], ",".join(cells), *text[2:]]) + "\n")
    with pytest.raises(StateError, match="reveal their difference"):
        run_node(_options(finished, data=other))


def test_another_number_of_records_is_refused(finished: Crowd, tmp_path: Path) -> None:
    fewer = tmp_path / "fewer.csv"
    fewer.write_text("\n".join(finished.stage.data["m0"].read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(InputError, match=r"members\.m0\.size is 60"):
        run_node(_options(finished, data=fewer, state=tmp_path / "state"))


def test_a_spent_budget_stops_the_node_before_any_message(finished: Crowd, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    with LedgerStore(ledger) as store:
        store.set_budget("patients", 1.0, 1e-5)
    with pytest.raises(BudgetError, match="patients"):
        run_node(_options(finished, ledger=ledger, dataset="patients", state=tmp_path / "state"))
    with LedgerStore(ledger) as store:
        assert not store.spent("patients").events


def test_a_rehearsal_contract_is_refused_for_a_real_run(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, small_contract(3, rounds=2), seed=1)
    with pytest.raises(InputError, match="rehearsal"):
        run_node(_options(crowd))


def test_doctor_names_what_is_wrong(finished: Crowd, tmp_path: Path) -> None:
    home = finished.folder("m0")
    findings = {
        f.name: f
        for f in examine(
            finished.stage.contract_path, home / "identity", finished.stage.schema, home / "state"
        )
    }
    for name in (
        "versions",
        "clock",
        "space",
        "disk",
        "ledger",
        "contract",
        "signatures",
        "schema",
        "member",
        "port",
    ):
        assert findings[name].ok, findings[name]
    assert not findings["certificate"].ok  # rehearsal certificates live for two days
    assert not findings["peer"].ok
    assert "firewall" in findings["peer"].fix
    stranger = made_identity(tmp_path / "z", "z", tmp_path / "ca")
    found = examine(tmp_path / "none.toml", stranger.folder, None, tmp_path / "state")
    assert any(f.name == "contract" and "no contract" in f.found for f in found)


def test_the_commands_speak_plainly(finished: Crowd, tmp_path: Path) -> None:
    from tacenda_node.commands.certs import certs_app
    from tacenda_node.commands.contracts import contract_app

    runner = CliRunner()
    shown = runner.invoke(certs_app, ["show", "-i", str(finished.folder("m0") / "identity")])
    assert "fingerprint" in shown.output
    checked = runner.invoke(contract_app, ["check", "-c", str(finished.stage.contract_path)])
    assert checked.exit_code == 0
    assert "exact discrete Gaussian" in checked.output
    assert "signed    by all" in checked.output
    plain = finished.stage.contract.to_plain()
    plain["rounds"] = 9
    other = contract_files.write(
        type(finished.stage.contract).build(plain), tmp_path / "other.toml"
    )
    differ = runner.invoke(
        contract_app, ["check", "-c", str(finished.stage.contract_path), "--other", str(other)]
    )
    assert differ.exit_code == 1
    assert "rounds" in differ.output
