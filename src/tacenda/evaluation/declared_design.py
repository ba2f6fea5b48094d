"""What a schema declares about the coefficients of its features: their rows in a table, the map to
original units, and where there are none."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from tacenda._types import Floats
from tacenda.data.columns import CategoricalColumn
from tacenda.data.schema import Schema
from tacenda.inference.design import INTERCEPT, Design
from tacenda.losses.registry import predicts


def design_of(schema: Schema, loss: str | None = None) -> Design:
    """Return what a schema declares about encoded rows, and the rows of a table of coefficients.

    Levels of a category are shown as contrasts to its reference level, for the indicators of a
    category add up to 1. The intercept is the score of a record with all categories at their
    reference and all other quantities at 0.

    Parameters
    ----------
    schema : Schema
        The schema.
    loss : str or None, default=None
        Of the model; scores of counts are logarithms of a rate.

    Returns
    -------
    Design
        Names, the map to original units, redundant directions, and the second moment of rows that
        fill what is declared evenly.

    Examples
    --------
    >>> import tacenda as tc
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "categorical", "name": "ward", "levels": ["n", "s", "w"]}],
    ...     label={"name": "ill", "classes": ["no", "yes"]},
    ... )
    >>> tc.evaluation.design_of(schema).names
    ("ward is 's'", "ward is 'w'", 'intercept')
    """
    scale, (centre, reach) = schema.row_scale, schema.label.centre_and_reach
    if predicts(loss) == "log-rate":
        centre, reach = math.log(reach), 1.0
    rules, references, kept = schema.rules, references_of(schema), shown_rules(schema)
    d, unit = len(rules), reach / scale  # unit: of an indicator's and of the constant's weight
    matrix = np.zeros((len(kept) + 1, d))
    for row, j in enumerate(kept):
        matrix[row, j] = rules[j].slope * reach
        base = references.get(str(rules[j].column))
        if base is not None:
            matrix[row, base] = -rules[j].slope * reach
    matrix[-1] = [rule.offset * reach for rule in rules]
    constants = []
    for column, base in references.items():
        matrix[-1, base] += unit
        constants.append(np.array([float(rule.column == column) for rule in rules]))
    if schema.intercept:
        matrix[-1, -1] = unit
        constants.append(np.eye(d)[-1])
    return Design(
        (*(rules[j].quantity for j in kept), INTERCEPT),
        matrix,
        np.append(np.zeros(len(kept)), centre),
        np.array([a - b for a, b in pairwise(constants)]).reshape(-1, d),
        constants[-1] * scale if constants else None,
        _even_moment(schema) / scale**2,
    )


def references_of(schema: Schema) -> dict[str, int]:
    """The position of each category's reference level among the features, by the category."""
    found, at = {}, 0
    for column in schema.columns:
        if isinstance(column, CategoricalColumn):
            level = column.levels[0] if column.reference is None else column.reference
            found[column.name] = at + column.levels.index(level)
        at += len(column.rules)
    return found


def shown_rules(schema: Schema) -> list[int]:
    """The positions of the features that have a row: all but reference levels and intercept."""
    left_out = set(references_of(schema).values())
    count = len(schema.rules) - schema.intercept
    return [j for j in range(count) if j not in left_out]


def _even_moment(schema: Schema) -> Floats:
    """(d, d) the mean of xx', before rows are divided, for records whose columns are independent of
    each other and spread evenly over what is declared; a tenth of the numbers that may be missing
    is."""
    d = len(schema.rules)
    mean, covariance, at = np.zeros(d), np.zeros((d, d)), 0
    for column in schema.columns:
        count = len(column.rules)
        own = slice(at, at + count)
        if isinstance(column, CategoricalColumn):
            mean[own] = 1 / count
            covariance[own, own] = np.eye(count) / count - 1 / count**2
        else:
            ends = column.encoded(np.array([column.low, column.high]))
            middle, spread = ends.mean(axis=0), np.ptp(ends, axis=0) ** 2 / 12
            if column.transform == "cyclic":
                middle, spread = np.zeros(2), np.full(2, 0.5)
            elif column.transform == "standardise":
                middle, spread = np.clip(0.0, *np.sort(ends, axis=0)), np.minimum(spread, 1.0)
            if column.missing_indicator:
                middle, spread = np.append(middle, 0.1), np.append(spread, 0.09)
            mean[own], covariance[own, own] = middle, np.diag(spread)
        at += count
    if schema.intercept:
        mean[-1] = 1.0
    return np.outer(mean, mean) + covariance


def spans_of(schema: Schema) -> Floats:
    """(p,) the declared range of each rule's quantity; 1 for a level or an indicator, 2 for a sine.
    Without the intercept."""
    spans = []
    for column in schema.columns:
        if isinstance(column, CategoricalColumn):
            spans += [1.0] * len(column.rules)
            continue
        ends = column.encoded(np.array([column.low, column.high]))
        for k, rule in enumerate(column.rules):
            wide = 1.0 if k >= ends.shape[1] else (2.0 if ends.shape[1] > 1 else np.ptp(ends))
            spans.append(float(wide) / abs(rule.slope))
    return np.array(spans)


def reference_notes(schema: Schema) -> list[str]:
    """With which levels the others of their column are compared, in a sentence."""
    rules = schema.rules
    named = [rules[j].quantity for j in references_of(schema).values()]
    if not named:
        return []
    return [
        f"Levels are compared with the reference of their column: {', '.join(named)}. The "
        f"intercept is for a record with these. The effect of noise alone on a difference between "
        f"levels is not known; intervals cover it."
    ]


def no_units_note(schema: Schema) -> str | None:
    """Why the weights of a schema's features have no original unit; None where they have."""
    if schema.additive:
        return (
            "The model is additive: its weights are those of smooth functions and have neither an "
            "original unit nor an interval; `tacenda shapes` shows the curves."
        )
    return shortening_note(schema) if schema.shortened_by > 1.0 else None


def shortening_note(schema: Schema) -> str:
    """Why a schema with a small row_norm has no original units, in one sentence."""
    return (
        f"The schema's row_norm ({schema.row_scale:.4g}) shortens rows by a factor of up to "
        f"{schema.shortened_by:.3g}, so a coefficient has no original unit and no interval; leave "
        "row_norm out to have both."
    )
