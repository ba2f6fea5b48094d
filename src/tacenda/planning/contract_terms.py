"""A plan as the terms of a contract: what members sign, without what their cards and the schema
say."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

from tacenda import losses, regularisers
from tacenda.algorithms.whitened import Whitened
from tacenda.errors import InputError
from tacenda.planning.outcome import Plan
from tacenda.terms.method import SETTINGS
from tacenda.terms.privacy import Promise
from tacenda.terms.problem import Declared
from tacenda.terms.setting import settings

PLANNED = (*(s.name for s in SETTINGS if s.planned), "prepare")


def choice_terms(chosen: Plan) -> dict[str, Any]:
    """What the planner decided, as terms: algorithm, rounds, output, closing mixings, prepare; and
    what else was fixed of the method."""
    method, plain = chosen.method, chosen.method.to_plain()
    found = {
        s.name: plain[s.name] for s in SETTINGS if s.planned or getattr(method, s.name) != s.default
    }
    algorithm = chosen.algorithm
    if isinstance(algorithm, Whitened):
        found["prepare"] = _set_values(algorithm.whitening.to_plain())
        algorithm = algorithm.algorithm
    found["algorithm"] = _set_values(algorithm.to_plain())
    return found


def plan_terms(chosen: Plan, title: str) -> dict[str, Any]:
    """A plan as the terms of a contract, to give to `tacenda consortium new` or `contract new`."""
    if not isinstance(chosen.epsilon, float):
        raise InputError(
            "--terms needs one epsilon for all members, as a contract has it, not one per node."
        )
    k = chosen.facts.constants
    # What a contract has by default anyway need not be written
    declared = {
        s.name: getattr(k, s.name)
        for s in settings(Declared, "contract")
        if s.names_run and getattr(k, s.name) != (s.agreed or (s.kind, s.default))[1]
    }
    problem = {
        **declared,
        "loss": k.loss.name,
        "loss_options": _options(k.loss, losses),
        "regulariser": k.regulariser.name,
        "regulariser_options": _options(k.regulariser, regularisers),
        "strength": k.stated_strength,
        "loss_scale": k.loss_scale,
    }
    there = {s.name for s in settings(Promise, "contract")}
    promise = chosen.promise.to_plain()
    privacy = _set_values({name: promise[name] for name in promise if name in there})
    persons = chosen.facts.records_per_person * chosen.facts.members_per_person > 1
    if persons and not chosen.facts.one_record:
        for name in ("records_per_person", "members_per_person"):
            privacy[name] = getattr(chosen.facts, name)
    return {
        "title": title,
        **choice_terms(chosen),
        "problem": _set_values(problem),
        "privacy": privacy,
    }


def _options(part: Any, kinds: ModuleType) -> dict[str, Any] | None:
    """The settings of a loss or a regulariser that are not its usual ones; None for a plugin, which
    has its own. By how much rows were divided is told apart."""
    name = part.name
    if kinds.registry.code_hash(part) is not None or not is_dataclass(part):
        return None
    usual = kinds.by_name(name)
    found = {f.name: getattr(part, f.name) for f in fields(part) if f.name != "row_scale"}
    return {n: v for n, v in found.items() if v != getattr(usual, n)} or None


def _set_values(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}
