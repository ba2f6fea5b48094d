"""The hazards that NIST SP 800-226 (Near, Darais, Lefkovitz and Howarth, Guidelines for Evaluating
Differential Privacy Guarantees, March 2025) asks an evaluator to look for, held against one run.

The order is that of the publication: the guarantee itself (its section 2), the algorithms (3), the
deployment (4). The words are ours, and so is the division into points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacenda.report.numbers import epsilon as shown
from tacenda_node.evidence.wording import blank, mechanism_words, not_public, unit_details

APPLIES, ABSENT, OPEN = "applies", "does not apply", "for the organisation"
LARGE = 5.0  # an epsilon above this protects an individual hardly by itself
Row = dict[str, str]


def hazards(facts: Mapping[str, Any], given: Mapping[str, str]) -> list[Row]:
    """Every point: whether it applies, what was done, and where the proof is."""
    return [*_guarantee(facts, given), *_algorithm(facts, given), *_deployment(facts, given)]


def _row(part: str, hazard: str, state: str, done: str, proof: str) -> Row:
    return {"part": part, "hazard": hazard, "state": state, "done": done, "proof": proof}


def _guarantee(facts: Mapping[str, Any], given: Mapping[str, str]) -> list[Row]:
    p, part = facts["privacy"], "The guarantee (its section 2)"
    epsilon = p["epsilon"]
    strength = (
        "This epsilon is large: by itself it hardly protects an individual. Say why it is enough."
        if epsilon > LARGE
        else "Compare it with the registry of deployments before you sign."
    )
    several = "; ".join(
        f"{one['records']} records: epsilon {shown(one['epsilon'])}"
        for one in p["several_records"]
        if isinstance(one["epsilon"], float)
    )
    return [
        _row(
            part,
            "Epsilon too large to protect anybody",
            APPLIES,
            f"Epsilon {shown(epsilon)} at delta {p['delta']:g}. The best possible observer guesses "
            f"right with probability at most {p['best_guess']:.1%}, a coin 50 %. {strength} "
            f"{given.get('why_this_epsilon') or blank('why_this_epsilon')}",
            "statement.json, recomputed from ledger.jsonl",
        ),
        _row(
            part,
            "Delta so large that one record may be shown as it is",
            APPLIES,
            f"Delta {p['delta']:g} times {facts['records']} records is "
            f"{p['delta'] * facts['records']:.2g}"
            + (
                "; it should be far below 1."
                if p["delta"] * facts["records"] < 0.1
                else ": too large, because it should be far below 1. Ask for a smaller delta."
            ),
            "contract field privacy.delta",
        ),
        _row(
            part,
            "A variant that cannot be compared with others",
            APPLIES,
            f"Stated as (epsilon, delta), composed by the accountant {p['accountant']}; the "
            "whole curve can be computed from the charges.",
            "ledger.jsonl; docs: true-epsilon",
        ),
        _row(
            part,
            "The unit of privacy protects less than a person",
            APPLIES,
            f"The unit is {p['unit']}. "
            + (f"Somebody with several is protected less: {several}." if several else ""),
            "statement.json field unit; contract.toml; decision 0028",
        ),
        _row(
            part,
            "Neighbouring data sets: what stays public",
            APPLIES,
            f"{unit_details(facts)} {not_public(facts)}",
            "contract field privacy.adjacency",
        ),
        _row(
            part,
            "Losses of several analyses that are not added up",
            APPLIES,
            (
                "All runs on these records are charged to one lasting ledger before anything is "
                f"drawn; budgets: {_budgets(facts)}."
                if not facts["simulation"]
                else "A simulation is charged to a lasting ledger only where one is named."
            ),
            "ledger.jsonl; `tacenda ledger verify`; decision 0014",
        ),
        _row(
            part,
            "Releases without differential privacy beside it",
            OPEN,
            "The program releases nothing else of the records"
            + (
                ", except for the measures of a simulation, which are read without noise. "
                if facts["simulation"]
                else ". "
            )
            + "Other publications about the same people are not known to it.",
            "decision 0001 (one door); tests/leak",
        ),
    ]


def _algorithm(facts: Mapping[str, Any], given: Mapping[str, str]) -> list[Row]:
    part, problem = "The algorithm (its section 3)", facts["problem"]
    evaluated = facts["evaluation"] is not None
    return [
        _row(
            part,
            "Sensitivity that is wrong, or taken from the data",
            APPLIES,
            f"Rows are bounded by the declared norm {problem.get('data_norm', 1.0):g} and the "
            "schema's bounds; each term is clipped by the program, for every number a file can "
            "hold.",
            "contract field problem; tests/privacy/secrets/test_sensitivity.py; decision 0011",
        ),
        _row(
            part,
            "Bounds, levels or settings chosen by looking at the records",
            APPLIES if not facts["simulation"] else OPEN,
            "All are declared in a contract that was signed before a record was read; private "
            "bounds are charged. Whether somebody looked elsewhere cannot be proved.",
            "contract.toml and its signatures; decision 0018",
        ),
        _row(
            part,
            "Noise that makes the result useless, or looks precise",
            APPLIES,
            "Figures on held-out records, with intervals that include the noise, are in "
            "evaluation.json."
            if evaluated
            else "No private evaluation is part of this pack: it does not say how accurate the "
            "model is.",
            "evaluation.json" if evaluated else "none",
        ),
        _row(
            part,
            "Bias: groups that are served worse",
            OPEN,
            "Noise and clipping harm small groups more. The program does not measure groups; do "
            "so before the model is used.",
            "none",
        ),
        _row(
            part,
            "Learning in many rounds: loss that grows with each",
            APPLIES,
            f"{facts['rounds']} rounds with {facts['ledger']['releases']} charged releases per "
            "member; the noise was calibrated for all of them before the first.",
            "the plan, recomputed from contract.toml; decision 0002",
        ),
        _row(
            part,
            "Hyperparameters tuned on the records without a charge",
            OPEN,
            "The contract fixes them. A search on the records is charged where the program makes "
            "it; one made elsewhere is not known to it. "
            f"{given.get('tuning') or blank('tuning')}",
            "contract field algorithm; decision 0025",
        ),
        _row(
            part,
            "Synthetic data taken for the records",
            ABSENT,
            "No synthetic data are released.",
            "contract.toml",
        ),
        _row(
            part,
            "Unstructured data, for which no unit is clear",
            ABSENT,
            "Records are rows of a table with a declared schema.",
            "schema.toml" if not facts["simulation"] else "the configuration",
        ),
    ]


def _deployment(facts: Mapping[str, Any], given: Mapping[str, str]) -> list[Row]:
    p, part = facts["privacy"], "The deployment (its section 4)"
    real = not facts["simulation"]
    return [
        _row(
            part,
            "Queries that anybody may ask",
            ABSENT,
            "There is no interface for queries: every question is in the contract.",
            "contract.toml",
        ),
        _row(
            part,
            "Trust in a curator, or in the other members",
            APPLIES,
            f"No curator: records never leave their member. The promise holds against "
            f"{p['against']}.",
            "contract field privacy.coalition; docs: officers, threat-model",
        ),
        _row(
            part,
            "Members who lie or stay away",
            APPLIES if real else ABSENT,
            "Messages are signed and compared; a member that sends two different ones is "
            "convicted by its own signatures. A lying member can spoil the model, not the others' "
            "privacy."
            if real
            else "There were no members.",
            "decision 0012; tests/e2e/test_node_two_faced.py" if real else "none",
        ),
        _row(
            part,
            "Floating-point noise whose low bits tell the answer",
            APPLIES if not facts["on_lattice"] else ABSENT,
            mechanism_words(facts),
            "tests/privacy/noise/test_discrete.py; contract field privacy.floating_point_noise",
        ),
        _row(
            part,
            "Weak, repeated or known randomness",
            APPLIES,
            "Drawn from a secret key of the member and the exact question, so that no noise is "
            "used for two answers."
            if real
            else "SEEDED: anyone who knows the seed can subtract the noise.",
            "decision 0013; tests/privacy/noise/test_node_noise.py",
        ),
        _row(
            part,
            "Side channels: time, memory, number of messages",
            APPLIES,
            "Number and size of messages follow from the contract. Times of computation are not "
            "hidden, and depend on the records only where a local problem is solved.",
            "docs: threat-model",
        ),
        _row(
            part,
            "Errors in the program",
            APPLIES,
            f"Formulas are tested against independent values. {_audit(facts)}",
            "audit.json" if facts["audit"] is not None else "docs: audit, testing",
        ),
        _row(
            part,
            "Security of the records themselves",
            OPEN,
            "Mutual TLS with pinned certificates, keys of mode 0600, encrypted backups. "
            f"{given.get('security') or 'Of the organisation: see section 6 (g).'}",
            "docs: security, threat-model",
        ),
        _row(
            part,
            "Collection of the data: exposure before the run",
            OPEN,
            "Differential privacy protects what is released, not how records were collected and "
            f"who reads them on site. {given.get('retention') or 'Erasure: see section 6 (f).'}",
            "none",
        ),
    ]


def _budgets(facts: Mapping[str, Any]) -> str:
    listed = [
        f"{one['account']} epsilon {one['epsilon']:g} at delta {one['delta']:g}"
        for one in facts["ledger"]["budgets"]
    ]
    return ", ".join(listed) or "none was set"


def _audit(facts: Mapping[str, Any]) -> str:
    found = facts["audit"]
    if found is None:
        return "No audit is part of this pack."
    return f"An audit attacked the algorithm: {audit_words(found)}"


def audit_words(found: Mapping[str, Any]) -> str:
    """What an audit's file says, in one sentence."""
    claimed = found["claimed"]
    said = claimed[0] if isinstance(claimed, list) else claimed
    return (
        f"{found['verdict']}; epsilon is at least {float(found['lower_bound']):.4g} with "
        f"{float(found['confidence']):.0%} confidence, where {float(said):.4g} is claimed. A bound "
        "below the claim proves nothing."
    )
