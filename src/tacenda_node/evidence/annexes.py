"""The annex of an impact assessment (GDPR, Art. 35(7)) and the record of processing (Art. 30(1)),
in plain words; what only the organisation knows is a marked blank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacenda.report.numbers import epsilon as shown
from tacenda_node.evidence.wording import blank, noise_words, not_public, unit_details

Section = dict[str, Any]  # {"title", "paragraphs"}

NOT_PROVED = (
    "That the records were what the schema says, complete, and lawfully collected.",
    "That each member's machine ran this very program and drew its noise as it does. A member who "
    "changes its own program harms the promise to its own data subjects, which cannot be seen "
    "from outside.",
    "That no more than the promised number of members combined what they know.",
    "That the keys in the contract belong to the organisations: compare them by another channel "
    "(--contract, --key).",
    "That the ledger held no other runs: the pack has the rows of this run only. "
    "`tacenda ledger verify` checks the whole.",
    "That nothing else was published about the same people.",
    "That an audit was made as audit.json says, and that the software was what sbom.cdx.json says: "
    "both are the member's word. So is the number of releases where members stayed away or left; "
    "then rely on the contract's epsilon.",
    "That members put true sums into an evaluation: one that lies can spoil the measures unseen.",
    "That the sums of an evaluation are those that all members have: every member's pack has the "
    "same ones; compare two.",
    "That the model is right, fair, or fit for a purpose.",
)
NOT_PROVED_SIMULATION = (
    "Anything about real people's data: noise came from a seed, and one machine held all records.",
    "Who made the pack: it is not signed.",
)


def impact_assessment(facts: Mapping[str, Any], given: Mapping[str, str]) -> list[Section]:
    """Art. 35(7)(a) to (d), and what Art. 35(2) and (9) add."""
    p = facts["privacy"]

    def say(name: str) -> str:
        return given.get(name) or blank(name)

    held = (
        f"{len(facts['members'])} members ({', '.join(m['name'] for m in facts['members'])})"
        if facts["members"]
        else f"{facts['nodes']} simulated nodes"
    )
    return [
        {
            "title": "(a) The processing and its purposes",
            "paragraphs": [
                say("purpose"),
                f"{held} learn one linear model ({facts['problem']['loss']} loss, "
                f"{facts['problem']['n_features']} features) from {facts['records']} records "
                f"together, by {facts['algorithm']['name']} in {facts['rounds']} rounds. Records "
                "stay with the member that holds them. There is no server and no common store; "
                "members send numbers with noise to their neighbours.",
                f"{not_public(facts)}",
                "Data subjects and categories of data: see section 6 (c).",
            ],
        },
        {
            "title": "(b) Necessity and proportionality",
            "paragraphs": [
                f"Legal basis: {say('legal_basis')}",
                say("necessity"),
                "Data minimisation (Art. 5(1)(c)): only the columns of the agreed schema are read, "
                "and no record is transferred. Purpose limitation (Art. 5(1)(b)): the questions "
                "to the records are those of the contract, and no others can be asked.",
            ],
        },
        {
            "title": "(c) Risks to the rights and freedoms of data subjects",
            "paragraphs": [
                "Singling out, linking or inferring from the model or from messages: bounded. "
                f"{unit_details(facts)} Somebody who sees every message and knows all other "
                "records guesses which of two values a record has with probability at most "
                f"{p['best_guess']:.1%}, where a coin gives 50 % (epsilon {shown(p['epsilon'])}, "
                f"delta {p['delta']:g}), against {p['against']}.",
                "Remaining: people with several records are protected less; conclusions about "
                "groups are not prevented, and concern people who took no part as well; members "
                "who collude beyond the promised number; a machine that is broken into.",
                f"Others: {say('other_risks')}",
            ],
        },
        {
            "title": "(d) Measures",
            "paragraphs": [
                f"Differential privacy by {noise_words(facts)}, calibrated before the first round "
                "and charged to a ledger before each draw; a run beyond the budget is refused.",
                "Contract signed by all members; mutual TLS with pinned certificates; signed "
                "messages; this pack, which anybody can check.",
                "Of the organisation, and the time limits for erasure: see section 6 (f) and (g).",
            ],
        },
        {"title": "Advice and views (Art. 35(2) and (9))", "paragraphs": [say("views")]},
    ]


def processing_record(facts: Mapping[str, Any], given: Mapping[str, str]) -> list[list[str]]:
    """Art. 30(1)(a) to (g): (what is asked, answer)."""

    def say(name: str) -> str:
        return given.get(name) or blank(name)

    others = ", ".join(m["name"] for m in facts["members"] if m["name"] != facts["member"])
    return [
        ["(a) Controller, joint controllers", say("controller")],
        ["(a) Representative", say("representative")],
        ["(a) Data protection officer", say("data_protection_officer")],
        ["(b) Purposes", given.get("purpose") or "See section 5 (a)."],
        ["(c) Categories of data subjects", say("data_subjects")],
        ["(c) Categories of personal data", say("data_categories")],
        [
            "(d) Recipients",
            (f"Of messages with noise: {others}. " if others else "") + say("recipients"),
        ],
        [
            "(e) Third countries",
            "No record is transferred. Messages with noise and the model: "
            + say("third_countries"),
        ],
        ["(f) Time limits for erasure", say("retention")],
        [
            "(g) Security measures",
            f"Differential privacy (epsilon {shown(facts['privacy']['epsilon'])}, delta "
            f"{facts['privacy']['delta']:g}, {facts['privacy']['unit']}); mutual TLS; signed "
            f"contract, messages and ledger. {say('security')}",
        ],
    ]
