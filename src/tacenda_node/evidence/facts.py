"""`gather`: the numbers of a pack, from the files in it and from nothing else.

The same function fills a new pack and recomputes an old one: epsilon by the accountant from the
charges, the plan from the contract. What it finds to be wrong it says by an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.errors import StateError
from tacenda.evaluation.private import PrivateEvaluation
from tacenda.formats.text import readable_json, strict
from tacenda.privacy.accounting.events import Event, merged
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.privacy.statement import UNIT, Statement
from tacenda.report.account import Account
from tacenda.words import against
from tacenda_node.evidence.bill import versions
from tacenda_node.evidence.signed_statement import SignedStatement, verify_statement
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.operate.archive import ledger_charges
from tacenda_node.peer.evaluation_plan import statistic_of
from tacenda_node.peer.run_plan import RunPlan, make_plan
from tacenda_node.state.spending import is_evaluation_of, is_run_of

CONTRACT = "contract/contract.toml"
STATEMENT, LEDGER, SCHEMA = "statement.json", "ledger.jsonl", "schema.toml"
CERTIFICATE, EVALUATION, AUDIT = "certificate.json", "evaluation.json", "audit.json"
BILL, ORGANISATION, SIMULATED = "sbom.cdx.json", "organisation.json", "simulation.json"
GRID = 1e-6  # relative: what two machines' accountants may differ by
LATTICE = 1e-3  # relative: what rounding noise up to whole numbers may take off epsilon


def gather(folder: Path) -> dict[str, Any]:
    """The facts of a pack."""
    found = _simulated(folder) if (folder / SIMULATED).is_file() else _deployed(folder)
    bill = read_json(folder / BILL)
    found["audit"] = read_json(folder / AUDIT) if (folder / AUDIT).is_file() else None
    found["software"] = versions(bill)
    return dict(strict(found))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of the pack, in the form in which it was written: with no name twice, of which
    a person would read the first and a program the last."""
    try:
        text = path.read_text("utf-8")
        values = json.loads(text)
        if text != readable_json(values) + "\n":
            raise StateError(f"{path.name} is not in the form in which the program writes it.")
    except FileNotFoundError:
        raise StateError(f"{path.name} is missing.") from None
    except (ValueError, RecursionError):
        raise StateError(f"{path.name} is not readable JSON.") from None
    if not isinstance(values, dict):
        raise StateError(f"{path.name} must hold a JSON object.")
    return values


# ---- a run of members
def signed_statement(folder: Path) -> tuple[Contract, SignedStatement]:
    """The contract and the statement, whose signature and figures hold."""
    contract = contract_files.read(folder / CONTRACT)
    return contract, verify_statement(folder / STATEMENT, contract)


def _deployed(folder: Path) -> dict[str, Any]:
    contract, signed = signed_statement(folder)
    plan = make_plan(contract)
    valid = set(contract_files.signatures(folder / CONTRACT))
    charges = booked(folder, contract, signed.member, is_run_of)
    statement, place = signed.statement, contract.position(signed.member)
    certificate = read_json(folder / CERTIFICATE) if (folder / CERTIFICATE).is_file() else None
    spec = plan.spec
    return {
        **_promise(statement),
        "simulation": contract.rehearsal_seed is not None,
        "title": contract.title,
        "member": signed.member,
        "signed_at": signed.signed_at,
        "contract": contract.hash(),
        "run": contract.run_id(),
        "schema": contract.schema_hash,
        "members": [
            {
                "name": m.name,
                "records": m.size,
                "held_out": contract.held_out_size(m.name),
                "signing_key": m.signing_key,
                "signed": m.name in valid,
                "neighbours": contract.neighbours(m.name),
            }
            for m in contract.members
        ],
        "left": list(contract.left or ()),
        "nodes": len(contract.members),
        "records": sum(m.size for m in contract.members),
        "rounds": contract.rounds,
        "algorithm": spec.to_plain()["algorithm"],
        "problem": {
            k: v
            for k, v in contract.problem.model_dump(mode="json", exclude_none=True).items()
            if k != "radius"
        },
        "preparation": contract.preparation,
        "on_lattice": plan.on_lattice,
        "absence": contract.absence.model_dump(mode="json"),
        "promised": {
            "epsilon": contract.privacy.epsilon,
            "delta": contract.privacy.delta,
            "coalition": contract.privacy.coalition,
        },
        "ledger": _ledger(folder / LEDGER, charges, statement),
        "plan": {
            "epsilon": composed(statement, plan.events(signed.member)).epsilon,
            "releases": _listed(plan.events(signed.member)),
            "as_planned": as_planned(statement, plan, place),
        },
        "model": None if certificate is None else certificate["body"]["model"],
        "tables": _tables(contract, statement, plan),
        "evaluation": _evaluation(folder, contract, signed),
    }


