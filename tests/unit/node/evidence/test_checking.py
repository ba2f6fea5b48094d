"""A pack is in order as it was made, and whatever is changed in it is found: by a stranger without
a key, and by the member itself, who seals the pack again with its own key."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evidence_stage import MASKED, finished, wrong
from tacenda.errors import InputError
from tacenda.formats.files import write_json
from tacenda.formats.text import canonical_json
from tacenda.privacy.lasting import chain
from tacenda.privacy.lasting.database import FIELDS
from tacenda_node.evidence import check, make
from tacenda_node.evidence.pack import MANIFEST, compose, seal
from tacenda_node.evidence.page import page
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity


class Packs(NamedTuple):
    homes: dict[str, Path]
    mine: Path
    theirs: Path
    keys: Path


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Packs:
    folder = tmp_path_factory.mktemp("evidence")
    homes = finished(folder, **MASKED)
    mine = make(homes["m0"], folder / "pack-m0")
    return Packs(homes, mine, make(homes["m1"], folder / "pack-m1"), folder / "keys")


def sealed_again(pack: Path, packs: Packs, name: str = "m0") -> None:
    """What the member itself can always do: list the files anew and sign."""
    body = json.loads((pack / MANIFEST).read_text())["body"]
    about = {k: v for k, v in body.items() if k not in ("files", "made_at", "tacenda")}
    seal(pack, about, Identity.read(packs.keys / name))


def edit(path: Path, change: Callable[[Any], None]) -> None:
    values = json.loads(path.read_text("utf-8"))
    change(values)
    write_json(path, values)  # as the program does, or the form alone would give it away


def test_a_pack_is_in_order_and_says_what_it_does_not_prove(packs: Packs) -> None:
    found = check(packs.mine, model=packs.homes["m0"] / "state")
    assert found.ok and not wrong(found)
    assert found.facts["privacy"]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert found.facts["privacy"]["coalition"] == 1
    assert any("noise" in line for line in found.not_proved)
    assert any("schema" in line for line in found.not_proved)


def test_it_is_checked_without_the_members_files(packs: Packs, tmp_path: Path) -> None:
    alone = Path(shutil.copytree(packs.mine, tmp_path / "elsewhere" / "pack"))
    for home in packs.homes.values():
        assert str(home) not in "".join(p.read_text("utf-8") for p in alone.rglob("*.json"))
    assert check(alone).ok


def test_no_key_is_in_it(packs: Packs) -> None:
    secrets = [p.read_bytes() for p in packs.keys.glob("*/*.key")]
    held = [p.read_bytes() for p in packs.mine.rglob("*") if p.is_file()]
    assert secrets and not any(s in h or s[40:80] in h for s in secrets for h in held)


# ---- what a stranger can do: change files, without the member's key
def smaller(path: Path) -> None:
    text = path.read_text("utf-8")
    changed = re.sub(r"(epsilon\W+)(0\.99\d*|1\.0\b|1\b)", r"\g<1>0.25", text, count=1)
    assert changed != text, path
    path.write_text(changed, "utf-8")


def in_html(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "<b>ε&nbsp;=&nbsp;1</b>" in text
    path.write_text(text.replace("=&nbsp;1</b>", "=&nbsp;0.1</b>"), "utf-8")


STRANGER: dict[str, tuple[Callable[[Path, Packs], Any], str]] = {
    "epsilon in evidence.json": (lambda p, _: smaller(p / "evidence.json"), "every number"),
    "epsilon in deployment.yaml": (lambda p, _: smaller(p / "deployment.yaml"), "deployment.yaml"),
    "epsilon in statement.json": (lambda p, _: smaller(p / "statement.json"), "statement"),
    "epsilon in the contract": (
        lambda p, _: smaller(p / "contract" / "contract.toml"),
        "signatures of the contract",
    ),
    "epsilon in certificate.json": (lambda p, _: smaller(p / "certificate.json"), "model"),
    "a number of the page": (lambda p, _: in_html(p / "evidence.html"), "evidence.html"),
    "a word of the page": (
        lambda p, _: (p / "evidence.html").write_text(
            (p / "evidence.html").read_text("utf-8").replace("collude", "agree"), "utf-8"
        ),
        "evidence.html",
    ),
    "statement of another member": (
        lambda p, packs: shutil.copy(packs.theirs / "statement.json", p),
        "seal of the pack",
    ),
    "a charge less": (
        lambda p, _: (p / "ledger.jsonl").write_text(
            "".join(
                line
                for line in (p / "ledger.jsonl").read_text().splitlines(keepends=True)
                if '"kind":"charge' not in line
            )
        ),
        "ledger",
    ),
    "a row of the ledger": (
        lambda p, _: (p / "ledger.jsonl").write_text(
            (p / "ledger.jsonl").read_text().replace("mu", "nu", 1)
        ),
        "ledger",
    ),
    "a signature of the contract": (
        lambda p, _: (p / "contract" / "contract.toml.signatures").write_text(
            (p / "contract" / "contract.toml.signatures").read_text()[20:]
        ),
        "signatures of the contract",
    ),
    "signature of the seal": (
        lambda p, _: edit(p / MANIFEST, lambda v: v.update(signature="A" * 86 + "==")),
        "seal of the pack",
    ),
    "no signature of the seal": (
        lambda p, _: edit(p / MANIFEST, lambda v: v.update(signature=None)),
        "seal of the pack",
    ),
    "a file more": (lambda p, _: (p / "annex.txt").write_text("approved"), "every file"),
    "a file less": (lambda p, _: (p / "sbom.cdx.json").unlink(), "every file"),
    "another version of the format": (
        lambda p, _: edit(p / MANIFEST, lambda v: v.update(format="tacenda-evidence-0")),
        "list of files",
    ),
    "a version of the program": (
        lambda p, _: edit(p / MANIFEST, lambda v: v["body"].update(tacenda="0.0.1")),
        "program",
    ),
    "the number of records": (
        lambda p, _: edit(
            p / "evidence.json", lambda v: v["facts"]["members"][0].update(records=6)
        ),
        "every number",
    ),
    "the unit": (
        lambda p, _: edit(
            p / "evidence.json", lambda v: v["facts"]["privacy"].update(unit="a person")
        ),
        "every number",
    ),
    "the coalition": (
        lambda p, _: edit(
            p / "evidence.json", lambda v: v["facts"]["privacy"].update(coalition=None)
        ),
        "every number",
    ),
    "a figure of the evaluation": (
        lambda p, _: edit(
            p / "evaluation.json", lambda v: v["measures"]["accuracy"].update(value=0.99)
        ),
        "evaluation",
    ),
    "less noise of the evaluation": (
        lambda p, _: edit(p / "evaluation.json", lambda v: v.update(noise=0.01)),
        "evaluation",
    ),
    "no list at all": (lambda p, _: (p / MANIFEST).write_text("[]"), "list of files"),
    "nested without end": (lambda p, _: (p / MANIFEST).write_text("[" * 9999), "list of files"),
}


@pytest.mark.parametrize("how", STRANGER)
def test_a_strangers_change_is_found(how: str, pack: Path, packs: Packs) -> None:
    change, where = STRANGER[how]
    change(pack, packs)
    found = check(pack)
    assert not found.ok
    assert where in wrong(found), wrong(found)


@pytest.mark.parametrize("how", ["the unit", "a charge less", "a file more", "a file less"])
def test_sealed_again_by_a_stranger(how: str, pack: Path, packs: Packs) -> None:
    STRANGER[how][0](pack, packs)
    sealed_again(pack, packs, "m1")
    assert "seal of the pack" in wrong(check(pack))


# ---- what a lying member can do: seal the changed pack again with its own key
LIAR = [
    *("epsilon in evidence.json", "epsilon in deployment.yaml", "a number of the page"),
    *("a word of the page", "a charge less", "a row of the ledger", "epsilon in statement.json"),
    *("a signature of the contract", "the number of records", "the unit", "the coalition"),
    *("a figure of the evaluation", "less noise of the evaluation"),
    *("epsilon in the contract", "statement of another member", "epsilon in certificate.json"),
]


@pytest.mark.parametrize("how", LIAR)
def test_a_members_own_change_is_found_too(how: str, pack: Path, packs: Packs) -> None:
    change, where = STRANGER[how]
    change(pack, packs)
    sealed_again(pack, packs)
    found = check(pack)
    assert "every file" not in wrong(found)  # the list is right again
    assert where in wrong(found), wrong(found)


def test_a_member_cannot_write_the_page_anew_from_false_numbers(pack: Path, packs: Packs) -> None:
    values = compose(pack)
    values["facts"]["privacy"]["epsilon"] = 0.1
    (pack / "evidence.json").write_text(json.dumps(values), "utf-8")
    (pack / "evidence.html").write_text(page(values), "utf-8")
    sealed_again(pack, packs)
    assert {"every number", "evidence.html"} <= wrong(check(pack)).keys()


def test_a_member_cannot_book_less_and_sign_it(pack: Path, packs: Packs) -> None:
    """Fewer charges with sound seals, a statement that it signed itself, and a new seal: then the
    statement's own epsilon is smaller, and only the ledger's rows tell; both forged agree, and the
    certificate, signed at the end of the run, does not."""
    from dataclasses import replace

    from tacenda.privacy.secrets.ledger import Charges
    from tacenda_node.evidence.facts import signed_statement
    from tacenda_node.evidence.signed_statement import write_statement

    contract, signed = signed_statement(pack)
    less = Charges((charge, 1) for charge, _ in signed.statement.charges)
    assert len(less) < len(signed.statement.charges)
    me = Identity.read(packs.keys / "m0")
    (pack / "statement.json").unlink()  # an honest node never writes it again
    write_statement(pack, replace(signed.statement, charges=less), contract, me)
    sealed_again(pack, packs)
    assert {"ledger", "epsilon of the ledger", "model"} <= wrong(check(pack)).keys()


def test_less_noise_than_the_contract_is_found(pack: Path, packs: Packs) -> None:
    """A member that charged honestly for noise that was too small."""
    from dataclasses import replace

    from tacenda.privacy.secrets.ledger import Charge, Charges
    from tacenda_node.evidence.facts import signed_statement
    from tacenda_node.evidence.signed_statement import write_statement

    contract, signed = signed_statement(pack)
    louder = Charges(
        (Charge(c.kind, {k: v * (2.0 if k == "mu" else 1.0) for k, v in c.parameters.items()}), n)
        for c, n in signed.statement.charges
    )
    me = Identity.read(packs.keys / "m0")
    (pack / "statement.json").unlink()
    write_statement(pack, replace(signed.statement, charges=louder), contract, me)
    rows, previous = [], "0" * 64
    for line in (pack / "ledger.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "charge":
            event = json.loads(row["event"])
            row["event"] = canonical_json({**event, "mu": 2.0 * event["mu"]})
        row["previous"] = previous
        row["hash"] = previous = chain.seal(previous, [row[name] for name in FIELDS])
        rows.append(canonical_json(row) + "\n")
    (pack / "ledger.jsonl").write_text("".join(rows))
    sealed_again(pack, packs)
    found = wrong(check(pack))
    assert "ledger" not in found  # it was booked as it was drawn
    assert {"noise against the contract's plan", "epsilon against the contract"} <= found.keys()


# ---- what only another channel can tell
def test_a_whole_new_contract_needs_the_real_one_to_be_found(packs: Packs, tmp_path: Path) -> None:
    forged = make(finished(tmp_path, **MASKED)["m0"], tmp_path / "pack")
    assert check(forged).ok  # all keys are the forger's own
    real = packs.mine / "contract" / "contract.toml"
    assert "contract" in wrong(check(forged, contract=real))
    key = contract_files.read(real).member("m1").signing_key
    assert "contract" in wrong(check(forged, keys={"m1": key}))
    assert check(packs.mine, contract=real, keys={"m1": key}).ok


def test_a_link_is_no_file(pack: Path, packs: Packs) -> None:
    (pack / "schema.toml").unlink()
    (pack / "schema.toml").symlink_to(packs.mine / "schema.toml")
    assert "link" in wrong(check(pack))["every file"]


def test_a_pack_is_never_written_over_another(packs: Packs) -> None:
    with pytest.raises(InputError, match="not empty"):
        make(packs.homes["m0"], packs.mine)
