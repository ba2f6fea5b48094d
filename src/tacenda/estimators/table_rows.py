"""The rows of an estimator's table of coefficients, in the user's own scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.estimators.scaling import Scaling
from tacenda.inference.design import INTERCEPT, Design


def design_of(
    scaling: Scaling,
    names: Sequence[str],
    score: tuple[float, float],
    intercept: bool,
    categories: Sequence[Sequence[int]] = (),
) -> Design:
    """The rows of the table in the user's scale, coefficients and then the intercept, and what
    is redundant: the columns of each category add up to 1.

    score: what the scaled score 0 is in the user's own, and what one unit of it is. intercept:
    whether it has a row.
    """
    centre, unit = score
    p, constant = len(scaling.scale), scaling.constant
    d = p + (constant is not None)
    coef, constants = scaling.back(np.eye(d))
    own, base = coef.T.copy(), constants.copy()  # (p, d), (d,)
    for reference, *others in categories:
        base += own[reference]
        own[others] -= own[reference]
    rows = [j for j in range(p) if all(j != group[0] for group in categories)]
    shown = [names[j] for j in rows]
    matrix, offset = own[rows] * unit, np.zeros(len(rows))
    if intercept:
        matrix = np.vstack([matrix, base * unit])
        offset = np.append(offset, centre)
        shown.append(INTERCEPT)
    # x = centre + u / scale: the sum of a category's columns, as a function of the row
    sums = []
    for group in categories:
        sum_of = np.zeros(d)
        sum_of[group] = 1 / scaling.scale[list(group)]
        if constant is not None:
            sum_of[-1] = (scaling.centre[list(group)].sum() - 1.0) / constant
        sums.append(sum_of)
    redundant = sums if constant is not None else [a - b for a, b in pairwise(sums)]
    return Design(
        tuple(shown),
        matrix,
        offset,
        np.array(redundant).reshape(-1, d),
        None if constant is None else np.eye(d)[-1] / constant,
        _even_moment(scaling, categories),
    )


def _even_moment(scaling: Scaling, categories: Sequence[Sequence[int]]) -> Array | None:
    """(d, d) the mean of xx' for records spread evenly over the declared bounds, columns
    independent; None where there are no bounds."""
    if scaling.low is None or scaling.high is None:
        return None
    middle, variance = (scaling.low + scaling.high) / 2, (scaling.high - scaling.low) ** 2 / 12
    covariance = np.diag(variance)
    for group in categories:
        own, count = np.ix_(group, group), len(group)
        middle[list(group)] = 1 / count
        covariance[own] = np.eye(count) / count - 1 / count**2
    mean = (middle - scaling.centre) * scaling.scale
    covariance = covariance * np.outer(scaling.scale, scaling.scale)
    if scaling.constant is not None:
        mean = np.append(mean, scaling.constant)
        covariance = np.pad(covariance, ((0, 1), (0, 1)))
    return np.asarray(np.outer(mean, mean) + covariance)


def category_places(groups: Sequence[Sequence[Any]], names: Sequence[str]) -> list[list[int]]:
    """Declared categories as positions of columns."""
    p, found = len(names), []
    for group in groups:
        own = [
            names.index(checks.one_of("categories", c, names))
            if isinstance(c, str)
            else checks.whole("categories", c)
            for c in group
        ]
        if len(own) < 2 or max(own) >= p:
            raise InputError(
                f"categories must be groups of at least two of the {p} columns, not "
                f"{list(group)!r}; name the indicators of one category in each."
            )
        found.append(own)
    used = [j for own in found for j in own]
    if len(set(used)) < len(used):
        raise InputError("categories must not name a column twice; each has one category.")
    return found
