"""From terms, a schema and the members' cards to a contract that can be carried out.

Terms are a TOML file or table: what the contract says, without what cards and schema say. Its
algorithm may be "auto": then the planner chooses algorithm, settings, rounds and preparation from
public facts alone (sizes, the schema's shape, graph, budget, coalition), and the contract holds
what it chose. Nothing is drafted that a node would refuse.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tacenda import losses, regularisers
from tacenda.algorithms.registry import from_plain, with_code
from tacenda.errors import InputError, UnsupportedError
from tacenda.evaluation.private import counts_for
from tacenda.formats.text import from_toml
from tacenda.graph.groups import proposed_groups
from tacenda.planning.contract_terms import PLANNED, choice_terms
from tacenda.terms.closing import EXACT
from tacenda.terms.setting import AUTO
from tacenda_node.identity.contract import Contract, Member
from tacenda_node.identity.contract_files import named_edges
from tacenda_node.peer import agreed_tables
from tacenda_node.peer.evaluation_plan import closing_plan
from tacenda_node.peer.member_records import require_public_rule
from tacenda_node.peer.run_plan import RunPlan, facts_of, make_plan, topology_of

if TYPE_CHECKING:
    from tacenda.data.schema import Schema
    from tacenda.planning import Plan

USUAL_SHARE = 0.2  # of every member's records, held out for the evaluation
DEFAULT_COALITION = 1  # as in `tacenda plan` and `tacenda fit`
FIRST_SHARE = 0.1  # of a table whose share is still open, to find its noise
TABLES_ONLY = ("tables", "cox")  # algorithms of terms without a training
NOT_IN_CONTRACT = ("authority", "invitation")  # of a card


@dataclass(frozen=True)
class Drafted:
    """A contract with its run plan, and the planner's choice where the terms left it open; noise:
    what it will leave unreadable of the tables; proposed: shares of tables that the terms left
    open."""

    contract: Contract
    plan: RunPlan
    chosen: Plan | None
    noise: agreed_tables.TableNoise
    proposed: dict[str, float] | None = None

    @property
    def words(self) -> list[str]:
        """What to say of the tables: proposed shares, and what noise will hide."""
        if not self.proposed:
            return self.noise.words
        shares = {k: v["share"] for k, v in self.contract.table_parts().items() if "share" in v}
        if self.contract.has_training:
            shares = {"training": 1.0 - self.contract.tables_share, **shares}
        whole = sum(shares.values())
        each = ", ".join(f"{name} {share / whole:.0%}" for name, share in shares.items())
        said = (
            f"the planner proposes these shares of the budget: {each}. The tables then are "
            "readable, if nothing else is said; state `share` in the terms for others"
        )
        return [said, *self.noise.words]


def read_terms(path: str | Path) -> dict[str, Any]:
    """The terms in a TOML file."""
    return _read_toml(path, "terms", "correct the file")


def read_card(path: str | Path) -> dict[str, Any]:
    """A member's card."""
    return checked_card(_read_toml(path, "card", "ask the member to send it again"), str(path))


def checked_card(values: dict[str, Any], where: str) -> dict[str, Any]:
    """A card, if it has all that a contract needs; its values are the contract's to check."""
    for field in ("name", "size", "address", "fingerprint", "signing_key", "authority"):
        if field not in values:
            raise InputError(
                f"The card {where} lacks {field!r}; ask the member to send it again, "
                "as `tacenda consortium join` or `tacenda certs show --card` writes it."
            )
    try:
        Member.model_validate({k: v for k, v in values.items() if k not in NOT_IN_CONTRACT})
    except ValidationError as error:
        first = error.errors()[0]
        rule = first["msg"].removeprefix("Value error, ")
        raise InputError(
            f"The card {where}, field {'.'.join(map(str, first['loc']))}: {rule}; "
            "ask the member to send it again."
        ) from None
    return values


