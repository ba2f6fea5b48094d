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
from tacenda.data.label import Label
from tacenda.data.schema import Schema
from tacenda.errors import InputError, PrivacyError
from tacenda.formats.text import toml
from tacenda.planning.contract_terms import plan_terms
from tacenda.questions.counts import CountSums
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.evaluation_plan import statistic_of
from tacenda_node.peer.member_records import checked_schema, problem_of
from tacenda_node.peer.run_plan import facts_of, make_plan
from tacenda_node.setup import drafting
from tacenda_node.setup.meaning import in_plain_words, learnt, meaning

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


@pytest.mark.parametrize(("noise", "asked", "found"), [
    ("masked", None, 1), ("masked", 2, 2), ("independent", None, None),
    ("independent", "all", None),
])  # fmt: skip
def test_a_named_algorithm_has_the_usual_coalition_where_neighbours_share_noise(
    noise: str, asked: int | str | None, found: int | None
) -> None:
    privacy = {"epsilon": 2.0, "delta": 1e-6} | ({} if asked is None else {"coalition": asked})
    terms = _terms(algorithm={"name": "tree-gd", "noise": noise}, rounds=5, privacy=privacy)
    made = drafting.draft(_cards(900, 900, 900), terms, small_schema()).contract
    assert made.privacy.coalition == found


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
    text = toml(plan_terms(chosen, "study"))
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


def _counts_schema(**label: Any) -> Schema:
    return Schema(columns=small_schema().columns, label=Label(name="y", low=0.0, **label))


def test_a_count_takes_its_bound_from_the_schema_and_says_so() -> None:
    terms = _terms(problem={"loss": "poisson"}, evaluation={"held_out": 0.2})
    found = drafting.draft(_cards(900, 900, 900), terms, _counts_schema(high=12.0))
    problem = found.contract.problem
    assert problem.loss_options == {"label_bound": 12.0}
    assert found.plan.spec.facts.constants.loss == tc.losses.Poisson(label_bound=12.0)
    assert statistic_of(found.contract) == CountSums(12.0)
    assert dict(meaning(found.plan))["learns"] == "loss poisson (label_bound 12)"
    assert "loss poisson (label_bound 12)" in " ".join(in_plain_words(found.plan, "m0"))
    scaled = _counts_schema(high=12.0, typical=3.0)
    plain = drafting.draft(_cards(900, 900, 900), terms, scaled).contract
    assert plain.problem.loss_options == {"label_bound": 4.0} and plain.evaluation is not None
    assert (plain.evaluation.low, plain.evaluation.high) == (0.0, 4.0)


@pytest.mark.parametrize(
    ("loss", "options", "said"),
    [
        ("poisson", {"bound": 3.0}, "loss_options must be one of 'label_bound', not 'bound'"),
        ("poisson", {"label_bound": 0.0}, "loss_options: label_bound must be a number above 0"),
        ("logistic", {"level": 0.5}, "takes no options, so 'level' must be left out"),
        ("poisson", {"label_bound": "12"}, "problem.loss_options.label_bound"),
        ("poisson", {}, "problem.loss_options"),
    ],
)
def test_options_that_a_loss_does_not_have_are_refused(
    loss: str, options: dict[str, Any], said: str
) -> None:
    plain = small_contract().to_plain()
    problem = {"n_features": 4, "loss": loss, "loss_options": options}
    with pytest.raises(InputError, match=said):
        make_plan(Contract.build({**plain, "problem": problem}))


def test_without_options_a_contract_keeps_its_hash() -> None:
    contract = small_contract()
    assert "loss_options" not in contract.to_plain()["problem"]
    changed = {**contract.to_plain()["problem"], "loss": "smoothed-hinge"}
    other = {**changed, "loss_options": {"width": 0.25}}
    ids = {small_contract(problem=p).run_id() for p in (changed, other)}
    assert len(ids) == 2


def test_a_plan_keeps_the_options_of_its_loss() -> None:
    how = {"loss": tc.losses.Poisson(label_bound=12.0)}
    plan = tc.plan(np.array([900, 900, 900]), 4, tc.graph.ring(3), 2.0, 1e-6, **how)
    assert plan_terms(plan, "t")["problem"]["loss_options"] == {"label_bound": 12.0}
    usual = tc.plan(np.array([900, 900, 900]), 4, tc.graph.ring(3), 2.0, 1e-6, loss="huber")
    assert "loss_options" not in plan_terms(usual, "t")["problem"]


def test_a_contract_has_the_options_of_its_regulariser() -> None:
    ring, third = tc.graph.ring(3), tc.regularisers.ElasticNet(0.3)
    plan = tc.plan(900, 4, ring, 2.0, 1e-6, regulariser=third, row_scale=2.0)
    terms = plan_terms(plan, "t")["problem"]
    assert terms["regulariser_options"] == {"l1_ratio": 0.3}
    assert "regulariser_options" not in plan_terms(tc.plan(900, 4, ring, 2.0), "t")["problem"]
    problem = {"n_features": 4, "regulariser": "elastic-net", "strength": 0.1}
    with_options = {**problem, "regulariser_options": {"l1_ratio": 0.3}}
    contract = small_contract(problem=with_options)
    assert facts_of(contract).constants.regulariser == third
    mine = problem_of(contract, 2, np.eye(4)[:2], np.array([0, 1]))
    assert mine.regulariser == third and "(l1_ratio 0.3)" in learnt(contract)
    assert contract.run_id() != small_contract(problem=problem).run_id()


def test_labels_beyond_the_bound_are_refused_by_the_schema_alone(tmp_path: Path) -> None:
    schema = _counts_schema(high=12.0)
    schema.write(tmp_path / "schema.toml")
    contract = small_contract(
        schema_hash=schema.hash(),
        problem={
            "n_features": len(schema.feature_names),
            "row_scale": schema.row_scale,
            "loss": "poisson",
            "loss_options": {"label_bound": 11.0},
        },
    )
    with pytest.raises(InputError, match="declare label_bound = 12"):
        checked_schema(contract, tmp_path / "schema.toml")


def test_groups_are_proposed_for_the_number_of_members() -> None:
    cards, privacy = _cards(*[900] * 12), {"epsilon": 1.0, "delta": 1e-5, "coalition": 1}
    how = {"algorithm": {"name": "treegd"}, "rounds": 4, "graph": "complete"}
    terms = _terms(groups="auto", privacy=privacy, **how)
    found = drafting.draft(cards, terms, small_schema())
    assert found.contract.to_plain()["groups"] == 4
    few = drafting.draft(cards[:5], terms, small_schema())
    assert "groups" not in few.contract.to_plain()
    terms["algorithm"] = {"name": "ipadmm", "penalty": 0.1}
    assert drafting.draft(cards, terms, small_schema()).contract.groups == 1
