"""The certificate in a model's file: changed weights, words or files are found, and so is another
key than the one that is known from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from typer.testing import CliRunner

import tacenda as tc
from evidence_stage import finished
from node_stage import made_identity
from tacenda.cli.app import app
from tacenda.errors import InputError, StateError
from tacenda.estimators import PrivateLogisticRegression
from tacenda.estimators.export import load_model
from tacenda.runtime.result import load
from tacenda_node.evidence import certify, check
from tacenda_node.evidence.model_certificate import ENTRY, check_certificate
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return finished(tmp_path_factory.mktemp("run"), n=2, graph="path", rounds=2)


@pytest.fixture
def model(homes: dict[str, Path], tmp_path: Path) -> Path:
    (found,) = homes["m0"].glob("state/results/*.safetensors")
    copy = tmp_path / "model.bin"  # whatever its name
    copy.write_bytes(found.read_bytes())
    return copy


def rewritten(path: Path, tensors: Any = None, header: Any = None) -> None:
    with safe_open(str(path), framework="numpy") as file:
        values = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        words = dict(file.metadata())
    for change, what in ((tensors, values), (header, words)):
        if change is not None:
            change(what)
    save_file(values, str(path), metadata=words)


def test_a_run_signs_its_model_and_the_file_is_read_as_before(model: Path) -> None:
    assert load(model).models.shape == (1, 4)
    found = check(model)
    assert found.ok and found.facts["epsilon"] == pytest.approx(5.0, rel=1e-4)
    assert [m["name"] for m in found.facts["run"]["members"]] == ["m0", "m1"]
    assert {"delta", "relation", "unit", "coalition"} <= found.facts.keys()
    assert any("Whose key" in line for line in found.not_proved)


def test_the_smallest_change_of_a_weight_is_found(model: Path) -> None:
    def nudge(values: dict[str, Any]) -> None:
        values["models"] = np.nextafter(values["models"], 9.0)

    rewritten(model, tensors=nudge)
    (line,) = check(model).lines
    assert not line.ok and "other weights" in line.found


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (lambda h: h.update(tacenda=h["tacenda"].replace("logistic", "squared")), "other weights"),
        (lambda h: h.update(more="approved"), "other weights"),
        (lambda h: h.pop(ENTRY), "no certificate"),
        (lambda h: h.update({ENTRY: "{"}), "not in the format"),
        (lambda h: h.update({ENTRY: "[" * 5000}), "not in the format"),
        (lambda h: h.update({ENTRY: h[ENTRY].replace('-1"', '-0"', 1)}), "not in the format"),
        (lambda h: h.update({ENTRY: h[ENTRY].replace("4.99", "0.99")}), "not signed"),
        (lambda h: h.update({ENTRY: h[ENTRY].replace("m1", "m9")}), "not signed"),
        (lambda h: h.update({ENTRY: h[ENTRY].replace("No one", "All")}), "not signed"),
    ],
)
def test_a_changed_header_is_found(model: Path, header: Any, words: str) -> None:
    rewritten(model, header=header)
    (line,) = check(model).lines
    assert not line.ok and words in line.found


def test_a_stranger_may_sign_and_the_known_key_tells(
    model: Path, homes: dict[str, Path], tmp_path: Path
) -> None:
    contract = contract_files.read(homes["m0"].parent / "contract.toml")
    assert check_certificate(model, contract=contract)["member"] == "m0"
    stranger = made_identity(tmp_path / "stranger", "m0", tmp_path / "ca")
    certify(model, stranger, contract)
    assert check(model).ok  # in itself
    for known in ({"contract": contract}, {"keys": {"m0": contract.member("m0").signing_key}}):
        with pytest.raises(StateError, match="another key"):
            check_certificate(model, **known)


def test_a_signer_cannot_promise_more_than_its_charges(
    model: Path, homes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacenda_node.evidence import model_certificate

    contract = contract_files.read(homes["m0"].parent / "contract.toml")
    me = Identity.read(homes["m0"].parent / "keys" / "m0")
    real = model_certificate.promise
    with monkeypatch.context() as changed:
        changed.setattr(model_certificate, "promise", lambda s: {**real(s), "epsilon": 0.1})
        certify(model, me, contract)
    with pytest.raises(StateError, match="promises something else"):
        check_certificate(model)


@pytest.mark.parametrize(
    "change",
    [
        {"run": {}},
        {"run": 7},
        {"privacy": []},
        {"issued_at": None, "run": {"contract": 3}},
        {"model": {"digest": 1, "files": {}}},
        {"who_may_rely_on_what": "everybody"},
        {"member": "\x1b[2J"},
    ],
)
def test_a_stranger_may_sign_nonsense(model: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    from tacenda.formats.text import canonical_json
    from tacenda_node.evidence.model_certificate import FORMAT, _text, read_certificate

    me = made_identity(tmp_path / "me", "north", tmp_path / "ca")
    body = {**read_certificate(model)["body"], "signing_key": me.signing_key, **change}
    values = {"format": FORMAT, "body": body, "signature": me.sign_text(_text(body))}
    rewritten(model, header=lambda h: h.update({ENTRY: canonical_json(values)}))
    assert not check(model).ok
    shown = CliRunner().invoke(app, ["evidence", "check", str(model)])
    assert shown.exit_code == 1 and "\x1b" not in shown.output


def test_another_contract_is_found(model: Path, homes: dict[str, Path]) -> None:
    contract = contract_files.read(homes["m0"].parent / "contract.toml")
    plain = contract.to_plain()
    plain["privacy"]["epsilon"] = 0.5
    with pytest.raises(StateError, match="another contract"):
        check_certificate(model, contract=type(contract).build(plain))


@pytest.mark.filterwarnings("ignore")
def test_an_exported_estimator(tmp_path: Path) -> None:
    data = tc.data.make_classification(200, 3, seed=0)
    fitted = PrivateLogisticRegression(epsilon=5.0, n_nodes=2, data_norm=1.0, random_state=0)
    folder = fitted.fit(data.X, data.y).export(tmp_path / "exported")
    assert "no certificate" in check(folder).lines[0].found
    me = made_identity(tmp_path / "me", "north", tmp_path / "ca")
    certify(folder, me)
    found = check(folder, keys={"north": me.signing_key})
    assert found.ok and found.facts["run"] is None
    assert found.facts["epsilon"] == pytest.approx(fitted.privacy_.epsilon)
    assert "simulation" in found.facts["who_may_rely_on_what"][0]  # its noise was seeded
    assert np.array_equal(load_model(folder).coef_, fitted.coef_)
    about = json.loads((folder / "model.json").read_text())
    about["classes"] = about["classes"][::-1]
    (folder / "model.json").write_text(json.dumps(about))
    assert "beside" in check(folder).lines[0].found


@pytest.mark.filterwarnings("ignore")
def test_a_model_without_privacy_gets_none(tmp_path: Path) -> None:
    data = tc.data.make_classification(50, 3, seed=0)
    problem = tc.Problem(tc.data.partition.even(data.X, data.y, 2, seed=0), classes=(0, 1))
    path = tc.simulate(problem, tc.graph.path(2), "admm", 1).save(tmp_path / "m.safetensors")
    me = made_identity(tmp_path / "me", "north", tmp_path / "ca")
    with pytest.raises(InputError, match="without noise"):
        certify(path, me)