def draft(
    cards: Sequence[dict[str, Any]], terms: dict[str, Any], schema: Schema, graph: str | None = None
) -> Drafted:
    """The contract of these members, checked as a node checks it.

    graph: ring (by default), path, star or complete, unless the terms have `edges` or `graph`.
    """
    wanted = agreed_tables.open_shares(terms)
    if wanted:
        return _with_shares(cards, terms, schema, graph, wanted)
    values = agreed_tables.drafted(with_schema(terms, schema), schema)
    _require_members_per_person(values)
    require_public_rule(schema)
    edges, named = values.pop("edges", None), values.pop("graph", None)
    members = [{k: v for k, v in card.items() if k not in NOT_IN_CONTRACT} for card in cards]
    values["members"] = members
    values["edges"] = edges or named_edges(graph or named or "ring", [m["name"] for m in members])
    values["authorities"] = list(dict.fromkeys(card["authority"] for card in cards))
    chosen = None
    if values.get("evaluation") is not None and not leaves_open(values):
        values.setdefault("finish_mixing", EXACT)
    if leaves_open(values):
        chosen = _planned(values)
        values = _with_choice(values, chosen)
        if values.get("evaluation") is not None:  # it adds a round without cost, or nothing new
            values["finish_mixing"] = EXACT
    elif isinstance(values.get("algorithm"), dict):
        values["algorithm"] = with_code(values["algorithm"])
    values["problem"] = {**plugin_codes(values["problem"]), **values["problem"]}
    auto = values.get("groups") == AUTO
    contract = _built({**values, "groups": 1} if auto else values)
    values["privacy"] = contract.to_plain()["privacy"]
    plan = make_plan(contract)
    if auto and plan.spec.algorithm.traits.joins_groups:  # a contract states the number
        count = proposed_groups(len(contract.members), plan.coalition)
        contract = Contract.build({**values, "groups": count})
        plan = make_plan(contract)
    if contract.evaluation is not None:
        closing_plan(contract)  # nothing is drafted that a node would refuse
    noise = agreed_tables.TableNoise([], {})
    if contract.table_parts():
        noise = agreed_tables.table_noise(plan, schema)
    return Drafted(contract, plan, chosen, noise)


def _built(values: dict[str, Any]) -> Contract:
    """The contract; where neighbours share noise and the terms leave the coalition open, against
    one curious member, as where the planner chooses."""
    privacy = dict(values.get("privacy", {}))
    asked = privacy.pop("coalition", None)
    if asked not in (None, "all"):
        return Contract.build(values)
    contract = Contract.build({**values, "privacy": privacy})
    shares = from_plain(contract.algorithm.model_dump()).traits.shared_noise is not None
    if asked is None and shares:
        privacy["coalition"] = DEFAULT_COALITION
        contract = Contract.build({**values, "privacy": privacy})
    return contract


def _with_shares(
    cards: Sequence[dict[str, Any]],
    terms: dict[str, Any],
    schema: Schema,
    graph: str | None,
    wanted: list[str],
) -> Drafted:
    """The contract with the shares that its tables need: a first one tells their noise."""

    def stated(shares: dict[str, float]) -> dict[str, Any]:
        return {**terms, **{k: {**terms[k], "share": v} for k, v in shares.items()}}

    first = draft(cards, stated(dict.fromkeys(wanted, FIRST_SHARE)), schema, graph)
    parts = {k: v for k, v in first.contract.table_parts().items() if "share" in v}
    shares = {name: part["share"] for name, part in parts.items()}
    training = first.contract.has_training
    found = agreed_tables.proposed_shares(first.noise.excess, shares, wanted, training)
    made = draft(cards, stated(found), schema, graph)
    return replace(made, proposed=found)


def _require_members_per_person(terms: dict[str, Any]) -> None:
    """Persons are promised something at all members together: at how many is asked, not assumed."""
    privacy = terms.get("privacy", {})
    if not isinstance(privacy, dict) or privacy.get("records_per_person") is None:
        return
    if privacy.get("members_per_person") is None:
        raise InputError(
            "contract field privacy.members_per_person: say at how many members the same person "
            "may have records (--members-per-person, or in the terms): 1 only if all know that "
            "their persons differ, and the number of members if that is not known."
        )


def plugin_codes(problem: dict[str, Any]) -> dict[str, str]:
    """loss_code and regulariser_code of a contract's problem, where these are plugins."""
    found = {
        "loss_code": losses.registry.code_hash(losses.by_name(problem.get("loss", "logistic"))),
        "regulariser_code": regularisers.registry.code_hash(
            regularisers.by_name(problem.get("regulariser", "l2"))
        ),
    }
    return {name: code for name, code in found.items() if code is not None}


