"""What a contract means, in words for the people who sign it."""

from __future__ import annotations

from typing import Any

from tacenda.planning.advice import noise_advice, uneven_sizes
from tacenda.privacy.statement import unit_of
from tacenda.words import against, counted
from tacenda_node.identity.certificates import spoken
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.evaluation_plan import closing_plan
from tacenda_node.peer.run_plan import RunPlan


def meaning(plan: RunPlan) -> list[tuple[str, str]]:
    """Labels and texts: members, algorithm, noise, privacy, against whom, and what to mind."""
    contract = plan.contract
    terms = contract.privacy
    found = [
        ("hash", contract.hash()),
        ("members", ", ".join(contract.names)),
        ("learns", learnt(contract)),
        ("algorithm", f"{plan.spec.algorithm.title}, {counted(contract.rounds, 'round')}"),
        ("noise", _noise(plan)),
        ("privacy", f"epsilon {terms.epsilon:g}, delta {terms.delta:g}, {terms.adjacency}"),
        ("for", unit_of(*terms.person)),
        ("records", unfit_rule(contract)),
        ("against", against(pooled(plan))),
    ]
    found += [("table", words) for words in table_words(contract)]
    if contract.continues is not None:
        found.append(("continues", continued(contract)))
    if contract.evaluation is not None:
        found.append(("evaluation", _evaluation_terms(contract)))
    return found + [("warning", sentence) for sentence in warnings_before(plan)]


def in_plain_words(plan: RunPlan, me: str) -> list[str]:
    """Sentences for who decides whether to sign, with the codes to compare by telephone."""
    contract = plan.contract
    terms, total = contract.privacy, sum(m.size for m in contract.members)
    odds = 1 / terms.delta
    public = (
        "The number of your records is public."
        if terms.adjacency == "replace-one"
        else "The number of your records stays secret."
    )
    done = "learn one model together" if contract.has_training else "add up counts"
    sentences = [
        f"{contract.title}: {len(contract.members)} members {done} from "
        f"{_about(terms.adjacency)}{total} records, in {counted(contract.rounds, 'round')} of "
        f"{plan.spec.algorithm.title}, {learnt(contract)}. No record leaves its member.",
        f"Cost: what anybody learns about {_one(plan)} is limited by epsilon "
        f"{terms.epsilon:g} (a factor of {_factor(terms.epsilon)} on any guess), except with a "
        f"probability of 1 in {odds:,.0f} (delta). {public}",
        f"This holds against {against(pooled(plan))}; noise: {_noise(plan)}.",
        *(
            f"The same cost pays for a table: {words}."
            for words in (table_words(contract) if contract.has_training else ())
        ),
        *([] if contract.continues is None else [f"It continues {continued(contract)}."]),
        *_evaluation(contract, me),
        unfit_rule(contract).capitalize() + ".",
        _absence(contract),
        "Compare these codes with each member by telephone before you sign:",
    ]
    for member in contract.members:
        own = " (you)" if member.name == me else ""
        reached = member.address if member.listens else f"{member.address} (calls out only)"
        sentences.append(
            f"  {member.name}{own}: {counted(member.size, 'record')}, {reached}, "
            f"certificate {spoken(member.fingerprint)}"
        )
    sentences.append(f"  this contract: {spoken(contract.hash())}")
    return [*sentences, *(f"Warning: {sentence}" for sentence in warnings_before(plan))]


def warnings_before(plan: RunPlan) -> list[str]:
    """What to know before anything is charged, from the contract alone: what its graph and the
    members' sizes cost, where that is much, and noise that leaves little to learn."""
    names, coalition, privacy = plan.contract.names, pooled(plan), plan.spec.privacy
    assert privacy is not None
    return [
        *plan.spec.cut_advice(),
        *uneven_sizes(plan.spec.facts, names, coalition),
        *noise_advice(plan.spec.facts, privacy),
    ]


def learnt(contract: Contract) -> str:
    """The loss with its options, and those of the regulariser."""
    p = contract.problem
    if not contract.has_training:
        return "no model that predicts: " + "; ".join(table_words(contract))
    words = f"loss {p.loss}{_options(p.loss_options)}"
    if p.regulariser_options:
        words += f", regulariser {p.regulariser}{_options(p.regulariser_options)}"
    return words


