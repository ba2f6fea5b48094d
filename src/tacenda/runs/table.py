"""The rows that a run shows first: every algorithm with mean and range over seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.runtime.metrics import as_shown, encode_like
from tacenda.runtime.result import RunResult

NOTE = (
    "accuracy and objective are diagnostics of a simulation: "
    "they read the private records without noise"
)


def evaluate(
    problem: Any, test: tuple[Any, Any] | None, models: Array, adjacency: str
) -> dict[str, Any]:
    """How good the average model is, and each node's own: {accuracy, objective, loss, ...,
    node_accuracy}; see `as_shown`."""
    rows = np.asarray(models, float).reshape(-1, problem.dim)
    average = rows.mean(axis=0)
    found: dict[str, Any] = {
        "objective": float(problem.objective(average)),
        "loss": float(problem.loss_of(average)),
        "accuracy": problem.accuracy(average),
    }
    if len(rows) > 1:
        found["worst_objective"] = float(np.max(problem.objective(rows)))
        if problem.loss.kind != "regression":
            each = np.asarray(problem.accuracy(rows))
            found["node_accuracy"] = [round(float(a), 6) for a in each]
            found["worst_accuracy"] = float(each.min())
    if test is not None:
        scores, labels = problem.predict_scores(test[0], average), encode_like(problem, test[1])
        found["test_loss"] = float(np.mean(problem.loss.value(scores, labels)))
        if problem.loss.kind != "regression":
            found["test_accuracy"] = float(
                np.mean(problem.store.right(scores.reshape(len(labels), -1), labels))
            )
    return as_shown(found, adjacency)


def row(label: str, results: list[RunResult], measured: list[dict[str, Any]]) -> dict[str, Any]:
    """One algorithm over its seeds: means, and [least, largest] of each measure beside them."""
    first = results[0]
    found: dict[str, Any] = {
        "label": label,
        "algorithm": first.settings["algorithm"]["name"],
        "seeds": len(results),
    }
    for key in (
        "accuracy",
        "objective",
        "loss",
        "worst_accuracy",
        "worst_objective",
        "test_accuracy",
        "test_loss",
    ):
        values = [m[key] for m in measured if m.get(key) is not None]
        if values:
            found[key] = float(np.mean(values))
            found[f"{key}_range"] = [min(values), max(values)]
    statements = [r.privacy for r in results if r.privacy is not None]
    if statements:
        worst = max(statements, key=lambda s: s.epsilon)
        found.update(
            epsilon=worst.epsilon,
            delta=worst.delta,
            adjacency=worst.adjacency,
            mode=worst.mode,
            accountant=worst.accountant,
            claimed=worst.claimed,
            why=worst.why,
            coalition=worst.curve().coalition,
            conditions=list(worst.curve().conditions),
        )
        found = as_shown(found, worst.adjacency)
    else:
        found.update(epsilon=None, delta=None, adjacency=None)
    found.update(rounds=first.rounds, finish_mixing=first.settings["finish_mixing"])
    found.update(
        bytes=first.bytes,
        messages=first.messages,
        seconds=float(np.mean([r.seconds for r in results])),
    )
    return found
