"""Where the values of a column lie within its bounds. Everything here is read from the records
without noise: it is for the eyes of whoever holds them, and goes into no released file."""

from __future__ import annotations

import math
import warnings

import numpy as np

from tacenda._types import Floats
from tacenda.data.cells import column_numbers
from tacenda.data.columns import NumericColumn
from tacenda.data.schema import Schema
from tacenda.data.table import Table

MOST = 0.9  # the share of the values that should use more than a corner of the range
CORNER = 0.05  # of the range: with less than this for most values, a model hardly tells them apart
LEAST_VALUES = 200  # fewer say little about where most values lie
LEAST_DISTINCT = 5  # with fewer, such as a flag's 0 and 1, the distance between them says nothing
LOOK_AT = 10_000  # records, evenly over the table: a look, not a second reading
INNER = 0.99
NAMED = 3  # columns in one warning


class SqueezedColumnWarning(UserWarning):
    """Most values of a column lie in a corner of its declared range; read from the data."""


def outward(values: Floats) -> tuple[float, float] | None:
    """The extremes, rounded outwards to two digits of the larger magnitude, or finer where that
    would widen a narrow range; None where there are not two different ones, or they are too far
    apart for a float."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    low, high = float(finite.min()), float(finite.max())
    if low == high or not math.isfinite(high - low):
        return None
    size = min(max(abs(low), abs(high)) / 10, (high - low) / 5)
    step = 10.0 ** max(math.floor(math.log10(size)), -300) if size else 1e-300
    # Products such as 3 * 0.1 are cleaned by a second rounding to the step's own digits.
    digits = max(0, 1 - math.floor(math.log10(step)))
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    rounded = min(round(ends[0], digits), low), max(round(ends[1], digits), high)
    return rounded if math.isfinite(rounded[1] - rounded[0]) else (low, high)


def inner(values: Floats) -> tuple[float, float] | None:
    """Bounds within which 99 % of the values are, half of the others on either side, rounded
    outwards; None where these are all alike."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    tail = (1 - INNER) / 2
    low = np.quantile(finite, tail, method="lower")
    high = np.quantile(finite, 1 - tail, method="higher")
    return outward(np.array([low, high]))


def used_share(units: Floats) -> float | None:
    """Which part of [0, 1] the shortest interval with 90 % of these values takes; None for too few.

    A value that more than half of the records share (no gain, no loss) is left aside: the others
    are what a model has to tell apart.
    """
    distinct, counts = np.unique(units, return_counts=True)
    if len(units) and counts.max() > len(units) / 2:
        units = units[units != distinct[counts.argmax()]]
        distinct = distinct[distinct != distinct[counts.argmax()]]
    if len(units) < LEAST_VALUES or len(distinct) < LEAST_DISTINCT:
        return None
    ordered = np.sort(units)
    most = math.ceil(MOST * len(ordered))
    return float((ordered[most - 1 :] - ordered[: len(ordered) - most + 1]).min())


def squeezed(schema: Schema, table: Table) -> list[str]:
    """One sentence for each column of which most values lie in a corner of the declared range, with
    the consequence and the remedy. Read off the data."""
    some = table.some(LOOK_AT)
    numbers = [
        c for c in schema.columns if isinstance(c, NumericColumn) and c.transform != "cyclic"
    ]
    label = schema.label
    if label.low is not None and label.high is not None:
        numbers.append(NumericColumn(name=label.name, low=label.low, high=label.high))
    found = []
    for column in numbers:
        values, missing = column_numbers(schema, column, some, np.ones(len(some), bool))
        sentence = _sentence(column, values[~missing], column.name == label.name)
        if sentence is not None:
            found.append(sentence)
    return found


def warn_squeezed(schema: Schema, table: Table, stacklevel: int) -> None:
    """One warning for all such columns."""
    found = squeezed(schema, table)
    if found:
        more = f" The same holds for {len(found) - NAMED} more columns." if found[NAMED:] else ""
        warnings.warn(
            f"{' '.join(found[:NAMED])}{more} (This was read from the data: it is for you alone; "
            "declare only what is publicly known.)",
            SqueezedColumnWarning,
            stacklevel=stacklevel + 1,
        )


def _sentence(column: NumericColumn, values: Floats, label: bool) -> str | None:
    share = _share(column, values)
    if share is None or share >= CORNER:
        return None
    remedies = []
    if column.transform == "clip" and column.low > -1 and not label:
        as_log = column.model_copy(update={"transform": "log1p"})
        better = _share(as_log, values)
        if better is not None and better > max(3 * share, CORNER):
            remedies.append("declare transform = 'log1p'")
    near = inner(values)
    if near is not None and near[1] - near[0] < 0.5 * (column.high - column.low):
        remedies.append(
            f"declare bounds nearer to low = {near[0]:g} and high = {near[1]:g}, within which "
            "99 % of them lie"
        )
    remedy = ", or ".join(remedies) or "declare narrower bounds"
    loss = (
        "their differences are lost in the noise"
        if label
        else "the model hardly sees how they differ"
    )
    return (
        f"90 % of the values of {column.name!r} lie in {100 * share:.2g} % of the declared range "
        f"[{column.low:g}, {column.high:g}], so {loss}: {remedy}."
    )


def _share(column: NumericColumn, values: Floats) -> float | None:
    """`used_share` of the encoded range."""
    column = column.linear  # hats have no range of their own
    ends = column.encoded(np.array([column.low, column.high]))[:, 0]
    return used_share((column.encoded(values)[:, 0] - ends[0]) / (ends[1] - ends[0]))
