"""Sentences that several parts of the pack share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacenda.words import public_sums
from tacenda_node.evidence.organisation import FIELDS

BLANK = "[TO BE FILLED IN BY THE ORGANISATION: "
_QUESTIONS = {field.name: field.question for field in FIELDS}
SIMULATION = (
    "This is a SIMULATION. There were no members, the noise came from a seed, and anyone who "
    "knows it can subtract the noise. It is no evidence about real people's data."
)


def blank(name: str) -> str:
    """The mark of an answer that only the organisation can give."""
    return f"{BLANK}{_QUESTIONS[name]}]"


def unit_details(facts: Mapping[str, Any]) -> str:
    """What neighbouring data sets are."""
    p = facts["privacy"]
    changes = {
        "replace-one": "one is exchanged for any other one; the number of records is public",
        "add-remove": "one is added or taken away",
    }[p["relation"]]
    return f"Neighbouring data sets differ in {p['unit']}: {changes} ({p['relation']})."


def not_public(facts: Mapping[str, Any]) -> str:
    """What is released without noise."""
    sizes = (
        "the number of records of each member"
        if facts["privacy"]["relation"] == "replace-one"
        else "the declared divisor of each member"
    )
    sums = public_sums(facts["privacy"].get("groups", 1))
    return (
        f"Public by declaration: {sizes}, the schema with its bounds and classes, the graph, the "
        "algorithm and its settings, and when messages were sent."
        + (f" With noise, {sums}." if sums else "")
    )


def noise_words(facts: Mapping[str, Any]) -> str:
    """How the noise was drawn."""
    kinds = sorted({release["kind"] for release in facts["releases"]})
    drawn = (
        "seeded noise of a simulation"
        if facts["simulation"]
        else "noise from the member's own secret key and the question asked"
    )
    return f"{drawn} ({', '.join(kinds)}; {facts['privacy']['noise']})"


def mechanism_words(facts: Mapping[str, Any]) -> str:
    """The mechanisms, for people who know them."""
    whole = (
        "Noise and answers are whole numbers on a lattice, so that the low bits of floating-point "
        "numbers say nothing."
        if facts["on_lattice"]
        else "Noise is drawn as floating-point numbers, which the contract accepts by name."
        if not facts["simulation"]
        else "A simulation draws floating-point noise."
    )
    return (
        f"Every release: {noise_words(facts)}. {whole} Software: tacenda {facts['tacenda']} "
        "(bill of materials in sbom.cdx.json). Access to the records: the member's own machine "
        "only; messages are sent over mutual TLS."
    )
