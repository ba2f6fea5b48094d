"""Contracts from terms: the planner's choice where it is left open, and nothing that a node would
refuse."""

from __future__ import annotations

import base64
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from node_stage import small_contract, small_schema
from tacenda.data.schema import Label, Schema
from tacenda.errors import InputError, PrivacyError
from tacenda.formats.text import toml
from tacenda.node import drafting
from tacenda.node.meaning import in_plain_words, meaning
from tacenda.node.run_plan import make_plan

PEM = "-----BEGIN CERTIFICATE-----"


def _cards(*sizes: int) -> list[dict[str, Any]]:
    return [
        {
            "name": f"m{k}",
            "size": size,
            "address": "localhost:1",
            "fingerprint": f"{k:064x}",
            "signing_key": base64.b64encode(k.to_bytes(32, "big")).decode(),
            "authority": PEM,
        }
        for k, size in enumerate(sizes)
    ]


def _terms(**changes: Any) -> dict[str, Any]:
    return {"title": "study", "privacy": {"epsilon": 2.0, "delta": 1e-6}, **changes}


def test_auto_writes_the_planners_choice_into_the_contract() -> None:
    found = drafting.draft(_cards(2000, 1500, 2500), _terms(algorithm="auto"), small_schema())
    direct = tc.plan(np.array([2000, 1500, 2500]), 4, tc.graph.ring(3), 2.0, 1e-6, loss="logistic")
    contract = found.contract
    assert contract.rounds == direct.rounds
    assert contract.privacy.coalition == direct.coalition == 1
    assert contract.prepare is not None
    assert contract.algorithm.name == "treegd"
    assert make_plan(contract).spec.algorithm.to_plain() == direct.algorithm.to_plain()
    assert "any single curious member" in dict(meaning(found.plan))["against"]


@pytest.mark.parametrize("named", [{}, {"algorithm": "auto"}, {"algorithm": {"name": "auto"}}])
def test_auto_may_be_said_or_left_out(named: dict[str, Any]) -> None:
    terms = _terms(**named, rounds="auto")
    assert drafting.draft(_cards(500, 500), terms, small_schema()).chosen is not None


def test_auto_against_everybody_needs_no_trust() -> None:
    terms = _terms(privacy={"epsilon": 2.0, "delta": 1e-6, "coalition": "all"})
    found = drafting.draft(_cards(900, 900, 900), terms, small_schema())
    assert found.contract.privacy.coalition is None
    assert "everybody else together" in " ".join(in_plain_words(found.plan, "m0"))


def test_a_label_that_is_a_number_gets_the_loss_of_a_plain_fit() -> None:
    label = Label(name="y", low=-1.0, high=1.0)
    schema = Schema(columns=small_schema().columns, label=label)
    found = drafting.draft(_cards(900, 900, 900), _terms(), schema)
    assert found.contract.problem.loss == "huber"
    assert found.contract.problem.classes is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm": {"name": "auto", "penalty": 1.0}}, r"algorithm\.penalty.*'auto'"),
        ({"prepare": {"name": "whitening"}}, "prepare: with algorithm 'auto'"),
        ({"algorithm": 3}, "must be a table with a name, or 'auto'"),
        ({"algorithm": {"name": "nothing"}, "rounds": 5}, "nothing"),
        ({"privacy": {"epsilon": 2.0}}, "privacy.delta"),
        ({"colour": 1}, "colour"),
        ({"graph": "torus"}, "torus"),
    ],
)
def test_terms_that_do_not_go_together(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        drafting.draft(_cards(500, 500, 500), _terms(**changes), small_schema())


def test_what_a_node_would_refuse_is_not_drafted() -> None:
    """Objective perturbation needs floating-point noise, which must be accepted by name."""
    terms = _terms(algorithm={"name": "dvp"}, rounds=5)
    with pytest.raises(PrivacyError, match="floating_point_noise"):
        drafting.draft(_cards(500, 500, 500), terms, small_schema())


def test_a_plans_terms_make_the_same_contract_as_auto() -> None:
    cards, schema = _cards(700, 700, 700), small_schema()
    chosen = tc.plan(700, 4, tc.graph.ring(3), 2.0, 1e-6)
    text = toml(drafting.plan_terms(chosen, "study"))
    named = drafting.draft(cards, tomllib.loads(text), schema)
    auto = drafting.draft(cards, _terms(), schema)
    assert named.chosen is None
    assert named.contract == auto.contract


def test_cards_and_terms_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="terms .* is not there; check its name"):
        drafting.read_terms(tmp_path / "none")
    (tmp_path / "card").write_text("name = 'a'")
    with pytest.raises(InputError, match="lacks 'size'"):
        drafting.read_card(tmp_path / "card")


def test_the_plain_words_name_cost_members_and_codes() -> None:
    plan = make_plan(small_contract(3))
    text = "\n".join(in_plain_words(plan, "m1"))
    for words in ("epsilon 5", "factor of 148", "m1 (you)", "by telephone", "1 in 100,000"):
        assert words in text