def _tables(contract: Contract, statement: Statement, plan: RunPlan) -> list[dict[str, Any]]:
    """What was spent on each table: its share of the run's budget, and what it costs alone."""
    parts, events = contract.table_parts(), statement.charges.each()
    if not parts:
        return []
    own = Charges((one, 1) for one in events)
    if contract.has_training:  # the last release of the first round
        own = Charges([(list(statement.charges.each())[plan.releases[0] - 1], 1)])
    alone = replace(statement, charges=own, n_nodes=1).epsilon
    total = sum(part.get("share", 1.0) for part in parts.values())
    whole = contract.tables_share if contract.has_training else 1.0
    return [
        {
            "table": name,
            "by": part.get("by"),
            "share": whole * part.get("share", 1.0) / total,
            "epsilon": alone,
            "with": sorted(parts.keys() - {name}),
        }
        for name, part in parts.items()
    ]


def booked(
    folder: Path, contract: Contract, member: str, is_one: Callable[[str, Contract, str], bool]
) -> list[tuple[Event, int]]:
    """The charges of one run in the ledger's rows."""
    return ledger_charges(folder / LEDGER, lambda run: is_one(run, contract, member))


def released_evaluation(
    folder: Path, contract: Contract, signed: SignedStatement
) -> PrivateEvaluation | None:
    """The evaluation, if the contract has one and it was made: its measures and intervals computed
    again from the released sums, and its terms those of the contract."""
    if not (folder / EVALUATION).is_file() and signed.evaluation is None:
        if booked(folder, contract, signed.member, is_evaluation_of):
            raise StateError(f"{LEDGER} holds charges of an evaluation that is not in the pack.")
        return None
    if contract.evaluation is None or signed.evaluation is None:
        raise StateError(
            f"{EVALUATION} is there, and the contract or the statement knows no evaluation."
        )

    values = read_json(folder / EVALUATION)
    try:
        found = PrivateEvaluation.from_plain(values)
        again = json.loads(json.dumps(strict(found.to_plain())))
    except (KeyError, TypeError, ValueError, IndexError):
        raise StateError(f"{EVALUATION} does not hold a whole evaluation.") from None
    compare(again, values, EVALUATION)
    stated = read_json(folder / STATEMENT)["body"]["evaluation"]
    took_part = found.about["members"]
    if [name for name in contract.names if name in took_part] != took_part or (
        contract.absence.policy != "continue" and took_part != contract.signatories
    ):
        raise StateError(f"{EVALUATION} is by other members than those of the contract.")
    held = sum(contract.held_out_size(name) for name in found.about["members"])
    public = contract.privacy.adjacency == "replace-one"
    agreed = {
        # Bins lie where the model's scores are, which moves no charge
        "statistic": statistic_of(contract, getattr(found.statistic, "edges", None)).to_plain(),
        "level": contract.evaluation.confidence,
        "records": held if public else None,
        "privacy": stated["privacy"],
    }
    compare(json.loads(json.dumps(strict(agreed))), {k: values[k] for k in agreed}, EVALUATION)
    about = {"contract": contract.hash(), "model": stated["model"]}
    compare(about, {k: found.about.get(k) for k in about}, f"{EVALUATION}, about")
    return found


def _evaluation(folder: Path, contract: Contract, signed: SignedStatement) -> Any:
    found = released_evaluation(folder, contract, signed)
    if found is None or found.privacy is None:
        return None
    p = found.privacy
    return {
        "epsilon": p.epsilon,
        "delta": p.delta,
        "against": against(p.curve().coalition),
        "records": found.records,
        "level": found.level,
        "measures": [str(measure) for measure in found.measures.values()],
    }


def composed(statement: Statement, events: Iterable[tuple[Event, int]]) -> Statement:
    """What other charges would guarantee for the same unit, relation and delta: the accountant's
    own composition."""
    charges = Charges(
        (
            Charge(
                type(event),
                {one.name: np.array([float(getattr(event, one.name))]) for one in fields(event)},
            ),
            count,
        )
        for event, count in events
    )
    return replace(statement, charges=charges, n_nodes=1)


def as_planned(statement: Statement, plan: RunPlan, place: int) -> bool:
    """Whether the charges are, one by one, those of the plan: a finished run has made every
    release, none with less noise, and none with more than rounding adds."""
    planned = [charge.rows(np.array([place])) for charge in plan.calibration.reserved.each()]
    made = list(statement.charges.each())
    if len(made) != len(planned) or not all(
        one.covered_by(other) for one, other in zip(made, planned, strict=True)
    ):
        return False
    agreed = replace(statement, charges=Charges((one, 1) for one in planned), n_nodes=1).epsilon
    return agreed <= statement.epsilon * (1 + LATTICE)


