"""The public half of the closing run, derived by every member from the contract that all signed and
from the model: what is asked of the held-out records, and with which noise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.errors import InputError, UnsupportedError
from tacenda.evaluation.private import counts_for
from tacenda.evaluation.private_run import offsets_of
from tacenda.questions.outcomes import OutcomeCounts, outcome_model
from tacenda.runtime.block import honest_reach
from tacenda.terms.method import SETTINGS
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.run_plan import RunPlan, loss_of, make_plan

if TYPE_CHECKING:
    from tacenda.questions.counts import Counts

IMPOSSIBLE = (
    "the sum of all members' counts is one that honest members cannot release, so a member's "
    "counts or mask are wrong. Nothing was computed from it. Compare the versions of the program "
    "at all members before you evaluate under a new contract"
)
NOISE_TOLERANCE = 0.01  # relative: members send their noise in the run's floating-point type
UNKNOWN = "0" * 64  # in the place of the model's digest, before there is a model
TITLE = ": evaluation"
# What a closing run does not take over from its contract
_OF_TRAINING = (
    "evaluation",
    "describe",
    "survival",
    "tables",
    "amendment",
    "follows",
    "left",
    "prepare",
    "continues",
    *(s.name for s in SETTINGS if s.name != "rounds"),
)


def model_digest(model: Array) -> str:
    """SHA-256 of a model, the same on every machine."""
    plain = np.ascontiguousarray(model, "<f8").reshape(-1)
    return hashlib.sha256(f"model of {len(plain)} numbers\n".encode() + plain.tobytes()).hexdigest()


def statistic_of(contract: Contract, edges: tuple[float, ...] | None = None) -> Counts:
    """What is asked of every held-out record. edges: where the finished model's scores lie
    (`tacenda.evaluation.score_bins`); a contract that states its own takes those."""
    terms, problem = contract.evaluation, contract.problem
    assert terms is not None
    of_numbers = problem.classes is None
    for field in ("low", "high", "residual_bound", "edges", "log_loss_bound"):
        number = field in ("low", "high", "residual_bound")
        if getattr(terms, field) is not None and number != of_numbers:
            kind = "classes" if number else "numbers"
            raise InputError(
                f"contract field evaluation.{field}: it has no meaning for a label of {kind}; "
                "remove it from the terms."
            )
    if of_numbers and (terms.low is None or terms.high is None):
        raise InputError(
            "contract field evaluation.low: for a label that is a number the contract must hold "
            "its bounds, low and high; `tacenda consortium draft` takes them from the schema."
        )
    bounds = None if not of_numbers else (float(terms.low or 0.0), float(terms.high or 0.0))
    usual = counts_for(loss_of(contract), len(problem.classes or ()), bounds)
    if terms.residual_bound is not None and not hasattr(usual, "residual_bound"):
        raise InputError(
            f"contract field evaluation.residual_bound: it has no meaning for the loss "
            f"{problem.loss!r}; remove it from the terms."
        )
    given: dict[str, Any] = {
        "edges": tuple(terms.edges) if terms.edges is not None else edges,
        "log_loss_bound": terms.log_loss_bound,
        "residual_bound": terms.residual_bound,
    }
    return replace(
        usual, **{name: x for name, x in given.items() if x is not None and hasattr(usual, name)}
    )


def _counted(contract: Contract) -> dict[str, Any]:
    """What the closing run's problem says otherwise: records whose loss makes rows of each are
    counted once, as problems of several classes are."""
    return {"loss": "multinomial"} if loss_of(contract).stacked else {}


def evaluated_model(contract: Contract, model: Array) -> Array:
    """A released model as the closing run asks for it."""
    loss, found = loss_of(contract), np.asarray(model, float).reshape(-1)
    if not loss.stacked:
        return found
    return outcome_model(loss, found, len(contract.problem.classes or ()))


def offsets_of_contract(contract: Contract, model: Array) -> tuple[float, ...] | None:
    """`PrivateEvaluation.offsets`, by the constant that every record of the schema has."""
    asked = statistic_of(contract)
    if not isinstance(asked, OutcomeCounts):
        return None
    return offsets_of(asked, model, 1.0 / contract.problem.row_scale)


def closing_contract(
    contract: Contract,
    model: str,
    noise: str,
    absent: Iterable[str] = (),
    edges: tuple[float, ...] | None = None,
) -> Contract:
    """The text of the closing run, the same at every member. model: the digest of what it
    evaluates; absent: who took no part in the training's end; edges: as for `statistic_of`."""
    terms, gone = contract.evaluation, frozenset(absent)
    assert terms is not None
    plain = {k: v for k, v in contract.to_plain().items() if k not in _OF_TRAINING}
    room = 200 - len(TITLE)
    sizes = {name: contract.held_out_size(name) for name in contract.names}
    return Contract.build(
        {
            **plain,
            "title": f"{contract.title[:room]}{TITLE}",
            "rounds": 1,
            "algorithm": {
                "name": "statistic",
                "statistic": statistic_of(contract, edges).to_plain(),
                "noise": noise,
            },
            "privacy": {
                **plain["privacy"],
                "epsilon": terms.epsilon or contract.privacy.epsilon,
                "delta": terms.delta or contract.privacy.delta,
            },
            "problem": {**plain["problem"], **_counted(contract)},
            "absence": {**plain["absence"], "policy": "stop", "losses": 0},
            "edges": [edge for edge in plain["edges"] if not gone & set(edge)],
            "members": [
                {**member, "size": sizes[member["name"]]}
                for member in plain["members"]
                if member["name"] not in gone
            ],
            "evaluates": {"run": contract.run_id(), "model": model},
        }
    )


def closing_plan(contract: Contract, model: str = UNKNOWN, absent: Iterable[str] = ()) -> RunPlan:
    """The public half of the closing run: under masks where the contract says how many members may
    combine what they know and the graph allows it, otherwise with noise that needs no trust."""
    plans = ["masked", "independent"]
    if contract.privacy.coalition is None:
        plans = ["independent"]
    while True:
        try:
            return make_plan(closing_contract(contract, model, plans[0], absent))
        except UnsupportedError:
            plans.pop(0)
            if not plans:
                raise


def is_possible(plan: RunPlan, absent: frozenset[str], total: Array, noise: float) -> bool:
    """True if honest members can have released this sum of counts under their own noise, except
    with a chance of 2^-100. A sum under masks was checked when it was made."""
    algorithm = plan.spec.algorithm
    assert isinstance(algorithm, StatisticRelease)
    if algorithm.traits.masks:
        return True
    contract, facts = plan.contract, plan.spec.facts
    here = np.array([contract.position(name) for name in contract.names if name not in absent])
    statistic = algorithm.statistic
    unit = facts.statistic_distance(statistic)
    ((charge, _),) = plan.calibration.reserved
    stds = unit * charge.parameters["noise_multiplier"][here]
    std = float(np.sqrt((stds**2).sum()))
    # Declared sizes may be exceeded: a member may hold up to twice as many records
    records = float(facts.sizes[here].sum()) * (1 if facts.true_sizes else 2)
    reach = honest_reach(records * statistic.norm, std, 1, len(total))
    return bool(np.abs(total).max() <= reach) and abs(noise - std) <= NOISE_TOLERANCE * std
