"""`make`: a folder of evidence about one run.

    evidence.html        to read, print and sign
    evidence.json        the same for programs
    deployment.yaml      for the registry of deployments of differential privacy
    contract/            the contract with all members' signatures, and its amendments
    statement.json       the member's signed privacy statement, with every charge
    ledger.jsonl         the rows of this run in the member's ledger
    certificate.json     of the model, as it stands in the model's own file
    schema.toml          the public description of the records
    sbom.cdx.json        what the program consists of (CycloneDX)
    organisation.json    what the organisation has declared
    audit.json, evaluation.json     where there are such results
    manifest.json        every file with its SHA-256, signed by the member

Of a simulation there are no contract, ledger and signature; simulation.json takes their place, and
every page says what it is.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacenda._version import RELEASE
from tacenda.errors import InputError
from tacenda.formats.files import write_bytes, write_json, write_text
from tacenda.formats.text import canonical_json
from tacenda.runtime.run_folder import RunFolder, run_name
from tacenda.terms.method import SETTINGS
from tacenda_node.evidence.annexes import (
    NOT_PROVED,
    NOT_PROVED_SIMULATION,
    impact_assessment,
    processing_record,
)
from tacenda_node.evidence.bill import bill_of_materials
from tacenda_node.evidence.facts import (
    AUDIT,
    BILL,
    CERTIFICATE,
    EVALUATION,
    LEDGER,
    ORGANISATION,
    SCHEMA,
    SIMULATED,
    STATEMENT,
    gather,
    read_json,
)
from tacenda_node.evidence.hazards import audit_words, hazards
from tacenda_node.evidence.health_data import health_data_annex
from tacenda_node.evidence.model_certificate import certify, read_certificate
from tacenda_node.evidence.organisation import checked, read_organisation
from tacenda_node.evidence.page import page
from tacenda_node.evidence.registry import deployment, yaml
from tacenda_node.evidence.wording import SIMULATION
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.operate.archive import hashes, ledger_extract
from tacenda_node.operate.settings import FILE as NODE_FILE
from tacenda_node.operate.settings import NodeSettings, read_settings

MANIFEST, FORMAT = "manifest.json", "tacenda-evidence-1"
HTML, JSON, YAML = "evidence.html", "evidence.json", "deployment.yaml"
KEPT_SETTINGS = ("algorithm", *(s.name for s in SETTINGS))
_PREFIX = b"tacenda evidence v1\0"


def make(
    run: str | Path,
    folder: str | Path,
    *,
    organisation: str | Path | None = None,
    audit: str | Path | None = None,
    name: str | None = None,
) -> Path:
    """Write the evidence pack of a finished run into a new folder.

    Parameters
    ----------
    run : str or Path
        A member's folder with its node.toml, or the run folder of a simulation.
    folder : str or Path
        The folder to write; it must be new or empty.
    organisation : str, Path or None, default=None
        TOML file with what only the organisation can say (`organisation_form`); without it those
        places are marked blanks.
    audit : str, Path or None, default=None
        JSON file that `tacenda audit --out` wrote.
    name : str or None, default=None
        Which run of a simulation's folder; by default its only private one.

    Raises
    ------
    InputError
        If there is no finished run, or it promises nothing.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda_node import evidence
    >>> try:
    ...     evidence.make("no-such-run", "pack")
    ... except tc.errors.InputError as error:
    ...     print(str(error).split(";")[0])
    There is no run at no-such-run
    """
    source, target = Path(run), Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"The folder {target} is not empty; choose a new one with -o.")
    said = read_organisation(organisation)
    found = None if audit is None else _audit(Path(audit))
    real = source.name == NODE_FILE or (source / NODE_FILE).is_file()
    if not real and not (source / "manifest.json").is_file():
        raise InputError(
            f"There is no run at {source}; give a member's folder with its {NODE_FILE}, or the run "
            "folder of a simulation."
        )
    identity = None
    if real:
        if name is not None:
            raise InputError("--run is for a simulation's folder; a member's folder has one run.")
        settings = read_settings(source)
        identity = Identity.read(settings.identity)
        about = _copy_run(settings, identity, target)
    else:
        about = _copy_simulation(source, target, name)
    write_json(target / BILL, bill_of_materials())
    write_json(target / ORGANISATION, said)
    if found is not None:
        write_json(target / AUDIT, found)
    values = compose(target)
    write_json(target / JSON, values)
    write_text(target / YAML, yaml(deployment(values)))
    write_text(target / HTML, page(values))
    seal(target, about, identity)
    return target


def compose(folder: Path) -> dict[str, Any]:
    """All that the page says, from the other files of the pack."""
    facts = gather(folder)
    facts["tacenda"] = str(facts["software"]["tacenda"])
    given = checked(read_json(folder / ORGANISATION), ORGANISATION)
    simulated = facts["simulation"]
    return {
        "format": FORMAT,
        "warning": SIMULATION if simulated else None,
        "facts": facts,
        "organisation": given,
        "hazards": hazards(facts, given),
        "impact_assessment": impact_assessment(facts, given),
        "processing_record": processing_record(facts, given),
        "health_data": health_data_annex(facts, given),
        "not_proved": [*(NOT_PROVED_SIMULATION if simulated else ()), *NOT_PROVED],
    }


def seal(folder: Path, about: dict[str, Any], identity: Identity | None) -> Path:
    """The list of all files with their hashes, signed by the member if there is one."""
    body = {
        **about,
        "tacenda": RELEASE,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": hashes(folder, MANIFEST),
    }
    signature = None if identity is None else identity.sign_text(sealed_text(body))
    return write_json(folder / MANIFEST, {"format": FORMAT, "body": body, "signature": signature})


def sealed_text(body: dict[str, Any]) -> bytes:
    """What a member signs when it seals a pack."""
    return _PREFIX + canonical_json(body).encode()


# ---- inside
def _copy_run(settings: NodeSettings, identity: Identity, target: Path) -> dict[str, Any]:
    state = settings.state
    if not (state / STATEMENT).is_file():
        raise InputError(
            f"{state} holds no {STATEMENT}, so this run has no result yet; wait until it is over."
        )
    signed = read_json(state / STATEMENT)
    # The member's own copy, and the text in force with the signatures that travelled
    places = [p for p in (settings.contract, state / "contract.toml") if p.is_file()]
    agreed = str(signed.get("body", {}).get("contract"))
    texts = {p: c for p in places if (c := contract_files.read(p)).hash() == agreed}
    if not texts:
        raise InputError(
            f"{settings.contract} is not the contract of {state / STATEMENT}; give the folder of "
            "the run."
        )
    contract = next(iter(texts.values()))
    by_member = {k: v for path in texts for k, v in contract_files.signatures(path).items()}
    (target / "contract").mkdir(parents=True, exist_ok=True)
    contract_files.write_signed(contract, by_member, target / "contract")
    sources = {
        STATEMENT: state / STATEMENT,
        SCHEMA: settings.schema,
        EVALUATION: state / EVALUATION,
    }
    own = settings.contract
    for path in own.parent.glob(f"{own.stem}.amendment-*"):
        sources[f"contract/{path.name.replace(own.stem, 'contract', 1)}"] = path
    for place, path in sources.items():
        if path.is_file():
            write_bytes(target / place, path.read_bytes())
    head, lines = ledger_extract(settings, contract, identity.name)
    write_text(target / LEDGER, "".join(f"{line}\n" for line in lines))
    models = sorted(state.glob("results/*.safetensors"))
    if len(models) == 1:
        write_json(target / CERTIFICATE, read_certificate(models[0]))
    return {
        "member": identity.name,
        "contract": contract.hash(),
        "run": contract.run_id(),
        "ledger_head": list(head),
    }


def _copy_simulation(source: Path, target: Path, name: str | None) -> dict[str, Any]:
    home = RunFolder.open(source)
    manifest, ledger = home.manifest(), home.ledger()
    if "contract" in manifest:
        raise InputError(
            f"{source} is the state of a member; give the member's folder with its {NODE_FILE}, "
            "whose key signs the pack."
        )
    entries = {run_name(entry): entry for entry in manifest["results"]}
    private = [run for run in entries if run in ledger]
    if name is None and len(private) != 1:
        raise InputError(
            f"{source} holds {len(private) or 'no'} private runs; "
            + (f"choose one with --run: {', '.join(private)}." if private else "fit one first.")
        )
    chosen = name or private[0]
    if chosen not in private:
        raise InputError(f"--run must be one of {', '.join(private)}, not {chosen!r}.")
    if not isinstance(ledger[chosen]["epsilon"], float):
        raise InputError(f"The run {chosen} promises nothing, so there is no evidence to give.")
    settings = home.result(entries[chosen]).settings
    problem = settings["problem"]
    target.mkdir(parents=True, exist_ok=True)
    # No seed, which takes the noise off and is a part of the run's name, and no measure, which was
    # read without noise
    label = str(entries[chosen].get("label", settings["algorithm"]["name"]))
    values = {
        "name": f"{source.resolve().name}: {label}",
        "run": label,
        "created": str(manifest["created"]),
        "privacy": ledger[chosen],
        "settings": {
            **{k: settings.get(k) for k in KEPT_SETTINGS},
            "problem": {k: v for k, v in problem.items() if not isinstance(v, dict)},
            "graph": {k: settings["graph"].get(k) for k in ("name", "n")},
        },
    }
    write_json(target / SIMULATED, values)
    return {"member": None, "contract": None, "run": label}


def _audit(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
        audit_words(values)
    except FileNotFoundError:
        raise InputError(f"There is no audit at {path}; `tacenda audit --out` writes it.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"{path} is not the result of an audit; `tacenda audit --out` writes it."
        ) from None
    return dict(values)


__all__ = ["certify", "compose", "make", "seal", "sealed_text"]
