"""The rows that a run shows first: every algorithm with mean and range over seeds.

Their measures read the private records without noise, which a simulation may (`NOTE`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.evaluation import figures, measures
from tacenda.evaluation.units import Units
from tacenda.runtime.held_out import HeldOutRecords
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.result import RunResult
from tacenda.terms.method import SETTINGS

NOTE = (
    "the measures in the table are diagnostics of a simulation: "
    "they read the private records without noise"
)


AS_ENCODED = Units()
# What a row gives the mean and the range over the seeds of
MEANS = (
    *(f"test_{name}" for name in (*measures.ON_RECORDS, "loss")),
    *measures.ON_RECORDS,
    "objective",
    "loss",
    "worst_accuracy",
    "worst_objective",
)


def evaluate(
    shards: LocalShards,
    test: HeldOutRecords | None,
    models: Array,
    adjacency: str,
    units: Units = AS_ENCODED,
    *,
    drawn: Sequence[Any] | bool = False,
) -> dict[str, Any]:
    """How good the average model is on all records, and on test records: the measures of
    `tacenda.evaluation.measures` (accuracy, roc_auc, ...; r2, rmse, mae), objective and loss; and
    of the nodes' own models worst_objective, worst_accuracy, node_accuracy; see `as_shown`.

    units: of the label; RMSE and MAE are in them, and predictions inside its bounds. drawn: also
    "figures" (`tacenda.evaluation.figures`) of the test records, or of all where there are none;
    the names of the classes, or True for a regression. All ranks call it; the root has the result,
    and the others an empty one.
    """
    problem = shards.problem
    rows = np.asarray(models, float).reshape(-1, problem.dim)
    average = rows.mean(axis=0)
    # What the ranks find together comes first
    objective, (scores, labels) = shards.objective(average), shards.outcomes(average)
    loss: Any = problem.loss
    value = loss.of_records if loss.stacked else loss.value
    own: dict[str, Any] = {}
    if len(rows) > 1:
        own["worst_objective"] = float(np.max(shards.objectives(rows)))
        if loss.classifies:
            each = shards.accuracies(rows)
            own["node_accuracy"] = [round(float(a), 6) for a in each]
            own["worst_accuracy"] = float(each.min())
    new, answers = None, None
    if test is not None:
        new, answers = test.scores(problem, average), test.all_labels
    if scores is None or labels is None:
        return {}
    found: dict[str, Any] = {
        "objective": objective,
        "loss": float(np.mean(value(scores, labels))),
        **_measures(problem, labels, scores, units),
        **own,
    }
    whose = "training"
    if new is not None and answers is not None:
        whose, scores, labels = "test", new, answers
        found["test_loss"] = float(np.mean(value(scores, labels)))
        measured = _measures(problem, labels, scores, units)
        found.update({f"test_{name}": value for name, value in measured.items()})
    shown = measures.as_shown(found, adjacency)
    if drawn:
        plain = _figures(problem, labels, scores, units, drawn)
        hidden = whose == "training" and adjacency != "replace-one"
        shown["figures"] = {"of": whose, **(figures.coarse(plain) if hidden else plain)}
    return shown


def _figures(
    problem: Any, labels: Array, scores: Array, units: Units, classes: Any
) -> dict[str, Any]:
    if problem.loss.stacked:
        return figures.outcomes(labels, scores, problem.loss.name, classes)
    if problem.loss.kind == "regression":
        guessed = units.of_loss(problem.loss.name).predictions(scores)
        return figures.regression(units.labels(labels), guessed)
    numbers = labels > 0 if problem.loss.kind == "binary" else labels
    return figures.classification(
        numbers, scores, classes, probabilities=problem.loss.predicts == "log-odds"
    )


def _measures(problem: Any, labels: Array, scores: Array, units: Units) -> Any:
    if problem.loss.stacked:
        return measures.outcomes(labels, scores, problem.loss.name)
    if problem.loss.kind == "regression":
        name, level = problem.loss.name, getattr(problem.loss, "level", None)
        guessed = units.of_loss(name).predictions(scores)
        return measures.regression(units.labels(labels), guessed, loss=name, level=level)
    numbers = labels > 0 if problem.loss.kind == "binary" else labels
    return measures.classification(
        numbers, scores, probabilities=problem.loss.predicts == "log-odds"
    )


def row(label: str, results: list[RunResult], measured: list[dict[str, Any]]) -> dict[str, Any]:
    """One algorithm over its seeds: means, and [least, largest] of each measure beside them."""
    first = results[0]
    found: dict[str, Any] = {
        "label": label,
        "algorithm": first.settings["algorithm"]["name"],
        "seeds": len(results),
    }
    for key in MEANS:
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
            exact=worst.exact,
            claimed=worst.claimed,
            why=worst.why,
            coalition=worst.curve().coalition,
            conditions=list(worst.curve().conditions),
            unit=worst.unit,
        )
        found = measures.as_shown(found, worst.adjacency)
    else:
        found.update(epsilon=None, delta=None, adjacency=None)
    found.update({s.name: first.settings.get(s.name, s.default) for s in SETTINGS})
    found.update(
        bytes=first.bytes,
        messages=first.messages,
        seconds=float(np.mean([r.seconds for r in results])),
    )
    return found
