"""Members whose run is over, for tests of evidence: real keys, a contract that all have signed, the
plan's charges in a real ledger, a signed statement and a model; no network and no rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from node_stage import signed_contract, small_contract, small_schema
from tacenda.evaluation.private import PrivateEvaluation
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.noise.keyed import KINDS
from tacenda.runtime.history import History
from tacenda.runtime.result import RunResult
from tacenda_node.evidence.checking import Checked
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.operate.settings import write_settings
from tacenda_node.peer.evaluation_plan import closing_plan, model_digest, statistic_of
from tacenda_node.peer.evaluation_run import Evaluated
from tacenda_node.peer.run_plan import RunPlan, make_plan
from tacenda_node.peer.saving import save_evaluation, save_folder
from tacenda_node.state.spending import EVALUATION, ledger_run

MASKED: dict[str, Any] = {
    "title": "Readmission within 30 days",
    "algorithm": {"name": "treegd"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "coalition": 1},
    "graph": "complete",
    "finish_mixing": "exact",
    "evaluation": {"held_out": 0.2},
}


def wrong(found: Checked) -> dict[str, str]:
    """What a check found to be different, by name."""
    return {line.what: line.found for line in found.lines if not line.ok}


def finished(folder: Path, n: int = 3, **changes: Any) -> dict[str, Path]:
    """The members' folders after the run, as `tacenda node run` leaves them."""
    contract, people = signed_contract(small_contract(n, **changes), folder / "keys")
    path = contract_files.write(contract, folder / "contract.toml")
    for who in people.values():
        contract_files.sign(path, who)
    small_schema().write(folder / "schema.toml")
    plan, relation = make_plan(contract), contract.privacy.adjacency
    homes = {}
    for name, who in people.items():
        home = homes[name] = folder / name
        home.mkdir()
        ledger = home / "ledger.sqlite"
        values = {
            "contract": path,
            "schema": folder / "schema.toml",
            "data": home / "records.csv",
            "identity": who.folder,
            "state": home / "state",
            "ledger": ledger,
        }
        write_settings(home, {k: v.resolve() for k, v in values.items()})
        book(ledger, ledger_run(contract, "0" * 8, name), name, plan.events(name), relation)
        result = result_of(plan, name)
        save_folder(home / "state", result, contract, small_schema(), who, {})
        if contract.evaluation is not None:
            found = evaluated(contract, result, name)
            run = ledger_run(contract, "0" * 8, f"{name}{EVALUATION}")
            book(ledger, run, f"{name}/held-out", found.privacy.ledger(0), relation)
            model = Evaluated(found, found.about["model"])
            save_evaluation(home / "state", result, model, contract, who)
    return homes


def book(ledger: Path, run: str, dataset: str, events: Any, relation: str) -> None:
    """A run in the ledger: its budget, its reservation, and every charge."""
    with LedgerStore(ledger) as store:
        store.set_budget(dataset, 20.0, 1e-5, relation)
        store.open_run(run, dataset, "test", relation, events)
        each = [event for event, count in events for _ in range(count)]
        store.charge_many(run, [([k + 1, 0], event) for k, event in enumerate(each)])
        store.close_run(run)


def evaluated(contract: Contract, result: RunResult, name: str) -> Any:
    """An evaluation of made-up sums, with the statement of the closing plan's charges."""
    assert contract.evaluation is not None
    digest = model_digest(result.models)
    plan = closing_plan(contract, digest)
    charges = plan.calibration.reserved.rows(np.array([contract.position(name)]))
    statement = plan.spec.statement(charges, KINDS[1], n_nodes=1)
    statistic = statistic_of(contract)
    records = sum(contract.held_out_size(each) for each in contract.names)
    about = {"title": contract.title, "contract": contract.hash(), "model": digest}
    return PrivateEvaluation(
        statistic,
        np.full(statistic.length, records / statistic.length),
        3.0,
        records,
        statement,
        tuple(contract.problem.classes or ()),
        level=contract.evaluation.confidence,
        about={**about, "members": contract.names, "held_out": contract.evaluation.held_out},
    )


def result_of(plan: RunPlan, name: str) -> RunResult:
    """A model of made-up weights, with the statement of the plan's charges."""
    contract: Contract = plan.contract
    place = contract.position(name)
    charges = plan.calibration.reserved.rows(np.array([place]))
    statement = plan.spec.statement(charges, KINDS[1], n_nodes=1)
    weights = np.arange(1.0, plan.spec.facts.dim + 1.0).reshape(1, -1)
    plain = plan.spec.to_plain()
    p = contract.problem
    problem = {"loss": p.loss, "classes": p.classes, "n_features": p.n_features}
    settings = {**plain, "problem": {**plain.get("problem", {}), **problem}, "versions": {}}
    return RunResult(weights, weights, History([]), statement, {**settings, "seed": None})
