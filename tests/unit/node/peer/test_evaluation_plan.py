"""The terms of an evaluation in a contract, and the closing run that every member derives from
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_stage import small_contract, small_schema
from tacenda.errors import InputError
from tacenda.privacy.accounting.judge import judge
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract, differing_fields
from tacenda_node.operate.policy import PolicyFile
from tacenda_node.peer.evaluation_plan import (
    UNKNOWN,
    closing_contract,
    closing_plan,
    model_digest,
    statistic_of,
)
from tacenda_node.peer.run_plan import facts_of, make_plan
from tacenda_node.setup.drafting import with_schema
from tacenda_node.setup.meaning import in_plain_words, meaning

TERMS = {"held_out": 0.25, "epsilon": 3.0}
TRUSTING = {"epsilon": 5.0, "delta": 1e-5, "coalition": 1}


def contract_with(evaluation: dict[str, Any] | None = None, n: int = 3, **changes: Any) -> Contract:
    given = {"finish_mixing": "exact", "evaluation": evaluation or TERMS, **changes}
    return small_contract(n, 3, **given)


def test_contracts_without_an_evaluation_keep_their_hash_and_their_run() -> None:
    """Both are pinned: a change of them parts members of different versions."""
    old = small_contract(3, 5)
    assert old.hash() == "fa418905a653e73a16ccb306d84c93c141bb1df5c54bf972a54658c766fe5d87"
    assert old.run_id() == "aafbd069e3e4ab1ca667664b833e9e38c93fd8979319621ee97cd4c5724b773a"
    assert old.held_out_size("m0") == 0 and old.trained_size("m0") == 60
    plain = old.to_plain()
    stated = Contract.build({**plain, "problem": {**plain["problem"], "model": "linear"}})
    assert stated.hash() == old.hash()
    additive = Contract.build({**plain, "problem": {**plain["problem"], "model": "additive"}})
    assert additive.problem.model == "additive" and additive.run_id() != old.run_id()


@given(st.integers(2, 10_000), st.floats(0.01, 0.99))
def test_sizes_follow_from_public_numbers_and_add_up(size: int, share: float) -> None:
    plain = contract_with({"held_out": 0.5}).to_plain()
    plain["evaluation"]["held_out"] = share
    for member in plain["members"]:
        member["size"] = size
    kept = round(share * size)
    if not 0 < kept < size:
        with pytest.raises(InputError, match="at least one must be held out and one trained on"):
            Contract.build(plain)
        return
    found = Contract.build(plain)
    assert found.held_out_size("m0") == kept
    assert found.trained_size("m0") + kept == size
    assert facts_of(found).sizes.tolist() == [size - kept] * 3


def test_all_must_end_with_the_same_model() -> None:
    with pytest.raises(InputError, match='evaluation needs finish_mixing = "exact"'):
        small_contract(3, 3, evaluation=TERMS)


def test_a_person_at_several_members_could_be_on_both_sides() -> None:
    person = {"epsilon": 5.0, "delta": 1e-5, "adjacency": "add-remove", "records_per_person": 2}
    assert contract_with(privacy=person).held_out_size("m0") == 15
    with pytest.raises(InputError, match="persons who are at one member only, not at 3"):
        contract_with(privacy={**person, "members_per_person": 3})


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_share_is_between_nothing_and_all(share: float) -> None:
    with pytest.raises(InputError, match="evaluation.held_out"):
        contract_with({"held_out": share})


def test_the_closing_run_is_named_by_the_run_and_its_model() -> None:
    contract = contract_with()
    one = closing_contract(contract, model_digest(np.zeros(4)), "independent")
    other = closing_contract(contract, model_digest(np.full(4, -0.0)), "independent")
    assert one.run_id() != other.run_id() != contract.run_id()
    assert differing_fields(one.field_hashes(), other.field_hashes()) == ["evaluates.model"]
    assert [m.size for m in one.members] == [contract.held_out_size(n) for n in contract.names]
    # Whoever has moved or renewed its certificate is in the same run
    plain = contract.to_plain()
    plain["members"][0]["address"] = "elsewhere:1"
    moved = closing_contract(Contract.build(plain), one.evaluates.model, "independent")  # type: ignore[union-attr]
    assert moved.run_id() == one.run_id() and moved.hash() != one.hash()


def test_a_closing_text_is_never_read_from_a_file(tmp_path: Path) -> None:
    text = closing_contract(contract_with(), UNKNOWN, "independent")
    contract_files.write(text, tmp_path / "contract.toml")
    with pytest.raises(InputError, match="which members derive and do not write or sign"):
        contract_files.read(tmp_path / "contract.toml")


@pytest.mark.parametrize("privacy", [TRUSTING, {"epsilon": 5.0, "delta": 1e-5}])
@pytest.mark.parametrize("graph", ["ring", "path"])
def test_held_out_records_lose_what_the_terms_say(privacy: dict[str, Any], graph: str) -> None:
    contract = contract_with(n=4, privacy=privacy, graph=graph)
    plan = closing_plan(contract)
    assert plan.on_lattice
    masked = plan.spec.algorithm.traits.masks
    assert masked == ("coalition" in privacy)
    curves = [judge(plan.events(name), "replace-one") for name in contract.names]
    assert 2.9 < max(curve.epsilon(1e-5) for curve in curves) <= 3.0 * (1 + 1e-9)
    assert all((curve.coalition is not None) == masked for curve in curves)
    # By default what the run's records may lose
    usual = closing_plan(contract_with({"held_out": 0.25}, privacy=privacy))
    assert usual.contract.privacy.epsilon == 5.0 and usual.contract.privacy.delta == 1e-5


def test_without_those_who_were_absent_the_others_pay_no_more() -> None:
    contract = contract_with(n=4, privacy=TRUSTING, graph="complete")
    smaller = closing_plan(contract, absent=["m2"])
    assert smaller.contract.names == ["m0", "m1", "m3"]
    assert all("m2" not in edge for edge in smaller.contract.edges)
    assert judge(smaller.events("m0"), "replace-one").epsilon(1e-5) <= 3.0 * (1 + 1e-9)


def test_what_is_counted_is_in_the_contract() -> None:
    found = statistic_of(contract_with({"held_out": 0.25, "edges": [0.5], "log_loss_bound": 2.0}))
    assert found.edges == (0.5,) and found.log_loss_bound == 2.0  # type: ignore[union-attr]
    with pytest.raises(InputError, match="evaluation.low: it has no meaning for a label of class"):
        statistic_of(contract_with({"held_out": 0.25, "low": 0.0}))
    numbers = {"n_features": 4, "loss": "squared", "strength": 0.01, "clip_norm": 1.0}
    with pytest.raises(InputError, match="must hold its bounds, low and high"):
        statistic_of(contract_with(problem=numbers))
    bounded = {"held_out": 0.25, "low": -1.0, "high": 2.0}
    sums = statistic_of(contract_with(bounded, problem=numbers))
    assert (sums.low, sums.high) == (-1.0, 2.0)  # type: ignore[union-attr]


def test_a_drafted_contract_has_the_bounds_of_the_label() -> None:
    schema = small_schema(4, regression=True)
    found = with_schema({"evaluation": {"held_out": 0.2}}, schema)["evaluation"]
    assert found == {"low": -1.0, "high": 1.0, "held_out": 0.2}
    assert with_schema({"evaluation": TERMS}, small_schema(4))["evaluation"] == TERMS


def test_who_signs_reads_what_the_evaluation_means() -> None:
    plan = make_plan(contract_with())
    words = " ".join(in_plain_words(plan, "m0"))
    assert "evaluated, on 15 of your 60 records that are never trained on" in words
    assert "epsilon 3" in words and "never by their sum" in words
    assert "0.25 of the records held out" in dict(meaning(plan))["evaluation"]
    assert "evaluated" not in " ".join(in_plain_words(make_plan(small_contract(3, 3)), "m0"))


def test_the_officers_limit_holds_for_the_evaluation_too(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("epsilon = 6.0\ndelta = 1e-5\n", "utf-8")
    policy = PolicyFile.read(tmp_path / "policy.toml")
    assert policy.forbids(contract_with()) == []
    loud = contract_with({"held_out": 0.25, "epsilon": 7.0, "delta": 1e-3})
    assert [(one.field, one.found) for one in policy.forbids(loud)] == [
        ("epsilon", "it is 7"),
        ("delta", "it is 0.001"),
    ]
    assert "epsilon of an evaluation" in policy.forbids(loud)[0].rule


def test_what_another_plan_charged_is_not_forgotten() -> None:
    """A release for four members stays spent when three go on, who pay for their own; also where
    both cost the same, to the last digit."""
    from tacenda.privacy.accounting.events import Gaussian
    from tacenda_node.peer.evaluation_run import charged_otherwise

    kept = [((1, 1, 0), Gaussian(noise_multiplier=3.0).to_dict())]
    assert charged_otherwise(kept, "run+evaluation", "run+evaluation-by-3") == kept
    assert charged_otherwise(kept, "run+evaluation-by-3", "run+evaluation-by-3") == []
    assert charged_otherwise([], None, "run+evaluation-by-3") == []