def with_schema(terms: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The terms with what the schema says: its hash, the width, the row scale, the classes, and a
    number's bounds."""
    schema.require_confirmed()
    stated = terms.get("problem", {})
    schema = schema.as_model(
        stated.get("model", "linear") if isinstance(stated, dict) else "linear"
    )
    problem = {
        "n_features": len(schema.feature_names),
        "row_scale": schema.row_scale,
        **terms.get("problem", {}),
    }
    if schema.label.classes is not None:
        problem.setdefault("classes", list(schema.label.classes))
    problem.setdefault("loss", schema.label.usual_loss)
    found = {**terms, "problem": problem, "schema_hash": schema.hash()}
    reach = schema.label.encoded_range
    if schema.label.classes is None and reach is not None:
        if takes_label_bound(problem["loss"]) and reach[1] > 1.0:
            given = problem.get("loss_options", {})
            if isinstance(given, dict):
                problem["loss_options"] = {"label_bound": reach[1], **given}
        if isinstance(terms.get("evaluation"), dict):
            found["evaluation"] = {"low": reach[0], "high": reach[1], **terms["evaluation"]}
    return found


def usual_evaluation(
    terms: dict[str, Any], held_out: float | None = None, epsilon: float | None = None
) -> dict[str, Any]:
    """The terms with an evaluation: what they and the flags say, else a usual share of the records;
    a share of 0 is none."""
    given = {**(terms.get("evaluation") or {})}
    if held_out is not None:
        given["held_out"] = held_out
    if epsilon is not None:
        given["epsilon"] = epsilon
    share = given.setdefault("held_out", USUAL_SHARE if _can_be_evaluated(terms) else 0)
    if not 0 <= share < 1:
        raise InputError(
            f"--held-out must be at least 0 and below 1, not {share:g}; for example 0.2, or 0 for "
            "no evaluation."
        )
    if epsilon is not None and not (epsilon > 0 and share):
        raise InputError(
            f"--evaluation-epsilon must be greater than 0, with a share of records held out, not "
            f"{epsilon:g} with a share of {share:g}."
        )
    kept = {name: value for name, value in terms.items() if name != "evaluation"}
    if not share:
        return kept
    if "evaluation" not in terms and "finish_mixing" in kept:  # all evaluate the same model
        kept["finish_mixing"] = EXACT
    return {**kept, "evaluation": given}


def _can_be_evaluated(terms: dict[str, Any]) -> bool:
    """Whether a contract with these terms may have an evaluation: persons are at one member each,
    and it is known what the loss predicts."""

    if terms.get("privacy", {}).get("members_per_person", 1) > 1:
        return False
    named = terms.get("algorithm")
    if named in TABLES_ONLY or (isinstance(named, dict) and named.get("name") in TABLES_ONLY):
        return False
    loss = terms.get("problem", {}).get("loss")
    try:
        return loss is None or counts_for(losses.by_name(loss), 2) is not None
    except UnsupportedError:
        return False


def takes_label_bound(loss: str) -> bool:
    """Whether the loss of this name has a label bound, which the schema then declares."""
    return hasattr(losses.by_name(loss), "label_bound")


def leaves_open(terms: dict[str, Any]) -> bool:
    """Whether the planner is to choose the algorithm."""
    named = terms.get("algorithm", AUTO)
    if named == AUTO:
        return True
    if not isinstance(named, dict):
        raise InputError(
            f"contract field algorithm must be a table with a name, or 'auto', not {named!r}; "
            "correct it in the terms."
        )
    if named.get("name") != AUTO:
        return False
    if len(named) > 1:
        first = next(name for name in named if name != "name")
        raise InputError(
            f"contract field algorithm.{first}: 'auto' chooses its own settings; "
            "remove it from the terms, or name an algorithm."
        )
    return True


def _planned(values: dict[str, Any]) -> Plan:
    from tacenda.planning import plan_facts

    for field in PLANNED:
        if field in values and not (field == "rounds" and values[field] != AUTO):
            if values[field] == AUTO:
                continue
            raise InputError(
                f"contract field {field}: with algorithm 'auto' the planner decides it; "
                "remove it from the terms, or name an algorithm."
            )
    rounds = values.get("rounds", AUTO)
    privacy = dict(values.get("privacy", {}))
    asked = privacy.pop("coalition", DEFAULT_COALITION)
    kept = {k: v for k, v in values.items() if k not in PLANNED}
    # Sizes, graph and problem of a run whose algorithm is still open
    open_run = Contract.build(
        {
            **kept,
            "privacy": privacy if asked == "all" else {**privacy, "coalition": asked},
            "algorithm": {"name": "ipadmm"},
            "rounds": 1 if rounds == AUTO else rounds,
            "finish_mixing": EXACT,
        }
    )
    return plan_facts(
        facts_of(open_run),
        topology_of(open_run),
        open_run.privacy.promise,
        rounds=None if rounds == AUTO else rounds,
        whole_numbers=not open_run.privacy.floating_point_noise,
    )


def _with_choice(values: dict[str, Any], chosen: Plan) -> dict[str, Any]:
    kept = {k: v for k, v in values.items() if k not in (*PLANNED, "algorithm")}
    privacy = {k: v for k, v in values.get("privacy", {}).items() if k != "coalition"}
    if chosen.coalition is not None:
        privacy["coalition"] = chosen.coalition
    return {**kept, **choice_terms(chosen), "privacy": privacy}


def _read_toml(path: str | Path, what: str, remedy: str) -> dict[str, Any]:
    try:
        return from_toml(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"The {what} {path} is not there; check its name and folder.") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The {what} {path} cannot be read: {error}; {remedy}.") from None
