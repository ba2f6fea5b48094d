"""`model_card`: what one model promises, as Markdown to go beside its file."""

from __future__ import annotations

import math

import numpy as np

from tacenda.privacy.statement import UNIT
from tacenda.report import numbers
from tacenda.report.account import Account
from tacenda.report.wording import ACCOUNTANTS, RELATIONS, meaning
from tacenda.runtime.result import RunResult
from tacenda.words import counted


def model_card(result: RunResult) -> str:
    """The card of one result. It holds no measure of the records, so it may go wherever the model goes."""
    s = result.settings
    p, g = s["problem"], s["graph"]
    title = f"# Model card: {s['algorithm']['name']}, {p['loss']}"
    parts = [title, _privacy(result), _model(result), f"## Learnt by\n\n{_training(result)}"]
    parts.append(
        f"## Network\n\n{counted(g['n'], 'node')}, {counted(len(g['edges']), 'edge')} ({g.get('name') or 'given graph'}); no server."
    )
    versions = ", ".join(f"{k} {v}" for k, v in s.get("versions", {}).items())
    return "\n\n".join([*parts, f"Versions: {versions}."]) + "\n"


def _privacy(result: RunResult) -> str:
    if result.privacy is None:
        return "## Privacy\n\n**None.** No noise was added; the model and the messages may show what the records hold."
    account = Account.of(result.privacy, {})
    s = account.statement
    rows = [
        ("epsilon", numbers.epsilon(account.epsilon)),
        ("delta", numbers.short(account.delta)),
        ("relation", f"{s.adjacency}: {RELATIONS[s.adjacency]}"),
        ("unit", UNIT),
        (
            "accountant",
            f"{account.curve.accountant}: {ACCOUNTANTS.get(account.curve.accountant, 'see the documentation')}",
        ),
        ("mode", s.mode),
        ("noise", s.noise),
    ]
    if s.claimed is not None:
        rows.insert(2, ("claimed in print", f"epsilon {numbers.epsilon(s.claimed[0])} at delta {numbers.short(s.claimed[1])}"))
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"## Privacy\n\n| | |\n| --- | --- |\n{table}\n\n{meaning(account)}\n\n{_conditions(account)}"


def _conditions(account: Account) -> str:
    lines = [
        *account.curve.conditions,
        "the adversary may see every message of every node in every round",
        "bounds, levels and labels were public or declared so",
        "hyperparameters were not chosen by looking at these records",
    ]
    for size, epsilon in account.groups((2,)):
        if math.isfinite(epsilon):
            lines.append(f"somebody with {size} records on one node has epsilon {numbers.epsilon(epsilon)} instead")
    if "simulation" in account.statement.noise:
        lines.append("the noise came from a seed: this model is a simulation's, not to be released as private")
    return "Conditions:\n\n" + "\n".join(f"- {line}" for line in lines)


def _model(result: RunResult) -> str:
    p = result.settings["problem"]
    shape = " x ".join(str(k) for k in result.models.shape[1:])
    classes = f", classes {', '.join(p['classes'])}" if p.get("classes") else ""
    return (
        f"## Model\n\nLinear, {shape} weights for {counted(p['n_features'], 'feature')}{classes}; "
        f"one model per node ({len(result.models)}) and their average.\n"
        f"Loss {p['loss']}, regulariser {p['regulariser']} of strength {numbers.setting(p['strength'])}; "
        f"rows of norm at most {numbers.setting(p['data_norm'])}."
    )


def _training(result: RunResult) -> str:
    s = result.settings
    chosen = ", ".join(f"{k} {numbers.setting(v)}" for k, v in s["algorithm"].items() if k != "name")
    sizes = np.asarray(s["problem"]["sizes"])
    return (
        f"{s['algorithm']['name']} ({chosen}), {counted(s['rounds'], 'round')}, output {s.get('output')}, "
        f"{counted(s.get('finish_mixing', 0), 'closing mixing round')}, on {counted(int(sizes.sum()), 'record')}."
    )
