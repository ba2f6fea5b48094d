"""The coefficients of a run, from its result or its folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacenda.data.schema import Schema
from tacenda.evaluation.coefficients import (
    ENCODED,
    KNOWN,
    RATIOS,
    CoefficientTable,
    coefficient_table,
    ratio_note,
)
from tacenda.evaluation.declared_design import (
    design_of,
    no_units_note,
    reference_notes,
    shown_rules,
    spans_of,
)
from tacenda.evaluation.figures import cut_names
from tacenda.inference.design import INTERCEPT, Design
from tacenda.inference.result import Inference
from tacenda.losses.registry import BUILT_IN, predicts
from tacenda.losses.stacked import stated_weights
from tacenda.runtime.result import RunResult
from tacenda.runtime.run_folder import RunFolder


def how_known(result: RunResult) -> str:
    """How the standard errors of a result's weights are known, in one sentence."""
    name, loss = str(result.settings["algorithm"]["name"]), result.settings["problem"].get("loss")
    if result.privacy is None:
        return "No noise was added, so there is no standard error from noise."
    if result.noise_std is None:
        return (
            f"The standard error from privacy noise is not known for the algorithm {name!r} "
            f"with the loss {loss!r}."
        )
    if name == KNOWN:
        return (
            "The standard errors are those of the privacy noise alone, computed from the released "
            "noise (to first order)."
        )
    kind = BUILT_IN.get(str(loss))
    only = "" if kind is None or not kind.error_condition else f", {kind.error_condition}"
    return (
        "The standard errors are those of the privacy noise alone, by the planner's forecast on "
        f"the released spectrum{only}. Where the noise hides how much a feature varies (rare "
        "levels, indicators that add up to 1), they are upper estimates, up to a few times too "
        "large."
    )


def run_coefficients(
    result: RunResult,
    names: Sequence[str],
    schema: Schema | None = None,
    outputs: Sequence[Any] | None = None,
    inference: Inference | None = None,
) -> CoefficientTable:
    """Make the table of a run's average model.

    It follows from what was released and public declarations, and costs no privacy.

    Parameters
    ----------
    result : RunResult
        The run.
    names : sequence of str
        Its features; a last one called "intercept" is the intercept.
    schema : Schema or None, default=None
        The scaling and transforms that it declares are undone, the label's too. Without one, or
        where its `row_norm` shortens rows, the weights are shown for the encoded features, and all
        spans are 1.
    outputs : sequence or None, default=None
        The classes, where there are several scores.
    inference : Inference or None, default=None
        What `tacenda.inference.intervals` gave for the run; None: what the run's own release
        tells, if it tells intervals.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.evaluation import run_coefficients
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> result = tc.simulate(tc.Problem(shards, classes=(0, 1)), tc.graph.ring(4), "admm", 5)
    >>> len(run_coefficients(result, ("a", "b", "c")))
    3
    """
    about = result.settings["problem"]
    w = stated_weights(about, result.model)
    std = None if result.noise_std is None else stated_weights(about, result.noise_std)
    p, loss = w.shape[1], BUILT_IN.get(str(about.get("loss")))
    stacked = loss is not None and loss.stacked
    outputs = cut_names(str(loss.name), outputs or True, len(w)) if stacked and loss else outputs
    constant = bool(len(names)) and names[-1] == INTERCEPT
    shown = names[: p - 1] if constant else names
    if inference is None and not stacked and not (schema is not None and schema.additive):
        inference = told_intervals(result, None if schema is None else design_of(schema))
    if schema is None or no_units_note(schema) is not None:
        notes = _ratios(result)
        if schema is not None:
            inference, notes = None, [str(no_units_note(schema)), *notes]
        return coefficient_table(
            shown,
            w[:, :-1] if constant else w,
            w[:, -1] if constant else None,
            coef_std=None if std is None else (std[:, :-1] if constant else std),
            intercept_std=None if std is None or not constant else std[:, -1],
            outputs=outputs,
            errors=how_known(result),
            notes=notes,
            units=ENCODED,
            inference=inference,
            shared=stacked,
        )
    design = design_of(schema, result.settings["problem"].get("loss"))
    values = w @ design.matrix.T + design.offset
    errors = intercept_std = None
    if std is not None:
        # A row that mixes weights has none: their noise is joint, and most of it cancels
        spread = np.sqrt(std**2 @ (design.matrix.T**2))
        spread[:, np.count_nonzero(design.matrix, axis=1) > 1] = math.nan
        errors, intercept_std = spread[:, :-1], spread[:, -1]
    if inference is not None:
        inference = inference.mapped(design.matrix, design.offset)
    return coefficient_table(
        design.names[:-1],
        values[:, :-1],
        values[:, -1],
        coef_std=errors,
        intercept_std=intercept_std,
        spans=spans_of(schema)[shown_rules(schema)],
        outputs=outputs,
        errors=how_known(result),
        notes=[*reference_notes(schema), *_ratios(result)],
        inference=inference,
        shared=stacked,
    )


def kept_intervals(folder: RunFolder, run: str) -> Inference | None:
    """The intervals that were asked for and kept with a run of a folder, if any."""
    path = folder.intervals_path(run)
    return Inference.load(path) if path.is_file() else None


def told_intervals(result: RunResult, design: Design | None = None) -> Inference | None:
    """The intervals that a run's own release tells at no further cost, if any."""
    from tacenda.inference.asking import intervals, told_by  # here: it loads the simulation

    return intervals(result, design=design) if told_by(result) else None


def _ratios(result: RunResult) -> list[str]:
    ratio = RATIOS.get(str(predicts(result.settings["problem"].get("loss"))))
    return [] if ratio is None else [ratio_note(ratio)]
