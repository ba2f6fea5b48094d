"""What a member keeps of its run inside the state folder: the run folder, the signed statement and
what the evaluation found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacenda.data.schema import Schema
from tacenda.errors import StateError
from tacenda.formats.files import write_json, write_text
from tacenda.formats.text import toml
from tacenda.runtime.result import RunResult, load
from tacenda.runtime.run_folder import RunFolder
from tacenda_node.evidence.model_certificate import certify
from tacenda_node.evidence.signed_statement import write_statement
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.operate.policy import Approval
from tacenda_node.peer.evaluation_run import Evaluated
from tacenda_node.watch.observer import EVALUATION_FILE


def save_evaluation(
    folder: Path, result: RunResult, evaluated: Evaluated, contract: Contract, identity: Identity
) -> None:
    """What the evaluation found, and both statements signed anew, in the state folder."""

    write_json(folder / EVALUATION_FILE, evaluated.found.to_plain())
    assert result.privacy is not None and evaluated.found.privacy is not None
    found = (evaluated.model, evaluated.found.privacy)
    write_statement(folder, result.privacy, contract, identity, found)


def result_file(folder: Path, contract: Contract, name: str) -> Path:
    """Where a member's result lies in its state folder."""
    return RunFolder(folder).result_path(f"{contract.algorithm.name}-{name}")


def save_folder(
    folder: Path,
    result: RunResult,
    contract: Contract,
    schema: Schema,
    identity: Identity,
    caught: dict[str, str],
    approvals: Sequence[Approval] = (),
) -> None:
    """The run folder that reports and predictions read, inside the state folder: what this member
    may know, who was caught lying and what its officer has approved; with the signed statement of
    what was spent, which is made to be shown and holds nothing of the policy."""

    home, run = RunFolder(folder).make(), f"{contract.algorithm.name}-{identity.name}"
    target = home.save(run, result)
    if load(target).models.shape != result.models.shape:
        raise StateError(
            f"The result {target} was not written whole; free disk space and start the node again."
        )
    if result.privacy is not None:
        certify(target, identity, contract)
    schema.write(home.schema_path)
    write_text(home.config_path, toml(contract.to_plain()))
    epsilon = None if result.privacy is None else result.privacy.to_plain()["epsilon"]
    if result.privacy is not None:
        write_statement(folder, result.privacy, contract, identity)
    manifest = {
        "contract": contract.hash(),
        "caught": caught,
        "approvals": [vars(one) for one in approvals],
        "warnings": result.warnings,
        "command": "node run",
        "versions": result.settings["versions"],
        "dataset": {
            "name": "this member's own records",
            "notes": ["nothing is shown of records that stay on site"],
            "classes": contract.problem.classes,
            "feature_names": list(schema.feature_names),
        },
        "table": [{"run": run, "epsilon": epsilon, "rounds": result.rounds}],
        "results": [
            {
                "label": run,
                "algorithm": contract.algorithm.name,
                "seed": None,
                "file": f"results/{run}.safetensors",
            }
        ],
    }
    home.finish({run: result}, manifest)
