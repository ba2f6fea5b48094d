"""A member forges its whole pack with its own key: statement, ledger rows, certificate, page and
seal all agree with each other, and only the contract that others have signed is the real one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evidence_stage import MASKED, finished, wrong
from tacenda.errors import InputError, StateError
from tacenda.formats.files import write_json, write_text
from tacenda.formats.text import canonical_json
from tacenda.privacy.lasting import chain
from tacenda.privacy.lasting.database import FIELDS
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda_node.evidence import check, make, model_certificate
from tacenda_node.evidence import signed_statement as statements
from tacenda_node.evidence.checking import Checked, Line, _Pack
from tacenda_node.evidence.facts import read_json, released_evaluation, signed_statement
from tacenda_node.evidence.organisation import checked
from tacenda_node.evidence.pack import MANIFEST, compose, seal
from tacenda_node.evidence.page import page
from tacenda_node.evidence.registry import deployment, yaml
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract

Plain = dict[str, Any]


class Packs(NamedTuple):
    homes: dict[str, Path]
    mine: Path
    me: Identity


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Packs:
    folder = tmp_path_factory.mktemp("forged")
    homes = finished(folder, **MASKED)
    return Packs(homes, make(homes["m0"], folder / "pack"), Identity.read(folder / "keys" / "m0"))


def sealed(pack: Path, packs: Packs) -> Checked:
    """All pages written anew from the forged files, and the seal."""
    values = compose(pack)
    write_json(pack / "evidence.json", values)
    write_text(pack / "deployment.yaml", yaml(deployment(values)))
    write_text(pack / "evidence.html", page(values))
    return listed(pack, packs)


def listed(pack: Path, packs: Packs) -> Checked:
    relisted(pack, packs)
    return check(pack)


def one_line(pack: Path, step: str) -> Line:
    """One step of the check alone: a whole check takes a second."""
    pack_ = _Pack(pack, None, {}, None)
    return pack_._line(step, getattr(pack_, f"_{step}"))


def relisted(pack: Path, packs: Packs) -> None:
    body = json.loads((pack / MANIFEST).read_text())["body"]
    about = {k: v for k, v in body.items() if k not in ("files", "made_at", "tacenda")}
    seal(pack, about, packs.me)


def signed_anew(pack: Path, packs: Packs, name: str, change: Callable[[Plain], Any]) -> None:
    """A changed statement or certificate, with a signature that is valid."""
    values = json.loads((pack / name).read_text("utf-8"))
    change(values["body"])
    signed = {
        "statement.json": statements.statement_text,
        "certificate.json": model_certificate._text,
    }
    text = signed[name](values["body"])
    write_json(pack / name, {**values, "signature": packs.me.sign_text(text)})


def booked_anew(pack: Path, change: Callable[[Plain], Plain | None]) -> None:
    """The ledger's rows, each changed or left out, in a chain without a gap."""
    rows, previous = [], "0" * 64
    for line in (pack / "ledger.jsonl").read_text("utf-8").splitlines():
        row = change(json.loads(line))
        if row is not None:
            row["previous"] = previous
            row["hash"] = previous = chain.seal(previous, [row[name] for name in FIELDS])
            rows.append(canonical_json(row) + "\n")
    (pack / "ledger.jsonl").write_text("".join(rows), "utf-8")


def promised_anew(pack: Path, packs: Packs, charges: Charges) -> None:
    """Statement and certificate that follow from other charges."""
    contract, signed = signed_statement(pack)
    found = replace(signed.statement, charges=charges)
    plain = json.loads((pack / "statement.json").read_text())["body"]["evaluation"]
    assert signed.evaluation is not None
    given = (plain["model"], signed.evaluation)
    (pack / "statement.json").unlink()  # an honest node never writes it again
    statements.write_statement(pack, found, contract, packs.me, given)

    def certificate(body: Plain) -> None:
        body["privacy"] = model_certificate.promise(found)
        body["who_may_rely_on_what"] = model_certificate.rely(body)

    signed_anew(pack, packs, "certificate.json", certificate)


# ---- a smaller epsilon than was spent
def test_half_of_the_releases_left_out_everywhere(pack: Path, packs: Packs) -> None:
    _, signed = signed_statement(pack)
    each = list(signed.statement.charges.each())
    kept = len(each) // 2
    run, seen = "-m0", [0]

    def fewer(row: Plain) -> Plain | None:
        if row["run"].endswith(run) and row["kind"] == "charge":
            seen[0] += 1
            return row if seen[0] <= kept else None
        if row["run"].endswith(run) and row["kind"] == "charges":
            view, first, _, (charge,) = json.loads(row["body"])[0]
            row["body"] = json.dumps([[view, first, first + kept - 1, [charge]]])
        return row

    booked_anew(pack, fewer)
    promised_anew(pack, packs, Charges((one, 1) for one in each[:kept]))
    found = wrong(sealed(pack, packs))
    assert "ledger" not in found  # what was booked is what was stated
    assert "noise against the contract's plan" in found