def _ledger(path: Path, charges: list[tuple[Event, int]], statement: Statement) -> dict[str, Any]:
    """What the ledger's rows say about the run."""
    epsilon = composed(statement, charges).epsilon if charges else 0.0
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {
        "rows": len(rows),
        "releases": sum(count for _, count in charges),
        "epsilon": epsilon,
        "accounts": sorted({str(row["dataset"]) for row in rows if row["dataset"]}),
        "budgets": [
            {"account": row["dataset"], **json.loads(row["body"])}
            for row in rows
            if row["kind"] == "budget"
        ],
    }


# ---- a simulation
def _simulated(folder: Path) -> dict[str, Any]:
    values = read_json(folder / SIMULATED)
    try:
        statement = Statement.from_plain(values["privacy"])
        settings = values["settings"]
        sizes = [int(size) for size in settings["problem"]["sizes"]]
        releases = len(statement.charges)
        return {
            **_promise(statement),
            "simulation": True,
            "title": str(values["name"]),
            "member": None,
            "signed_at": str(values["created"]),
            "contract": None,
            "run": str(values["run"]),
            "schema": None,
            "members": [],
            "left": [],
            "nodes": len(sizes),
            "records": sum(sizes),
            "rounds": int(settings["rounds"]),
            "algorithm": settings["algorithm"],
            "problem": {k: v for k, v in settings["problem"].items() if k != "sizes"},
            "preparation": None,
            "on_lattice": False,
            "absence": None,
            "promised": {"epsilon": statement.target, "delta": statement.delta, "coalition": None},
            "ledger": {
                "rows": 0,
                "releases": releases,
                "epsilon": statement.epsilon,
                "accounts": [],
                "budgets": [],
            },
            "plan": None,
            "model": None,
            "tables": [],
            "evaluation": None,
        }
    except (KeyError, TypeError, ValueError, IndexError):
        raise StateError(f"{SIMULATED} does not describe a whole run.") from None


# ---- both
def _promise(statement: Statement) -> dict[str, Any]:
    account = Account.of(statement, {})
    plain = statement.to_plain()
    final = statement.final_model()
    return {
        "privacy": {
            "epsilon": account.epsilon,
            "delta": account.delta,
            "relation": statement.adjacency,
            "unit": plain["unit"],
            **({"groups": statement.groups} if statement.groups > 1 else {}),
            "coalition": account.curve.coalition,
            "against": against(account.curve.coalition),
            "accountant": account.curve.accountant,
            "mode": statement.mode,
            "noise": statement.noise,
            "best_guess": account.best_guess,
            "final_model_epsilon": final.epsilon,
            "final_model_why": final.why,
            # Where a person is the unit, all of its records are covered
            "several_records": [
                {"records": size, "epsilon": epsilon}
                for size, epsilon in (account.groups((2, 5)) if statement.unit == UNIT else ())
            ],
        },
        "releases": _listed(statement.charges.events(account.worst_node)),
    }


def _listed(events: Iterable[tuple[Event, int]]) -> list[dict[str, Any]]:
    return [{**event.to_dict(), "count": count} for event, count in events]


def same_charges(statement: Statement, charges: list[tuple[Event, int]]) -> bool:
    """Whether the ledger's charges are exactly those of the statement, in whatever order."""
    return dict(merged(statement.charges.events(0))) == dict(merged(charges))


def compare(wanted: Any, found: Any, where: str) -> None:
    """StateError at the first place where two plain values differ; numbers up to GRID."""
    for path, one, other in _differences(wanted, found, ""):
        raise StateError(f"{where}, {path or 'the whole'}: says {other!r}, computed was {one!r}.")


def _differences(wanted: Any, found: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in {**wanted, **found}:
            place = f"{path}.{name}" if path else str(name)
            if name not in wanted or name not in found:
                yield place, wanted.get(name, "nothing"), found.get(name, "nothing")
            else:
                yield from _differences(wanted[name], found[name], place)
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for k, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(one, other, f"{path}[{k}]")
    elif (
        isinstance(wanted, float)
        and isinstance(found, (int, float))
        and not isinstance(found, bool)
    ):
        if not math.isclose(wanted, found, rel_tol=GRID):
            yield path, wanted, found
    elif type(wanted) is not type(found) or wanted != found:
        yield path, wanted, found