def continued(contract: Contract) -> str:
    """What is taken over, and whose records are asked for."""
    terms = contract.continues
    assert terms is not None
    words = f"the run {terms.run[:12]}: it starts at that run's model"
    if contract.prepare is not None:
        words += " and uses its map again, so that all of the cost is for the rounds"
    which = {"all": "", "new": "ids that no run has read", "old": "ids that a run has read"}
    asked = [which[terms.records]] if terms.records != "all" else []
    if terms.window is not None:
        asked.append(f"ids that first took part in the latest {counted(terms.window, 'training')}")
    return words + (f". It asks for {' and '.join(asked)}" if asked else "")


def table_words(contract: Contract) -> list[str]:
    """Each table with its groups and its share of the budget."""
    said, parts = [], contract.table_parts()
    titles = {
        "describe": "who is in the data",
        "survival": "survival curves",
        "hazards": "hazard ratios",
    }
    for name, part in parts.items():
        words = titles[name] + (f" by {part['by']}" if part.get("by") else "")
        if part.get("columns"):
            words += f" ({', '.join(part['columns'])})"
        if contract.has_training:
            words += f", in round 1, for {part['share']:.3g} of the budget (in squares)"
        said.append(words)
    return said


def _options(options: dict[str, float] | None) -> str:
    words = ", ".join(f"{name} {value:g}" for name, value in (options or {}).items())
    return f" ({words})" if words else ""


def _evaluation_terms(contract: Contract) -> str:
    plan = closing_plan(contract)
    terms, share = plan.contract.privacy, contract.evaluation
    assert share is not None
    return (
        f"{share.held_out:.3g} of the records held out; epsilon {terms.epsilon:g}, delta "
        f"{terms.delta:g} for them, against {against(pooled(plan))}; noise: {_noise(plan)}"
    )


def _evaluation(contract: Contract, me: str) -> list[str]:
    """What a closing evaluation means for a member's records."""
    if contract.evaluation is None:
        return []
    return [
        f"At the end the model is evaluated, on {_about(contract.privacy.adjacency)}"
        f"{contract.held_out_size(me)} of your {counted(contract.member(me).size, 'record')} "
        "that are never trained on; which ones, your node draws in secret, once. "
        f"Terms: {_evaluation_terms(contract)}. "
        "Each record is covered by one of the two costs, never by their sum."
    ]


def unfit_rule(contract: Contract) -> str:
    """What becomes of a record that the schema cannot read: a node never stops because of one."""
    what = "a record that the schema cannot read"
    if contract.privacy.adjacency == "add-remove":
        return f"{what} is left out"
    return f"{what} counts as a blank one, which moves nothing"


def _about(adjacency: str) -> str:
    """Sizes that were declared stand for true ones, which are secret."""
    return "about " if adjacency == "add-remove" else ""


def _one(plan: RunPlan) -> str:
    """Whose data the promise is about, as one's own."""
    person = plan.contract.privacy.person
    return "one record of yours" if person == (1, 1) else unit_of(*person)


def pooled(plan: RunPlan) -> int | None:
    """How many members may combine what they know; None where that makes no difference."""
    return None if plan.spec.algorithm.traits.shared_noise is None else plan.coalition


def _noise(plan: RunPlan) -> str:
    if plan.contract.rehearsal_seed is not None:
        return "SEEDED: for a rehearsal only"
    noise = (
        "exact discrete Gaussian on whole numbers"
        if plan.on_lattice
        else "floating point, accepted by name"
    )
    if plan.spec.algorithm.traits.shared_noise is None:
        return noise
    masks = plan.spec.algorithm.traits.masks
    if not masks:
        return f"{noise}, shared by neighbours"
    groups = plan.spec.group_words()
    where = "each group's sum" if groups else "the sum"
    return f"{noise}, under masks that cancel in {where}" + (f"; {groups}" if groups else "")


def _factor(epsilon: float) -> str:
    import math

    return f"{math.exp(epsilon):.3g}" if epsilon < 20 else "more than 10^8: no protection"


def _absence(contract: Any) -> str:
    limit = f"{contract.absence.limit_seconds:g} s"
    if contract.absence.policy == "stop":
        return f"If a member stays away for {limit}, the run stops, and can be continued later."
    losses = contract.absence.reserved_losses
    return (
        f"If a member stays away for {limit}, the others continue without it, "
        f"{counted(losses, 'time')} at the most; the noise pays for that in advance."
    )