@pytest.mark.slow
def test_more_noise_stated_than_the_contract_has(pack: Path, packs: Packs) -> None:
    _, signed = signed_statement(pack)
    quieter = Charges(
        (Charge(c.kind, {k: v * (0.1 if k == "mu" else 1.0) for k, v in c.parameters.items()}), n)
        for c, n in signed.statement.charges
    )

    def less(event: Plain) -> Plain:
        return {**event, "mu": 0.1 * event["mu"]}

    def rows(row: Plain) -> Plain:
        if row["run"].endswith("-m0") and row["kind"] == "charge":
            row["event"] = json.dumps(less(json.loads(row["event"])))
        if row["run"].endswith("-m0") and row["kind"] == "charges":
            row["body"] = json.dumps(
                [
                    [*place, [[call, json.dumps(less(json.loads(e)))] for call, e in pattern]]
                    for *place, pattern in json.loads(row["body"])
                ]
            )
        return row

    booked_anew(pack, rows)
    promised_anew(pack, packs, quieter)
    found = wrong(sealed(pack, packs))
    assert "ledger" not in found
    assert "noise against the contract's plan" in found


@pytest.mark.slow
def test_an_evaluation_that_cost_nothing(pack: Path, packs: Packs) -> None:
    contract, signed = signed_statement(pack)
    assert signed.evaluation is not None
    free = replace(signed.evaluation, charges=Charges())
    values = json.loads((pack / "evaluation.json").read_text())
    given = (values["about"]["model"], free)
    statements.write_statement(pack, signed.statement, contract, packs.me, given)
    stated = json.loads((pack / "statement.json").read_text())["body"]["evaluation"]
    write_json(pack / "evaluation.json", {**values, "privacy": stated["privacy"]})
    booked_anew(
        pack, lambda row: None if "+evaluation" in row["run"] and "charge" in row["kind"] else row
    )
    assert "evaluation" in wrong(sealed(pack, packs))


def test_an_evaluation_that_is_booked_and_hidden(pack: Path, packs: Packs) -> None:
    contract, signed = signed_statement(pack)
    (pack / "statement.json").unlink()
    statements.write_statement(pack, signed.statement, contract, packs.me)
    (pack / "evaluation.json").unlink()
    with pytest.raises(StateError, match="charges of an evaluation that is not in the pack"):
        released_evaluation(pack, *signed_statement(pack))


def test_an_evaluation_by_fewer_than_were_there(pack: Path, packs: Packs) -> None:
    values = json.loads((pack / "evaluation.json").read_text())
    values["about"]["members"] = ["m0", "m1", "m1"]
    write_json(pack / "evaluation.json", values)
    with pytest.raises(StateError, match="other members"):
        released_evaluation(pack, *signed_statement(pack))


# ---- words and figures beside those that are computed
STATED: dict[str, Callable[[Plain], Any]] = {
    "the unit": lambda body: body["privacy"].update(unit="a person with all records"),
    "the coalition": lambda body: body["privacy"].update(coalition=None),
    "the accountant": lambda body: body["privacy"].update(accountant="exact"),
    "the final model": lambda body: body["privacy"].update(
        final_model={"epsilon": 0.01, "why": "because", "mu": 0.001}
    ),
    "a remark": lambda body: body["privacy"].update(remark="epsilon is 0.1"),
    "a remark outside": lambda body: body.update(remark="epsilon is 0.1"),
    "the noise": lambda body: body["privacy"].update(noise="ten times as much as agreed"),
    "the target": lambda body: body["privacy"].update(target=0.1),
    "the reason": lambda body: body["privacy"].update(why="epsilon is really 0.1"),
    "the records": lambda body: body.update(records=10**9),
    "the held-out records": lambda body: body["evaluation"].update(records=10**9),
    "what covers": lambda body: body["evaluation"].update(covers="nobody is concerned"),
    "a count": lambda body: body["privacy"]["charges"][0].update(count=0),
    "a part of a count": lambda body: body["privacy"]["charges"][0].update(count=0.5),
    "more nodes": lambda body: body["privacy"].update(n_nodes=1000),
}


@pytest.mark.parametrize("how", STATED)
def test_a_statement_says_what_its_charges_give_and_no_more(
    how: str, pack: Path, packs: Packs
) -> None:
    signed_anew(pack, packs, "statement.json", STATED[how])
    assert not one_line(pack, "statement").ok


CERTIFIED: dict[str, Callable[[Plain], Any]] = {
    "who may rely": lambda body: body.update(who_may_rely_on_what=["Everybody: epsilon 0.1"]),
    "the contract's epsilon": lambda body: body["run"].update(epsilon=0.1),
    "members": lambda body: body["run"].update(members=[]),
    "another key": lambda body: body.update(signing_key="A" * 44),
    "a remark": lambda body: body.update(remark="epsilon is 0.1"),
    "a remark of the model": lambda body: body["model"].update(digest="epsilon is 0.1"),
    "features": lambda body: body["model"].update(features=1),
}


