"""What a run is compared with: the noise-free ceiling, and the floor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda.runs.table import evaluate
from tacenda.runtime.metrics import as_shown, encode_like

CEILING, FLOOR = "noise-free optimum (ceiling)", "majority class (floor)"


def ceiling(
    problem: Any,
    test: tuple[Any, Any] | None,
    adjacency: str,
    units: tuple[float, float] = (0.0, 1.0),
) -> dict[str, Any]:
    """The centralised optimum without privacy:
    nothing that learns this model can do better on the objective."""
    return {
        "label": CEILING,
        "algorithm": None,
        **evaluate(problem, test, problem.solve(1e-6), adjacency, units),
    }


def floor(problem: Any, test: tuple[Any, Any] | None, adjacency: str) -> dict[str, Any]:
    """What knows nothing of a record: the most frequent class, and the objective at w = 0.

    Under add-remove without that objective: at 0 every record's loss is the same, so it is the
    number of records in disguise.
    """
    row: dict[str, Any] = {"label": FLOOR, "algorithm": None}
    if adjacency == "replace-one":
        row["objective"] = float(problem.objective(np.zeros(problem.dim)))
    if problem.loss.kind == "regression":
        return as_shown(
            {
                **row,
                "label": "model of zeros (floor)",
                "loss": float(problem.loss_of(np.zeros(problem.dim))),
            },
            adjacency,
        )
    values, counts = np.unique(problem.store.labels, return_counts=True)
    row["accuracy"] = float(counts.max() / counts.sum())
    if test is not None:
        row["test_accuracy"] = float(
            np.mean(encode_like(problem, test[1]) == values[np.argmax(counts)])
        )
    return as_shown(row, adjacency)
