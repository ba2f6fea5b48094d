"""What is in a pack: the registry's form, the bill of materials, the annexes with their blanks, the
page, and how a simulation is marked."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import tacenda as tc
from evidence_stage import finished
from tacenda.cli.app import app
from tacenda.errors import InputError
from tacenda_node.evidence import check, make, organisation_form
from tacenda_node.evidence.bill import bill_of_materials
from tacenda_node.evidence.organisation import FIELDS, read_organisation
from tacenda_node.evidence.registry import yaml as written
from tacenda_node.evidence.wording import BLANK

# Fields of the registry's deployments-schema.yaml (July 2026) with what each may hold: text, a
# number, a list of texts, or one of some words. Those with a star are required.
REGISTRY: dict[str, Any] = {
    "url_slug*": str,
    "status*": ["Draft", "Pending", "Approved"],
    "tier*": [1, 2, 3],
    "deployment.basic.name*": str,
    "deployment.basic.data_curators*": list,
    "deployment.basic.intended_use*": str,
    "deployment.basic.data_product_type*": ["Machine learning model"],
    "deployment.basic.data_product_region*": str,
    "deployment.basic.description*": str,
    "deployment.basic.publication_date*": str,
    "deployment.basic.data_product_sector": [
        *("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
    ],
    "deployment.dp_variant.variant_name": ["Pure DP", "Approximate DP"],
    "deployment.dp_variant.data_domain": str,
    "deployment.dp_variant.unprotected_quantities": str,
    "deployment.privacy_loss.privacy_unit": str,
    "deployment.privacy_loss.privacy_unit_details": str,
    "deployment.privacy_loss.privacy_parameters.epsilon": float,
    "deployment.privacy_loss.privacy_parameters.delta": float,
    "deployment.privacy_loss.privacy_parameters_details": str,
    "deployment.deployment_model.model_name": ["Local", "Central", "Shuffle", "Federated"],
    "deployment.deployment_model.model_name_details": str,
    "deployment.deployment_model.actors": str,
    "deployment.deployment_model.release_type": ["One release", "Many releases"],
    "deployment.deployment_model.release_type_details": str,
    "deployment.deployment_model.data_source_type": ["Static", "Dynamic"],
    "deployment.deployment_model.data_source_type_details": str,
    "deployment.deployment_model.access_type": ["Interactive", "Non-interactive"],
    "deployment.deployment_model.access_type_details": str,
    "deployment.accounting.post_processing": str,
    "deployment.accounting.composition": str,
    "deployment.implementation.preprocessing_and_hyperparameter_tuning": str,
    "deployment.implementation.mechanisms": str,
    "deployment.implementation.justification": str,
    "deployment.administrative.sources": str,
    "deployment.administrative.notes": str,
    "deployment.administrative.registry_authors*": list,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("run"), n=2, graph="path", rounds=2)["m0"]


@pytest.fixture(scope="module")
def pack(home: Path) -> Path:
    return make(home, home / "pack")


@pytest.fixture(scope="module")
def answered(home: Path) -> Path:
    answers = "".join(f"{f.name} = {json.dumps(f.example)}\n" for f in FIELDS)
    (home / "organisation.toml").write_text(answers)
    return make(home, home / "answered", organisation=home / "organisation.toml")


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    parts = [leaves(v, f"{path}.{k}" if path else k) for k, v in value.items()]
    return {k: v for part in parts for k, v in part.items()}


def test_the_registry_would_take_the_entry(pack: Path, answered: Path) -> None:
    rules = {name.rstrip("*"): rule for name, rule in REGISTRY.items()}
    for folder in (pack, answered):
        found = leaves(yaml.safe_load((folder / "deployment.yaml").read_text("utf-8")))
        assert {n.rstrip("*") for n in REGISTRY if n.endswith("*")} <= found.keys() <= rules.keys()
        for name, value in found.items():
            rule = rules[name]
            if isinstance(rule, list):
                assert value in rule, name
            else:
                assert isinstance(value, rule) and value, name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["deployment.basic.publication_date"])
    assert found["deployment.privacy_loss.privacy_parameters.epsilon"] == pytest.approx(5, rel=1e-4)
    assert found["deployment.privacy_loss.privacy_parameters.delta"] == 1e-5


@pytest.mark.parametrize(
    "value", ["a: b # c", 'q"uo\\te', "línea\n- x", "1e5", "null", 1e-05, 0.1, 2.5e-300, 1.0, 7]
)
def test_yaml_is_read_back_as_it_was(value: Any) -> None:
    values = {"one": {"two": value, "three": [str(value)]}}
    assert yaml.safe_load(written(values)) == values


def test_the_bill_of_materials_is_cyclonedx() -> None:
    bill = bill_of_materials()
    names = {one["name"] for one in bill["components"]}
    assert {"numpy", "cryptography", "dp-accounting", "jinja2"} <= names
    assert not {"pytest", "ruff", "sphinx"} & names  # what only developers install
    assert bill["metadata"]["component"]["name"] == "tacenda"
    references = {one["bom-ref"] for one in [*bill["components"], bill["metadata"]["component"]]}
    assert {one["ref"] for one in bill["dependencies"]} == references


@pytest.mark.slow
def test_the_bill_of_materials_keeps_to_its_schema() -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(bill_of_materials())) is None


class Reader(HTMLParser):
    """Text, tags, and everything that would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(v) for k, v in attrs if k in ("src", "href")]


