"""`deployment.yaml`: the run in the form of the registry of deployments of differential privacy
(github.com/opendp/deployments-registry-data), to be completed and submitted by the organisation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tacenda.words import against
from tacenda_node.evidence.wording import blank, mechanism_words, not_public, unit_details

TIER = 3


def deployment(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as plain values."""
    facts, given = evidence["facts"], evidence["organisation"]
    p, simulated = facts["privacy"], facts["simulation"]
    mark = "A SIMULATION, not a deployment. " if simulated else ""
    members = [m["name"] for m in facts["members"]]
    basic = {
        "name": f"{mark}{facts['title']}",
        "data_curators": members or [blank("controller")],
        "intended_use": given.get("purpose") or blank("purpose"),
        "data_product_type": "Machine learning model",
        "data_product_region": given.get("region") or blank("region"),
        "description": f"{mark}{_description(facts)}",
        "publication_date": str(facts["signed_at"])[:10],
    }
    if given.get("sector"):
        basic["data_product_sector"] = given["sector"]
    pure = p["accountant"].startswith("pure") and p["delta"] == 0
    found = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", facts["title"].lower()).strip("-") or "run",
        "status": "Draft",
        "tier": TIER,
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": "Pure DP" if pure else "Approximate DP",
                "data_domain": (
                    f"At each member, records of {facts['problem']['n_features']} features within "
                    "bounds that a public schema declares"
                    + (f" (SHA-256 {facts['schema']})." if facts["schema"] else ".")
                ),
                "unprotected_quantities": not_public(facts),
            },
            "privacy_loss": {
                "privacy_unit": p["unit"],
                "privacy_unit_details": unit_details(facts),
                "privacy_parameters": {"epsilon": p["epsilon"], "delta": p["delta"]},
                "privacy_parameters_details": (
                    f"For the whole run, all rounds together, against {p['against']}. Composed by "
                    f"the accountant {p['accountant']} from every charge in the ledger."
                ),
            },
            "deployment_model": {
                "model_name": "Federated",
                "model_name_details": (
                    "No server: members exchange noisy messages with their neighbours only."
                ),
                "actors": _actors(facts),
                "release_type": "One release",
                "release_type_details": (
                    "Every further use of the same records is charged to the same ledger, and is "
                    "refused beyond its budget."
                ),
                "data_source_type": "Static",
                "data_source_type_details": "The records are fixed before the first round.",
                "access_type": "Non-interactive",
                "access_type_details": "All questions to the records are in the contract.",
            },
            "accounting": {
                "post_processing": (
                    "Mixing, averaging, the steps of the algorithm and all figures of the report "
                    "are computed from released values."
                ),
                "composition": (
                    f"Adaptive composition of {facts['ledger']['releases']} releases per member "
                    f"by the accountant {p['accountant']}; members hold different records, so "
                    f"their losses do not add up."
                ),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": (
                    "Bounds, classes and hyperparameters were declared in the signed contract "
                    "before any record was read. Whether somebody looked at the records to choose "
                    "them cannot be proved by a program: "
                    f"{given.get('tuning') or blank('tuning')}"
                ),
                "mechanisms": mechanism_words(facts),
                "justification": given.get("why_this_epsilon") or blank("why_this_epsilon"),
            },
            "administrative": {
                "notes": f"{mark}Filled in from the evidence pack of the run {facts['run'][:16]}.",
                "registry_authors": [given.get("author") or blank("author")],
            },
        },
    }
    return found


def yaml(values: Mapping[str, Any], indent: int = 0) -> str:
    """Plain values as YAML: text always in double quotes, which is JSON's own form."""
    pad, lines = " " * indent, []
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines.append(f"{pad}{name}:\n{yaml(value, indent + 2)}")
        elif isinstance(value, list):
            items = "".join(f"{pad}  - {_scalar(one)}\n" for one in value)
            lines.append(f"{pad}{name}:\n{items}")
        else:
            lines.append(f"{pad}{name}: {_scalar(value)}\n")
    return "".join(lines)


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 readers take 1e-05 for text
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    return json.dumps(value, ensure_ascii=True)


def _description(facts: Mapping[str, Any]) -> str:
    problem = facts["problem"]
    held = len(facts["members"]) or facts["nodes"]
    return (
        f"A linear model (loss {problem['loss']}) of {problem['n_features']} features, learnt "
        f"together by {held} holders of data with {facts['records']} records, by "
        f"{facts['algorithm']['name']} in {facts['rounds']} rounds, without a server."
    )


def _actors(facts: Mapping[str, Any]) -> str:
    coalition = facts["privacy"]["coalition"]
    trust = (
        "no member needs to trust another for the privacy of its records"
        if coalition is None
        else f"the promise holds against {against(coalition)}"
    )
    return (
        f"Members hold the records and run the program; {trust}. Eavesdroppers may see every "
        "message. Who receives the model needs no trust."
    )