@pytest.mark.parametrize("how", CERTIFIED)
def test_a_certificate_in_a_pack_is_read_to_the_last_word(
    how: str, pack: Path, packs: Packs
) -> None:
    signed_anew(pack, packs, "certificate.json", CERTIFIED[how])
    assert not one_line(pack, "model").ok


# ---- files in other forms, and other files


@pytest.mark.parametrize(
    "name", ["statement.json", "evidence.json", "certificate.json", "evaluation.json"]
)
def test_a_key_twice(name: str, pack: Path, packs: Packs) -> None:
    path = pack / name
    text = path.read_text("utf-8")
    at = text.index('"epsilon":')
    path.write_text(text[:at] + '"epsilon": 0.1, ' + text[at:], "utf-8")
    relisted(pack, packs)
    assert name in one_line(pack, "files").found


@pytest.mark.parametrize(
    "name",
    ["summary.html", "Evidence.html", "contract/notes.txt", "contract/a/b.toml", "\uff45.html"],
)
def test_a_file_that_no_pack_has(name: str, pack: Path, packs: Packs) -> None:
    (pack / name).parent.mkdir(exist_ok=True)
    (pack / name).write_text("epsilon is 0.1")
    relisted(pack, packs)
    assert name in one_line(pack, "files").found


def test_an_amendment_that_is_none(pack: Path, packs: Packs) -> None:
    (pack / "contract" / "contract.amendment-1.toml").write_text("epsilon = 0.1\n")
    assert not one_line(pack, "contract").ok
    contract = contract_files.read(pack / "contract" / "contract.toml")
    cheaper = {**contract.to_plain(), "amendment": 1, "follows": contract.hash()}
    cheaper["privacy"] = {**cheaper["privacy"], "epsilon": 0.1}
    path = pack / "contract" / "contract.amendment-1.toml"
    contract_files.write(Contract.build(cheaper), path)
    assert "nothing else" in one_line(pack, "contract").found
    cheaper["privacy"] = contract.to_plain()["privacy"]
    contract_files.write(Contract.build(cheaper), path)
    assert "lacks a signature of m0, m1, m2" in one_line(pack, "contract").found


def test_all_others_are_said_to_have_left(pack: Path, packs: Packs) -> None:
    """An amended text with other terms needs the signatures of those only who stay."""
    path = pack / "contract" / "contract.toml"
    plain = contract_files.read(path).to_plain()
    plain |= {"amendment": 1, "follows": "0" * 64, "left": ["m1", "m2"]}
    plain["privacy"] = {**plain["privacy"], "epsilon": 0.1}
    contract_files.write(Contract.build(plain), path)
    contract_files.signatures_path(path).unlink()
    contract_files.sign(path, packs.me)
    assert contract_files.missing_signatures(path) == []
    assert "only m0 have signed" in one_line(pack, "signatures").found


def test_remarks_in_the_contract(pack: Path, packs: Packs) -> None:
    path = pack / "contract" / "contract.toml"
    path.write_text("# All members have agreed on epsilon = 0.1\n" + path.read_text("utf-8"))
    assert "remarks" in one_line(pack, "contract").found


def test_rows_of_other_runs_and_remarks_in_the_ledger(pack: Path, packs: Packs) -> None:
    path = pack / "ledger.jsonl"
    rows = path.read_text("utf-8").splitlines(keepends=True)
    row = {**json.loads(rows[-1]), "remark": "epsilon is 0.1"}
    path.write_text("".join([*rows[:-1], canonical_json(row) + "\n"]))
    assert "not as a ledger writes it" in one_line(pack, "ledger").found
    path.write_text("".join(rows))
    booked_anew(pack, lambda row: {**row, "run": "another"} if row["kind"] == "open" else row)
    assert "another run" in one_line(pack, "ledger").found


@pytest.mark.parametrize("without_list", [False, True])
def test_a_model_beside_it_does_not_make_a_pack_pass(
    without_list: bool, pack: Path, packs: Packs
) -> None:
    (pack / "results").mkdir()
    (model,) = (packs.homes["m0"] / "state" / "results").glob("*.safetensors")
    shutil.copy(model, pack / "results" / "any.safetensors")
    (pack / "evidence.html").write_text("<p>epsilon is 0.1</p>")
    if without_list:
        (pack / MANIFEST).unlink()
    assert not check(pack).ok


@pytest.mark.parametrize("sign", ["\u202e", "\u200b", "\x1b", "\U000e0041"])
def test_signs_that_nobody_sees_in_an_answer(sign: str, pack: Path) -> None:
    write_json(pack / "organisation.json", {"why_this_epsilon": f"agreed{sign}upon"})
    with pytest.raises(InputError, match="cannot be seen"):
        checked(read_json(pack / "organisation.json"), "organisation.json")


def test_a_file_too_large_to_read(pack: Path) -> None:
    with (pack / "audit.json").open("wb") as file:
        file.truncate(1 << 40)  # a hole: no space on the disk
    assert "audit.json" in wrong(check(pack))["every file"]
