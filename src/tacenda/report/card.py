"""`model_card`: what one model promises, as Markdown to go beside its file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacenda.privacy.statement import Statement
from tacenda.report import numbers
from tacenda.report.account import Account
from tacenda.report.wording import ACCOUNTANTS, meaning, relation_of
from tacenda.runtime.result import RunResult
from tacenda.terms.closing import closing_words, finish_of
from tacenda.words import counted


def model_card(result: RunResult) -> str:
    """Model card of one result, in Markdown: what the model promises and on what conditions.

    It holds no measure of the records, so that it may go wherever the model goes.

    Parameters
    ----------
    result : RunResult
        What `simulate` or `load` returned.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem = tc.Problem(shards, classes=(0, 1))
    >>> budget = tc.Privacy(2.0)
    >>> result = tc.simulate(problem, tc.graph.ring(4), "cdpadmm", 5, budget, seed=0)
    >>> tc.report.model_card(result).startswith("#")
    True
    """
    s = result.settings
    title = f"{s['algorithm']['name']}, {s['problem']['loss']}"
    return card(title, s, result.privacy, result.models.shape, s["problem"].get("classes"))


def card(
    title: str,
    settings: dict[str, Any],
    privacy: Statement | None,
    shape: Sequence[int],
    classes: Sequence[Any] | None,
    conditions: Sequence[str] = (),
) -> str:
    """A card from a run's settings.

    shape: of all nodes' weights. conditions: the maker's own, instead of the usual ones.
    """
    training = f"## Learnt by\n\n{_training(settings)}"
    parts = [
        f"# Model card: {title}",
        _privacy(privacy, conditions),
        _model(settings["problem"], shape, classes),
        training,
    ]
    versions = ", ".join(f"{k} {v}" for k, v in settings.get("versions", {}).items())
    return "\n\n".join([*parts, _network(settings["graph"]), f"Versions: {versions}."]) + "\n"


def _network(graph: dict[str, Any]) -> str:
    edges = f", {counted(len(graph['edges']), 'edge')}" if "edges" in graph else ""
    return (
        "## Network\n\n"
        f"{counted(graph['n'], 'node')}{edges} ({graph.get('name') or 'given graph'}); no server."
    )


def _privacy(statement: Statement | None, conditions: Sequence[str]) -> str:
    if statement is None:
        return (
            "## Privacy\n\n**None.** No noise was added; "
            "the model and the messages may show what the records hold."
        )
    account = Account.of(statement, {})
    s = account.statement
    rows = [
        ("epsilon", numbers.epsilon(account.epsilon) + ("" if s.exact else " (an upper bound)")),
        ("delta", numbers.short(account.delta)),
        ("relation", f"{s.adjacency}: {relation_of(s)}"),
        ("unit", s.unit),
        (
            "accountant",
            f"{account.curve.accountant}: "
            f"{ACCOUNTANTS.get(account.curve.accountant, 'see the documentation')}",
        ),
        ("mode", s.mode),
        ("noise", s.noise),
    ]
    if s.claimed is not None:
        rows.insert(
            2,
            (
                "claimed by the paper",
                f"epsilon {numbers.epsilon(s.claimed[0])} at delta {numbers.short(s.claimed[1])}",
            ),
        )
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return (
        f"## Privacy\n\n| | |\n| --- | --- |\n{table}\n\n{meaning(account)}\n\n"
        f"{_conditions(account, conditions)}"
    )


def _conditions(account: Account, stated: Sequence[str]) -> str:
    lines = [
        *account.curve.conditions,
        "the adversary may see every message of every node in every round",
    ]
    for size, epsilon in account.groups((2,)):
        if math.isfinite(epsilon):
            lines.append(
                f"somebody with {size} records on one node has epsilon "
                f"{numbers.epsilon(epsilon)} instead"
            )
    return "Conditions:\n\n" + "\n".join(
        f"- {line}" for line in [*lines, *(stated or _usual(account))]
    )


def _usual(account: Account) -> list[str]:
    lines = [
        "bounds, levels and labels were public or declared so",
        "hyperparameters were not chosen by looking at these records",
    ]
    if "simulation" in account.statement.noise:
        lines.append(
            "the noise came from a seed: this model is a simulation's, "
            "not to be released as private"
        )
    return lines


def _model(p: dict[str, Any], shape: Sequence[int], classes: Sequence[Any] | None) -> str:
    weights = " x ".join(str(k) for k in shape[1:])
    named = f", classes {', '.join(map(str, classes))}" if classes else ""
    form = str(p.get("model", "linear")).capitalize()
    return (
        "## Model\n\n"
        f"{form}, {weights} weights for {counted(p['n_features'], 'feature')}{named}; "
        f"one model per node ({shape[0]}) and their average.\n"
        f"Loss {p['loss']}, regulariser {p['regulariser']} of strength "
        f"{numbers.strength(p)}; rows of norm at most {numbers.row_bound(p)}."
    )


def _training(s: dict[str, Any]) -> str:
    chosen = ", ".join(
        f"{k} {numbers.setting(v)}" for k, v in s["algorithm"].items() if k != "name"
    )
    sizes = np.asarray(s["problem"]["sizes"])
    return (
        f"{s['algorithm']['name']} ({chosen}), {counted(s['rounds'], 'round')}, "
        f"output {s.get('output')}, {closing_words(finish_of(s))}, "
        f"on {counted(int(sizes.sum()), 'record')}."
    )