def test_the_page_needs_nothing_and_has_every_part(pack: Path) -> None:
    text = (pack / "evidence.html").read_text("utf-8")
    reader = Reader()
    reader.feed(text)
    assert "script" not in reader.tags and not reader.links and "url(" not in text
    assert "@page { size: A4" in text
    values = json.loads((pack / "evidence.json").read_text())
    assert len(values["hazards"]) >= 20
    assert {h["state"] for h in values["hazards"]} == {
        *("applies", "does not apply", "for the organisation")
    }
    for part in "abcd":
        assert any(s["title"].startswith(f"({part})") for s in values["impact_assessment"])
    assert {row[0][:3] for row in values["processing_record"]} == {f"({c})" for c in "abcdefg"}


def test_the_annex_for_a_health_data_access_body_says_what_this_run_did(pack: Path) -> None:
    values = json.loads((pack / "evidence.json").read_text())
    rows = {row["asked"]: row for row in values["health_data"]}
    assert len(rows) == len(values["health_data"]) >= 14
    assert {"Art. 61(1)", "Art. 61(2)", "Art. 61(3)", "Art. 61(4)"} <= {
        row["source"] for row in rows.values()
    }
    promise, facts = values["facts"]["privacy"], values["facts"]
    outputs = rows["Which outputs leave, and under which promise"]["answer"]
    assert promise["against"] in outputs and f"delta {promise['delta']:g}" in outputs
    assert str(facts["ledger"]["releases"]) in rows["Nothing else leaves"]["answer"]
    assert facts["title"] in rows["Use only as the data permit allows"]["answer"]
    text = (pack / "evidence.html").read_text("utf-8")
    assert all(html.escape(asked) in text for asked in rows)


def test_every_question_is_a_blank_until_it_is_answered(pack: Path, answered: Path) -> None:
    page, full = ((p / "evidence.html").read_text("utf-8") for p in (pack, answered))
    assert page.count('class="blank"') >= 12 and 'class="blank"' not in full
    everything = full + (answered / "deployment.yaml").read_text("utf-8")
    assert BLANK not in everything
    for one in FIELDS:
        assert one.example.split(",")[0].replace("'", "&#39;") in everything, one.name
    assert check(answered).ok


