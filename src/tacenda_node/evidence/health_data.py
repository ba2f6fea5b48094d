"""The annex for a health data access body: what the regulation on the European health data space
(EU 2025/327) and a check of outputs ask, this run's answer, and the file that shows it.

Article 73 is cited with its paragraphs by way of Article 50 of the proposal, and what was not at
hand is said in docs/ehds.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacenda.report.numbers import epsilon as shown
from tacenda_node.evidence.wording import blank, unit_details

Row = dict[str, str]  # asked, source, answer, shown_by


def health_data_annex(facts: Mapping[str, Any], given: Mapping[str, str]) -> list[Row]:
    """Rows on the permit, on the secure environment, and on every output."""

    def say(name: str) -> str:
        return given.get(name) or blank(name)

    return [*_permit(facts, say), *_environment(facts, say), *_outputs(facts)]


def _row(asked: str, source: str, answer: str, shown_by: str) -> Row:
    return {"asked": asked, "source": source, "answer": answer, "shown_by": shown_by}


def _permit(facts: Mapping[str, Any], say: Any) -> list[Row]:
    signed = sum(bool(one["signed"]) for one in facts["members"])
    agreed = (
        f"Contract {facts['title']!r}, signed by {signed} of {len(facts['members'])} members."
        if facts["members"]
        else "A simulation: there is no contract."
    )
    best, real = facts["privacy"]["best_guess"], not facts["simulation"]
    return [
        _row(
            "Use only as the data permit allows",
            "Art. 61(1)",
            f"{agreed} Permit: {say('data_permit')}",
            "contract/, its signatures" if real else "-",
        ),
        _row(
            "No data to third parties outside the permit",
            "Art. 61(2)",
            "No record leaves its member. Nodes accept messages of members of the contract only."
            if real
            else "A simulation: one machine held all records.",
            "contract/, which lists members and certificates" if real else "-",
        ),
        _row(
            "No attempt to re-identify",
            "Art. 61(3)",
            f"Whoever sees all messages guesses a value of a record with probability at most "
            f"{100 * best:.1f} %. Not to try remains the organisation's duty.",
            "statement.json" if real else "simulation.json",
        ),
        _row(
            "Results are made public, without personal data",
            "Art. 61(4)",
            f"Recipients: {say('recipients')}",
            "evidence.html; evaluation.json where the run was evaluated",
        ),
        _row(
            "Only data that the purpose needs",
            "recital that explains Art. 66; Art. 5(1)(c) GDPR",
            f"{facts['problem']['n_features']} features of the agreed schema are read, and the "
            "label.",
            "schema.toml" if real else "the configuration",
        ),
    ]


def _environment(facts: Mapping[str, Any], say: Any) -> list[Row]:
    return [
        _row(
            "Access by named persons only",
            "Art. 73 (proposal, Art. 50(1)(a), (d))",
            f"The environment's task; the contract names organisations. {say('security')}",
            "organisation.json",
        ),
        _row(
            "Least risk of unauthorised reading, copying or change",
            "Art. 73 (proposal, Art. 50(1)(b))",
            "Private values leave by one door, charged and with noise; messages travel over "
            "mutual TLS and are signed."
            if not facts["simulation"]
            else "One machine held all records, and no message was sent.",
            "ledger.jsonl; docs: threat-model",
        ),
        _row(
            "Logs of access are kept for audits",
            "Art. 73 (proposal, Art. 50(1)(e))",
            f"{facts['ledger']['releases']} releases are in the ledger, each sealed. Kept for: "
            f"{say('retention')}",
            "ledger.jsonl" if not facts["simulation"] else "simulation.json",
        ),
        _row(
            "Regular audits",
            "Art. 73 (proposal, Art. 50(3))",
            "An audit is part of this pack."
            if facts["audit"] is not None
            else "No audit is part of this pack.",
            "`tacenda evidence check`, audit.json, sbom.cdx.json",
        ),
    ]


def _outputs(facts: Mapping[str, Any]) -> list[Row]:
    p = facts["privacy"]
    tables = ", ".join(one["table"] for one in facts["tables"])
    outputs = ["a model"] if facts["model"] is not None or not tables else []
    outputs += [f"tables ({tables})"] if tables else []
    outputs += ["measures on held-out records"] if facts["evaluation"] is not None else []
    budgets = "; ".join(
        f"{one['account']} epsilon {shown(one['epsilon'])} at delta {one['delta']:g}"
        for one in facts["ledger"].get("budgets") or ()
    )
    return [
        _row(
            "Which outputs leave, and under which promise",
            "Art. 73(2); recital 77; check of outputs",
            f"{', '.join(outputs).capitalize()}: epsilon {shown(p['epsilon'])} at delta "
            f"{p['delta']:g}, against {p['against']}. {unit_details(facts)}",
            "evidence.json",
        ),
        _row(
            "Nothing else leaves",
            "check of outputs",
            f"The promise covers every message: all {facts['ledger']['releases']} releases, "
            "composed again by the check.",
            "`tacenda evidence check`",
        ),
        _row(
            "Small cells, dominance, differencing",
            "check of outputs",
            "These rules are for tables without noise. Here each output bounds what it tells of "
            "any record, also beside other outputs: the ledger adds them up.",
            "`tacenda ledger show`",
        ),
        _row(
            "Other outputs on the same records",
            "check of outputs",
            f"Budgets of all runs: {budgets}. Outputs made without Tacenda are not counted."
            if budgets
            else "No budget is part of this pack. Outputs made without Tacenda are not counted.",
            "ledger.jsonl",
        ),
        _row(
            "Groups that could be stigmatised",
            "recital 73",
            "Not answered: differential privacy protects individuals, not groups.",
            "-",
        ),
    ]