def test_markup_in_an_answer_is_text(home: Path, tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text("purpose = \"<script>alert('x')</script>\"\n")
    folder = make(home, tmp_path / "pack", organisation=tmp_path / "o.toml")
    assert "<script>" not in (folder / "evidence.html").read_text("utf-8")
    assert check(folder).ok


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("purposes = 'x'", "purposes"),
        ("purpose = 3", "must be text"),
        ("sector = 'Farming'", "sector"),
        ("purpose = ", "not valid TOML"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "o.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_organisation(tmp_path / "o.toml")


def test_the_form_is_a_file_of_empty_answers(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text(organisation_form())
    assert read_organisation(tmp_path / "o.toml") == {}


def test_a_person_as_the_unit(tmp_path: Path) -> None:
    persons = {"adjacency": "add-remove", "records_per_person": 3}
    terms = {"epsilon": 5.0, "delta": 1e-5, **persons}
    home = finished(tmp_path, n=2, graph="path", rounds=2, privacy=terms)["m0"]
    found = check(make(home, tmp_path / "pack"))
    assert found.ok, [line for line in found.lines if not line.ok]
    assert found.facts["privacy"]["unit"] == "one person with at most 3 records"
    assert found.facts["privacy"]["epsilon"] == pytest.approx(5.0, rel=1e-4)
    page = (tmp_path / "pack" / "evidence.html").read_text("utf-8")
    assert "covered: the promise is for one person" in page
    assert "one person with at most 3 records" in check(home / "state").lines[2].found


# ---- simulations
@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder as `tacenda fit` leaves it, with a seed and measures in it."""
    from tacenda.runtime.run_folder import RunFolder

    data = tc.data.make_classification(60, 3, seed=0)
    problem = tc.Problem(tc.data.partition.even(data.X, data.y, 3, seed=0), classes=(0, 1))
    budget = tc.Privacy(epsilon=20.0, delta=1e-5)
    result = tc.simulate(problem, tc.graph.ring(3), "cdpadmm", 2, budget, seed=987654)
    home = RunFolder(tmp_path_factory.mktemp("simulation") / "trial").make()
    home.save("one-987654", result)
    entry = {"label": "one", "seed": 987654, "file": "results/one-987654.safetensors"}
    home.finish({"one-987654": result}, {"results": [entry], "table": [{"accuracy": 0.777}]})
    return home.path


def test_a_simulation_says_what_it_is_everywhere(simulated: Path, tmp_path: Path) -> None:
    folder = make(simulated, tmp_path / "pack")
    found = check(folder)
    assert found.ok and found.facts["simulation"]
    assert any("real people" in line for line in found.not_proved)
    for name in ("evidence.html", "evidence.json", "deployment.yaml"):
        text = (folder / name).read_text("utf-8")
        assert "SIMULATION" in text and "0.777" not in text
    for path in folder.iterdir():
        assert "987654" not in path.read_text("utf-8"), path
    annex = json.loads((folder / "evidence.json").read_text())["health_data"]
    assert not any(row["answer"].startswith("No record leaves") for row in annex)
    assert not any(row["shown_by"].startswith(("contract/", "statement.json")) for row in annex)
    shown = CliRunner().invoke(app, ["evidence", "check", str(folder)])
    assert shown.exit_code == 0 and "SIMULATION" in shown.stdout


def test_a_changed_simulation_is_found(simulated: Path, tmp_path: Path) -> None:
    folder = make(simulated, tmp_path / "pack")
    for name in ("simulation.json", "evidence.json", "evidence.html"):
        text = (folder / name).read_text("utf-8")
        changed = text.replace("SIMULATION", "run", 1).replace("20", "10")
        (folder / name).write_text(changed, "utf-8")
        assert not check(folder).ok
        (folder / name).write_text(text, "utf-8")
    assert check(folder).ok


def test_a_simulation_cannot_pass_for_a_run_of_members(simulated: Path, tmp_path: Path) -> None:
    folder = make(simulated, tmp_path / "pack")
    (folder / "simulation.json").rename(folder / "statement.json")
    assert not check(folder).ok


# ---- commands
def test_the_commands(home: Path, tmp_path: Path) -> None:
    def run(*words: Any) -> Any:
        return CliRunner().invoke(app, ["evidence", *map(str, words)])

    made = run(home, "-o", tmp_path / "pack")
    assert made.exit_code == 0 and "evidence check" in made.stdout, made.output
    found = run("check", tmp_path / "pack", "--json")
    assert found.exit_code == 0 and json.loads(found.stdout)["ok"]
    (tmp_path / "pack" / "evidence.html").write_text("<p>all is well</p>")
    changed = run("check", tmp_path / "pack")
    assert changed.exit_code == 1 and "DIFFERENT  evidence.html" in changed.stdout
    assert "Do not rely on it" in changed.stdout
    model = next((home / "state" / "results").iterdir())
    shown = run("check", model)
    assert shown.exit_code == 0 and "rely       People" in shown.stdout
    key = run("check", model, "--key", "m0=" + "A" * 43 + "=")
    assert key.exit_code == 1 and "another key" in key.stdout
    assert run("check", model, "--key", "m0").exit_code == 2
    assert run("form").stdout == organisation_form()
    assert run(tmp_path / "nothing", "-o", tmp_path / "p").exit_code == 2
